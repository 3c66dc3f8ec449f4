"""Plans that delete the queue of a quota: jobs that wait cannot start, and jobs that run keep its ClusterQueue."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.session import Session
from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import Object
from gpuctl.objects.queueing import owner_of_workload

_NAMED = 5


def check_queue_deletions(session: Session, plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """Add a question for the jobs that wait in deleted queues, and keep the ClusterQueues that running jobs use.

    Kueue deletes a ClusterQueue after the last job in it has ended. Until then nothing could create it again, so the
    quota could not be restored.

    :param steps: the steps of the plan that delete. Returns those among them that no longer do.
    """
    kept = []
    for step in steps:
        if step.key.kind == "LocalQueue":
            waiting = [_name(item) for item in _workloads(session, step) if not _has(item, "QuotaReserved")]
            if waiting:
                plan.confirm.append(
                    f"deletes the queue {step.key.name} of namespace {step.key.namespace}: "
                    f"{first_few(sorted(waiting), _NAMED)} cannot start until the namespace has a quota again"
                )
        elif step.key.kind == "ClusterQueue" and step.live is not None:
            jobs = (step.live.get("status") or {}).get("reservingWorkloads") or 0
            if jobs:
                step.action, step.method = "skip", "none"
                who = "1 running job uses" if jobs == 1 else f"{jobs} running jobs use"
                step.reason = f"{who} it; delete it after their end"
                kept.append(step)
    return kept


def _workloads(session: Session, queue: Step) -> list[Object]:
    """Return the unfinished Workloads of a LocalQueue; empty if the user may not read them."""
    try:
        kinds = kueue_resources(session)
        found = session.list_objects(kinds["Workload"], queue.key.namespace)[0] if kinds is not None else []
    except ApiError as error:
        if not (error.lacks_permission or error.is_missing):
            raise
        return []
    return [
        item
        for item in found
        if (item.get("spec") or {}).get("queueName") == queue.key.name and not _has(item, "Finished")
    ]


def _name(workload: Object) -> str:
    owner = owner_of_workload(workload)
    return str(workload["metadata"]["name"]) if owner is None else f"{owner['kind'].lower()}/{owner['name']}"


def _has(workload: Object, condition: str) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)
