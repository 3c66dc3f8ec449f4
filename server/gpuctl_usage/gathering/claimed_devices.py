"""GPUs that are offered and claimed by dynamic resource allocation (DRA).

A driver's ResourceSlices list its devices; the status of a ResourceClaim lists the devices allocated to it. GPU drivers
are recognized by their name, such as ``gpu.nvidia.com``. Whole GPUs and MIG slices are counted; the size of another
partial GPU is unknown. A MIG slice is the extended resource of its profile, so that it has the size of a plugin's.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from gpuctl.capacity.snapshot.device_entries import held_devices
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object
from gpuctl.reading.nodes.node_devices import gpu_offers, newest_specs, pool_of
from gpuctl_usage.gathering.gpu_weights import DEVICES, UNSIZED_DEVICES, GpuRequests, GpuWeights
from gpuctl_usage.gathering.object_facts import PodFacts

_DRIVER = re.compile(r"(?:.*[.-])?(?:gpu|npu|dcu|mlu|gcu|xpu)s?(?:[.-].*)?", re.ASCII)
_VERSIONS = ("v1", "v1beta2", "v1beta1")
_READ_AGAIN_AFTER = 1.0
"""Seconds after which ResourceSlices are read again for a device that they did not list."""


class Device(NamedTuple):
    """Key of a device in ResourceSlices and claims."""

    driver: str
    pool: str
    name: str


class ClaimedDevices:
    """Reads ResourceSlices and ResourceClaims; a cluster without the API has none."""

    def __init__(self, session: Session, weights: GpuWeights) -> None:
        self._session = session
        self._weights = weights
        self._version = ""
        self._known: Mapping[Device, str] | None = None
        self._listed: frozenset[Device] = frozenset()
        self._read_at = -_READ_AGAIN_AFTER
        self._pods: dict[str, GpuRequests] = {}
        self._uncertain: dict[str, PodFacts] = {}

    def offered(self) -> dict[str, float]:
        """Return the number of GPUs that drivers offer on each node. A MIG slice is a part of one.

        :raises ClusterError: the ResourceSlices cannot be read.
        """
        self._read_at = time.monotonic()
        found = self._read("resourceslices", filter(None, (self._version, *_VERSIONS)))
        if found is None:
            return {}
        slices = found.get("items") or []
        devices = offered_gpus(slices)
        self._known = {device: offer.resource for device, offer in devices.items()}
        self._listed = _listed_devices(slices)
        counts: dict[str, float] = defaultdict(float)
        for offer in devices.values():
            if not offer.on_demand:
                counts[offer.node] += self._weights.held_gpus(((offer.resource, 1.0),), {}) or 0.0
        return dict(counts)

    def with_devices(self, facts: PodFacts) -> PodFacts:
        """Return the pod with the GPUs of its claims added to its requests. Those of a claim for extended resources
        replace them: it may have got a part of a card.

        They are constant while the pod is on its node: a claim is released only before its pod is deleted.
        """
        known = self._pods.get(facts.uid)
        if known is None:
            known = self._count(facts) if facts.node else ()
        asked = () if facts.by_claim and known else facts.gpu_requests
        return facts._replace(gpu_requests=(*asked, *known), by_claim=facts.by_claim or bool(known))

    def uncertain_pods(self) -> list[PodFacts]:
        """Return the running pods with a claim that could not be read, or a device that no ResourceSlice listed."""
        return list(self._uncertain.values())

    def forget(self, facts: PodFacts) -> None:
        """Forget a deleted pod."""
        self._pods.pop(facts.uid, None)
        self._uncertain.pop(facts.uid, None)

    def _count(self, facts: PodFacts) -> GpuRequests:
        """Return the GPUs of a pod's claims, and store them if they are certain. Nothing if a claim is unknown: a part
        of the GPUs would look like a change once all are known.
        """
        claims = [claim for name in facts.claims if (claim := self._allocated(facts, name)) is not None]
        is_complete = len(claims) == len(facts.claims)
        if is_complete and not self._lists(claims) and time.monotonic() >= self._read_at + _READ_AGAIN_AFTER:
            # The node may have joined after the last reading.
            with suppress(ClusterError):
                self.offered()
        found = self._requests(claims) if is_complete else ()
        if is_complete and self._lists(claims):
            self._pods[facts.uid] = found
            self._uncertain.pop(facts.uid, None)
        elif facts.over:
            # The claims of an ended pod are released.
            self._uncertain.pop(facts.uid, None)
        else:
            self._uncertain[facts.uid] = facts
        return found

    def _requests(self, claims: Iterable[Object]) -> GpuRequests:
        counts = [claimed_gpus(claim, self._known) for claim in claims]
        total = sum((Counter(found) for found in counts if found is not None), Counter[str]())
        return ((UNSIZED_DEVICES, 1.0),) if None in counts else tuple((name, float(total[name])) for name in total)

    def _lists(self, claims: Iterable[Object]) -> bool:
        """Return True if the ResourceSlices list all GPUs of claims, or cannot be read."""
        return self._known is None or all(
            _device(item) in self._listed for claim in claims for item in _gpu_results(claim)
        )

    def _allocated(self, facts: PodFacts, name: str) -> Object | None:
        """Return a claim; None if it cannot be read, or is not allocated to the pod."""
        try:
            versions = (self._version,) if self._version else _VERSIONS
            claim = self._read(f"namespaces/{facts.namespace}/resourceclaims/{name}", versions)
        except ClusterError:
            return None
        status = (claim or {}).get("status") or {}
        # A claim of this name may have been of an earlier pod.
        is_reserved = any(item.get("uid") == facts.uid for item in status.get("reservedFor") or [])
        return claim if is_reserved and status.get("allocation") else None

    def _read(self, path: str, versions: Iterable[str]) -> Object | None:
        """Return an object or list in the first version of the API that has it; None if it does not exist."""
        for version in versions:
            try:
                found: Object = self._session.request("GET", f"/apis/resource.k8s.io/{version}/{path}")
            except ApiError as error:
                if error.is_missing:
                    continue
                raise
            self._version = version
            return found
        return None


class Offer(NamedTuple):
    """A device: its node, and the resource that it counts as. ``on_demand``: a slice that the driver creates when it is
    allocated, and which is listed beside its card.
    """

    node: str
    resource: str
    on_demand: bool = False


def offered_gpus(slices: Iterable[Object]) -> dict[Device, Offer]:
    """Return the whole GPUs and MIG slices of the newest generation of each pool."""
    return {
        Device(*key): Offer(offer.node, offer.resource or DEVICES, offer.resource is not None and bool(offer.counters))
        for key, offer in gpu_offers(newest_specs(slices)).items()
        if _DRIVER.fullmatch(key[0])
    }


def _listed_devices(slices: Iterable[Object]) -> frozenset[Device]:
    """Return all devices of ResourceSlices, also those that are no GPUs or have an unknown size."""
    return frozenset(
        Device(*pool_of(spec), str(device.get("name")))
        for spec in (item.get("spec") or {} for item in slices)
        for device in spec.get("devices") or []
    )


def claimed_gpus(claim: Object, known: Mapping[Device, str] | None) -> list[str] | None:
    """Return the GPUs of a claim as resources; None if the size of one is unknown, or it is reserved for several pods.

    :param known: the devices that are GPUs or MIG slices, with the resources that they count as; None if unknown.
    """
    ours = _gpu_results(claim)
    found: list[str] = []
    for item in ours:
        device = _device(item)
        resource = known.get(device) if known is not None else None if "mig" in device.name else DEVICES
        if item.get("shareID") or resource is None:
            return None
        found.append(resource)
    return None if len((claim.get("status") or {}).get("reservedFor") or []) > 1 and ours else found


def _gpu_results(claim: Object) -> list[Object]:
    """Return the devices of GPU drivers that are allocated to a claim."""
    return [item for item in held_devices(claim) if _DRIVER.fullmatch(str(item.get("driver")))]


def _device(result: Object) -> Device:
    return Device(*(str(result.get(name)) for name in ("driver", "pool", "device")))
