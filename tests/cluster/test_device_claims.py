"""Jobs that claim GPUs as devices (`gpu.allocation: dra`) on the real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Document, Place, compute, training
from support.device_nodes import cards, device_nodes, offer, offer_divisible, slices

Object = dict[str, Any]
POOL, DIVIDED, TEMPLATE = "claims", "claims-divided", "ResourceClaimTemplate"
BIG, SMALL, SLICED = "claims-h100", "claims-a100", "claims-mig"
"""Nodes with 2 cards of 80 GB, with 4 cards of 40 GB, and with 3 MIG slices."""
PLATFORM = (
    "gpu: {allocation: dra, products: {H100: [NVIDIA H100 80GB HBM3], A100: [NVIDIA A100-SXM4-40GB]}}\n"
    f"pools: [{{name: {POOL}, gpu-types: [H100, A100]}}]"
)


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[None]:
    plane.add_nodes({name: {"labels": {"runwhere.ai/pool": POOL}} for name in (SMALL, SLICED)})
    with device_nodes(plane, POOL, BIG, cards(2, "NVIDIA H100 80GB HBM3", "81559Mi")):
        offer(plane, SMALL, cards(4, "NVIDIA A100-SXM4-40GB", "40960Mi"))
        offer(plane, SLICED, [*slices(2), *slices(1, profile="3g.40gb")])
        yield
        plane.kubectl("delete", "resourceslice", f"{SMALL}-gpus", f"{SLICED}-gpus")
    plane.kubectl("delete", "node", SMALL, SLICED)


def job(name: str, gpus: int, **resources: Any) -> Document:
    return training(name, resources={"pool": POOL, "gpu": gpus, "cpu": 1, "memory": "1Gi", **resources})


def templates(place: Place) -> set[str]:
    return {name.partition("/")[2] for name in place.objects((TEMPLATE,))}


def node_of(place: Place, pod: str) -> str:
    return str(place.get("Pod", pod)["spec"].get("nodeName"))


def test_training_is_applied_changed_and_deleted_with_its_template(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    document = job("train", 2, **{"gpu-memory": ">=79Gi"})
    created = place.apply(document, flags=("-o", "json")).actions
    (name,) = templates(place)
    assert created == {f"{TEMPLATE}/{name}": "create", "Job/train": "create"}
    (pod,) = place.running("train")
    assert node_of(place, pod) == BIG
    again = place.apply(document, flags=("-o", "json")).actions
    assert again == dict.fromkeys(created, "unchanged")
    assert "no drift" in place.gpuctl("drift", "-f", place.file(document)).err

    changed = job("train", 1, **{"gpu-memory": ">=79Gi"})
    actions = place.apply(changed, flags=("--yes", "-o", "json")).actions
    (other,) = templates(place)
    assert actions == {f"{TEMPLATE}/{name}": "delete", f"{TEMPLATE}/{other}": "create", "Job/train": "replace"}
    place.running("train")
    place.gpuctl("delete", "job", "train", "--yes")
    assert templates(place) == set()
    place.until(lambda: not place.objects(("ResourceClaim",)), "the claims are released")


@pytest.mark.slow
def test_service_rolls_to_a_new_template(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    place.apply(compute("serve", resources={"pool": POOL, "gpu": 1}, service={"replicas": 2}))
    old = set(place.running("serve", pods=2))
    (name,) = templates(place)
    changed = compute("serve", resources={"pool": POOL, "gpu": 1, "gpu-type": "A100"}, service={"replicas": 2})
    place.apply(changed, flags=("--yes", "--strategy", "rolling"))
    assert len(templates(place)) == 2
    assert name in templates(place), "an old pod that ends during the update is made again"
    place.until(lambda: not old & set(place.pods("serve")), "the old pods have gone")
    place.until(lambda: [node_of(place, pod) for pod in place.pods("serve")] == [SMALL, SMALL], "the new pods run")

    again = place.apply(changed, flags=("--strategy", "rolling", "-o", "json")).actions
    assert set(again.values()) == {"unchanged"}
    assert "no drift" in place.gpuctl("drift", "-f", place.file(changed)).err

    place.apply(compute("serve", resources={"pool": POOL, "gpu": 0}, service={"replicas": 2}), flags=("--yes",))
    assert templates(place) == set(), "a job that claims nothing has no template"


def test_set_prunes_templates(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    place.apply(job("one", 1), job("two", 1), flags=("--set", "jobs"))
    assert len(templates(place)) == 2
    place.apply(job("one", 1), flags=("--set", "jobs", "--prune", "--yes"))
    (left,) = templates(place)
    assert left.startswith("one-gpu-")


def fit(place: Place, document: Document, code: int) -> Object:
    (answer,) = place.gpuctl("fit", "-f", place.file(document), "-o", "json", code=code).value["jobs"]
    return dict(answer)


def why(place: Place, name: str) -> Object:
    return dict(place.gpuctl("why", name, "-o", "json").value)


REQUESTS: list[tuple[str, int, Object, str]] = [
    ("type", 2, {"gpu-type": "H100"}, BIG),
    ("too-many", 3, {"gpu-type": "H100"}, ""),
    ("second", 3, {"gpu-type": ["H100", "A100"]}, SMALL),
    ("memory", 1, {"gpu-memory": ">=79Gi"}, BIG),
    ("nominal", 1, {"gpu-memory": ">=80Gi"}, ""),
    ("small", 4, {"gpu-memory": ">=40Gi"}, SMALL),
    ("both", 1, {"gpu-type": "A100", "gpu-memory": ">=79G"}, ""),
    ("all", 5, {}, ""),
]
"""Requests, and the node where the scheduler places a pod with them; "" if it finds none."""


@pytest.mark.slow
def test_fit_agrees_with_the_scheduler(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    for name, gpus, resources, node in REQUESTS:
        document = job(name, gpus, **resources)
        verdict = fit(place, document, 0 if node else 1)
        assert (name, verdict["verdict"], verdict["certain"]) == (name, "fits" if node else "never", True)
        place.apply(document)
        if node:
            (pod,) = place.running(name)
            assert (name, node_of(place, pod)) == (name, node)
        else:
            place.until(lambda name=name: "cannot allocate" in str(why(place, name)), "the scheduler's words")
        place.gpuctl("delete", "job", name, "--yes")
        place.until(lambda: not place.objects(("ResourceClaim",)), "the claims are released")


def test_cards_of_claims_are_counted(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    place.apply(job("first", 2, **{"gpu-type": ["H100", "A100"]}))
    (pod,) = place.running("first")
    assert node_of(place, pod) == BIG
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert row["gpu"] == 2
    nodes_by_name = {row["nodeName"]: row for row in place.anywhere("get", "nodes", "-o", "json").value["items"]}
    assert [nodes_by_name[BIG][key] for key in ("gpuTotal", "gpuUsed", "gpuFree")] == [2, 2, 0]
    late = job("late", 1, **{"gpu-memory": ">=79Gi"})
    assert fit(place, late, 1)["verdict"] == "fits-when-empty"
    assert fit(place, job("other", 2, **{"gpu-type": ["H100", "A100"]}), 0)["verdict"] == "fits"
    place.apply(late)
    place.until(lambda: why(place, "late")["cause"] == "gpu-shortage", "the scheduler's words")
    assert "needs 1 DeviceClass/gpu.nvidia.com (memory >= 79Gi)" in why(place, "late")["message"]
    for flags in ((), ("--jobs",)):
        rows = place.gpuctl("get", "jobs", *flags, "-o", "json").value["items"]
        assert {row["name"]: row["gpu"] for row in rows} == {"first": 2, "late": 1}, "a waiting job requests its GPU"
    assert [item["job"] for item in why(place, "late")["numbers"]["heldBy"]] == ["Job/first"]


def test_slices_are_claimed_and_counted(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    two = job("two", 2, **{"gpu-profile": "1g.10gb"})
    assert fit(place, two, 0)["verdict"] == "fits"
    assert fit(place, job("three", 3, **{"gpu-profile": "1g.10gb"}), 1)["verdict"] == "never"
    place.apply(two)
    (pod,) = place.running("two")
    assert node_of(place, pod) == SLICED
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert row["gpu"] == 2
    rows = {row["nodeName"]: row for row in place.anywhere("get", "nodes", "-o", "json").value["items"]}
    assert [rows[SLICED][key] for key in ("gpuTotal", "gpuUsed", "gpuFree")] == [3, 2, 1]
    shown = place.anywhere("describe", "node", SLICED).out
    assert [line.split() for line in shown.splitlines() if "1g.10gb" in line] == [["1g.10gb", "2", "2", "0", "100%"]]
    place.apply(job("late", 1, **{"gpu-profile": "1g.10gb"}))
    place.until(lambda: why(place, "late")["cause"] == "gpu-shortage", "the scheduler's words")
    assert "needs 1 DeviceClass/mig.nvidia.com (profile 1g.10gb)" in why(place, "late")["message"]
    place.apply(job("other", 1, **{"gpu-profile": "3g.40gb"}))
    place.running("other")


@pytest.mark.slow
def test_fit_agrees_with_the_scheduler_about_slices_on_demand(plane: ControlPlane, place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    plane.add_nodes({DIVIDED: {"labels": {"runwhere.ai/pool": DIVIDED}}})
    plane.wait_for_nodes()
    offer_divisible(plane, DIVIDED, cards=2)
    try:
        # The slices are taken from the first card, and the second one remains whole.
        for name, gpus, resources in (
            ("half", 1, {"gpu-profile": "3g.40gb"}),
            ("small", 3, {"gpu-profile": "1g.10gb"}),
            ("card", 1, {}),
        ):
            document = job(name, gpus, **resources, pool=DIVIDED)
            assert (name, fit(place, document, 0)["verdict"]) == (name, "fits")
            place.apply(document)
            place.running(name)
            if name == "half":
                (row,) = place.anywhere("get", "nodes", "--pool", DIVIDED, "-o", "json").value["items"]
                assert (row["freeSlices"]["3g.40gb"], row["freeSlices"]["7g.80gb"]) == (3, 1)
                assert "3 x 3g.40gb, 1 x 7g.80gb" in place.anywhere("get", "nodes").out
        late = fit(place, job("late", 1, **{"gpu-profile": "1g.10gb"}, pool=DIVIDED), 2)
        assert "other devices hold parts of the cards" in late["reason"]
    finally:
        plane.kubectl("delete", "resourceslice", f"{DIVIDED}-gpus", f"{DIVIDED}-counters")
        plane.kubectl("delete", "node", DIVIDED)


@pytest.mark.slow
def test_quota_limits_claims(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    users = {place.namespace: {"gpu": 2}}
    place.apply({"kind": "quota", "version": "v0.1", "quota": {"name": "cards"}, "users": users})
    quota = f"cards-{place.namespace}"
    place.until(lambda: place.get("ResourceQuota", quota).get("status", {}).get("used"), "the quota counts")
    assert fit(place, job("three", 3), 1)["verdict"] == "never"
    place.apply(job("two", 2))
    place.running("two")

    def used() -> Any:
        (row,) = place.gpuctl("get", "quotas", "-o", "json").value["items"]
        (limit,) = (item for item in row["resources"] if item["name"] == "gpu")
        return limit["used"], limit["total"]

    place.until(lambda: used() == (2, 2), "the claim is counted")
    late = fit(place, job("late", 1), 1)
    assert (late["verdict"], late["certain"]) == ("fits-when-empty", True)
    assert "deviceclass.resource.k8s.io/devices would be 3 of 2" in str(late)
    assert fit(place, job("two", 1), 0)["verdict"] == "fits", "the claim of the replaced job is given back"
    refused = place.apply(job("late", 1), code=1)
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    assert f"quota {quota}: {key} would be 3 of 2 (in use 2, needed 1)" in refused.err
    assert "--queue creates it anyway" in refused.err
    waits = place.apply(job("late", 1), flags=("--queue",))
    assert f"asks 1 {key}, 0 free" in waits.out
    assert "held by training/two (2)" in waits.out
    place.until(lambda: why(place, "late")["cause"] == "quota-exceeded", "the controller's event")
    # The claim that the quota refused is not given back, and that of `two` is.
    assert "would be 3 of 2" in place.apply(job("late", 1, **{"gpu-memory": "1Gi"}), flags=("--yes",), code=1).err
    place.apply(job("two", 1), flags=("--yes",))
