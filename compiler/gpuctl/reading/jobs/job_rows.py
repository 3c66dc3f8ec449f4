"""Rows of ``get jobs`` and ``get pods``: one per pod or per job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.apply.state.applied_by import applied_by
from gpuctl.capacity.snapshot.pod_requests import pod_requests, total_of
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import SERVICES, Object, labels_of
from gpuctl.objects.array_jobs import array_progress
from gpuctl.objects.label_names import SWEEP_VALUES, sweep_values
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import pod_templates, replicas
from gpuctl.objects.role_jobs import has_several_roles, missing_of_roles, pools_of
from gpuctl.objects.workload_start import not_started, pods_up
from gpuctl.objects.workload_state import has_ended, other_controller
from gpuctl.reading.jobs.job_objects import (
    Identity,
    Job,
    id_of_uid,
    is_idle_schedule,
    main_uid,
    missing_pods,
    pod_specs,
    wanted_pods,
)
from gpuctl.reading.jobs.notebook_limits import with_lifetime
from gpuctl.reading.jobs.status import Status, is_ready, pod_status, ready_containers, refused_status
from gpuctl.reading.nodes.claim_templates import TemplateKey, read_requested_gpus, requested_gpus
from gpuctl.reading.nodes.node_devices import gpus_of_claims
from gpuctl.reading.nodes.node_gpus import selected_gpu_type


class JobTableRow(NamedTuple):
    """One row of ``get jobs``: a pod, or a whole job. Properties have the names of fields of the REST API, whose models
    are made from them.

    :param uid: uid of the job, see :func:`main_uid`.
    :param pod: name of the pod; None in the row of a job.
    :param ready: ready containers of all, or ready pods of all, as ``1/2``.
    :param pools: the pool, by its label; of a job whose roles are in several pools, all of them.
    :param gpu: number of GPUs requested.
    :param sweep_values: the job's value of each parameter of its sweep; None for a job outside of sweeps.
    :param object_name: name of the job's main object.
    """

    uid: str
    pod: str | None
    identity: Identity
    state: Status
    ready: str
    node: str | None
    ip: str | None
    created_at: str | None
    started_at: str | None
    pools: tuple[str, ...]
    gpu: int
    gpu_type: str | None
    priority: str | None
    applied_by: str | None = None
    sweep_values: Mapping[str, str] | None = None
    object_name: str = ""

    @property
    def job_id(self) -> str:
        """Return the job's id. Computed on access: hashlib is slow to import and tables do not show the id."""
        return id_of_uid(self.identity, self.uid)

    @property
    def name(self) -> str:
        """Return the job's name."""
        return self.identity.name

    @property
    def namespace(self) -> str:
        """Return the job's namespace."""
        return self.identity.namespace

    @property
    def kind(self) -> str:
        """Return the job's kind, such as ``training``."""
        return self.identity.kind

    @property
    def status(self) -> str:
        """Return the status as users see it, such as ``Running``."""
        return self.state.word

    @property
    def phase(self) -> str:
        """Return the phase, such as ``running``."""
        return self.state.phase

    @property
    def reason(self) -> str | None:
        """Return the details of the status; None without any."""
        return self.state.reason or None

    @property
    def pool(self) -> str | None:
        """Return the pools, separated by commas; None without a label."""
        return ",".join(self.pools) or None

    @property
    def shown_id(self) -> str:
        """Return the text of column JOB ID: the pod's name, or the name of the job's main object."""
        return self.pod or self.object_name

    @property
    def accepted_names(self) -> set[str | None]:
        """Return the texts by which a user may refer to the row; those of its job also after the kind."""
        words = {self.job_id, self.name, self.object_name}
        return {*words, self.pod, *(f"{self.kind}/{word}" for word in words)}


class JobFilter(NamedTuple):
    """A filter on rows: exact pool, kind and job names; status word or phase in any case. "" and () match all rows."""

    pool: str = ""
    kind: str = ""
    status: str = ""
    names: tuple[str, ...] = ()

    def matches(self, row: JobTableRow) -> bool:
        """Return True if a row passes the filter."""
        return (
            (not self.pool or self.pool in row.pools)
            and (not self.kind or row.kind == self.kind)
            and (not self.status or row.state.matches(self.status))
            and (not self.names or not row.accepted_names.isdisjoint(self.names))
        )


class PlatformKeys(NamedTuple):
    """The platform's label keys and GPU resources.

    :param classes: the DeviceClasses of GPUs.
    :param single_shares: memory of shares that are always of one card, without a number of cards.
    :param claimed: uid of a pod -> number of GPUs that its resource claims hold.
    :param requested: ResourceClaimTemplate -> number of GPUs that its claims request.
    :param ahead: seconds by which the API server's clock is ahead of this machine's.
    """

    keys: Records
    gpu_type: str
    priority: str
    gpus: frozenset[str]
    sweep_values: str
    classes: frozenset[str]
    single_shares: frozenset[str]
    claimed: Mapping[str, int] = MappingProxyType({})
    requested: Mapping[TemplateKey, int] = MappingProxyType({})
    ahead: float = 0.0

    def by_clock_of(self, session: Session) -> PlatformKeys:
        """Return the keys with the clock of an API server, from which objects have been read."""
        return self._replace(ahead=session.known_clock_ahead)


def platform_keys(settings: Settings, keys: Records) -> PlatformKeys:
    """Return the label keys and GPU resources of a platform."""
    gpu_type, priority, values = map(settings.label, ("gpu-type", "priority", SWEEP_VALUES))
    shares = frozenset(share.memory for share in settings.share_resources.values() if not share.number)
    return PlatformKeys(keys, gpu_type, priority, settings.gpu_resources, values, settings.gpu_classes, shares)


def with_claimed_gpus(names: PlatformKeys, scope: Scope, jobs: Iterable[Job]) -> PlatformKeys:
    """Return keys with the GPUs that resource claims of the jobs' pods hold or request. Nothing is read if no pod has a
    claim.
    """
    jobs = list(jobs)
    names = names._replace(claimed=gpus_of_claims(scope, names.gpus, [pod for job in jobs for pod in job.pods]))
    return with_requested_gpus(names, scope, jobs)


def with_gpus_of_pods(names: PlatformKeys, scope: Scope, pods: Collection[Object]) -> PlatformKeys:
    """Return keys with the GPUs that resource claims of pods hold or request, as :func:`with_claimed_gpus`."""
    specs = ((pod["metadata"]["namespace"], pod["spec"]) for pod in pods)
    requested = read_requested_gpus(scope, specs, names.classes)
    return names._replace(claimed=gpus_of_claims(scope, names.gpus, pods), requested=requested)


def with_requested_gpus(names: PlatformKeys, scope: Scope, jobs: Iterable[Job]) -> PlatformKeys:
    """Return keys with the GPUs that resource claims of the jobs' pods request."""
    specs = ((job.identity.namespace, spec) for job in jobs for spec in pod_specs(job))
    return names._replace(requested=read_requested_gpus(scope, specs, names.classes))


def missing_row(job: Job, names: PlatformKeys) -> JobTableRow | None:
    """Return the row for the pods that a job lacks; None if it lacks none."""
    main, lacking = job.active, missing_pods(job)
    if main is None or not lacking:
        return None
    status = refused_status(job.refusal) if job.refusal else Status("Pending", "pending")
    whole = job_row(job, names._replace(claimed={}))
    return whole._replace(
        state=status._replace(reason=_not_created(lacking, wanted_pods(main), status.reason)),
        ready=f"0/{lacking}",
        node=None,
        ip=None,
        started_at=None,
        gpu=_missing_gpus(job, main, names) if has_several_roles(main) else whole.gpu * lacking // replicas(main),
    )


def _not_created(pods: int, wanted: int, reason: str) -> Sentence:
    if not reason:
        return say("{pods} of {wanted} pods {pods:is/are} not created yet", pods=pods, wanted=wanted)
    return say("{pods} of {wanted} pods {pods:is/are} not created: {reason}", pods=pods, wanted=wanted, reason=reason)


def _missing_gpus(job: Job, jobset: Object, names: PlatformKeys) -> int:
    missing = missing_of_roles(jobset, job.pods)
    namespace = job.identity.namespace
    return sum(gpus_of_spec(template.get("spec") or {}, namespace, names) * number for template, number in missing)


def pod_row(
    pod: Object, identity: Identity, names: PlatformKeys, uid: str = "", workload: Object | None = None
) -> JobTableRow:
    """Return the row of a pod.

    :param uid: uid of its job.
    :param workload: the main object of its job.
    """
    status = pod.get("status") or {}
    return JobTableRow(
        uid=uid,
        pod=pod["metadata"]["name"],
        identity=identity,
        state=with_lifetime(pod_status(pod), workload, [pod], names.keys, names.ahead),
        ready=ready_containers(pod),
        node=(pod.get("spec") or {}).get("nodeName"),
        ip=status.get("podIP"),
        created_at=pod["metadata"].get("creationTimestamp"),
        started_at=status.get("startTime"),
        pools=pools_of(pod, names.keys.pool),
        gpu=gpus_of_pod(pod, names),
        gpu_type=selected_gpu_type(pod["spec"], names.gpu_type),
        priority=labels_of(pod).get(names.priority),
        applied_by=applied_by(workload, names.keys) if workload is not None else None,
        sweep_values=(sweep_values(workload, names.sweep_values) or None) if workload is not None else None,
        object_name=workload["metadata"]["name"] if workload is not None else identity.object_name,
    )


def job_row(job: Job, names: PlatformKeys) -> JobTableRow:
    """Return the row of a job: READY counts ready pods of the desired ones, or the succeeded indexes of an array. GPU
    is the sum over its pods.
    """
    if job.workload is None:
        newest = pod_row(job.pods[-1], job.identity, names)
        ready = f"{sum(map(is_ready, job.pods))}/{len(job.pods)}"
        gpus = sum(gpus_of_pod(pod, names) for pod in job.pods if not has_ended(pod))
        return newest._replace(uid=main_uid(job), pod=None, ready=ready, gpu=gpus)
    main, pods, namespace = job.workload, [] if is_idle_schedule(job) else job.pods, job.identity.namespace
    templates = pod_templates(not_started(main))
    types = (selected_gpu_type(template.get("spec") or {}, names.gpu_type) for template, _ in templates)
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods if (pod.get("spec") or {}).get("nodeName")})
    starts = [pod["status"]["startTime"] for pod in pods if (pod.get("status") or {}).get("startTime")]
    return JobTableRow(
        uid=main_uid(job),
        pod=None,
        identity=job.identity,
        state=job.status(names.keys, names.ahead),
        ready=str(array_progress(job.active or main) or f"{_ready(job)}/{replicas(job.active or main) or _done(job)}"),
        node=",".join(nodes) or None,
        ip=next((pod["status"]["podIP"] for pod in pods if (pod.get("status") or {}).get("podIP")), None),
        created_at=main["metadata"].get("creationTimestamp"),
        started_at=(main.get("status") or {}).get("startTime") or (min(starts) if starts else None),
        pools=pools_of(main, names.keys.pool),
        gpu=sum(gpus_of_spec(template.get("spec") or {}, namespace, names) * number for template, number in templates)
        + sum(max(0, _claimed(pod, names) - _requested(pod["spec"], namespace, names)) for pod in pods),
        # Roles can have different types.
        gpu_type=",".join(dict.fromkeys(filter(None, types))) or None,
        priority=labels_of(main).get(names.priority),
        applied_by=applied_by(main, names.keys),
        sweep_values=sweep_values(main, names.sweep_values) or None,
        object_name=main["metadata"]["name"],
    )


def rows_of_jobs(
    jobs: Iterable[Job], names: PlatformKeys, *, by_job: bool = False, pods_only: bool = False
) -> Iterator[JobTableRow]:
    """Yield one row per pod and one for missing pods (not with ``pods_only``), or with ``by_job`` one row per job.

    A scheduled training has one row while none of its runs is unfinished.
    """
    for job in jobs:
        if by_job:
            yield job_row(job, names)
            continue
        uid = main_uid(job)
        if is_idle_schedule(job):
            if not pods_only:
                yield job_row(job, names)
            continue
        for pod in sorted(job.pods, key=lambda pod: str(pod["metadata"]["name"])):
            yield pod_row(pod, job.identity, names, uid, job.workload)
        if pods_only:
            continue
        if not job.pods:
            yield job_row(job, names)
        elif (row := missing_row(job, names)) is not None:
            yield row


def _ready(job: Job) -> int:
    """Return the number of ready pods; for a training, plus those that have succeeded. Pods in another cluster count by
    the status of the job.
    """
    if not job.pods and job.active is not None and other_controller(job.active):
        return pods_up(job.active)
    through = sum(pod_status(pod).phase == "succeeded" for pod in job.pods)
    return sum(map(is_ready, job.pods)) + (through if job.active and job.active["kind"] in ("Job", "JobSet") else 0)


def _done(job: Job) -> int:
    """Return the number of pods of a job that has ended or is suspended, as if it were to start now."""
    assert job.workload is not None
    return 0 if job.workload["kind"] in SERVICES else replicas(not_started(job.workload))


def gpus_of_pod(pod: Object, names: PlatformKeys) -> int:
    """Return the GPUs of a pod: those that its claims hold, or request until they are allocated."""
    namespace = pod["metadata"].get("namespace") or ""
    requested = _requested(pod["spec"], namespace, names)
    return gpus_of_spec(pod["spec"], namespace, names) - requested + (_claimed(pod, names) or requested)


def gpus_of_spec(spec: Object, namespace: str, names: PlatformKeys) -> int:
    """Return the GPUs that a pod requests as a resource or by claims. A share counts as one."""
    requests = pod_requests(spec)
    shares = len(names.single_shares & requests.keys())
    return int(total_of(requests, names.gpus)) + shares + _requested(spec, namespace, names)


def _requested(spec: Object, namespace: str, names: PlatformKeys) -> int:
    return requested_gpus(spec, namespace, names.requested)


def _claimed(pod: Object, names: PlatformKeys) -> int:
    return names.claimed.get(pod["metadata"]["uid"], 0)
