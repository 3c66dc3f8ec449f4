"""GPUs allocated by dynamic resource allocation (DRA) with the real scheduler, in fit, why and plans."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Document, Place, training
from support.command import Start, on_a_terminal
from support.device_nodes import CLASS, claim_template, claimant, create, device_nodes, offer, option
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
    assert "the only node has 0 free" in answer["message"]
    assert [item["job"] for item in answer["numbers"]["heldBy"]] == ["Job/four"]
    assert fit(place, job("later", 4), 1)["verdict"] == "fits-when-empty"


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
    assert fit(place, claimant("more", "cards", POOL), 1)["verdict"] == "fits-when-empty"
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


def test_pods_prefer_the_first_of_several_gpu_types(plane: ControlPlane, place: Place) -> None:
    types = {"types-h100": "H100", "types-a100": "A100"}
    for node, gpu_type in types.items():
        plane.add_nodes({node: {"labels": {"runwhere.ai/pool": "types", "runwhere.ai/gpu-type": gpu_type}, "gpus": 1}})
    plane.wait_for_nodes()
    try:
        for name, node in (("first", "types-a100"), ("second", "types-h100")):
            resources = {"pool": "types", "gpu": 1, "gpu-type": ["A100", "H100"], "cpu": 1, "memory": "1Gi"}
            document = training(name, resources=resources)
            assert fit(place, document, 0)["verdict"] == "fits"
            place.apply(document)
            (pod,) = place.running(name)
            assert place.get("Pod", pod)["spec"]["nodeName"] == node
        (row, _) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
        assert row["gpuType"] == "A100 or H100"
    finally:
        for node in types:
            plane.kubectl("delete", "node", node)


MODEL = f'device.attributes["{CLASS}"].model'
MEMORY = f'device.capacity["{CLASS}"].memory'
REQUESTS: list[tuple[str, Object, bool]] = [
    ("model", {"exactly": option(4, f'{MODEL} == "H100"')}, True),
    ("too-many", {"exactly": option(3, f'{MODEL} == "A100"')}, False),
    ("memory", {"exactly": option(4, f'{MEMORY}.compareTo(quantity("80Gi")) >= 0')}, True),
    ("both", {"exactly": option(1, f'{MODEL}.startsWith("A") && {MEMORY}.isGreaterThan(quantity("40Gi"))')}, False),
    ("tainted", {"exactly": option(1, f'{MODEL} in ["L4"]')}, False),
    ("first", {"firstAvailable": [option(3, f'{MODEL} == "H200"', "a"), option(3, f'{MODEL} == "H100"', "b")]}, True),
    ("all", {"exactly": {**option(0, f'{MODEL} == "A100"'), "allocationMode": "All"}}, True),
]
"""Requests for devices, and whether the scheduler places a pod with them on nodes of 4 H100, 2 A100 and a tainted L4."""


@pytest.mark.slow
def test_fit_agrees_with_the_scheduler_about_selectors(plane: ControlPlane, place: Place, devices: None) -> None:
    models = {"h100": (4, "H100", "80Gi"), "a100": (2, "A100", "40Gi"), "l4": (1, "L4", "24Gi")}
    for node, (number, model, memory) in models.items():
        plane.add_nodes({node: {"labels": {"runwhere.ai/pool": "models"}}})
        taints = {"taints": [{"key": "broken", "effect": "NoSchedule"}]} if model == "L4" else {}
        one = {"attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}}, **taints}
        offer(plane, node, [{"name": f"gpu-{index}", **one} for index in range(number)])
    # Selectors fail for devices without these attributes.
    plane.kubectl("delete", "resourceslice", f"{DRA}-gpus")
    plane.wait_for_nodes()
    try:
        for name, request, is_placed in REQUESTS:
            create(
                place, "ResourceClaimTemplate", name, {"spec": {"devices": {"requests": [{"name": name, **request}]}}}
            )
            document = claimant(name, name, "models")
            verdict = fit(place, document, 0 if is_placed else 1)
            assert (name, verdict["verdict"], verdict["certain"]) == (name, "fits" if is_placed else "never", True)
            place.apply(document)
            if is_placed:
                place.running(name)
            else:
                place.until(lambda name=name: "cannot allocate" in str(why(place, name)), "the scheduler's words")
            place.kubectl("delete", "job", name, "--cascade=foreground")
            place.until(lambda: not place.kubectl("get", "resourceclaims", "-o", "name"), "the claims are deleted")
    finally:
        for node in models:
            plane.kubectl("delete", "resourceslice", f"{node}-gpus")
            plane.kubectl("delete", "node", node)
        offer(plane, DRA, [{"name": f"gpu-{number}"} for number in range(4)])


def why(place: Place, name: str) -> Object:
    return dict(place.gpuctl("why", name, "-o", "json").value)
