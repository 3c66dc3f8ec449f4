"""Repeated rollup of past hours, while a collector may be running."""

from __future__ import annotations

import threading

from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.durations import HOUR
from gpuctl_usage.collector_context import CannotCollect, CollectorContext, cannot_collect, open_context
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
        site.roller.begin(now)
        site.days.begin(now)
        first = max(start, site.roller.first_hour() or 0)
        hours = [hour for hour in hours_between(first, min(end, hour_of(now))) if _is_known(site, hour)]
        changed = 0
        for hour in hours:
            changed += site.roller.roll(hour, now, even_if_less=even_if_less)
            site.days.touch(hour)
        site.days.roll_due(now)
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
