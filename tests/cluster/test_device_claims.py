"""Jobs that claim GPUs as devices (`gpu.allocation: dra`) on the real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Document, Place, compute, training
from support.device_nodes import cards, device_nodes, offer

Object = dict[str, Any]
POOL, TEMPLATE = "claims", "ResourceClaimTemplate"
BIG, SMALL = "claims-h100", "claims-a100"
"""A node with 2 cards of 80 GB, and a node with 4 cards of 40 GB."""
PLATFORM = (
    "gpu: {allocation: dra, products: {H100: [NVIDIA H100 80GB HBM3], A100: [NVIDIA A100-SXM4-40GB]}}\n"
    f"pools: [{{name: {POOL}, gpu-types: [H100, A100]}}]"
)


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[None]:
    plane.add_nodes({SMALL: {"labels": {"runwhere.ai/pool": POOL}}})
    with device_nodes(plane, POOL, BIG, cards(2, "NVIDIA H100 80GB HBM3", "81559Mi")):
        offer(plane, SMALL, cards(4, "NVIDIA A100-SXM4-40GB", "40960Mi"))
        yield
        plane.kubectl("delete", "resourceslice", f"{SMALL}-gpus")
    plane.kubectl("delete", "node", SMALL)


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


def test_service_rolls_to_a_new_template(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    place.apply(compute("serve", resources={"pool": POOL, "gpu": 1}, service={"replicas": 2}))
    old = set(place.running("serve", pods=2))
    (name,) = templates(place)
    changed = compute("serve", resources={"pool": POOL, "gpu": 1, "gpu-type": "A100"}, service={"replicas": 2})
    place.apply(changed, flags=("--yes", "--strategy", "rolling"))
    (other,) = templates(place)
    assert other != name
    place.until(lambda: not old & set(place.pods("serve")), "the old pods have gone")
    place.until(lambda: [node_of(place, pod) for pod in place.pods("serve")] == [SMALL, SMALL], "the new pods run")

    place.apply(compute("serve", resources={"pool": POOL, "gpu": 0}, service={"replicas": 2}), flags=("--yes",))
    assert templates(place) == set(), "a job that claims nothing has no template"


def test_set_prunes_templates(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    place.apply(job("one", 1), job("two", 1), flags=("--set", "jobs"))
    assert len(templates(place)) == 2
    place.apply(job("one", 1), flags=("--set", "jobs", "--prune", "--yes"))
    (left,) = templates(place)
    assert left.startswith("one-gpu-")
