"""A node whose GPUs a driver offers as devices (DRA), and claims of pods for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from control_plane import ControlPlane
from support.cluster_tools import Document, Place, training

GPU, CLASS, SLICES = "nvidia.com/gpu", "gpu.nvidia.com", "mig.nvidia.com"
_TYPE = f'device.attributes["{CLASS}"].type'


@contextmanager
def device_nodes(plane: ControlPlane, pool: str, node: str, gpus: int | list[dict[str, Any]]) -> Iterator[None]:
    """Have a node of a pool whose driver offers GPUs as devices of a class that has an extended resource, and MIG slices
    as devices of another class.

    :param gpus: the devices, or how many without attributes.
    """
    plane.add_nodes({node: {"labels": {"runwhere.ai/pool": pool}}})
    plane.wait_for_nodes()
    is_slice = f'device.driver == "{CLASS}" && has({_TYPE}) && {_TYPE} == "mig"'
    is_card = f'device.driver == "{CLASS}" && (!has({_TYPE}) || {_TYPE} == "gpu")'
    create(plane, "DeviceClass", CLASS, {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": is_card}}]})
    create(plane, "DeviceClass", SLICES, {"selectors": [{"cel": {"expression": is_slice}}]})
    offer(plane, node, [{"name": f"gpu-{number}"} for number in range(gpus)] if isinstance(gpus, int) else gpus)
    try:
        yield
    finally:
        plane.kubectl("delete", "deviceclass", CLASS, SLICES)
        plane.kubectl("delete", "resourceslice", f"{node}-gpus")
        plane.kubectl("delete", "node", node)


def cards(number: int, product: str, memory: str) -> list[dict[str, Any]]:
    """Devices as NVIDIA's driver describes whole cards."""
    attributes = {"type": {"string": "gpu"}, "productName": {"string": product}}
    one = {"attributes": attributes, "capacity": {"memory": {"value": memory}}}
    return [{"name": f"gpu-{index}", **one} for index in range(number)]


def slices(number: int, product: str = "NVIDIA A100-SXM4-80GB", profile: str = "1g.10gb") -> list[dict[str, Any]]:
    """Devices as NVIDIA's driver describes MIG slices that exist already."""
    named = {"type": "mig", "productName": product, "profile": profile, "parentUUID": "GPU-0"}
    attributes = {name: {"string": value} for name, value in named.items()}
    name = profile.replace(".", "")
    return [{"name": f"gpu-9-mig-{name}-{index}", "attributes": attributes} for index in range(number)]


def offer(plane: ControlPlane, node: str, devices: list[dict[str, Any]]) -> None:
    """Offer devices of a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": CLASS, "nodeName": node, "pool": pool, "devices": devices}
    create(plane, "ResourceSlice", f"{node}-gpus", spec)


_PLACES = {"1g.10gb": (1, 1, range(7)), "3g.40gb": (3, 4, (0, 4)), "7g.80gb": (7, 8, (0,))}
"""Profile -> compute slices, memory slices, and the memory slices where it can begin: those of an A100 of 80 GB."""


def counters(compute: int, start: int, size: int) -> dict[str, Any]:
    """The counters of a part of a card."""
    memory = {f"memory-slice-{index}": {"value": "1"} for index in range(start, start + size)}
    return {"multiprocessors": {"value": str(14 * compute)}, **memory}


def divisible(card: int) -> list[dict[str, Any]]:
    """A card and all of its possible slices, as NVIDIA's driver lists them."""
    name = f"gpu-{card}"

    def device(suffix: str, kind: str, compute: int, start: int, size: int, profile: str = "") -> dict[str, Any]:
        texts = {"type": kind, "productName": "NVIDIA A100", **({"profile": profile} if profile else {})}
        return {
            "name": name + suffix,
            "attributes": {key: {"string": text} for key, text in texts.items()},
            "consumesCounters": [{"counterSet": name, "counters": counters(compute, start, size)}],
        }

    parts = [
        device(f"-mig-{profile.replace('.', '')}-{start}", "mig", compute, start, size, profile)
        for profile, (compute, size, starts) in _PLACES.items()
        for start in starts
    ]
    return [device("", "gpu", 7, 0, 8), *parts]


def divisible_slices(node: str, cards: int) -> list[dict[str, Any]]:
    """The specs of a node's ResourceSlices: cards with their possible slices, and the counters of the cards."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": CLASS, "nodeName": node, "pool": pool}
    sets = [{"name": f"gpu-{card}", "counters": counters(7, 0, 8)} for card in range(cards)]
    return [
        {**spec, "devices": [item for card in range(cards) for item in divisible(card)]},
        {**spec, "sharedCounters": sets},
    ]


def offer_divisible(plane: ControlPlane, node: str, cards: int) -> None:
    """Offer cards of a node that are divided on demand."""
    devices, counted = divisible_slices(node, cards)
    create(plane, "ResourceSlice", f"{node}-gpus", devices)
    create(plane, "ResourceSlice", f"{node}-counters", counted)


def option(count: int, selector: str, name: str = "") -> dict[str, Any]:
    """A request for devices of the class with a selector; ``name``: of an alternative."""
    own = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": selector}}]}
    return {**own, **({"count": count} if count else {}), **({"name": name} if name else {})}


def create(by: ControlPlane | Place, kind: str, name: str, spec: dict[str, Any]) -> None:
    """Create an object of the API of devices."""
    obj = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    by.kubectl("create", "-f", "-", input=json.dumps(obj))


def claim_template(place: Place, name: str, gpus: int) -> None:
    """Create the template of claims for so many GPUs."""
    request = {"name": name, "exactly": {"deviceClassName": CLASS, "count": gpus}}
    create(place, "ResourceClaimTemplate", name, {"spec": {"devices": {"requests": [request]}}})


def claimant(name: str, template: str, pool: str) -> Document:
    """A training whose pod claims devices, and requests no GPU."""
    claims = {"resourceClaims": [{"name": template, "resourceClaimTemplateName": template}]}
    claims["containers"] = [{"name": "main", "resources": {"claims": [{"name": template}]}}]  # type: ignore[list-item]
    resources = {"pool": pool, "gpu": 0, "cpu": 1, "memory": "1Gi"}
    return training(name, resources=resources, podPatch=claims)


def claimed_devices(driver: str, number: int) -> dict[str, list[Any]]:
    """Return a template that requests devices of the class of a driver, and the class, the devices and the claim of the
    pod with the uid ``p``, by kind.
    """
    request = {"name": "r", "exactly": {"deviceClassName": driver, "count": number}}
    spec = {"devices": {"requests": [request]}}
    device = {"attributes": {"type": {"string": "gpu"}}}
    names = [f"d{index}" for index in range(number)]
    results = [{"driver": driver, "pool": "n", "device": name} for name in names]
    reserved = [{"resource": "pods", "name": "p", "uid": "p"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    node = {"driver": driver, "nodeName": "n", "pool": {"name": "n"}, "devices": [{"name": n, **device} for n in names]}
    metadata = {"name": "cards", "namespace": "team"}
    return {
        "DeviceClass": [{"metadata": {"name": driver}, "spec": {}}],
        "ResourceClaimTemplate": [{"metadata": metadata, "spec": {"spec": spec}}],
        "ResourceSlice": [{"spec": node}],
        "ResourceClaim": [{"metadata": metadata, "spec": spec, "status": status}],
    }
