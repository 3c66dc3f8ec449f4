"""GPUs that drivers offer as devices (DRA): those in ResourceSlices, and those allocated to ResourceClaims."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from gpuctl.capacity.devices.device_requests import CLASS_PREFIX
from gpuctl.capacity.devices.shared_counters import CounterSet, DeviceKey, SharedCounters
from gpuctl.capacity.snapshot.device_entries import counters_of_sets, held_devices
from gpuctl.capacity.snapshot.pod_requests import Amounts, pod_requests
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.dynamic_resources import serves_dra
from gpuctl.kube.scope import Scope
from gpuctl.language.device_drivers import WHOLE_CARDS
from gpuctl.language.mig_profiles import is_profile, profile_of, resource_of
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import DEVICE_KINDS, RESOURCES, Object, annotations_of
from gpuctl.objects.pod_specs import containers_of
from gpuctl.objects.quantities import sum_by_key

_DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([\w.-]+)[\"']")
# GPU drivers, for clusters in which no DeviceClass names the extended resource.
_DRIVERS = {"gpu.nvidia.com": "nvidia.com/gpu", "gpu.amd.com": "amd.com/gpu", "gpu.intel.com": "gpu.intel.com/i915"}
# k8s.io/api/resource/v1: annotation of claims that the scheduler creates for pods that request an extended resource.
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True)
class Devices:
    """GPUs offered as devices.

    :param offered: node -> amounts that drivers offer.
    :param by_pod: uid of a pod -> amounts that its claims hold.
    :param for_requests: as ``by_pod``, for claims that the scheduler created for extended resources; empty for a pod
        with a share of a device that is counted for another one.
    :param is_known: False if the devices may not be read.
    :param free_slices: node -> MIG profile -> slices that the driver can still create there, if it creates none of
        another profile.
    """

    offered: Mapping[str, Amounts] = field(default_factory=dict)
    by_pod: Mapping[str, Amounts] = field(default_factory=dict)
    for_requests: Mapping[str, Amounts] = field(default_factory=dict)
    is_known: bool = True
    free_slices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of_pod(self, pod: Object, resources: Container[str]) -> Amounts:
        """Return what a pod's claims hold in addition to the GPUs that it requests as an extended resource. Negative
        for a request that was met by a part of a card, or by one that is counted for another pod.

        :param resources: the extended resources that are GPUs.
        """
        uid = str(pod["metadata"].get("uid") or "")
        if uid not in self.for_requests:
            return self.by_pod.get(uid, {})
        requests = pod_requests(pod["spec"]).items()
        asked = {name: -amount for name, amount in requests if name in resources}
        found = sum_by_key((self.by_pod.get(uid, {}), self.for_requests[uid], asked))
        return {name: amount for name, amount in found.items() if amount}

    def gpus_of(self, pods: Iterable[Object], resources: Container[str]) -> dict[str, int]:
        """Return uid of a pod -> number of GPUs by :meth:`of_pod`, for pods with any. What was requested is shown also
        of pods with a part of it.
        """
        held = ((str(pod["metadata"].get("uid") or ""), self.of_pod(pod, resources)) for pod in pods)
        return {uid: number for uid, amounts in held if (number := int(sum(amounts.values()))) > 0}


NO_DEVICES = Devices()


def read_devices(scope: Scope, resources: Iterable[str]) -> Devices:
    """Read the devices that are GPUs. Add a note if they may not be read.

    :param resources: the extended resources that are GPUs.
    """
    lists = []
    for kind in DEVICE_KINDS:
        try:
            lists.append(scope.session.list_objects(RESOURCES[kind])[0])
        except ApiError as error:
            if error.is_missing or (error.lacks_permission and not serves_dra(scope.session)):
                return NO_DEVICES
            if not error.lacks_permission:
                raise
            scope.note(say("{error}: GPUs that drivers offer as devices (DRA) are not counted", error=error.message))
            return Devices(is_known=False)
        if kind == "DeviceClass" and not lists[0]:
            return NO_DEVICES
    classes, slices, claims = lists
    return count_gpu_devices(classes, slices, claims, frozenset(resources))


def read_claimed_devices(scope: Scope, resources: Iterable[str], pods: Iterable[Object]) -> Devices:
    """Read the devices that are GPUs, as :func:`read_devices`. Nothing is read if no pod has a claim."""
    has_claims = any(
        pod["spec"].get("resourceClaims") or any(name.startswith(CLASS_PREFIX) for name in _requested(pod))
        for pod in pods
    )
    return read_devices(scope, resources) if has_claims else NO_DEVICES


def gpus_of_claims(scope: Scope, resources: Collection[str], pods: Collection[Object]) -> dict[str, int]:
    """Return uid of a pod -> GPUs that its resource claims hold. Nothing is read if no pod has a claim.

    GPUs that several pods share are counted for one of them.
    """
    return read_claimed_devices(scope, resources, pods).gpus_of(pods, resources)


def count_gpu_devices(
    classes: Iterable[Object], slices: Iterable[Object], claims: Iterable[Object], resources: frozenset[str]
) -> Devices:
    """Count the devices of known GPU drivers, and of drivers that a DeviceClass maps to a GPU resource.

    A MIG slice counts as one GPU of the resource of its profile.
    """
    drivers = {driver: resource for driver, resource in _DRIVERS.items() if resource in resources}
    for item in classes:
        resource = item["spec"].get("extendedResourceName")
        expressions = [
            (entry.get("cel") or {}).get("expression") or "" for entry in item["spec"].get("selectors") or []
        ]
        for match in filter(None, map(_DRIVER.search, expressions)):
            if resource in resources and profile_of(resource) is None:
                drivers[match[1]] = resource
    claims = list(claims)
    allocated = {_key_of(result) for claim in claims for result in held_devices(claim)}
    newest = newest_specs(slices)
    places = _places(newest, drivers, allocated, resources)
    offered, by_pod, for_requests = dict[str, Amounts](), dict[str, Amounts](), dict[str, Amounts]()
    counted: set[DeviceKey] = set()
    for node, resource in places.values():
        _add(offered, node, resource)
    for claim in claims:
        holders = for_requests if _EXTENDED in annotations_of(claim) else by_pod
        users = [item["uid"] for item in (claim.get("status") or {}).get("reservedFor") or [] if _is_pod(item)]
        for key in map(_key_of, held_devices(claim)):
            # Pods that share a claim, and claims that share a device (``shareID``): count it once.
            if users and key[0] in drivers and holders is for_requests:
                for_requests.setdefault(users[0], {})
            if users and key in places and key not in counted:
                counted.add(key)
                _add(holders, users[0], places[key][1])
    return Devices(offered, by_pod, for_requests, free_slices=_free_slices(newest, drivers, allocated))


def _places(
    specs: Iterable[Object], drivers: Mapping[str, str], allocated: Collection[DeviceKey], resources: Container[str]
) -> dict[DeviceKey, tuple[str, str]]:
    """Return device -> node and resource, for whole GPUs and MIG slices.

    A driver that creates slices on demand lists all possible slices of a card beside it (``consumesCounters``). Those
    that are allocated count, in place of their card.
    """
    found: dict[DeviceKey, tuple[str, str]] = {}
    cards: dict[DeviceKey, set[CounterSet]] = {}
    divided: set[CounterSet] = set()
    for key, offer in gpu_offers(specs).items():
        whole = drivers.get(key[0])
        if whole is None or not (offer.resource is None or offer.resource in resources):
            continue
        if offer.resource is None:
            cards[key] = offer.counters
        elif offer.counters and key in allocated:
            divided |= offer.counters
        elif offer.counters:
            continue
        found[key] = offer.node, offer.resource or whole
    return {key: place for key, place in found.items() if not cards.get(key, set()) & divided}


def _free_slices(
    specs: Iterable[Object], drivers: Container[str], allocated: Collection[DeviceKey]
) -> dict[str, dict[str, int]]:
    """Return the slices of :attr:`Devices.free_slices`, those of cards that no pod holds among them."""
    counters = SharedCounters(allocated)
    possible: dict[tuple[str, str], set[DeviceKey]] = {}
    for spec in specs:
        driver, pool = spec["driver"], spec["pool"]["name"]
        if driver not in drivers:
            continue
        counters.add_counters(driver, pool, counters_of_sets(spec.get("sharedCounters") or (), "name"))
        for device in spec.get("devices") or ():
            key, taken = (driver, pool, device["name"]), device.get("consumesCounters") or ()
            counters.add_device(key, counters_of_sets(taken, "counterSet"))
            node, resource = device.get("nodeName") or spec.get("nodeName"), slice_resource(device)
            if taken and node is not None and resource is not None:
                possible.setdefault((str(node), str(profile_of(resource))), set()).add(key)
    found: dict[str, dict[str, int]] = {}
    for (node, profile), keys in sorted(possible.items()):
        if free := len(counters.room(keys).devices.difference(allocated)):
            found.setdefault(node, {})[profile] = free
    return found


class GpuOffer(NamedTuple):
    """A whole card or a MIG slice in a ResourceSlice.

    :param resource: the extended resource of a MIG slice's profile; None for a whole card.
    :param counters: the counter sets that it takes a part of, for a slice that the driver creates when it is allocated,
        and for its card.
    """

    node: str
    resource: str | None
    counters: set[CounterSet]


def gpu_offers(specs: Iterable[Object]) -> dict[DeviceKey, GpuOffer]:
    """Return the whole cards and MIG slices in specs of ResourceSlices, of all drivers."""
    found: dict[DeviceKey, GpuOffer] = {}
    for spec in specs:
        pool = pool_of(spec)
        for item in spec.get("devices") or []:
            # Before v1beta2 the fields of a device are nested under ``basic``.
            device = {**item, **(item.get("basic") or {})}
            node, resource = device.get("nodeName") or spec.get("nodeName"), slice_resource(device)
            if node and (resource is not None or _is_whole(device)):
                taken = device.get("consumesCounters") or []
                counters = {(*pool, str(counter.get("counterSet"))) for counter in taken}
                key = (*pool, str(device.get("name")))
                found[key] = GpuOffer(str(node), resource, counters)
    return found


def newest_specs(slices: Iterable[Object]) -> list[Object]:
    """Return the specs of slices in the newest generation of their pool. Older slices are about to be deleted."""
    specs = [item.get("spec") or {} for item in slices]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        newest[pool_of(spec)] = max(newest.get(pool_of(spec), 0), _generation(spec))
    return [spec for spec in specs if _generation(spec) == newest[pool_of(spec)]]


def pool_of(spec: Object) -> tuple[str, str]:
    """Return driver and pool of a ResourceSlice."""
    return str(spec.get("driver")), str((spec.get("pool") or {}).get("name"))


def _generation(spec: Object) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _is_whole(device: Object) -> bool:
    """Return True for a whole GPU, False for a MIG partition, which drivers list beside it."""
    texts = device_texts(device)
    return str(texts["type"]).casefold() in WHOLE_CARDS if "type" in texts else not device.get("consumesCounters")


def slice_resource(device: Mapping[str, Any]) -> str | None:
    """Return the extended resource of a MIG slice's profile; None for another device."""
    named = device_texts(device)
    profile = str(named.get("profile"))
    return resource_of(profile) if named.get("type") == "mig" and is_profile(profile) else None


def device_texts(device: Mapping[str, Any]) -> dict[str, str | None]:
    """Return name without domain -> text of a device's attributes; None for an attribute that is not a text."""
    attributes = (device.get("attributes") or {}).items()
    return {name.rpartition("/")[2]: value.get("string") for name, value in attributes}


def _key_of(result: Object) -> DeviceKey:
    return str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def _is_pod(user: Object) -> bool:
    return bool(user.get("resource") == "pods")


def _requested(pod: Object) -> Iterator[str]:
    """Yield the names of the resources that the containers of a pod request."""
    for container in containers_of(pod["spec"]):
        yield from (container.get("resources") or {}).get("requests") or ()


def _add(amounts: dict[str, Amounts], key: str, resource: str) -> None:
    own = amounts.setdefault(key, {})
    own[resource] = own.get(resource, Fraction(0)) + 1
