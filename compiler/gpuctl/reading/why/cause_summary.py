"""Why a job failed, or does not start, in one sentence: for commands that wait for it and have to say how it ended."""

from __future__ import annotations

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.job_rows import Job
from gpuctl.reading.why.explanation import why

# What says no more than that the job has failed, or does not say that it has.
_EMPTY = frozenset({"unknown", "running", "starting", "succeeded", "backoff-limit", "terminating"})


def cause_of(scope: Scope, job: Job, keys: Records, settings: Settings) -> str:
    """What ``gpuctl why`` would answer, or "" where it knows no more than the job's own conditions."""
    try:
        found = why(Scope(scope.session, job.identity.namespace), job, keys, settings).finding
    except ClusterError:
        return ""
    return "" if found.cause in _EMPTY else found.message
