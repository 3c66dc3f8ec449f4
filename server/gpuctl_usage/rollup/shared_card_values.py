"""Values of cards that several pods share: an exporter reports for each pod either the card's values (copies) or those
of the pod's own processes. Which of the two is detected from the values.

If pods share a card by time (time-slicing, MPS), NVIDIA's exporter reports a series for each pod when
``KUBERNETES_VIRTUAL_GPUS`` is set. Up to 4.5.2-4.8.1 all of these are copies of the card's values. Since 4.5.3-4.8.2
``DCGM_FI_DEV_GPU_UTIL`` and ``DCGM_FI_DEV_FB_USED`` are those of each pod's processes (0 for a pod without processes),
beside a series of the card without a pod. All other metrics are still copies, and so is the utilization of MIG
instances. Source: dcgm-exporter, ``internal/pkg/transformation/kubernetes.go`` and ``process_metrics.go``.

Only the values show which kind it is. A node has one exporter, and copies come from one reading, so they are equal at
one time. Two pods of a card (or a pod and the card) with different values at one time indicate per-process metrics;
several pods with the same value above 0 indicate copies. A pod alone on a card, or a card whose values are all 0,
indicates nothing. Both signs also occur by chance: two processes may have equal values for a moment, and a recording
rule may mix two readings. A kind is therefore accepted after :data:`LASTING` consecutive times with the same sign.
Before the first accepted kind, that kind is assumed; if none is accepted, the metrics are copies, as of most exporters.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuctl_usage.facts import PROCESS_MEMORY, PROCESS_UTILIZATION, GpuSeries, SharedGpuMetrics

LASTING = 5
"""Number of consecutive times that must show the same kind."""


class _Phase(NamedTuple):
    """From this time on, values are per process, or copies."""

    time: float
    per_process: bool


_Pods = dict[tuple[str, str], float]
_CARD = ("", "")
_Cards = dict[str, dict[float, _Pods]]
"""Card -> time -> value of each pod; the key :data:`_CARD` is the card itself."""


def mark_process_metrics(
    samples: Iterable[GpuSeries], start: float, end: float, how: SharedGpuMetrics
) -> list[GpuSeries]:
    """Return the series of pods with ``process_flags`` set. If the processes of a card together report more than 100
    percent, their values are scaled down to 100.

    :param start: the kind of the metrics is detected from measurements in (start, end].
    """
    every = list(samples)
    ours = [one for one in every if one.pod]
    if how is SharedGpuMetrics.COPIES:
        return ours
    sources: dict[tuple[str, str], list[GpuSeries]] = defaultdict(list)
    for one in every:
        if one.metric:
            sources[one.node, one.metric].append(one)
    by_id = {id(one): one for one in ours}
    for same in sources.values():
        uses, memories = _of_shared(same, memory=False), _of_shared(same, memory=True)
        by_use, by_memory = (_phases(cards, start, end, how) for cards in (uses, memories))
        if not any(phase.per_process for phase in (*by_use, *by_memory)):
            continue
        factors = {gpu: _scale_factors(card) for gpu, card in uses.items()}
        for one in same:
            if one.pod:
                by_id[id(one)] = _marked(one, by_use, by_memory, factors.get(one.gpu, {}))
    return [by_id[id(one)] for one in ours]


def nodes_with_process_metrics(
    samples: Iterable[GpuSeries], start: float, end: float, how: SharedGpuMetrics
) -> frozenset[str]:
    """Return the nodes whose exporter reported per-process utilization at any time."""
    marked = mark_process_metrics(samples, start, end, how)
    return frozenset(
        one.node
        for one in marked
        if one.process_flags and any(mark & PROCESS_UTILIZATION for mark in one.process_flags)
    )


def nodes_with_shared_cards(samples: Iterable[GpuSeries]) -> frozenset[str]:
    """Return the nodes with a card that had several pods at the same time."""
    spans: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for one in samples:
        if one.pod and one.metric:
            spans[one.node, one.gpu].append((min(one.times), max(one.times)))
    found = set()
    for (node, _), of_card in spans.items():
        of_card.sort()
        if any(first <= last for (_, last), (first, _) in pairwise(of_card)):
            found.add(node)
    return frozenset(found)


def _of_shared(source: Sequence[GpuSeries], *, memory: bool) -> _Cards:
    """Return the values of the cards for which one exporter reports several pods."""
    by_card: dict[str, list[GpuSeries]] = defaultdict(list)
    for one in source:
        by_card[one.gpu].append(one)
    found: _Cards = {}
    for gpu, series in by_card.items():
        if len({(one.namespace, one.pod) for one in series if one.pod}) > 1:
            found[gpu] = _by_time(series, memory=memory)
    return found


def _by_time(series: Iterable[GpuSeries], *, memory: bool) -> dict[float, _Pods]:
    found: dict[float, _Pods] = defaultdict(dict)
    for one in series:
        values = one.memory_used if memory else one.utilization
        whose = one.namespace, one.pod
        for time, value in zip(one.times, values or (), strict=False):
            if not math.isnan(value):
                # A pod with two replicas of a shared card has two series.
                found[time][whose] = max(value, found[time].get(whose, 0.0))
    return found


def _phases(cards: _Cards, start: float, end: float, how: SharedGpuMetrics) -> list[_Phase]:
    if how is SharedGpuMetrics.PER_PROCESS:
        return [_Phase(start, True)]
    signs: dict[float, bool] = {}
    for times in cards.values():
        for time, pods in times.items():
            if start < time <= end and (sign := _shows_processes(pods)) is not None:
                signs[time] = signs.get(time, False) or sign
    found: list[_Phase] = []
    since, count, before = start, 0, None
    for time in sorted(signs):
        if signs[time] is not before:
            since, count, before = time, 0, signs[time]
        count += 1
        if count == LASTING and (not found or found[-1].per_process is not before):
            found.append(_Phase(since, before))
    return found


def _shows_processes(pods: _Pods) -> bool | None:
    """Return True for per-process values, False for copies, None if they could be both."""
    if len(pods) - (_CARD in pods) < 2:
        return None
    values = set(pods.values())
    return True if len(values) > 1 else None if values == {0.0} else False


def _are_per_process(phases: Sequence[_Phase], times: Sequence[float]) -> Sequence[bool]:
    """Return for each time True if the values are per process."""
    if len(phases) < 2:
        return [bool(phases) and phases[0].per_process] * len(times)
    starts = [phase.time for phase in phases]
    return [phases[max(0, bisect_right(starts, time) - 1)].per_process for time in times]


def _scale_factors(card: dict[float, _Pods]) -> dict[float, float]:
    """Return the scale factors for times at which the pods of a card together report more than 100 percent."""
    found = {}
    for time, pods in card.items():
        together = math.fsum(value for whose, value in pods.items() if whose != _CARD)
        if together > 100:
            found[time] = 100 / together
    return found


def _marked(
    one: GpuSeries, by_use: Sequence[_Phase], by_memory: Sequence[_Phase], factors: dict[float, float]
) -> GpuSeries:
    own_use, own_memory = _are_per_process(by_use, one.times), _are_per_process(by_memory, one.times)
    pairs = zip(own_use, own_memory, strict=True)
    flags = array("b", [PROCESS_UTILIZATION * use + PROCESS_MEMORY * memory for use, memory in pairs])
    values = one.utilization
    if factors:
        times = zip(one.times, values, own_use, strict=True)
        values = array("d", [value * factors.get(time, 1.0) if own else value for time, value, own in times])
    return one._replace(utilization=values, process_flags=flags)
