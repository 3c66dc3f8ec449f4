"""GPUs that are offered and claimed by dynamic resource allocation (DRA).

A driver's ResourceSlices list its devices; the status of a ResourceClaim lists the devices allocated to it. GPU drivers
are recognized by their name, such as ``gpu.nvidia.com``. Whole GPUs and MIG slices are counted; the size of another
partial GPU is unknown. A MIG slice is the extended resource of its profile, so that it has the size of a plugin's.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.device_drivers import WHOLE_CARDS
from gpuctl.objects.api_resources import Object
from gpuctl.reading.nodes.node_devices import device_texts, slice_resource
from gpuctl_usage.gathering.gpu_weights import DEVICES, UNSIZED_DEVICES, GpuRequests, GpuWeights
from gpuctl_usage.gathering.object_facts import PodFacts
from gpuctl_usage.ttl_cache import TtlCache

_DRIVER = re.compile(r"(?:.*[.-])?(?:gpu|npu|dcu|mlu|gcu|xpu)s?(?:[.-].*)?", re.ASCII)
_VERSIONS = ("v1", "v1beta2", "v1beta1")
_CLAIM_TTL = 60.0
"""Seconds for which a claim is cached."""
"""Value of a device's type attribute for a whole GPU; other values are, for example, MIG instances."""


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
        self._pods: dict[str, GpuRequests] = {}
        self._claims: TtlCache[str, Object | None] = TtlCache(_CLAIM_TTL)

    def offered(self) -> dict[str, float]:
        """Return the number of GPUs that drivers offer on each node. A MIG slice is a part of one.

        :raises ClusterError: the ResourceSlices cannot be read.
        """
        for version in filter(None, (self._version, *_VERSIONS)):
            try:
                found = self._session.request("GET", f"/apis/resource.k8s.io/{version}/resourceslices")
            except ApiError as error:
                if error.is_missing:
                    continue
                raise
            self._version = version
            devices = offered_gpus(found.get("items") or [])
            self._known = {device: offer.resource for device, offer in devices.items()}
            counts: dict[str, float] = defaultdict(float)
            for offer in devices.values():
                if not offer.on_demand:
                    counts[offer.node] += self._weights.held_gpus(((offer.resource, 1.0),), {}) or 0.0
            return dict(counts)
        return {}

    def with_devices(self, facts: PodFacts) -> PodFacts:
        """Return the pod with the GPUs of its claims added to its requests.

        They are constant for the lifetime of the pod: a claim is released only before its pod is deleted.
        """
        known = self._pods.get(facts.uid)
        if known is None:
            counts = [self._count(facts, name) for name in facts.claims]
            total = sum((Counter(found) for found in counts if found is not None), Counter[str]())
            known = ((UNSIZED_DEVICES, 1.0),) if None in counts else tuple((name, float(total[name])) for name in total)
            if known:
                self._pods[facts.uid] = known
        return facts._replace(gpu_requests=(*facts.gpu_requests, *known), by_claim=facts.by_claim or bool(known))

    def forget(self, facts: PodFacts) -> None:
        """Forget a deleted pod."""
        self._pods.pop(facts.uid, None)

    def _count(self, facts: PodFacts, name: str) -> list[str] | None:
        path = (
            f"/apis/resource.k8s.io/{self._version or _VERSIONS[0]}/namespaces/{facts.namespace}/resourceclaims/{name}"
        )
        try:
            claim = self._claims.get(path, partial(self._asked, path))
        except ClusterError:
            # Unknown whether the claim has GPUs; it is read again at the next change of the pod.
            return []
        return [] if claim is None else claimed_gpus(claim, self._known)

    def _asked(self, path: str) -> Object | None:
        try:
            found: Object = self._session.request("GET", path)
        except ApiError as error:
            if error.is_missing:
                return None
            raise
        # Raised so that the claim is not cached: it will soon be allocated.
        if not (found.get("status") or {}).get("allocation"):
            raise ClusterError("the claim is not allocated yet")
        return found


class Offer(NamedTuple):
    """A device: its node, and the resource that it counts as. ``on_demand``: a slice that the driver creates when it is
    allocated, and which is listed beside its card.
    """

    node: str
    resource: str
    on_demand: bool = False


def offered_gpus(slices: Iterable[Object]) -> dict[Device, Offer]:
    """Return the whole GPUs and MIG slices of the newest generation of each pool."""
    specs = [item.get("spec") or {} for item in slices]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        key, generation = _pool(spec)
        newest[key] = max(generation, newest.get(key, 0))
    return {
        Device(*key, str(device.get("name"))): Offer(node, resource, resource != DEVICES and _is_on_demand(device))
        for spec in specs
        for key, generation in [_pool(spec)]
        if generation == newest[key] and _DRIVER.fullmatch(key[0])
        for device, node in _devices(spec)
        for resource in [_resource(device)]
        if node and resource is not None
    }


def _pool(spec: Mapping[str, Any]) -> tuple[tuple[str, str], int]:
    pool = spec.get("pool") or {}
    return (str(spec.get("driver")), str(pool.get("name"))), int(pool.get("generation") or 0)


def _devices(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for device in spec.get("devices") or []:
        # Before v1beta2 the fields of a device are nested under ``basic``.
        own = {**device, **(device.get("basic") or {})}
        yield own, str(own.get("nodeName") or spec.get("nodeName") or "")


def _resource(device: Mapping[str, Any]) -> str | None:
    """Return the resource that a device counts as; None if its size is unknown."""
    texts = device_texts(device)
    if "type" not in texts:
        return None if _is_on_demand(device) else DEVICES
    return DEVICES if texts["type"] in WHOLE_CARDS else slice_resource(device)


def _is_on_demand(device: Mapping[str, Any]) -> bool:
    return bool(device.get("consumesCounters"))


def claimed_gpus(claim: Object, known: Mapping[Device, str] | None) -> list[str] | None:
    """Return the GPUs of a claim as resources; None if the size of one is unknown, or it is reserved for several pods.

    :param known: the devices that are GPUs or MIG slices, with the resources that they count as; None if unknown.
    """
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    ours = [item for item in results if _DRIVER.fullmatch(str(item.get("driver"))) and not item.get("adminAccess")]
    found: list[str] = []
    for item in ours:
        device = Device(*(str(item.get(name)) for name in ("driver", "pool", "device")))
        resource = known.get(device) if known is not None else None if "mig" in device.name else DEVICES
        if item.get("shareID") or resource is None:
            return None
        found.append(resource)
    return None if len(status.get("reservedFor") or []) > 1 and ours else found
