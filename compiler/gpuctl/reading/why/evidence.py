"""The evidence about a job, read once. Rules use nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import NamedTuple

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.kube.api_errors import ApiError, if_allowed, or_refusal
from gpuctl.kube.dynamic_resources import DEVICE_CLAIMS, serves_dra
from gpuctl.kube.kueue import kueue_resources, waiting_workload
from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import RESOURCES, SERVICES, Key, Object, Resource
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.hidden_names import prefixed
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_specs import mounted_claims
from gpuctl.objects.pod_templates import pods_left, replicas
from gpuctl.objects.queueing import is_gated, queue_of
from gpuctl.objects.scheduled_jobs import current_runs
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.objects.workload_state import end_state, has_ended
from gpuctl.reading.jobs.events_of_jobs import event_order, of_job
from gpuctl.reading.jobs.job_facts import own_labels, scaler_of
from gpuctl.reading.jobs.job_objects import Job, identity_of, is_idle_schedule
from gpuctl.reading.jobs.status import is_ready
from gpuctl.reading.nodes.node_devices import gpus_of_claims
from gpuctl.reading.queues.queue_position import KueueLists, read_kueue
from gpuctl.reading.why.container_exits import ContainerExit, container_exits, has_ended_container
from gpuctl.reading.why.event_proofs import has_expected_reporter, is_outdated, preempted_by
from gpuctl.reading.why.finding import in_namespace
from gpuctl.reading.why.log_diagnosis import lines_of

TAIL = 200
"""Lines read from the end of a crashed container's log."""
_LOGS = 4
_NODES = 16
SERVICE_NAME = "kubernetes.io/service-name"
"""Label of an EndpointSlice with the name of its Service."""
_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


class SchedulingInput(NamedTuple):
    """A pending pod and the nodes, in the terms of the scheduler model."""

    cluster: ClusterModel
    demand: Demand


@dataclass(frozen=True)
class Evidence:
    """The objects and logs in which the rules find causes. A list is None if it may not be read or no rule needs it.

    :param events: events about the job's objects, oldest first.
    :param nodes: nodes of the job's pods by name; the value is None if the node is gone.
    :param claims: PersistentVolumeClaims that pods mount, by name; None if missing.
    :param device_claims: ResourceClaims and ResourceClaimTemplates that pods name, by kind and name; None if missing.
    :param namespace_pods: all pods of the namespace; read only if a quota is short.
    :param logs: last lines of crashed containers, by pod and container name.
    :param claimed_gpus: uid of each pod with :func:`has_ended_container` -> GPUs allocated to its claims (DRA).
    :param kueue_workload: Kueue's Workload while Kueue does not admit the job.
    :param kueue: Kueue's queues and Workloads.
    :param scaler: the autoscaler of the job's workload.
    :param endpoint_slices: EndpointSlices of ``services``.
    :param preemptors: uid of a preempting pod -> the job it belongs to, for pods that evicted the job's own.
    :param scheduling_inputs: pending pods by namespace and name: those of several jobs are prepared together, others
        when a rule first reads them.
    :param skips_suggestions: do not compute the smallest change that would make room.
    """

    job: Job
    keys: Records
    settings: Settings
    now: datetime
    events: list[Object] | None = None
    snapshot: Snapshot | None = None
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    claims: Mapping[str, Object | None] = field(default_factory=dict)
    device_claims: Mapping[tuple[str, str], Object | None] = field(default_factory=dict)
    quotas: list[Object] | None = None
    namespace_pods: list[Object] | None = None
    logs: Mapping[tuple[str, str], list[str]] = field(default_factory=dict)
    may_read_logs: bool = True
    claimed_gpus: Mapping[str, int] = field(default_factory=dict)
    kueue_workload: Object | None = None
    kueue: KueueLists | None = None
    scaler: Object | None = None
    services: list[Object] | None = None
    endpoint_slices: list[Object] | None = None
    preemptors: Mapping[str, str] = field(default_factory=dict)
    scheduling_inputs: dict[tuple[str, str], SchedulingInput] = field(default_factory=dict)
    skips_suggestions: bool = False

    @property
    def pods(self) -> list[Object]:
        """Return the pods that are not being deleted, oldest first."""
        return [pod for pod in self.job.pods if not pod["metadata"].get("deletionTimestamp")]

    @property
    def wanted(self) -> int:
        """Return the number of pods that the job should have now."""
        workload = self.job.workload
        return len(self.pods) if workload is None else pods_left(workload)

    def events_with(self, *reasons: str, pod: Object | None = None) -> list[Object]:
        """Return the events with one of the reasons, oldest first; with ``pod`` only those about it.

        Events about a setup step of the pod are left out once the step is completed.
        """
        found = [event for event in self.events or [] if event.get("reason") in reasons]
        found = [event for event in found if has_expected_reporter(event)]
        if pod is None:
            return found
        uid, about = pod["metadata"].get("uid"), self.events_about(pod)
        found = [event for event in found if (event.get("involvedObject") or {}).get("uid") == uid]
        return [event for event in found if not is_outdated(event, pod, about)]

    def events_about(self, pod: Object) -> list[Object]:
        """Return all events about a pod, oldest first."""
        uid = pod["metadata"].get("uid")
        return [event for event in self.events or [] if (event.get("involvedObject") or {}).get("uid") == uid]

    def seconds_since(self, time: str | None) -> float | None:
        """Return the seconds since an RFC 3339 time; None without a time."""
        return (self.now - parse_timestamp(time)).total_seconds() if time else None

    def since(self, time: str | None) -> str:
        """Return the time since then as text: ``12s``, ``3m``."""
        seconds = self.seconds_since(time)
        return say("unknown time") if seconds is None else rough_duration(seconds)


def gather(scope: Scope, job: Job, keys: Records, settings: Settings) -> Evidence:
    """Read what the state of the job requires. Add a note for what may not be read.

    Of a scheduled training, the evidence is about its newest unfinished run, else about its last one if that has
    failed.
    """
    for run in current_runs(job.runs)[-1:]:
        if end_state(run) != "finished" and not _is_paused(job):
            job = job.of_run(run)
    now = datetime.fromtimestamp(scope.session.server_time(), timezone.utc)
    namespace = job.identity.namespace
    local = Scope(scope.session, namespace)
    pods = [pod for pod in job.pods if not pod["metadata"].get("deletionTimestamp")]
    quotas = _quotas(local, job, pods)
    logs = _logs(local, container_exits(pods, now))
    claims = _claims(local, pods)
    told = _events(local, job, claims)
    services = _services(local, job, keys)
    admission, kueue = _kueue(local, job)
    found = Evidence(
        job,
        keys,
        settings,
        now,
        events=told,
        snapshot=read_snapshot(scope) if any(map(is_unscheduled, pods)) or quotas or admission is not None else None,
        nodes=_nodes(local, job.pods),
        claims=claims,
        device_claims=_device_claims(local, pods),
        quotas=quotas,
        namespace_pods=local.all_if_allowed("Pod") if quotas else None,
        logs=logs or {},
        may_read_logs=logs is not None,
        claimed_gpus=gpus_of_claims(local, settings.gpu_resources, [pod for pod in pods if has_ended_container(pod)]),
        kueue_workload=admission,
        kueue=kueue,
        scaler=_scaler(local, job),
        services=services,
        endpoint_slices=_slices(local, services),
        preemptors=_preemptors(scope, told or [], keys),
    )
    for note in local.notes:
        scope.note(note)
    return found


def _is_paused(job: Job) -> bool:
    """Return True for a scheduled training without an unfinished run whose schedule is suspended."""
    return is_idle_schedule(job) and job.workload is not None and bool(job.workload["spec"].get("suspend"))


def read_events(scope: Scope, job: Job) -> list[Object] | None:
    """Return the events about a job's objects, oldest first; None, with a note, if they may not be read."""
    return _events(
        scope, job, _claims(scope, [pod for pod in job.pods if not pod["metadata"].get("deletionTimestamp")])
    )


def _events(scope: Scope, job: Job, claims: Mapping[str, Object | None]) -> list[Object] | None:
    events = scope.all_if_allowed("Event", why=say("the cause is derived from pod status alone"))
    if events is None:
        return None
    about = sorted(of_job(events, job.identity.namespace, job.workload, job.pods), key=event_order)
    return [item for item in about if _is_of(item, claims)]


def is_unscheduled(pod: Object) -> bool:
    """Return True if a pod waits for a node."""
    return not (pod.get("spec") or {}).get("nodeName") and not has_ended(pod)


def read_snapshot(scope: Scope) -> Snapshot | None:
    """Return the objects that the placement of pods depends on; None, with a note, if they may not be read."""
    try:
        return take_snapshot(scope.session, left_out=frozenset({"kueue"}))
    except ApiError as error:
        if not error.lacks_permission:
            raise
        scope.note(
            say("nodes and pods of all namespaces may not be read: numbers are taken from the scheduler's message")
        )
        return None


def _nodes(scope: Scope, pods: Iterable[Object]) -> dict[str, Object | None]:
    """Return the nodes of unfinished pods, at most :data:`_NODES`; first those of pods that are not ready."""
    unfinished = sorted((pod for pod in pods if not has_ended(pod)), key=is_ready)
    placed = [node for pod in unfinished if (node := (pod.get("spec") or {}).get("nodeName"))]
    names = list(dict.fromkeys(placed))[:_NODES]
    return dict(_each(scope, [Key("Node", "", name) for name in names], say("whether they are ready is unknown")))


def _claims(scope: Scope, pods: Iterable[Object]) -> dict[str, Object | None]:
    names = {name: None for pod in pods if not _runs(pod) for name in mounted_claims(pod["spec"])}
    keys = [Key("PersistentVolumeClaim", scope.namespace or "", name) for name in names]
    return dict(_each(scope, keys, say("whether they exist is unknown")))


def _device_claims(scope: Scope, pods: Iterable[Object]) -> dict[tuple[str, str], Object | None]:
    named = {key: None for pod in pods if not _runs(pod) for key in named_device_claims(pod["spec"])}
    found: dict[tuple[str, str], Object | None] = {}
    if not named or not serves_dra(scope.session):
        return found
    for kind in DEVICE_CLAIMS:
        keys = [Key(kind, scope.namespace or "", name) for of, name in named if of == kind]
        found |= {(kind, name): item for name, item in _each(scope, keys, say("whether they exist is unknown"))}
    return found


def named_device_claims(spec: Object) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the ResourceClaims and templates that a pod names."""
    for item in spec.get("resourceClaims") or []:
        if item.get("resourceClaimName"):
            yield "ResourceClaim", item["resourceClaimName"]
        elif item.get("resourceClaimTemplateName"):
            yield "ResourceClaimTemplate", item["resourceClaimTemplateName"]


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")


def _each(scope: Scope, keys: list[Key], why: str) -> Iterator[tuple[str, Object | None]]:
    answers = scope.session.each(lambda key: or_refusal(partial(scope.session.get, key)), keys)
    for key, found in zip(keys, answers, strict=True):
        if isinstance(found, ApiError):
            scope.note(say("{objects} may not be read: {why}", objects=key.resource.plural, why=why))
        else:
            yield key.name, found


def _quotas(scope: Scope, job: Job, pods: list[Object]) -> list[Object] | None:
    """Read the quotas if pods are missing; None otherwise."""
    workload = job.workload
    if workload is None or end_state(workload) or len(pods) >= replicas(workload):
        return None
    return scope.all_if_allowed("ResourceQuota", why=say("the numbers are taken from the refusal"))


def _logs(scope: Scope, found: list[ContainerExit]) -> dict[tuple[str, str], list[str]] | None:
    """Read the last lines of crashed containers; None if logs may not be read.

    A container has no log if its node is gone or if it never ran.
    """
    forbidden = False
    worth = [end for end in found if end.code != 0][:_LOGS]

    def read(end: ContainerExit) -> list[str] | None:
        nonlocal forbidden
        path = f"{RESOURCES['Pod'].path(scope.namespace, end.pod)}/log"
        query = {"container": end.container, "tailLines": str(TAIL), "limitBytes": "1000000"}
        try:
            return lines_of(scope.session.text(path, {**query, **({"previous": "true"} if end.previous else {})}))
        except ApiError as error:
            if error.lacks_permission:
                forbidden = True
                scope.note(say("logs may not be read: the last output of the program is unknown"))
            return None

    lines = scope.session.each(read, worth)
    if forbidden:
        return None
    return {(end.pod, end.container): tail for end, tail in zip(worth, lines, strict=True) if tail}


def _kueue(scope: Scope, job: Job) -> tuple[Object | None, KueueLists | None]:
    """Return the Workload of a job that Kueue holds back, and Kueue's objects."""
    workload = job.workload
    if workload is None or not queue_of(workload) or end_state(workload):
        return None, None
    if not (workload.get("spec") or {}).get("suspend") and not any(map(is_gated, job.pods)):
        if _lacks_kueue(scope):
            scope.note(
                say(
                    "its queue {queue} has no effect: the cluster has no Kueue, which would hold the job back and "
                    "start its pods together",
                    queue=queue_of(workload),
                )
            )
        return None, None
    lists = read_kueue(scope)
    return waiting_workload(lists.workloads or [], workload, job.pods), lists


def _lacks_kueue(scope: Scope) -> bool:
    return if_allowed(lambda: kueue_resources(scope.session) is None, False)


def _is_of(event: Object, claims: Mapping[str, Object | None]) -> bool:
    """Return False for an event about an earlier claim of the same name."""
    about = event.get("involvedObject") or {}
    claim = claims.get(about.get("name") or "") if about.get("kind") == "PersistentVolumeClaim" else None
    return claim is None or about.get("uid") == claim["metadata"].get("uid")


def _scaler(scope: Scope, job: Job) -> Object | None:
    if job.workload is None or job.workload["kind"] not in SERVICES:
        return None
    return scaler_of(scope.all_if_allowed("HorizontalPodAutoscaler", why=say("its target is unknown")) or [], job)


def _services(scope: Scope, job: Job, keys: Records) -> list[Object] | None:
    """Read the Services of a serving job. Without a ready pod a Service without endpoints is no cause, so nothing is
    read.
    """
    workload = job.workload
    if workload is None or end_state(workload) or not any(map(is_ready, job.pods)):
        return None
    why = say("its addresses are unknown")
    subdomain = subdomain_of(workload)
    if subdomain is not None:
        return scope.all_if_allowed("Service", fields=f"metadata.name={subdomain}", why=why)
    if workload["kind"] not in SERVICES:
        return None
    return scope.all_if_allowed("Service", labels=own_labels(job, keys), why=why)


def subdomain_of(workload: Object) -> str | None:
    """Return the Service by which the pods of a Job find each other; None for a single pod."""
    if workload["kind"] != "Job":
        return None
    return workload["spec"]["template"]["spec"].get("subdomain") or None


def _slices(scope: Scope, services: list[Object] | None) -> list[Object] | None:
    """Return the EndpointSlices of Services; None if they may not be read."""
    if not services:
        return None
    names = ",".join(item["metadata"]["name"] for item in services)
    labels = f"{SERVICE_NAME} in ({names})"
    return if_allowed(lambda: scope.session.list_objects(_SLICES, scope.namespace, labels=labels)[0], None)


def _preemptors(scope: Scope, events: list[Object], keys: Records) -> dict[str, str]:
    """Return uid -> job of the pod that last preempted a pod of this job. The event has its uid and node."""
    matches = [match for event in events if (match := preempted_by(event))]
    if not matches:
        return {}
    uid, node = matches[-1]["uid"], matches[-1]["node"]
    for fields in (f"spec.nodeName={node}", f"status.nominatedNodeName={node}"):
        try:
            pods = scope.session.list_objects(RESOURCES["Pod"], None, fields=fields)[0]
        except ApiError as error:
            if error.lacks_permission:
                return {}
            raise
        for pod in pods:
            if pod["metadata"].get("uid") == uid:
                return {uid: _owner(pod, keys)}
    return {}


def _owner(pod: Object, keys: Records) -> str:
    """Return ``training/urgent in team-a``."""
    identity, metadata = identity_of(pod, keys), pod["metadata"]
    name = prefixed(f"{identity.kind}/", identity.name) if identity else prefixed("pod/", metadata["name"])
    return in_namespace(name, metadata["namespace"])
