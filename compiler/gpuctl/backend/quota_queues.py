"""Lowers ``kind: quota`` to Kueue's queues: a ClusterQueue and the LocalQueue ``default`` for each namespace.

Kueue puts every job of a namespace that names no queue into the LocalQueue ``default``, so documents of jobs need no
change. A ResourceQuota of requests beside it would reject the pods of admitted jobs that borrow, and count pods that
wait with a scheduling gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import metadata, placement_annotation
from gpuctl.backend.shared_objects import shared_annotations
from gpuctl.language.mig_profiles import profile_of, resource_of
from gpuctl.language.quota_document import QuotaDocument, QuotaEntry
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import DEFAULT_QUEUE, RESOURCES, Object, annotations_of
from gpuctl.objects.label_names import managed_labels
from gpuctl.objects.queue_names import (
    ANY_FLAVOR,
    TYPES,
    UNLIMITED,
    UNLIMITED_DEVICES,
    cluster_queue_name,
    flavor_name,
    is_unlimited,
)


def flavors(context: Context, model: QuotaDocument) -> Iterator[Object]:
    """Yield the ResourceFlavors of a quota: of all nodes, and of each GPU type with a limit."""
    yield _flavor(context, ANY_FLAVOR, {})
    types = dict.fromkeys(name for entry in model.entries.values() for name in entry.gpu_types or {})
    for gpu_type in types:
        labels = context.settings.gpu_types.get(gpu_type, {context.label("gpu-type"): gpu_type})
        # A type of several labels for one key is reported by the checks of the document.
        yield _flavor(context, flavor_name(gpu_type), {key: str(value) for key, value in labels.items()})


def _flavor(context: Context, name: str, labels: dict[str, str]) -> Object:
    return {
        "apiVersion": RESOURCES["ResourceFlavor"].api_version,
        "kind": "ResourceFlavor",
        "metadata": metadata(name, None, managed_labels(), shared_annotations(context)),
        "spec": {"nodeLabels": labels} if labels else {},
    }


def queues(context: Context, model: QuotaDocument, namespace: str, entry: QuotaEntry) -> Iterator[Object]:
    """Yield the ClusterQueue of a namespace, and the LocalQueue of the jobs in it."""
    name = cluster_queue_name(namespace)
    labels = {**managed_labels(), context.label("quota"): model.header.name, context.label("namespace"): namespace}
    annotations = placement_annotation(context, model)
    if model.header.description is not None:
        annotations[context.label("description")] = model.header.description
    noted = {**annotations, context.label(TYPES): ",".join(entry.gpu_types)} if entry.gpu_types else annotations
    spec: Object = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    if model.borrows:
        spec["cohortName"] = model.header.name
        spec["preemption"] = {"reclaimWithinCohort": "Any"}
    if entry.weight is not None:
        spec["fairSharing"] = {"weight": str(entry.weight)}
    spec["resourceGroups"] = list(_groups(queue_limits(context, model, entry)))
    yield {
        "apiVersion": RESOURCES["ClusterQueue"].api_version,
        "kind": "ClusterQueue",
        "metadata": metadata(name, None, labels, noted),
        "spec": spec,
    }
    yield {
        "apiVersion": RESOURCES["LocalQueue"].api_version,
        "kind": "LocalQueue",
        "metadata": metadata(DEFAULT_QUEUE, namespace, labels, annotations),
        "spec": {"clusterQueue": name},
    }


class QueueLimit(NamedTuple):
    """The quota of a resource in a ClusterQueue.

    :ivar gpu_type: GPU type whose flavor has the quota; None for the flavor of all nodes.
    :ivar borrowed: how much more the queue may borrow; None without a limit of borrowing.
    """

    resource: str
    amount: str
    gpu_type: str | None = None
    borrowed: str | None = None

    @property
    def is_unlimited(self) -> bool:
        """True if the quota document does not limit the resource."""
        return is_unlimited(self.resource, self.amount)


def queue_limits(context: Context, model: QuotaDocument, entry: QuotaEntry) -> Iterator[QueueLimit]:
    """Yield the limits of a namespace: per GPU type, then on all nodes together."""
    settings = context.settings
    cards = _cards(settings, entry)
    borrowed = str(entry.borrow or 0) if model.borrows else None
    for gpu_type, number in (entry.gpu_types or {}).items():
        # Every vendor's GPUs: the nodes of a type have those of one vendor.
        yield from (QueueLimit(resource, str(number), gpu_type, borrowed) for resource in cards)
    amounts = {
        "cpu": entry.cpu or UNLIMITED["cpu"],
        "memory": entry.memory or UNLIMITED["memory"],
        "ephemeral-storage": UNLIMITED["ephemeral-storage"],
        **({} if entry.gpu_types is not None else cards),
        **_slices(settings, entry),
    }
    for resource in _unlimited(settings):
        amounts.setdefault(resource, UNLIMITED_DEVICES)
    for resource, amount in amounts.items():
        # Of a user that borrows GPUs, cpu and memory may be borrowed without a limit, slices not at all.
        others = "0" if profile_of(resource) else None
        own = borrowed if resource in cards or not entry.borrow else others
        yield QueueLimit(resource, amount, borrowed=own)


def _groups(limits: Iterable[QueueLimit]) -> Iterator[Object]:
    """Yield the resource groups: a flavor for each GPU type, and that of all nodes."""
    by_flavor: dict[str, list[QueueLimit]] = {}
    for limit in limits:
        flavor = ANY_FLAVOR if limit.gpu_type is None else flavor_name(limit.gpu_type)
        by_flavor.setdefault(flavor, []).append(limit)
    of_all_nodes = {ANY_FLAVOR: by_flavor.pop(ANY_FLAVOR)}
    for flavors in filter(None, (by_flavor, of_all_nodes)):
        yield {
            "coveredResources": [limit.resource for limit in next(iter(flavors.values()))],
            "flavors": [{"name": name, "resources": list(map(_quota, own))} for name, own in flavors.items()],
        }


def _quota(limit: QueueLimit) -> Object:
    quota = {"name": limit.resource, "nominalQuota": limit.amount}
    return quota if limit.borrowed is None else {**quota, "borrowingLimit": limit.borrowed}


def _cards(settings: Settings, entry: QuotaEntry) -> dict[str, str]:
    """Return the extended resources of whole GPUs and their limits; vendors that an entry does not name have 0."""
    if entry.gpu is None:
        numbers, missing = {}, UNLIMITED_DEVICES
    elif isinstance(entry.gpu, dict):
        numbers, missing = entry.gpu, "0"
    else:
        numbers, missing = {settings.default_vendor: entry.gpu}, "0"
    return {
        resource: str(numbers[vendor]) if vendor in numbers else missing
        for vendor in dict.fromkeys([*numbers, *settings.used_vendors])
        for gpu in settings.gpu_chips.get(vendor, {}).values()
        for resource in gpu.card.counted
    }


def _unlimited(settings: Settings) -> Iterator[str]:
    """Yield the extended resources of jobs that no quota limits: network devices, and the sizes of shares."""
    if settings.platform.network.rdma is not None:
        yield settings.platform.network.rdma.resource
    for vendor in settings.used_vendors:
        for gpu in settings.gpu_chips.get(vendor, {}).values():
            yield from gpu.card.share.parts if gpu.card.share is not None else ()


def _slices(settings: Settings, entry: QuotaEntry) -> dict[str, str]:
    """Return the extended resources of MIG slices and their limits."""
    named = entry.gpu_profiles or {}
    listed = (profile for profiles in settings.profiles.values() for profile in profiles)
    is_limited = not (entry.gpu is entry.gpu_types is entry.gpu_profiles is None)
    missing = "0" if is_limited else UNLIMITED_DEVICES
    profiles = dict.fromkeys([*named, *listed])
    return {resource_of(profile): str(named[profile]) if profile in named else missing for profile in profiles}


def lift_entry(context: Context, queue: Object) -> Object:
    """Return the entry of a quota that a ClusterQueue was lowered from."""
    vendors = {name: gpu.vendor for gpu in reversed(context.settings.gpus) for name in gpu.card.counted}
    spec = queue["spec"]
    types = annotations_of(queue).get(context.label(TYPES), "").split(",")
    entry: Object = {}
    borrowed = 0
    for group in spec.get("resourceGroups") or []:
        of_types = group["flavors"][0]["name"] != ANY_FLAVOR
        if of_types:
            numbers = [int(flavor["resources"][0]["nominalQuota"]) for flavor in group["flavors"]]
            entry["gpu-types"] = dict(zip(types, numbers, strict=True))
        for limit in group["flavors"][0]["resources"]:
            resource, amount = limit["name"], str(limit["nominalQuota"])
            if resource in vendors:
                borrowed = max(borrowed, int(limit.get("borrowingLimit", 0)))
            if of_types or is_unlimited(resource, amount):
                continue
            if resource in ("cpu", "memory"):
                entry[resource] = amount
            elif resource in vendors:
                entry.setdefault("gpu", {})[vendors[resource]] = int(amount)
            elif (profile := profile_of(resource)) is not None:
                entry.setdefault("gpu-profiles", {})[profile] = int(amount)
    if borrowed:
        entry["borrow"] = borrowed
    if "fairSharing" in spec:
        entry["weight"] = int(spec["fairSharing"]["weight"])
    return entry
