"""What the GPUs of a pod did while it held them, moment by moment and in sums.

A measurement speaks of the time since the one before it, at most so many scrape intervals as
:data:`~gpuctl_usage.rollup.hour.MOST_INTERVALS` says. It is of the pod that held GPUs at its time, and says nothing
of the time before that pod held them. At a moment each GPU that is measured stands for an equal share of what the pod
holds, and for one whole GPU at most: of a pod that holds eight GPUs of which six are measured, six are observed; of one
that holds a quarter of a shared GPU, a quarter.

Of a shared GPU the exporter tells the use of the card, or that of each pod's own processes (:mod:`.shared_cards`). In
the former case what a pod holds is as busy as the card. In the latter it is as busy as the pod keeps it: 20 percent of
the card are 80 of a quarter. A pod may use more than its quarter while others do not use theirs: then its quarter is
busy, and no more, for nobody is busy with more than they hold. The rest is counted besides, so that nothing of the
card's use is lost; it makes nobody's part of the card busy, least of all that of a pod that does nothing.
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
    """What a spell's measurements add up to; the words are those of :class:`~gpuctl_usage.sums.Sums`.

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
    """The measurements of one GPU as stretches of time, in seconds of the hour, which do not overlap.

    :param memory: used and total; None where not one of them is known, NaN where this one is not.
    :param apart: of each what of it is of the pod's processes alone, as of :class:`~gpuctl_usage.facts.GpuSeries`; None
        where nothing is.
    """

    begins: Sequence[float]
    ends: Sequence[float]
    values: Sequence[float]
    memory: tuple[Sequence[float], Sequence[float]] | None
    process_flags: Sequence[int] | None


class SteadyInterval(NamedTuple):
    """A stretch of time in which nothing changes: how many GPUs are measured, and the sums of what they say.

    :param value: of those of which the use of the card is told; ``own``: of each of the others, percent of the card
        that the pod's processes use.
    :param known: how many of them have told their memory; ``most``: the most used memory of one, -1 when none has.
    :param used: as ``value``; ``own_used``: of each of the others. ``most`` is of those of ``used``.
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
    """Measurements after ``after``, until ``until`` and with it, are of this spell."""

    after: float
    until: float
    clipped: ClippedHolding


def ownership(alike: Sequence[ClippedHolding]) -> list[Ownership]:
    """Whose the measurements are at which time, of spells whose pods have one name on one node.

    When two overlap, which only happens when the end of one is not known well, they are of the one that began last.
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
    """What is measured of spells whose pods have one name on one node, by their places among them.

    :param reach: seconds that a measurement speaks for at most.
    """
    owned = sorted(ownership(alike), key=lambda one: one.clipped.holding.pod_uid)
    for uid, same in groupby(owned, key=lambda one: one.clipped.holding.pod_uid):
        ours = list(same)
        if any(track.process_flags for track in tracks) and all(
            one.clipped.holding.gpus >= len(tracks) for one in ours
        ):
            # Of a card that a pod has to itself both are the same.
            tracks = [track._replace(process_flags=None) for track in tracks]
        stretches = [_stretches(track, reach, ours) for track in tracks]
        pieces = list(_pieces([one for one in stretches if len(one.ends)]))
        for number, clipped in enumerate(alike):
            if pieces and clipped.overlaps and clipped.holding.pod_uid == uid:
                yield number, _observed(clipped, pieces, _samples(seconds, clipped, ours, tracks))


def count_unowned_samples(seconds: float, alike: Sequence[ClippedHolding], tracks: Sequence[SampleSeries]) -> int:
    """How many measurements of the hour are of no spell."""
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
    # The GPUs of a node are scraped together: their times are the same, and columns are added up much faster.
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
    """Where GPUs are measured at different times: from each begin or end of a stretch to the next one."""
    turns = []
    for number, one in enumerate(stretches):
        for place, (begin, end) in enumerate(zip(one.begins, one.ends, strict=True)):
            turns += [(begin, True, number, place), (end, False, number, place)]
    active: dict[int, _Active] = {}
    before = -math.inf
    # At one time what ends comes before what begins.
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
    # Never more than was held, also in the last digits.
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
