"""Checks the jobs of a namespace against the quotas of the documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.pool_links import amount_of_pods, pod_count
from gpuctl.language.helper_block import HelperResources
from gpuctl.language.kinds import Job
from gpuctl.language.mig_profiles import is_profile
from gpuctl.language.quota_document import QuotaEntry
from gpuctl.language.resources_block import Resources
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.language.workload import Workload
from gpuctl.objects.quantities import amount_text, parse_quantity

WARNING = Severity.WARNING


def users_in_two_quotas(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    """Report a namespace in two quotas: both apply, so the smaller amount of each resource counts."""
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
                say(
                    "`{name}` is in two quotas, `{first}` and `{second}`",
                    name=name,
                    first=earlier.model.header.name,
                    second=document.model.header.name,
                ),
                (document.model.entries_key, name),
                say("both would hold, so that the smaller of each amount counts: remove one of the two"),
                key=True,
                related=(Related(say("the other one"), earlier.span((earlier.model.entries_key, name), key=True)),),
            )


def quota_capacity(documents: Sequence[Document], settings: Settings) -> Iterator[Diagnostic]:
    """Compare a namespace's jobs, all running at once, with its quota."""
    jobs: defaultdict[str, list[tuple[Document, Job]]] = defaultdict(list)
    for document in documents:
        if isinstance(document.model, Workload):
            jobs[document.namespace].append((document, document.model))
    for document in documents:
        if document.model.kind != "quota":
            continue
        for namespace, entry in document.model.entries.items():
            for resource, limit in amounts_of(entry, settings).items():
                yield from _over_quota(document, namespace, resource, limit, jobs[namespace], settings)
            if entry.maxJobs is not None:
                trainings = sum(1 for _, model in jobs[namespace] if model.kind == "training")
                if trainings > entry.maxJobs:
                    yield document.diagnostic(
                        WARNING,
                        "GPU406",
                        say(
                            "{trainings} trainings are in namespace `{namespace}`; its quota allows {most} Jobs",
                            trainings=trainings,
                            namespace=namespace,
                            most=entry.maxJobs,
                        ),
                        (document.model.entries_key, namespace),
                        say("some will be rejected until others are deleted"),
                        key=True,
                    )


def amounts_of(entry: QuotaEntry, settings: Settings) -> dict[str, Fraction]:
    """Return the limits of an entry: cpu, memory, a vendor or a MIG profile -> amount."""
    limits: dict[str, Fraction] = {}
    for resource in ("cpu", "memory"):
        amount = parse_quantity(getattr(entry, resource) or "")
        if amount is not None:
            limits[resource] = amount
    gpu = {settings.default_vendor: entry.gpu} if isinstance(entry.gpu, int) else entry.gpu or {}
    return limits | {name: Fraction(number) for name, number in [*gpu.items(), *(entry.gpu_profiles or {}).items()]}


def _over_quota(
    quota: Document,
    namespace: str,
    resource: str,
    limit: Fraction,
    jobs: Sequence[tuple[Document, Job]],
    settings: Settings,
) -> Iterator[Diagnostic]:
    assert quota.model.kind == "quota", "called with a quota document"
    total = sum(
        (amount_of_pods(model, lambda part: pod_request(part, resource, settings)) for _, model in jobs), Fraction(0)
    )
    name = title_of_resource(resource)
    if total > limit:
        yield quota.diagnostic(
            WARNING,
            "GPU406",
            say(
                "the jobs of namespace `{namespace}` ask for {amount} {name} together; its quota is {limit}",
                namespace=namespace,
                amount=amount_text(resource, total),
                name=name,
                limit=amount_text(resource, limit),
            ),
            (quota.model.entries_key, namespace),
            say("some pods will not be created until others end"),
            key=True,
        )
    for job, model in jobs:
        if model.kind == "inference" and model.autoscaled:
            most = pod_request(model, resource, settings) * pod_count(model, most=True)
            if most > limit:
                yield job.diagnostic(
                    WARNING,
                    "GPU405",
                    say(
                        "at maxReplicas the job asks for {amount} {name}; the quota of namespace `{namespace}` is "
                        "{limit}",
                        amount=amount_text(resource, most),
                        name=name,
                        namespace=namespace,
                        limit=amount_text(resource, limit),
                    ),
                    ("autoscaling", "maxReplicas"),
                    say("lower maxReplicas, or raise the quota"),
                )


def title_of_resource(resource: str) -> Sentence:
    """Return a resource in messages: `cpu`, `nvidia GPUs`, `1g.10gb slices`."""
    if resource in ("cpu", "memory"):
        return Sentence(resource)
    if is_profile(resource):
        return say("{resource} slices", resource=resource)
    return say("{resource} GPUs", resource=resource)


def pod_request(model: Job, resource: str, settings: Settings) -> Fraction:
    """Return what one pod requests of cpu, of memory, of a vendor's GPUs, or of the slices of a MIG profile."""
    if resource in ("cpu", "memory"):
        amounts = [(field, _amount_of(helper.resources, resource)) for (field, _), helper in model.helpers]
        together = sum(
            (amount for field, amount in amounts if field == "sidecars"), _amount_of(model.resources, resource)
        )
        # Init containers have ended before the others start.
        return max([together, *(amount for field, amount in amounts if field == "init")])
    whose = model.resources.gpu_profile or model.resources.gpu_vendor or settings.default_vendor
    return Fraction(model.resources.gpu if whose == resource else 0)


def _amount_of(resources: Resources | HelperResources, resource: str) -> Fraction:
    return parse_quantity(getattr(resources, resource) or "0") or Fraction(0)
