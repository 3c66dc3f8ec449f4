"""Comparisons of rolled-up sums with the expected ones, and with each other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields

import pytest

from gpuctl_usage.rollup.ledger import discrepancies
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.usage_oracle import Oracle


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
    """Check that the parts of the cluster add up to its sums, and that no part exceeds its maximum."""
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
        # A share of a card, such as a third, is rounded.
        assert 0 <= sums.util_gpu_s <= 100 * sums.obs_gpu_s * (1 + 1e-12)
        assert 0 <= sums.memory_obs_gpu_s <= sums.obs_gpu_s
