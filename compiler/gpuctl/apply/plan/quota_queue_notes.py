"""Plans that delete the queue of a quota: jobs that wait cannot start, and jobs that run keep its ClusterQueue."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.session import Session
from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.queueing import owner_of_workload

_NAMED = 5


def check_queue_deletions(session: Session, plan: Plan, steps: Sequence[Step], namespace_key: str) -> list[Step]:
    """Add a question for the jobs that wait in deleted queues, and keep the ClusterQueues that running jobs use.

    Kueue deletes a ClusterQueue after the last job in it has ended. Until then nothing could create it again, so the
    quota could not be restored.

    :param steps: the steps of the plan that delete. Returns those among them that no longer do.
    :param namespace_key: the label of a ClusterQueue with the namespace of its jobs.
    """
    kept = []
    for step in steps:
        if step.key.kind == "LocalQueue":
            found = _workloads(session, step.key.namespace) or []
            in_queue = [item for item in found if (item.get("spec") or {}).get("queueName") == step.key.name]
            waiting = [_name(item) for item in in_queue if not _has(item, "QuotaReserved")]
            if waiting:
                plan.confirm.append(
                    f"deletes the queue {step.key.name} of namespace {step.key.namespace}: "
                    f"{first_few(sorted(waiting), _NAMED)} cannot start until the namespace has a quota again"
                )
        elif (
            step.key.kind == "ClusterQueue"
            and step.live is not None
            and (jobs := _jobs_in(session, step.live, namespace_key))
        ):
            step.action, step.method = "skip", "none"
            step.reason = (
                f"{'1 running job uses' if jobs == 1 else f'{jobs} running jobs use'} it; delete it afterwards"
            )
            kept.append(step)
    return kept


def _jobs_in(session: Session, queue: Object, namespace_key: str) -> int:
    """Return the number of jobs that hold quota of a ClusterQueue; from its status if Workloads may not be read."""
    namespace = labels_of(queue).get(namespace_key)
    found = _workloads(session, namespace) if namespace is not None else None
    if found is None:
        return int((queue.get("status") or {}).get("reservingWorkloads") or 0)
    return sum(_has(item, "QuotaReserved") for item in found)


def _workloads(session: Session, namespace: str) -> list[Object] | None:
    """Return the unfinished Workloads of a namespace; None if the user may not read them."""
    try:
        kinds = kueue_resources(session)
        found = session.list_objects(kinds["Workload"], namespace)[0] if kinds is not None else []
    except ApiError as error:
        if not (error.lacks_permission or error.is_missing):
            raise
        return None
    return [item for item in found if not _has(item, "Finished")]


def _name(workload: Object) -> str:
    owner = owner_of_workload(workload)
    return str(workload["metadata"]["name"]) if owner is None else f"{owner['kind'].lower()}/{owner['name']}"


def _has(workload: Object, condition: str) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)
