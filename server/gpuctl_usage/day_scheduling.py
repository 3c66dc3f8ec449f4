"""Schedule of daily rollups: a day is due when its hours are final."""

from __future__ import annotations

from gpuctl.objects.durations import DAY, HOUR
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.hour_scheduling import LOG, log_discrepancies
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.hours import PeriodLength


class DayRoller:
    """Rolls up the days of one cluster as soon as all their hours are final."""

    def __init__(self, database: Database, cluster: int) -> None:
        self._database = database
        self._cluster = cluster
        self._first = 0
        self._touched: set[int] = set()

    def begin(self, now: float) -> None:
        """Find the days that are missing or provisional."""
        hours = self._database.hours(self._cluster, 0, int(now))
        days = self._database.hours(self._cluster, 0, int(now), PeriodLength.DAY)
        self._first = min(hours, default=0)
        there = {start // DAY * DAY for start in hours}
        self._touched = {day for day in there if day not in days or days[day].provisional}

    def touch(self, hour: int) -> None:
        """Check the day of an hour that was rolled up."""
        self._first = min(self._first or hour, hour)
        self._touched.add(hour // DAY * DAY)

    def due(self, now: float) -> int | None:
        """Return the earliest day to roll up; None if no day is due."""
        for day in sorted(self._touched):
            if day + DAY <= now and self._is_whole(day):
                return day
            # Checked again when one of its hours is rolled up.
            self._touched.discard(day)
        return None

    def roll(self, day: int) -> bool:
        """Roll up a day; return True if it differs from the stored one.

        :raises DatabaseProblem: the database cannot be read or written.
        """
        hours = self._database.rolled_up(self._cluster, day, day + DAY)
        rolled = add_up(hours, self._database.holdings(self._cluster, day, day + DAY))
        log_discrepancies(rolled, "the ledger of a day does not close")
        self._touched.discard(day)
        changed = self._database.put_day(self._cluster, rolled, {hour.start: hour.digest for hour in hours})
        if changed is None:
            self._touched.add(day)
        else:
            told = {"day": format_timestamp(day)[:10], "hours": len(hours), "changed": changed}
            LOG.info("day rolled up", extra=told)
        return bool(changed)

    def roll_due(self, now: float) -> int:
        """Roll up all days that are due; return how many differ from the stored ones."""
        changed = 0
        while (day := self.due(now)) is not None:
            changed += self.roll(day)
        return changed

    def _is_whole(self, day: int) -> bool:
        known = self._database.hours(self._cluster, day, day + DAY)
        wanted = range(max(day, self._first), day + DAY, HOUR)
        return bool(known) and all(start in known and not known[start].provisional for start in wanted)
