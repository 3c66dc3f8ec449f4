"""What an hour adds up to is what it adds up to second by second, whatever happened in it."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl_usage.facts import HOUR
from gpuctl_usage.rolling.balance import discrepancies
from gpuctl_usage.rolling.day import add_up
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from properties.scale import examples
from properties.usage_worlds import ANNOTATION_KEYS, LABEL_KEYS, START, World, rolled, worlds
from support.usage_oracle import Oracle

SHORT = st.sampled_from([45, 200, 420])


def oracle(world: World) -> Oracle:
    keys = (LABEL_KEYS, ANNOTATION_KEYS)
    return Oracle(START, world.seconds, world.holdings, world.capacities, world.samples, world.interval, *keys)


def compare(ours: RolledUp, truth: Oracle) -> None:
    """Every field of every group."""
    by_key = {(group.level.value, group.key, group.value): sums for group, sums in ours.sums.items()}
    assert set(by_key) == set(truth.groups)
    for key, expected in truth.groups.items():
        assert set(expected) == {field.name for field in fields(Sums)}
        for name, value in expected.items():
            told = getattr(by_key[key], name)
            if isinstance(value, float):
                assert told == pytest.approx(value, rel=1e-9, abs=1e-6), f"{key} {name}"
            else:
                assert told == value, f"{key} {name}"
    assert ours.dropped == truth.dropped


def check_ledger(result: RolledUp, truth: Oracle) -> None:
    """It closes, unless more is held than there is."""
    found = discrepancies(result)
    assert {one.group.value for one in found if one.group.level is Level.NODE} == truth.excess
    if not truth.excess:
        assert found == []


def check_parts(result: RolledUp) -> None:
    """What the cluster is divided into adds up to it, and no part is more than it can be."""
    parts: dict[tuple[Level, str], list[Sums]] = defaultdict(list)
    for group, sums in result.sums.items():
        if group.level is not Level.CLUSTER:
            parts[group.level, group.key if group.level in (Level.LABEL, Level.ANNOTATION) else ""].append(sums)
    cluster = result.sums[Group(Level.CLUSTER)]
    if cluster.pods_max:
        assert {(Level.LABEL, "team"), (Level.LABEL, "app"), (Level.ANNOTATION, "cost-center")} <= set(parts)
    for (level, _), divided in parts.items():
        for name in (
            "alloc_gpu_s",
            "running_gpu_s",
            "obs_gpu_s",
            "util_gpu_s",
            "memory_used_gpu_s",
            "pod_s",
            "samples",
        ):
            whole = getattr(cluster, name)
            assert sum(getattr(sums, name) for sums in divided) == pytest.approx(whole, rel=1e-9, abs=1e-6), (
                level,
                name,
            )
    for sums in result.sums.values():
        assert 0 <= sums.obs_gpu_s <= sums.alloc_gpu_s
        assert 0 <= sums.util_gpu_s <= 100 * sums.obs_gpu_s
        assert 0 <= sums.memory_obs_gpu_s <= sums.obs_gpu_s


@examples(100)
@given(worlds(SHORT))
def test_every_sum_is_that_of_the_seconds(world: World) -> None:
    result, truth = rolled(world), oracle(world)
    compare(result, truth)
    check_ledger(result, truth)
    check_parts(result)


@examples(3)
@given(worlds(st.just(HOUR)))
def test_every_sum_of_a_whole_hour_is_that_of_its_seconds(world: World) -> None:
    compare(rolled(world), oracle(world))


@examples(40)
@given(worlds(SHORT), st.randoms(use_true_random=False))
def test_the_order_of_what_comes_does_not_matter(world: World, order: random.Random) -> None:
    def shuffled(items: list) -> list:
        return order.sample(items, len(items))

    other = World(
        world.seconds, shuffled(world.holdings), shuffled(world.capacities), shuffled(world.samples), world.interval
    )
    assert repr(rolled(other)) == repr(rolled(world)) == repr(rolled(world))


@examples(40)
@given(worlds(SHORT), st.randoms(use_true_random=False))
def test_one_digest_is_one_result(world: World, chance: random.Random) -> None:
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
def test_a_day_is_that_of_its_seconds(world: World) -> None:
    """As if it was rolled up as one: also what overlaps the full hour, and workloads that are in both hours."""
    hours = [rolled(world, START + number * HOUR, HOUR) for number in (1, 0)]
    day, truth = add_up(hours, world.holdings), oracle(world)
    compare(day, truth)
    check_ledger(day, truth)
    check_parts(day)
