"""JSON of ``diff --against`` and ``impact``: differences between manifests or revisions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.fit_answers import FitJob, fit_job
from gpuctl.api.json_values import change_values, number
from gpuctl.apply.plan.jobs_stopped_by_change import RerunTraining, StoppedJob
from gpuctl.gitops.declared_state import ALL_TYPES, ANY_TYPE, JobDemand, JobId, QuotaLimit
from gpuctl.gitops.document_changes import DocumentChange
from gpuctl.gitops.impact_rows import Amount, PoolRow, QuotaRow
from gpuctl.gitops.object_changes import ObjectChange, ObjectKey, StateChanges
from gpuctl.gitops.resource_impact import Cost, Impact
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.language.masking import masked_pair
from gpuctl.reading.live_impact import CausedEviction, LiveImpact

Number = int | float


class ObjectName(ApiModel):
    """The kind and name of an object."""

    api_version: str
    kind: str
    namespace: str | None
    name: str


class _Action(ApiModel):
    action: str


class DifferenceStep(ObjectName, _Action):
    """An object that differs: a step of a plan that is not carried out."""

    reason: None = None
    changes: list[dict[str, Any]] = Field(description="`path`, `from` and `to` of each field that differs.")
    result: str
    error: None = None


class JobName(ApiModel):
    """The kind, namespace and name of a job."""

    kind: str
    namespace: str
    name: str


class ChangedDocument(JobName):
    """A document that differs. The namespace is "" for a pool or a quota."""

    changes: list[dict[str, Any]] = Field(description="`path`, `from` and `to` of each field that differs.")

    @classmethod
    def of(cls, change: DocumentChange) -> ChangedDocument:
        """Return the JSON model of a document that differs."""
        return cls(**change.document._asdict(), changes=change_values(change.changes))


class DifferencesAnswer(ApiModel):
    """``gpuctl diff --against -o json``, without credentials."""

    set: None
    documents: list[ChangedDocument]
    steps: list[DifferenceStep]
    summary: dict[str, int] = Field(description="Action -> number of objects.")

    @classmethod
    def of(cls, changes: StateChanges) -> DifferencesAnswer:
        """Return the JSON model of differences."""
        steps = list(map(_step, changes.objects))
        documents = list(map(ChangedDocument.of, changes.documents))
        return cls(set=None, documents=documents, steps=steps, summary=dict(Counter(step.action for step in steps)))


def _step(change: ObjectChange) -> DifferenceStep:
    before, after = masked_pair(change.before, change.after)
    compared = [] if before is None or after is None else value_changes(before, after)
    return DifferenceStep(
        action=change.action,
        **_name(change.key),
        reason=None,
        changes=change_values(compared),
        result="planned",
        error=None,
    )


class ImpactBreakage(ApiModel):
    """Something that does not fit after a change. ``new``: the change causes it or makes it worse."""

    message: str
    new: bool


class ChangedObject(ObjectName):
    """An object that differs."""

    paths: list[str]


class ImpactRestart(JobName):
    """A job that restarts."""

    reason: str


class ImpactDemand(ApiModel):
    """The requests of a job. GPUs are null for a job with a share of a GPU's memory."""

    pool: str
    gpu_type: str | None
    gpus: Number | None
    gpus_at_most: Number | None
    pods: int
    queued: bool = Field(description="True if it waits in a queue of Kueue.")
    finished: bool


class ImpactJob(JobName):
    """A job before and after a change; null if it does not exist."""

    before: ImpactDemand | None
    after: ImpactDemand | None


class ImpactGpus(ApiModel):
    """GPUs that jobs request at their minimum and maximum replicas, and the existing GPUs; null if unknown."""

    gpus: Number
    gpus_at_most: Number
    capacity: int | None
    gpus_queued: Number


class ImpactPool(ApiModel):
    """The GPUs of a pool. ``gpu_type``: null for the whole pool, ``any`` for jobs that accept any type."""

    pool: str
    gpu_type: str | None
    before: ImpactGpus
    after: ImpactGpus


class ImpactLimit(ApiModel):
    """The requests of a namespace's jobs, and its limit; null without a limit."""

    asked: Number
    hard: Number | None
    borrowed: Number = Field(description="What jobs may use beyond the limit while other users leave theirs unused.")


class ImpactQuota(ApiModel):
    """A resource of a namespace. Memory is in bytes, cpu in cores."""

    namespace: str
    resource: str
    gpu_type: str | None = Field(description="GPU type that is limited; null for all nodes together.")
    before: ImpactLimit
    after: ImpactLimit


class ImpactPrice(ApiModel):
    """The price per hour at minimum and maximum replicas."""

    least: Number
    most: Number


class ImpactPrices(ApiModel):
    """The price per hour before and after a change."""

    before: ImpactPrice
    after: ImpactPrice
    without_pools: list[str] = Field(description="Pools with GPUs in use that have no price.")


class ImpactEnded(JobName):
    """A running job that a change ends."""

    manner: str
    reason: str
    running_since: str | None
    pods: int
    gpus: int


class ImpactRunAgain(JobName):
    """A finished training that a change runs again."""

    manner: str
    reason: str
    condition: str
    finished_at: str | None


class ImpactEviction(ApiModel):
    """A job that would be evicted."""

    namespace: str
    job: str
    owner: str | None
    priority: int
    pods: list[str]
    runtime: str | None
    by: list[JobName]
    while_old_pods_run: bool


class ImpactEvictions(ApiModel):
    """The jobs that would be evicted, each once."""

    jobs: int
    pods: int
    items: list[ImpactEviction]


class ImpactCluster(ApiModel):
    """The effect of a change on a cluster."""

    taken_at: str
    gitops: str | None
    ended: list[ImpactEnded]
    runs_again: list[ImpactRunAgain] | None
    finished: list[JobName]
    fit: list[FitJob]
    evictions: ImpactEvictions
    absent_nodes: list[str]
    queues: list[str] = Field(description="What changed queues of quotas mean for the jobs in them.")


class ImpactAnswer(ApiModel):
    """``gpuctl impact -o json``."""

    fits: bool
    breakages: list[ImpactBreakage]
    waiting: list[str] = Field(description="Quotas whose queues do not have room for all jobs at once.")
    added: list[ObjectName]
    changed: list[ChangedObject]
    removed: list[ObjectName]
    documents: list[ChangedDocument]
    restarts: list[ImpactRestart]
    jobs: list[ImpactJob]
    pools: list[ImpactPool]
    quotas: list[ImpactQuota]
    price_per_hour: ImpactPrices | None
    cluster: ImpactCluster | None

    @classmethod
    def of(cls, impact: Impact, live: LiveImpact | None = None) -> ImpactAnswer:
        """Return the JSON model of an impact."""
        return cls(
            fits=not impact.breakages,
            breakages=[ImpactBreakage(message=item.message, new=item.new) for item in impact.breakages],
            waiting=impact.waiting,
            added=[ObjectName(**_name(key)) for key in impact.added],
            changed=[ChangedObject(**_name(key), paths=paths) for key, paths in impact.changed],
            removed=[ObjectName(**_name(key)) for key in impact.removed],
            documents=list(map(ChangedDocument.of, impact.documents)),
            restarts=[ImpactRestart(**item.job._asdict(), reason=item.reason) for item in impact.restarts],
            jobs=[
                ImpactJob(**job._asdict(), before=_demand(before), after=_demand(after))
                for job, before, after in impact.jobs
            ],
            pools=list(map(_pool, impact.pools)),
            quotas=list(map(_quota, impact.quotas)),
            price_per_hour=_prices(impact),
            cluster=None if live is None else _cluster(live),
        )


def against_code(changes: StateChanges) -> int:
    """Return the exit code of ``diff --against``: 1 if an object differs, else 0."""
    return 1 if changes.objects else 0


def impact_code(impact: Impact, fail_on: Literal["new", "any"]) -> int:
    """Return the exit code of an impact: 1 if something does not fit, else 0.

    :param fail_on: ``new``: only what the change causes or makes worse counts.
    """
    return 1 if any(item.new or fail_on == "any" for item in impact.breakages) else 0


def _name(key: ObjectKey) -> dict[str, Any]:
    return {"api_version": key.api_version, "kind": key.kind, "namespace": key.namespace or None, "name": key.name}


def _pool(row: PoolRow) -> ImpactPool:
    gpu_type = {ALL_TYPES: None, ANY_TYPE: "any"}.get(row.gpu_type, row.gpu_type)
    return ImpactPool(pool=row.pool, gpu_type=gpu_type, before=_gpus(row.before), after=_gpus(row.after))


def _gpus(value: Amount) -> ImpactGpus:
    return ImpactGpus(
        gpus=number(value.asked),
        gpus_at_most=number(value.most),
        capacity=value.there,
        gpus_queued=number(value.queued),
    )


def _quota(row: QuotaRow) -> ImpactQuota:
    return ImpactQuota(
        namespace=row.key.namespace,
        resource=row.key.resource,
        gpu_type=None if row.key.gpu_type == ALL_TYPES else row.key.gpu_type,
        before=_limit(row.asked_before, row.before),
        after=_limit(row.asked_after, row.after),
    )


def _limit(asked: Fraction, limit: QuotaLimit | None) -> ImpactLimit:
    hard, borrowed = (None, Fraction(0)) if limit is None else limit[:2]
    return ImpactLimit(asked=number(asked), hard=number(hard), borrowed=number(borrowed))


def _demand(demand: JobDemand | None) -> ImpactDemand | None:
    if demand is None:
        return None
    known = demand.gpus is not None
    return ImpactDemand.taken_from(
        demand,
        gpu_type=demand.gpu_type or None,
        gpus=number(demand.total) if known else None,
        gpus_at_most=number(demand.total_most) if known else None,
        queued=demand.excluded_as == "queued",
        finished=demand.excluded_as == "finished",
    )


def _prices(impact: Impact) -> ImpactPrices | None:
    if impact.costs is None:
        return None

    def price(value: Cost) -> ImpactPrice:
        return ImpactPrice(least=number(value.least), most=number(value.most))

    before, after = impact.costs
    return ImpactPrices(before=price(before), after=price(after), without_pools=impact.unpriced)


def _cluster(live: LiveImpact) -> ImpactCluster:
    items = list(map(_eviction, live.evictions))
    return ImpactCluster.taken_from(
        live,
        ended=list(map(_ended, live.ended)),
        runs_again=None if live.runs_again is None else list(map(_run_again, live.runs_again)),
        finished=list(map(_job, sorted(live.finished[1]))),
        fit=list(map(fit_job, live.fits)),
        evictions=ImpactEvictions(jobs=len(items), pods=live.evicted_pods, items=items),
    )


def _job(job: JobId) -> JobName:
    return JobName(**job._asdict())


def _eviction(item: CausedEviction) -> ImpactEviction:
    return ImpactEviction.taken_from(item.job, by=list(map(_job, item.by)), while_old_pods_run=item.early)


def _ended(item: StoppedJob) -> ImpactEnded:
    return ImpactEnded.taken_from(item, running_since=item.since or None)


def _run_again(item: RerunTraining) -> ImpactRunAgain:
    return ImpactRunAgain.taken_from(item, finished_at=item.since or None)
