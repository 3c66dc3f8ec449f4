"""``apply --queue``: a job is created although the quota is full, and starts when quota becomes free."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import GPU, Document, Place, image, inference, outcome, training
from support.queues import Queues

QUEUE = ("--queue",)


def gpus(name: str, number: int, **changes: Any) -> Document:
    """Return a training on one node."""
    return training(name, resources={"gpu": number}, **changes)


def waits(place: Place, *documents: Document, flags: tuple[str, ...] = QUEUE) -> dict[str, list[str]]:
    """Return the reasons to wait of each workload of a plan, by name."""
    steps = place.plan(*documents, flags=flags).value["steps"]
    return {step["name"]: [item["message"] for item in step["waits"]] for step in steps if step["waits"]}


def fill_quota(place: Place, gpu: int = 2) -> None:
    """Create a quota, and a job that uses all of it."""
    place.limit(gpu=str(gpu))
    place.apply(gpus("first", gpu))
    place.running("first")
    place.until(lambda: place.get("ResourceQuota", "few")["status"]["used"][f"requests.{GPU}"] == str(gpu), "its use")


def test_queued_training_and_service_start_when_quota_is_free(place: Place) -> None:
    fill_quota(place, 3)
    second, third = gpus("second", 2), inference("third", resources={"gpu": 1})
    refused = place.apply(second, third, code=1)
    assert "would be 6 of 3 (in use 3, needed 3); --queue creates it anyway" in refused.err
    assert not place.exists("Job", "second")
    said = f"quota few in {place.namespace}: asks {{}} {GPU}, 0 free; held by training/first (3)"
    assert waits(place, second, third) == {"second": [said.format(2)], "third": [said.format(1)]}
    shown = place.gpuctl("diff", "-f", place.file(second), "--queue", code=1)
    assert f"(will wait: {said.format(2)})" in shown.out
    created = place.apply(second, third, flags=QUEUE)
    assert f"created   job.batch/second -n {place.namespace}  (will wait: {said.format(2)})" in created.out
    assert f"deployment.apps/third -n {place.namespace}  (will wait: {said.format(1)})" in created.out
    place.until(lambda: place.gpuctl("why", "second", "-o", "json").value["cause"] == "quota-exceeded", "the refusal")
    rows = place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]
    assert {row["name"]: row["status"] for row in rows if row["name"] != "first"} == {
        "second": "QuotaExceeded",
        "third": "QuotaExceeded",
    }
    late = place.apply(second, flags=("--queue", "--wait", "--timeout=1s"), code=1)
    assert f"job.batch/second in {place.namespace} did not start within 1 s: quota few has no room" in late.err
    assert "may still start" in late.err
    place.gpuctl("delete", "job", "first", "--yes")
    # The Job controller retries after 1, 2, 4 ... 60 seconds, the ReplicaSet controller after 5, 10, 20 ...
    # milliseconds.
    place.running("second", "third")


@pytest.mark.slow
def test_rerun_waits_for_quota_with_the_queue_option(place: Place) -> None:
    """Another job took the quota after the training had ended."""
    again = gpus("again", 2, job=outcome("complete"))
    place.limit(gpu="2")
    place.apply(again)
    place.ended("again")
    place.until(lambda: place.get("ResourceQuota", "few")["status"]["used"][f"requests.{GPU}"] == "0", "its quota")
    place.apply(gpus("first", 2))
    place.running("first")
    place.until(lambda: place.get("ResourceQuota", "few")["status"]["used"][f"requests.{GPU}"] == "2", "its use")
    uid = place.uid("Job", "again")
    refused = place.gpuctl("rerun", "again", "--yes", code=1)
    assert "would be 4 of 2 (in use 2, needed 2); --queue creates it anyway" in refused.err
    assert place.uid("Job", "again") == uid
    done = place.gpuctl("rerun", "again", "--queue")
    assert (
        f"runs again; will wait: quota few in {place.namespace}: asks 2 {GPU}, 0 free; held by training/first (2))"
        in done.out
    )
    assert place.uid("Job", "again") != uid
    place.gpuctl("delete", "job", "first", "--yes")
    place.ended("again")


def test_more_replicas_than_the_quota_allows_are_refused(place: Place) -> None:
    def serve(replicas: int) -> Document:
        return inference(resources={"gpu": 1}, service={"replicas": replicas})

    place.limit(gpu="3")
    place.apply(serve(2))
    place.running("serve", pods=2)
    place.until(lambda: place.get("ResourceQuota", "few")["status"]["used"][f"requests.{GPU}"] == "2", "its use")
    refused = place.apply(serve(4), code=1)
    assert f"{GPU} would be 4 of 3 (in use 2, needed 2" in refused.err
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 2
    assert "never fits into" in place.plan(serve(4), flags=QUEUE, code=1).err
    assert waits(place, serve(3)) == {}
    place.apply(serve(3))
    place.running("serve", pods=3)
    place.apply(serve(1), flags=("--yes",))
    place.apply(gpus("first", 2))
    place.running("first")
    said = f"quota few in {place.namespace}: asks 1 {GPU}, 0 free; held by training/first (2), inference/serve (1)"
    assert waits(place, serve(2)) == {"serve": [said]}
    assert "; will wait: " in place.apply(serve(2), flags=QUEUE).out
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("serve", pods=2)


@pytest.mark.slow
def test_later_of_several_jobs_waits_for_quota(place: Place) -> None:
    place.limit(gpu="3")
    jobs = [*[gpus(f"next-{number}", 2) for number in (1, 2)], gpus("small", 1)]
    steps = {step["name"]: step["waits"] for step in place.plan(*jobs, flags=QUEUE).value["steps"]}
    # The jobs are created one after another, so the first one gets the quota.
    (wait,) = steps["next-2"]
    asks = f"quota few in {place.namespace}: asks 2 {GPU}, 1 free; held by training/next-1 (2)"
    assert wait == {"cause": "quota", "message": asks, "likelihood": 1.0}
    assert steps["next-1"] == steps["small"] == []
    place.apply(*jobs, flags=QUEUE)
    place.running("next-1", "small")
    assert not place.pods("next-2")


def test_jobs_that_would_never_start_are_rejected_despite_queue_option(place: Place) -> None:
    fill_quota(place)
    never = place.apply(gpus("huge", 3), flags=QUEUE, code=1)
    assert f"training/huge never fits into {place.namespace}: quota few: requests.{GPU} would be 3 of 2" in never.err
    plain = place.apply(gpus("huge", 3), code=1)
    assert "would be 5 of 2" in plain.err
    assert "--queue" not in plain.err
    place.limit("jobs", **{"count/jobs.batch": "1"})
    many = place.apply(gpus("second", 1), flags=QUEUE, code=1)
    assert "quota jobs: count/jobs.batch would be 2 of 1" in many.err
    assert "--queue" not in place.apply(gpus("second", 1), code=1).err
    assert not place.exists("Job", "second")


@pytest.mark.slow
def test_job_that_no_node_can_take_is_rejected(place: Place) -> None:
    """It is rejected whether or not the quota is full, also with --queue. `why` reports the cause for a job created by
    kubectl.
    """
    place.limit(gpu="100")
    place.apply(gpus("first", 60))
    place.running("first")
    place.until(lambda: place.get("ResourceQuota", "few")["status"]["used"][f"requests.{GPU}"] == "60", "its use")
    never = (
        f"training/huge in {place.namespace} cannot start even in the empty cluster: no node takes one of its pods: "
    )
    large = f"(70 {GPU} needed, the largest, drill-0, has 64)"
    refused = place.apply(gpus("huge", 70), code=1)
    assert never in refused.err
    assert large in refused.err
    assert "would be 130 of 100 (in use 60, needed 70)" in refused.err
    assert "--queue" not in refused.err
    queued = place.apply(gpus("huge", 70), flags=QUEUE, code=1)
    assert never in queued.err
    assert not place.exists("Job", "huge")
    shown = place.plan(gpus("huge", 70), gpus("fits", 50), flags=QUEUE, code=1)
    assert never in shown.err
    rendered = place.gpuctl("render", "-f", place.file(gpus("huge", 70)), "-o", "json").value
    for obj in rendered["items"]:
        if obj["kind"] == "Job":
            place.create(obj)
    answer = place.until(lambda: why_after_refusal(place, "huge"), "the refusal")
    assert answer["cause"] == "gpu-shortage"
    assert answer["message"].startswith(
        "needs 70 GPUs on one node of drill; the largest has 64 in all, so it never fits"
    )
    assert "besides, quota few has no room" in answer["message"]
    place.kubectl("delete", "resourcequota", "few")
    assert "training/other in" in place.apply(gpus("other", 70), flags=QUEUE, code=1).err


def why_after_refusal(place: Place, name: str) -> Any:
    """Return the answer of `why` after the quota has rejected a pod; None before."""
    answer = place.gpuctl("why", name, "-o", "json").value
    return None if answer["cause"] in ("starting", "unknown") else answer


@pytest.mark.slow
def test_quota_of_a_replaced_job_counts_as_free(place: Place) -> None:
    place.limit(gpu="4")
    place.apply(gpus("first", 2), gpus("other", 2))
    place.running("first", "other")
    assert waits(place, gpus("first", 2, environment=image("v2"))) == {}
    changed = gpus("first", 3, environment=image("v2"))
    asked = place.apply(changed, flags=QUEUE, code=2)
    wait = f"will wait: quota few in {place.namespace}: asks 3 {GPU}, 2 free; held by training/other (2)"
    assert f"replaces training/first in {place.namespace}: running for" in asked.err
    assert f"its progress is lost; {wait}" in asked.err
    place.apply(changed, flags=(*QUEUE, "--yes"))
    assert place.pods("first") == {}
    place.gpuctl("delete", "job", "other", "--yes")
    place.running("first")


@pytest.mark.slow
def test_create_accepts_the_queue_option(place: Place) -> None:
    fill_quota(place)
    path = place.file(gpus("second", 1))
    assert "--queue creates it anyway" in place.gpuctl("create", "-f", path, code=1).err
    assert "will wait: quota few" in place.gpuctl("create", "-f", path, "--queue").out


@pytest.mark.slow
def test_quota_check_works_without_the_right_to_read_quotas(
    place: Place, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_quota(place)
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": ["*"]}
        for group, resource in (("batch", "jobs"), ("", "pods"), ("", "services"), ("", "configmaps"), ("", "secrets"))
    ]
    rules += [{"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["*"]}]
    rules += [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]
    rules += [{"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["*"]}]
    place.grant("nobody", rules)
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("nobody")))
    assert "exceeded quota: few" in place.apply(gpus("second", 1), code=1).err
    assert waits(place, gpus("second", 1)) == {"second": [f"quota few in {place.namespace}: asks 1 {GPU}, 0 free"]}
    never = place.apply(gpus("huge", 3), flags=QUEUE, code=1)
    assert "training/huge never fits" in never.err


@pytest.mark.slow
def test_queued_jobset_starts_when_quota_is_free(queue_place: Place) -> None:
    """The JobSet creates its Jobs, and their pods wait for quota."""
    place = queue_place
    place.platform("training: {backend: jobset}")
    fill_quota(place)
    place.apply(training("both", resources={"gpu": 1, "nodes": 2}), flags=QUEUE)
    place.until(lambda: place.gpuctl("why", "both", "-o", "json").value["cause"] == "quota-exceeded", "the refusal")
    place.gpuctl("delete", "job", "first", "--yes")
    place.gpuctl("wait", "both", "--for", "ready", "--timeout", "120")


@pytest.mark.slow
def test_queue_option_is_noted_as_unnecessary_with_kueue(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("first", 2))
    place.running("first")
    told = place.apply(gpus("second", 2), flags=QUEUE)
    assert "note: training/second: Kueue starts it when its queue has room, with or without --queue" in told.err
    queues.waits("second")
