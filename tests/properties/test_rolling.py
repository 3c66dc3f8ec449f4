"""The sums of an hour equal the sums of its seconds, for any events."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from gpuctl.objects.durations import HOUR
from gpuctl_usage.rollup.day import add_up
from properties.scale import examples
from properties.usage_worlds import ANNOTATION_KEYS, LABEL_KEYS, START, World, rolled, worlds
from support.compared_sums import check_ledger, check_parts, compare
from support.usage_oracle import Oracle

SHORT = st.sampled_from([45, 200, 420])


def oracle(world: World) -> Oracle:
    keys = (LABEL_KEYS, ANNOTATION_KEYS)
    return Oracle(START, world.seconds, world.holdings, world.capacities, world.samples, world.interval, *keys)


@examples(100)
@given(worlds(SHORT))
def test_sums_equal_sums_over_seconds(world: World) -> None:
    result, truth = rolled(world), oracle(world)
    compare(result, truth)
    check_ledger(result, truth)
    check_parts(result)


@examples(3)
@given(worlds(st.just(HOUR)))
def test_sums_of_a_whole_hour_equal_sums_over_seconds(world: World) -> None:
    compare(rolled(world), oracle(world))


@examples(40)
@given(worlds(SHORT), st.randoms(use_true_random=False))
def test_input_order_does_not_matter(world: World, order: random.Random) -> None:
    def shuffled(items: list) -> list:
        return order.sample(items, len(items))

    other = World(
        world.seconds, shuffled(world.holdings), shuffled(world.capacities), shuffled(world.samples), world.interval
    )
    assert repr(rolled(other)) == repr(rolled(world)) == repr(rolled(world))


@examples(40)
@given(worlds(SHORT), st.randoms(use_true_random=False))
def test_equal_digests_mean_equal_results(world: World, chance: random.Random) -> None:
    """Something is taken away: what an hour adds up to only changes together with its digest."""
    changed = World(*world)
    for name in ("holdings", "capacities", "samples"):
        items = getattr(world, name)
        if items and chance.random() < 0.5:
            gone = chance.randrange(len(items))
            changed = changed._replace(**{name: [item for place, item in enumerate(items) if place != gone]})
    one, other = rolled(world), rolled(changed)
    assert one.digest != other.digest or repr(one) == repr(other)


@examples(3)
@given(worlds(st.just(2 * HOUR)))
def test_sums_of_a_day_equal_sums_over_seconds(world: World) -> None:
    """A day equals the sum of its hours: also for intervals across the full hour, and workloads in both hours."""
    hours = [rolled(world, START + number * HOUR, HOUR) for number in (1, 0)]
    day, truth = add_up(hours, world.holdings), oracle(world)
    compare(day, truth)
    check_ledger(day, truth)
    check_parts(day)
