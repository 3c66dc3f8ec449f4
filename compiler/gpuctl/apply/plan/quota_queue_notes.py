"""Plans that change or delete the queue of a quota: what it means for jobs that run, and for jobs that wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.capacity.kueue.cohorts import reserved_quota
from gpuctl.capacity.kueue.queue_limits import changed_limits
from gpuctl.kube.kueue import namespace_workloads
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAININGS, Key, Object
from gpuctl.objects.queueing import owner_of_workload
from gpuctl.objects.workload_state import condition

_NAMED = 5
_NAMESPACE = "kubernetes.io/metadata.name"


def check_queue_deletions(session: Session, plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """Add questions for the jobs that deleted queues stop from starting, and keep the ClusterQueues in use.

    Kueue deletes a ClusterQueue after the last job in it has ended. Until then nothing could create it again, so the
    quota could not be restored. Jobs that the plan deletes as well do not count.

    :param steps: the steps of the plan that delete. Returns those among them that no longer do.
    """
    kept = []
    deleted = {step.key for step in steps if step.deletes}
    for step in steps:
        if not step.deletes:
            continue
        if step.key.kind == "LocalQueue":
            _ask_about_jobs(session, plan, step.key, deleted)
        elif (
            step.key.kind == "ClusterQueue"
            and step.live is not None
            and (jobs := _jobs_in(session, step.live, deleted))
        ):
            step.action, step.method = "skip", "none"
            step.reason = say("{jobs:running job} {jobs:uses/use} it; delete it afterwards", jobs=jobs)
            kept.append(step)
    return kept


def note_changed_limits(plan: Plan) -> None:
    """Add notes about running jobs that use more than a changed queue allows, or that it no longer counts."""
    for step in plan.steps:
        if step.key.kind == "ClusterQueue" and step.live is not None and step.desired is not None:
            plan.notes += changed_limits(step.live, step.desired, reserved_quota(step.live))


def _ask_about_jobs(session: Session, plan: Plan, queue: Key, deleted: Collection[Key]) -> None:
    found = [
        item
        for item in _workloads(session, queue.namespace) or []
        if (item.get("spec") or {}).get("queueName") == queue.name and not _is_deleted(item, deleted)
    ]
    waiting = [_name(item) for item in found if not condition(item, "QuotaReserved")]
    # A training keeps its quota until it ends. Each pod of a service has its own.
    services = [
        _name(item) for item in found if condition(item, "QuotaReserved") and _owner(item).get("kind") not in TRAININGS
    ]
    what = say("deletes the queue {queue} of namespace {namespace}", queue=queue.name, namespace=queue.namespace)
    until = say("until the namespace has a quota again")
    if waiting:
        plan.confirm.append(
            say("{what}: {jobs:few5} cannot start {until}", what=what, jobs=sorted(waiting), until=until)
        )
    if services:
        plan.confirm.append(
            say(
                "{what}: pods that replace {jobs:few5} cannot start {until}",
                what=what,
                jobs=sorted(services),
                until=until,
            )
        )


def _jobs_in(session: Session, queue: Object, deleted: Collection[Key]) -> int:
    """Return the number of jobs that hold quota of a ClusterQueue; from its status if Workloads may not be read."""
    selector = (queue.get("spec") or {}).get("namespaceSelector") or {}
    namespace = (selector.get("matchLabels") or {}).get(_NAMESPACE)
    found = _workloads(session, namespace) if namespace else None
    if found is None:
        return int((queue.get("status") or {}).get("reservingWorkloads") or 0)
    name = queue["metadata"]["name"]
    return sum(
        ((item.get("status") or {}).get("admission") or {}).get("clusterQueue") == name
        and not _is_deleted(item, deleted)
        for item in found
    )


def _owner(workload: Object) -> Object:
    return owner_of_workload(workload) or {}


def _is_deleted(workload: Object, deleted: Collection[Key]) -> bool:
    """Return True if a plan deletes the job of a Workload, which for a Deployment is that of one of its pods."""
    owner, namespace = _owner(workload), workload["metadata"]["namespace"]
    return any(
        key.namespace == namespace
        and (
            (key.kind, key.name) == (owner.get("kind"), owner.get("name"))
            or (key.kind == "Deployment" and owner.get("kind") == "Pod" and _is_pod_of(key.name, owner["name"]))
        )
        for key in deleted
    )


def _is_pod_of(deployment: str, pod: str) -> bool:
    """Return True if a pod has the name of a Deployment, the hash of its ReplicaSet, and five characters."""
    return pod.startswith(f"{deployment}-") and pod.removeprefix(f"{deployment}-").count("-") <= 1


def _workloads(session: Session, namespace: str) -> list[Object] | None:
    """Return the unfinished Workloads of a namespace; None if the user may not read them."""
    found = namespace_workloads(session, namespace)
    return None if found is None else [item for item in found if not condition(item, "Finished")]


def _name(workload: Object) -> str:
    owner = _owner(workload)
    return f"{owner['kind'].lower()}/{owner['name']}" if owner else str(workload["metadata"]["name"])
