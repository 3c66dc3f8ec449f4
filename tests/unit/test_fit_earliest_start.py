"""The time at which a job that does not fit now will fit, from the deadlines of running pods and Jobs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_entries import job_entry, pod_entry
from gpuctl.cli.output.fit_lines import fit_lines
from gpuctl.objects.api_resources import QUEUE_LABEL
from support.fit_objects import cluster, job, node, running, waiting

Object = dict[str, Any]
JOBSET = "jobset.sigs.k8s.io/jobset-name"


def pod_with_deadline(name: str, on: str, gpus: int, by: str | None, **more: Any) -> Object:
    """Return a running pod of a Job with a deadline. The snapshot was taken at midnight."""
    owner = {"group": "batch", "kind": "Job", "name": name}
    end = {} if by is None else {"endsBy": f"2026-01-01T{by}Z"}
    return running(f"{name}-{on}", on, gpus, 200, owner=owner, **end, **more)


def final_jobs(*names: str, **more: Any) -> list[Object]:
    """Return Job entries whose pods are not recreated."""
    return [{"namespace": "team", "name": name, "final": True, **more} for name in names]


def answer(pods: list[Object], wanted: Object, nodes: str = "ab", **have: Any) -> Fit:
    """Return the answer for one job on nodes of 8 GPUs."""
    (found,) = fit(cluster([node(name) for name in nodes], pods, **have), [wanted])
    return found


def test_opening_names_the_jobs_that_end_first() -> None:
    pods = [
        pod_with_deadline("late", "a", 4, "09:00:00"),
        pod_with_deadline("soon", "a", 4, "03:20:00"),
        pod_with_deadline("sooner", "b", 4, "02:00:10"),
        running("forever", "b", 4, 200),
    ]
    found = answer(pods, job(gpus=8), jobs=final_jobs("late", "soon", "sooner"))
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
    found = answer(pods, job(gpus=4), jobs=final_jobs("late", "soon", "sooner"))
    line = "  when: fits when Job/sooner in team (at most 2 h 1 min more) has ended, at 02:01 UTC at the latest"
    assert line in list(fit_lines(fit_job(found)))


@pytest.mark.parametrize(("works", "rest"), [(3, ""), (4, " and 1 other"), (5, " and 2 others")])
def test_opening_names_three_works_and_counts_the_others(works: int, rest: str) -> None:
    names = [f"j{number}" for number in range(works)]
    pods = [pod_with_deadline(name, "a", 1, f"0{index + 1}:00:00") for index, name in enumerate(names)]
    (line,) = (
        line
        for line in fit_lines(fit_job(answer(pods, job(gpus=8), nodes="a", jobs=final_jobs(*names))))
        if line.startswith("  when: ")
    )
    parts = [f"Job/j{number} in team (at most {number + 1} h more)" for number in range(3)]
    shown = ", ".join(parts) + rest if rest else f"{parts[0]}, {parts[1]} and {parts[2]}"
    assert line == f"  when: fits when {shown} have ended, at 0{works}:00 UTC at the latest"


def test_opening_on_another_day_has_a_date() -> None:
    pods = [{**pod_with_deadline("old", "a", 8, "02:00:00"), "endsBy": "2026-01-02T02:00:00Z"}]
    found = answer(pods, job(), nodes="a", jobs=final_jobs("old"))
    line = (
        "  when: fits when Job/old in team (at most 1 d 2 h more) has ended, at 02:00 UTC on 2026-01-02 at the latest"
    )
    assert line in list(fit_lines(fit_job(found)))


@pytest.mark.parametrize(
    ("pod", "have"),
    [
        (pod_with_deadline("old", "a", 8, None), {"jobs": final_jobs("old")}),
        (pod_with_deadline("old", "a", 8, "01:00:00"), {}),
        (pod_with_deadline("old", "a", 8, "01:00:00"), {"jobs": [{"namespace": "team", "name": "old"}]}),
        (pod_with_deadline("old", "a", 8, "01:00:00"), {"jobs": [{**final_jobs("old")[0], "namespace": "other"}]}),
        (pod_with_deadline("old", "a", 8, "00:00:00"), {"jobs": final_jobs("old")}),
        (pod_with_deadline("old", "a", 8, "01:00:00", labels={JOBSET: "set"}), {"jobs": final_jobs("old")}),
        ({**pod_with_deadline("old", "a", 8, "01:00:00"), "owner": {"group": "x", "kind": "Job", "name": "old"}}, {}),
        (running("old", "a", 8, 200, endsBy="2026-01-01T01:00:00Z", owner={"kind": "ReplicaSet", "name": "x"}), {}),
    ],
)
def test_pods_that_may_be_recreated_give_no_opening(pod: Object, have: Object) -> None:
    found = answer([pod], job(), nodes="a", **have)
    assert (found.verdict, found.opening) == ("fits-when-empty", None)


@pytest.mark.parametrize(
    ("pod", "have"),
    [
        (pod_with_deadline("old", "a", 8, None), {"jobs": final_jobs("old", endsBy="2026-01-01T01:00:00Z")}),
        (pod_with_deadline("old", "a", 8, "09:00:00"), {"jobs": final_jobs("old", endsBy="2026-01-01T01:00:00Z")}),
        (
            pod_with_deadline("old", "a", 8, "01:00:00", labels={JOBSET: "set"}),
            {"jobs": final_jobs("old"), "job_sets": [{"namespace": "team", "name": "set"}]},
        ),
        (running("old", "a", 8, 200, endsBy="2026-01-01T01:00:00Z"), {}),
    ],
)
def test_deadlines_of_jobs_jobsets_and_bare_pods_give_an_opening(pod: Object, have: Object) -> None:
    found = answer([pod], job(), nodes="a", **have)
    assert found.opening is not None
    assert found.opening.at == "2026-01-01T01:00:00Z"


def test_no_opening_if_the_ends_do_not_make_enough_room() -> None:
    pods = [pod_with_deadline("old", "a", 4, "01:00:00"), running("forever", "a", 1, 200)]
    found = answer(pods, job(gpus=8), nodes="a", jobs=final_jobs("old"))
    assert (found.verdict, found.opening) == ("fits-when-empty", None)


def test_competing_pods_and_queues_leave_the_opening_unknown() -> None:
    pods, jobs = [pod_with_deadline("old", "a", 8, "01:00:00")], final_jobs("old")
    assert answer([*pods, waiting("other", 8, 100)], job(), nodes="a", jobs=jobs).opening is None
    found = fit(cluster([node("a")], pods, jobs=jobs), [job("one", gpus=8), job("two", gpus=8)])
    assert [item.opening for item in found] == [None, None]
    queued = job()
    queued["metadata"]["labels"] = {QUEUE_LABEL: "research"}
    assert answer(pods, queued, nodes="a", jobs=jobs).opening is None


def test_pod_entry_has_its_deadline() -> None:
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
def test_job_entry_of_unfinished_jobs(spec: Object, status: Object, kept: Object | None) -> None:
    obj = copy.deepcopy({**job(), "status": status})
    obj["spec"].update(spec)
    expected = None if kept is None else {"namespace": "team", "name": "train", **kept}
    assert job_entry(obj) == expected
    obj["metadata"]["labels"] = {QUEUE_LABEL: "research"}
    assert (job_entry(obj) or {}).keys() <= {"namespace", "name", "spared", "enough"}


def test_queued_or_restarting_jobset_gives_no_opening() -> None:
    """Kueue gives the freed room to the next job in the queue."""
    pods = [pod_with_deadline("old", "a", 8, "01:00:00", labels={JOBSET: "set"})]
    sets = {"namespace": "team", "name": "set"}
    found = answer(pods, job(gpus=8), nodes="a", jobs=final_jobs("old"), job_sets=[sets])
    assert found.opening is not None
    for more in ({"queued": True}, {"restarts": True}, {"unsure": True}):
        assert answer(pods, job(gpus=8), nodes="a", jobs=final_jobs("old"), job_sets=[{**sets, **more}]).opening is None


def test_opening_waits_for_all_resources() -> None:
    """Enough GPUs are free after the first job, enough memory only after the second."""
    pods = [
        pod_with_deadline("gpus", "a", 4, "01:00:00"),
        pod_with_deadline("memory", "a", 1, "02:00:00", requests={"memory": "100Gi"}),
    ]
    found = answer(pods, job(gpus=5, amounts={"memory": "64Gi"}), nodes="a", jobs=final_jobs("gpus", "memory"))
    assert found.opening is not None
    assert [item.job for item in found.opening.after] == ["Job/gpus", "Job/memory"]
