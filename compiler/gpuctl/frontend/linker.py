"""Checks across documents: what can be known because one compile sees all of them.

Errors are what can never be right; warnings what waits, or depends on the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.job import Workload
from gpuctl.language.kinds import Job
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.quantities import format_bytes, format_number, parse_quantity
from gpuctl.language.service import ServiceBlock
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import nearest

if TYPE_CHECKING:
    from gpuctl.language.pool import Pool

ERROR, WARNING = Severity.ERROR, Severity.WARNING


class _Declared:
    """A pool as far as it is known: its document, or only what the platform says."""

    def __init__(self, types: list[str], document: Document | None = None, model: Pool | None = None) -> None:
        self.types = types
        self.document = document
        self.model = model
        self.jobs: list[tuple[Document, Job]] = []

    def counts(self, gpu_type: str | None) -> list[int] | None:
        """GPUs of each node of the type, None where a node does not say."""
        if self.model is None:
            return None
        counts = []
        for node in self.model.nodes.values():
            if gpu_type is not None and node.gpu_type != gpu_type:
                continue
            if node.gpu_count is None and node.gpu_type:
                return None
            counts.append(node.gpu_count or 0)
        return counts


def link(
    documents: Sequence[Document], settings: Settings, namespace: str, *, complete: bool = True
) -> Iterator[Diagnostic]:
    """Resolve references between documents and yield what is wrong with them together.

    Sets each workload's ``namespace`` and ``gpu_type``. The order of the documents does not matter. Not ``complete``
    means that documents are missing because they have errors: what they might declare is not missed.
    """
    documents = sorted(documents, key=_position)
    for document in documents:
        if isinstance(document.model, Workload):
            document.namespace = document.model.job.namespace or namespace
            document.gpu_type = document.model.resources.gpu_type
    yield from _names(documents)
    yield from _nodes_in_two_pools(documents)
    yield from _node_ports(documents)
    pools = _pools(documents, settings)
    yield from _pool_references(documents, pools, settings, complete)
    for name in sorted(pools):
        yield from _pool_capacity(name, pools[name], settings)
    yield from _users_in_two_quotas(documents)
    yield from _quotas(documents, settings)


def _position(document: Document) -> tuple[str, int, int]:
    return (document.file, document.chunk.first_line, document.index)


def replicas(model: Job, *, most: bool = False) -> int:
    """How many pods a workload has: with autoscaling the fewest, or the ``most``."""
    if model.kind == "training":
        return model.resources.nodes
    if model.kind == "inference" and model.autoscaled and model.autoscaling is not None:
        return (model.autoscaling.maxReplicas or 1) if most else model.autoscaling.minReplicas
    service = getattr(model, "service", None)
    return service.replicas if isinstance(service, ServiceBlock) else 1


def _names(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[tuple[str, str], Document] = {}
    for document in documents:
        if not isinstance(document.model, Workload):
            continue
        name = document.model.job.name
        earlier = seen.setdefault((document.namespace, name), document)
        if earlier is not document:
            yield document.diagnostic(
                ERROR,
                "GPU417",
                f"two jobs are called `{name}` in namespace `{document.namespace}` ({earlier.kind}, {document.kind})",
                ("job", "name"),
                "rename one: commands find a job by its name",
                related=(Related("the other one", earlier.span(("job", "name"))),),
            )


def _nodes_in_two_pools(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[str, Document] = {}
    for document in documents:
        if document.model.kind != "pool":
            continue
        for node in document.model.nodes:
            earlier = seen.setdefault(node, document)
            if earlier is document:
                continue
            assert earlier.model.kind == "pool", "only pools are in the table"
            names = f"`{earlier.model.header.name}` and `{document.model.header.name}`"
            yield document.diagnostic(
                ERROR,
                "GPU407",
                f"node `{node}` is in two pools, {names}",
                ("nodes", node),
                "a node has one pool label: remove it from one of the two",
                key=True,
                related=(Related("the other one", earlier.span(("nodes", node), key=True)),),
            )


def _node_ports(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[tuple[int, str], tuple[Document, tuple[str | int, ...]]] = {}
    for document in documents:
        service = getattr(document.model, "service", None)
        if not isinstance(service, ServiceBlock):
            continue
        wanted: list[tuple[int | None, str, tuple[str | int, ...]]] = [
            (service.nodePort, service.protocol, ("service", "nodePort"))
        ]
        for index, extra in enumerate(service.ports):
            wanted.append((extra.nodePort, extra.protocol, ("service", "ports", index, "nodePort")))
        for port, protocol, path in wanted:
            if port is None:
                continue
            earlier, earlier_path = seen.setdefault((port, protocol), (document, path))
            if earlier is not document:
                yield document.diagnostic(
                    ERROR,
                    "GPU418",
                    f"nodePort {port} is taken by another job of these documents",
                    path,
                    "change one; a nodePort exists once in a cluster",
                    related=(Related("the other one", earlier.span(earlier_path)),),
                )


def _pools(documents: Sequence[Document], settings: Settings) -> dict[str, _Declared]:
    """Every pool that a document or the platform declares. A document's word counts where both do."""
    pools = {name: _Declared(list(pool.gpu_types)) for name, pool in settings.external_pools.items()}
    for document in documents:
        if document.model.kind == "pool":
            types = dict.fromkeys(node.gpu_type for node in document.model.nodes.values() if node.gpu_type)
            known = pools.get(document.model.header.name)
            if known is None or known.model is None:
                pools[document.model.header.name] = _Declared(list(types), document, document.model)
    return pools


def _pool_references(
    documents: Sequence[Document], pools: dict[str, _Declared], settings: Settings, complete: bool
) -> Iterator[Diagnostic]:
    for document in documents:
        model = document.model
        if not isinstance(model, Workload):
            continue
        name = model.resources.pool
        declared = pools.get(name)
        wanted = document.gpu_type
        if declared is None:
            if name != DEFAULT_POOL and complete:
                close = nearest(name, pools)
                yield document.diagnostic(
                    WARNING,
                    "GPU401",
                    f"the pool `{name}` is declared neither in these documents nor in the platform",
                    ("resources", "pool"),
                    f"did you mean `{close}`?"
                    if close
                    else "compile the job with its pool, or list the pool in platform.yaml",
                )
            document.gpu_type = _as_declared(wanted, list(settings.gpu_types))
            continue
        declared.jobs.append((document, model))
        document.gpu_type = _as_declared(wanted, declared.types)
        if wanted is not None and declared.types and document.gpu_type not in declared.types:
            yield _unknown_type(document, name, declared)
        else:
            yield from _too_large(document, model, name, declared)
        yield from _over_pool_quota(document, model, name, declared)


def _as_declared(wanted: str | None, types: Sequence[str]) -> str | None:
    """The declared type that differs in case alone, else what was written."""
    if wanted is None or wanted in types:
        return wanted
    return next((declared for declared in types if declared.lower() == wanted.lower()), wanted)


def _unknown_type(document: Document, pool: str, declared: _Declared) -> Diagnostic:
    wanted = document.gpu_type or ""
    close = nearest(wanted, declared.types)
    related: tuple[Related, ...] = ()
    if declared.document is not None:
        related = (Related("the pool", declared.document.span(("nodes",), key=True)),)
    return document.diagnostic(
        ERROR,
        "GPU402",
        f"the pool `{pool}` has no GPU of type `{wanted}`",
        ("resources", "gpu-type"),
        f"did you mean `{close}`?" if close else f"it has {', '.join(declared.types)}",
        related=related,
    )


def _too_large(document: Document, model: Job, pool: str, declared: _Declared) -> Iterator[Diagnostic]:
    """A pod larger than every node, or a training of more nodes than the pool has room for: it never starts."""
    gpu = model.resources.gpu
    counts = declared.counts(document.gpu_type)
    if gpu == 0 or counts is None or declared.document is None:
        return
    related = (Related("the pool's nodes", declared.document.span(("nodes",), key=True)),)
    what = f" with {document.gpu_type}" if document.gpu_type else ""
    largest = max(counts, default=0)
    if gpu > largest:
        yield document.diagnostic(
            ERROR,
            "GPU403",
            f"the job needs {gpu} GPUs on one node; the largest node of pool `{pool}`{what} has {largest}",
            ("resources", "gpu"),
            f"ask for at most {largest}" + (", on several `nodes`" if model.kind == "training" else "")
            if largest
            else "use another pool",
            related=related,
        )
        return
    room = sum(count // gpu for count in counts)
    if model.kind == "training" and model.resources.nodes > room:
        yield document.diagnostic(
            ERROR,
            "GPU403",
            f"the training needs {model.resources.nodes} x {gpu} GPUs; "
            f"pool `{pool}`{what} has room for {room} such pods",
            ("resources", "nodes"),
            f"ask for at most {room} nodes",
            related=related,
        )


def _over_pool_quota(document: Document, model: Job, pool: str, declared: _Declared) -> Iterator[Diagnostic]:
    quota = declared.model.quota if declared.model is not None else None
    if quota is None or quota.maxGpuPerJob is None or declared.document is None:
        return
    total = model.resources.gpu * replicas(model)
    if total > quota.maxGpuPerJob:
        yield document.diagnostic(
            ERROR,
            "GPU419",
            f"the job asks for {total} GPUs; pool `{pool}` allows {quota.maxGpuPerJob} per job",
            ("resources", "gpu"),
            "ask for fewer, or use another pool",
            related=(Related("the limit", declared.document.span(("quota", "maxGpuPerJob"))),),
        )


def _users_in_two_quotas(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    """Two quotas on one namespace both hold: what the larger one grants is not there."""
    seen: dict[str, Document] = {}
    for document in documents:
        if document.model.kind != "quota":
            continue
        for name in document.model.entries:
            earlier = seen.setdefault(name, document)
            if earlier is document:
                continue
            assert earlier.model.kind == "quota", "only quotas are in the table"
            yield document.diagnostic(
                WARNING,
                "GPU421",
                f"`{name}` is in two quotas, `{earlier.model.header.name}` and `{document.model.header.name}`",
                (document.model.entries_key, name),
                "both would hold, so that the smaller of each amount counts: remove one of the two",
                key=True,
                related=(Related("the other one", earlier.span((earlier.model.entries_key, name), key=True)),),
            )


def _pool_capacity(name: str, declared: _Declared, settings: Settings) -> Iterator[Diagnostic]:
    """All jobs of a pool against its GPUs. Queueing is normal, so this only warns."""
    document, pool = declared.document, declared.model
    if document is None or pool is None:
        return
    key = "pool" if pool.pool is not None else "metadata"
    if pool.quota is not None and pool.quota.maxJobs is not None and len(declared.jobs) > pool.quota.maxJobs:
        yield document.diagnostic(
            WARNING,
            "GPU404",
            f"{len(declared.jobs)} jobs use pool `{name}`, which allows {pool.quota.maxJobs} unfinished ones",
            ("quota", "maxJobs"),
            "some will be refused",
        )
    counts = declared.counts(None)
    if counts is None:
        return
    capacity = sum(counts)
    # A share in memory counts for nothing here: no document says how much a card has.
    cards = [(settings.cards_of(model.resources) or Fraction(0)) * replicas(model) for _, model in declared.jobs]
    total = sum(cards, Fraction(0))
    if total > capacity:
        yield document.diagnostic(
            WARNING,
            "GPU404",
            f"the jobs of pool `{name}` ask for {format_number(total)} GPUs together; it has {capacity}",
            (key, "name"),
            "some will wait; give the urgent ones `priority: high`",
        )
    for job, model in declared.jobs:
        if model.kind == "inference" and model.autoscaled:
            each = settings.cards_of(model.resources)
            most = (each or Fraction(0)) * replicas(model, most=True)
            if each and most > capacity:
                yield job.diagnostic(
                    WARNING,
                    "GPU405",
                    f"maxReplicas x gpu is {format_number(most)} GPUs; pool `{name}` has {capacity}",
                    ("autoscaling", "maxReplicas"),
                    f"at most {capacity // each} replicas fit",
                )


def _quotas(documents: Sequence[Document], settings: Settings) -> Iterator[Diagnostic]:
    """A namespace's jobs, all running at once, against its quota."""
    jobs: defaultdict[str, list[tuple[Document, Job]]] = defaultdict(list)
    for document in documents:
        if isinstance(document.model, Workload):
            jobs[document.namespace].append((document, document.model))
    for document in documents:
        if document.model.kind != "quota":
            continue
        for namespace, entry in document.model.entries.items():
            limits: dict[str, Fraction] = {}
            for resource in ("cpu", "memory"):
                amount = parse_quantity(getattr(entry, resource) or "")
                if amount is not None:
                    limits[resource] = amount
            gpu = entry.gpu
            if isinstance(gpu, int):
                gpu = {settings.default_vendor: gpu}
            for vendor, number in (gpu or {}).items():
                limits[vendor] = Fraction(number)
            for resource, limit in limits.items():
                yield from _over_quota(document, namespace, resource, limit, jobs[namespace], settings)
            if entry.maxJobs is not None:
                trainings = sum(1 for _, model in jobs[namespace] if model.kind == "training")
                if trainings > entry.maxJobs:
                    yield document.diagnostic(
                        WARNING,
                        "GPU406",
                        f"{trainings} trainings are in namespace `{namespace}`; its quota allows {entry.maxJobs} Jobs",
                        (document.model.entries_key, namespace),
                        "some will be refused until others are deleted",
                        key=True,
                    )


def _over_quota(
    quota: Document,
    namespace: str,
    resource: str,
    limit: Fraction,
    jobs: Sequence[tuple[Document, Job]],
    settings: Settings,
) -> Iterator[Diagnostic]:
    assert quota.model.kind == "quota", "called with a quota document"
    total = sum((_request(model, resource, settings) * replicas(model) for _, model in jobs), Fraction(0))
    name = resource if resource in ("cpu", "memory") else f"{resource} GPUs"
    if total > limit:
        yield quota.diagnostic(
            WARNING,
            "GPU406",
            f"the jobs of namespace `{namespace}` ask for {_amount(total, resource)} {name} together; "
            f"its quota is {_amount(limit, resource)}",
            (quota.model.entries_key, namespace),
            "some pods will not be created until others end",
            key=True,
        )
    for job, model in jobs:
        if model.kind == "inference" and model.autoscaled:
            most = _request(model, resource, settings) * replicas(model, most=True)
            if most > limit:
                yield job.diagnostic(
                    WARNING,
                    "GPU405",
                    f"at maxReplicas the job asks for {_amount(most, resource)} {name}; "
                    f"the quota of namespace `{namespace}` is {_amount(limit, resource)}",
                    ("autoscaling", "maxReplicas"),
                    "lower maxReplicas, or raise the quota",
                )


def _request(model: Job, resource: str, settings: Settings) -> Fraction:
    """What one pod requests of cpu, memory or a vendor's GPUs."""
    if resource in ("cpu", "memory"):
        return parse_quantity(getattr(model.resources, resource) or "0") or Fraction(0)
    vendor = model.resources.gpu_vendor or settings.default_vendor
    return Fraction(model.resources.gpu if vendor == resource else 0)


def _amount(value: Fraction, resource: str) -> str:
    if resource == "memory" and value.denominator == 1:
        return format_bytes(int(value))
    return format_number(value)
