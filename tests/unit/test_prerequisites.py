"""Prerequisites of trainings (`job.after`): how sweeps end, and the names in forged annotations."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.prerequisite_checks import check_prerequisites, note_dependents
from gpuctl.apply.run.prerequisite_release import WaitingTraining, release
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.prerequisite_text import describe_prerequisite
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Resource, key_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.prerequisites import ends_of, judge, prerequisites_of, release_patch

KEYS = records(Settings())


def training(name: str, sweep: str | None = None, end: str | None = None, **annotations: str) -> dict[str, Any]:
    labels = {"app": name, KEYS.job_type: "training", **({KEYS.sweep: sweep} if sweep else {})}
    status = {"conditions": [{"type": end, "status": "True"}]} if end else {}
    metadata = {"name": name, "namespace": "nlp", "labels": labels, "annotations": annotations}
    return {"kind": "Job", "metadata": metadata, "spec": {"suspend": bool(annotations)}, "status": status}


def waiting(**annotations: str) -> dict[str, Any]:
    return training("evaluate", **{KEYS.after: json.dumps({"tune": "ok"}), **annotations})


def recorded(obj: dict[str, Any], *others: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the state of `tune`, and the training after the patch of the service."""
    states = judge(obj, ends_of(others, KEYS), KEYS)
    patch = release_patch(obj, states, KEYS, "2026-01-01T00:00:00Z")
    metadata = {**obj["metadata"], "annotations": dict(obj["metadata"]["annotations"])}
    metadata["annotations"].update(patch["metadata"]["annotations"] if patch else {})
    return states[0].state, {**obj, "metadata": metadata}


def test_failed_job_of_a_sweep_counts_until_it_has_run_again() -> None:
    succeeded = training("tune-1", "tune", "Complete")
    state, obj = recorded(waiting(), training("tune-0", "tune", "Failed"), succeeded)
    assert state == "unmet"
    # `gpuctl rerun` deletes the job before it creates it again.
    state, obj = recorded(obj, succeeded)
    assert state == "unmet"
    state, obj = recorded(obj, training("tune-0", "tune"), succeeded)
    assert state == "waiting"
    state, obj = recorded(obj, training("tune-0", "tune", "Complete"), succeeded)
    assert state == "met"


def test_failed_job_of_a_sweep_that_its_ttl_removed_counts() -> None:
    state, obj = recorded(waiting(), training("tune-0", "tune", "Failed"), training("tune-1", "tune"))
    assert state == "waiting"
    state, obj = recorded(obj, training("tune-1", "tune", "Complete"))
    assert state == "unmet"


def test_failure_before_a_rerun_is_forgotten() -> None:
    running = training("tune-1", "tune")
    _, obj = recorded(waiting(), training("tune-0", "tune", "Failed"), running)
    _, obj = recorded(obj, training("tune-0", "tune", "Complete"), running)
    state, _ = recorded(obj, training("tune-1", "tune", "Complete"))
    assert state == "met"


def test_forged_names_are_not_read() -> None:
    names = json.dumps({"\x1b[31mred": "ok", "\ud800": "ok", "a/b": "ok", "prepare": "ok"})
    assert prerequisites_of(training("x", **{KEYS.after: names}), KEYS.after) == {"prepare": "ok"}
    forged = waiting(**{KEYS.ended_before: json.dumps({"tune/\x1b[31mred": "failed"})})
    assert judge(forged, ends_of([training("tune-0", "tune", "Complete")], KEYS), KEYS)[0].failed_jobs == ()


def first(end: str | None, size: int) -> dict[str, Any]:
    """Return the first job of a sweep, which states the number of its jobs."""
    return training("tune-0", "tune", end, **{KEYS.sweep_size: str(size)})


def done(number: int) -> dict[str, Any]:
    return training(f"tune-{number}", "tune", "Complete")


def state(obj: dict[str, Any], *others: dict[str, Any]) -> str:
    """Return the state of `tune`, and its description."""
    (one,) = judge(obj, ends_of(others, KEYS), KEYS)
    return f"{one.state}: {describe_prerequisite(one)}"


def test_sweep_whose_apply_was_interrupted_has_not_ended() -> None:
    lacking = "missing: tune-2 of the sweep tune does not exist"
    assert state(waiting(), first("Complete", 3), done(1)) == lacking
    assert state(waiting(), first("Complete", 2), done(1)) == "met: tune has succeeded"
    assert state(waiting(), first("Complete", 3), training("tune-1", "tune")) == "waiting: tune has not ended"
    # The first job was not created yet.
    assert state(waiting(), done(1), done(2)) == "missing: tune-0 of the sweep tune does not exist"
    # An older gpuctl did not write the number.
    assert state(waiting(), done(0), done(2)) == "missing: tune-1 of the sweep tune does not exist"
    assert state(waiting(), first("Complete", 5)) == "missing: tune-1 and 3 more jobs of the sweep tune do not exist"
    for condition in ("any", "failed"):
        other = waiting(**{KEYS.after: json.dumps({"tune": condition})})
        assert state(other, first("Failed", 2)) == "missing: tune-1 of the sweep tune does not exist"


def test_jobs_of_a_sweep_that_were_removed_count_if_their_end_was_seen() -> None:
    running = training("tune-3", "tune")
    _, obj = recorded(waiting(), first("Complete", 4), done(1), done(2), running)
    assert json.loads(obj["metadata"]["annotations"][KEYS.ended_before]) == {"tune/*": {"jobs": 4, "ended": "0-2"}}
    assert state(obj, done(3)) == "met: tune has succeeded"
    assert state(obj, done(2), running) == "waiting: tune has not ended"
    # It was not seen to end, and may be about to be replaced.
    assert state(obj, first("Complete", 4), done(1)) == "missing: tune-3 of the sweep tune does not exist"
    # It runs again, and is deleted then.
    _, obj = recorded(obj, first("Complete", 4), training("tune-1", "tune"), done(2), done(3))
    assert state(obj, first("Complete", 4), done(2)) == "missing: tune-1 of the sweep tune does not exist"


def test_shorter_sweep_does_not_wait_for_the_jobs_it_no_longer_has() -> None:
    failed = training("tune-2", "tune", "Failed")
    found, obj = recorded(waiting(), first("Complete", 3), done(1), failed)
    assert found == "unmet"
    assert state(obj, first("Complete", 2), done(1)) == "met: tune has succeeded"
    assert state(obj, first("Complete", 2), done(1), failed).startswith("unmet")


def test_job_of_a_sweep_with_a_name_of_its_own_has_no_number() -> None:
    for name in ("best", "tune-01", "tune-1000", "tune--1"):
        assert state(waiting(), training(name, "tune", "Complete")) == "met: tune has succeeded"


def test_forged_numbers_of_sweeps_are_limited() -> None:
    for size in ("0", "-1", "1001", "9" * 5000, "1e3", "\u0661"):
        assert state(waiting(), training("tune-0", "tune", "Complete", **{KEYS.sweep_size: size})).startswith("met")
    for size in (True, -1, 1001, 10**30, "3", None):
        obj = waiting(**{KEYS.ended_before: json.dumps({"tune/*": {"jobs": size, "ended": "0-2"}})})
        assert state(obj, done(0)) == "met: tune has succeeded"
    for ended in ("0-99999999", "1-0", "0,0,1", "x", "9" * 5000):
        obj = waiting(**{KEYS.ended_before: json.dumps({"tune/*": {"jobs": 2, "ended": ended}})})
        assert state(obj, done(0)) == "missing: tune-1 of the sweep tune does not exist"


def test_record_of_many_sweeps_stays_readable() -> None:
    """Every other job has ended: the longest lists."""
    names = [f"sweep-{number:056}" for number in range(100)]
    jobs = [
        training(f"{name}-{number}", name, "Complete" if number % 2 else None)
        for name in names
        for number in range(100)
    ]
    obj = training("evaluate", **{KEYS.after: json.dumps(dict.fromkeys(names, "ok"))})
    patch = release_patch(obj, judge(obj, ends_of(jobs, KEYS), KEYS), KEYS, "2026-01-01T00:00:00Z")
    assert patch is not None
    text = patch["metadata"]["annotations"][KEYS.ended_before]
    assert len(text) <= 16 * 1024
    assert len(json.loads(text)) > 20


class WithoutJobSets:
    """A session whose roles have no rule for JobSets: RBAC forbids them, whether or not the server has them."""

    def __init__(self, *jobs: dict[str, Any], are_served: bool = False) -> None:
        self.jobs = list(jobs)
        self.are_served = are_served

    def list_objects(self, resource: Resource, namespace: str, **_: str) -> tuple[list[dict[str, Any]], str]:
        if resource.kind != "Job":
            name = f'resource "{resource.plural}" in API group "{resource.group}" in the namespace "{namespace}"'
            raise ApiError(403, "Forbidden", f'{resource.plural} is forbidden: User "ada" cannot list {name}')
        return self.jobs, "1"

    def request(self, method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/apis/jobset.x-k8s.io/v1alpha2")
        if not self.are_served:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return {}

    def each(self, function: Any, items: Any) -> list[Any]:
        return [function(item) for item in items]


def test_missing_prerequisite_is_unknown_if_jobsets_may_not_be_read() -> None:
    step = Step("create", key_of(waiting()), desired=waiting(), title="training/evaluate")
    plan = Plan([step])
    check_prerequisites(cast(Session, WithoutJobSets(are_served=True)), plan, KEYS)
    assert plan.errors == []
    (note,) = plan.notes
    assert note.startswith("whether the jobs to wait for exist in nlp is unknown: user ada may not list jobsets")


def test_prerequisites_are_checked_without_jobsets() -> None:
    step = Step("create", key_of(waiting()), desired=waiting(), title="training/evaluate")
    plan = Plan([step])
    check_prerequisites(cast(Session, WithoutJobSets()), plan, KEYS)
    (error,) = plan.errors
    assert error.startswith("training/evaluate would wait for ever: there is no job tune in nlp; ")
    assert not [note for note in plan.notes if "unknown" in note]


def test_jobs_that_wait_for_a_deleted_job_are_noted_without_jobsets() -> None:
    tune = training("tune")
    plan = Plan([Step("delete", key_of(tune), live=tune, method="delete")])
    note_dependents(cast(Session, WithoutJobSets(tune, waiting())), plan, KEYS)
    assert plan.notes == ["evaluate in nlp waits for tune, and would not start"]


def test_time_of_a_release_is_that_of_the_api_server() -> None:
    """The service compares it with the times of objects."""
    obj, patches = waiting(), list[Any]()
    obj["metadata"] |= {"uid": "1", "resourceVersion": "1"}
    prerequisites = judge(obj, ends_of([training("tune", end="Complete")], KEYS), KEYS)

    def patch(_: Key, sent: Any) -> Any:
        patches.append(sent)
        return {**obj, "metadata": {**obj["metadata"], "annotations": sent["metadata"]["annotations"]}}

    session: Any = SimpleNamespace(server_time=lambda: 1_900_000_000.0, patch=patch)
    assert release(session, WaitingTraining(obj, prerequisites), KEYS) is not None
    assert [sent["metadata"]["annotations"][KEYS.released] for sent in patches] == ["2030-03-17T17:46:40Z"]
