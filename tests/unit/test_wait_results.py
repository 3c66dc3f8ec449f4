"""Results of `gpuctl wait` that depend on a moment that a live test rarely meets, or are about many jobs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl.api.wait_models import WaitedName
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs import wait_until
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.wait_until import _Wait, _Waited
from gpuctl.reading.why import cause_summary
from gpuctl.reading.why.cause_summary import causes_of
from gpuctl.reading.why.waiting_reasons import WaitingReason
from gpuctl_server.lookups.job_waits import _missing


@pytest.mark.parametrize(("phase", "outcome"), [("Running", None), ("Failed", "failed")])
def test_lone_pod_fails_when_it_has_ended_not_when_a_container_is_about_to_restart(
    phase: str, outcome: str | None
) -> None:
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    pod: dict[str, Any] = {
        "metadata": {"name": "lone", "namespace": "n", "uid": "1"},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    }
    item = _Waited("lone", Job(Identity("n", "lone", "notebook"), None, [pod]), None, has_app=False)
    scope: Any = None
    wait = _Wait(scope, [item], "ready", records(Settings()), Settings(), None, None)
    found = wait._gone(item)
    assert (found and found.outcome) == outcome


@pytest.mark.parametrize(
    ("phase", "condition", "outcome"),
    [
        ("Running", "running", "met"),
        ("Running", "done", None),
        ("Failed", "running", None),
        ("Succeeded", "done", None),
    ],
)
def test_pods_of_a_controller_that_gpuctl_does_not_know_are_not_deleted(
    phase: str, condition: str, outcome: str | None
) -> None:
    owner = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True}
    pod: dict[str, Any] = {
        "metadata": {"name": "agent-1", "namespace": "n", "uid": "1", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }
    item = _Waited("agent", Job(Identity("n", "agent", "inference"), None, [pod]), None, has_app=True, absent=1.0)
    scope: Any = None
    found = _Wait(scope, [item], condition, records(Settings()), Settings(), None, None)._gone(item)
    assert (found and found.outcome) == outcome
    pod["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z"
    gone = _Wait(scope, [item], condition, records(Settings()), Settings(), None, None)._gone(item)
    assert gone is not None
    assert gone.outcome == "gone"


def test_late_jobs_that_wait_are_explained_together_and_few_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job(Identity("n", f"train-{number}", "training"), None) for number in range(60)]
    together, alone = jobs[:30], list[Job]()

    class Reasons:
        def __init__(self, *_: object) -> None:
            pass

        def of(self, asked: list[Job]) -> dict[Identity, WaitingReason]:
            assert asked == jobs
            return {job.identity: WaitingReason("no room", "", "") for job in together}

    def cause(scope: object, job: Job, *_: object) -> str:
        alone.append(job)
        return "crashes"

    monkeypatch.setattr(cause_summary, "WaitingReasons", Reasons)
    monkeypatch.setattr(cause_summary, "cause_of", cause)
    scope: Any = SimpleNamespace(session=None)
    found = causes_of(scope, jobs, records(Settings()), Settings())
    assert [found[job.identity] for job in together] == ["no room"] * 30
    assert alone == jobs[30:50]
    assert len(found) == 50


def test_few_of_the_jobs_that_have_failed_at_once_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    explained: list[Job] = []

    def cause(scope: object, job: Job, *_: object) -> str:
        explained.append(job)
        return "crashes"

    monkeypatch.setattr(wait_until, "cause_of", cause)
    waited = []
    for number in range(30):
        metadata = {"name": f"train-{number}", "namespace": "n", "uid": str(number)}
        main = {"kind": "Job", "metadata": metadata, "spec": {"template": {"spec": {}}}, "status": failed}
        job = Job(Identity("n", metadata["name"], "training"), main)
        waited.append(_Waited(metadata["name"], job, str(number), has_app=True))
    scope: Any = None
    found = list(_Wait(scope, waited, "done", records(Settings()), Settings(), None, None)._decided())
    assert [result.cause for result in found] == ["crashes"] * 20 + [""] * 10
    assert found[-1].message == "training/train-29 failed: BackoffLimitExceeded"
    assert len(explained) == 20


def test_job_counts_as_deleted_only_for_a_client_that_has_found_it() -> None:
    """A misspelt name is no job that was deleted, though its kind and namespace are given."""
    name = WaitedName(job="train", namespace="n", kind="training")
    assert _missing(name, "done").message == "there is no job train: it will not be done"
    found = name.model_copy(update={"job_id": "train-1x8k2"})
    assert _missing(found, "done").message == "training/train was deleted: it will not be done"
    assert [_missing(one, "deleted").outcome for one in (name, found)] == ["met", "met"]
