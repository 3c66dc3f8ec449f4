"""Arrays without a cluster: lists of indexes, status, rows, fit, and the plan of a rerun."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.apply.plan.rerun_plan import NotRerunnable, plan_rerun
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.language.settings import Settings
from gpuctl.objects.array_jobs import count_indexes, other_indexes
from gpuctl.objects.hashed_names import spec_digest
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, records
from gpuctl.objects.pod_templates import pods_left
from gpuctl.reading.jobs.job_objects import Identity, Job, missing_pods
from gpuctl.reading.jobs.job_rows import job_row, platform_keys
from support.fit_objects import GPU, cluster, job, node, running

Object = dict[str, Any]

KEYS = records(Settings())


def array(size: int, parallelism: int, status: Object | None = None, **more: Any) -> Object:
    """A Job with independent indexes."""
    made = job(pods=parallelism, **more)
    made["metadata"]["uid"] = "1"
    made["spec"] |= {"completions": size, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    return {**made, "status": status or {}}


def pod(name: str, phase: str) -> Object:
    return {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("listed", "others"), [("", "0-4"), ("0-4", ""), ("0,2", "1,3-4"), ("1-3", "0,4"), ("4", "0-3")]
)
def test_other_indexes_complete_the_array(listed: str, others: str) -> None:
    assert other_indexes(listed, 5) == others
    assert count_indexes(listed) + count_indexes(others) == 5


def test_failed_indexes_need_no_pods() -> None:
    assert pods_left(array(10, 8, {"succeeded": 5, "completedIndexes": "0-4", "failedIndexes": "7,9"})) == 3


def test_row_shows_progress_and_running_pods() -> None:
    workload = array(100, 8, {"succeeded": 37, "completedIndexes": "0-36", "failedIndexes": "40-41"})
    pods = [pod("train-50-a", "Running"), pod("train-51-b", "Pending"), pod("train-3-c", "Succeeded")]
    row = job_row(Job(Identity("team", "train", "training"), workload, pods), platform_keys(Settings(), KEYS))
    assert row.ready == "37/100 (2 failed)"
    assert row.state == ("Running", "running", "37/100 (2 failed) succeeded, 1 of 8 pods run")


def test_ended_pods_of_an_array_are_not_missing() -> None:
    workload = array(100, 3, {"succeeded": 2, "completedIndexes": "0-1"})
    pods = [pod("a", "Succeeded"), pod("b", "Failed"), pod("c", "Running"), pod("d", "Pending")]
    assert missing_pods(Job(Identity("team", "train", "training"), workload, pods)) == 1


def test_failed_array_names_its_indexes() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "FailedIndexes", "message": "Job has failed indexes"}
    workload = array(10, 8, {"succeeded": 8, "failedIndexes": "3,7", "conditions": [failed]})
    row = job_row(Job(Identity("team", "train", "training"), workload), platform_keys(Settings(), KEYS))
    assert row.state.reason == "FailedIndexes: Job has failed indexes: indexes 3,7"


def answer(*nodes: Object, pods: list[Object] | None = None, **asked: Any) -> Fit:
    """Return the answer for an array."""
    (found,) = fit(cluster(list(nodes), pods), [array(100, 16, **asked)])
    return found


def test_array_fits_if_one_pod_has_room() -> None:
    found = answer(node("a"), gpus=1)
    assert (found.verdict, found.starts) == ("fits", 8)
    assert found.reason == "8 of 16 pods at once; the other indexes follow when these have ended"
    assert found.held == {}


def test_array_waits_while_no_pod_has_room() -> None:
    found = answer(node("a"), pods=[running("x", "a", 8, 10)], gpus=1)
    assert (found.verdict, found.starts, found.demand.pods) == ("fits-when-empty", 0, 16)


def test_array_never_fits_if_no_node_takes_a_pod() -> None:
    assert answer(node("a"), gpus=9).verdict == "never"


def test_array_preempts_for_its_first_pods() -> None:
    found = answer(node("a"), pods=[running("x", "a", 4, 0)], gpus=8)
    assert (found.verdict, found.starts) == ("preempts", 1)


def test_digest_of_an_array_does_not_depend_on_its_parallelism() -> None:
    one, two, other = array(10, 4), array(10, 8), array(11, 4)
    assert spec_digest([one]) == spec_digest([two])
    assert spec_digest([one]) != spec_digest([other])
    for queued in (one, two):
        queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    assert spec_digest([one]) != spec_digest([two])


def test_array_fits_as_far_as_its_quota_allows() -> None:
    hard = {f"requests.{GPU}": "5"}
    status = {"hard": hard, "used": {f"requests.{GPU}": "0"}}
    metadata = {"namespace": "team", "name": "few"}
    quota = {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, "status": status}
    have = cluster([node(name) for name in "ab"], quotas=[quota])
    (found,) = fit(have, [array(100, 16)])
    assert (found.verdict, found.starts) == ("fits", 5)


ENDED = {"conditions": [{"type": "Failed", "status": "True", "reason": "FailedIndexes"}]}


def test_rerun_of_failed_indexes_keeps_the_finished_ones() -> None:
    done = {"completedIndexes": "0-2,4", "failedIndexes": "3", "succeeded": 4}
    (step,) = plan_rerun(array(10, 8, {**ENDED, **done}), "training/train", KEYS, failed=True).steps
    assert step.reason == "failed; 6 of 10 indexes run again: 3,5-9"
    assert step.desired is not None
    assert step.desired["metadata"]["annotations"] == {FINISHED_INDEXES: "0-2,4"}
    assert "suspend" not in step.desired["spec"]


def test_rerun_of_a_failed_training_runs_all_of_it() -> None:
    (step,) = plan_rerun({**job(), "status": ENDED}, "training/train", KEYS, failed=True).steps
    assert step.reason == "failed, runs again"


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (
            {**job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
            "training/train in team has succeeded",
        ),
        (
            array(2, 2, {"completedIndexes": "0-1", "conditions": [{"type": "Complete", "status": "True"}]}),
            "all indexes of training/train in team have succeeded",
        ),
    ],
)
def test_rerun_without_failed_indexes_is_refused(workload: Object, message: str) -> None:
    with pytest.raises(NotRerunnable) as refused:
        plan_rerun(workload, "training/train", KEYS, failed=True)
    assert refused.value.message == message
