"""Events: their order, and those that explain why a job has no pods."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl import __main__ as program
from gpuctl.cli import main as command_line
from gpuctl.kube.scope import Scope
from gpuctl.reading.jobs.events_of_jobs import merge_repeated, of_job
from gpuctl.reading.jobs.job_objects import Identity, Job, add_refusals

Object = dict[str, Any]


def event(reason: str, about: Object, *, name: str = "", **others: Any) -> Object:
    """Return an event as the API lists it."""
    return {"reason": reason, "message": others.pop("message", reason), "involvedObject": about, **others} | {
        "metadata": {"name": name or f"{about['name']}.x"}
    }


def listed_fields(monkeypatch: pytest.MonkeyPatch, events: list[Object], *jobs: Job) -> str:
    """Add refusals from these events to the jobs; return the field selector that the events were listed with."""
    asked_for: list[str] = []

    def maybe(self: Scope, kind: str, *, fields: str = "", **others: str) -> list[Object]:
        asked_for.append(fields)
        return events

    monkeypatch.setattr(Scope, "all_if_allowed", maybe)
    add_refusals(Scope(SimpleNamespace(namespace="n"), None), jobs)  # type: ignore[arg-type]
    return asked_for[0]


def job_without_pods(kind: str, name: str = "train", uid: str = "new") -> Job:
    """Return a job that should have a pod and has none."""
    metadata = {"name": name, "namespace": "n", "uid": uid, "creationTimestamp": "2026-01-01T00:10:00Z"}
    spec: Object = {"replicas": 1, "parallelism": 1, "template": {"spec": {"containers": []}}}
    if kind == "JobSet":
        spec = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": spec}}]}
    return Job(Identity("n", name, "training"), {"kind": kind, "metadata": metadata, "spec": spec})


def test_refusal_of_a_former_job_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"kind": "Job", "namespace": "n", "name": "train"}
    old = event("FailedCreate", {**about, "uid": "old"}, message="was", lastTimestamp="2026-01-01T00:10:00Z")
    older = event("FailedCreate", about, message="was", lastTimestamp="2026-01-01T00:09:59Z")
    new = event("FailedCreate", {**about, "uid": "new"}, message="is", lastTimestamp="2026-01-01T00:10:00Z")
    job = job_without_pods("Job")
    assert "involvedObject.name=train" in listed_fields(monkeypatch, [old, older], job)
    assert job.refusal == ""
    listed_fields(monkeypatch, [new, old, older], job)
    assert job.refusal == "is"


@pytest.mark.parametrize(
    ("kind", "about"), [("Deployment", ("ReplicaSet", "train-76d5bbf4db")), ("JobSet", ("Job", "train-node-0"))]
)
def test_refusal_of_a_child_object_counts_for_the_job(
    monkeypatch: pytest.MonkeyPatch, kind: str, about: tuple[str, str]
) -> None:
    on = {"kind": about[0], "namespace": "n", "name": about[1], "uid": "x"}
    told = [event("FailedCreate", on, message="over quota", lastTimestamp="2026-01-01T00:11:00Z")]
    job, other = job_without_pods(kind), job_without_pods(kind, "tra")
    # No selector by name, even for a single job: events of its child objects have other names.
    assert listed_fields(monkeypatch, told, job) == "reason=FailedCreate"
    assert job.refusal == "over quota"
    job.refusal = ""
    listed_fields(monkeypatch, told, job, other)
    assert (job.refusal, other.refusal) == ("over quota", "")


@pytest.mark.parametrize(
    ("kind", "spec", "others", "own", "foreign"),
    [
        pytest.param(
            "Deployment",
            {},
            [("ReplicaSet", "train-5d4f"), ("Job", "train-v2"), ("ReplicaSet", "train-v3-77d5")],
            ["ReplicaSet/train-5d4f", "Pod/train-5d4f-x2x5z"],
            ["Job/train-v2", "Pod/train-v2-x2x5z", "ReplicaSet/train-v3-77d5", "Pod/train-v3-77d5-x2x5z"],
            id="a Deployment",
        ),
        pytest.param(
            "Job",
            {"completionMode": "Indexed"},
            [("Job", "train-1")],
            ["Job/train", "Pod/train-0-x2x5z"],
            ["Job/train-1", "Pod/train-1-x2x5z", "Pod/train-x2x5z"],
            id="an indexed Job",
        ),
        pytest.param(
            "Job", {}, [], ["Pod/train-x2x5z"], ["Pod/train-0-x2x5z", "Pod/train-v2-x2x5z", "Job/train-0"], id="a Job"
        ),
        pytest.param(
            "JobSet",
            {"replicatedJobs": [{"name": "node", "template": {"spec": {"completionMode": "Indexed"}}}]},
            [],
            ["JobSet/train", "Job/train-node-0", "Pod/train-node-0-1-x2x5z"],
            ["Job/train-big-node-0", "Pod/train-big-node-0-1-x2x5z", "Job/train-node", "Pod/train-node-0-x2x5z"],
            id="a JobSet",
        ),
        pytest.param("StatefulSet", {}, [], ["Pod/train-0"], ["Pod/train-v2-0", "Pod/train-v2"], id="a StatefulSet"),
    ],
)
def test_events_of_objects_with_similar_names_are_excluded(
    kind: str, spec: Object, others: list[tuple[str, str]], own: list[str], foreign: list[str]
) -> None:
    """Deleted pods can be matched by their names only."""
    metadata = {"name": "train", "namespace": "n", "uid": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}
    live = {"kind": kind, "metadata": metadata, "spec": spec}

    def told(of: str, name: str) -> Object:
        about = {"kind": of, "name": name, "namespace": "n", "uid": "x"}
        return event("Told", about, lastTimestamp="2026-01-01T00:01:00Z")

    every = [told(*item) for item in others] + [told(*item.split("/")) for item in (*own, *foreign)]
    about = [item["involvedObject"] for item in of_job(every, "n", live, [])]
    assert {f"{item['kind']}/{item['name']}" for item in about} == set(own)


def test_events_of_one_second_are_ordered() -> None:
    pod = {"kind": "Pod", "name": "p", "namespace": "n"}
    # 2026-01-01T00:00:05Z is 1767225605 s; kubelet's recorder names an event by its time in nanoseconds.
    pulled = f"p.{1767225605_900000000:x}"
    created = f"train.{1767225605_100000000:x}"
    told = [
        event("Scheduled", pod, eventTime="2026-01-01T00:00:05.500000Z"),
        event("Pulled", pod, name=pulled, lastTimestamp="2026-01-01T00:00:05Z"),
        event("SuccessfulCreate", pod, name=created, lastTimestamp="2026-01-01T00:00:05Z"),
        event("Queued", pod, lastTimestamp="2026-01-01T00:00:04Z"),
    ]
    assert [item.reason for item in merge_repeated(told)] == ["Queued", "SuccessfulCreate", "Scheduled", "Pulled"]
    # The event was repeated later: its name contains the first time, not the last.
    again = event("Pulled", pod, name=created, lastTimestamp="2026-01-01T00:00:06Z")
    assert [(item.reason, item.count) for item in merge_repeated([*told, again])][-1] == ("Pulled", 2)


def test_second_interrupt_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "run", lambda arguments: 130)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as stop:
            program.main()
        assert stop.value.code == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
