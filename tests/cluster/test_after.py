"""Trainings that wait for others (`job.after`), on the real control plane."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from fault_tools.proxy import Proxy, before, matching, on, refuse
from gpuctl.apply.run.prerequisite_release import release, waiting_trainings
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.configuration import open_session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from support.cluster_tools import DOMAIN, Place, training
from support.command import Command, Start
from support.deployments import DEPLOY
from support.why_records import record

RELEASED = f"{DOMAIN}/released-at"


def after(name: str, *others: str, **conditions: str) -> dict[str, Any]:
    """A training that waits for others."""
    document = training(name)
    document["job"]["after"] = conditions or list(others)
    return document


def status(place: Place, job: str) -> tuple[str, str]:
    (row,) = place.gpuctl("get", "jobs", job, "-o", "json").value["items"]
    return row["status"], row["reason"]


def why(place: Place, job: str) -> str:
    """Return the cause."""
    cause = str(place.gpuctl("why", job, "-o", "json").value["cause"])
    record(place.namespace, job, cause)
    return cause


def is_released(place: Place, job: str) -> bool:
    return RELEASED in place.get("Job", job)["metadata"]["annotations"]


def in_background(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_apply_with_wait_starts_a_job_when_its_prerequisite_has_succeeded(place: Place) -> None:
    applied = place.apply(training("prepare"), after("train", "prepare"))
    assert "training/train starts after prepare; the service or `gpuctl apply --wait` starts it" in applied.err
    assert status(place, "train") == ("Waiting", "waits for prepare")
    assert place.get("Job", "train")["spec"]["suspend"] is True
    assert why(place, "train") == "waiting-for-jobs"
    ending = in_background(lambda: place.end("prepare"))
    place.apply(training("prepare"), after("train", "prepare"), flags=("--wait",))
    ending.join()
    place.running("train")
    job = place.get("Job", "train")
    assert job["spec"]["suspend"] is False
    assert RELEASED in job["metadata"]["annotations"]
    assert place.plan(training("prepare"), after("train", "prepare")).actions == {
        "Job/prepare": "unchanged",
        "Job/train": "unchanged",
    }


def test_failed_prerequisite_holds_a_job_until_it_has_run_again(place: Place) -> None:
    documents = (training("prepare"), after("train", "prepare"), after("cleanup", prepare="failed"))
    place.apply(*documents)
    place.end("prepare", "fail")
    assert status(place, "train") == ("DependencyFailed", "prepare has failed, and this waits until it succeeds")
    waited = place.gpuctl("wait", "train", "--for=done", code=1)
    assert "training/train cannot start: prepare has failed" in waited.out + waited.err
    for _ in range(2):
        refused = place.apply(*documents[1:], flags=("--wait", "--timeout=30s"), code=1)
        assert f"job.batch/train in {place.namespace} cannot start: prepare has failed" in refused.err
    place.running("cleanup")
    explained = place.gpuctl("why", "train", "-o", "json", code=None).value
    assert why(place, "train") == "dependency-failed"
    assert f"gpuctl rerun prepare -n {place.namespace}" in explained["fix"]
    place.gpuctl("rerun", "prepare")
    assert status(place, "train") == ("Waiting", "waits for prepare")
    place.end("prepare")
    place.apply(*documents, flags=("--wait",))
    place.running("train")


@pytest.mark.slow
def test_paused_job_is_released_but_not_started(place: Place) -> None:
    documents = (training("prepare"), after("train", "prepare"))
    place.apply(*documents)
    assert "is not paused; it waits for prepare" in place.gpuctl("resume", "train").out
    place.gpuctl("pause", "train")
    place.end("prepare")
    place.apply(*documents, flags=("--wait",))
    assert is_released(place, "train")
    assert status(place, "train")[0] == "Paused"
    assert place.get("Job", "train")["spec"]["suspend"] is True
    place.gpuctl("resume", "train")
    place.running("train")


def test_missing_prerequisite_is_an_error_of_the_plan(place: Place) -> None:
    refused = place.apply(after("train", "prepair"), code=None)
    assert f"training/train would wait for ever: there is no job prepair in {place.namespace}" in refused.err
    assert not place.exists("Job", "train")
    place.apply(training("prepare"))
    assert "did you mean `prepare`?" in place.apply(after("train", "prepair"), code=None).err


def test_sweep_is_awaited_as_a_whole(place: Place) -> None:
    tune = training("tune", environment={"args": ["{{sweep.lr}}"]}, sweep={"lr": ["1e-5", "2e-5"]})
    place.apply(tune, after("report", "tune"))
    place.end("tune-0")
    assert status(place, "report") == ("Waiting", "waits for tune")
    place.end("tune-1")
    place.apply(tune, after("report", "tune"), flags=("--wait",))
    place.running("report")


@pytest.mark.slow
def test_sweep_whose_apply_was_interrupted_is_awaited(place: Place, proxy: Proxy) -> None:
    tune = training("tune", environment={"args": ["{{sweep.lr}}"]}, sweep={"lr": ["1e-5", "2e-5", "3e-5"]})
    proxy.reset(on(lambda one: one.is_write and b'"name":"tune-2"' in one.body, refuse(403, "Forbidden", "denied")))
    place.apply(tune, code=1)
    proxy.reset()
    place.end("tune-0")
    place.end("tune-1")
    lacking = "tune-2 of the sweep tune does not exist"
    noted = place.apply(after("report", "tune")).err
    assert f"training/report does not start: {lacking}; apply the document of tune again" in noted
    assert status(place, "report") == ("Waiting", f"{lacking}, and this job waits for it")
    assert why(place, "report") == "dependency-missing"
    place.apply(tune)
    assert status(place, "report") == ("Waiting", "waits for tune")
    fix = place.gpuctl("why", "report", "-o", "json").value["fix"]
    assert fix == f"`gpuctl get jobs --sweep tune -n {place.namespace}` lists the jobs of that sweep"
    listed = place.anywhere(*fix.split("`")[1].split()[1:]).out
    assert all(name in listed for name in ("tune-0", "tune-1", "tune-2"))
    place.end("tune-2")
    place.apply(after("report", "tune"), flags=("--wait",))
    place.running("report")


@pytest.mark.slow
def test_rerun_of_a_job_that_was_never_released_starts(place: Place) -> None:
    """A GitOps controller has created it, and this cluster has no Kueue that observes its gate."""
    place.platform("training: {queue: {drill: team}}")
    rendered = place.gpuctl("render", "-f", place.file(training("prepare"), after("train", "prepare"))).out
    place.kubectl("apply", "-f", "-", input=rendered)
    place.end("train")
    place.gpuctl("rerun", "train")
    assert is_released(place, "train")
    assert "kueue.x-k8s.io/admission-gated-by" not in place.get("Job", "train")["metadata"]["annotations"]
    place.running("train")
    assert status(place, "train")[0] == "Running"


@pytest.mark.slow
def test_new_run_of_a_prerequisite_is_awaited(place: Place) -> None:
    place.apply(training("prepare"))
    place.end("prepare")
    changed = training("prepare", environment={"args": ["--again"]})
    place.apply(changed, after("train", "prepare"), flags=("--yes",))
    assert status(place, "train") == ("Waiting", "waits for prepare")


def test_deletion_names_the_jobs_that_wait(place: Place) -> None:
    place.apply(training("prepare"), after("train", "prepare"))
    told = place.gpuctl("delete", "job", "prepare", "--yes").err
    assert f"train in {place.namespace} waits for prepare, and would not start" in told
    assert status(place, "train") == ("Waiting", "prepare does not exist, and this job waits for it")
    assert why(place, "train") == "dependency-missing"


def test_changed_prerequisites_of_a_waiting_job_replace_it_and_of_a_running_one_do_not(place: Place) -> None:
    place.apply(training("prepare"), training("other"), after("train", "prepare"))
    changed = place.apply(after("train", "other"), flags=("-o", "json"))
    assert changed.actions == {"Job/train": "replace"}
    free = place.apply(training("train"), flags=("-o", "json"))
    assert free.actions == {"Job/train": "replace"}
    place.running("train")
    again = place.apply(after("train", "other"), flags=("-o", "json"))
    assert again.actions == {"Job/train": "update"}
    place.gpuctl("pause", "train")
    place.gpuctl("resume", "train")
    place.running("train")


def test_fit_judges_a_waiting_job_as_if_it_started_now(place: Place) -> None:
    fits = place.gpuctl("fit", "-f", place.file(training("prepare"), after("train", "prepare")), "-o", "json").value
    (train,) = [job for job in fits["jobs"] if job["name"] == "train"]
    assert (train["verdict"], train["pods"]) == ("fits", 1)
    assert train["reason"].startswith("it waits for prepare")


def test_waiting_jobset_runs_after_its_prerequisite(place: Place) -> None:
    """No controller of JobSets runs here: the object alone shows whether it may start."""
    place.platform("training: {backend: jobset}")
    wide = after("wide", "prepare")
    wide["resources"]["nodes"] = 2
    place.apply(training("prepare"), wide)
    assert status(place, "wide") == ("Waiting", "waits for prepare")
    assert why(place, "wide") == "waiting-for-jobs"
    assert place.get("JobSet", "wide")["spec"]["suspend"] is True
    place.end("prepare")
    place.apply(training("prepare"), wide, flags=("--wait", "--timeout", "5"), code=None)
    released = place.get("JobSet", "wide")
    assert released["spec"]["suspend"] is False
    assert RELEASED in released["metadata"]["annotations"]
    assert set(place.plan(training("prepare"), wide).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_history_and_rollback_of_a_waiting_job(place: Place) -> None:
    place.apply(training("prepare"), after("train", "prepare"))
    changed = after("train", "prepare")
    changed["environment"]["args"] = ["--lr=2e-5"]
    place.apply(changed)
    assert status(place, "train") == ("Waiting", "waits for prepare")
    listed = place.gpuctl("history", "train", "-o", "json").value["items"]
    assert [item["revision"] for item in listed] == [2, 1]
    refused = place.gpuctl("rerun", "train", code=1).err
    assert f"training/train in {place.namespace} has not run yet: it waits for prepare" in refused
    advice = refused.split("`")[1].split()
    assert advice[:2] == ["gpuctl", "why"]
    assert "waiting-for-jobs" in place.anywhere(*advice[1:]).out
    place.gpuctl("rollback", "train", "--yes")
    job = place.get("Job", "train")
    assert "args" not in job["spec"]["template"]["spec"]["containers"][0]
    assert job["spec"]["suspend"] is True
    place.end("prepare")
    place.apply(training("prepare"), after("train", "prepare"), flags=("--wait",))
    place.end("train")
    # The first run was released, so that a new run does not wait.
    place.gpuctl("delete", "job", "prepare", "--yes")
    place.gpuctl("rerun", "train")
    place.running("train")


def test_recovery_creates_a_waiting_job_again(place: Place, proxy: Proxy, start: Start) -> None:
    """Killed between the deletion and the creation of a changed job, which waits in its new form, too."""
    place.apply(training("prepare"), after("train", "prepare"))
    changed = after("train", "prepare")
    changed["environment"]["args"] = ["--lr=2e-5"]
    killed: list[Command] = []
    creates = matching("POST", "/jobs", writes=True)
    proxy.reset(on(creates, before(lambda: killed[0].process.kill())))
    killed.append(start("apply", "-f", place.file(changed), "-n", place.namespace, "--yes"))
    assert killed[0].end() == -9, killed[0].err
    proxy.reset()
    assert not place.exists("Job", "train")
    place.gpuctl("recover", "--yes")
    assert status(place, "train") == ("Waiting", "waits for prepare")
    place.end("prepare")
    place.apply(changed, flags=("--wait",))
    place.running("train")


def test_rights_of_the_service_start_a_job(place: Place) -> None:
    """Without deploy/service/starting.yaml the account of the service may not patch jobs."""
    role, binding = yaml.safe_load_all((DEPLOY / "service" / "starting.yaml").read_text())
    place.apply(training("prepare"), after("train", "prepare"))
    place.end("prepare")
    session = open_session(kubeconfig=str(place.plane.kubeconfig("nobody")))
    live = [place.get("Job", name) for name in ("prepare", "train")]
    (waiting,) = waiting_trainings(live, records(Settings()))
    with pytest.raises(ApiError) as refused:
        release(session, waiting, records(Settings()))
    assert refused.value.lacks_permission
    assert not is_released(place, "train")
    place.kubectl("apply", "-f", "-", input=yaml.safe_dump(role))
    try:
        place.plane.grant("nobody", place.namespace, binding["roleRef"]["name"])
        place.until(lambda: place.plane.may("nobody", "patch", "jobs.batch", place.namespace), "the right to patch")
        assert release(session, waiting, records(Settings())) is not None
    finally:
        session.close()
        place.kubectl("delete", "clusterrole", role["metadata"]["name"])
    place.running("train")


def test_queue_without_admission_gates_is_an_error(place: Place) -> None:
    """This control plane has no Kueue, which would start the job at once as an old Kueue would."""
    place.platform("training: {queue: {drill: team}}")
    refused = place.apply(training("prepare"), after("train", "prepare"), code=None)
    assert f"job.batch/train in {place.namespace} would start at once: no Kueue of this cluster" in refused.err
    assert not place.exists("Job", "train")


def test_queue_without_admission_gates_is_an_error_in_a_new_namespace(place: Place) -> None:
    place.platform("training: {queue: {drill: team}}")
    new = f"{place.namespace[-50:].strip('-')}-new"
    documents = (training("prepare"), after("train", "prepare"))
    for document in documents:
        document["job"]["namespace"] = new
    refused = place.anywhere("apply", "-f", place.file(*documents), "--yes", code=None)
    assert f"job.batch/train in {new} would start at once: no Kueue of this cluster" in refused.err
