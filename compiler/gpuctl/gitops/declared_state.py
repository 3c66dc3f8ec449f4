"""One of the two states that an impact compares: the objects and requests that documents declare."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.quota_objects import hard_limits, job_limit
from gpuctl.backend.quota_queues import queue_limits
from gpuctl.compilation import Compilation
from gpuctl.frontend.document import Document
from gpuctl.frontend.pool_links import pod_count
from gpuctl.frontend.role_views import pod_documents
from gpuctl.gitops.document_changes import NamedDocuments, documents_of
from gpuctl.gitops.object_changes import ObjectKey, by_key
from gpuctl.language.device_drivers import class_limit
from gpuctl.language.mig_profiles import resource_of
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.quota_document import QuotaDocument
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import DEFAULT_QUEUE, QUEUE_LABEL, Object, labels_of
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.prerequisites import as_released
from gpuctl.objects.quantities import parse_quantity
from gpuctl.objects.scheduled_jobs import with_runs

ANY_TYPE = ""
"""The GPU type of jobs that take any type, and of nodes without a type."""
ALL_TYPES = "*"
"""All GPU types of a pool."""
_EXTENDED = "requests."
_OVERSIZED = ("GPU402", "GPU403", "GPU426", "GPU427")
DOES_NOT_FIT = frozenset({*_OVERSIZED, "GPU404", "GPU405", "GPU406", "GPU419"})
"""Linker codes for conflicts that an impact reports; they do not prevent a report."""

PodRequests = Callable[[Object], Mapping[str, Fraction]]
"""Returns the requests of a pod ``spec``: resource -> amount."""


class JobId(NamedTuple):
    """The identity of a job."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} in {self.namespace}"


class JobDemand(NamedTuple):
    """The requests of a job.

    - ``pods``, ``most``: minimum and maximum number of pods.
    - ``gpus``: GPUs of each pod. A fraction of cards if the platform enforces shares; None for shares in memory and for
      slices, whose part of a card documents do not define.
    - ``requests``: requests of each pod by quota key. ``cards``: the GPUs among them, which pools limit.
    - ``roles``: the demands of the roles, if there are several; ``gpus``, ``requests`` and ``cards`` are then means,
      ``pool`` and ``gpu_type`` lists.
    - ``excluded_as``: the job does not count for pools and quotas, because it waits in a Kueue queue or has finished.
    - ``in_own_queue``: the job names a queue other than that of its namespace's quota.
    """

    pool: str
    gpu_type: str
    gpus: Fraction | None
    pods: int
    most: int
    requests: dict[str, Fraction]
    cards: Fraction
    excluded_as: Literal["queued", "finished"] | None = None
    roles: tuple[JobDemand, ...] = ()
    in_own_queue: bool = False

    @property
    def total(self) -> Fraction:
        """GPUs with the minimum of replicas, without shares in memory."""
        return (self.gpus or Fraction(0)) * self.pods

    @property
    def total_most(self) -> Fraction:
        """GPUs with the maximum of replicas, without shares in memory."""
        return (self.gpus or Fraction(0)) * self.most

    @property
    def each(self) -> tuple[JobDemand, ...]:
        """The demands of pods that request the same: those of the roles, or the job's."""
        return self.roles or (self,)

    @property
    def table_values(self) -> tuple[Any, ...]:
        """The values that the table of GPUs shows."""
        return self[:5]


class QuotaKey(NamedTuple):
    """The subject of a limit: a resource in a namespace, on nodes of a GPU type or (``ALL_TYPES``) on all of them."""

    namespace: str
    resource: str
    gpu_type: str = ALL_TYPES


class QuotaLimit(NamedTuple):
    """A limit of a quota.

    - ``borrowed``: how much more jobs may use while other users of the quota leave theirs unused.
    - ``in_queue``: Kueue lets jobs beyond the limit wait; Kubernetes rejects them.
    """

    amount: Fraction
    borrowed: Fraction = Fraction(0)
    in_queue: bool = False

    @property
    def most(self) -> Fraction:
        """The amount that jobs can use at most."""
        return self.amount + self.borrowed


class PoolJobLimits(NamedTuple):
    """The limits of a pool: unfinished jobs in it, and GPUs of one job. None: no limit."""

    jobs: int | None
    gpus_per_job: int | None


@dataclass(frozen=True)
class DeclaredState:
    """The objects and requests that documents declare.

    - ``nodes``: pool -> type -> GPUs of each node, None if a node document does not state them.
    - ``limits``: limits of quotas. ``pool_limits``: limits of pools.
    - ``oversized``: linker messages about jobs that no node of their pool can take.
    - ``prices``: price of a GPU-hour by pool.
    """

    jobs: dict[JobId, JobDemand] = field(default_factory=dict)
    objects: dict[ObjectKey, Object] = field(default_factory=dict)
    nodes: dict[str, dict[str, list[int | None]]] = field(default_factory=dict)
    limits: dict[QuotaKey, QuotaLimit] = field(default_factory=dict)
    pool_limits: dict[str, PoolJobLimits] = field(default_factory=dict)
    oversized: dict[JobId, list[str]] = field(default_factory=dict)
    prices: dict[str, Fraction] = field(default_factory=dict)
    documents: NamedDocuments = field(default_factory=dict)


def declared_state_of(compilation: Compilation | None, pod_requests: PodRequests) -> DeclaredState:
    """Return the state that a compilation describes; empty for None.

    :param pod_requests: counts the requests of a pod from its manifest, because a ``podPatch`` can change them.
    """
    if compilation is None:
        return DeclaredState()
    platform = compilation.settings.platform
    prices = {pool: Fraction(str(price)) for pool, price in platform.prices.items()}
    state = DeclaredState(prices=prices, documents=documents_of(compilation))
    state.objects.update(by_key(compilation.objects))
    context = Context(compilation.settings)
    # A scheduled training needs what one of its runs needs.
    objects = as_released(with_runs(item.object for item in compilation.lowered))
    lowered = list(zip(objects, compilation.lowered, strict=True))
    pods = {id(item.document): specs for obj, item in lowered for specs in [_pods_of(obj)] if specs}
    queued = {id(item.document): labels_of(obj)[QUEUE_LABEL] for obj, item in lowered if QUEUE_LABEL in labels_of(obj)}
    for document in compilation.documents:
        model = document.model
        if isinstance(model, Workload):
            name = JobId(document.kind, document.namespace, model.job.name)
            parts = zip(pod_documents(document, model), pods[id(document)], strict=True)
            demand = _together([_demand(context, view, pod, pod_requests) for (view, _), pod in parts])
            queue = queued.get(id(document))
            state.jobs[name] = demand._replace(
                excluded_as=None if queue is None else "queued", in_own_queue=queue not in (None, DEFAULT_QUEUE)
            )
        elif model.kind == "pool":
            types = state.nodes.setdefault(model.header.name, {})
            for node in model.nodes.values():
                unknown = None if node.gpu_type else 0
                types.setdefault(node.gpu_type, []).append(unknown if node.gpu_count is None else node.gpu_count)
            if model.quota is not None:
                state.pool_limits[model.header.name] = PoolJobLimits(model.quota.maxJobs, model.quota.maxGpuPerJob)
        elif model.kind == "quota":
            for key, limit in _limits(context, model):
                # Several quotas of a namespace apply together.
                state.limits[key] = min(state.limits.get(key, limit), limit)
    state.oversized.update(_oversized(compilation))
    return state


def _limits(context: Context, model: QuotaDocument) -> Iterator[tuple[QuotaKey, QuotaLimit]]:
    """Yield the limits of a quota document. Of GPU types also their sum: a job that names no type may use each."""
    in_queues = context.settings.has_quota_queues
    for namespace, entry in model.entries.items():
        for resource, text in (job_limit(entry) if in_queues else hard_limits(context, entry)).items():
            yield QuotaKey(namespace, resource), QuotaLimit(_amount(text))
        typed: dict[str, list[QuotaLimit]] = {}
        for limit in queue_limits(context, model, entry) if in_queues else ():
            if limit.is_unlimited:
                continue
            found = QuotaLimit(_amount(limit.amount), _amount(limit.borrowed or "0"), in_queue=True)
            key = QuotaKey(namespace, _EXTENDED + limit.resource)
            if limit.gpu_type is None:
                yield key, found
            else:
                yield key._replace(gpu_type=limit.gpu_type), found
                typed.setdefault(key.resource, []).append(found)
        for resource, limits in typed.items():
            amount = sum((item.amount for item in limits), Fraction(0))
            borrowed = sum((item.borrowed for item in limits), Fraction(0))
            yield QuotaKey(namespace, resource), QuotaLimit(amount, borrowed, in_queue=True)


def _amount(text: str) -> Fraction:
    return parse_quantity(text) or Fraction(0)


def _oversized(compilation: Compilation) -> dict[JobId, list[str]]:
    told = [(item.span, item.message) for item in compilation.diagnostics if item.code in _OVERSIZED and item.span]
    files = {span.file for span, _ in told}
    # Finding where a document begins parses it again, so only files with messages are examined.
    starts = sorted(
        (document.file, document.span().line, index)
        for index, document in enumerate(compilation.documents)
        if document.file in files
    )
    found: dict[JobId, list[str]] = {}
    for span, message in told:
        document = compilation.documents[starts[bisect(starts, (span.file, span.line + 1)) - 1][2]]
        first = document.first
        for one in [document] if first is None else [item for item in compilation.documents if item.first is first]:
            if isinstance(one.model, Workload):
                job = JobId(one.kind, one.namespace, one.model.job.name)
                found.setdefault(job, []).append(message)
    return found


def _pods_of(obj: Object) -> list[Object]:
    """Return the PodSpecs in an object: one for each role, none for an object without pods."""
    return [template["spec"] for template, _ in pod_templates(obj)]


def _together(parts: Sequence[JobDemand]) -> JobDemand:
    """Return the demand of a job from those of its roles."""
    first = parts[0]
    if len(parts) == 1:
        return first
    pods = sum(part.pods for part in parts)
    names = dict.fromkeys(name for part in parts for name in part.requests)
    types = dict.fromkeys(name for part in parts if part.gpu_type for name in part.gpu_type.split(" or "))
    return first._replace(
        pool=", ".join(dict.fromkeys(part.pool for part in parts)),
        gpu_type=" or ".join(types) or ANY_TYPE,
        gpus=None if any(part.gpus is None for part in parts) else sum(part.total for part in parts) / Fraction(pods),
        pods=pods,
        most=pods,
        requests={
            name: sum((part.requests.get(name, Fraction(0)) * part.pods for part in parts), Fraction(0)) / pods
            for name in names
        },
        cards=sum((part.cards * part.pods for part in parts), Fraction(0)) / pods,
        roles=tuple(parts),
    )


def _demand(context: Context, document: Document, pod: Object, pod_requests: PodRequests) -> JobDemand:
    model: Any = document.model
    resources = model.resources
    pods, most = pod_count(model), pod_count(model, most=True)
    if model.kind == "training" and model.array is None:
        pods = most = resources.max_nodes  # Of one role, if there are any.
    settings = context.settings
    gpu = settings.gpu_of(resources)
    requests = pod_requests(pod)
    gpus: Fraction | None = requests.get(gpu.resource, Fraction(0)) if gpu is not None else Fraction(0)
    if resources.gpu_profile is not None or settings.share_of(resources) is not None:
        gpus = settings.cards_of(resources)
    default = settings.platform.quota.defaultRequest
    counted = pod_requests(_filled(pod, {"cpu": default.cpu, "memory": default.memory}))
    wanted = {_EXTENDED + name: value for name, value in counted.items()}
    cards = sum((value for name, value in requests.items() if name in settings.gpu_resources), Fraction(0))
    device_class = settings.device_class_of(resources)
    if device_class is not None:
        devices = Fraction(resources.gpu)
        gpus = devices if resources.gpu_profile is None else None
        wanted[class_limit(device_class)] = devices
        profile = resources.gpu_profile
        counted_as = resource_of(profile) if profile is not None else gpu.resource if gpu is not None else None
        if settings.has_quota_queues and counted_as is not None:
            # Kueue counts claims as the resource to which its configuration maps their class (GPU433).
            wanted[_EXTENDED + counted_as] = devices
        cards += devices
    return JobDemand(
        resources.pool or DEFAULT_POOL,
        document.gpu_type or ANY_TYPE,
        gpus,
        pods,
        most,
        wanted,
        cards,
    )


def _filled(pod: Object, default: dict[str, str]) -> Object:
    """Return a pod with the defaults of gpuctl's LimitRange, as in a namespace with a quota."""

    def filled(container: Object) -> Object:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        missing = {name: value for name, value in default.items() if name not in limits}
        return {**container, "resources": {**resources, "requests": {**missing, **(resources.get("requests") or {})}}}

    lists = {key: [filled(item) for item in pod[key]] for key in ("containers", "initContainers") if pod.get(key)}
    return {**pod, **lists}


def with_finished(state: DeclaredState, jobs: Collection[JobId]) -> DeclaredState:
    """Return the state with some jobs marked as finished."""
    demands = {job: demand._replace(excluded_as="finished") for job, demand in state.jobs.items() if job in jobs}
    return replace(state, jobs={**state.jobs, **demands})


def demands_of(
    state: DeclaredState, pool: str, gpu_type: str, excluded_as: Literal["queued", "finished"] | None = None
) -> list[JobDemand]:
    """Return the demands of jobs and roles that request a type; those of any type count as a type of their own."""
    demands = (demand for demand in state.jobs.values() if demand.excluded_as == excluded_as)
    parts = (part for demand in demands for part in demand.each if part.pool == pool)
    return [part for part in parts if gpu_type in (ALL_TYPES, part.gpu_type)]


def counts_of(state: DeclaredState, pool: str, gpu_type: str) -> list[int] | None:
    """Return the GPUs of each node that such jobs can use; None if unknown."""
    if pool not in state.nodes:
        return None
    counts: list[int] = []
    for kind, numbers in state.nodes[pool].items():
        for number in numbers if gpu_type in (ALL_TYPES, ANY_TYPE) or kind in gpu_type.split(" or ") else ():
            if number is None:
                return None
            counts.append(number)
    return counts
