"""How many pods of a Job may be evicted before it fails, by its spec: what holds, and what nobody can tell."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.capacity.eviction_tolerance import NO_LIMIT, UNKNOWN, UNLIMITED, EvictionTolerance, workload_tolerance
from gpuctl.capacity.snapshot_entries import job_entry, job_set_entry
from support.fit_objects import job

Object = dict[str, Any]


def exits(action: str, *codes: int, operator: str = "In") -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}


def evicted(action: str, kind: str = "DisruptionTarget", status: str = "True") -> Object:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


def policy(*rules: Object, **spec: Any) -> Object:
    return {**spec, "podFailurePolicy": {"rules": list(rules)}}


def endured(spec: Object, status: Object | None = None) -> EvictionTolerance:
    made = {**copy.deepcopy(job()), **({} if status is None else {"status": status})}
    made["spec"].update(spec)
    return workload_tolerance(made)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, EvictionTolerance(6, 7)),
        ({"backoffLimit": 0}, EvictionTolerance(0, 1)),
        # What is counted, is; of exit codes only others decide.
        (policy(exits("Count", 1), backoffLimit=0), EvictionTolerance(0, 1)),
        (policy(exits("Ignore", 42), backoffLimit=0), UNKNOWN),
        (policy(exits("Ignore", 42)), EvictionTolerance(6, None)),
        (policy(exits("FailJob", 42, operator="NotIn")), EvictionTolerance(0, 7)),
        # The first rule that matches decides, and that of evictions does.
        (policy(evicted("Ignore"), backoffLimit=0), UNLIMITED),
        (policy(evicted("FailJob")), EvictionTolerance(0, 1)),
        (policy(evicted("Count"), backoffLimit=0), EvictionTolerance(0, 1)),
        (policy(evicted("Ignore", status="False"), backoffLimit=0), EvictionTolerance(0, 1)),
        (policy(exits("FailJob", 143), evicted("Ignore")), UNKNOWN),
        (policy(exits("Ignore", 143), evicted("FailJob")), UNKNOWN),
        (policy(evicted("Ignore"), exits("FailJob", 143)), UNLIMITED),
        (policy(exits("FailJob", 143), evicted("FailJob")), EvictionTolerance(0, 1)),
        (policy(evicted("FailJob", "ConfigIssue"), evicted("Ignore")), UNKNOWN),
        (policy(evicted("Restart")), UNKNOWN),
        # Failures of each index: how often one has failed already is not known.
        ({"backoffLimitPerIndex": 0}, UNKNOWN),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}, EvictionTolerance(0, 1)),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 2}, EvictionTolerance(0, 3)),
        ({"backoffLimitPerIndex": 3, "maxFailedIndexes": 0}, UNKNOWN),
        ({"backoffLimitPerIndex": 3, "backoffLimit": 0}, EvictionTolerance(0, 1)),
        (policy(evicted("FailIndex"), backoffLimitPerIndex=3, maxFailedIndexes=0), EvictionTolerance(0, 1)),
        (policy(evicted("Ignore"), backoffLimitPerIndex=0), UNLIMITED),
    ],
)
def test_what_a_job_endures(spec: Object, expected: EvictionTolerance) -> None:
    assert endured(spec) == expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {"failed": 2}, EvictionTolerance(4, 5)),
        ({}, {"failed": 2, "uncountedTerminatedPods": {"failed": ["a", "b"]}}, EvictionTolerance(2, 3)),
        ({}, {"failed": 9}, EvictionTolerance(0, 1)),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 4}, {"failedIndexes": "0,3-4"}, EvictionTolerance(0, 2)),
    ],
)
def test_what_it_has_endured_already_counts(spec: Object, status: Object, expected: EvictionTolerance) -> None:
    assert endured(spec, status) == expected


def test_three_answers() -> None:
    open_between = EvictionTolerance(2, 5)
    assert [open_between.fails(number) for number in range(1, 6)] == [False, False, None, None, True]
    # What others have deleted may be counted already, or not yet.
    assert [open_between.fails(number, 1) for number in range(1, 6)] == [False, None, None, None, True]
    assert UNKNOWN.fails(1) is None
    assert UNLIMITED.fails(10**6) is False


def test_what_cannot_be_told_is_not_written() -> None:
    """A snapshot from before these fields has neither: nothing is known then."""
    made = copy.deepcopy(job())
    made["spec"].update(policy(exits("Ignore", 42), backoffLimit=0))
    assert job_entry(made) == {"namespace": "team", "name": "train"}
    made["spec"].update(policy(evicted("Ignore"), backoffLimit=0))
    assert job_entry(made) == {"namespace": "team", "name": "train", "final": True, "spared": NO_LIMIT}


@pytest.mark.parametrize(
    ("spec", "final"),
    [
        ({"backoffLimit": 0}, True),
        (policy(exits("Ignore", 42), backoffLimit=0), False),
        (policy(exits("Count", 42), backoffLimit=0), True),
        (policy(evicted("FailJob")), False),
    ],
)
def test_whether_another_failure_ends_it(spec: Object, final: bool) -> None:
    made = copy.deepcopy(job())
    made["spec"].update(spec)
    assert (job_entry(made) or {}).get("final", False) is final


def job_set(policy: Object | None, *specs: Object, **status: Any) -> Object:
    jobs = [{"name": f"part-{number}", "template": {"spec": spec}} for number, spec in enumerate(specs)]
    spec = {"replicatedJobs": jobs, **({} if policy is None else {"failurePolicy": policy})}
    return {"kind": "JobSet", "metadata": {"namespace": "team", "name": "set"}, "spec": spec, "status": status}


def rule(action: str, **more: Any) -> Object:
    return {"name": action.lower(), "action": action, **more}


@pytest.mark.parametrize(
    ("policy", "status", "kept"),
    [
        (None, {}, {}),
        ({"maxRestarts": 2}, {}, {"restarts": True}),
        ({"maxRestarts": 2}, {"restarts": 2}, {}),
        ({"maxRestarts": 2}, {"restarts": 3, "restartsCountTowardsMax": 1}, {"restarts": True}),
        ({"maxRestarts": 0, "rules": [rule("RestartJobSet")]}, {}, {}),
        ({"maxRestarts": 3, "rules": [rule("FailJobSet")]}, {}, {}),
        ({"maxRestarts": 0, "rules": [rule("RestartJobSetAndIgnoreMaxRestarts")]}, {"restarts": 9}, {"restarts": True}),
        ({"maxRestarts": 3, "rules": [rule("RestartJob")]}, {}, {"unsure": True}),
        # For one part: another failure is met by the default, a restart.
        ({"maxRestarts": 3, "rules": [rule("FailJobSet", targetReplicatedJobs=["x"])]}, {}, {"unsure": True}),
        ({"maxRestarts": 0, "rules": [rule("FailJobSet", targetReplicatedJobs=["x"])]}, {}, {}),
        ({"maxRestarts": 3, "rules": [rule("FailJobSet"), rule("RestartJobSet")]}, {}, {}),
    ],
)
def test_what_a_set_does_once_a_job_has_failed(policy: Object | None, status: Object, kept: Object) -> None:
    made = job_set(policy, **status)
    assert job_set_entry(made) == {"namespace": "team", "name": "set", **kept}
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    assert job_set_entry(made) == {"namespace": "team", "name": "set", **kept, "queued": True}


@pytest.mark.parametrize("kind", ["Completed", "Failed"])
def test_a_set_that_has_ended_is_not_counted(kind: str) -> None:
    assert job_set_entry(job_set(None, conditions=[{"type": kind, "status": "True"}])) is None
    assert job_set_entry(job_set(None, conditions=[{"type": kind, "status": "False"}])) is not None


@pytest.mark.parametrize(
    ("policy", "limits", "expected"),
    [
        (None, (0, 0), EvictionTolerance(0, 1)),
        # Whose pod is evicted is not known: one that is enough of one Job, or not of another.
        (None, (0, 2), EvictionTolerance(0, 3)),
        (None, (2, 2), EvictionTolerance(2, 5)),
        ({"maxRestarts": 1}, (0, 0), UNLIMITED),
        ({"maxRestarts": 1, "rules": [rule("RestartJob")]}, (0, 0), UNKNOWN),
    ],
)
def test_what_a_set_endures(policy: Object | None, limits: tuple[int, ...], expected: EvictionTolerance) -> None:
    made = job_set(policy, *({"backoffLimit": limit} for limit in limits))
    assert workload_tolerance(made) == expected


def test_what_is_no_job() -> None:
    assert workload_tolerance({"kind": "Pod", "spec": {}}) == EvictionTolerance(0, 1)
    assert workload_tolerance({"kind": "Deployment", "spec": {}}) == UNLIMITED
