"""Whether what an exporter tells of several pods on one card is the card's use, or that of each pod's own processes.

Where pods take turns on a card (time-slicing, MPS), NVIDIA's exporter has a series of each pod if it is told so
(``KUBERNETES_VIRTUAL_GPUS``). Until 4.5.2-4.8.1 all of them are copies of what was measured of the card. Since
4.5.3-4.8.2 ``DCGM_FI_DEV_GPU_UTIL`` and ``DCGM_FI_DEV_FB_USED`` are those of the processes of each pod (0 of one that
has none), beside a series of the card that names no pod; all other metrics are copies still, and of MIG's instances the
utilisation too. Source: dcgm-exporter, ``internal/pkg/transformation/kubernetes.go`` and ``process_metrics.go``.

Nothing else says which of them it is, so that values have to. A node has one exporter, and copies are made of one
reading: at one time they are equal, whatever was scraped when. So the sign of processes is that two pods of a card, or
a pod and the card, have different values at one time, and that of copies that several pods have the same value, more
than 0. A pod alone says nothing, and neither does a card of which all are at 0. By chance both happen: two processes
may have equal parts for a moment, and a rule of Prometheus may mix two readings. What counts is therefore what lasts:
five times in a row that say the same. Until the first of them it is as it is then; where nothing lasts, it is copies,
as of most exporters there are.
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
"""Times in a row that have to say the same."""


class _Phase(NamedTuple):
    """From a time on values are of processes, or not."""

    time: float
    per_process: bool


_Pods = dict[tuple[str, str], float]
_CARD = ("", "")
_Cards = dict[str, dict[float, _Pods]]
"""By card and time what each pod has, and :data:`_CARD` the card itself."""


def mark_process_metrics(
    samples: Iterable[GpuSeries], start: float, end: float, how: SharedGpuMetrics
) -> list[GpuSeries]:
    """Series of pods, which say of what of them is of processes. Where processes of one card have used more than all of
    it, they get their parts of all of it.

    :param start: of the measurements after it, until ``end``, it is made out what they are.
    """
    every = list(samples)
    ours = [one for one in every if one.pod]
    if how is SharedGpuMetrics.COPIES:
        return ours
    sources: dict[tuple[str, str], list[GpuSeries]] = defaultdict(list)
    for one in every:
        if one.metric:
            sources[one.node, one.metric].append(one)
    told = {id(one): one for one in ours}
    for same in sources.values():
        uses, memories = _of_shared(same, memory=False), _of_shared(same, memory=True)
        by_use, by_memory = (_phases(cards, start, end, how) for cards in (uses, memories))
        if not any(turn.per_process for turn in (*by_use, *by_memory)):
            continue
        parts = {gpu: _parts(card) for gpu, card in uses.items()}
        for one in same:
            if one.pod:
                told[id(one)] = _marked(one, by_use, by_memory, parts.get(one.gpu, {}))
    return [told[id(one)] for one in ours]


def nodes_with_process_metrics(
    samples: Iterable[GpuSeries], start: float, end: float, how: SharedGpuMetrics
) -> frozenset[str]:
    """The nodes whose exporter tells what processes use, of which at any time."""
    told = mark_process_metrics(samples, start, end, how)
    return frozenset(
        one.node for one in told if one.process_flags and any(mark & PROCESS_UTILIZATION for mark in one.process_flags)
    )


def nodes_with_shared_cards(samples: Iterable[GpuSeries]) -> frozenset[str]:
    """The nodes of which a card has had several pods at a time, and not one after the other."""
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
    """What cards had of which several pods tell, by one exporter."""
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
                # A pod that has two turns of a card is told of twice.
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
    """True for processes, False for copies, None where both would look so."""
    if len(pods) - (_CARD in pods) < 2:
        return None
    values = set(pods.values())
    return True if len(values) > 1 else None if values == {0.0} else False


def _apart(turns: Sequence[_Phase], times: Sequence[float]) -> Sequence[bool]:
    if len(turns) < 2:
        return [bool(turns) and turns[0].per_process] * len(times)
    begins = [turn.time for turn in turns]
    return [turns[max(0, bisect_right(begins, time) - 1)].per_process for time in times]


def _parts(card: dict[float, _Pods]) -> dict[float, float]:
    """By what the values are multiplied at times at which they are more than a card together."""
    found = {}
    for time, pods in card.items():
        together = math.fsum(value for whose, value in pods.items() if whose != _CARD)
        if together > 100:
            found[time] = 100 / together
    return found


def _marked(
    one: GpuSeries, by_use: Sequence[_Phase], by_memory: Sequence[_Phase], parts: dict[float, float]
) -> GpuSeries:
    use, memory = _apart(by_use, one.times), _apart(by_memory, one.times)
    marks = array("b", [PROCESS_UTILIZATION * own + PROCESS_MEMORY * of for own, of in zip(use, memory, strict=True)])
    values = one.utilization
    if parts:
        both = zip(one.times, values, use, strict=True)
        values = array("d", [value * parts.get(time, 1.0) if own else value for time, value, own in both])
    return one._replace(utilization=values, process_flags=marks)
