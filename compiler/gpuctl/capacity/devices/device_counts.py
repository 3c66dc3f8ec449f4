"""The devices (DRA) of nodes, counted as resources: offered by drivers, and held by pods.

Source: ``k8s.io/dynamic-resource-allocation/structured/internal/incubating`` (pools, taints, selectors). A request that
matches a part of the devices of another one on some node depends on the scheduler's choice of devices: its devices on
that node are not counted, and the shortage is unknown. So does a request for devices of the same divided cards, unless
only pods on nodes make it: their devices are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gpuctl.capacity.devices.device_requests import (
    FREE_DEVICES,
    MOST_DEVICES,
    DeviceFilter,
    DeviceRequest,
    PodDevices,
    amounts_by_name,
    doubtful_resources,
    lacking_lists,
    pod_devices,
)
from gpuctl.capacity.devices.device_selectors import UnknownMatch, selector_of_device
from gpuctl.capacity.devices.shared_counters import DeviceKey, SharedCounters
from gpuctl.capacity.scheduler.scheduler_model import Units
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import quantity
from gpuctl.objects.selectors import blocking_taint

PodName = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass(frozen=True)
class DeviceCounts:
    """The devices of a cluster by resource name.

    - ``names``: the resource names of all requests for devices.
    - ``offered``: node -> number of devices by name.
    - ``shared``: node -> names that count the same devices there.
    - ``held``: pod -> devices that its claims hold, each counted under one of its names.
    - ``doubts``: name -> why nodes may have more of it than is counted.
    - ``unmatched``: name -> node -> why the choice of devices there may fail; "" for devices of several nodes. If it
      fails on one node, the scheduler gives up on the pod, whatever other nodes have (dynamicresources.go, Filter).
    - ``sizes``: requests for all devices of a node -> the number of devices on each node that has any.
    """

    snapshot: Snapshot
    names: frozenset[str] = frozenset()
    offered: Mapping[str, Units] = field(default_factory=dict)
    shared: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    held: Mapping[PodName, Units] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    unmatched: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sizes: Mapping[DeviceRequest, int] = field(default_factory=dict)

    def requests_of(self, spec: Object, namespace: str) -> Units:
        """Return the devices that a pod's claims request, by resource name."""
        return amounts_by_name(pod_devices(spec, namespace, self.snapshot), self.sizes)

    def unknown_reasons(self, spec: Object, namespace: str) -> list[str]:
        """Return why the devices that a pod requests are unknown."""
        found = pod_devices(spec, namespace, self.snapshot)
        uneven = [request for request, _ in found.requests if request.all and request not in self.sizes]
        return [
            *found.unknown,
            *(say("nodes have different numbers of devices for {resource}", resource=item.name) for item in uneven),
        ]

    def uncounted(self, spec: Object, namespace: str) -> list[str]:
        """Return why nodes may have more devices for a pod than are counted."""
        found = pod_devices(spec, namespace, self.snapshot)
        counted = (self.doubts.get(request.name) for request, _ in found.requests)
        return [*doubtful_resources(spec, self.snapshot), *filter(None, counted)]

    def unmatched_on(self, spec: Object, namespace: str) -> dict[str, str]:
        """Return the nodes where a pod may not be scheduled because the choice of devices fails, with the reason."""
        found = pod_devices(spec, namespace, self.snapshot)
        return self._unbound_on(spec, found) | {
            node: why for request, _ in found.requests for node, why in self.unmatched.get(request.name, {}).items()
        }

    def _unbound_on(self, spec: Object, found: PodDevices) -> dict[str, str]:
        """Return the nodes to which the scheduler of Kubernetes 1.36 cannot bind a pod with claims of its own: the
        node's device plugins offer all extended resources that the pod requests of DeviceClasses, so that the claim
        for them is empty.

        Source: ``extendeddynamicresources.go``, filterExtendedResources, patchPodExtendedResourceClaimStatus.
        """
        resources = [request.resource for request, _ in found.requests if request.resource]
        if not (resources and spec.get("resourceClaims")):
            return {}
        nodes = frozenset.intersection(*(_plugin_nodes(name, self.snapshot) for name in resources))
        why = say(
            "the scheduler may fail to bind pods that claim devices and request {resource} from a device plugin",
            resource=resources[0],
        )
        return dict.fromkeys(nodes, why)

    def on_node(self, requests: Units, pod: PodName, node: str) -> Units:
        """Return the requests of a pod on a node: for names that drivers offer there, the devices that it holds."""
        here = self.offered.get(node, {})
        kept = {name: amount for name, amount in requests.items() if name not in here} if here else requests
        held = self.held.get(pod)
        return {**kept, **held} if held else kept


def offered_by_drivers(snapshot: Snapshot, resources: Iterable[str]) -> Mapping[str, Units]:
    """Return node -> devices that drivers offer as some extended resources."""
    specs = ({"containers": [{"resources": {"requests": {resource: 1}}}]} for resource in resources)
    return count_devices(snapshot, [(spec, "") for spec in specs]).offered


@dataclass(frozen=True)
class _Device:
    """A device of a complete pool. ``node`` is "" for a device of several nodes."""

    key: DeviceKey
    node: str
    value: Object


def count_devices(
    snapshot: Snapshot, pods: Iterable[tuple[Object, str]], placed: Iterable[tuple[Object, str]] = ()
) -> DeviceCounts:
    """Count the devices of a cluster.

    :param pods: specs and namespaces of the pods without a node that request devices, or may do so.
    :param placed: those of pods on nodes.
    """
    if lacking_lists(snapshot, "deviceClasses", *FREE_DEVICES) or not snapshot.device_classes:
        return DeviceCounts(snapshot)
    coming, there = (
        {
            request.name: request
            for spec, namespace in part
            for request, _ in pod_devices(spec, namespace, snapshot).requests
        }
        for part in (pods, placed)
    )
    requests = there | coming
    return _Count(snapshot, requests, frozenset(coming)).result() if requests else DeviceCounts(snapshot)


class _Count:
    def __init__(self, snapshot: Snapshot, requests: Mapping[str, DeviceRequest], coming: frozenset[str]) -> None:
        self._snapshot = snapshot
        self._requests = requests
        self._coming = coming
        # The first share of a device takes its counters, the others none.
        in_use = (
            item for claim in snapshot.resource_claims for key in ("devices", "shared") for item in claim.get(key, ())
        )
        self._counters = SharedCounters(frozenset((item["driver"], item["pool"], item["device"]) for item in in_use))
        self._classes = {item["name"]: tuple(item.get("selectors") or ()) for item in snapshot.device_classes}
        self._doubts: dict[str, str] = {}
        self._unmatched: dict[str, dict[str, str]] = {}
        self._damaged: dict[str, str] = {}
        self._matches: dict[str, dict[str, set[DeviceKey]]] = {}
        self._sizes: dict[DeviceRequest, int] = {}

    def result(self) -> DeviceCounts:
        devices = self._devices()
        for name, request in self._requests.items():
            found = self._matching(request, devices)
            # On a node with devices of the extended resource's plugin the scheduler does not use drivers.
            plugins = _plugin_nodes(request.resource, self._snapshot)
            self._matches[name] = {node: keys for node, keys in found.items() if node not in plugins}
        shared = self._shared()
        self._divide()
        held = self._held(shared)
        offered: dict[str, Units] = {}
        for name, found in self._matches.items():
            if self._requests[name].all:
                self._measure(self._requests[name], found)
            for node, keys in found.items():
                offered.setdefault(node, {})[name] = len(keys)
        names = frozenset(self._requests)
        return DeviceCounts(self._snapshot, names, offered, shared, held, self._doubts, self._unmatched, self._sizes)

    def _devices(self) -> list[_Device]:
        """Return the devices of the newest generation of complete pools. Source: GatherPools."""
        pools: dict[tuple[str, str], list[Object]] = {}
        for item in self._snapshot.resource_slices:
            pools.setdefault((item["driver"], item["pool"]["name"]), []).append(item)
        result = []
        for (driver, pool), slices in pools.items():
            newest = max(item["pool"]["generation"] for item in slices)
            slices = [item for item in slices if item["pool"]["generation"] == newest]
            for item in slices:
                self._counters.add_counters(driver, pool, item.get("counters") or {})
                for device in item["devices"]:
                    if device.get("consumes"):
                        self._counters.add_device((driver, pool, device["name"]), device["consumes"])
            found = [
                _Device((driver, pool, device["name"]), device.get("node") or item.get("node") or "", device)
                for item in slices
                for device in item["devices"]
            ]
            if len(slices) != slices[0]["pool"]["slices"] or len({device.key for device in found}) < len(found):
                why = say(
                    "the pool {pool} of the driver {driver} is incomplete or invalid now", pool=pool, driver=driver
                )
                self._damaged.update((item.get("node") or "", why) for item in slices)
                found = [_Device(device.key, "", {**device.value, "uncounted": why}) for device in found]
            result += found
        return result

    def _matching(self, request: DeviceRequest, devices: Sequence[_Device]) -> dict[str, set[DeviceKey]]:
        """Return node -> devices that satisfy a request. Devices that may do so become doubts."""
        result: dict[str, set[DeviceKey]] = {}
        chosen: dict[str, set[DeviceFilter]] = {}
        for device in devices:
            for option in request.options:
                try:
                    if not self._is_selected(option, device):
                        continue
                except UnknownMatch as error:
                    why = say("a selector of {object} has no known result: {error}", object=option, error=error)
                    self._doubt(request, why)
                    self._unmatched.setdefault(request.name, {}).setdefault(device.node, why)
                    continue
                if _is_tainted(option, device):
                    if request.all:
                        self._doubt(
                            request, say("{device} on {node} has a taint", device=device.key[2], node=device.node)
                        )
                    continue
                special = device.value.get("uncounted") or ("" if device.node else say("devices of several nodes"))
                if special:
                    self._doubt(request, say("gpuctl does not count {what}", what=special))
                    continue
                result.setdefault(device.node, set()).add(device.key)
                chosen.setdefault(device.node, set()).add(option)
        for node, options in chosen.items():
            if len(options) > 1:
                self._doubt(request, say("{node} has devices of several alternatives", node=node))
                del result[node]
        if request.all:
            # Source: validateDeviceRequest, Allocate.
            large = {
                node: say(
                    "{node} has more matching devices than a claim may have ({most})", node=node, most=MOST_DEVICES
                )
                for node, keys in result.items()
                if len(keys) > MOST_DEVICES
            }
            self._unmatched.setdefault(request.name, {}).update(self._damaged | large)
        return result

    def _is_selected(self, option: DeviceFilter, device: _Device) -> bool:
        selectors = (*self._classes.get(option.device_class, ()), *option.selectors)
        if option.device_class not in self._classes:
            return False
        return all(selector_of_device(selector, device.key[0], device.value) for selector in selectors)

    def _doubt(self, request: DeviceRequest, why: str) -> None:
        self._doubts.setdefault(
            request.name,
            say("nodes may have more {resource} than are counted: {reason}", resource=request.name, reason=why),
        )

    def _shared(self) -> dict[str, tuple[frozenset[str], ...]]:
        """Return node -> names with the same devices. Names with a part of the same devices are no longer counted."""
        by_node: dict[str, list[str]] = {}
        for name, found in self._matches.items():
            for node in found:
                by_node.setdefault(node, []).append(name)
        result = {}
        for node, names in by_node.items():
            sets = {name: self._matches[name][node] for name in names}
            mixed: dict[str, str] = {}
            for pair in combinations(names, 2):
                why = self._conflict(pair, sets)
                mixed.update(dict.fromkeys(pair, why) if why else {})
            for name, why in mixed.items():
                self._doubt(self._requests[name], say("{reason} of {node}", reason=why, node=node))
                del self._matches[name][node]
            alike: dict[frozenset[DeviceKey], list[str]] = {}
            for name in names:
                if name not in mixed:
                    alike.setdefault(frozenset(sets[name]), []).append(name)
            groups = tuple(frozenset(group) for group in alike.values() if len(group) > 1)
            if groups:
                result[node] = groups
        return result

    def _conflict(self, pair: tuple[str, str], sets: Mapping[str, set[DeviceKey]]) -> str:
        """Return why the devices of one request depend on those that the scheduler chooses for the other, or ""."""
        one, other = (sets[name] for name in pair)
        if one == other:
            return ""
        if one & other:
            return say("some requests match only a part of the devices")
        # The devices of pods on nodes are known.
        divide = self._coming.issuperset(pair) and self._counters.cards_of(one) & self._counters.cards_of(other)
        return say("some requests divide the same cards") if divide else ""

    def _divide(self) -> None:
        """Keep, of devices that take parts of cards, those that can be in use together."""
        for name, found in self._matches.items():
            request = self._requests[name]
            for node, keys in list(found.items()):
                room = self._counters.room(keys)
                if request.all and len(room.devices) < len(keys):
                    self._doubt(request, say("{node} has devices that take parts of cards", node=node))
                    del found[node]
                    continue
                found[node] = set(room.devices)
                if room.doubt:
                    self._doubt(request, say("on {node}, {reason}", node=node, reason=room.doubt))

    def _measure(self, request: DeviceRequest, found: Mapping[str, set[DeviceKey]]) -> None:
        sizes = {len(keys) for keys in found.values()}
        if len(sizes) <= 1 and request.name not in self._doubts:
            self._sizes[request] = next(iter(sizes), 1)

    def _held(self, shared: Mapping[str, tuple[frozenset[str], ...]]) -> dict[PodName, Units]:
        """Return the devices of each pod. Devices of claims without a pod, or with several, become doubts."""
        places: dict[DeviceKey, list[str]] = {}
        for name, found in self._matches.items():
            for node, keys in found.items():
                if not any(name in group and min(group) != name for group in shared.get(node, ())):
                    for key in keys:
                        places.setdefault(key, []).append(name)
        there = {(item["namespace"], item["name"]) for item in self._snapshot.pods if "node" in item}
        result: dict[PodName, Counter[str]] = {}
        for claim in self._snapshot.resource_claims:
            pods = [(claim["namespace"], name) for name in claim.get("pods") or ()]
            held = [(item["driver"], item["pool"], item["device"]) for item in claim.get("devices") or ()]
            if len(pods) == 1 and pods[0] in there:
                names = (name for key in held for name in places.get(key, ()))
                result.setdefault(pods[0], Counter()).update(names)
                continue
            for key in held:
                self._block(key, claim)
        return {pod: dict(counts) for pod, counts in result.items()}

    def _block(self, key: DeviceKey, claim: Object) -> None:
        """Stop counting a device that a claim holds for no pod, or for several."""
        for name, found in self._matches.items():
            for keys in found.values():
                if key in keys:
                    keys.remove(key)
                    title = say("ResourceClaim {name} in {namespace}", name=claim["name"], namespace=claim["namespace"])
                    self._doubt(
                        self._requests[name], say("{claim} holds devices for no pod or for several", claim=title)
                    )


def _plugin_nodes(resource: str, snapshot: Snapshot) -> frozenset[str]:
    """Return the nodes whose device plugin offers an extended resource. Source: filterExtendedResources."""
    amounts = ((item["name"], item["allocatable"].get(resource)) for item in snapshot.nodes)
    return frozenset(node for node, amount in amounts if amount is not None and quantity(amount) > 0)


def _is_tainted(option: DeviceFilter, device: _Device) -> bool:
    """Return True if a taint of a device is not tolerated. Source: taintPreventsAllocation."""
    tolerations = [
        dict(zip(("key", "operator", "value", "effect"), toleration, strict=True)) for toleration in option.tolerations
    ]
    return blocking_taint(device.value.get("taints") or (), tolerations) is not None


NO_DEVICE_COUNTS = DeviceCounts(Snapshot("", [], []))
"""Counts of a cluster without drivers."""
