"""Schedule of hourly rollups: which hours are due, provisional or final, and the inputs of each."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuctl.objects.durations import DAY, HOUR
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.collector_health import CollectorHealth, HourFigures
from gpuctl_usage.facts import GpuSeries, Holding, SharedGpuMetrics, UsageKeys
from gpuctl_usage.gathering.gpu_samples import CollectionInterrupted, GpuSamples, PodPlace
from gpuctl_usage.prometheus import PrometheusProblem
from gpuctl_usage.rollup import quotients
from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.rollup.hour import reach, roll_up
from gpuctl_usage.rollup.ledger import Discrepancy, discrepancies
from gpuctl_usage.rollup.merged_measurements import MissingMeasurements, find_reduced_coverage, merge_measurements
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.store.hours import HourState, PeriodLength, missed
from gpuctl_usage.store.measurements import KEPT
from gpuctl_usage.sums import RolledUp, Sums

LOG = logging.getLogger("gpuctl_usage")
ROLL_UP_AFTER = 90.0
"""Seconds after the end of an hour at which it is rolled up; by then the last samples have been scraped."""
FINAL_AFTER = 15 * 60.0
"""Seconds after the end of an hour at which it can become final; incomplete coverage keeps it provisional longer."""
GIVE_UP_AFTER = 6 * HOUR
"""Seconds after the end of an hour at which it becomes final whatever its coverage."""
FULL_COVERAGE = 0.98
"""Coverage that is enough for an hour to become final."""
_RETRY_AFTER = 15 * 60.0
_RETRY_SOON = 15.0
_DELETED = HourState(provisional=False, digest="", coverage=None, seconds=float(HOUR))
"""State of an hour that has expired. It is never rolled up again: intervals that ended by then are deleted too, and
Prometheus may have lost its measurements.
"""
_MAX_LOGGED = 5
"""Maximum number of discrepancies of an hour that are logged; each log line has their total number."""


class HourRoller:
    """Rolls up the hours of one cluster, and keeps track of which are due.

    :param samples: None if no Prometheus is configured.
    :param interval: seconds between scrapes.
    :param health: updated with each hour.
    """

    def __init__(
        self,
        database: Database,
        cluster: int,
        samples: GpuSamples | None,
        interval: float,
        keys: UsageKeys,
        health: CollectorHealth | None = None,
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._samples = samples
        self._interval = interval
        self._keys = keys
        self._health = health or CollectorHealth()
        self._states: dict[int, HourState] = {}
        self._not_before: dict[int, float] = {}
        self._lost: dict[int, float] = {}
        self._first_stored: int | None = None
        self._begun: int | None = None

    def begin(self, now: float) -> None:
        """Read which hours are stored; hours that are missing after the first stored one, or if none is stored, after
        collecting began, become due.
        """
        self._states = self._database.hours(self._cluster, 0, hour_of(now) + HOUR)
        self._first_stored = min(self._states, default=None)
        self._begun = hour_of(now)
        for day in self._database.hours(self._cluster, 0, hour_of(now), PeriodLength.DAY):
            for start in range(day, day + DAY, HOUR):
                self._states.setdefault(start, _DELETED)
        # Ledgers that did not close before a restart still count as open.
        for rolled in self._database.rolled_up(self._cluster, hour_of(now) - DAY, hour_of(now)):
            self._report_hour(rolled, discrepancies(rolled))

    def late(self, since: float, now: float) -> None:
        """Make the hours from a time on due again: a change that happened then has just become known."""
        begun = hour_of(now) if self._begun is None else self._begun
        first = begun if self._first_stored is None else self._first_stored
        for start in range(max(hour_of(since), first), hour_of(now), HOUR):
            known = self._states.get(start)
            if known is not None:
                self._states[start] = known._replace(provisional=True)
            self._not_before[start] = 0.0

    def first_hour(self) -> int | None:
        """Return the first hour that can be rolled up; None if that is not known. Before collecting began nothing is
        known, and intervals that ended before the first stored hour are deleted.

        :raises DatabaseProblem: the database cannot be read.
        """
        return self._first_since(self._database.began(self._cluster))

    def _first_since(self, began: float | None) -> int | None:
        # Collecting begins when all kinds are listed, which may be hours after :meth:`begin`.
        hours = (self._first_stored, None if began is None else hour_of(began))
        return max((hour for hour in hours if hour is not None), default=None)

    def due(self, now: float) -> int | None:
        """Return the earliest completed hour that is due; None if no hour is due.

        :raises DatabaseProblem: the database cannot be read.
        """
        if self._begun is None:
            return None
        first = self.first_hour()
        for start in range(self._begun if first is None else first, hour_of(now), HOUR):
            known = self._states.get(start)
            if now < start + HOUR + ROLL_UP_AFTER or now < self._not_before.get(start, 0.0):
                continue
            if known is None or known.provisional:
                return start
        return None

    def roll(self, start: int, now: float, *, even_if_less: bool = False) -> bool:
        """Roll up an hour, or the elapsed part of it; return True if it differs from the stored one.

        Measurements that are not available now are requested again later. Stored measurements of a pod on a node are
        kept even if Prometheus has lost them; the loss is logged.

        :param even_if_less: replace stored measurements by the ones that Prometheus has now, even if they cover less
            time.
        :raises DatabaseProblem: the database cannot be read or written.
        """
        try:
            return self._roll(start, now, even_if_less)
        except CollectionInterrupted:
            return False
        except DatabaseProblem:
            # The inputs are unchanged: retry soon.
            self._not_before[start] = now + _RETRY_SOON
            raise

    def _roll(self, start: int, now: float, even_if_less: bool) -> bool:
        begun = time.monotonic()
        seconds = min(float(HOUR), now - start)
        # Capacities before the start of collecting are unknown, although the start times of pods are known.
        first = start + missed(start, self._database.began(self._cluster))
        over = seconds == HOUR
        if over:
            # Only completed hours wait for a retry: a running one is due when it ends.
            self._not_before[start] = now + _RETRY_AFTER
        known = self._states.get(start)
        if self._is_deleted(start):
            self._states[start] = _DELETED
            return False
        changes = self._database.late_changes(self._cluster)
        earlier = self._database.measurements(self._cluster, start)
        measured, lost = self._merged(start, earlier, self._measured(start, first, seconds, now), even_if_less)
        may_improve = now < start + HOUR + GIVE_UP_AFTER
        if measured is None and known is not None and known.coverage and may_improve:
            # The stored hour has measurements, and this one would have none.
            return False
        rolled = self._rolled(start, first, seconds, measured or [])
        coverage = quotients.coverage(rolled.sums[CLUSTER])
        found = log_discrepancies(rolled, "the ledger of an hour does not close")
        if earlier is None:
            # The measurements are no longer stored: the hour is replaced as a whole or not at all.
            before = self._database.rolled_up(self._cluster, start, start + HOUR)
            lost = [item for hour in before for item in find_reduced_coverage(hour, rolled)]
        is_replaced = even_if_less and measured is not None
        self._log_missing_measurements(start, lost, is_replaced)
        if known is not None and earlier is None and lost and not is_replaced:
            self._states[start] = known._replace(provisional=may_improve)
            self._database.set_hour_provisional(self._cluster, start, may_improve)
            return False
        provisional = not (over and self._is_settled(start, coverage, now))
        is_new = earlier is None or known is None or rolled.digest != known.digest
        is_kept = provisional or now < start + HOUR + KEPT
        changed = self._database.put_rolled_up(
            *(self._cluster, rolled, provisional),
            late_changes=changes,
            measured=measured if is_new and is_kept else None,
        )
        provisional = self._database.hours(self._cluster, start, start + HOUR)[start].provisional
        self._states[start] = HourState(provisional, rolled.digest, coverage, rolled.seconds)
        self._report_hour(rolled, found)
        if not provisional:
            self._not_before.pop(start, None)
        if over and (changed or not provisional):
            told = {"hour": format_timestamp(start), "provisional": provisional, "changed": changed}
            more = {"coverage": None if coverage is None else round(coverage, 4)}
            LOG.info("hour rolled up", extra={**told, **more, "seconds": round(time.monotonic() - begun, 2)})
        return changed

    def _is_deleted(self, start: int) -> bool:
        """Return True if an hour was stored and has expired: a day is stored when all its hours are."""
        if self._database.hours(self._cluster, start, start + HOUR):
            return False
        day = start // DAY * DAY
        return start in self._states or bool(self._database.hours(self._cluster, day, day + DAY, PeriodLength.DAY))

    def _report_hour(self, rolled: RolledUp, found: list[Discrepancy]) -> None:
        whole = rolled.sums.get(CLUSTER, Sums())
        figures = quotients.coverage(whole), len(found)
        is_whole = rolled.known_until == rolled.start + HOUR
        hour = HourFigures(rolled.start, is_whole, whole.samples, rolled.dropped, *figures)
        self._health.hour_rolled_up(hour, hour.start - DAY)
        began = self._database.began(self._cluster)
        until = self._first_since(began)
        if until is None:
            until = rolled.start if self._begun is None else self._begun
        while (known := self._states.get(until)) is not None and known.seconds == HOUR - missed(until, began):
            until += HOUR
        self._health.rolled_until = float(until)

    def _log_missing_measurements(self, start: int, lost: Sequence[MissingMeasurements], is_replaced: bool) -> None:
        """Log the measurements of an hour that Prometheus has lost, once for each amount."""
        amount = round(sum(item.gpu_s for item in lost) / HOUR, 2)
        if lost and self._lost.get(start) != amount:
            self._lost[start] = amount
            places = sorted({"/".join(filter(None, item[:3])) for item in lost})
            more = f" and {len(places) - _MAX_LOGGED} more" if len(places) > _MAX_LOGGED else ""
            # The message has all values because `gpuctl usage rollup` prints no log fields.
            LOG.warning(
                "hour %s: Prometheus has lost %s GPU-hours of stored measurements, of %s%s: %s",
                *(format_timestamp(start), f"{amount:g}", ", ".join(places[:_MAX_LOGGED]), more),
                "the stored measurements are replaced" if is_replaced else "the stored measurements are kept",
                extra={"hour": format_timestamp(start), "gpu_hours": amount},
            )

    def _held(self, first: float, end: float) -> list[Holding]:
        # Includes the reach after the end: the first measurement after it covers the time before, whatever the pod's
        # labels are by then.
        return self._database.holdings(self._cluster, first, end + reach(self._interval))

    def _merged(
        self, start: int, earlier: list[GpuSeries] | None, measured: list[GpuSeries] | None, even_if_less: bool
    ) -> tuple[Sequence[GpuSeries] | None, Sequence[MissingMeasurements]]:
        """Return the measurements to roll up (None without any), and the stored ones that Prometheus has lost.

        :param earlier: the stored measurements; None if they are deleted.
        :param measured: the measurements in Prometheus; None if it does not answer.
        """
        if earlier is None:
            return measured, ()
        combined = merge_measurements(earlier, measured or [], start, reach(self._interval))
        if measured is None:
            return combined.series, ()
        return measured if even_if_less else combined.series, combined.lost

    def _measured(self, start: int, first: float, seconds: float, now: float) -> list[GpuSeries] | None:
        """Return the measurements that Prometheus has of an hour; None if it does not answer."""
        try:
            return self._read_measurements(first, start + seconds, now)
        except CollectionInterrupted:
            raise
        except PrometheusProblem as error:
            self._health.unanswered += 1
            LOG.warning(
                "the measurements of an hour cannot be read",
                extra={"hour": format_timestamp(start), "problem": str(error)},
            )
            return None

    def _read_measurements(self, first: float, end: float, now: float) -> list[GpuSeries]:
        held = self._held(first, end)
        if self._samples is None or not held:
            return []
        last = min(end + math.ceil(reach(self._interval)), now)
        nodes = {capacity.node for capacity in self._database.capacities(self._cluster, first, end)}
        places = {PodPlace(holding.node, holding.namespace, holding.pod) for holding in held}
        return self._samples.series(first, last, nodes, places)

    def _rolled(self, start: int, first: float, seconds: float, samples: Sequence[GpuSeries]) -> RolledUp:
        end = start + seconds
        held, there = self._held(first, end), self._database.capacities(self._cluster, first, end)
        if first > start:
            held = [item._replace(start=max(item.start, first)) for item in held]
            there = [item._replace(start=max(item.start, first)) for item in there]
        rolled = roll_up(
            start,
            seconds,
            held,
            there,
            samples,
            self._interval,
            label_keys=self._keys.labels,
            annotation_keys=self._keys.annotations,
            shared=SharedGpuMetrics.COPIES if self._samples is None else self._samples.shared,
        )
        return replace(rolled, seconds=seconds - (first - start), missed=first - start)

    def _is_settled(self, start: int, coverage: float | None, now: float) -> bool:
        since = now - (start + HOUR)
        # While the API server is unreachable, some holdings of the end of the hour may still be unknown.
        if since < FINAL_AFTER or (self._database.last_seen(self._cluster) or 0.0) < start + HOUR:
            return False
        return self._samples is None or coverage is None or coverage >= FULL_COVERAGE or since >= GIVE_UP_AFTER


def hour_of(moment: float) -> int:
    """Return the start of the hour that contains a time."""
    return int(moment // HOUR) * HOUR


def hours_between(start: float, end: float) -> Iterable[int]:
    """Return the hours that overlap [start, end)."""
    return range(hour_of(start), math.ceil(end), HOUR)


def log_discrepancies(rolled: RolledUp, said: str) -> list[Discrepancy]:
    """Log the ledgers that do not close: more GPUs held than existed, or something counted twice. Return all
    discrepancies.
    """
    found = discrepancies(rolled)
    for item in found[:_MAX_LOGGED]:
        where = " ".join(filter(None, (item.group.level.value, item.group.key, item.group.value)))
        told = {
            "hour": format_timestamp(rolled.start),
            "where": where,
            "what": item.what,
            "missing": round(item.missing, 3),
        }
        LOG.error(said, extra={**told, "found": len(found)})
    return found
