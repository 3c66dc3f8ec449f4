"""What a job's GPUs did in the last hours, where somebody has written it down."""

from __future__ import annotations

import time

from gpuctl.kube.api_errors import ClusterError
from gpuctl.reading.gpu_time import sum_gpu_times
from gpuctl.reading.usage_records import GroupUse, UsageRange, UsageView
from gpuctl.usecases.service_client import ServiceRefusal
from gpuctl.usecases.usage_backends import UsageBackend, is_refused
from gpuctl.usecases.usage_views import HOUR, timeline

HOURS = 24


def job_usage(way: UsageBackend, uid: str, namespace: str) -> UsageView | None:
    """A job's last :data:`HOURS` hours; None where nothing is known of them, or not to whoever asks.

    :param uid: of the object that runs it.
    :raises ClusterError: it cannot be answered.
    """
    now = time.time()
    asked = UsageRange(now // HOUR * HOUR - (HOURS - 1) * HOUR, now, namespace=namespace)
    try:
        rows = list(way.ledger("workload", asked, "hour", value=uid))
    except ClusterError as error:
        if is_refused(error) or _is_not_set_up(error):
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


def _is_not_set_up(error: ClusterError) -> bool:
    """Whether nobody has said that usage be kept: then there is nothing to complain of."""
    return isinstance(error, ServiceRefusal) and error.status == 503 and "is not set up" in error.message
