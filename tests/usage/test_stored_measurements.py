"""A rollup never replaces measurements with fewer: real database, one Prometheus with several shards, simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, Holding, RetentionDays, UsageKeys, WorkloadKey
from gpuctl_usage.gathering.gpu_samples import GpuSamples
from gpuctl_usage.hour_scheduling import GIVE_UP_AFTER, ROLL_UP_AFTER, HourRoller
from gpuctl_usage.prometheus import Prometheus
from gpuctl_usage.rollup.ledger import discrepancies
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Level
from support.prometheus_server import running_prometheus

BEGIN = 1_717_286_400 - HOUR
"""The last hour of 2024-06-01."""
END = BEGIN + HOUR
PODS = {"p": "n1", "q": "n1", "r": "n2"}
ALL = {"p": 1.0, "q": 1.0, "r": 1.0}
PARTS: dict[str, Mapping[str, tuple[int, int]]] = {
    "whole": {"p": (0, HOUR), "q": (0, HOUR), "r": (0, HOUR)},
    "first half": {"p": (0, 1800), "q": (0, 1800), "r": (0, 1800)},
    "without a node": {"p": (0, HOUR), "q": (0, HOUR)},
    "without a pod of a node": {"p": (0, HOUR), "r": (0, HOUR)},
    "without some minutes": {"p": (0, HOUR), "q": (600, HOUR), "r": (0, HOUR)},
    "the other half": {"p": (1800, HOUR), "q": (1800, HOUR), "r": (1800, HOUR)},
}
"""Shard -> pod -> the seconds of the hour that it has samples of."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """One Prometheus with the samples of all shards, told apart by the label `shard`."""
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for name, pods in PARTS.items():
        for pod, (first, last) in pods.items():
            gpu = list(PODS).index(pod)
            labels = f'gpu="{gpu}",Hostname="{PODS[pod]}",exported_namespace="a",exported_pod="{pod}",shard="{name}"'
            lines += [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 40 {BEGIN + at}" for at in range(first, last + 1, 15)]
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), history="\n".join(lines)) as url:
        yield lambda name: url


class OneShard(Prometheus):
    """A Prometheus client that queries only the series of one shard."""

    def __init__(self, address: str, shard: str) -> None:
        super().__init__(address)
        self._shard = f'shard="{shard}"'

    def at(self, query, time, patience):  # type: ignore[no-untyped-def]
        named = query.replace('"}[', f'",{self._shard}}}[').replace("UTIL[", f"UTIL{{{self._shard}}}[")
        return super().at(named, time, patience)

    def raw_samples(self, metric, start, end, patience):  # type: ignore[no-untyped-def]
        found = super().raw_samples(metric, start, end, patience)
        return [one for one in found if f'shard="{one.labels.get("shard")}"' == self._shard]


def holding(pod: str) -> Holding:
    key = WorkloadKey("a", "Job", "train", "u") if pod != "r" else WorkloadKey("a", "Job", "other", "o")
    return Holding(f"uid-{pod}", "a", pod, key, PODS[pod], 1, "m", {}, {}, BEGIN + 0.0, BEGIN + 0.0, None)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = open_database(str(tmp_path / "usage.db"))
    assert found.put_cluster("uid", "lab") == 1
    nodes = [Capacity(node, "m", 8, CapacityState.READY, BEGIN - 99.0, None) for node in ("n1", "n2")]
    found.put_changes(1, BEGIN + 9 * HOUR, capacities=nodes)
    found.put_changes(1, BEGIN + 9.0 * HOUR, holdings=[holding(pod) for pod in PODS])
    yield found
    found.close()


Roll = Callable[..., bool]


@pytest.fixture
def roll(database: Database, prometheus: Callable[[str], str]) -> Roll:
    """Roll up the hour as a restarted collector or `usage rollup` does."""

    def rolled(shard: str, now: float, *, even_if_less: bool = False) -> bool:
        samples = GpuSamples(OneShard(prometheus(shard), shard)) if shard else None
        found = HourRoller(database, 1, samples, 15, UsageKeys((), ()))
        found.begin(now)
        return found.roll(BEGIN, now, even_if_less=even_if_less)

    return rolled


def measured(database: Database) -> dict[str, float]:
    """Return the measured GPU-hours by node and workload, and check that the ledger closes."""
    [hour] = database.rolled_up(1, BEGIN, END)
    assert discrepancies(hour) == []
    levels = (Level.NODE, Level.WORKLOAD)
    return {
        (group.key or group.value): sums.obs_gpu_s / HOUR for group, sums in hour.sums.items() if group.level in levels
    }


WHOLE = {"n1": 2.0, "n2": 1.0, "a/Job/train": 2.0, "a/Job/other": 1.0}
LESS = [name for name in PARTS if name != "whole"]


@pytest.mark.parametrize("less", [*LESS, ""])
def test_lost_samples_do_not_lower_an_hour(
    less: str, roll: Roll, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A shard, a block, a node's exporter or all of Prometheus is lost, or its address is no longer set."""
    assert roll("whole", END + ROLL_UP_AFTER)
    assert measured(database) == pytest.approx(WHOLE)
    assert not roll(less, END + GIVE_UP_AFTER)
    assert measured(database) == pytest.approx(WHOLE)
    assert not database.hours(1, BEGIN, END)[BEGIN].provisional
    [told] = [record.message for record in caplog.records if "Prometheus has lost" in record.message]
    assert "the stored measurements are kept" in told
    assert ("n2/a/r" in told) == (less in ("", "first half", "the other half", "without a node"))


@pytest.mark.parametrize("less", LESS)
def test_lost_samples_do_not_lower_an_hour_with_pruned_measurements(
    less: str, roll: Roll, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The hour stays whole, whichever part of it is lost."""
    roll("whole", END + GIVE_UP_AFTER)
    while database.prune(1, RetentionDays(3, 10, 40, 200), END + 2.0 * DAY):
        pass
    assert database.measurements(1, BEGIN) is None
    assert not roll(less, END + 2 * DAY)
    assert measured(database) == pytest.approx(WHOLE)
    assert [record.message for record in caplog.records if "Prometheus has lost" in record.message]


def test_hour_running_at_a_restart_keeps_its_measurements(roll: Roll, database: Database) -> None:
    """The next collector applies late changes of holdings and keeps the earlier measurements."""
    roll("whole", BEGIN + 2700)
    assert measured(database) == pytest.approx({name: 0.75 * hours for name, hours in WHOLE.items()})
    database.put_changes(
        1,
        END + HOUR,
        holdings=[holding("q")._replace(end=BEGIN + 900.0, ending=EndReason.FINISHED)],
        late=BEGIN + 900.0,
    )
    assert roll("without a pod of a node", END + ROLL_UP_AFTER)
    expected = {"n1": 1.25, "n2": 1.0, "a/Job/train": 1.25, "a/Job/other": 1.0}
    assert measured(database) == pytest.approx(expected)


def test_two_halves_make_a_whole_hour(roll: Roll, database: Database) -> None:
    roll("first half", END + ROLL_UP_AFTER)
    assert roll("the other half", END + GIVE_UP_AFTER)
    assert measured(database) == pytest.approx(WHOLE)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "pruned"])
def test_even_if_less_replaces_measurements(
    kept: bool, roll: Roll, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The lost measurements are logged, and the day is rolled up again."""
    roll("whole", END + GIVE_UP_AFTER)
    days = DayRoller(database, 1)
    days.begin(END + GIVE_UP_AFTER)
    days.roll_due(END + GIVE_UP_AFTER)
    if not kept:
        while database.prune(1, RetentionDays(3, 10, 40, 200), END + 2.0 * DAY):
            pass
    assert roll("without a node", END + 2 * DAY, even_if_less=True)
    assert measured(database) == pytest.approx({**WHOLE, "n2": 0.0, "a/Job/other": 0.0})
    days.touch(BEGIN)
    assert days.roll_due(END + 2 * DAY) == 1
    [day] = database.rolled_up(1, BEGIN // DAY * DAY, END, PeriodLength.DAY)
    assert sum(sums.obs_gpu_s for group, sums in day.sums.items() if group.level is Level.CLUSTER) == 2 * HOUR
    [told] = [record.message for record in caplog.records if "Prometheus has lost" in record.message]
    assert told.endswith(
        "n2/a/r: the stored measurements are replaced" if kept else "n2: the stored measurements are replaced"
    )
