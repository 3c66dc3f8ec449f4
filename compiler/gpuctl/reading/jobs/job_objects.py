"""Jobs in the cluster: a main object and its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Object, controller_of, controller_uid, labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.hashed_names import CHANGEABLE, is_hashed_name
from gpuctl.objects.ownership_metadata import Records, is_controlled
from gpuctl.objects.pod_templates import pod_templates, pods_left, replicas
from gpuctl.objects.prerequisites import Prerequisite
from gpuctl.objects.role_jobs import JOBSET_LABEL
from gpuctl.objects.scheduled_jobs import current_runs, is_part_of_job, is_run, is_scheduled, runs_of
from gpuctl.objects.workload_start import not_started
from gpuctl.objects.workload_state import condition, end_state, has_ended, pods_of_each
from gpuctl.reading.jobs.events_of_jobs import event_order, of_job
from gpuctl.reading.jobs.job_ids import id_of
from gpuctl.reading.jobs.job_prerequisites import read_prerequisites
from gpuctl.reading.jobs.notebook_limits import with_lifetime
from gpuctl.reading.jobs.schedule_status import schedule_status
from gpuctl.reading.jobs.status import Status, job_status, pod_status

JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation with the index of a pod of an indexed Job, also of a Job created by a JobSet."""
_OWNER_LABELS = (JOBSET_LABEL, *JOB_LABELS)


class Identity(NamedTuple):
    """The identity of a job, equal for its workload and its pods.

    :param generation: name with a hash under which a GitOps build created the main object; "" if the object has the
        job's own name. Two generations exist while a controller replaces one with the next. Further objects with one
        label ``app``, which other tools create, have their names here.
    """

    namespace: str
    name: str
    kind: str
    generation: str = ""

    @property
    def title(self) -> str:
        """Return the job in messages: ``training/x``."""
        return f"{self.kind}/{self.name}"

    @property
    def object_name(self) -> str:
        """Return the name of the main object."""
        return self.generation or self.name


@dataclass
class Job:
    """A job: its main object (None if only pods are left) and its pods, oldest first.

    :param runs: the Jobs of a scheduled training, oldest first; ``pods`` are then those of its :func:`current_runs`.
    :param refusal: why its controller cannot create more pods; "" if it can.
    :param prerequisites: the jobs that it waits for, while it waits; see :func:`add_prerequisites`.
    """

    identity: Identity
    workload: Object | None
    pods: list[Object] = field(default_factory=list)
    runs: list[Object] = field(default_factory=list)
    refusal: str = ""
    prerequisites: list[Prerequisite] = field(default_factory=list)

    @property
    def active(self) -> Object | None:
        """The object that has the job's pods: the newest unfinished run of a scheduled job, else the main object."""
        unfinished = [run for run in current_runs(self.runs) if end_state(run) is None]
        return unfinished[-1] if unfinished else self.workload

    def of_newest_run(self) -> Job:
        """Return the job with its newest run as main object, and that run's pods; without runs, the job itself."""
        return self.of_run(self.runs[-1]) if self.runs else self

    def of_run(self, run: Object) -> Job:
        """Return the job with one of its runs as main object, and the pods of that run."""
        pods = [pod for pod in self.pods if controller_uid(pod) == run["metadata"]["uid"]]
        return Job(self.identity, run, pods, refusal=self.refusal)

    def status(self, keys: Records, ahead: float = 0.0) -> Status:
        """Return the status of the job.

        :param ahead: seconds by which the API server's clock is ahead of this machine's.
        """
        if self.workload is not None and is_scheduled(self.workload):
            return schedule_status(self.workload, self.runs, self.pods, keys, self.refusal, ahead)
        if self.workload is not None:
            status = job_status(self.workload, self.pods, keys, self.refusal, self.prerequisites)
            return with_lifetime(status, self.workload, self.pods, keys, ahead)
        return pod_status(self.pods[-1]) if self.pods else Status("Unknown", "unknown")


def job_id(job: Job) -> str:
    """Return the id of a job, derived from :func:`main_uid`; "" without a main object and pods."""
    return id_of_uid(job.identity, main_uid(job))


def main_uid(job: Job) -> str:
    """Return the uid of the main object; "" without a main object and pods.

    Without a main object, it is the one that the oldest pod names as its controller, because lists and watches of pods
    may be ahead of those of Jobs. Where other objects create the pods, such as ReplicaSets, it is the pod's own uid.
    """
    if job.workload is not None:
        return str(job.workload["metadata"]["uid"])
    if not job.pods:
        return ""
    owner = controller_of(job.pods[0])
    if owner is not None and owner["kind"] in ("Job", "StatefulSet") and owner["name"] == job.identity.object_name:
        return str(owner["uid"])
    return str(job.pods[0]["metadata"]["uid"])


def id_of_uid(identity: Identity, uid: str) -> str:
    """Return the id of the job with this uid, see :func:`main_uid`; "" without one."""
    return id_of(identity.namespace, identity.kind, identity.name, uid) if uid else ""


def pod_specs(job: Job) -> Iterator[Object]:
    """Yield the specs of a job's pods, of those that it has and of those that it will have."""
    yield from (pod["spec"] for pod in job.pods)
    if job.workload is not None:
        yield from (template.get("spec") or {} for template, _ in pod_templates(not_started(job.workload)))


def identity_of(obj: Object, keys: Records) -> Identity | None:
    """Return the job that a workload or pod belongs to, from its labels; None if gpuctl did not create it."""
    found = labels_of(obj)
    kind = found.get(keys.job_type)
    if kind is None:
        return None
    name = found.get("app") or next((found[label] for label in JOB_LABELS if label in found), None)
    name = name or obj["metadata"]["name"]
    # The labels of a pod name its owner, which may already be deleted.
    owner = next((found[label] for label in _OWNER_LABELS if label in found), None)
    if obj.get("kind") in CHANGEABLE:
        owner = obj["metadata"]["name"]
    generation = owner if owner is not None and is_hashed_name(owner, name) else ""
    return Identity(obj["metadata"].get("namespace") or "", name, kind, generation)


def has_app_label(job: Job) -> bool:
    """Return False for a job whose objects lack the label ``app``, so that no selector has its name."""
    objects = [job.workload] if job.workload is not None else job.pods[:1]
    return all("app" in labels_of(obj) for obj in objects)


def selector_of(job: Job, keys: Records) -> str:
    """Return the label selector of a job's objects. Other jobs without the label ``app`` match that of one without."""
    app = f"app={job.identity.name}" if has_app_label(job) else "!app"
    return f"{keys.job_type}={job.identity.kind},{app}"


def is_generation(identity: Identity) -> bool:
    """Return False for a further main object with the label ``app`` of a job."""
    return not identity.generation or is_hashed_name(identity.generation, identity.name)


def newest_generation(jobs: Iterable[Job]) -> Job:
    """Return the newest generation that is not being deleted: a controller creates the new one while it deletes the
    old. Other objects with the label ``app`` come last.
    """

    def order(job: Job) -> tuple[bool, bool, bool, str, str]:
        metadata = job.workload["metadata"] if job.workload is not None else {}
        lasting = job.workload is not None and not metadata.get("deletionTimestamp")
        created = metadata.get("creationTimestamp") or ""
        return is_generation(job.identity), lasting, job.workload is not None, created, job.identity.object_name

    return max(jobs, key=order)


def workloads(scope: Scope, keys: Records, selector: str = "") -> list[Object]:
    """Return the main objects of jobs.

    :param selector: label selector that limits them.
    """
    wanted = ",".join(part for part in (keys.job_type, selector) if part)
    found = [item for items in scope.lists(WORKLOADS, labels=wanted) for item in items]
    # A JobSet creates Jobs that carry its labels.
    return [item for item in found if not is_controlled(item)]


def read_jobs(scope: Scope, keys: Records, selector: str = "") -> list[Job]:
    """Return all jobs with all their pods, by namespace and name."""
    wanted = ",".join(part for part in (keys.job_type, selector) if part)
    listed = scope.lists([*WORKLOADS, "Pod"], labels=wanted)
    mains = [item for items in listed[:-1] for item in items if is_part_of_job(item)]
    jobs = group_by_job(mains, listed[-1], keys)
    add_refusals(scope, jobs)
    add_prerequisites(scope, jobs, keys, None if selector else mains)
    return jobs


def read_jobs_without_pods(scope: Scope, keys: Records) -> list[Job]:
    """Return all jobs that have a main object, without reading pods."""
    listed = scope.lists(WORKLOADS, labels=keys.job_type)
    return group_by_job([item for items in listed for item in items if is_part_of_job(item)], [], keys)


def group_by_job(mains: Iterable[Object], pods: Iterable[Object], keys: Records) -> list[Job]:
    """Group listed objects into jobs with their pods, by namespace and name.

    :param mains: main objects, and the runs of scheduled trainings.
    """
    jobs: dict[Identity, Job] = {}
    others: dict[Identity, list[Object]] = {}
    mains = sorted(mains, key=_precedence)
    runs = [obj for obj in mains if is_run(obj)]
    for obj in mains:
        identity = identity_of(obj, keys) if not is_run(obj) else None
        if identity is not None and jobs.setdefault(identity, Job(identity, obj)).workload is not obj:
            others.setdefault(identity, []).append(obj)
    for pod in pods:
        identity = identity_of(pod, keys)
        if identity is not None:
            jobs.setdefault(identity, Job(identity, None)).pods.append(pod)
    for identity, objects in others.items():
        jobs |= {job.identity: job for job in _split(jobs[identity], objects)}
    for job in jobs.values():
        if job.workload is not None and is_scheduled(job.workload):
            job.runs = runs_of(job.workload, runs)
            keep_current_pods(job)
        job.pods.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))
    return [jobs[identity] for identity in sorted(jobs)]


def _split(job: Job, objects: Sequence[Object]) -> Iterator[Job]:
    """Yield a job for each further main object of one, and move its pods there."""
    for obj, pods in zip(objects, pods_of_each(job.pods, objects), strict=True):
        own = {pod["metadata"]["uid"] for pod in pods}
        job.pods = [pod for pod in job.pods if pod["metadata"].get("uid") not in own]
        yield Job(job.identity._replace(generation=obj["metadata"]["name"]), obj, pods)


def _precedence(obj: Object) -> tuple[bool, str, str]:
    """Return the order of objects with one label ``app``, which other tools create: the first one is the job's."""
    name = str(obj["metadata"]["name"])
    return labels_of(obj).get("app") != name, name, str(obj["kind"])


def keep_current_pods(job: Job) -> None:
    """Remove the pods of earlier runs from a scheduled job."""
    if job.runs:
        current = {run["metadata"]["uid"] for run in current_runs(job.runs)}
        job.pods = [pod for pod in job.pods if controller_uid(pod) in current]


def add_refusals(scope: Scope, jobs: Iterable[Job]) -> None:
    """Set the refusal of jobs that lack pods, from :func:`creation_failures` and their conditions."""
    without = [job for job in jobs if missing_pods(job)]
    failures = creation_failures(scope, without)
    for job in without:
        assert job.active is not None
        events = failures.get(job.identity, [])
        job.refusal = (
            condition_message(job.active, "ReplicaFailure") or (events[-1].get("message") if events else "") or ""
        )


def creation_failures(scope: Scope, jobs: Sequence[Job]) -> dict[Identity, list[Object]]:
    """Return the FailedCreate events about jobs that lack pods, oldest first. One list serves all jobs; none is read
    without jobs.
    """
    if not jobs:
        return {}
    field = ""
    # For other kinds, events are about the object that creates the pods: a ReplicaSet or a Job.
    if len(jobs) == 1 and jobs[0].active is not None and jobs[0].active["kind"] in ("Job", "StatefulSet"):
        field = f",involvedObject.name={_name_of_pods(jobs[0])}"
    events = scope.all_if_allowed(
        "Event", fields=f"reason=FailedCreate{field}", why=say("why jobs have no pods is not shown")
    )
    named: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        named.setdefault((job.identity.namespace, _name_of_pods(job)), []).append(job)
    found: dict[Identity, list[Object]] = {}
    for event in sorted(events or [], key=event_order):
        about = event.get("involvedObject") or {}
        for name in name_prefixes(about.get("name") or ""):
            for job in named.get((about.get("namespace") or "", name), ()):
                found.setdefault(job.identity, []).extend(of_job([event], job.identity.namespace, job.active, job.pods))
    return found


def add_prerequisites(scope: Scope, jobs: Iterable[Job], keys: Records, listed: Iterable[Object] | None = None) -> None:
    """Set the prerequisites of jobs that wait; see :func:`read_prerequisites`."""
    jobs = list(jobs)
    mains = [job.workload for job in jobs if job.workload is not None]
    found = read_prerequisites(scope, mains, keys, listed)
    for job in jobs:
        if job.workload is not None:
            job.prerequisites = found.get(job.workload["metadata"]["uid"], [])


def name_prefixes(name: str) -> Iterator[str]:
    """Yield a name and its prefixes, dropping one word at a time: ``chat-5d4f-x2z``, ``chat-5d4f``, ``chat``."""
    while name:
        yield name
        name = name.rpartition("-")[0]


def missing_pods(job: Job) -> int:
    """Return the number of pods that a job should have but has not."""
    main = job.active
    if main is None or end_state(main) or main["metadata"].get("deletionTimestamp"):
        return 0
    return max(0, wanted_pods(main) - _made(job))


def _name_of_pods(job: Job) -> str:
    """Return the name that those of the job's pods begin with."""
    return str(job.active["metadata"]["name"]) if job.active is not None else job.identity.object_name


def wanted_pods(workload: Object) -> int:
    """Return the number of pods that should exist. Those of an array that have ended are not counted."""
    return pods_left(workload) if is_array(workload) else replicas(workload)


def _made(job: Job) -> int:
    """Return the number of existing pods that count against the desired number.

    A training's failed pods count: they have rows of their own, and the controller delays the replacement. An array
    replaces ended pods by those of other indexes.
    """
    main = job.active
    if main is not None and is_array(main):
        return sum(not has_ended(pod) for pod in job.pods)
    is_training = main is not None and main["kind"] in ("Job", "JobSet")
    return sum(
        not pod["metadata"].get("deletionTimestamp")
        and (is_training or (pod.get("status") or {}).get("phase") != "Failed")
        for pod in job.pods
    )


def condition_message(workload: Object, kind: str) -> str:
    """Return the message of a condition that is True, or ""."""
    return (condition(workload, kind) or {}).get("message") or ""


def is_idle_schedule(job: Job) -> bool:
    """Return True for a scheduled training without an unfinished run."""
    return job.workload is not None and is_scheduled(job.workload) and job.active is job.workload
