"""The jobs that ``gpuctl pause`` can pause now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.queueing import is_paused
from gpuctl.objects.workload_state import end_state
from gpuctl.reading.jobs.job_objects import Job


def pausable_jobs(jobs: Iterable[Job], keys: Records) -> dict[str, str]:
    """Return uid of the workload -> name by which ``gpuctl pause`` finds the job in its namespace.

    Jobs that have ended, are ending, or are already paused are left out.
    """
    found = list(jobs)
    called = Counter((job.identity.namespace, job.identity.name) for job in found)
    names = {}
    for job in found:
        workload, identity = job.workload, job.identity
        if workload is None or workload["metadata"].get("deletionTimestamp") or end_state(workload):
            continue
        if is_paused(workload, keys):
            continue
        # A bare name would be ambiguous for two kinds with one name, or two generations of one job.
        alone = called[identity.namespace, identity.name] == 1
        names[str(workload["metadata"]["uid"])] = identity.name if alone else f"{identity.kind}/{identity.object_name}"
    return names
