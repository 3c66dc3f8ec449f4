"""Quotas: the limits of a namespace and their use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Protocol, TypeVar

from gpuctl.capacity.admission.quota_scopes import scope_texts
from gpuctl.capacity.kueue.queue_limits import queue_amounts
from gpuctl.language.device_drivers import class_limit
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.objects.quantities import quantity
from gpuctl.objects.queue_names import TYPES
from gpuctl.reading.nodes.node_gpus import PlatformGpus

# Keys in the status of a ResourceQuota: bare `cpu` and `memory` mean requests; GPUs are `requests.<resource>`.
_PLAIN = {
    "requests.cpu": "cpu",
    "cpu": "cpu",
    "requests.memory": "memory",
    "memory": "memory",
    "count/jobs.batch": "jobs",
    "pods": "pods",
    "count/pods": "pods",
}
_UNITS = {"cpu": "cores", "memory": "bytes"}
TotalAndUsed = tuple[Fraction | None, Fraction | None]


class NamedQuota(Protocol):
    """The name and the namespace of a quota."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


Named = TypeVar("Named", bound=NamedQuota)


class LimitAmounts(Protocol):
    """The name and the amounts of a limit."""

    @property
    def name(self) -> str: ...

    @property
    def total(self) -> Fraction: ...

    @property
    def used(self) -> Fraction | None: ...


@dataclass(frozen=True)
class ResourceLimit:
    """One limit of a quota, in cores, bytes or counts.

    :param resource: the key in a ResourceQuota.
    :param name: gpuctl's name: cpu, memory, gpu, jobs or pods; otherwise the key.
    :param used: None until the quota controller or Kueue has counted it.
    :param gpu_type: the GPU type that is limited; None for all types together.
    """

    resource: str
    name: str
    vendor: str | None
    total: Fraction
    used: Fraction | None
    gpu_type: str | None = None

    @property
    def free(self) -> Fraction | None:
        """Return the remaining amount; None if the use is unknown."""
        return None if self.used is None else max(Fraction(0), self.total - self.used)

    @property
    def percent(self) -> float | None:
        """Return the use in percent of the total; None if the total is 0 or the use is unknown."""
        return None if self.used is None or not self.total else round(float(100 * self.used / self.total), 1)

    @property
    def is_full(self) -> bool:
        """Return True if the limit is used up."""
        return self.used is not None and self.total > 0 and self.used >= self.total

    @property
    def is_memory(self) -> bool:
        """Return True if amounts are bytes."""
        return self.resource.endswith(("memory", "storage"))

    @property
    def unit(self) -> str:
        """Return the unit of its amounts: cores, bytes, or count."""
        return "bytes" if self.is_memory else _UNITS.get(self.name.rpartition(".")[2], "count")


@dataclass(frozen=True)
class QuotaState:
    """A quota in one namespace.

    :param name: name of its document; of a foreign ResourceQuota its own name.
    :param defaults: requests that a LimitRange sets for containers without their own.
    :param is_ours: gpuctl created it.
    :param scopes: the quota limits only the pods that are in all of them; () for all pods.
    """

    name: str
    namespace: str
    object_name: str
    description: str | None
    created_at: str | None
    limits: tuple[ResourceLimit, ...]
    defaults: dict[str, str]
    is_ours: bool
    scopes: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """Return ``full`` if one limit is used up, otherwise ``ok``."""
        return "full" if any(limit.is_full for limit in self.limits) else "ok"

    def amount(self, name: str) -> TotalAndUsed:
        """Return :func:`total_and_used` of its limits with a name."""
        return total_and_used(self.limits, name)


def total_and_used(limits: Iterable[LimitAmounts], name: str) -> TotalAndUsed:
    """Return total and use of the limits with a name; (None, None) without such a limit.

    Vendors and types of GPUs have limits of their own, which are added. Other limits of one name, such as ``cpu`` and
    ``requests.cpu``, count the same: the one with the least left is returned.
    """
    found = [limit for limit in limits if limit.name == name]
    if not found:
        return None, None
    if name != "gpu":
        found = [min(found, key=lambda limit: limit.total - (limit.used or 0))]
    used = [limit.used for limit in found if limit.used is not None]
    return sum((limit.total for limit in found), Fraction(0)), (
        sum(used, Fraction(0)) if len(used) == len(found) else None
    )


def read_quotas(
    quotas: Iterable[Object],
    ranges: Iterable[Object],
    settings: Settings,
    *,
    queues: Iterable[Object] = (),
    foreign: bool = False,
) -> list[QuotaState]:
    """Return the quotas by namespace and name.

    :param ranges: LimitRanges, matched to quotas by name.
    :param queues: the ClusterQueues of quotas. A ResourceQuota of the same quota limits its Jobs.
    :param foreign: include ResourceQuotas that gpuctl did not create.
    """
    key = settings.label("quota")
    gpus = PlatformGpus(settings)
    defaults = {_place(item): _default_request(item) for item in ranges}
    found = {
        _place(item): _quota(item, labels_of(item).get(key), defaults.get(_place(item), {}), settings, gpus)
        for item in quotas
        if foreign or key in labels_of(item)
    }
    for item in queues:
        name, namespace = (labels_of(item).get(settings.label(label)) for label in ("quota", "namespace"))
        if name is None or namespace is None:
            continue
        place = (namespace, f"{name}-{namespace}")
        of_jobs = found[place].limits if place in found else ()
        amounts = queue_amounts(item, settings.label(TYPES))
        counted = [
            _limit(f"requests.{resource}", total, used, gpus, of_type) for resource, of_type, total, used in amounts
        ]
        limits = _of_chips_in_use(counted, gpus, settings)
        found[place] = _state(item, name, namespace, [*limits, *of_jobs], defaults.get(place, {}), settings)
    return sorted(found.values(), key=lambda quota: (quota.namespace, not quota.is_ours, quota.name))


def select_quotas(quotas: Iterable[Named], name: str) -> list[Named]:
    """Return the quotas of a namespace; if it has none, those of a quota document with this name."""
    quotas = list(quotas)
    return [quota for quota in quotas if quota.namespace == name] or [quota for quota in quotas if quota.name == name]


def _quota(
    obj: Object, name: str | None, defaults: dict[str, str], settings: Settings, gpus: PlatformGpus
) -> QuotaState:
    hard = (obj.get("spec") or {}).get("hard") or {}
    used = (obj.get("status") or {}).get("used") or {}
    counted = {key: quantity(used[key]) if key in used else None for key in hard}
    classes = {class_limit(name): vendor for vendor, name in reversed(settings.device_classes.items())}
    claimed = {classes[key]: key for key in hard if key in classes}
    limits = [_limit(key, quantity(str(hard[key])), counted[key], gpus, claimed=claimed) for key in hard]
    return _state(
        obj, name, obj["metadata"]["namespace"], [*_of_chips_in_use(limits, gpus, settings)], defaults, settings
    )


def _of_chips_in_use(
    limits: Sequence[ResourceLimit], gpus: PlatformGpus, settings: Settings
) -> Iterator[ResourceLimit]:
    """Yield the limits, of a vendor with several chips those in use, by chip; the main one if none is.

    A quota document has one number for a vendor, and its object limits each of the chips to this number. It has one
    number for a GPU type, too, and the queue limits the cards of each vendor to it.
    """
    chips = {f"requests.{resource}": chip for resource, chip in gpus.chips.items()}
    for limit in limits:
        own = [
            other
            for other in limits
            if other.resource in chips
            and other.gpu_type == limit.gpu_type
            and (limit.gpu_type is not None or other.vendor == limit.vendor)
        ]
        if limit.vendor is None or limit.resource not in chips or len(own) == 1:
            yield limit
            continue
        used = [other for other in own if other.used] or [
            min(own, key=lambda other: (other.vendor != settings.default_vendor, chips[other.resource]))
        ]
        if limit in used:
            is_clear = len(used) == 1 or limit.gpu_type is not None
            yield limit if is_clear else replace(limit, gpu_type=limit.resource.rpartition("/")[2])


def _state(
    obj: Object,
    name: str | None,
    namespace: str,
    limits: list[ResourceLimit],
    defaults: dict[str, str],
    settings: Settings,
) -> QuotaState:
    metadata = obj["metadata"]
    order = {name: rank for rank, name in enumerate(("cpu", "memory", "gpu", "jobs", "pods"))}
    return QuotaState(
        name or metadata["name"],
        namespace,
        metadata["name"],
        annotations_of(obj).get(settings.label("description")),
        metadata.get("creationTimestamp"),
        tuple(sorted(limits, key=lambda limit: (order.get(limit.name, len(order)), limit.resource))),
        defaults,
        name is not None,
        scope_texts(obj),
    )


def _limit(
    key: str,
    total: Fraction,
    used: Fraction | None,
    gpus: PlatformGpus,
    gpu_type: str | None = None,
    claimed: Mapping[str, str] = MappingProxyType({}),
) -> ResourceLimit:
    """Return one limit.

    :param claimed: vendor -> the key that limits claims of its GPUs. It is the limit of the vendor's GPUs then: the
        extended resource has the same limit, and their sum has no meaning.
    """
    resource = key.removeprefix("requests.")
    # Slices are limits of their own: a sum of cards and slices has no meaning.
    vendor = gpus.vendors.get(resource) if resource != key and resource in gpus.cards else None
    if vendor in claimed:
        vendor = None
    elif key in claimed.values():
        vendor = next(name for name, own in claimed.items() if own == key)
    name = "gpu" if vendor is not None else _PLAIN.get(key, key)
    return ResourceLimit(key, name, vendor, total, used, gpu_type)


def _default_request(limit_range: Object) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in (limit_range.get("spec") or {}).get("limits") or []:
        if item.get("type") == "Container":
            found |= item.get("defaultRequest") or {}
    return found


def _place(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
