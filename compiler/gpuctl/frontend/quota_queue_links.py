"""Checks the jobs of a namespace against a quota that is a Kueue queue: a job that never fits waits for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

from gpuctl.frontend.device_claim_checks import alternatives_in_queue
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.pool_links import DeclaredPool, amount_of_pods
from gpuctl.frontend.quota_links import amounts_of, pod_request, title_of_resource
from gpuctl.frontend.role_views import check_pods, pod_documents
from gpuctl.language.kinds import Job, nodes_of
from gpuctl.language.mig_profiles import is_profile
from gpuctl.language.quota_document import QuotaEntry
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.settings import Settings
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import DEFAULT_QUEUE
from gpuctl.objects.quantities import amount_text

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def queue_capacity(documents: Sequence[Document], settings: Settings) -> Iterator[Diagnostic]:
    """Report each job that requests more than Kueue ever admits in the queue of its namespace."""
    for document, model, quota, entry in _jobs_with_queues(documents, settings):
        if settings.queue_of_job(model) is None:
            yield from check_pods(document, model, lambda view, part: alternatives_in_queue(view, part, settings))
        problem = (
            _without_quota(document, model, entry, settings)
            or _type_without_quota(document, model, entry)
            or _beyond_quota(document, model, entry, settings)
            or _beyond_type_quota(document, model, entry, settings)
        )
        if problem is not None:
            view, code, message, path, hint = problem
            assert quota.model.kind == "quota", "only quotas are in the table"
            other = Related(say("the quota"), quota.span((quota.model.entries_key, document.namespace), key=True))
            yield view.diagnostic(ERROR, code, message, path, hint, related=(other,))


def types_beyond_pool(
    documents: Sequence[Document], pools: Mapping[str, DeclaredPool], settings: Settings
) -> Iterator[Diagnostic]:
    """Warn of jobs of any GPU type that Kueue may admit on a type that their pool does not have."""
    for document, model, _, entry in _jobs_with_queues(documents, settings):
        yield from check_pods(document, model, partial(_types_beyond, types=entry.gpu_types or {}, pools=pools))


def _types_beyond(
    document: Document, model: Job, types: Mapping[str, int], pools: Mapping[str, DeclaredPool]
) -> Iterator[Diagnostic]:
    pool = pools.get(model.resources.pool)
    if pool is None or not pool.types or document.gpu_types or not _asks_for_cards(model):
        return
    other = [name for name, number in types.items() if number and name not in pool.types]
    if other:
        own = [name for name in pool.types if types.get(name)]
        message = say(
            "Kueue may admit the job on `{type}`, which the pool `{pool}` does not have: its pods would hold "
            "the quota and never start",
            type=other[0],
            pool=model.resources.pool,
        )
        hint = (
            say("write `gpu-type: {type}`", type=own[0])
            if own
            else say("add {types} to the quota", types=list(pool.types))
        )
        yield document.diagnostic(WARNING, "GPU437", message, ("resources", "pool"), hint)


def _jobs_with_queues(
    documents: Sequence[Document], settings: Settings
) -> Iterator[tuple[Document, Job, Document, QuotaEntry]]:
    """Yield each job that is in the queue of its namespace, with the quota that defines the queue and its entry."""
    quotas = {
        namespace: (document, entry)
        for document in documents
        if document.model.kind == "quota"
        for namespace, entry in document.model.entries.items()
    }
    for document in documents:
        model = document.model
        if not isinstance(model, Workload) or document.namespace not in quotas:
            continue
        if settings.queue_of_job(model) in (None, DEFAULT_QUEUE):
            yield document, model, *quotas[document.namespace]


Problem = tuple[Document, str, Sentence, tuple[str | int, ...], Sentence]
"""The document of the pods, code, message, path and hint."""


_ADD_PROFILE = Template("add `{name}` to `gpu-profiles`, or to the platform's `gpu.profiles`")
_ADD_VENDOR = Template("add `{name}` to the quota's `gpu`")
_ADD_PLATFORM_VENDOR = Template("add `{name}` to the platform's `gpu.vendors`")


def _without_quota(document: Document, model: Job, entry: QuotaEntry, settings: Settings) -> Problem | None:
    """Return the problem of GPUs or slices whose resource the queue does not have. Claims (DRA) request none."""
    if settings.claims_devices:
        return None
    listed = {name for profiles in settings.profiles.values() for name in profiles}
    known = {*amounts_of(entry, settings), *settings.used_vendors, *listed}
    for view, part in pod_documents(document, model):
        own = part.resources.gpu_profile or part.resources.gpu_vendor or settings.default_vendor
        if part.resources.gpu and own not in known:
            message = say(
                "the quota of namespace `{namespace}` has no {resource}: Kueue never admits the job",
                namespace=document.namespace,
                resource=title_of_resource(own),
            )
            template = _ADD_VENDOR if entry.gpu_types is None else _ADD_PLATFORM_VENDOR
            hint = say(_ADD_PROFILE if is_profile(own) else template, name=own)
            return view, "GPU426", message, ("resources", "gpu"), hint
    return None


def _asks_for_cards(model: Job) -> bool:
    return bool(model.resources.gpu) and model.resources.gpu_profile is None


def _type_without_quota(document: Document, model: Job, entry: QuotaEntry) -> Problem | None:
    """Return the problem of pods for other GPU types than those of the quota, whose queue counts no slices by type."""
    types = entry.gpu_types
    if types is None:
        return None
    usable = [name for name in types if types[name]]
    for view, part in pod_documents(document, model):
        if _asks_for_cards(part) and not set(view.gpu_types or usable) & set(usable):
            names = [f"`{name}`" for name in view.gpu_types]
            message = say("the quota of namespace `{namespace}` has no GPUs", namespace=document.namespace)
            if names:
                message = say(
                    "the quota of namespace `{namespace}` has no GPUs of type {names:or}",
                    namespace=document.namespace,
                    names=names,
                )
            hint = say("use one of {names}, or add the type to the quota", names=usable)
            hint = hint if usable else say("add the type to the quota")
            return view, "GPU427", message, ("resources", "gpu-type" if names else "gpu"), hint
    return None


def _beyond_quota(document: Document, model: Job, entry: QuotaEntry, settings: Settings) -> Problem | None:
    limits = amounts_of(entry, settings)
    if entry.gpu is not None:
        # The queue gives 0 to the vendors that the entry leaves out.
        limits = dict.fromkeys(settings.used_vendors, Fraction(0)) | limits
    borrowed = Fraction(entry.borrow or 0)
    for resource, limit in limits.items():
        if resource in ("cpu", "memory") and borrowed:
            continue
        is_card = resource in settings.gpu_chips
        if (total := _at_once(model, resource, settings)) > limit + (borrowed if is_card else 0):
            field = resource if resource in ("cpu", "memory") else "gpu"
            return _message(document, title_of_resource(resource), resource, total, limit, field, borrowed * is_card)
    return None


def _beyond_type_quota(document: Document, model: Job, entry: QuotaEntry, settings: Settings) -> Problem | None:
    """Return the problem of more GPUs than the types have. The pods of a role get one type, and roles can differ."""
    types, borrowed = entry.gpu_types or {}, Fraction(entry.borrow or 0)
    together: dict[tuple[str, ...], Fraction] = {}
    for view, part in pod_documents(document, model):
        wanted = tuple(name for name in types if not view.gpu_types or name in view.gpu_types)
        if not wanted:
            continue
        vendor = part.resources.gpu_vendor or settings.default_vendor
        each = pod_request(part, vendor, settings)
        total = each * nodes_of(part) if view is not document else _at_once(model, vendor, settings)
        best = max(wanted, key=lambda name: types[name])
        together[wanted] = together.get(wanted, Fraction(0)) + total
        for asked, names in ((total, (best,)), (together[wanted], wanted)):
            limit, more = Fraction(sum(types[name] for name in names)), borrowed * len(names)
            if asked > limit + more:
                title = say("GPUs of type {names:or}", names=list(names))
                return _message(view, title, vendor, asked, limit, "gpu", more)
    return None


_BEYOND = Template(
    "the job asks for {amount} {name} at once; the quota of namespace `{namespace}` is {limit}: Kueue never admits it"
)
_BEYOND_LOANS = Template(
    "the job asks for {amount} {name} at once; the quota of namespace `{namespace}` is {limit}, and {borrowed} can be "
    "borrowed: Kueue never admits it"
)


def _message(
    document: Document, name: Sentence, resource: str, total: Fraction, limit: Fraction, field: str, borrowed: Fraction
) -> Problem:
    message = say(
        _BEYOND_LOANS if borrowed else _BEYOND,
        amount=amount_text(resource, total),
        name=name,
        namespace=document.namespace,
        limit=amount_text(resource, limit),
        borrowed=amount_text(resource, borrowed),
    )
    return document, "GPU426", message, ("resources", field), say("ask for less, or raise the quota")


def _at_once(model: Job, resource: str, settings: Settings) -> Fraction:
    """Return what Kueue admits together: all pods of a training, or of one replica of a service."""
    if model.kind != "training":
        return pod_request(model, resource, settings) * nodes_of(model)
    return amount_of_pods(model, lambda part: pod_request(part, resource, settings), most=True)
