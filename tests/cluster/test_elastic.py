"""Elastic trainings on the real control plane: their number of nodes, and partial admission by the real Kueue."""

from __future__ import annotations

import pytest

from fault_tools.proxy import Proxy, cut_after, matching, nth, on
from support.cluster_tools import Document, Place, training
from support.queues import Queues

OUTCOME = "gpuctl.test/outcome"


def elastic(least: int = 1, most: int = 3, **changes: object) -> Document:
    """Return an elastic training with one GPU on each node."""
    job = {"retries": 3, **changes.pop("job", {})}  # type: ignore[dict-item]
    return training(job=job, resources={"gpu": 1, "nodes": {"min": least, "max": most}}, **changes)


def _sizes(place: Place) -> tuple[int, int]:
    spec = place.get("Job", "train")["spec"]
    return spec["parallelism"], spec["completions"]


def test_scale_changes_a_running_training_and_apply_keeps_it(place: Place) -> None:
    document = elastic()
    place.apply(document, flags=("--wait",))
    uid, pods = place.uid("Job", "train"), place.running("train", pods=3)
    question = place.gpuctl("scale", "train", "--nodes", "2", code=2).err
    assert "from 3 to 2 nodes (running for" in question
    assert "ends 1 pod; torchrun restarts its program on the other nodes" in question
    assert _sizes(place) == (3, 3)
    done = place.gpuctl("scale", "train", "--nodes", "2", "--yes")
    assert done.out.startswith("updated   job.batch/train")
    assert "(2 nodes instead of 3)" in done.out
    assert place.uid("Job", "train") == uid
    left = place.until(lambda: len(place.pods("train")) == 2 and place.pods("train"), "the end of one pod")
    assert left.items() <= pods.items()
    assert place.get("Job", "train")["status"].get("failed") is None

    assert "unchanged job.batch/train" in place.apply(document).out
    assert "no drift" in place.gpuctl("drift", "-f", place.file(document)).err
    (row,) = place.gpuctl("get", "jobs", "train", "--jobs", "-o", "json").value["items"]
    assert row["ready"] == "2/2"
    (step,) = [
        item for item in place.plan(elastic(environment={"args": ["--lr=1"]})).value["steps"] if item["kind"] == "Job"
    ]
    assert "starts with 3 nodes instead of 2" in step["reason"]
    place.patch("Job", "train", {"spec": {"parallelism": 1, "completions": 1}})
    assert "no drift" in place.gpuctl("drift", "-f", place.file(document)).err
    place.patch("Job", "train", {"spec": {"parallelism": 2, "completions": 2}})
    place.until(lambda: place.get("Job", "train")["status"].get("ready") == 2, "both pods to be ready")
    explained = place.gpuctl("why", "train", "-o", "json").value
    assert (explained["cause"], explained["message"]) == ("running", "nothing is wrong: it runs with 2 of 1-3 nodes")
    assert f"`gpuctl scale train -n {place.namespace} --nodes 3` adds nodes" in explained["fix"]
    place.limit(gpu="2")
    short = place.gpuctl("scale", "train", "--nodes", "3", "--yes", code=1).err
    assert "few" in short
    assert _sizes(place) == (2, 2)
    place.kubectl("delete", "resourcequota", "few", "-n", place.namespace)
    up = place.gpuctl("scale", "train", "--nodes", "3", "--yes", "-o", "json").value
    assert up["steps"][0]["changes"][0] == {"path": "spec.parallelism", "from": 2, "to": 3}
    place.running("train", pods=3)
    assert "has 3 nodes already" in place.gpuctl("scale", "train", "--nodes", "3").out
    too_many = place.gpuctl("scale", "train", "--nodes", "4", "--yes", code=1).err
    assert "has 1 to 3 nodes, and not 4" in too_many

    # A finished pod 0 is the end of the training, also of pods that wait for room.
    first = next(name for name in place.pods("train") if name.startswith("train-0-"))
    place.patch("Pod", first, {"metadata": {"annotations": {OUTCOME: "complete"}}})
    place.ended("train")
    assert "`gpuctl rerun train" in place.gpuctl("scale", "train", "--nodes", "2", code=1).err


def test_lost_answer_to_a_scaling_is_no_failure(place: Place, proxy: Proxy) -> None:
    place.apply(elastic())
    proxy.reset(on(nth(1, matching("PUT", "/jobs/train", writes=True)), cut_after))
    place.gpuctl("scale", "train", "--nodes", "2", "--yes")
    assert _sizes(place) == (2, 2)


@pytest.mark.slow
def test_why_names_the_nodes_that_run_and_what_the_others_wait_for(place: Place) -> None:
    place.limit(gpu="2")
    place.apply(elastic())
    place.running("train", pods=2)
    place.until(lambda: "FailedCreate" in place.kubectl("get", "events"), "the refusal of a pod")
    explained = place.gpuctl("why", "train", "-o", "json").value
    assert explained["cause"] == "quota-exceeded"
    assert explained["message"] == (
        "runs with 2 of 1-3 nodes; quota few has no room: a pod needs 1 requests.nvidia.com/gpu, 0 left (2 of 2 used) "
        "(1 of 3 pods are missing)"
    )
    described = place.gpuctl("describe", "job", "train").out
    assert "Status:       Running: with 2 of 1-3 nodes" in described
    assert "runs with 2 of 1-3 nodes; quota few has no room" in described


def test_kueue_starts_fewer_nodes_and_a_paused_training_is_scaled(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=2)
    document = elastic()
    place.apply(document)
    place.running("train", pods=2)
    assert _sizes(place) == (2, 2)
    assert "unchanged job.batch/train" in place.apply(document).out
    assert "no drift" in place.gpuctl("drift", "-f", place.file(document)).err
    refused = place.gpuctl("scale", "train", "--nodes", "1", "--yes", code=1).err
    assert "has reserved quota for 2 nodes" in refused
    assert f"`gpuctl pause train -n {place.namespace}`" in refused

    explained = place.gpuctl("why", "train", "-o", "json").value
    assert explained["message"] == "nothing is wrong: it runs with 2 of 1-3 nodes"
    assert explained["fix"].startswith("Kueue adds no nodes while it runs")

    place.gpuctl("pause", "train")
    place.until(lambda: _sizes(place) == (3, 3), "Kueue to restore the number")
    place.gpuctl("scale", "train", "--nodes", "1")
    place.gpuctl("resume", "train")
    place.running("train")
    assert _sizes(place) == (1, 1)
    place.patch("Pod", *place.pods("train"), {"metadata": {"annotations": {OUTCOME: "complete"}}})
    place.ended("train")
    place.gpuctl("rerun", "train", "--yes")
    place.running("train", pods=2)


@pytest.mark.slow
def test_waiting_training_in_a_queue_is_scaled_to_its_least_number(queue_place: Place, queues: Queues) -> None:
    """Kueue's webhook refuses to create a job whose least number is not smaller than its number."""
    place = queue_place
    cluster_queue = queues.team(gpus=3, stopPolicy="Hold")
    place.apply(elastic(2, 3))
    queues.workload("train")
    place.gpuctl("scale", "train", "--nodes", "2")
    assert _sizes(place) == (2, 2)
    assert "unchanged job.batch/train" in place.apply(elastic(2, 3)).out
    queues.change(cluster_queue, {"stopPolicy": "None"})
    place.running("train", pods=2)
    assert _sizes(place) == (2, 2)
