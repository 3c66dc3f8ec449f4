"""GPUs that namespaces may hold over time, compared with sums over single seconds for all steps and time zones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from sqlalchemy import delete

from gpuctl.objects.durations import DAY, HOUR
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.answers.hourly_answers import HoursQuery, namespace_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.steps import StepUnit, bounds, zone_of
from gpuctl_usage.facts import Capacity, CapacityState, GpuQuota, Holding, WorkloadKey
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.database_tables import periods
from gpuctl_usage.store.engines import engine_of, url_of, write_transaction
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Level
from properties.scale import part_of
from support.usage_oracle import allowed

MIDNIGHT = 1_762_300_800
"""2025-11-05T00:00:00Z."""
FIRST, LAST = MIDNIGHT + 20 * HOUR, MIDNIGHT + 51 * HOUR + 1800
"""The last hours of a day, a whole day, and three and a half hours."""
NAMESPACES = ("blue", "green", "red")
SPLITS = [
    *((StepUnit.HOUR, ""), (StepUnit.DAY, ""), (StepUnit.DAY, "Asia/Kolkata"), (StepUnit.DAY, "America/New_York")),
    *((StepUnit.WEEK, "Asia/Shanghai"), (StepUnit.MONTH, "Europe/Berlin"), (StepUnit.TOTAL, "")),
]


def history(random: Random) -> list[GpuQuota]:
    """Return quotas that are created, changed and deleted within hours; a namespace may have no quota for a while."""
    found = []
    for namespace in NAMESPACES[: random.randint(1, 3)]:
        times = sorted(random.sample(range(FIRST - 2 * HOUR, LAST + HOUR), random.randint(2, 9)))
        if random.random() < 0.4:
            times[0] = FIRST + random.randrange(24) * HOUR
            times.sort()
        spells: list[tuple[int, int | None]] = list(pairwise(times))
        if random.random() < 0.5:
            spells[-1] = (spells[-1][0], None)
        kept = [spell for spell in spells if random.random() < 0.75]
        found += [GpuQuota(namespace, random.choice([0.0, 0.5, 4.0, 24.0]), start, end) for start, end in kept]
    return found


def nodes(random: Random) -> list[Capacity]:
    """Return a node that stays, and one that joins and leaves within hours."""
    come, go = sorted(random.sample(range(FIRST, LAST), 2))
    other = Capacity("n2", "H100", 4, CapacityState.READY, come, go)
    return [Capacity("n1", "A100", 8, CapacityState.READY, FIRST - DAY, None), other]


def pods(random: Random) -> list[Holding]:
    found = []
    for number in range(9):
        key = WorkloadKey(random.choice(NAMESPACES), "Job", f"job-{number}", f"uid-{number}")
        start = random.randrange(FIRST - HOUR, LAST - HOUR)
        end = random.choice([None, start + random.randrange(600, 9 * HOUR)])
        where = ("n1", 1.0, "A100", {}, {}, float(start), None, end)
        found.append(Holding(f"pod-{number}", key.namespace, f"pod-{number}", key, *where))
    return found


class KnownStore:
    """A store and the facts in it."""

    def __init__(self, address: str, seed: int, quotas: list[GpuQuota] | None = None) -> None:
        random = Random(seed)
        self.address = address
        self.quotas, self.nodes, self.pods = history(random), nodes(random), pods(random)
        self.quotas = self.quotas if quotas is None else quotas
        self.database = open_database(address)
        self.cluster = self.database.put_cluster("uid", "lab")
        self.database.put_changes(self.cluster, quotas=self.quotas)
        # Quotas of another cluster do not count.
        self.database.put_changes(
            self.database.put_cluster("other", "other"), quotas=[GpuQuota("blue", 1000, FIRST - DAY, None)]
        )
        hours = [self._rolled(start) for start in range(FIRST, LAST, HOUR)]
        for hour in hours:
            self.database.put_rolled_up(self.cluster, hour, provisional=hour.seconds < HOUR)
        for midnight in (MIDNIGHT, MIDNIGHT + DAY):
            of_day = [hour for hour in hours if midnight <= hour.start < midnight + DAY]
            self.database.put_rolled_up(self.cluster, add_up(of_day, self.pods), False, span=PeriodLength.DAY)

    def _rolled(self, start: int) -> Any:
        return roll_up(start, min(HOUR, LAST - start), self.pods, self.nodes, [], 15)

    def forget_hours(self) -> None:
        """Delete the hours and keep the days, as pruning does after a year."""
        engine = engine_of(url_of(self.address))
        with write_transaction(engine) as connection:
            connection.execute(delete(periods).where(periods.c.span == "hour", periods.c.start < MIDNIGHT + 2 * DAY))
        engine.dispose()

    def most(self) -> dict[str, list[float]]:
        """Return namespace -> cumulative GPU-seconds that it may hold, second by second."""
        each = allowed(self.quotas, self.nodes, NAMESPACES, FIRST, LAST)
        return {namespace: list(accumulate(of_second, initial=0.0)) for namespace, of_second in each.items()}

    def held(self, namespace: str, start: int, end: int) -> float:
        """Return the GPU-seconds that a namespace held."""
        theirs = [pod for pod in self.pods if pod.namespace == namespace]
        return sum(max(0.0, min(pod.end or end, end) - max(pod.start, start)) * pod.gpus for pod in theirs)


@pytest.fixture(params=part_of(range(4), 4))
def known(request: pytest.FixtureRequest, address: str) -> Iterator[KnownStore]:
    found = KnownStore(address, request.param)
    yield found
    found.database.close()


def rows(database: Database, hours: HoursQuery, **more: Any) -> list[dict[str, Any]]:
    found = namespace_hours(database, hours, **more)
    assert isinstance(found, list)
    return found


def moment(text: str) -> int:
    """Return an answer's timestamp in Unix seconds."""
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def check(known: KnownStore, truth: dict[str, list[float]], step: StepUnit, tz: str) -> int:
    """Compare every row with the sum of its seconds; return the number of rows."""
    hours = replace(HoursQuery("lab", MIDNIGHT, MIDNIGHT + 3 * DAY), step=step, tz=tz)
    found = {(row["namespace"], row["stat_hour"]): row for row in rows(known.database, hours)}
    for begin, finish in pairwise(bounds(hours.start, hours.end, step, zone_of(tz))):
        start, end = max(begin, FIRST), min(finish, LAST)
        for namespace in NAMESPACES if start < end else ():
            row = found.get((namespace, format_timestamp(begin)))
            held = known.held(namespace, start, end)
            assert (row is not None) == (held > 0)
            if row is None:
                continue
            most = truth[namespace][end - FIRST] - truth[namespace][start - FIRST]
            where = namespace, step, tz, format_timestamp(begin)
            assert row["total_gpu_capacity"] == pytest.approx(most / (end - start), abs=0.0051), where
            if most > 0.001:
                assert row["allocation_rate"] == pytest.approx(100 * held / most, abs=0.0051), where
            else:
                assert row["allocation_rate"] is None, where
    of_ledger = ledger(known.database, hours, Level.NAMESPACE)
    assert isinstance(of_ledger, list)
    assert len(of_ledger) == len(found)
    for row in of_ledger:
        start, end = (min(max(moment(row[name]), FIRST), LAST) - FIRST for name in ("time", "end_time"))
        most = truth[row["value"]][end] - truth[row["value"]][start]
        assert row["allowed_gpu_seconds"] == pytest.approx(most, abs=0.01), (row, step, tz)
    return len(found)


def accounts(database: Database) -> list[dict[str, Any]]:
    """Return the ledger rows of the cluster and of namespaces, without the column that quotas change."""
    found: list[dict[str, Any]] = []
    for level in (Level.CLUSTER, Level.NAMESPACE):
        of_level = ledger(database, HoursQuery("lab", FIRST, LAST), level)
        assert isinstance(of_level, list)
        found += [{name: value for name, value in row.items() if name != "allowed_gpu_seconds"} for row in of_level]
    return found


def test_rows_equal_sums_over_seconds(known: KnownStore) -> None:
    before = accounts(known.database)
    truth = known.most()
    counts = [check(known, truth, *split) for split in SPLITS]
    assert counts[0] > counts[1] > 0
    # Quotas do not change the other columns of the ledger.
    known.database.put_changes(known.cluster, quotas=[GpuQuota(name, 1.0, FIRST - DAY, None) for name in NAMESPACES])
    assert accounts(known.database) == before
    assert all(row["closes"] for row in before)


def test_page_is_a_part_of_the_list(address: str) -> None:
    known = KnownStore(address, 2)
    for step in (StepUnit.HOUR, StepUnit.DAY):
        hours = replace(HoursQuery("lab", FIRST, LAST), step=step)
        whole = rows(known.database, hours)
        page = namespace_hours(known.database, replace(hours, paging=Paging(2, 4)))
        assert isinstance(page, dict)
        assert page["data"] == whole[4:8]
        one = whole[-1]["namespace"]
        assert rows(known.database, hours, namespace=one) == [row for row in whole if row["namespace"] == one]
    known.database.close()


def test_days_with_pruned_hours(address: str) -> None:
    """A cut day uses the cluster's average capacity over the day; the first day consists of its last hours."""
    change, end = FIRST + 1000, MIDNIGHT + DAY + 6 * HOUR
    quotas = [GpuQuota(name, 2, FIRST - DAY, change) for name in NAMESPACES]
    quotas += [GpuQuota(name, 6, change, end) for name in NAMESPACES]
    known = KnownStore(address, 1, quotas)
    database = known.database
    hours = replace(HoursQuery("lab", MIDNIGHT, MIDNIGHT + 2 * DAY), step=StepUnit.DAY)
    exact = rows(database, hours)
    known.forget_hours()
    there = sum(
        (min(node.end or LAST, MIDNIGHT + 2 * DAY) - max(node.start, MIDNIGHT + DAY)) * node.gpus
        for node in known.nodes
        if node.start < MIDNIGHT + 2 * DAY
    )
    first, second = (2 * 1000 + 6 * (4 * HOUR - 1000)) / (4 * HOUR), (6 * 6 + there / DAY * 18) / 24
    found = rows(database, hours)
    for row, before in zip(found, exact, strict=True):
        expected = first if row["stat_hour"] == format_timestamp(MIDNIGHT) else second
        assert row["total_gpu_capacity"] == pytest.approx(expected, abs=0.0051)
        assert row["stat_hour"] == before["stat_hour"]
    database.close()


@pytest.mark.parametrize("seconds", [1200, HOUR, HOUR + 1200])
def test_day_with_little_known_time(address: str, seconds: int) -> None:
    """The known time counts, although the rest of the day is unknown."""
    database = open_database(address)
    cluster = database.put_cluster("uid", "lab")
    start = MIDNIGHT + 10 * HOUR
    quotas = [GpuQuota("blue", 2, start, start + 600), GpuQuota("blue", 6, start + 600, start + seconds)]
    database.put_changes(cluster, quotas=[*quotas, GpuQuota("blue", 24, start + seconds, None)])
    there = [Capacity("n1", "A100", 8, CapacityState.READY, start, None)]
    key = WorkloadKey("blue", "Job", "train", "uid-1")
    pods = [Holding("pod-1", "blue", "pod-1", key, "n1", 1.0, "A100", {}, {}, start, None, None)]
    known = range(start, start + seconds, HOUR)
    of_day = [roll_up(hour, min(HOUR, start + seconds - hour), pods, there, [], 15) for hour in known]
    for hour in of_day:
        database.put_rolled_up(cluster, hour, False)
    database.put_rolled_up(cluster, add_up(of_day, pods), False, span=PeriodLength.DAY)
    hours = replace(HoursQuery("lab", MIDNIGHT, MIDNIGHT + DAY), step=StepUnit.DAY)
    (row,) = rows(database, hours)
    expected = (2 * 600 + 6 * (seconds - 600)) / seconds
    assert row["total_gpu_capacity"] == pytest.approx(expected, abs=0.0051)
    database.close()


def test_namespace_without_holdings_has_no_row(address: str) -> None:
    """A namespace with a quota that never held GPUs has no row."""
    known = KnownStore(address, 0)
    known.database.put_changes(known.cluster, quotas=[GpuQuota("never", 16, FIRST, None)])
    found = rows(known.database, HoursQuery("lab", FIRST, LAST), with_idle=True)
    assert {row["namespace"] for row in found} <= set(NAMESPACES)
    idle = [row for row in found if row["allocated_gpu_count"] == 0]
    assert idle
    truth = known.most()
    for row in idle:
        start = next(hour for hour in range(FIRST, LAST, HOUR) if format_timestamp(hour) == row["stat_hour"])
        end = min(start + HOUR, LAST)
        most = truth[row["namespace"]][end - FIRST] - truth[row["namespace"]][start - FIRST]
        assert row["total_gpu_capacity"] == pytest.approx(most / (end - start), abs=0.0051)
        assert row["allocation_rate"] == (0 if most > 0.001 else None)
    known.database.close()
