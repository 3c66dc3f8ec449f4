"""The disruption that a plan causes beyond its own objects: running pods, dependent objects."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.lost_work import end_description, lost_work, running_description
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.applied_by import applied_by, caller_of
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    RESOURCES,
    WORKLOADS,
    Object,
    annotations_of,
    key_of,
)
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import pod_labels, pods_of_each

# Kinds that are searched for dependents. Secrets are not: their owners could only be read by listing all Secrets.
_DEPENDENTS = ("Service", "ConfigMap", "PersistentVolumeClaim", "HorizontalPodAutoscaler", *WORKLOADS)
_SINGLE_LISTS = 4


def note_finished(plan: Plan, request: ApplyRequest, now: float) -> None:
    """Set ``finished`` of the steps that replace or prune a finished training.

    A second run costs GPU hours and may overwrite the results of the first. `gpuctl rerun` does not use this function:
    its user has named the training. An object that a rollback restores is skipped too.

    :param now: the time of the API server, seconds since 1970.
    """
    for step in plan.steps:
        end = end_description(step.live, now) if step.action in ("replace", "prune") and step.live is not None else None
        if end is None or step.key in request.instead:
            continue
        if step.action == "prune":
            step.finished = end
            continue
        is_paused = step.desired is not None and request.keys.paused in annotations_of(step.desired)
        then = say("comes back paused") if is_paused else say("runs again")
        step.finished = say("{end}: {then}; its pods and logs are deleted", end=end, then=then)


def annotate_applier(session: Session, plan: Plan, keys: Records) -> None:
    """Write the caller's name into the annotations of the workloads that a plan creates or changes."""
    for step in plan.steps:
        if step.key.kind in WORKLOADS and step.action in ("create", "replace", "update") and step.desired is not None:
            name = caller_of(session)
            if name is not None:
                metadata = step.desired["metadata"]
                annotations = {**(metadata.get("annotations") or {}), keys.applied_by: name}
                step.desired = {**step.desired, "metadata": {**metadata, "annotations": annotations}}


def _name_appliers(session: Session, steps: Iterable[Step], keys: Records) -> None:
    """Set ``applied_by`` of steps whose object was last applied by another user."""
    for step in steps:
        name = applied_by(step.live, keys) if step.live is not None else None
        if name is not None and name != caller_of(session):
            step.applied_by = name


def add_disruptions(session: Session, plan: Plan, keys: Records) -> None:
    """Add to a plan's steps: the runtime of pods that are ended, the user who applied them, and dependent objects."""
    now = session.server_time()
    for step in plan.steps:
        if step.deletes:
            ended = [obj for obj in (step.unfinished_run, step.live) if obj is not None]
            step.running = next(filter(None, (running_description(obj, now) for obj in ended)), None)
    ending = [step for step in plan.steps if step.deletes and step.running is not None and step.key.kind in WORKLOADS]
    for namespace in sorted({step.key.namespace for step in ending}):
        _look_at_work(session, namespace, [step for step in ending if step.key.namespace == namespace], now)
    stakes = [step for step in plan.steps if step.deletes and (step.running or step.finished)]
    _name_appliers(session, stakes, keys)
    replaced = [step for step in plan.steps if step.action == "replace" and step.live is not None]
    for namespace in sorted({step.key.namespace for step in replaced}):
        _find_dependents(session, plan, namespace, [step for step in replaced if step.key.namespace == namespace])


def _look_at_work(session: Session, namespace: str, steps: list[Step], now: float) -> None:
    workloads = [step.live for step in steps if step.live is not None]
    selectors = [pod_labels(live) for live in workloads]
    if len(selectors) > _SINGLE_LISTS or not all(selectors):
        selectors = [""]

    def read(labels: str) -> list[Object]:
        return session.list_objects(RESOURCES["Pod"], namespace, labels=labels)[0]

    lists = if_allowed(lambda: session.each(read, selectors), None)
    if lists is None:
        # The workload's own status is used instead.
        return
    pods = [pod for found in lists for pod in found]
    for step, mine in zip(steps, pods_of_each(pods, workloads), strict=True):
        step.running = lost_work(mine, now)


def _find_dependents(session: Session, plan: Plan, namespace: str, steps: list[Step]) -> None:
    """Add the objects that only replaced objects own, and that no controller made: garbage collection deletes them."""
    scope = Scope(session, namespace)
    uids = {step.live["metadata"]["uid"]: step for step in steps if step.live is not None}
    leaving = {key_of(step.live) for step in plan.steps if step.deletes and step.live is not None}
    for kind, found in zip(_DEPENDENTS, session.each(scope.all_if_allowed, _DEPENDENTS), strict=True):
        if found is None:
            for step in steps:
                step.unseen.append(RESOURCES[kind].plural)
            continue
        for obj in found:
            owners = obj["metadata"].get("ownerReferences") or []
            if not owners or key_of(obj) in leaving or any(owner.get("controller") for owner in owners):
                continue
            if all(owner.get("uid") in uids for owner in owners):
                uids[owners[0]["uid"]].dependents.append(key_of(obj))
