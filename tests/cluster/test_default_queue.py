"""Trainings without a queue in a namespace with Kueue's LocalQueue ``default``, and the configuration of Kueue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import fit
from gpuctl.capacity.fit.waiting_fit import fit_waiting
from gpuctl.kube.configuration import open_session
from support.cluster_tools import GPU, Document, Place, image, training
from support.queue_worlds import queue_job
from support.queues import API, Queues

Judge = Callable[..., bool]


def gpus(name: str, count: int, **changes: Any) -> Document:
    return training(name, resources={"gpu": count}, **changes)


def test_plan_and_fit_show_the_wait_in_the_default_queue(
    queue_place: Place, queues: Queues, writes_nothing: Judge
) -> None:
    place = queue_place
    cluster_queue = queues.cluster_queue("shared", gpus=2)
    queues.default_queue(cluster_queue)
    place.apply(gpus("first", 2))
    queues.admitted("first")
    planned = place.apply(gpus("second", 2), flags=("--dry-run=server",))
    said = f"queue default (ClusterQueue {cluster_queue}): it asks for 2 {GPU}, 0 free in flavor of-shared"
    assert said in " ".join(planned.out.split())
    [answer] = place.gpuctl("fit", "-f", place.file(gpus("second", 2)), "-o", "json", code=None).value["jobs"]
    assert (answer["verdict"], answer["admitted"]) == ("fits-when-empty", False)
    assert said in answer["reason"]
    place.apply(gpus("second", 2))
    queues.waits("second")
    assert writes_nothing(gpus("first", 2))
    assert writes_nothing(gpus("second", 2))
    again = place.apply(gpus("first", 2), flags=("--relower",))
    assert "stays in" not in again.out + again.err
    changed = place.apply(gpus("first", 2, environment=image("v2")), code=2)
    assert "and it waits in Kueue's queue default again" in changed.err
    place.gpuctl("delete", "job", "first", "--yes")
    queues.admitted("second")
    place.until(
        lambda: place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"][0]["status"] == "Running", ""
    )
    assert writes_nothing(gpus("second", 2))


@pytest.mark.slow
def test_training_that_bypasses_the_queue_of_its_namespace_is_noted(
    queue_place: Place, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document outside the team's directory is applied without the team's platform.yaml, so its job bypasses the
    queue.
    """
    place = queue_place
    queues.local_queue("team", queues.cluster_queue("team", gpus=2))
    planned = place.apply(gpus("beside", 2), flags=("--dry-run=server",))
    assert f"namespace {place.namespace} has the Kueue queue team, and " in planned.err
    assert "starts without one: no platform file was found" in planned.err
    place.platform('kubernetes: {version: "1.36"}')
    planned = place.apply(gpus("beside", 2), flags=("--dry-run=server",))
    assert "starts without one: `training.queue` in platform.yaml names no queue for the pool" in planned.err
    (place.directory / "platform.yaml").unlink()
    monkeypatch.setenv("GPUCTL_PLATFORM", "/nowhere/platform.yaml")
    missing = place.gpuctl("diff", "-f", place.file(gpus("beside", 2)), code=2)
    assert "/nowhere/platform.yaml" in missing.err


@pytest.mark.slow
def test_fit_reads_the_kueue_configuration(queue_place: Place, queues: Queues) -> None:
    """Configurations that `fit` does not simulate make the answer unknown; assumed defaults are noted."""
    place = queue_place
    queues.team(gpus=4)
    place.apply(gpus("first", 2))
    queues.admitted("first")
    place.until(lambda: queues.condition("first", "PodsReady").get("status") == "True", "its pods")

    def told() -> tuple[str, str, str]:
        found = place.gpuctl("fit", "-f", place.file(gpus("second", 1)), "-o", "json", code=None)
        [answer] = found.value["jobs"]
        return answer["verdict"], answer["reason"], found.err

    with kueue_config_map(place, {}):
        assert told()[0::2] == ("fits", "")
    with kueue_config_map(place, {"resources": {"transformations": [{"input": GPU, "strategy": "Replace"}]}}):
        verdict, reason, _ = told()
        assert verdict == "unknown"
        assert f"Kueue converts {GPU} to other resources (resources.transformations)" in reason
    with kueue_config_map(place, {"waitForPodsReady": {"timeout": "5m", "blockAdmission": True}}):
        assert told()[0::2] == ("fits", ""), "all pods of admitted jobs are ready"
    with kueue_config_map(place, None):
        verdict, _, said = told()
        assert verdict == "fits"
        assert "Kueue's configuration (ConfigMap kueue-manager-config in kueue-system) could not be read" in said
        planned = place.apply(gpus("second", 1), flags=("--dry-run=server",))
        assert "its defaults are assumed" in planned.err + planned.out


def pending_workloads(place: Place) -> int:
    """Return Kueue's number of pending workloads in the default queue."""
    path = f"/apis/{API}/namespaces/{place.namespace}/localqueues/default"
    return int(place.api.call("GET", path)["status"].get("pendingWorkloads", 0))


@contextmanager
def kueue_config_map(place: Place, more: dict[str, Any] | None) -> Iterator[None]:
    """Replace Kueue's ConfigMap inside the block. None writes an unreadable configuration."""
    path = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
    was = place.api.call("GET", path)["data"]
    name = "controller_manager_config.yaml"
    text = "- not a Configuration" if more is None else json.dumps({**json.loads(was[name]), **more})
    place.api.call("PATCH", path, {"data": {name: text}}, "application/merge-patch+json")
    yield
    place.api.call("PATCH", path, {"data": was}, "application/merge-patch+json")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_job_that_violates_limit_ranges_is_never_admitted(queue_place: Place, queues: Queues, strategy: str) -> None:
    """Kueue does not check LimitRanges when it queues the job; in a strict queue the job blocks the jobs behind it."""
    place = queue_place
    queues.default_queue(queues.cluster_queue("shared", gpus=4, queueingStrategy=strategy))
    limit = {"type": "Container", "max": {GPU: "1"}}
    kind = {"apiVersion": "v1", "kind": "LimitRange"}
    place.create({**kind, "metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    large, small = (
        queue_job(name, place.namespace, "default", number) for name, number in (("large", 2), ("small", 1))
    )
    for job in (large, small):
        del job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    session = open_session(kubeconfig=str(place.plane.kubeconfig()))
    [foreseen] = fit(take_snapshot(session), [large])
    place.create(large)
    queues.waits("large")
    # Jobs that are created in the same second have no defined order.
    created = datetime.fromisoformat(place.get("Job", "large")["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    place.until(lambda: datetime.now(timezone.utc) - created > timedelta(seconds=2), "another second")
    [behind] = fit(take_snapshot(session), [small])
    place.create(small)
    if strategy == "StrictFIFO":
        # Kueue never considers the second job.
        place.until(lambda: pending_workloads(place) == 2, "both to wait")
        assert queues.condition("small", "QuotaReserved").get("status") != "True"
    else:
        queues.admitted("small")
    left = {item.demand.name: item for item in fit_waiting(take_snapshot(session))}
    session.close()
    assert (foreseen.verdict, foreseen.certain, foreseen.admitted) == ("never", True, False)
    assert f"does not admit it: its pods violate the LimitRanges of {place.namespace}" in foreseen.reason
    assert (left["large"].verdict, left["large"].admitted) == ("never", False)
    assert "resources didn't satisfy LimitRange constraints" in left["large"].reason
    expected = "fits-when-empty" if strategy == "StrictFIFO" else "fits"
    assert (behind.verdict, behind.certain) == (expected, True)
    assert strategy != "StrictFIFO" or left["small"].verdict == expected
