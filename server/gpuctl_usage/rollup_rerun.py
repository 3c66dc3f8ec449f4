"""Repeated rollup of past hours, while a collector may be running."""

from __future__ import annotations

import threading

from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.durations import HOUR
from gpuctl_usage.collector_context import CannotCollect, CollectorContext, cannot_collect, hour_roller, open_context
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.hour_scheduling import hour_of, hours_between
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.usage_settings import UsageSettings


def rerun_rollup(settings: UsageSettings, start: float, end: float, *, even_if_less: bool = False) -> tuple[int, int]:
    """Roll up all completed hours with data that overlap [start, end); return their number, and how many changed.

    :param even_if_less: replace stored measurements by the ones that Prometheus has now, even if they cover less time.
    :raises CannotCollect: the cluster, the database, Prometheus or a setting cannot be used.
    """
    site = open_context(settings, threading.Event(), renames=False)
    try:
        if even_if_less and site.samples is None:
            raise CannotCollect("--even-if-less needs a Prometheus; set it with --prometheus")
        now = site.session.server_time()
        hourly, daily = hour_roller(site, settings), DayRoller(site.database, site.cluster)
        hourly.begin(now)
        daily.begin(now)
        first = max(start, hourly.first_hour() or 0)
        hours = [hour for hour in hours_between(first, min(end, hour_of(now))) if _is_known(site, hour)]
        changed = 0
        for hour in hours:
            changed += hourly.roll(hour, now, even_if_less=even_if_less)
            daily.touch(hour)
        daily.roll_due(now)
        return len(hours), changed
    except ClusterError as error:
        raise cannot_collect(error) from None
    except DatabaseProblem as error:
        raise CannotCollect(str(error)) from None
    finally:
        site.session.close()
        site.database.close()


def _is_known(site: CollectorContext, hour: int) -> bool:
    times = site.cluster, float(hour), float(hour + HOUR)
    return bool(site.database.capacities(*times) or site.database.holdings(*times))
