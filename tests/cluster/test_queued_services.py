"""Services and notebooks in Kueue queues, with Kueue's real controller and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.cluster_tools import GPU, Document, Place, inference, notebook
from support.queues import Queues

Judge = Callable[..., bool]


def served(name: str, replicas: int = 1, **changes: Any) -> Document:
    """Return a service in the queue `team`; each replica has one GPU."""
    return inference(name, resources={"gpu": 1, "queue": "team"}, service={"replicas": replicas}, **changes)


def opened(name: str) -> Document:
    """Return a notebook in the queue `team`, with one GPU."""
    return notebook(name, resources={"gpu": 1, "queue": "team"})


def statuses(place: Place) -> dict[str, str]:
    """Return the status of each job."""
    return {row["name"]: row["status"] for row in place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]}


def waits(place: Place, name: str) -> dict[str, Any]:
    """Wait until a job is queued; return the answer of `gpuctl why`, once Kueue has judged the job."""
    place.until(lambda: statuses(place).get(name) == "Queued", f"{name} to be queued")
    place.until(lambda: "it asks for" in place.gpuctl("why", name).out, f"Kueue to judge {name}")
    return dict(place.gpuctl("why", name, "-o", "json").value)


def test_service_and_notebook_wait_for_quota(queue_place: Place, queues: Queues, writes_nothing: Judge) -> None:
    place = queue_place
    queues.local_queue("team", queues.cluster_queue("team", 2))
    first, second, lab = served("first", 2), served("second"), opened("lab")
    place.apply(first)
    place.running("first", pods=2)
    assert writes_nothing(first)
    place.apply(second, lab)
    for name in ("second", "lab"):
        answer = waits(place, name)
        assert answer["cause"] == "queued"
        assert f"it asks for 1 {GPU}, 0 free" in answer["message"]
        assert f"inference/first in {place.namespace}" in answer["fix"] or answer["numbers"]["heldBy"]
    assert writes_nothing(first, second, lab)
    assert "Queued" in place.gpuctl("logs", "second", code=1).err
    place.gpuctl("pause", "first")
    place.running("second", "lab")
    assert statuses(place) == {"first": "Paused", "second": "Running", "lab": "Running"}
    [answer] = place.gpuctl("resume", "first", "--json").value["items"]
    assert "waits in Kueue's queue team" in answer["message"] or "when Kueue admits it" in answer["message"]
    waits(place, "first")
    place.gpuctl("pause", "lab")
    place.until(lambda: statuses(place)["first"] == "Partially Running", "one pod of first to run")
    place.until(lambda: not place.pods("lab"), "the notebook's pod to end")
    place.gpuctl("pause", "first")
    place.gpuctl("resume", "lab")
    place.running("lab")
    place.gpuctl("delete", "job", "lab", "second", "first", "--yes")


@pytest.mark.slow
def test_service_changes_its_queue_by_a_replacement(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.local_queue("team", queues.cluster_queue("team", 2))
    queues.local_queue("other", queues.cluster_queue("other", 2))
    place.apply(served("web"))
    place.running("web")
    moved = {**served("web"), "resources": {**served("web")["resources"], "queue": "other"}}
    assert place.plan(moved).actions["Deployment/web"] == "replace"
    place.platform("strategy: rolling")
    place.apply(moved, flags=("--yes",))
    place.running("web")
    assert place.get("Deployment", "web")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "other"
    changed = {**moved, "environment": {**moved["environment"], "env": {"A": "1"}}}
    assert place.plan(changed).actions["Deployment/web"] == "update"
    place.apply(changed, flags=("--yes",))
    place.until(lambda: statuses(place)["web"] == "Running", "the new pod")


def test_fit_counts_the_quota_of_services(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.local_queue("team", queues.cluster_queue("team", 2))
    place.apply(served("first"))
    place.running("first")
    documents = served("one"), served("two", 2), opened("lab")

    def verdict(document: Document) -> tuple[str, str]:
        [answer] = place.gpuctl("fit", "-f", place.file(document), "-o", "json", code=None).value["jobs"]
        return answer["verdict"], answer["reason"]

    assert verdict(documents[0])[0] == "fits"
    assert verdict(documents[2])[0] == "fits"
    word, reason = verdict(documents[1])
    assert (word, "admits each of its pods on its own" in reason) == ("unknown", True)
    assert verdict(served("first", 2))[0] == "fits"


def test_priority_becomes_a_workload_priority_class(queue_place: Place, queues: Queues, writes_nothing: Judge) -> None:
    place = queue_place
    place.platform("queues: {priority: workload}")
    queues.local_queue("team", queues.cluster_queue("team", 1))
    first, low, high = served("first"), opened("low"), served("high", job={"priority": "high"})
    low["job"]["priority"] = "low"
    place.apply(first)
    place.running("first")
    place.apply(low)
    waits(place, "low")
    place.apply(high)
    waits(place, "high")
    answer = place.gpuctl("why", "low", "-o", "json").value
    assert answer["numbers"]["position"] == 2
    found = {item["spec"]["priorityClassRef"]["name"] for item in queues.workloads()}
    assert found == {"gpuctl-low", "gpuctl-medium", "gpuctl-high"}
    assert writes_nothing(first, low, high)
    [fitted] = place.gpuctl(
        "fit", "-f", place.file(served("next", job={"priority": "low"})), "-o", "json", code=None
    ).value["jobs"]
    assert fitted["admitted"] is False
    # The class of a running job cannot be removed.
    place.platform("")
    assert place.plan(first).actions["Deployment/first"] == "unchanged"
    place.apply(first)
    assert "kueue.x-k8s.io/priority-class" in place.get("Deployment", "first")["metadata"]["labels"]
