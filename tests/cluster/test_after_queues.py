"""Trainings that wait for others (`job.after`) in Kueue queues, as Jobs and JobSets."""

from __future__ import annotations

from typing import Any

from support.cluster_tools import Place, training
from support.queues import Queues

GATES = "kueue.x-k8s.io/admission-gated-by"


def after(name: str, *others: str, **changes: Any) -> dict[str, Any]:
    document = training(name, **changes)
    document["job"]["after"] = list(others)
    return document


def status(place: Place, job: str) -> tuple[str, str]:
    (row,) = place.gpuctl("get", "jobs", job, "--jobs", "-o", "json").value["items"]
    return row["status"], row["reason"]


def test_kueue_admits_a_job_after_its_prerequisite(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=3)
    documents = (training("prepare"), after("train", "prepare"))
    place.apply(*documents)
    place.running("prepare")
    assert status(place, "train") == ("Waiting", "waits for prepare")
    assert place.get("Job", "train")["metadata"]["annotations"][GATES] == "gpuctl/after"
    place.gpuctl("pause", "train")
    assert "is resumed; it waits for prepare" in place.gpuctl("resume", "train").out
    assert place.get("Job", "train")["spec"]["suspend"] is True
    place.end("prepare")
    place.apply(*documents, flags=("--wait",))
    place.running("train")
    assert GATES not in place.get("Job", "train")["metadata"]["annotations"]
    assert place.plan(*documents).actions == {"Job/prepare": "unchanged", "Job/train": "unchanged"}
    assert place.gpuctl("drift", place.file(*documents)).code == 0


def test_waiting_job_does_not_hold_up_the_queue(queue_place: Place, queues: Queues) -> None:
    """Its Workload is older and more urgent, and does not count until it is released."""
    place = queue_place
    queues.team(gpus=1)
    waiting = after("train", "prepare")
    waiting["job"]["priority"] = "high"
    place.apply(training("prepare"), waiting)
    place.running("prepare")
    place.apply(training("other"))
    queues.waits("other")
    assert status(place, "other")[0] == "Queued"
    assert "it is next" in place.gpuctl("why", "other").out
    place.end("prepare")
    place.running("other")
