"""The cause of a failure in one sentence, for commands that wait for a job."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.why.explanation import why
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.waiting_reasons import WaitingReasons

MOST_ALONE = 20
"""Maximum number of jobs that are explained one by one: each needs lists and logs of its own."""

# Causes that add nothing to "failed", or that do not mean a failure.
_EMPTY = frozenset({"unknown", "running", "starting", "succeeded", "backoff-limit", "terminating", "scheduled"})


def finding_of(scope: Scope, job: Job, keys: Records, settings: Settings) -> Finding | None:
    """Return the finding of `gpuctl why`; None if it adds nothing to the job's own conditions."""
    try:
        found = why(Scope(scope.session, job.identity.namespace), job, keys, settings).finding
    except ClusterError:
        return None
    return None if found.cause in _EMPTY else found


def cause_of(scope: Scope, job: Job, keys: Records, settings: Settings) -> str:
    """Return the message of :func:`finding_of`; "" without one."""
    found = finding_of(scope, job, keys, settings)
    return "" if found is None else found.message


def causes_of(scope: Scope, jobs: Sequence[Job], keys: Records, settings: Settings) -> dict[Identity, str]:
    """Return the causes of several jobs, "" for an unknown one.

    Jobs that wait are explained together: each alone would read all nodes and pods. Of the others only the first
    :data:`MOST_ALONE` are explained.
    """
    found: dict[Identity, str] = {}
    for namespace in {job.identity.namespace for job in jobs}:
        here = [job for job in jobs if job.identity.namespace == namespace]
        if len(here) > 1:
            with contextlib.suppress(ClusterError):
                reasons = WaitingReasons(Scope(scope.session, namespace), keys, settings).of(here)
                found |= {identity: reason.summary for identity, reason in reasons.items()}
    alone = [job for job in jobs if job.identity not in found]
    return found | {job.identity: cause_of(scope, job, keys, settings) for job in alone[:MOST_ALONE]}
