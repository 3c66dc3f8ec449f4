"""Eviction tolerance: the number of pods of a Job or JobSet that may be evicted before it fails, from its spec."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.capacity.snapshot.eviction_tolerance import (
    NO_LIMIT,
    UNKNOWN,
    UNLIMITED,
    EvictionTolerance,
    workload_tolerance,
)
from gpuctl.capacity.snapshot.snapshot_entries import job_entry, job_set_entry
from support.fit_objects import job

Object = dict[str, Any]


def exit_code_rule(action: str, *codes: int, operator: str = "In") -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}


def eviction_rule(action: str, kind: str = "DisruptionTarget", status: str = "True") -> Object:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


def with_failure_policy(*rules: Object, **spec: Any) -> Object:
    return {**spec, "podFailurePolicy": {"rules": list(rules)}}


def tolerance_of(spec: Object, status: Object | None = None) -> EvictionTolerance:
    made = {**copy.deepcopy(job()), **({} if status is None else {"status": status})}
    made["spec"].update(spec)
    return workload_tolerance(made)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, EvictionTolerance(6, 7)),
        ({"backoffLimit": 0}, EvictionTolerance(0, 1)),
        # A rule that only counts changes nothing; other rules on exit codes make the tolerance uncertain.
        (with_failure_policy(exit_code_rule("Count", 1), backoffLimit=0), EvictionTolerance(0, 1)),
        (with_failure_policy(exit_code_rule("Ignore", 42), backoffLimit=0), UNKNOWN),
        (with_failure_policy(exit_code_rule("Ignore", 42)), EvictionTolerance(6, None)),
        (with_failure_policy(exit_code_rule("FailJob", 42, operator="NotIn")), EvictionTolerance(0, 7)),
        # The first matching rule decides, and it matches evictions.
        (with_failure_policy(eviction_rule("Ignore"), backoffLimit=0), UNLIMITED),
        (with_failure_policy(eviction_rule("FailJob")), EvictionTolerance(0, 1)),
        (with_failure_policy(eviction_rule("Count"), backoffLimit=0), EvictionTolerance(0, 1)),
        (with_failure_policy(eviction_rule("Ignore", status="False"), backoffLimit=0), EvictionTolerance(0, 1)),
        (with_failure_policy(exit_code_rule("FailJob", 143), eviction_rule("Ignore")), UNKNOWN),
        (with_failure_policy(exit_code_rule("Ignore", 143), eviction_rule("FailJob")), UNKNOWN),
        (with_failure_policy(eviction_rule("Ignore"), exit_code_rule("FailJob", 143)), UNLIMITED),
        (with_failure_policy(exit_code_rule("FailJob", 143), eviction_rule("FailJob")), EvictionTolerance(0, 1)),
        (with_failure_policy(eviction_rule("FailJob", "ConfigIssue"), eviction_rule("Ignore")), UNKNOWN),
        (with_failure_policy(eviction_rule("Restart")), UNKNOWN),
        # Failures are counted per index, and the count of the evicted pod's index is unknown.
        ({"backoffLimitPerIndex": 0}, UNKNOWN),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}, EvictionTolerance(0, 1)),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 2}, EvictionTolerance(0, 3)),
        ({"backoffLimitPerIndex": 3, "maxFailedIndexes": 0}, UNKNOWN),
        ({"backoffLimitPerIndex": 3, "backoffLimit": 0}, EvictionTolerance(0, 1)),
        (
            with_failure_policy(eviction_rule("FailIndex"), backoffLimitPerIndex=3, maxFailedIndexes=0),
            EvictionTolerance(0, 1),
        ),
        (with_failure_policy(eviction_rule("Ignore"), backoffLimitPerIndex=0), UNLIMITED),
    ],
)
def test_tolerance_of_a_job(spec: Object, expected: EvictionTolerance) -> None:
    assert tolerance_of(spec) == expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {"failed": 2}, EvictionTolerance(4, 5)),
        ({}, {"failed": 2, "uncountedTerminatedPods": {"failed": ["a", "b"]}}, EvictionTolerance(2, 3)),
        ({}, {"failed": 9}, EvictionTolerance(0, 1)),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 4}, {"failedIndexes": "0,3-4"}, EvictionTolerance(0, 2)),
    ],
)
def test_past_failures_reduce_the_tolerance(spec: Object, status: Object, expected: EvictionTolerance) -> None:
    assert tolerance_of(spec, status) == expected


def test_fails_returns_true_false_or_none() -> None:
    open_between = EvictionTolerance(2, 5)
    assert [open_between.fails(number) for number in range(1, 6)] == [False, False, None, None, True]
    # A pod that another client deleted may already be counted as a failure, or not.
    assert [open_between.fails(number, 1) for number in range(1, 6)] == [False, None, None, None, True]
    assert UNKNOWN.fails(1) is None
    assert UNLIMITED.fails(10**6) is False


def test_unknown_tolerance_is_not_written() -> None:
    """Snapshots of older versions have no such fields either, and are read as unknown."""
    made = copy.deepcopy(job())
    made["spec"].update(with_failure_policy(exit_code_rule("Ignore", 42), backoffLimit=0))
    assert job_entry(made) == {"namespace": "team", "name": "train"}
    made["spec"].update(with_failure_policy(eviction_rule("Ignore"), backoffLimit=0))
    assert job_entry(made) == {"namespace": "team", "name": "train", "final": True, "spared": NO_LIMIT}


@pytest.mark.parametrize(
    ("spec", "final"),
    [
        ({"backoffLimit": 0}, True),
        (with_failure_policy(exit_code_rule("Ignore", 42), backoffLimit=0), False),
        (with_failure_policy(exit_code_rule("Count", 42), backoffLimit=0), True),
        (with_failure_policy(eviction_rule("FailJob")), False),
    ],
)
def test_job_entry_is_final_if_one_failure_ends_the_job(spec: Object, final: bool) -> None:
    made = copy.deepcopy(job())
    made["spec"].update(spec)
    assert (job_entry(made) or {}).get("final", False) is final


def job_set(policy: Object | None, *specs: Object, **status: Any) -> Object:
    jobs = [{"name": f"part-{number}", "template": {"spec": spec}} for number, spec in enumerate(specs)]
    spec = {"replicatedJobs": jobs, **({} if policy is None else {"failurePolicy": policy})}
    return {"kind": "JobSet", "metadata": {"namespace": "team", "name": "set"}, "spec": spec, "status": status}


def jobset_rule(action: str, **more: Any) -> Object:
    return {"name": action.lower(), "action": action, **more}


@pytest.mark.parametrize(
    ("policy", "status", "kept"),
    [
        (None, {}, {}),
        ({"maxRestarts": 2}, {}, {"restarts": True}),
        ({"maxRestarts": 2}, {"restarts": 2}, {}),
        ({"maxRestarts": 2}, {"restarts": 3, "restartsCountTowardsMax": 1}, {"restarts": True}),
        ({"maxRestarts": 0, "rules": [jobset_rule("RestartJobSet")]}, {}, {}),
        ({"maxRestarts": 3, "rules": [jobset_rule("FailJobSet")]}, {}, {}),
        (
            {"maxRestarts": 0, "rules": [jobset_rule("RestartJobSetAndIgnoreMaxRestarts")]},
            {"restarts": 9},
            {"restarts": True},
        ),
        ({"maxRestarts": 3, "rules": [jobset_rule("RestartJob")]}, {}, {"unsure": True}),
        # The rule is for one replicated job; failures of the others follow the default, a restart.
        ({"maxRestarts": 3, "rules": [jobset_rule("FailJobSet", targetReplicatedJobs=["x"])]}, {}, {"unsure": True}),
        ({"maxRestarts": 0, "rules": [jobset_rule("FailJobSet", targetReplicatedJobs=["x"])]}, {}, {}),
        ({"maxRestarts": 3, "rules": [jobset_rule("FailJobSet"), jobset_rule("RestartJobSet")]}, {}, {}),
    ],
)
def test_jobset_entry_by_failure_policy(policy: Object | None, status: Object, kept: Object) -> None:
    made = job_set(policy, **status)
    assert job_set_entry(made) == {"namespace": "team", "name": "set", **kept}
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    assert job_set_entry(made) == {"namespace": "team", "name": "set", **kept, "queued": True}


@pytest.mark.parametrize("kind", ["Completed", "Failed"])
def test_ended_jobset_has_no_entry(kind: str) -> None:
    assert job_set_entry(job_set(None, conditions=[{"type": kind, "status": "True"}])) is None
    assert job_set_entry(job_set(None, conditions=[{"type": kind, "status": "False"}])) is not None


@pytest.mark.parametrize(
    ("policy", "limits", "expected"),
    [
        (None, (0, 0), EvictionTolerance(0, 1)),
        # The Job of the evicted pods is unknown, and one Job tolerates more than the other.
        (None, (0, 2), EvictionTolerance(0, 3)),
        (None, (2, 2), EvictionTolerance(2, 5)),
        ({"maxRestarts": 1}, (0, 0), UNLIMITED),
        ({"maxRestarts": 1, "rules": [jobset_rule("RestartJob")]}, (0, 0), UNKNOWN),
    ],
)
def test_tolerance_of_a_jobset(policy: Object | None, limits: tuple[int, ...], expected: EvictionTolerance) -> None:
    made = job_set(policy, *({"backoffLimit": limit} for limit in limits))
    assert workload_tolerance(made) == expected


def test_tolerance_of_other_workloads() -> None:
    assert workload_tolerance({"kind": "Pod", "spec": {}}) == EvictionTolerance(0, 1)
    assert workload_tolerance({"kind": "Deployment", "spec": {}}) == UNLIMITED
