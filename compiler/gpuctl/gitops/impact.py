"""What a change of documents does to the machines: jobs, GPUs by pool and type, quotas, and what no longer fits.

Numbers are of what documents ask for, not of what runs. A service that scales counts twice: at its fewest replicas and
at its most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from gpuctl.backend.context import Context, Object
from gpuctl.backend.pod import is_shared
from gpuctl.backend.quota import hard_limits
from gpuctl.compilation import Compilation
from gpuctl.frontend.document import Document
from gpuctl.frontend.linker import replicas
from gpuctl.gitops.objects import ObjectKey, by_key, value_changes
from gpuctl.language.job import Workload
from gpuctl.language.quantities import format_bytes, format_number, parse_quantity
from gpuctl.language.resources import DEFAULT_POOL

ANY_TYPE = ""
"""The GPU type of jobs that take any, and of nodes that name none."""
ALL_TYPES = "*"
"""Stands for a pool as a whole."""
JOBS = "count/jobs.batch"
_EXTENDED = "requests."

PodRequests = Callable[[Object], Mapping[str, Fraction]]
"""What a pod of a ``spec`` takes of its node: resource -> amount."""


class JobId(NamedTuple):
    """Which job: its kind, namespace and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} in {self.namespace}"


class Demand(NamedTuple):
    """What a job asks for: ``pods`` at the fewest and ``most`` at the most, ``gpus`` of each pod.

    ``gpus`` is a fraction of cards where the platform enforces shares, None for a share in memory: how much of a card
    that is, documents do not say. ``requests`` are those of each pod by the keys that quotas use.
    """

    pool: str
    gpu_type: str
    gpus: Fraction | None
    pods: int
    most: int
    requests: dict[str, Fraction]

    @property
    def total(self) -> Fraction:
        """GPUs at the fewest replicas, without shares in memory."""
        return (self.gpus or Fraction(0)) * self.pods

    @property
    def total_most(self) -> Fraction:
        """GPUs at the most replicas, without shares in memory."""
        return (self.gpus or Fraction(0)) * self.most

    @property
    def place(self) -> tuple[Any, ...]:
        """What of it the table of GPUs shows."""
        return self[:5]


class Amount(NamedTuple):
    """GPUs asked for, at the fewest and at the most replicas, and how many there are (None: nobody says)."""

    asked: Fraction
    most: Fraction
    there: int | None


class PoolRow(NamedTuple):
    """A pool and GPU type before and after: ``ANY_TYPE`` is of jobs that take any, ``ALL_TYPES`` the whole pool."""

    pool: str
    gpu_type: str
    before: Amount
    after: Amount


class QuotaRow(NamedTuple):
    """What a namespace's jobs ask of a resource, and its limit (None: none), before and after."""

    namespace: str
    resource: str
    asked_before: Fraction
    asked_after: Fraction
    hard_before: Fraction | None
    hard_after: Fraction | None


class Breakage(NamedTuple):
    """Something that does not fit afterwards. ``new``: it did before, or was not there."""

    message: str
    new: bool


class Cost(NamedTuple):
    """Price per hour, at the fewest and at the most replicas."""

    least: Fraction
    most: Fraction


@dataclass(frozen=True)
class Side:
    """One of the two states: what its documents declare and ask for.

    ``nodes``: pool -> type -> GPUs of each of its nodes, None where a node does not say.
    """

    jobs: dict[JobId, Demand] = field(default_factory=dict)
    objects: dict[ObjectKey, Object] = field(default_factory=dict)
    nodes: dict[str, dict[str, list[int | None]]] = field(default_factory=dict)
    limits: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    prices: dict[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class Impact:
    """The difference of two states.

    ``costs`` are before and after, None without prices; ``unpriced`` are pools with GPUs in use that have none.
    """

    added: list[ObjectKey]
    changed: list[tuple[ObjectKey, list[str]]]
    removed: list[ObjectKey]
    jobs: list[tuple[JobId, Demand | None, Demand | None]]
    pools: list[PoolRow]
    quotas: list[QuotaRow]
    breakages: list[Breakage]
    costs: tuple[Cost, Cost] | None
    unpriced: list[str]


def amount(resource: str, value: Fraction) -> str:
    """An amount of a resource for people: bytes with a suffix, the rest as numbers."""
    if resource.endswith(("memory", "storage")) and value.denominator == 1:
        return format_bytes(int(value))
    return format_number(value)


def side_of(compilation: Compilation | None, pod_requests: PodRequests) -> Side:
    """The state that a compilation describes; None is one without documents.

    ``pod_requests`` counts what a pod takes: its manifest says it, for a ``podPatch`` can change it.
    """
    if compilation is None:
        return Side()
    platform = compilation.settings.platform
    side = Side(prices={pool: Fraction(str(price)) for pool, price in platform.prices.items()})
    side.objects.update(by_key(compilation.objects))
    context = Context(compilation.settings)
    pods = {id(item.document): spec for item in compilation.lowered for spec in [_pod_of(item.object)] if spec}
    for document in compilation.documents:
        model = document.model
        if isinstance(model, Workload):
            name = JobId(document.kind, document.namespace, model.job.name)
            side.jobs[name] = _demand(context, document, pods[id(document)], pod_requests)
        elif model.kind == "pool":
            types = side.nodes.setdefault(model.header.name, {})
            for node in model.nodes.values():
                unknown = None if node.gpu_type else 0
                types.setdefault(node.gpu_type, []).append(unknown if node.gpu_count is None else node.gpu_count)
        elif model.kind == "quota":
            for namespace, entry in model.entries.items():
                for resource, text in hard_limits(context, entry).items():
                    value = parse_quantity(text)
                    if value is not None:
                        # Several quotas of a namespace all hold.
                        least = side.limits.get((namespace, resource), value)
                        side.limits[namespace, resource] = min(least, value)
    return side


def _pod_of(obj: Object) -> Object | None:
    """The PodSpec in an object of a workload."""
    spec = obj.get("spec") or {}
    if obj["kind"] == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    found: Object | None = spec.get("template", {}).get("spec")
    return found


def _demand(context: Context, document: Document, pod: Object, pod_requests: PodRequests) -> Demand:
    model: Any = document.model
    resources = model.resources
    settings = context.settings
    gpu = settings.gpu_of(resources)
    requests = pod_requests(pod)
    gpus: Fraction | None = requests.get(gpu.resource, Fraction(0)) if gpu is not None else Fraction(0)
    if is_shared(context, model):
        share = parse_quantity(resources.gpu_share)
        gpus = resources.gpu * share if share is not None and share < 1 else None
    default = settings.platform.quota.defaultRequest
    counted = pod_requests(_filled(pod, {"cpu": default.cpu, "memory": default.memory}))
    return Demand(
        resources.pool or DEFAULT_POOL,
        document.gpu_type or ANY_TYPE,
        gpus,
        replicas(model),
        replicas(model, most=True),
        {_EXTENDED + name: value for name, value in counted.items()},
    )


def _filled(pod: Object, default: dict[str, str]) -> Object:
    """A pod as it is where a quota is: our LimitRange gives containers that ask for nothing a default."""

    def filled(container: Object) -> Object:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        missing = {name: value for name, value in default.items() if name not in limits}
        return {**container, "resources": {**resources, "requests": {**missing, **(resources.get("requests") or {})}}}

    lists = {key: [filled(item) for item in pod[key]] for key in ("containers", "initContainers") if pod.get(key)}
    return {**pod, **lists}


def impact(before: Side, after: Side) -> Impact:
    """What going from one state to the other does."""
    pools = list(_pools(before, after))
    quotas = list(_quotas(before, after))
    pairs = [(job, before.jobs.get(job), after.jobs.get(job)) for job in sorted({*before.jobs, *after.jobs})]
    return Impact(
        added=sorted(after.objects.keys() - before.objects.keys()),
        changed=[
            (key, paths)
            for key in sorted(after.objects.keys() & before.objects.keys())
            if (paths := [change.path for change in value_changes(before.objects[key], after.objects[key])])
        ],
        removed=sorted(before.objects.keys() - after.objects.keys()),
        jobs=[
            (job, old, new)
            for job, old, new in pairs
            if (old.place if old is not None else None) != (new.place if new is not None else None)
        ],
        pools=pools,
        quotas=quotas,
        breakages=[*_pool_breakages(pools), *_crowded(before, after, pools), *_quota_breakages(quotas)],
        costs=(_cost(before), _cost(after)) if before.prices or after.prices else None,
        unpriced=sorted(
            {
                demand.pool
                for side in (before, after)
                for demand in side.jobs.values()
                if demand.total_most and demand.pool not in side.prices
            }
        ),
    )


def _pools(before: Side, after: Side) -> Iterator[PoolRow]:
    """A row for each pool and type that somebody asks for or has, and one for each pool of several types."""
    asked = {
        (demand.pool, demand.gpu_type)
        for side in (before, after)
        for demand in side.jobs.values()
        if demand.gpus is None or demand.gpus
    }
    there = {
        (pool, gpu_type)
        for side in (before, after)
        for pool, types in side.nodes.items()
        for gpu_type, counts in types.items()
        if gpu_type or any(counts)
    }
    by_pool: dict[str, list[str]] = {}
    for pool, gpu_type in sorted(asked | there):
        by_pool.setdefault(pool, []).append(gpu_type)
    for pool, types in by_pool.items():
        for gpu_type in types:
            yield PoolRow(pool, gpu_type, _amount(before, pool, gpu_type), _amount(after, pool, gpu_type))
        if len(types) > 1:
            yield PoolRow(pool, ALL_TYPES, _amount(before, pool, ALL_TYPES), _amount(after, pool, ALL_TYPES))


def _demands(side: Side, pool: str, gpu_type: str) -> list[Demand]:
    """Of the jobs that ask for a type; those that take any are of a type of their own."""
    demands = (demand for demand in side.jobs.values() if demand.pool == pool)
    return [demand for demand in demands if gpu_type in (ALL_TYPES, demand.gpu_type)]


def _counts(side: Side, pool: str, gpu_type: str) -> list[int] | None:
    """GPUs of each node that such jobs can run on; None when nobody says."""
    if pool not in side.nodes:
        return None
    counts: list[int] = []
    for kind, numbers in side.nodes[pool].items():
        for number in numbers if gpu_type in (ALL_TYPES, ANY_TYPE, kind) else ():
            if number is None:
                return None
            counts.append(number)
    return counts


def _amount(side: Side, pool: str, gpu_type: str) -> Amount:
    demands = _demands(side, pool, gpu_type)
    counts = _counts(side, pool, gpu_type)
    return Amount(
        sum((demand.total for demand in demands), Fraction(0)),
        sum((demand.total_most for demand in demands), Fraction(0)),
        # How much of a card a share in memory is, nobody says.
        None if counts is None or any(demand.gpus is None for demand in demands) else sum(counts),
    )


def _pool_breakages(rows: Iterable[PoolRow]) -> Iterator[Breakage]:
    for row in rows:
        if _fits(row.after):
            continue
        least, most = format_number(row.after.asked), format_number(row.after.most)
        asked = least if least == most else f"{least} to {most}"
        message = f"pool {row.pool}: jobs ask for {asked} {_gpus(row.gpu_type)}, and there are {row.after.there}"
        yield Breakage(message, _fits(row.before))


def _fits(value: Amount) -> bool:
    return value.there is None or value.most <= value.there


def _gpus(gpu_type: str) -> str:
    return {ALL_TYPES: "GPUs in all", ANY_TYPE: "GPUs of any type"}.get(gpu_type, f"{gpu_type} GPUs")


def _crowded(before: Side, after: Side, rows: Iterable[PoolRow]) -> Iterator[Breakage]:
    """Where the sum fits and the pods do not: a pod is on one node, and two of 5 GPUs are not on one of 8."""
    told = set()
    for row in rows:
        if not _fits(row.after) or row.pool in told:
            continue
        found = _too_many(after, row.pool, row.gpu_type)
        if found is not None:
            told.add(row.pool)
            size, pods, room = found
            what = f"{pods} pods of {size} or more {_gpus(row.gpu_type)}"
            message = f"pool {row.pool}: {what}, and its nodes have room for {room}"
            earlier = not _fits(row.before) or _too_many(before, row.pool, row.gpu_type) is not None
            yield Breakage(message, not earlier)


def _too_many(side: Side, pool: str, gpu_type: str) -> tuple[int, int, int] | None:
    """The least size of which there are more pods (of that size or larger) than places, with the two numbers.

    What this finds cannot fit; what it does not find may still not.
    """
    counts = _counts(side, pool, gpu_type)
    whole = [demand for demand in _demands(side, pool, gpu_type) if demand.gpus and demand.gpus.denominator == 1]
    for size in sorted({int(demand.gpus or 0) for demand in whole}) if counts is not None else ():
        pods = sum(demand.most for demand in whole if (demand.gpus or 0) >= size)
        room = sum(count // size for count in counts or ())
        if pods > room:
            return size, pods, room
    return None


def _quotas(before: Side, after: Side) -> Iterator[QuotaRow]:
    for namespace, resource in sorted({*before.limits, *after.limits}):
        yield QuotaRow(
            namespace,
            resource,
            _asked(before, namespace, resource),
            _asked(after, namespace, resource),
            before.limits.get((namespace, resource)),
            after.limits.get((namespace, resource)),
        )


def _asked(side: Side, namespace: str, resource: str) -> Fraction:
    """What a namespace's jobs count against a key of a quota, at the most replicas."""
    mine = [(job, demand) for job, demand in side.jobs.items() if job.namespace == namespace]
    if resource == JOBS:
        return Fraction(sum(job.kind == "training" for job, _ in mine))
    return sum((demand.requests.get(resource, Fraction(0)) * demand.most for _, demand in mine), Fraction(0))


def _quota_breakages(rows: Iterable[QuotaRow]) -> Iterator[Breakage]:
    for row in rows:
        if row.hard_after is None or row.asked_after <= row.hard_after:
            continue
        was = row.hard_before is not None and row.asked_before > row.hard_before
        asked, hard = amount(row.resource, row.asked_after), amount(row.resource, row.hard_after)
        message = f"namespace {row.namespace}: jobs ask for {asked} {row.resource}, and the quota is {hard}"
        yield Breakage(message, not was)


def _cost(side: Side) -> Cost:
    priced = [(side.prices.get(demand.pool, Fraction(0)), demand) for demand in side.jobs.values()]
    return Cost(
        sum((price * demand.total for price, demand in priced), Fraction(0)),
        sum((price * demand.total_most for price, demand in priced), Fraction(0)),
    )
