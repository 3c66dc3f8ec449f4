"""The state of a live workload: running, finished, paused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuctl.objects.api_resources import Object, controller_of, labels_of
from gpuctl.objects.label_names import LEADER_WORKER_SET_NAME, MANAGED_BY, WORKER_INDEX
from gpuctl.objects.role_jobs import JOBSET_LABEL

ENDED_PHASES = ("Succeeded", "Failed")
"""Phases of a pod that has ended."""
NOT_READY_IN_TIME = "PodsReadyTimeout"
"""The reason of Kueue for the eviction of a Workload whose pods were not ready in time."""
_REQUEUED_AT_THE_END = (NOT_READY_IN_TIME, "AdmissionCheck")
_LABELS_OF_RUNS = ("app", MANAGED_BY)
FAILURE_CONDITIONS = ("Failed", "FailureTarget")
"""Conditions of a Job or JobSet that has failed. A Job has the second one while its pods end."""
_END_CONDITIONS = {
    "Job": ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"),
    "JobSet": ("Completed", "Failed"),
}


_BUILT_IN_CONTROLLERS = ("kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller")


def other_controller(workload: Object) -> str:
    """Return the controller that runs a Job or JobSet in place of the built-in one (`spec.managedBy`), such as
    MultiKueue in another cluster; "" without one.
    """
    name = str((workload.get("spec") or {}).get("managedBy") or "")
    return "" if name in _BUILT_IN_CONTROLLERS else name


def find_condition(obj: Object, kind: str) -> Object:
    """Return the condition of a type, whatever its status; empty if it is not set."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == kind), {})


def is_backing_off(workload: Object) -> bool:
    """Return True if Kueue keeps an evicted Workload out of its queue for a backoff time.

    Source: backoffWaitingTimeExpired. The controller removes the marks when the time has passed.
    """
    state = (workload.get("status") or {}).get("requeueState") or {}
    return find_condition(workload, "Requeued").get("status") == "False" or bool(state.get("requeueAt"))


def queueing_time(workload: Object) -> str:
    """Return the time by which a queue orders a Workload: of its creation, or of an eviction that moved it to the end.

    Source: Kueue's ``pkg/workload``, GetQueueOrderTimestamp.
    """
    evicted = condition(workload, "Evicted") or {}
    requeued = evicted.get("lastTransitionTime") if evicted.get("reason") in _REQUEUED_AT_THE_END else None
    return requeued or workload["metadata"].get("creationTimestamp") or ""


def condition(obj: Object, kind: str) -> Any:
    """Return the condition of a type if its status is True, else None."""
    found = find_condition(obj, kind)
    return found if found.get("status") == "True" else None


def end_condition(workload: Object) -> Object:
    """Return the condition that marks the end of a Job or JobSet; empty if it has not ended."""
    kinds = _END_CONDITIONS.get(workload["kind"], ())
    return next(filter(None, (condition(workload, kind) for kind in kinds)), {})


def failure_condition(workload: Object) -> Object:
    """Return the condition that says that a Job or JobSet has failed; empty if it has not."""
    return next(filter(None, (condition(workload, kind) for kind in FAILURE_CONDITIONS)), {})


def has_ended(pod: Object) -> bool:
    """Return True if all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES


def end_state(obj: Object) -> str | None:
    """Return ``finished`` or ``failed`` for a Job or JobSet that has ended, else None."""
    if obj["kind"] == "Job":
        if condition(obj, "Complete") or condition(obj, "SuccessCriteriaMet"):
            return "finished"
        return "failed" if failure_condition(obj) else None
    if obj["kind"] == "JobSet":
        return "finished" if condition(obj, "Completed") else "failed" if condition(obj, "Failed") else None
    return None


def pod_labels(workload: Object) -> str:
    """Return the label selector of a workload's pods; "" if it has none."""
    selector = ((workload.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    if workload["kind"] == "CronJob":
        labels = workload["spec"]["jobTemplate"]["spec"]["template"]["metadata"].get("labels") or {}
        selector = {label: labels[label] for label in _LABELS_OF_RUNS if label in labels}
    if workload["kind"] == "JobSet":
        selector = {JOBSET_LABEL: workload["metadata"]["name"]}
    if workload["kind"] == "LeaderWorkerSet":
        selector = {LEADER_WORKER_SET_NAME: workload["metadata"]["name"]}
    return ",".join(f"{name}={value}" for name, value in selector.items())


def is_pod_of(pod: Object, workload: Object) -> bool:
    """Return True if a workload, its ReplicaSet, StatefulSet or Job controls a pod. Labels do not count: anyone can set
    them.
    """
    return bool(pods_of_each([pod], [workload])[0])


def pods_of_each(pods: Iterable[Object], workloads: Sequence[Object]) -> list[list[Object]]:
    """Return the pods of each workload, as :func:`is_pod_of` decides. All are in one namespace."""
    found: list[list[Object]] = [[] for _ in workloads]
    by_uid = {workload["metadata"]["uid"]: mine for workload, mine in zip(workloads, found, strict=True)}
    by_made = {
        made: mine for workload, mine in zip(workloads, found, strict=True) for made in intermediate_owners(workload)
    }
    for pod in pods:
        owner = controller_of(pod)
        if owner is not None:
            made = next(
                (
                    by_made[one]
                    for one in possible_owners(owner["kind"], owner["name"], labels_of(pod).get("app"))
                    if one in by_made
                ),
                [],
            )
            by_uid.get(owner["uid"], made).append(pod)
    return found


class IntermediateOwner(NamedTuple):
    """An object that a controller creates between a workload and its pods.

    ``beginning``: its name without the generated suffix (see :func:`without_generated_suffix`). A name that merely
    starts with the workload's name may belong to another workload. ``app``: the label of the pods, if another job may
    have such a name. ``is_whole``: ``beginning`` is the whole name.
    """

    kind: str
    beginning: str
    app: str | None = None
    is_whole: bool = False


def intermediate_owners(workload: Object) -> list[IntermediateOwner]:
    """Return the objects between a workload and its pods: a Deployment's ReplicaSet, the Jobs of a JobSet or CronJob,
    the StatefulSets of a LeaderWorkerSet (one of all leaders, and one of the workers of each).

    Source: ``pkg/controller/deployment/sync.go`` (getNewReplicaSet); JobSet's ``placement.go`` (GenJobName);
    ``pkg/controller/cronjob/utils.go`` (getJobName); LeaderWorkerSet's ``leaderworkerset_controller.go`` and
    ``pod_controller.go`` (construct*StatefulSet*).
    """
    name = workload["metadata"]["name"]
    if workload["kind"] == "CronJob":
        return [IntermediateOwner("Job", name, name)]
    if workload["kind"] == "Deployment":
        return [IntermediateOwner("ReplicaSet", name)]
    if workload["kind"] == "JobSet":
        return [
            IntermediateOwner("Job", f"{name}-{item['name']}") for item in workload["spec"].get("replicatedJobs") or []
        ]
    if workload["kind"] == "LeaderWorkerSet":
        return [IntermediateOwner("StatefulSet", name, is_whole=True), IntermediateOwner("StatefulSet", name)]
    return []


def possible_owners(kind: str, name: str, app: str | None = None) -> tuple[IntermediateOwner, ...]:
    """Return the forms in which :func:`intermediate_owners` may list an object. ``app``: the label of its pods."""
    beginning = without_generated_suffix(name)
    whole, part = IntermediateOwner(kind, name, is_whole=True), IntermediateOwner(kind, beginning)
    return (whole, part, IntermediateOwner(kind, beginning, app)) if app is not None else (whole, part)


def without_generated_suffix(name: str) -> str:
    """Return a name without the hash or number that a controller appended after a hyphen."""
    return name.rpartition("-")[0]


def gets_requests(pod: Object) -> bool:
    """Return True unless a pod is a worker of a LeaderWorkerSet: the leader of a replica gets its requests."""
    return labels_of(pod).get(WORKER_INDEX, "0") == "0"
