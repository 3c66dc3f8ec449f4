"""Scheduled trainings without a cluster: rows, the runs that `gpuctl run` starts, fit, and owners of pods."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuctl.apply.plan.disruption import add_disruptions
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.scheduled_run_plan import NotSchedulable, note_unfinished_runs, plan_run
from gpuctl.capacity.fit.job_fit import fit
from gpuctl.capacity.pods.demand import owns
from gpuctl.hints import Surface, set_request_surface
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import key_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.scheduled_jobs import run_of, with_runs
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.objects.workload_state import pods_of_each
from gpuctl.reading.jobs.job_objects import Identity, Job, group_by_job
from gpuctl.reading.jobs.job_rows import job_row, platform_keys, rows_of_jobs
from gpuctl.reading.jobs.status import Status
from gpuctl.reading.why.evidence import Evidence, gather
from gpuctl.reading.why.stopped_jobs import scheduled
from gpuctl.reading.why.waiting_reasons import WaitingReasons
from gpuctl_server.mirror.job_board import ListedJob
from support.fit_objects import cluster, job, node

Object = dict[str, Any]

KEYS = records(Settings())
NAMES = platform_keys(Settings(), KEYS)
LABELS = {"app": "nightly", "runwhere.ai/job-type": "training"}
IN_TOKYO = "TZ=Asia/Tokyo 0 2 * * *"
UNKNOWN = "when it runs next is unknown"


def cron_job(**more: Any) -> Object:
    """A CronJob whose runs need a GPU each."""
    template = job("nightly", gpus=1)["spec"]
    template["template"]["metadata"] = {"labels": dict(LABELS)}
    metadata = {"name": "nightly", "namespace": "team", "uid": "c", "labels": dict(LABELS)}
    spec = {"schedule": "0 2 29 2 *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid", **more}
    spec["jobTemplate"] = {"metadata": {"labels": dict(LABELS)}, "spec": template}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


def run(name: str, end: str = "", created: str = "2026-11-27T02:00:00Z") -> Object:
    """A run of the CronJob; ``end``: the type of its condition."""
    made = run_of(cron_job(), name)
    made["metadata"] |= {"uid": name, "creationTimestamp": created}
    conditions = [{"type": end, "status": "True", "reason": "Because", "lastTransitionTime": created}] if end else []
    return {**made, "status": {"conditions": conditions, **({} if end else {"active": 1, "startTime": created})}}


def pod(name: str, of: str) -> Object:
    owner = {"kind": "Job", "name": of, "uid": of, "controller": True}
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": dict(LABELS), "ownerReferences": [owner]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Running"}}


def rows(*objects: Object, pods: tuple[Object, ...] = ()) -> list[tuple[str | None, str]]:
    """The pod and the status of each row."""
    jobs = group_by_job([cron_job(), *objects], pods, KEYS)
    return [(row.pod, row.state.word) for row in rows_of_jobs(jobs, NAMES)]


def test_idle_schedule_has_one_row_without_the_pods_of_its_runs() -> None:
    assert rows() == [(None, "Scheduled")]
    assert rows(run("nightly-1", "Complete"), pods=(pod("p", "nightly-1"),)) == [(None, "Scheduled")]


def test_unfinished_run_has_the_rows_of_its_pods() -> None:
    old, new = run("nightly-1", "Failed"), run("nightly-2", created="2026-11-28T02:00:00Z")
    assert rows(new, old, pods=(pod("p", "nightly-1"), pod("q", "nightly-2"))) == [("q", "Running")]
    (found,) = group_by_job([cron_job(), new, old], [], KEYS)
    assert [one["metadata"]["name"] for one in found.runs] == ["nightly-1", "nightly-2"]


def test_status_names_the_last_run() -> None:
    (found,) = group_by_job([cron_job(), run("nightly-1", "Failed")], [], KEYS)
    assert found.status(KEYS).reason == "next run at 2028-02-29T02:00:00Z; run nightly-1 failed: Because"


@pytest.mark.parametrize(
    ("spec", "message", "fix"),
    [
        (
            {"schedule": "0 0 31 2 *"},
            "it never runs: no day matches the schedule `0 0 31 2 *`",
            "correct the day of month, or the month",
        ),
        (
            {"schedule": IN_TOKYO},
            f"{UNKNOWN}: gpuctl does not read the schedule `{IN_TOKYO}`: a cron expression contains no time zone",
            'write `cron: "0 2 * * *"` and `timezone: Asia/Tokyo`',
        ),
        (
            {"timeZone": "Mars/Base"},
            f"{UNKNOWN}: this machine does not know the time zone Mars/Base",
            None,
        ),
    ],
)
def test_schedule_whose_next_run_never_comes_or_is_unknown_is_not_called_well(
    spec: Object, message: str, fix: str | None
) -> None:
    (found,) = group_by_job([cron_job(**spec)], [], KEYS)
    assert found.status(KEYS).reason == message
    finding = scheduled(Evidence(found, KEYS, Settings(), datetime.now(timezone.utc)))
    assert finding is not None
    assert (finding.cause, finding.message, finding.fix) == ("scheduled", message, fix)


def test_suspended_schedule_is_named_beside_its_unfinished_run() -> None:
    for marks, reason in (
        ({}, "run nightly-1; spec.suspend is set, not by `gpuctl pause`"),
        ({KEYS.paused: "true"}, "run nightly-1; `gpuctl resume` continues its schedule"),
    ):
        main = cron_job(suspend=True)
        main["metadata"]["annotations"] = marks
        (found,) = group_by_job([main, run("nightly-1")], [pod("p", "nightly-1")], KEYS)
        assert found.status(KEYS) == Status("Running", "running", reason)


def test_unfinished_run_is_explained_beside_a_later_one_that_has_finished() -> None:
    """Runs that may meet end in any order; the schedule is paused, so that only the run is left to explain."""
    main = cron_job(suspend=True)
    main["metadata"]["annotations"] = {KEYS.paused: "true"}
    runs = [run("nightly-1"), run("nightly-2", "Complete", created="2026-11-28T02:00:00Z")]
    (found,) = group_by_job([main, *runs], [pod("p", "nightly-1")], KEYS)
    session = SimpleNamespace(
        namespace="team",
        server_time=lambda: 1.0,
        list_objects=lambda *_, **__: ([], "1"),
        each=lambda task, items: list(map(task, items)),
        get=lambda key: None,
    )
    evidence = gather(Scope(cast(Session, session), "team"), found, KEYS, Settings())
    assert evidence.job.workload == runs[0]
    assert [one["metadata"]["name"] for one in evidence.job.pods] == ["p"]


class ListedEvents(Scope):
    """A scope in which events were listed, and nothing else."""

    def __init__(self, *events: Object) -> None:
        self._events = [*events]

    def all_if_allowed(self, kind: str, *, labels: str = "", fields: str = "", why: str = "") -> list[Object] | None:
        return self._events if kind == "Event" else None


class ListedReasons(WaitingReasons):
    """Reasons from a quota and events that were listed."""

    def __init__(self, *events: Object) -> None:
        super().__init__(ListedEvents(*events), KEYS, Settings())
        self._now = datetime(2026, 11, 27, 2, 5, tzinfo=timezone.utc)
        self._quotas = {"team": [{"metadata": {"namespace": "team", "name": "few"}}]}


def test_reason_of_a_run_whose_pods_are_refused() -> None:
    said = 'pods "nightly-1-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
    event = {
        "metadata": {"name": "e", "namespace": "team"},
        "reason": "FailedCreate",
        "message": f"Error creating: {said}",
        "lastTimestamp": "2026-11-27T02:01:00Z",
        "involvedObject": {"kind": "Job", "namespace": "team", "name": "nightly-1", "uid": "nightly-1"},
        "source": {"component": "job-controller"},
    }
    (found,) = group_by_job([cron_job(), run("nightly-1")], [], KEYS)
    (reason,) = ListedReasons(event).of([found]).values()
    assert reason.not_created == "quota few has no room: a pod needs 1 pods, 0 left (1 of 1 used)"


def test_run_is_a_job_that_the_cron_job_controls() -> None:
    (step,) = plan_run(cron_job(), [run("nightly-1", "Complete")], "training/nightly").steps
    assert step.desired is not None
    metadata = step.desired["metadata"]
    assert metadata["name"].startswith("nightly-r")
    assert len(metadata["name"]) == len("nightly") + 7
    assert metadata["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["c"]


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
def test_run_is_refused_beside_an_unfinished_one(policy: str) -> None:
    with pytest.raises(NotSchedulable, match="has the unfinished run nightly-1"):
        plan_run(cron_job(concurrencyPolicy=policy), [run("nightly-1")], "training/nightly")
    assert plan_run(cron_job(concurrencyPolicy="Allow"), [run("nightly-1")], "training/nightly").writes


@pytest.mark.parametrize(
    ("changes", "notes"),
    [({}, 1), ({"concurrencyPolicy": "Replace"}, 1), ({"concurrencyPolicy": "Allow"}, 0), ({"suspend": True}, 0)],
    ids=["forbid", "replace", "allow", "paused"],
)
def test_run_notes_that_the_schedule_does_not_wait_for_it(changes: Object, notes: int) -> None:
    found = plan_run(cron_job(**changes), [], "training/nightly").notes
    assert sum("`gpuctl pause nightly -n team` stops the schedule" in note for note in found) == len(found) == notes


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("Job", "`gpuctl rerun train -n team` runs a training again that has ended"), ("Deployment", None)],
)
def test_run_of_a_job_without_schedule_is_refused(kind: str, hint: str | None) -> None:
    live = {**job("train"), "kind": kind, "metadata": {"name": "train", "namespace": "team"}}
    live |= {"apiVersion": "apps/v1"} if kind == "Deployment" else {}
    with pytest.raises(NotSchedulable, match="has no schedule") as refused:
        plan_run(live, [], "training/train")
    assert refused.value.hint == hint


def test_deletion_loses_the_unfinished_run() -> None:
    """It has run for three hours by the clock of the API server, from which the times of objects come."""

    def refuse(*_: object) -> None:
        raise ApiError(403, "Forbidden", 'pods is forbidden: User "dora" cannot list resource "pods" in API group ""')

    live = cron_job()
    step = Step("delete", key_of(live), live=live)
    note_unfinished_runs([step], [run("nightly-1", "Complete"), run("nightly-2")])
    now = parse_timestamp("2026-11-27T05:00:00Z").timestamp()
    session = SimpleNamespace(server_time=lambda: now, each=refuse, caller="dora")
    add_disruptions(cast(Session, session), Plan([step]), KEYS)
    assert step.running == "running for 3h"


def test_fit_counts_one_run() -> None:
    (answer,) = fit(cluster([node("a", gpus=1)]), with_runs([cron_job()]))
    assert (answer.verdict, answer.demand.pods) == ("fits", 1)


def test_pods_of_a_job_with_a_longer_name_are_not_those_of_the_schedule() -> None:
    other = pod("p", "nightly-eval")
    other["metadata"]["labels"] = {**LABELS, "app": "nightly-eval"}
    mine = pod("q", "nightly-29384640")
    assert pods_of_each([other, mine], [cron_job()]) == [[mine]]
    seen = {"namespace": "team", "labels": LABELS, "owner": {"kind": "Job", "name": "nightly-29384640"}}
    assert owns(cron_job(), seen)
    assert not owns(cron_job(), {**seen, "labels": {"app": "nightly-eval"}})


def test_listed_next_run_is_not_one_that_has_passed() -> None:
    """A run that the controller skips changes no object, so that the kept row would name it for ever."""
    kept = Job(Identity("team", "nightly", "training"), cron_job(schedule="* * * * *"))
    row = job_row(kept, NAMES)
    row = row._replace(state=row.state._replace(reason="next run at 2020-01-01T00:00:00Z"))
    ahead = 3600.0 * 24 * 3660
    set_request_surface(Surface.REST)
    try:
        reason = ListedJob("1", kept, row).row_for_request(KEYS, ahead).state.reason
    finally:
        set_request_surface(Surface.COMMAND_LINE)
    assert reason.removeprefix("next run at ") > "2036"


def test_row_of_a_pod_without_a_workload_is_listed() -> None:
    kept = Job(Identity("team", "alone", "training"), None, [pod("alone", "")])
    row = job_row(kept, NAMES)
    set_request_surface(Surface.REST)
    try:
        assert ListedJob("1", kept, row).row_for_request(KEYS, 0.0) == row
    finally:
        set_request_surface(Surface.COMMAND_LINE)
