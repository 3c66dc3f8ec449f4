"""Writes that pause and resume share: marks of a pause, Kueue's Workloads, autoscalers, one version of a job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from gpuctl.apply.plan.lost_work import ended_word
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ApiError, Changed, NotPossible
from gpuctl.kube.kueue import kueue_resources, workload_of
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    TRAININGS,
    Key,
    Object,
    Resource,
    key_of,
)
from gpuctl.objects.autoscalers import AUTOSCALERS, SCALED
from gpuctl.objects.label_names import MANAGED_BY, MANAGER
from gpuctl.objects.ownership_metadata import Records, is_controlled
from gpuctl.objects.queueing import is_held, queue_of
from gpuctl.objects.workload_state import end_state

_ATTEMPTS = 10
_KUEUE_CREATES = 5.0
"""Seconds to wait for the Workload of a job that was just applied."""
_POLL = 0.2

PauseEffect = Literal["", "paused", "gpus-freed", "resumed"]


class PauseResult(NamedTuple):
    """The result for a job: ``status`` is ``paused`` or ``resumed``; ``changed`` is False if it was so already.

    ``effect``: the job is paused, its pods end and free their GPUs, or it starts again; "" for anything else.
    """

    key: Key
    status: str
    changed: bool
    message: str
    effect: PauseEffect = ""


class NotPausable(NotPossible):
    """The job cannot be paused or resumed; nothing was changed."""


def change_unless_ended(session: Session, workload: Object, change: Callable[[Object], PauseResult]) -> PauseResult:
    """Change exactly the version that was read; after a conflict read it again."""
    key = key_of(workload)
    live: Object | None = workload
    for _ in range(_ATTEMPTS):
        if live is None or live["metadata"]["uid"] != workload["metadata"]["uid"]:
            raise NotPausable(say("{object} was deleted", object=key))
        if live["metadata"].get("deletionTimestamp"):
            raise NotPausable(say("{object} is being deleted", object=key))
        ended = end_state(live)
        if ended:
            again = say("{command} runs it again", command=JobHint("rerun", key.name, key.namespace))
            raise NotPausable(say("{object} has {state}", object=key, state=ended_word(ended)), again)
        try:
            return change(live)
        except ApiError as error:
            if not error.is_conflict:
                raise
            live = session.get(key)
    raise Changed(say("{object} is being changed by other clients", object=key), say("run it again"))


def pause_annotations(keys: Records, replicas: str | None = None, reason: str | None = None) -> dict[str, str | None]:
    """Return the annotations of a pause; without ``replicas``, the change that removes them."""
    return {keys.paused: replicas, keys.pause_reason: reason}


def patch_version(
    session: Session,
    live: Object,
    annotations: dict[str, str | None],
    *,
    labels: dict[str, str] | None = None,
    spec: Object | None = None,
) -> None:
    """Patch a job if it still is the version that was read."""
    metadata: Object = {"annotations": annotations, "resourceVersion": live["metadata"]["resourceVersion"]}
    if labels is not None:
        metadata["labels"] = labels
    session.patch(key_of(live), {"metadata": metadata, **({} if spec is None else {"spec": spec})})


def queued_workload(session: Session, live: Object) -> tuple[Resource, Object] | None:
    """Return Kueue's Workload of a training that names a queue; None without Kueue, or if the training is kept out of
    its queue. Services are scaled to 0, and have no Workload then.

    :raises NotPausable: Kueue has not created it yet.
    """
    if live["kind"] not in TRAININGS or not queue_of(live):
        return None
    kinds = kueue_resources(session)
    if kinds is None or is_held(live):
        return None
    resource = kinds["Workload"]
    end = time.monotonic() + _KUEUE_CREATES
    while True:
        found = workload_of(session.list_objects(resource, live["metadata"]["namespace"])[0], live)
        if found is not None:
            return resource, found
        if time.monotonic() > end:
            break
        time.sleep(_POLL)
    raise NotPausable(
        say(
            "{object} names the queue {queue} of Kueue, and Kueue has no Workload for it yet",
            object=key_of(live),
            queue=queue_of(live),
        ),
        say("run it again in a moment; if this repeats, Kueue is not running"),
    )


def is_active(workload: Object) -> bool:
    """Return True if Kueue may start a Workload."""
    return (workload.get("spec") or {}).get("active") is not False


def set_active(session: Session, resource: Resource, item: Object, *, active: bool) -> None:
    """Set ``spec.active``. Source: Kueue's ``kueuectl stop workload`` and ``resume workload``."""
    metadata = item["metadata"]
    path = resource.path(metadata["namespace"], metadata["name"])
    session.patch_at(path, {"metadata": {"uid": metadata["uid"]}, "spec": {"active": active}})


def _own_autoscalers(session: Session, live: Object) -> list[Object]:
    """Return the autoscalers of a service that might start it while it is paused, without those that KEDA creates."""
    scope = Scope(session, live["metadata"]["namespace"])
    found: list[Object] = []
    for kind in sorted(AUTOSCALERS) if live["kind"] in SCALED else ():
        # Those that may not be read are not gpuctl's.
        found += scope.all_if_allowed(kind, labels=f"{MANAGED_BY}={MANAGER},app={live['metadata']['name']}") or []
    return [scaler for scaler in found if not is_controlled(scaler)]


def patch_autoscalers(
    session: Session, live: Object, mark: str, change: Callable[[Object, str], Object | None]
) -> bool:
    """Patch the own autoscalers of a service where there is anything to change; return True if there was.

    :param change: returns the patch of an autoscaler, or None.
    """
    patches = [(key_of(scaler), change(scaler, mark)) for scaler in _own_autoscalers(session, live)]
    for key, patch in patches:
        if patch is not None:
            session.patch(key, patch)
    return any(patch is not None for _, patch in patches)
