"""When a job that does not fit now will: what ends before, by the deadlines of pods and Jobs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.job_fit import Fit, fit
from gpuctl.capacity.snapshot_entries import job_entry, pod_entry
from gpuctl.cli.output.fit_lines import fit_lines
from gpuctl.objects.api_resources import QUEUE_LABEL
from support.fit_objects import cluster, job, node, running, waiting

Object = dict[str, Any]
JOBSET = "jobset.sigs.k8s.io/jobset-name"


def ending(name: str, on: str, gpus: int, by: str | None, **more: Any) -> Object:
    """A pod of a Job that ends; the snapshot is of midnight."""
    owner = {"group": "batch", "kind": "Job", "name": name}
    end = {} if by is None else {"endsBy": f"2026-01-01T{by}Z"}
    return running(f"{name}-{on}", on, gpus, 200, owner=owner, **end, **more)


def final(*names: str, **more: Any) -> list[Object]:
    """Jobs of which no pod is made again."""
    return [{"namespace": "team", "name": name, "final": True, **more} for name in names]


def answer(pods: list[Object], wanted: Object, nodes: str = "ab", **have: Any) -> Fit:
    """The answer for a job on nodes of 8 GPUs."""
    (found,) = fit(cluster([node(name) for name in nodes], pods, **have), [wanted])
    return found


def test_which_work_ends_first_is_told() -> None:
    pods = [
        ending("late", "a", 4, "09:00:00"),
        ending("soon", "a", 4, "03:20:00"),
        ending("sooner", "b", 4, "02:00:10"),
        running("forever", "b", 4, 200),
    ]
    found = answer(pods, job(gpus=8), jobs=final("late", "soon", "sooner"))
    assert found.opening is not None
    assert (found.opening.at, [item.job for item in found.opening.after]) == (
        "2026-01-01T09:00:00Z",
        ["Job/soon", "Job/late"],
    )
    assert fit_job(found).as_json()["opening"] == {
        "by": "2026-01-01T09:00:00Z",
        "takenAt": "2026-01-01T00:00:00Z",
        "after": [
            {"namespace": "team", "job": "Job/soon", "endsBy": "2026-01-01T03:20:00Z"},
            {"namespace": "team", "job": "Job/late", "endsBy": "2026-01-01T09:00:00Z"},
        ],
    }
    found = answer(pods, job(gpus=4), jobs=final("late", "soon", "sooner"))
    told = "  when: fits when Job/sooner in team (at most 2 h 1 min more) has ended, at 02:01 UTC at the latest"
    assert told in list(fit_lines(fit_job(found)))


def test_another_day_is_told_with_its_date() -> None:
    pods = [{**ending("old", "a", 8, "02:00:00"), "endsBy": "2026-01-02T02:00:00Z"}]
    found = answer(pods, job(), nodes="a", jobs=final("old"))
    told = (
        "  when: fits when Job/old in team (at most 1 d 2 h more) has ended, at 02:00 UTC on 2026-01-02 at the latest"
    )
    assert told in list(fit_lines(fit_job(found)))


@pytest.mark.parametrize(
    ("pod", "have"),
    [
        (ending("old", "a", 8, None), {"jobs": final("old")}),
        (ending("old", "a", 8, "01:00:00"), {}),
        (ending("old", "a", 8, "01:00:00"), {"jobs": [{"namespace": "team", "name": "old"}]}),
        (ending("old", "a", 8, "01:00:00"), {"jobs": [{**final("old")[0], "namespace": "other"}]}),
        (ending("old", "a", 8, "00:00:00"), {"jobs": final("old")}),
        (ending("old", "a", 8, "01:00:00", labels={JOBSET: "set"}), {"jobs": final("old")}),
        ({**ending("old", "a", 8, "01:00:00"), "owner": {"group": "x", "kind": "Job", "name": "old"}}, {}),
        (running("old", "a", 8, 200, endsBy="2026-01-01T01:00:00Z", owner={"kind": "ReplicaSet", "name": "x"}), {}),
    ],
)
def test_what_may_come_again_has_no_known_end(pod: Object, have: Object) -> None:
    found = answer([pod], job(), nodes="a", **have)
    assert (found.verdict, found.opening) == ("fits-when-empty", None)


@pytest.mark.parametrize(
    ("pod", "have"),
    [
        (ending("old", "a", 8, None), {"jobs": final("old", endsBy="2026-01-01T01:00:00Z")}),
        (ending("old", "a", 8, "09:00:00"), {"jobs": final("old", endsBy="2026-01-01T01:00:00Z")}),
        (
            ending("old", "a", 8, "01:00:00", labels={JOBSET: "set"}),
            {"jobs": final("old"), "job_sets": [{"namespace": "team", "name": "set"}]},
        ),
        (running("old", "a", 8, 200, endsBy="2026-01-01T01:00:00Z"), {}),
    ],
)
def test_deadlines_of_jobs_sets_and_bare_pods_are_known(pod: Object, have: Object) -> None:
    found = answer([pod], job(), nodes="a", **have)
    assert found.opening is not None
    assert found.opening.at == "2026-01-01T01:00:00Z"


def test_who_else_wants_the_room_leaves_it_open() -> None:
    pods, jobs = [ending("old", "a", 8, "01:00:00")], final("old")
    assert answer([*pods, waiting("other", 8, 100)], job(), nodes="a", jobs=jobs).opening is None
    found = fit(cluster([node("a")], pods, jobs=jobs), [job("one", gpus=8), job("two", gpus=8)])
    assert [item.opening for item in found] == [None, None]
    queued = job()
    queued["metadata"]["labels"] = {QUEUE_LABEL: "research"}
    assert answer(pods, queued, nodes="a", jobs=jobs).opening is None


def test_pods_are_counted_with_their_deadline() -> None:
    pod = {
        "metadata": {"namespace": "team", "name": "x"},
        "spec": {"nodeName": "a", "containers": [], "activeDeadlineSeconds": 3600},
        "status": {"phase": "Running", "startTime": "2026-01-01T23:30:00Z"},
    }
    assert pod_entry(pod)["endsBy"] == "2026-01-02T00:30:30Z"
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    assert pod_entry(pod)["endsBy"] == "2026-01-02T00:30:00Z"
    pod["spec"]["activeDeadlineSeconds"] = 2**62
    assert "endsBy" not in pod_entry(pod)


@pytest.mark.parametrize(
    ("spec", "status", "kept"),
    [
        ({"backoffLimit": 0}, {}, {"final": True, "enough": 1}),
        ({}, {}, {"spared": 6, "enough": 7}),
        ({}, {"failed": 6}, {"final": True, "enough": 1}),
        ({}, {"failed": 5, "uncountedTerminatedPods": {"failed": ["uid"]}}, {"final": True, "enough": 1}),
        ({"backoffLimit": 2}, {"failed": 1}, {"spared": 1, "enough": 2}),
        ({"backoffLimit": 2}, {"failed": 4}, {"final": True, "enough": 1}),
        ({"activeDeadlineSeconds": 60}, {}, {"spared": 6, "enough": 7}),
        (
            {"activeDeadlineSeconds": 60},
            {"startTime": "2026-01-01T00:00:00Z"},
            {"spared": 6, "enough": 7, "endsBy": "2026-01-01T00:01:30Z"},
        ),
        ({"backoffLimit": 0}, {"conditions": [{"type": "Complete", "status": "True"}]}, None),
        ({"backoffLimit": 0, "suspend": True}, {}, None),
    ],
)
def test_jobs_are_counted_that_have_not_ended(spec: Object, status: Object, kept: Object | None) -> None:
    obj = copy.deepcopy({**job(), "status": status})
    obj["spec"].update(spec)
    expected = None if kept is None else {"namespace": "team", "name": "train", **kept}
    assert job_entry(obj) == expected
    obj["metadata"]["labels"] = {QUEUE_LABEL: "research"}
    assert (job_entry(obj) or {}).keys() <= {"namespace", "name", "spared", "enough"}


def test_of_a_set_in_a_queue_no_opening_is_told() -> None:
    """What it leaves is given to the next one there."""
    pods = [ending("old", "a", 8, "01:00:00", labels={JOBSET: "set"})]
    sets = {"namespace": "team", "name": "set"}
    told = answer(pods, job(gpus=8), nodes="a", jobs=final("old"), job_sets=[sets])
    assert told.opening is not None
    for more in ({"queued": True}, {"restarts": True}, {"unsure": True}):
        assert answer(pods, job(gpus=8), nodes="a", jobs=final("old"), job_sets=[{**sets, **more}]).opening is None


def test_all_resources_are_waited_for() -> None:
    """Of GPUs there are enough at once, of memory only later."""
    pods = [ending("gpus", "a", 4, "01:00:00"), ending("memory", "a", 1, "02:00:00", requests={"memory": "100Gi"})]
    found = answer(pods, job(gpus=5, amounts={"memory": "64Gi"}), nodes="a", jobs=final("gpus", "memory"))
    assert found.opening is not None
    assert [item.job for item in found.opening.after] == ["Job/gpus", "Job/memory"]
