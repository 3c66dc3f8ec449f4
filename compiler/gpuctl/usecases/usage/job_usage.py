"""The usage of a job's GPUs in the last hours, if usage is collected."""

from __future__ import annotations

from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.durations import HOUR
from gpuctl.reading.usage.gpu_time import sum_gpu_times
from gpuctl.reading.usage.usage_records import GroupUse, UsageRange, UsageView
from gpuctl.usecases.service.service_client import USAGE_NOT_CONFIGURED, ServiceRefusal
from gpuctl.usecases.usage.usage_backends import UsageBackend, is_refused
from gpuctl.usecases.usage.usage_views import timeline

HOURS = 24


def job_usage(backend: UsageBackend, uid: str, namespace: str, now: float) -> UsageView | None:
    """Return a job's last :data:`HOURS` hours; None without data, or if the user may not see them.

    :param uid: uid of the workload.
    :param now: the time of the API server, by which usage is recorded; seconds since 1970.
    :raises ClusterError: the query failed.
    """
    asked = UsageRange(now // HOUR * HOUR - (HOURS - 1) * HOUR, now, namespace=namespace)
    try:
        rows = list(backend.ledger("workload", asked, "hour", value=uid))
    except ClusterError as error:
        if is_refused(error) or _is_not_configured(error):
            return None
        raise
    if not rows:
        return None
    times, by_time = timeline(rows), {(row.time, row.end): row.use for row in rows}
    total = sum_gpu_times(by_time.values())
    known_in = {(row.time, row.end): row.known for row in rows}
    group = GroupUse(rows[-1].holder, total, [by_time.get(span) for span in times])
    known = [known_in.get(span) for span in times]
    return UsageView("workload", "", asked, "hour", times, [group], 1, total, None, known_steps=known)


def _is_not_configured(error: ClusterError) -> bool:
    """Return True if the service collects no usage: that is not an error."""
    return isinstance(error, ServiceRefusal) and error.name == USAGE_NOT_CONFIGURED
