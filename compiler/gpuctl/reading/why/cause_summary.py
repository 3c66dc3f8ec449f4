"""The cause of a failure in one sentence, for commands that wait for a job."""

from __future__ import annotations

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.why.explanation import why
from gpuctl.reading.why.finding import Finding

# Causes that add nothing to "failed", or that do not mean a failure.
_EMPTY = frozenset({"unknown", "running", "starting", "succeeded", "backoff-limit", "terminating"})


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
