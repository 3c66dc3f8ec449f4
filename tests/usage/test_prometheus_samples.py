"""GPU series of one hour read from a real Prometheus; its history is written by the test, so that hours are fixed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import GpuSeries
from gpuctl_usage.gathering.gpu_samples import CollectionInterrupted, GpuSamples, PodPlace
from gpuctl_usage.prometheus import AnswerTooLarge, Prometheus, PrometheusProblem
from support.exporter_lines import ACTIVE, BEGIN, FREE, OWN, TOTAL, USED, UTIL, Line, dcgm, exported, history
from support.prometheus_server import running_prometheus


def lines() -> list[Line]:
    """Return the samples of an hour, one a minute on the full minute."""
    found: list[Line] = []
    for minute in range(-2, 63):
        when = minute * 60.0
        # GPU 0: labels renamed by Prometheus; with memory.
        found += [
            dcgm(UTIL, 40, when, 0, **exported("train")),
            dcgm(USED, 1024 * 30, when, 0, **exported("train")),
            dcgm(FREE, 1024 * 50, when, 0, **exported("train")),
        ]
        # GPU 1: the exporter's own labels are kept.
        found.append(dcgm(UTIL, 60, when, 1, namespace="a", pod="serve"))
        # GPU 2: not allocated, so that `pod` is the exporter's own.
        found.append(dcgm(UTIL, 5, when, 2, **OWN))
        # GPU 3: invalid values, and one slightly above 100 %.
        odd = {0: math.nan, 1: -1.0, 2: 2.0**63, 3: 101.0, 4: 100.4}.get(minute, 10.0)
        found.append(dcgm(UTIL, odd, when, 3, **exported("odd")))
        # GPU 4: no samples for twenty minutes.
        if not 20 <= minute < 40:
            found.append(dcgm(UTIL, 50, when, 4, **exported("gap")))
        # GPU 5: two metrics; the better one counts.
        found += [
            dcgm(ACTIVE, 0.25, when, 5, **exported("both")),
            dcgm(UTIL, 99, when, 5, **exported("both")),
        ]
        # GPU 0 of another node: an AMD exporter that reports its own pod's name as host name.
        amd = {"gpu_id": 0, "hostname": "exporter-7", **exported("other", "b")}
        found += [
            ("gpu_gfx_activity", amd, 70, when),
            ("gpu_used_vram", amd, 100_000, when),
            ("gpu_total_vram", amd, 192_000, when),
        ]
    return found


HOLDERS = frozenset(
    {
        PodPlace("n1", "a", "train"),
        PodPlace("n1", "a", "serve"),
        PodPlace("n1", "a", "odd"),
        PodPlace("n1", "a", "gap"),
        PodPlace("n1", "a", "both"),
        PodPlace("n2", "b", "other"),
    }
)
NODES = frozenset({"n1", "n2"})


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), history=history(lines())) as url:
        yield url


def asked(prometheus: Prometheus, start: float = 0, end: float = HOUR) -> dict[str, GpuSeries]:
    """Return pod -> its only series."""
    found = GpuSamples(prometheus).series(BEGIN + start, BEGIN + end, NODES, HOLDERS)
    by_pod = {series.pod: series for series in found}
    assert len(by_pod) == len(found)
    return by_pod


def minutes(series: GpuSeries) -> list[float]:
    return [(at - BEGIN) / 60 for at in series.times]


def test_series_of_an_hour(address: str) -> None:
    found = asked(Prometheus(address))
    assert found.keys() == {"train", "serve", "odd", "gap", "both", "other"}
    whole = list(range(1, 61))
    # A sample on the full hour belongs only to the hour that ends.
    assert minutes(found["train"]) == whole
    assert minutes(asked(Prometheus(address), HOUR, 2 * HOUR)["train"]) == [61, 62]
    assert (found["train"].node, found["train"].gpu, found["train"].namespace) == ("n1", "0", "a")
    assert set(found["train"].utilization) == {40}
    assert set(found["train"].memory_used or ()) == {30}
    assert set(found["train"].memory_total or ()) == {80}
    assert (minutes(found["serve"]), set(found["serve"].utilization)) == (whole, {60})
    assert all(map(math.isnan, found["serve"].memory_used or ()))


def test_invalid_values_are_dropped(address: str) -> None:
    found = asked(Prometheus(address), -60)["odd"]
    assert minutes(found) == list(range(4, 61))
    assert list(found.utilization[:2]) == [100, 10]


def test_gap_is_not_filled(address: str) -> None:
    assert minutes(asked(Prometheus(address))["gap"]) == [*range(1, 20), *range(40, 61)]


def test_better_metric_of_a_gpu_counts(address: str) -> None:
    found = asked(Prometheus(address))
    assert (len(found["both"].times), set(found["both"].utilization)) == (60, {25})
    other = found["other"]
    assert (other.node, other.namespace, set(other.utilization)) == ("n2", "b", {70})
    assert (other.memory_used or [0])[0] == pytest.approx(100_000 * 10**6 / 2**30)
    assert (other.memory_total or [0])[0] == pytest.approx(192_000 * 10**6 / 2**30)


def both_kinds() -> list[Line]:
    """Return an hour of three exporters: one with engine activity and total memory, one with utilization and free
    memory, one with both metrics and invalid activity.
    """
    found: list[Line] = []
    for minute in range(1, 61):
        when = minute * 60.0
        one, other, third = (exported(name) for name in ("one", "other", "third"))
        found += [
            dcgm(ACTIVE, 0.25, when, 0, "n1", **one),
            dcgm(USED, 1024 * 30, when, 0, "n1", **one),
            dcgm(TOTAL, 1024 * 80, when, 0, "n1", **one),
            dcgm(UTIL, 40, when, 0, "n2", **other),
            dcgm(USED, 1024 * 10, when, 0, "n2", **other),
            dcgm(FREE, 1024 * 30, when, 0, "n2", **other),
            dcgm(ACTIVE, 2.0**63, when, 0, "n3", **third),
            dcgm(UTIL, 60, when, 0, "n3", **third),
        ]
    return found


@pytest.mark.parametrize("without", ["", "n2", "n3"])
def test_exporters_with_different_metrics(without: str, tmp_path: Path) -> None:
    """Each GPU gets the metrics of its own exporter, whatever the others export."""
    there = [line for line in both_kinds() if line[1]["Hostname"] != without]
    places = {
        "one": PodPlace("n1", "a", "one"),
        "other": PodPlace("n2", "a", "other"),
        "third": PodPlace("n3", "a", "third"),
    }
    with running_prometheus(tmp_path, history=history(there)) as url:
        found = GpuSamples(Prometheus(url)).series(BEGIN, BEGIN + HOUR, {"n1", "n2", "n3"}, set(places.values()))
    expected = {"one": (25, 30, 80), "other": (40, 10, 40), "third": (60, None, None)}
    assert len(found) == (2 if without else 3)
    for series in found:
        use, used, total = expected[series.pod]
        assert series.node == places[series.pod].node != without
        assert list(series.utilization) == [use] * 60
        for memory, value in ((series.memory_used, used), (series.memory_total, total)):
            assert memory is not None
            assert all(map(math.isnan, memory)) if value is None else list(memory) == [value] * 60


def test_result_does_not_depend_on_the_query_size(address: str) -> None:
    """The result does not depend on the size of the queries."""
    whole = asked(Prometheus(address))
    for largest in (60_000, 12_000):
        small = asked(Prometheus(address, largest=largest))
        assert {pod: list(item.times) for pod, item in small.items()} == {
            pod: list(item.times) for pod, item in whole.items()
        }
        assert {pod: list(item.utilization) for pod, item in small.items()} == {
            pod: list(item.utilization) for pod, item in whole.items()
        }
        assert list(small["train"].memory_total or ()) == [80] * 60


def test_too_large_answer_is_rejected(address: str) -> None:
    with pytest.raises(AnswerTooLarge, match="returned more than"):
        asked(Prometheus(address, largest=600))


def test_unreachable_prometheus_and_interruption() -> None:
    prometheus = Prometheus("http://127.0.0.1:9")
    with pytest.raises(PrometheusProblem, match="cannot be reached"):
        GpuSamples(prometheus).series(BEGIN, BEGIN + HOUR, NODES, HOLDERS)
    with pytest.raises(CollectionInterrupted):
        GpuSamples(prometheus, lambda: False).series(BEGIN, BEGIN + HOUR, NODES, HOLDERS)


def test_prometheus_without_gpu_metrics(tmp_path: Path) -> None:
    with running_prometheus(tmp_path) as url:
        assert GpuSamples(Prometheus(url)).series(BEGIN, BEGIN + HOUR, NODES, HOLDERS) == []
