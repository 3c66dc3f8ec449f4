"""Trainings in Kueue queues, with Kueue's real controller and webhooks, and the commands of a user."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.acts.resuming import resumed_object
from gpuctl.kube.configuration import session_of
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from support.cluster_tools import GPU, PAUSED, Document, Object, Place, image, inference, training
from support.queues import Queues
from support.why_records import record

QUEUE = "kueue.x-k8s.io/queue-name"
Judge = Callable[..., bool]
BACKENDS = ("job", "jobset")
OUTCOME = "gpuctl.test/outcome"


def gpus(name: str, count: int, priority: str = "medium", **changes: Any) -> Document:
    """Return a one-node training with this number of GPUs."""
    job = {**changes.pop("job", {}), "priority": priority}
    return training(name, job=job, resources={"gpu": count}, **changes)


def statuses(place: Place) -> dict[str, str]:
    """Return the status of each job."""
    return {row["name"]: row["status"] for row in place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]}


def why(place: Place, name: str) -> Object:
    """Return the JSON answer of `gpuctl why`; check that the text names the same cause."""
    answer = dict(place.gpuctl("why", name, "-o", "json").value)
    record(place.namespace, name, answer["cause"])
    assert answer["cause"] in place.gpuctl("why", name).out.splitlines()[0]
    return answer


@pytest.mark.slow
def test_fix_names_jobs_that_free_enough_together(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("one", 1), gpus("two", 1))
    place.running("one", "two")
    place.apply(gpus("both", 2))
    queues.waits("both")
    [fix, _] = why(place, "both")["fix"].split(", or ask for less")
    assert fix.startswith(f"wait until jobs that hold 2 {GPU} have ended: ")
    assert all(f"training/{name} in {place.namespace} (1 {GPU})" in fix for name in ("one", "two"))
    place.gpuctl("delete", "job", "one", "--yes")
    last = f"wait for training/two in {place.namespace} to end"
    place.until(lambda: last in why(place, "both")["fix"], "the ClusterQueue to count the free GPU")
    place.gpuctl("delete", "job", "two", "--yes")
    place.running("both")


def test_first_job_is_admitted_and_the_next_waits(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    cluster_queue = queues.team(gpus=3)
    first, second, third = gpus("first", 2), gpus("second", 2), gpus("third", 3, "low")
    place.apply(first)
    place.running("first")
    place.apply(second, third)
    queues.waits("second", "third")
    assert statuses(place) == {"first": "Running", "second": "Queued", "third": "Queued"}
    answer = why(place, "third")
    assert answer["cause"] == "queued"
    assert answer["message"] == (
        f"waits in Kueue's queue team (ClusterQueue {cluster_queue}): it asks for 3 {GPU}, 1 free in flavor "
        f"of-team-{place.namespace} (2 of 3 used); 1 job is ahead of it (training/second in {place.namespace})"
    )
    numbers = answer["numbers"]
    assert (numbers["position"], numbers["waitingJobs"], numbers["clusterQueue"]) == (2, 2, cluster_queue)
    [room] = [item for item in numbers["resources"] if item["resource"] == GPU]
    assert {name: room[name] for name in ("asked", "nominal", "used", "free", "most")} == {
        "asked": "3",
        "nominal": "3",
        "used": "2",
        "free": "1",
        "most": "3",
    }
    assert [item["job"] for item in numbers["ahead"]] == ["training/second"]
    assert [item["job"] for item in numbers["heldBy"]] == ["training/first"]
    answer = why(place, "second")
    assert "it is next" in answer["message"]
    assert f"wait for training/first in {place.namespace} to end" in answer["fix"]
    described = place.gpuctl("describe", "job", "second").out
    assert f"it asks for 2 {GPU}, 1 free" in " ".join(described.split())
    refused = place.gpuctl("wait", "second", "--for", "running", "--timeout", "1", code=None)
    assert refused.code != 0
    assert f"it asks for 2 {GPU}, 1 free" in refused.err
    assert "Queued: waits in Kueue's queue team" in place.gpuctl("logs", "second", code=1).err
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("second")
    queues.waits("third")


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_apply_writes_nothing(queue_place: Place, queues: Queues, writes_nothing: Judge, backend: str) -> None:
    """Covers waiting, finished and admitted jobs; the flavor has its own labels and tolerations."""
    place = queue_place
    labels = {"runwhere.ai/pool": "drill", "kubernetes.io/os": "linux"}
    flavor = queues.flavor("labelled", labels, tolerations=[{"key": "special", "operator": "Exists"}])
    queues.team(gpus=2, backend=backend, flavor=flavor)
    kind = "JobSet" if backend == "jobset" else "Job"
    nodes = {"nodes": 2} if backend == "jobset" else {"gpu": 2}
    first, second = training("first", resources=nodes), training("second", resources=nodes)
    done = training("done", job={"annotations": {OUTCOME: "complete"}}, resources=nodes)
    place.apply(first)
    queues.admitted("first", kind=kind)
    place.apply(second)
    queues.waits("second", kind=kind)
    place.until(lambda: statuses(place)["first"] == "Running", "first to run")
    admitted = place.get(kind, "first")["spec"]
    template = (admitted["replicatedJobs"][0]["template"]["spec"] if backend == "jobset" else admitted)["template"]
    assert template["spec"]["nodeSelector"] == labels
    assert {"key": "special", "operator": "Exists"} in template["spec"]["tolerations"]
    assert writes_nothing(first, second)
    place.gpuctl("delete", "job", "first", "--yes")
    queues.admitted("second", kind=kind)
    assert writes_nothing(second)
    place.gpuctl("delete", "job", "second", "--yes")
    place.apply(done)
    place.gpuctl("wait", "done", "--for", "done", "--timeout", "180")
    assert statuses(place) == {"done": "Succeeded"}
    assert writes_nothing(done)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_rerun_drops_the_flavor_of_the_old_admission(
    queue_place: Place, queues: Queues, writes_nothing: Judge, backend: str
) -> None:
    """Kueue wrote its Workload's name and the flavor's node selector into the old pods; a job with these never starts."""
    place = queue_place
    kind = "JobSet" if backend == "jobset" else "Job"
    flavor = queues.flavor(
        "labelled", {"kubernetes.io/os": "linux"}, tolerations=[{"key": "own", "operator": "Exists"}]
    )
    queues.team(gpus=4, backend=backend, flavor=flavor)
    document = training("again", job={"annotations": {OUTCOME: "complete"}}, resources={"nodes": 2})
    place.apply(document)
    place.gpuctl("wait", "again", "--for", "done", "--timeout", "180")
    old = place.uid(kind, "again")
    place.gpuctl("rerun", "again")
    assert place.uid(kind, "again") != old
    pods = queues.workload("again", kind)["spec"]["podSets"][0]["template"]
    assert pods["spec"]["nodeSelector"] == {"runwhere.ai/pool": "drill"}
    assert not any(item["key"] == "own" for item in pods["spec"]["tolerations"])
    place.gpuctl("wait", "again", "--for", "done", "--timeout", "180")
    assert statuses(place) == {"again": "Succeeded"}
    assert writes_nothing(document)


def test_higher_priority_preempts_within_a_queue(queue_place: Place, queues: Queues, writes_nothing: Judge) -> None:
    place = queue_place
    queues.team(gpus=2, preemption={"withinClusterQueue": "LowerPriority"})
    low, high = gpus("low", 2, "low"), gpus("high", 2, "high")
    place.apply(low)
    place.running("low")
    place.apply(high, flags=("--wait", "--timeout", "180", "--yes"))
    assert statuses(place) == {"high": "Running", "low": "Queued"}
    queues.waits("low")
    answer = why(place, "low")
    assert answer["cause"] == "queued"
    assert f"ago for training/high in {place.namespace}, a job of higher priority" in answer["message"]
    assert [item["job"] for item in answer["numbers"]["heldBy"]] == ["training/high"]
    assert writes_nothing(low, high)
    place.gpuctl("delete", "job", "high", "--yes")
    place.running("low")
    assert writes_nothing(low)


@pytest.mark.slow
def test_lender_reclaims_quota_in_a_cohort(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    cohort, flavor = queues.name("lab"), queues.flavor("shared")
    lender = queues.cluster_queue(
        "lender", 2, flavor=flavor, cohortName=cohort, preemption={"reclaimWithinCohort": "Any"}
    )
    borrower = queues.cluster_queue("borrower", 1, flavor=flavor, cohortName=cohort)
    queues.local_queue("lend", lender)
    queues.local_queue("borrow", borrower)
    queues.use("borrow")
    place.apply(gpus("guest", 3))
    place.running("guest")
    place.apply(gpus("late", 1))
    queues.waits("late")
    answer = why(place, "late")
    assert answer["numbers"]["cohort"] == cohort
    [room] = [item for item in answer["numbers"]["resources"] if item["resource"] == GPU]
    assert {name: room[name] for name in ("nominal", "used", "free", "most")} == {
        "nominal": "1",
        "used": "3",
        "free": "0",
        "most": "3",
    }
    assert f"with what cohort {cohort} lends" in answer["message"]
    place.gpuctl("delete", "job", "late")
    queues.use("lend")
    # Apply asks before Kueue evicts the guest.
    guest = f"training/guest in {place.namespace} (1 pod, running for "
    assert f"evicts {guest}" in place.apply(gpus("owner", 2), code=2).err
    place.apply(gpus("owner", 2), flags=("--yes",))
    place.running("owner")
    place.until(lambda: statuses(place)["guest"] == "Queued", "the guest to give back what it borrowed")
    queues.waits("guest")
    answer = why(place, "guest")
    assert f"ago for training/owner in {place.namespace}, a job that takes back lent quota" in answer["message"]
    assert [item["job"] for item in answer["numbers"]["heldBy"]] == ["training/owner"]


def test_pause_and_resume(queue_place: Place, queues: Queues, writes_nothing: Judge) -> None:
    place = queue_place
    queues.team(gpus=2)
    documents = gpus("first", 2), gpus("second", 2)
    place.apply(documents[0])
    place.running("first")
    place.apply(documents[1])
    queues.waits("second")
    [answer] = place.gpuctl("pause", "first", "--json").value["items"]
    assert answer["message"] == "is paused; Kueue ends its pods and gives its GPUs to others"
    place.running("second")
    assert statuses(place) == {"first": "Paused", "second": "Running"}
    assert place.gpuctl("pause", "first", "--json").value["items"][0]["changed"] is False
    assert writes_nothing(*documents)
    place.gpuctl("resume", "first")
    queues.waits("first")
    assert statuses(place) == {"first": "Queued", "second": "Running"}
    [answer] = place.gpuctl("pause", "first", "--json").value["items"]
    assert answer["message"] == "is paused; it waits no longer in Kueue's queue team"
    place.gpuctl("delete", "job", "second", "--yes")
    place.until(
        lambda: queues.condition("first", "QuotaReserved").get("status") != "True", "the paused job to hold no quota"
    )
    assert why(place, "first")["cause"] == "paused"
    place.gpuctl("resume", "first")
    place.running("first")
    assert PAUSED not in place.get("Job", "first")["metadata"]["annotations"]
    assert writes_nothing(documents[0])


@pytest.mark.slow
def test_paused_job_stays_paused_after_its_pods_end(queue_place: Place, queues: Queues) -> None:
    """The first job's Workload still holds the quota, but `gpuctl fit` reports that the next job is admitted."""
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("first", 2, job={"annotations": {"gpuctl.test/termination": "stuck"}}))
    [pod] = place.running("first")
    place.gpuctl("pause", "first")
    place.until(lambda: queues.condition("first", "Evicted").get("status") == "True", "Kueue to stop it")
    found = place.gpuctl("fit", "-f", place.file(gpus("second", 2)), "-o", "json", code=None).value
    assert [(answer["admitted"], answer["verdict"]) for answer in found["jobs"]] == [(True, "fits")], found
    place.apply(gpus("second", 2))
    queues.admitted("second")
    place.patch("Pod", pod, {"metadata": {"annotations": {"gpuctl.test/termination": None}}})
    place.running("second")
    assert statuses(place) == {"first": "Paused", "second": "Running"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_resume_reports_evictions_and_wait_reason(queue_place: Place, queues: Queues, backend: str) -> None:
    """The resumed job keeps its age and may be admitted to any flavor, not only to its former one."""
    place = queue_place
    kind = "JobSet" if backend == "jobset" else "Job"
    flavor = queues.flavor("labelled", {"runwhere.ai/pool": "drill", "kubernetes.io/os": "linux"})
    team = queues.team(gpus=2, backend=backend, flavor=flavor, preemption={"withinClusterQueue": "LowerPriority"})
    two = {"resources": {"nodes": 2}} if backend == "jobset" else {"resources": {"gpu": 2}}
    first, urgent = (
        training(name, job={"priority": rank}, **two) for name, rank in (("first", "low"), ("urgent", "high"))
    )
    place.apply(first)
    queues.admitted("first", kind=kind)
    place.gpuctl("pause", "first")
    place.until(lambda: not place.pods("first"), "its pods to go")
    place.apply(urgent)
    queues.admitted("urgent", kind=kind)
    place.gpuctl("pause", "urgent")
    place.until(lambda: not place.pods("urgent"), "its pods to go")
    place.apply(training("small", job={"priority": "low"}))
    place.running("small")
    [answer] = place.gpuctl("resume", "first", "--json").value["items"]
    assert answer["message"] == (
        f"is resumed; will wait: Kueue's queue team (ClusterQueue {team}): it asks for 2 {GPU}, 1 free in flavor {flavor} "
        "(1 of 2 used)"
    )
    queues.waits("first", kind=kind)
    refused = place.gpuctl("resume", "urgent", code=2).err
    assert f"training/urgent in {place.namespace} evicts training/small in {place.namespace}" in refused
    assert "cannot ask for confirmation: use --yes" in refused
    assert statuses(place) == {"first": "Queued", "urgent": "Paused", "small": "Running"}
    place.gpuctl("resume", "urgent", "--yes")
    queues.admitted("urgent", kind=kind)
    place.until(lambda: statuses(place) == {"first": "Queued", "urgent": "Running", "small": "Queued"}, "urgent to run")


@pytest.mark.slow
def test_resume_of_a_partly_completed_job_counts_the_rest(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    team = queues.team(gpus=2)
    place.apply(training("wide", resources={"nodes": 2}))
    first, _ = place.running("wide", pods=2)
    place.patch("Pod", first, {"metadata": {"annotations": {OUTCOME: "complete"}}})
    place.until(lambda: place.get("Job", "wide")["status"].get("succeeded") == 1, "one pod to have done its part")
    place.gpuctl("pause", "wide")
    place.until(lambda: place.get("Job", "wide")["status"].get("active", 0) == 0, "the other to go")
    place.apply(gpus("small", 1))
    place.running("small")
    [answer] = place.gpuctl("resume", "wide", "--json").value["items"]
    assert answer["message"] == "is resumed; it starts when Kueue admits it"
    queues.admitted("wide")
    place.gpuctl("pause", "wide")
    place.until(lambda: place.get("Job", "wide")["status"].get("active", 0) == 0, "it to go")
    place.apply(gpus("other", 1))
    place.running("other")
    [answer] = place.gpuctl("resume", "wide", "--json").value["items"]
    assert f"queue team (ClusterQueue {team}): it asks for 1 {GPU}, 0 free in flavor" in answer["message"]


@pytest.mark.slow
def test_resume_reports_failures_per_job(queue_place: Place, queues: Queues) -> None:
    """Jobs before a failing one are resumed; the error names the reason for the failing job."""
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("done", 1, job={"annotations": {OUTCOME: "complete"}}), gpus("first", 1), inference("serve"))
    place.gpuctl("wait", "done", "--for", "done", "--timeout", "180")
    place.running("first", "serve")
    place.patch("Deployment", "serve", {"spec": {"replicas": 0}})
    place.gpuctl("pause", "first")
    place.until(lambda: not place.pods("first"), "its pod to go")
    assert "not by `gpuctl pause`" in place.gpuctl("resume", "first", "serve", code=1).err
    assert PAUSED not in place.get("Job", "first")["metadata"]["annotations"]
    # Kueue can be configured to delete the Workloads of finished jobs after some time.
    place.api.call("DELETE", queues.path(queues.workload("done")))
    place.until(lambda: not queues.has_workload("done"), "its Workload to go")
    answer = place.gpuctl("resume", "done", code=1).err
    assert "has finished" in answer
    assert "gpuctl rerun done" in answer


@pytest.mark.slow
def test_resume_of_an_active_job_only_removes_the_mark(queue_place: Place, queues: Queues) -> None:
    """An interrupted pause has written the mark, but the Workload is still active."""
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("first", 2))
    before = place.running("first")
    marked = place.patch("Job", "first", {"metadata": {"annotations": {PAUSED: "0"}}})
    with session_of(None) as session:
        assert resumed_object(session, marked, records(Settings())) is None, "its pods are there"
    [answer] = place.gpuctl("resume", "first", "--json").value["items"]
    assert answer["message"] == "is resumed; it starts when Kueue admits it"
    assert PAUSED not in place.get("Job", "first")["metadata"]["annotations"]
    assert place.running("first") == before


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_paused_job_stays_paused_when_replaced(
    queue_place: Place, queues: Queues, writes_nothing: Judge, backend: str
) -> None:
    """Kueue starts every new job in a queue with free quota, even if it is suspended."""
    place = queue_place
    kind = "JobSet" if backend == "jobset" else "Job"
    queues.team(gpus=4, backend=backend)
    place.apply(training(resources={"nodes": 2}))
    queues.admitted("train", kind=kind)
    place.until(lambda: len(place.pods("train")) == 2, "its pods")
    place.gpuctl("pause", "train")
    place.until(lambda: not place.pods("train"), "the pods to go")
    changed = training(resources={"nodes": 2}, environment=image("v2"))
    place.apply(changed)
    queues.waits("train", kind=kind)
    assert statuses(place) == {"train": "Paused"}
    assert not place.pods("train")
    assert why(place, "train")["cause"] == "paused"
    assert writes_nothing(changed)
    assert place.gpuctl("pause", "train", "--json").value["items"][0]["changed"] is False
    [answer] = place.gpuctl("resume", "train", "--json").value["items"]
    assert answer["message"] == "is resumed; it starts when Kueue admits it"
    place.until(lambda: statuses(place) == {"train": "Running"}, "it to run")
    assert place.get(kind, "train")["metadata"]["labels"][QUEUE] == "team"
    assert writes_nothing(changed)


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["team", f"team-{'q' * 58}"], ids=["short", "long"])
def test_recreated_finished_job_does_not_start(
    queue_place: Place, queues: Queues, writes_nothing: Judge, queue: str
) -> None:
    """A finished job is recreated because its replacement was refused after the delete (a quota for Jobs filled up).
    Kueue assigns jobs without a queue name to the namespace's default queue.
    """
    place = queue_place
    team = queues.cluster_queue()
    queues.local_queue(queue, team)
    queues.default_queue(team)
    queues.use(queue)
    place.apply(gpus("train", 1, job={"annotations": {OUTCOME: "complete"}}))
    place.gpuctl("wait", "train", "--for", "done", "--timeout", "180")
    live = place.get("Job", "train")
    from gpuctl.objects.recreated_objects import recreatable

    place.kubectl("delete", "job", "train")
    place.create(recreatable(live), manager="gpuctl")
    queues.waits("train")
    assert statuses(place) == {"train": "Suspended"}
    assert not place.pods("train")
    answer = why(place, "train")
    assert answer["cause"] == "suspended"
    assert f"kept out of Kueue's queue {queue}:" in answer["message"]
    document = gpus("train", 1, job={"annotations": {OUTCOME: "complete"}})
    assert writes_nothing(document)
    place.gpuctl("resume", "train")
    place.gpuctl("wait", "train", "--for", "done", "--timeout", "180")
    assert queues.workload("train")["spec"]["queueName"] == queue
    assert writes_nothing(document)


def test_missing_secret_does_not_hide_that_a_job_never_fits(queue_place: Place, queues: Queues) -> None:
    queues.team(gpus=2)
    document = gpus("large", 3)
    document["environment"]["env"] = {"TOKEN": {"secret": "absent", "key": "token"}}
    planned = queue_place.plan(document).value["notes"]
    assert any("there is no secret absent" in note for note in planned)
    assert any(f"it asks for 3 {GPU} in all, and 2 is the most" in note for note in planned)


@pytest.mark.slow
def test_full_namespace_quota_does_not_refuse_queued_jobs(queue_place: Place, queues: Queues) -> None:
    """Pods of a queued job are created at admission, when other jobs have released their quota."""
    place = queue_place
    queues.team(gpus=2)
    place.limit(gpu="2")
    place.apply(gpus("first", 2))
    place.running("first")
    place.apply(gpus("second", 2))
    queues.waits("second")
    refused = place.apply(gpus("third", 3), code=1)
    assert f"training/third never fits into {place.namespace}: quota few" in refused.err
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("second")


@pytest.mark.slow
def test_replacing_waiting_and_running_jobs(queue_place: Place, queues: Queues, writes_nothing: Judge) -> None:
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("first", 2))
    place.running("first")
    place.apply(gpus("second", 2))
    queues.waits("second")
    changed = gpus("second", 1, environment=image("v2"))
    assert place.plan(changed).actions == {"Job/second": "replace"}
    place.apply(changed)
    queues.waits("second")
    assert writes_nothing(changed)
    changed = gpus("first", 1, environment=image("v2"))
    asked = place.apply(changed, code=2)
    assert "its progress is lost" in asked.err
    assert "it waits in Kueue's queue team again" in asked.err
    place.apply(changed, flags=("--yes",))
    place.running("first", "second")


@pytest.mark.slow
def test_only_suspended_jobs_change_their_queue(queue_place: Place, queues: Queues, writes_nothing: Judge) -> None:
    """Kueue allows only suspended jobs to change their queue."""
    place = queue_place
    queues.team(gpus=1)
    queues.local_queue("other", queues.cluster_queue("other", 3))
    first, second = gpus("first", 1), gpus("second", 1)
    place.apply(first)
    place.running("first")
    place.apply(second)
    queues.waits("second")
    queues.use("other")
    described = [gpus(name, 1, job={"description": "moved"}) for name in ("first", "second")]
    place.apply(*described)
    place.running("second")
    assert place.get("Job", "second")["metadata"]["labels"][QUEUE] == "other"
    assert place.get("Job", "first")["metadata"]["labels"][QUEUE] == "team"
    again = place.apply(*described)
    assert "stays in Kueue's queue team as long as it runs; --relower replaces it" in again.out
    assert "progress is lost" in place.apply(described[0], flags=("--relower",), code=2).err
    place.apply(described[0], flags=("--relower", "--yes"))
    place.running("first")
    assert place.get("Job", "first")["metadata"]["labels"][QUEUE] == "other"
    assert writes_nothing(*described)


@pytest.mark.slow
def test_prune_deletes_a_queued_job(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=1)
    first, second = gpus("first", 1), gpus("second", 1)
    place.apply(first, flags=("--set", "mine"))
    place.running("first")
    place.apply(first, second, flags=("--set", "mine"))
    queues.waits("second")
    place.apply(first, flags=("--set", "mine", "--prune", "--yes"))
    assert statuses(place) == {"first": "Running"}
    place.until(lambda: "second" not in place.kubectl("get", "workloads", "-o", "name"), "its Workload to go")


@pytest.mark.slow
def test_why_names_what_is_wrong_with_a_queue(queue_place: Place, queues: Queues) -> None:
    """For queues that never admit a job, why names the mistake instead of reporting that the job waits."""
    place = queue_place
    namespace = place.namespace
    full = queues.cluster_queue("full", 1)
    queues.local_queue("full", full)
    queues.local_queue("astray", queues.name("absent"))
    held = queues.cluster_queue("held", 1, stopPolicy="Hold")
    queues.local_queue("held", held)
    bare = queues.cluster_queue("bare", resources={"cpu": 10})
    queues.local_queue("bare", bare)
    broken = queues.cluster_queue("broken", flavor=queues.name("no-flavor"))
    queues.local_queue("broken", broken)
    closed = queues.cluster_queue("closed", namespaceSelector={"matchLabels": {"team": "others"}})
    queues.local_queue("closed", closed)
    elsewhere = queues.cluster_queue("elsewhere", flavor=queues.flavor("windows", {"runwhere.ai/pool": "others"}))
    queues.local_queue("elsewhere", elsewhere)
    wanted = {
        "nowhere": f"Kueue's queue nowhere does not exist in {namespace}: the namespace has astray, bare, broken ...",
        "full": f"it never fits into Kueue's queue full (ClusterQueue {full}): it asks for 2 {GPU} in all, and 1 is the "
        "most",
        "astray": f"Kueue's queue astray refers to the ClusterQueue {queues.name('absent')}, which does not exist",
        "held": f"Kueue's queue held (ClusterQueue {held}) is stopped (stopPolicy Hold): it admits nothing",
        "bare": f"Kueue's queue bare (ClusterQueue {bare}) has no quota for memory and {GPU}, which the job asks for",
        "broken": f"Kueue's queue broken (ClusterQueue {broken}) is not active: Can't admit new workloads: references "
        f"missing ResourceFlavor(s): {queues.name('no-flavor')}.",
        "closed": f"Kueue's queue closed (ClusterQueue {closed}) does not take it: workload namespace doesn't match "
        "ClusterQueue selector",
        "elsewhere": f"no flavor of Kueue's queue elsewhere (ClusterQueue {elsewhere}) is for jobs like this: couldn't "
        f"assign flavors to pod set main: flavor windows-{namespace} doesn't match node affinity",
    }
    for name, message in wanted.items():
        queues.use(name)
        place.apply(gpus(name, 2))
        queues.waits(name)
        told: dict[str, Any] = {}

        def has_message(name: str = name, message: str = message, told: dict[str, Any] = told) -> bool:
            # Kueue processes its queues one after the other.
            told.update(why(place, name))
            return bool(told["message"] == message)

        with contextlib.suppress(TimeoutError):
            place.until(has_message, f"the reason of {name}", 60)
        assert (told["cause"], told["message"]) == ("queue-unusable", message)
    queues.change(held, {"stopPolicy": "None"})
    place.until(lambda: why(place, "held")["message"].startswith("it never fits"), "the queue to be active again")


@pytest.mark.slow
def test_hold_and_drain_stops_running_jobs(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    cluster_queue = queues.team(gpus=1)
    place.apply(gpus("train", 1))
    place.running("train")
    queues.change(cluster_queue, {"stopPolicy": "HoldAndDrain"})
    place.until(lambda: statuses(place) == {"train": "Queued"}, "it to be stopped")
    queues.waits("train")
    assert "is stopped (stopPolicy HoldAndDrain)" in why(place, "train")["message"]
    queues.change(cluster_queue, {"stopPolicy": "None"})
    place.running("train")


@pytest.mark.slow
def test_why_without_the_right_to_read_queues(
    queue_plane: ControlPlane, queue_place: Place, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = queue_place
    queues.team(gpus=1)
    place.apply(gpus("first", 1))
    place.running("first")
    place.apply(gpus("second", 1))
    queues.waits("second")
    place.grant("alice", "view")
    monkeypatch.setenv("KUBECONFIG", str(queue_plane.kubeconfig("alice")))
    answer = why(place, "second")
    assert (answer["cause"], answer["message"]) == ("queued", "waits in Kueue's queue team")
    notes = " ".join(answer["notes"])
    assert "Kueue's workloads may not be read" in notes
    assert "Kueue's clusterqueues may not be read" in notes
    rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "localqueues"], "verbs": ["get", "list"]}
    queue_plane.grant("alice", place.namespace, [rule])
    place.until(lambda: "insufficient unused quota" in why(place, "second")["message"], "the right to be known")
    answer = why(place, "second")
    assert answer["numbers"]["position"] == 1
    assert answer["numbers"]["resources"] == []
    notes = " ".join(answer["notes"])
    assert "of other namespaces may not be read" in notes
    assert "(this needs `list` on them in the whole cluster): their quotas and cohorts are unknown" in notes


@pytest.mark.slow
def test_apply_changes_nothing_while_webhooks_are_down(
    queue_plane: ControlPlane, queue_place: Place, queues: Queues
) -> None:
    """Kueue's webhooks do not answer: apply fails before it deletes anything."""
    place = queue_place
    queues.team(gpus=1)
    place.apply(gpus("train", 1))
    place.running("train")
    before = place.uids()
    queue_plane.stop_program("kueue")
    try:
        refused = place.apply(gpus("train", 1, environment=image("v2")), flags=("--yes",), code=3)
        assert "failed calling webhook" in refused.err
        assert "run it again then" in refused.err
        assert place.uids() == before
    finally:
        queue_plane.start_program("kueue")
        queue_plane.wait_for_queues()
    place.apply(gpus("train", 1, environment=image("v2")), flags=("--yes",))
    place.running("train")


@pytest.mark.slow
def test_failed_indexes_of_an_array_run_again_through_the_queue(queue_place: Place, queues: Queues) -> None:
    """The array waits until the queue has quota for all pods that run at a time, and the finished index stays so."""
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("first", 1))
    place.running("first")
    place.apply(gpus("array", 1, array={"size": 3, "parallelism": 2}))
    queues.waits("array")
    place.gpuctl("delete", "job", "first")
    ended: set[str] = set()

    def end(index: int, how: str) -> None:
        def pod() -> str | None:
            new = [name for name in place.pods("array") if name.startswith(f"array-{index}-") and name not in ended]
            return next((name for name in new if place.get("Pod", name)["status"].get("phase") == "Running"), None)

        name = place.until(pod, f"index {index}")
        ended.add(name)
        place.patch("Pod", name, {"metadata": {"annotations": {OUTCOME: how}}})

    for index, how in enumerate(("complete", "fail", "complete")):
        end(index, how)
    place.ended("array")
    assert "failed; 1 of 3 indexes run again: 1" in place.gpuctl("rerun", "array", "--failed").out
    end(1, "complete")
    place.ended("array")
    job = place.get("Job", "array")
    assert (job["status"]["completedIndexes"], job["metadata"]["labels"][QUEUE]) == ("0-2", "team")
