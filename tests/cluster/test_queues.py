"""Trainings that Kueue admits: its real controller, webhooks and queues, and the commands of a user."""

from __future__ import annotations

from support.cluster_tools import Place, training
from support.queues import Queues


def gpus(name: str, count: int, **changes: object) -> dict[str, object]:
    """A training of one node with so many GPUs."""
    return training(name, resources={"gpu": count}, **changes)


def test_what_fits_is_admitted_and_the_next_waits(queue_place: Place, queues: Queues) -> None:
    queues.team(gpus=2)
    queue_place.apply(gpus("first", 2))
    queue_place.running("first")
    queue_place.apply(gpus("second", 1))
    queues.waits("second")
    rows = queue_place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert {row["name"]: row["status"] for row in rows} == {"first": "Running", "second": "Queued"}
    queue_place.gpuctl("delete", "job", "first")
    queue_place.running("second")
