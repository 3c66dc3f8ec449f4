"""The devices (DRA) that pods request: by resource claims, and by extended resources that a DeviceClass offers.

A request has a resource name. The scheduler model counts devices under it like any other resource of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gpuctl.capacity.scheduler.scheduler_model import Units, units
from gpuctl.capacity.snapshot.device_entries import resource_claim_template_entry
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.device_drivers import class_limit, described
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object

# k8s.io/api/resource/v1: prefix of a resource name that requests devices of a DeviceClass.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
MOST_DEVICES = 32
"""Maximum number of devices of a claim. Source: k8s.io/api/resource/v1, AllocationResultsMaxSize."""
_TITLE = "DeviceClass/"
_LISTS = {
    "deviceClasses": "DeviceClasses",
    "resourceSlices": "ResourceSlices",
    "deviceTaintRules": "DeviceTaintRules",
    "resourceClaims": "ResourceClaims",
    "resourceClaimTemplates": "ResourceClaimTemplates",
}
FREE_DEVICES = ("resourceSlices", "deviceTaintRules", "resourceClaims")
"""The lists from which free devices of a class are counted."""


class DeviceFilter(NamedTuple):
    """A DeviceClass with further selectors in CEL, and the tolerations (key, operator, value, effect) of taints."""

    device_class: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()

    def __str__(self) -> str:
        tolerated = [f"tolerates {toleration[0] or 'all taints'}" for toleration in self.tolerations]
        selectors = (described(selector, self.device_class) for selector in self.selectors)
        rest = [*selectors, *tolerated]
        return _TITLE + self.device_class + (f" ({' && '.join(rest)})" if rest else "")


class DeviceRequest(NamedTuple):
    """Devices of one node. ``options``: alternative filters in order of preference. ``all``: all devices of the node.

    ``resource`` is the extended resource if the devices are requested as one, otherwise "".
    """

    options: tuple[DeviceFilter, ...]
    resource: str = ""
    all: bool = False

    @property
    def name(self) -> str:
        """The resource name under which its devices are counted."""
        return self.resource or ("all " if self.all else "") + " or ".join(map(str, self.options))


class PodDevices(NamedTuple):
    """The devices that a pod requests, with their number, and why further ones are not known."""

    requests: tuple[tuple[DeviceRequest, int], ...] = ()
    unknown: tuple[str, ...] = ()


def charges_of_claims(spec: Object, namespace: str, snapshot: Snapshot) -> dict[str, int]:
    """Return what a pod's claims charge to quotas, by key. Of several alternatives the most of each class counts.

    Source: ``pkg/quota/v1/evaluator/core/resource_claims.go``, Usage, addExtendedResourceQuota.
    """
    result: dict[str, int] = {}
    for request, count in pod_devices(spec, namespace, snapshot).requests:
        if request.resource:
            continue
        for name in dict.fromkeys(option.device_class for option in request.options):
            for key in _keys_of_class(name, snapshot):
                result[key] = result.get(key, 0) + (MOST_DEVICES if request.all else count)
    return result


def _keys_of_class(device_class: str, snapshot: Snapshot) -> list[str]:
    offered = next(
        (item.get("extendedResource") for item in snapshot.device_classes if item["name"] == device_class), None
    )
    resources = [CLASS_PREFIX + device_class, *([offered] if offered else [])]
    return [class_limit(device_class), *(f"requests.{resource}" for resource in resources)]


def charges_of_devices(amounts: Mapping[str, Any], snapshot: Snapshot) -> dict[str, int]:
    """Return what claims charge to quotas, from the devices that a pod holds, by resource name."""
    result: dict[str, int] = {}
    for name, amount in amounts.items():
        if is_device_class(name):
            for key in _keys_of_class(class_of(name), snapshot):
                result[key] = result.get(key, 0) + int(amount)
    return result


def is_device_class(resource: str) -> bool:
    """Return True for the resource name of a request for devices of a class, not of an extended resource."""
    return resource.removeprefix("all ").startswith(_TITLE)


def class_of(resource: str) -> str:
    """Return the DeviceClass in the resource name of a request for devices; of several alternatives the first."""
    return resource.removeprefix("all ").removeprefix(_TITLE).partition(" ")[0]


def lacking_lists(snapshot: Snapshot, *names: str) -> str:
    """Return why some of these lists are unknown, or ""."""
    unreadable = [_LISTS[name] for name in names if name in snapshot.unreadable]
    return say("{objects:few} could not be read", objects=unreadable) if unreadable else ""


def offering_classes(resource: str, snapshot: Snapshot) -> list[str]:
    """Return the DeviceClasses that offer an extended resource. Of several, the scheduler uses the newest."""
    return [
        item["name"]
        for item in snapshot.device_classes
        if item.get("extendedResource") == resource or resource == CLASS_PREFIX + item["name"]
    ]


def with_planned_templates(snapshot: Snapshot, objects: Iterable[Object]) -> Snapshot:
    """Return the snapshot with the ResourceClaimTemplates among ``objects``, which replace those of the cluster."""
    planned = [resource_claim_template_entry(obj) for obj in objects if obj["kind"] == "ResourceClaimTemplate"]
    if not planned:
        return snapshot
    names = {(item["namespace"], item["name"]) for item in planned}
    kept = [item for item in snapshot.resource_claim_templates if (item["namespace"], item["name"]) not in names]
    return replace(snapshot, resource_claim_templates=[*kept, *planned])


def pod_devices(spec: Object, namespace: str, snapshot: Snapshot) -> PodDevices:
    """Return the devices that a pod requests, from its spec."""
    if not (snapshot.device_classes or spec.get("resourceClaims")):
        return PodDevices()
    found: list[tuple[DeviceRequest, int]] = []
    for resource, amount in units(pod_requests(spec)).items():
        names = offering_classes(resource, snapshot)
        if len(names) == 1:
            found.append((DeviceRequest((DeviceFilter(names[0]),), resource), amount))
    unknown: dict[str, None] = {}
    for claim in spec.get("resourceClaims") or []:
        requests, why = _of_claim(claim, namespace, snapshot)
        found += requests
        unknown.update(dict.fromkeys(why))
    if sum(amount for request, amount in found if not request.all) > MOST_DEVICES and not unknown:
        unknown[say("its pods request more than {most} devices", most=MOST_DEVICES)] = None
    return PodDevices(tuple(found), tuple(unknown))


def _of_claim(claim: Object, namespace: str, snapshot: Snapshot) -> tuple[list[tuple[DeviceRequest, int]], list[str]]:
    """Return the requests of a claim that a pod names, and why others are not known."""
    template = claim.get("resourceClaimTemplateName")
    name = template or claim.get("resourceClaimName") or ""
    kind, items = (
        ("ResourceClaimTemplate", snapshot.resource_claim_templates)
        if template
        else ("ResourceClaim", snapshot.resource_claims)
    )
    title = say("the {kind} {name}", kind=kind, name=name)
    lists = ("deviceClasses", *FREE_DEVICES, *(["resourceClaimTemplates"] if template else []))
    lacking = lacking_lists(snapshot, *lists)
    if lacking:
        return [], [say("its pods claim devices (resourceClaims): {reason}", reason=lacking)]
    spec = next((item for item in items if (item["namespace"], item["name"]) == (namespace, name)), None)
    if spec is None:
        return [], [say("{name} of its pods was not found in {namespace}", name=title, namespace=namespace)]
    if not template:
        return [], [say("its pods share the devices of {name}", name=title)]
    if spec.get("uncounted"):
        return [], [
            say("{name} requests devices in a way that is not counted: {what}", name=title, what=spec["uncounted"])
        ]
    found, known = [], {item["name"] for item in snapshot.device_classes}
    for options in spec["requests"]:
        absent = [item["class"] for item in options if item["class"] not in known]
        if absent:
            return [], [say("DeviceClass {class_name} of {name} was not found", class_name=absent[0], name=title)]
        amounts = {(item["count"], item.get("all", False)) for item in options}
        if len(amounts) != 1:
            return [], [say("the alternatives of {name} request different numbers of devices", name=title)]
        ((count, every),) = amounts
        found.append((DeviceRequest(tuple(_filter(item) for item in options), all=every), count))
    return found, []


def _filter(option: Object) -> DeviceFilter:
    tolerations = (
        (item.get("key", ""), item.get("operator", "Equal"), item.get("value", ""), item.get("effect", ""))
        for item in option.get("tolerations") or ()
    )
    return DeviceFilter(option["class"], tuple(option.get("selectors") or ()), tuple(tolerations))


def doubtful_resources(spec: Object, snapshot: Snapshot) -> Iterator[str]:
    """Yield why nodes may have more of a requested extended resource than they report, if devices are not known."""
    for resource in units(pod_requests(spec)):
        if "/" not in resource:
            continue
        lacking = lacking_lists(snapshot, "deviceClasses")
        if lacking:
            yield say(
                "it is unknown whether nodes have more {resource} than they report: {reason}",
                resource=resource,
                reason=lacking,
            )
            continue
        names = offering_classes(resource, snapshot)
        lacking = lacking_lists(snapshot, *FREE_DEVICES)
        if names and (lacking or len(names) > 1):
            why = lacking or say("the scheduler uses one of them")
            classes = (
                say("the DeviceClass {name} offers", name=names[0])
                if len(names) == 1
                else say("{names:few} offer", names=names)
            )
            yield say(
                "nodes may have more {resource} than they report: {classes} it from ResourceSlices, and {reason}",
                resource=resource,
                classes=classes,
                reason=why,
            )


def amounts_by_name(found: PodDevices, sizes: Mapping[DeviceRequest, int]) -> Units:
    """Return the devices of claims by resource name; extended resources are among a pod's requests already.

    :param sizes: the number of devices of requests for all devices of a node.
    """
    result: Units = {}
    for request, count in found.requests:
        if not request.resource:
            result[request.name] = result.get(request.name, 0) + sizes.get(request, count)
    return result
