"""A namespace's quota over a time equals the sum of its quota at each moment, for any quotas."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl_usage.facts import GpuQuota, PeriodCapacity
from gpuctl_usage.rollup.quota_time import CapacityTimeline, QuotaTimeline
from properties.scale import examples
from support.usage_oracle import quota_at

TICKS = 40
TICK = 0.25
"""Seconds: nothing changes in between, so that the oracle has all that happens."""
BEGINS = (0.0, 1_762_300_800.0, 1_762_300_800.1)

ticks = st.integers(0, TICKS)
amounts = st.sampled_from([0.0, 0.1, 0.5, 1 / 3, 4.0, 24.0, 10_000.0])


@st.composite
def quotas(draw: st.DrawFn, begin: float) -> list[GpuQuota]:
    """Some that follow each other, some within others, some that last; of one moment only one begins."""
    starts = draw(st.lists(ticks, unique=True, max_size=6))
    spans = [(start, draw(st.none() | ticks.map(lambda more, start=start: start + more))) for start in starts]
    return [
        GpuQuota("blue", draw(amounts), begin + start * TICK, None if end is None else begin + end * TICK)
        for start, end in spans
    ]


@st.composite
def kept_times(draw: st.DrawFn, begin: float) -> list[PeriodCapacity]:
    """Hours and days, in any order, with gaps between them; of some nothing is known, and some have no GPUs."""
    found = []
    for start, end in pairwise(sorted(draw(st.lists(ticks, max_size=7)))):
        if draw(st.integers(0, 3)):
            gpus = draw(amounts)
            found.append(PeriodCapacity(begin + start * TICK, begin + end * TICK, gpus * (end - start) * TICK))
    return draw(st.permutations(found))


def allowed(theirs: list[GpuQuota], kept: list[PeriodCapacity], begin: float) -> float | None:
    """GPU-seconds, from tick to tick."""
    total, is_told = 0.0, False
    for number in range(TICKS):
        moment = begin + number * TICK
        for item in kept:
            if item.start <= moment < item.end:
                most = quota_at(theirs, moment)
                is_told = is_told or most is not None or item.cap_gpu_s > 0
                total += TICK * most if most is not None else item.cap_gpu_s * TICK / (item.end - item.start)
    return total if is_told else None


@examples(600)
@given(st.data(), st.sampled_from(BEGINS))
def test_capacity_of_a_namespace_under_quotas(data: st.DataObject, begin: float) -> None:
    theirs, kept = data.draw(quotas(begin)), data.draw(kept_times(begin))
    found, expected = CapacityTimeline(kept).capacity(QuotaTimeline(theirs)), allowed(theirs, kept, begin)
    # A time of these years has seconds to the seventh digit.
    assert found == (expected if not expected else pytest.approx(expected, rel=1e-6))


def test_zero_quota_gives_exactly_zero() -> None:
    """If no GPU may be held while the cluster has GPUs, the loss by additions is zero too."""
    random = Random(1)

    def cuts() -> Iterator[tuple[float, float]]:
        some = sorted({0, TICKS, *(random.randrange(TICKS) for _ in range(9))})
        return pairwise(begin + number * TICK for number in some)

    for turn in range(2000):
        begin = BEGINS[turn % len(BEGINS)]
        kept = [PeriodCapacity(start, end, random.uniform(0.1, 10_000) * (end - start)) for start, end in cuts()]
        kept.append(PeriodCapacity(begin + TICKS * TICK, begin + TICKS, 0.0))
        theirs = [GpuQuota("blue", 0.0, start, end) for start, end in cuts()]
        assert CapacityTimeline(kept).capacity(QuotaTimeline(theirs)) == 0
