"""Quotas: what the users of a namespace may request, and how much of it they do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from gpuctl.capacity.pod_requests import quantity
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.reading.node_gpus import PlatformGpus

# Keys as ResourceQuota's status has them: a bare `cpu` and `memory` mean requests. GPUs are `requests.<resource>`.
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


@dataclass(frozen=True)
class ResourceLimit:
    """One limit: ``resource`` is the API's key, ``name`` ours (cpu, memory, gpu, jobs, pods; else the key).

    ``total`` and ``used`` are cores, bytes or pieces; ``used`` is None until the cluster has counted.
    """

    resource: str
    name: str
    vendor: str | None
    total: Fraction
    used: Fraction | None

    @property
    def free(self) -> Fraction | None:
        """What is left."""
        return None if self.used is None else max(Fraction(0), self.total - self.used)

    @property
    def percent(self) -> float | None:
        """Use in percent of the total; None when there is no total, or no use is known."""
        return None if self.used is None or not self.total else round(float(100 * self.used / self.total), 1)

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be requested."""
        return self.used is not None and self.total > 0 and self.used >= self.total

    @property
    def is_memory(self) -> bool:
        """Whether amounts are bytes."""
        return self.resource.endswith(("memory", "storage"))

    @property
    def unit(self) -> str:
        """What its amounts are: cores, bytes, or a count."""
        return "bytes" if self.is_memory else _UNITS.get(self.name.rpartition(".")[2], "count")


@dataclass(frozen=True)
class QuotaState:
    """A quota in one namespace: ``name`` is its document's (a foreign ResourceQuota's own), ``defaults`` what
    containers that request nothing get."""

    name: str
    namespace: str
    object_name: str
    description: str | None
    created_at: str | None
    limits: tuple[ResourceLimit, ...]
    defaults: dict[str, str]
    is_ours: bool

    @property
    def status(self) -> str:
        """``full`` when nothing more of some resource can be requested, else ``ok``."""
        return "full" if any(limit.is_full for limit in self.limits) else "ok"

    def amount(self, name: str) -> tuple[Fraction | None, Fraction | None]:
        """Total and use of all limits of a name; (None, None) when there is no such limit."""
        found = [limit for limit in self.limits if limit.name == name]
        if not found:
            return None, None
        used = [limit.used for limit in found if limit.used is not None]
        return sum((limit.total for limit in found), Fraction(0)), (
            sum(used, Fraction(0)) if len(used) == len(found) else None
        )


def read_quotas(
    quotas: Iterable[Object], ranges: Iterable[Object], settings: Settings, *, foreign: bool = False
) -> list[QuotaState]:
    """The quotas by namespace and name.

    :param ranges: the LimitRanges that go with them.
    :param foreign: also ResourceQuotas that are not gpuctl's.
    """
    key = settings.label("quota")
    gpus = PlatformGpus(settings)
    defaults = {_place(item): _default_request(item) for item in ranges}
    found = [
        _quota(item, labels_of(item).get(key), defaults.get(_place(item), {}), settings, gpus)
        for item in quotas
        if foreign or key in labels_of(item)
    ]
    return sorted(found, key=lambda quota: (quota.namespace, not quota.is_ours, quota.name))


def select_quotas(quotas: Iterable[QuotaState], name: str) -> list[QuotaState]:
    """The quotas of a user (namespace); when there is no such user, those of a quota's document."""
    quotas = list(quotas)
    return [quota for quota in quotas if quota.namespace == name] or [quota for quota in quotas if quota.name == name]


def _quota(
    obj: Object, name: str | None, defaults: dict[str, str], settings: Settings, gpus: PlatformGpus
) -> QuotaState:
    metadata, status = obj["metadata"], obj.get("status") or {}
    hard = (obj.get("spec") or {}).get("hard") or {}
    used = status.get("used") or {}
    limits = [_limit(key, str(hard[key]), used.get(key), gpus) for key in hard]
    order = {name: rank for rank, name in enumerate(("cpu", "memory", "gpu", "jobs", "pods"))}
    return QuotaState(
        name or metadata["name"],
        metadata["namespace"],
        metadata["name"],
        annotations_of(obj).get(settings.label("description")),
        metadata.get("creationTimestamp"),
        tuple(sorted(limits, key=lambda limit: (order.get(limit.name, len(order)), limit.resource))),
        defaults,
        name is not None,
    )


def _limit(key: str, total: str, used: str | None, gpus: PlatformGpus) -> ResourceLimit:
    vendor = gpus.vendors.get(key.removeprefix("requests.")) if key.startswith("requests.") else None
    name = "gpu" if vendor is not None else _PLAIN.get(key, key)
    return ResourceLimit(key, name, vendor, quantity(total), None if used is None else quantity(used))


def _default_request(limit_range: Object) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in (limit_range.get("spec") or {}).get("limits") or []:
        if item.get("type") == "Container":
            found |= item.get("defaultRequest") or {}
    return found


def _place(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
