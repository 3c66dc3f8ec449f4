"""The entries of a snapshot for devices of dynamic resource allocation (DRA)."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.capacity.snapshot.snapshot_entries import pick, without_empty
from gpuctl.objects.api_resources import Object

_UNCOUNTED = {
    "allowMultipleAllocations": "devices that several claims share",
    "bindingConditions": "devices with binding conditions",
    "nodeAllocatableResourceMappings": "devices that take node resources",
}
"""Field of a device -> why devices with it are not counted."""
ADMIN_ACCESS = "admin access"
"""Why the devices of a request are not counted: it monitors devices that others hold."""
_SELECTED_TAINTS = "devices that a DeviceTaintRule may select by their attributes"
_DEVICE = ("driver", "pool", "device")
_TAINT = ("key", "value", "effect")
_TOLERATION = ("key", "operator", "value", "effect")


def device_class_entry(obj: Object) -> Object:
    """Return the selectors of a DeviceClass, and the extended resource that it offers (KEP-5004)."""
    spec = obj["spec"]
    rest = {"extendedResource": spec.get("extendedResourceName"), "selectors": _expressions(spec)}
    return {"name": obj["metadata"]["name"], **without_empty(rest)}


def resource_slice_entry(obj: Object) -> Object:
    """Return a ResourceSlice with its devices. ``node`` is missing if its devices are on several nodes."""
    spec = obj["spec"]
    pool = {
        "name": spec["pool"]["name"],
        "generation": spec["pool"].get("generation") or 0,
        "slices": spec["pool"].get("resourceSliceCount") or 0,
    }
    devices = [_device(item, spec) for item in spec.get("devices") or []]
    rest = {"node": spec.get("nodeName"), "counters": counters_of_sets(spec.get("sharedCounters") or [], "name")}
    return {"driver": spec["driver"], "pool": pool, **without_empty(rest), "devices": devices}


def with_taint_rules(slices: Iterable[Object], rules: Iterable[Object]) -> list[Object]:
    """Return slices whose devices also have the taints of DeviceTaintRules.

    Source: ``k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go``, applyPatches.

    :param rules: the specs of the rules.
    """
    selected = [(rule.get("deviceSelector") or {}, pick(rule.get("taint"), *_TAINT)) for rule in rules]
    result = []
    for item in slices:
        where = {"driver": item["driver"], "pool": item["pool"]["name"]}
        devices = []
        for device in item["devices"]:
            own = {**where, "device": device["name"]}
            here = [part for part in selected if all(part[0].get(key) in (None, own[key]) for key in own)]
            # Kubernetes 1.34 and older select by DeviceClass and CEL, too.
            certain = [taint for selector, taint in here if selector.keys() <= own.keys()]
            more = {
                "taints": [*device.get("taints", ()), *certain],
                "uncounted": device.get("uncounted") or (_SELECTED_TAINTS if len(certain) < len(here) else None),
            }
            devices.append({**device, **without_empty(more)})
        result.append({**item, "devices": devices})
    return result


def _device(device: Object, spec: Object) -> Object:
    kinds = [text for field, text in _UNCOUNTED.items() if device.get(field)]
    attributes = {name: _attribute(value) for name, value in (device.get("attributes") or {}).items()}
    rest = {
        "attributes": attributes,
        "capacity": {name: value["value"] for name, value in (device.get("capacity") or {}).items()},
        "taints": [pick(taint, *_TAINT) for taint in device.get("taints") or []],
        "consumes": counters_of_sets(device.get("consumesCounters") or [], "counterSet"),
        "node": device.get("nodeName") if spec.get("perDeviceNodeSelection") else None,
        "uncounted": kinds[0] if kinds else None,
    }
    return {"name": device["name"], **without_empty(rest)}


def counters_of_sets(sets: Iterable[Object], name: str) -> dict[str, dict[str, str]]:
    """Return set -> counter -> amount, from the sets of a slice (``name``) or of a device (``counterSet``)."""
    return {
        str(item[name]): {counter: str(value["value"]) for counter, value in (item.get("counters") or {}).items()}
        for item in sets
    }


def _attribute(value: Object) -> Object:
    return {kind: value[kind] for kind in ("string", "int", "bool", "version") if kind in value}


def resource_claim_entry(obj: Object) -> Object:
    """Return the devices of a ResourceClaim, and the pods that use them.

    ``devices``: those that no other claim can get; ``shared``: those of which it has a share. Devices of admin access
    are in use by others.
    """
    metadata, status, held = obj["metadata"], obj.get("status") or {}, held_devices(obj)
    rest = {
        "devices": [pick(item, *_DEVICE) for item in held if not item.get("shareID")],
        "shared": [pick(item, *_DEVICE) for item in held if item.get("shareID")],
        "pods": [item["name"] for item in status.get("reservedFor") or [] if item.get("resource") == "pods"],
    }
    return {"namespace": metadata["namespace"], "name": metadata["name"], **without_empty(rest)}


def held_devices(claim: Object) -> list[Object]:
    """Return the devices that are allocated to a ResourceClaim, without those of admin access."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return [item for item in results if not item.get("adminAccess")]


def resource_claim_template_entry(obj: Object) -> Object:
    """Return the requests of a template's claims. ``uncounted``: why the devices that satisfy them are not known."""
    metadata, devices = obj["metadata"], obj["spec"]["spec"].get("devices") or {}
    requests = [_request(item) for item in devices.get("requests") or []]
    uncounted = {item["uncounted"]: None for options in requests for item in options if "uncounted" in item}
    if devices.get("constraints"):
        uncounted["constraints between devices"] = None
    rest = without_empty({"uncounted": ", ".join(uncounted)})
    return {"namespace": metadata["namespace"], "name": metadata["name"], "requests": requests, **rest}


def _request(request: Object) -> list[Object]:
    """Return the alternatives of a request, in order of preference."""
    if request.get("firstAvailable"):
        return [{**_option(item), "alternative": True} for item in request["firstAvailable"]]
    return [_option(request["exactly"])] if request.get("exactly") else []


def _option(item: Object) -> Object:
    rest = {
        "selectors": _expressions(item),
        "tolerations": [pick(toleration, *_TOLERATION) for toleration in item.get("tolerations") or []],
        "all": item.get("allocationMode") == "All",
        "uncounted": ADMIN_ACCESS if item.get("adminAccess") else "capacity" if item.get("capacity") else None,
    }
    return {"class": item["deviceClassName"], "count": item.get("count") or 1, **without_empty(rest)}


def _expressions(spec: Object) -> list[str]:
    return [(item.get("cel") or {}).get("expression") or "" for item in spec.get("selectors") or []]
