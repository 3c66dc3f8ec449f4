"""GPUs allocated by dynamic resource allocation (DRA) with the real scheduler, in fit, why and plans."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Document, Place, training
from support.command import Start, on_a_terminal
from support.device_nodes import CLASS, claim_template, claimant, device_nodes
from support.why_records import record

Object = dict[str, Any]
POOL = "devices"
PLUGIN, DRA = "devices-plugin", "devices-dra"
"""A node with 2 GPUs of a device plugin, and a node whose DRA driver offers 4 devices."""


@pytest.fixture(scope="module")
def devices(plane: ControlPlane) -> Iterator[None]:
    plane.add_nodes({PLUGIN: {"labels": {"runwhere.ai/pool": POOL}, "gpus": 2}})
    with device_nodes(plane, POOL, DRA, 4):
        yield
    plane.kubectl("delete", "node", PLUGIN)


def job(name: str, gpus: int, **changes: Any) -> Document:
    return training(name, resources={"pool": POOL, "gpu": gpus, "cpu": 1, "memory": "1Gi"}, **changes)


def fit(place: Place, document: Document, code: int) -> Object:
    (answer,) = place.gpuctl("fit", "-f", place.file(document), "-o", "json", code=code).value["jobs"]
    return dict(answer)


def gpu_counts(place: Place) -> dict[str, tuple[int, int, int]]:
    """Return total, used and free GPUs of each node and pool."""
    nodes = place.anywhere("get", "nodes", "--pool", POOL, "-o", "json").value["items"]
    pools = place.anywhere("get", "pools", POOL, "-o", "json").value["items"]
    rows = {**{row["nodeName"]: row for row in nodes}, **{row["name"]: row for row in pools}}
    return {name: (row["gpuTotal"], row["gpuUsed"], row["gpuFree"]) for name, row in rows.items()}


@pytest.mark.slow
def test_devices_of_a_class_with_an_extended_resource_are_counted(place: Place, devices: None) -> None:
    four = job("four", 4)
    assert fit(place, four, 0)["verdict"] == "fits"
    assert fit(place, job("five", 5), 1)["verdict"] == "never"
    assert "no node has" not in place.apply(four).err
    (pod,) = place.running("four")
    assert place.get("Pod", pod)["spec"]["nodeName"] == DRA
    assert gpu_counts(place) == {PLUGIN: (2, 0, 2), DRA: (4, 4, 0), POOL: (6, 4, 2)}
    place.apply(job("late", 4))
    place.until(lambda: why(place, "late")["cause"] == "gpu-shortage", "the scheduler's words")
    answer = why(place, "late")
    assert "the best node has 2 free" in answer["message"]
    assert [item["job"] for item in answer["numbers"]["heldBy"]] == ["Job/four"]
    assert fit(place, job("later", 4), 2)["verdict"] == "fits-when-empty"


def test_devices_requested_by_their_class_name_are_counted(place: Place, devices: None) -> None:
    """Every class can be requested as ``deviceclass.resource.kubernetes.io/NAME``, even if it has an
    extendedResourceName.
    """
    asked = {f"deviceclass.resource.kubernetes.io/{CLASS}": "3"}
    patch = {"containers": [{"name": "main", "resources": {"requests": asked, "limits": asked}}]}
    document = job("classy", 0, podPatch=patch)
    assert fit(place, document, 0)["verdict"] == "fits"
    place.apply(document)
    place.running("classy")
    assert gpu_counts(place)[DRA] == (4, 3, 1)
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert row["gpu"] == 3


def test_devices_of_resource_claims_are_counted(place: Place, devices: None, start: Start) -> None:
    document = claimant("claims", "cards", POOL)
    absent = place.apply(document).err
    assert f"there is no resource claim template cards in {place.namespace}" in absent
    place.until(lambda: why(place, "claims")["cause"] == "resource-claim-missing", "the controller's event")
    record(place.namespace, "claims", "resource-claim-missing")
    assert "there is no ResourceClaimTemplate cards in" in why(place, "claims")["message"]
    watching = start("get", "jobs", "-n", place.namespace, "--watch", "-o", "json")
    watching.until(b'"gpu": 0')
    claim_template(place, "cards", 3)
    place.running("claims")
    watching.until(b'"gpu": 3')
    watching.process.send_signal(signal.SIGINT)
    watching.end()
    assert fit(place, claimant("more", "cards", POOL), 2)["verdict"] == "fits-when-empty"
    assert gpu_counts(place)[DRA] == (4, 3, 1)
    for flags in ((), ("--jobs",)):
        (row,) = place.gpuctl("get", "jobs", *flags, "-o", "json").value["items"]
        assert row["gpu"] == 3
    (pod,) = place.gpuctl("describe", "job", "claims", "-o", "json").value["pods"]
    assert pod["gpu"] == 3
    total = sum(node["gpuTotal"] for node in place.anywhere("get", "nodes", "-o", "json").value["items"])
    for flags, footer in (((), f"GPUs: 3/{total} allocated"), (("-n", place.namespace), "GPUs: 3 allocated")):
        assert footer in on_a_terminal("get", "jobs", "-l", "app=claims", *flags)[1]
    (holder,) = place.anywhere("describe", "node", DRA, "-o", "json").value["runningJobs"]
    assert holder["gpu"] == 3


def why(place: Place, name: str) -> Object:
    return dict(place.gpuctl("why", name, "-o", "json").value)
