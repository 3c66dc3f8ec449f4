"""GPUs that are offered and claimed by dynamic resource allocation (DRA).

A driver's ResourceSlices list its devices; the status of a ResourceClaim lists the devices allocated to it. GPU drivers
are recognized by their name, such as ``gpu.nvidia.com``. Whole GPUs are counted; the size of a partial GPU is unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.device_drivers import WHOLE_CARDS
from gpuctl.objects.api_resources import Object
from gpuctl_usage.gathering.gpu_weights import DEVICES, UNSIZED_DEVICES, GpuRequests
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

    def __init__(self, session: Session) -> None:
        self._session = session
        self._version = ""
        self._whole: frozenset[Device] | None = None
        self._pods: dict[str, GpuRequests] = {}
        self._claims: TtlCache[str, Object | None] = TtlCache(_CLAIM_TTL)

    def offered(self) -> dict[str, float]:
        """Return the number of whole GPUs that drivers offer on each node.

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
            nodes = whole_gpus(found.get("items") or [])
            self._whole = frozenset(nodes)
            counts: dict[str, float] = defaultdict(float)
            for node in nodes.values():
                counts[node] += 1
            return dict(counts)
        return {}

    def with_devices(self, facts: PodFacts) -> PodFacts:
        """Return the pod with the GPUs of its claims added to its requests.

        They are constant for the lifetime of the pod: a claim is released only before its pod is deleted.
        """
        known = self._pods.get(facts.uid)
        if known is None:
            counts = [self._count(facts, name) for name in facts.claims]
            total = sum(filter(None, counts))
            known = ((UNSIZED_DEVICES, 1.0),) if None in counts else ((DEVICES, total),) if total else ()
            if known:
                self._pods[facts.uid] = known
        return facts._replace(gpu_requests=(*facts.gpu_requests, *known), by_claim=facts.by_claim or bool(known))

    def forget(self, facts: PodFacts) -> None:
        """Forget a deleted pod."""
        self._pods.pop(facts.uid, None)

    def _count(self, facts: PodFacts, name: str) -> float | None:
        path = (
            f"/apis/resource.k8s.io/{self._version or _VERSIONS[0]}/namespaces/{facts.namespace}/resourceclaims/{name}"
        )
        try:
            claim = self._claims.get(path, partial(self._asked, path))
        except ClusterError:
            # Unknown whether the claim has GPUs; it is read again at the next change of the pod.
            return 0.0
        return 0.0 if claim is None else claimed_gpus(claim, self._whole)

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


def whole_gpus(slices: Iterable[Object]) -> dict[Device, str]:
    """Return the whole GPUs of the newest generation of each pool, with their nodes."""
    specs = [item.get("spec") or {} for item in slices]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        key, generation = _pool(spec)
        newest[key] = max(generation, newest.get(key, 0))
    return {
        Device(*key, str(device.get("name"))): node
        for spec in specs
        for key, generation in [_pool(spec)]
        if generation == newest[key] and _DRIVER.fullmatch(key[0])
        for device, node in _devices(spec)
        if node and _is_whole(device)
    }


def _pool(spec: Mapping[str, Any]) -> tuple[tuple[str, str], int]:
    pool = spec.get("pool") or {}
    return (str(spec.get("driver")), str(pool.get("name"))), int(pool.get("generation") or 0)


def _devices(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for device in spec.get("devices") or []:
        # Before v1beta2 the fields of a device are nested under ``basic``.
        own = {**device, **(device.get("basic") or {})}
        yield own, str(own.get("nodeName") or spec.get("nodeName") or "")


def _is_whole(device: Mapping[str, Any]) -> bool:
    attributes = device.get("attributes") or {}
    said = next((value.get("string") for name, value in attributes.items() if name.rpartition("/")[2] == "type"), None)
    return said in WHOLE_CARDS if said is not None else not device.get("consumesCounters")


def claimed_gpus(claim: Object, whole: frozenset[Device] | None) -> float | None:
    """Return the number of GPUs of a claim; None if it has a partial GPU or is reserved for several pods.

    :param whole: the devices that are whole GPUs; None if unknown.
    """
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    ours = [item for item in results if _DRIVER.fullmatch(str(item.get("driver"))) and not item.get("adminAccess")]
    for item in ours:
        device = Device(*(str(item.get(name)) for name in ("driver", "pool", "device")))
        if item.get("shareID") or (device not in whole if whole is not None else "mig" in device.name):
            return None
    return None if ours and len(status.get("reservedFor") or []) > 1 else float(len(ours))
