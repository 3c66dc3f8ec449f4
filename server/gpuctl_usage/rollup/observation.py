"""Utilization and memory of the GPUs of a pod while the pod held them.

A measurement covers the time since the previous one, at most :data:`~gpuctl_usage.rollup.hour.MOST_INTERVALS` scrape
intervals. It belongs to the pod that held the GPU at its time and covers no time before that pod held it. Each measured
GPU stands for an equal share of what the pod holds, and for one whole GPU at most: with six of eight GPUs measured, six
are observed; a pod that holds a quarter of a shared GPU has a quarter observed.

For a shared GPU the exporter reports either the utilization of the card or that of each pod's own processes
(:mod:`.shared_card_values`). In the first case the pod's share is as busy as the card. In the second it is as busy as
the pod makes it: 20 percent of the card are 80 percent of a quarter. A pod may use more than its quarter while other
pods are idle; its share then counts as 100 percent busy, and the excess is counted separately (``beyond_gpu_s``). The
excess is not added to the share of any other pod.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, repeat
from typing import NamedTuple, TypeVar

from gpuctl_usage.facts import PROCESS_MEMORY, PROCESS_UTILIZATION
from gpuctl_usage.rollup.clipped_intervals import ClippedHolding
from gpuctl_usage.rollup.sample_series import SampleSeries

Value = TypeVar("Value", int, float)
MINUTE = 60
MINUTES = 60


class Observed(NamedTuple):
    """Measured sums of one clipped holding; the fields are those of :class:`~gpuctl_usage.sums.Sums`.

    :param minutes_obs: GPU-seconds of each minute of the hour; ``minutes_util``: percent times GPU-seconds.
    """

    obs_gpu_s: float
    util_gpu_s: float
    minutes_obs: list[float]
    minutes_util: list[float]
    memory_obs_gpu_s: float
    memory_used_gpu_s: float
    memory_total_gpu_s: float
    memory_max: float | None
    samples: int
    by_process_gpu_s: float
    beyond_gpu_s: float


class SampleIntervals(NamedTuple):
    """Measurements of one GPU as disjoint intervals, in seconds of the hour.

    :param memory: used and total, GiB; NaN where unknown, None if all are unknown.
    :param process_flags: see :class:`~gpuctl_usage.facts.GpuSeries`.
    """

    begins: Sequence[float]
    ends: Sequence[float]
    values: Sequence[float]
    memory: tuple[Sequence[float], Sequence[float]] | None
    process_flags: Sequence[int] | None


class SteadyInterval(NamedTuple):
    """An interval in which no measurement begins or ends, with the sums over the measured GPUs.

    :param gpus: number of measured GPUs.
    :param value: summed utilization of the GPUs measured per card; ``own``: utilization of each GPU measured per
        process, percent of the card.
    :param known: number of GPUs with known memory; ``total``: summed total memory, GiB.
    :param used: summed used memory of the GPUs measured per card; ``most``: the highest of them, -1 if there is none;
        ``own_used``: used memory of each GPU measured per process.
    """

    begin: float
    end: float
    gpus: int
    value: float
    known: int
    used: float
    total: float
    most: float
    own: Sequence[float] = ()
    own_used: Sequence[float] = ()


class Ownership(NamedTuple):
    """The holding that owns the measurements in (after, until]."""

    after: float
    until: float
    clipped: ClippedHolding


def ownership(alike: Sequence[ClippedHolding]) -> list[Ownership]:
    """Return which holding owns the measurements at which times, for pods of one name on one node.

    Two holdings overlap only if the end of one is not known exactly; the one that began last then owns the
    measurements.
    """
    if all(one.finish <= following.begin for one, following in pairwise(alike)):
        return [Ownership(clipped.begin, clipped.finish, clipped) for clipped in alike]
    found = []
    for after, until in pairwise(sorted({bound for clipped in alike for bound in (clipped.begin, clipped.finish)})):
        covering = [clipped for clipped in alike if clipped.begin <= after and until <= clipped.finish]
        if covering:
            found.append(
                Ownership(after, until, max(covering, key=lambda clipped: (clipped.begin, clipped.holding.pod_uid)))
            )
    return found


def observe(
    seconds: float, reach: float, alike: Sequence[ClippedHolding], tracks: Sequence[SampleSeries]
) -> Iterator[tuple[int, Observed]]:
    """Yield the measured sums of holdings whose pods have one name on one node, with their indexes in ``alike``.

    :param reach: maximum number of seconds that a measurement covers.
    """
    owned = sorted(ownership(alike), key=lambda one: one.clipped.holding.pod_uid)
    for uid, same in groupby(owned, key=lambda one: one.clipped.holding.pod_uid):
        ours = list(same)
        read = list(tracks)
        if any(track.process_flags for track in tracks) and all(
            one.clipped.holding.gpus >= len(tracks) for one in ours
        ):
            # If the pod has the card to itself, both kinds of metrics are equal.
            read = [track._replace(process_flags=None) for track in tracks]
        stretches = [_stretches(track, reach, ours) for track in read]
        pieces = list(_pieces([one for one in stretches if len(one.ends)]))
        for number, clipped in enumerate(alike):
            if pieces and clipped.overlaps and clipped.holding.pod_uid == uid:
                yield number, _observed(clipped, pieces, _samples(seconds, clipped, ours, read))


def count_unowned_samples(seconds: float, alike: Sequence[ClippedHolding], tracks: Sequence[SampleSeries]) -> int:
    """Return the number of measurements of the hour that belong to no holding."""
    every = sum(bisect_right(track.times, seconds) for track in tracks)
    owned = ownership(alike)
    return every - sum(_samples(seconds, clipped, owned, tracks) for clipped in alike)


def _samples(
    seconds: float, clipped: ClippedHolding, owned: Iterable[Ownership], tracks: Iterable[SampleSeries]
) -> int:
    ours = [(one.after, min(one.until, seconds)) for one in owned if one.clipped is clipped]
    return sum(
        max(0, bisect_right(track.times, until) - bisect_right(track.times, after))
        for track in tracks
        for after, until in ours
    )


def _stretches(track: SampleSeries, reach: float, owned: Iterable[Ownership]) -> SampleIntervals:
    ends = track.times
    begins = [before if before > end - reach else end - reach for before, end in pairwise((-math.inf, *ends))]
    parts = [slice(bisect_right(ends, one.after), bisect_right(ends, one.until)) for one in owned]
    if parts == [slice(0, len(ends))]:
        return SampleIntervals(begins, ends, track.utilization, track.memory, track.process_flags)

    def chosen(every: Sequence[Value]) -> list[Value]:
        return [one for part in parts for one in every[part]]

    memory = None if track.memory is None else (chosen(track.memory[0]), chosen(track.memory[1]))
    process_flags = None if track.process_flags is None else chosen(track.process_flags)
    return SampleIntervals(chosen(begins), chosen(ends), chosen(track.utilization), memory, process_flags)


def _pieces(stretches: Sequence[SampleIntervals]) -> Iterable[SteadyInterval]:
    if not stretches:
        return ()
    first = stretches[0]
    # The GPUs of a node are usually scraped together and then have equal times: adding columns is much faster.
    together = all(one.ends == first.ends and one.begins == first.begins for one in stretches[1:])
    if together and not any(one.process_flags for one in stretches):
        memories = [one.memory for one in stretches if one.memory is not None]
        if not memories or (len(memories) == len(stretches) and all(map(_complete, memories))):
            return _alike(stretches, memories)
    return _swept(stretches)


def _complete(memory: tuple[Sequence[float], Sequence[float]]) -> bool:
    return not any(math.isnan(sum(part)) for part in memory)


def _alike(
    stretches: Sequence[SampleIntervals], memories: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> Iterable[SteadyInterval]:
    first = stretches[0]
    values = map(sum, zip(*(one.values for one in stretches), strict=True))
    used: Iterable[float] = map(sum, zip(*(memory[0] for memory in memories), strict=True))
    total: Iterable[float] = map(sum, zip(*(memory[1] for memory in memories), strict=True))
    most: Iterable[float] = map(max, zip(*(memory[0] for memory in memories), strict=True))
    if not memories:
        used, total, most = repeat(0.0), repeat(0.0), repeat(-1.0)
    count, known = repeat(len(stretches)), repeat(len(memories))
    return map(SteadyInterval, first.begins, first.ends, count, values, known, used, total, most)


def _swept(stretches: Sequence[SampleIntervals]) -> Iterator[SteadyInterval]:
    """Yield the intervals between all begins and ends, for GPUs that were measured at different times."""
    turns = []
    for number, one in enumerate(stretches):
        for place, (begin, end) in enumerate(zip(one.begins, one.ends, strict=True)):
            turns += [(begin, True, number, place), (end, False, number, place)]
    active: dict[int, _Active] = {}
    before = -math.inf
    # At equal times an end sorts before a begin.
    for time, begins, number, place in sorted(turns):
        if active and before < time:
            yield _steady(before, time, list(active.values()))
        before = time
        if begins:
            one = stretches[number]
            used, total = (math.nan, math.nan) if one.memory is None else (one.memory[0][place], one.memory[1][place])
            active[number] = _Active(
                one.values[place], used, total, one.process_flags[place] if one.process_flags else 0
            )
        else:
            del active[number]


class _Active(NamedTuple):
    value: float
    used: float
    total: float
    process_flags: int


def _steady(begin: float, end: float, active: Sequence[_Active]) -> SteadyInterval:
    known = [one for one in active if one.used + one.total >= 0]
    of_card = [one.used for one in known if not one.process_flags & PROCESS_MEMORY]
    return SteadyInterval(
        *(begin, end, len(active)),
        value=sum(one.value for one in active if not one.process_flags & PROCESS_UTILIZATION),
        known=len(known),
        used=sum(of_card),
        total=sum(one.total for one in known),
        most=max(of_card, default=-1.0),
        own=[one.value for one in active if one.process_flags & PROCESS_UTILIZATION],
        own_used=[one.used for one in known if one.process_flags & PROCESS_MEMORY],
    )


def _observed(clipped: ClippedHolding, pieces: Iterable[SteadyInterval], samples: int) -> Observed:
    low, high, gpus = clipped.clipped_start, clipped.clipped_end, clipped.holding.gpus
    minutes_obs, minutes_util = [0.0] * MINUTES, [0.0] * MINUTES
    memory_obs = memory_used = memory_total = by_process = beyond = 0.0
    memory_max = -1.0
    for begin, end, count, value, known, used, total, most, own, own_used in pieces:
        if begin < low:
            begin = low
        if end > high:
            end = high
        if begin >= end:
            continue
        share = 1.0 if count <= gpus else gpus / count
        weight = (end - begin) * share
        if own:
            by_process += weight * len(own)
            beyond += (end - begin) * sum(max(0.0, one / 100 - share) for one in own)
            value += sum(min(100.0, one / share) for one in own)
        if known:
            memory_obs += weight * known
            memory_used += weight * used
            memory_total += weight * total
            if own_used:
                memory_used += (end - begin) * sum(own_used)
                most = max(most, max(own_used) / share)
            if most > memory_max:
                memory_max = most
        minute = int(begin / MINUTE)
        while (edge := (minute + 1) * MINUTE) < end:
            weight = (edge - begin) * share
            minutes_obs[minute] += weight * count
            minutes_util[minute] += weight * value
            begin, minute = edge, minute + 1
        weight = (end - begin) * share
        minutes_obs[minute] += weight * count
        minutes_util[minute] += weight * value
    # Limit rounding errors: observed time never exceeds held time.
    obs = min(sum(minutes_obs), clipped.alloc_gpu_s)
    return Observed(
        obs_gpu_s=obs,
        util_gpu_s=min(sum(minutes_util), 100 * obs),
        minutes_obs=minutes_obs,
        minutes_util=minutes_util,
        memory_obs_gpu_s=min(memory_obs, obs),
        memory_used_gpu_s=memory_used,
        memory_total_gpu_s=memory_total,
        memory_max=None if memory_max < 0 else memory_max,
        samples=samples,
        by_process_gpu_s=min(by_process, obs),
        beyond_gpu_s=beyond,
    )
