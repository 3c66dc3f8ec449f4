"""The service starts trainings whose prerequisites (`job.after`) are met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.cluster_tools import DOMAIN, Place, training
from support.served import Served, serving

RELEASED, ENDED_BEFORE = (f"{DOMAIN}/{name}" for name in ("released-at", "ended-before"))


def after(name: str, *others: str) -> dict[str, Any]:
    """A training that waits for others."""
    document = training(name)
    document["job"]["after"] = list(others)
    return document


def annotations(place: Place, job: str) -> dict[str, str]:
    return dict(place.get("Job", job)["metadata"]["annotations"])


def test_replicas_of_the_service_start_a_job_once(served: Served, place: Place, tmp_path: Path) -> None:
    with serving(tmp_path, place.plane.kubeconfig(), {}):
        place.apply(training("prepare"), after("train", "prepare"))
        row = served.until("/jobs", lambda value: len(value["items"]) == 2, namespace=place.namespace)
        (waiting,) = [item for item in row["items"] if item["name"] == "train"]
        assert (waiting["status"], waiting["reason"]) == ("pending", "waits for prepare")
        # The list is cached: each language has its own answer.
        asked = {"params": {"namespace": place.namespace, "name": "train"}, "headers": {"Accept-Language": "zh"}}
        assert [item["reason"] for item in served.call("GET", "/jobs", **asked)["items"]] == ["等待 prepare"]
        (waiting,) = served.call("GET", "/jobs", params=asked["params"])["items"]
        assert waiting["reason"] == "waits for prepare"
        place.end("prepare")
        place.running("train")
    changes = [
        entry for entry in place.get("Job", "train")["metadata"]["managedFields"]
        if f"f:{RELEASED}" in json.dumps(entry)
    ]  # fmt: skip
    assert len(changes) == 1
    assert RELEASED in annotations(place, "train")


def test_prerequisite_that_its_ttl_removed_counts_if_its_end_was_seen(served: Served, place: Place) -> None:
    first = training("first")
    # Kubernetes counts from completionTime, which has whole seconds, and the service looks each second, later under
    # load: with a shorter time the job can be gone before it was looked at.
    first["job"]["ttl"] = "5s"
    place.apply(first, training("second"), after("train", "first", "second"))
    place.end("first")
    place.until(lambda: not place.exists("Job", "first"), "the end of first's ttl")
    assert json.loads(annotations(place, "train")[ENDED_BEFORE]) == {"first": "ok"}
    assert place.get("Job", "train")["spec"]["suspend"] is True
    place.end("second")
    place.running("train")


def test_forged_annotations_start_nothing(served: Served, place: Place) -> None:
    place.apply(training("prepare"), training("other"), after("train", "prepare"))
    for text in ("{", '["prepare"]', '{"prepare": ["ok"]}', '{"prepare": "never"}'):
        place.patch("Job", "train", {"metadata": {"annotations": {f"{DOMAIN}/after": text}}})
        served.until("/jobs/train", lambda value: value["reason"] != "waits for prepare", namespace=place.namespace)
    place.end("prepare")
    place.ended("prepare")
    place.apply(after("follower", "prepare"))
    place.running("follower")
    assert place.get("Job", "train")["spec"]["suspend"] is True
