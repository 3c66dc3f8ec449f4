"""Pause and resume: a paused job's pods end and free their GPUs until it is resumed.

A Job or JobSet is suspended (``spec.suspend``). So is a CronJob, which then creates no further runs; its unfinished
run continues. A Deployment or StatefulSet is scaled to 0, with its replicas recorded in an annotation. An autoscaler
does nothing until then: it never scales from 0, or is paused too. Kueue frees its quota. Kueue would unsuspend a Job
that another client suspends: under it the Workload is deactivated, and a Job without a Workload is kept out of its
queue.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from gpuctl.apply.plan.dry_run_pods import DryRunPod, as_created_by_controller
from gpuctl.apply.plan.gitops_tracking import tracked_by
from gpuctl.apply.plan.lost_work import ended_word
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run.remaining_indexes import report_finished_indexes
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ApiError, Changed, NotPossible
from gpuctl.kube.kueue import kueue_resources, workload_of
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Template, clauses, say, verb_of
from gpuctl.objects.api_resources import (
    QUEUE_LABEL,
    TRAINING_FORMS,
    TRAININGS,
    Key,
    Object,
    Resource,
    annotations_of,
    key_of,
)
from gpuctl.objects.autoscalers import AUTOSCALERS, SCALED, pause_patch, resume_patch
from gpuctl.objects.label_names import MANAGED_BY, MANAGER
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, HELD_QUEUE, Records, is_controlled
from gpuctl.objects.pod_templates import pod_templates, pods_left
from gpuctl.objects.prerequisites import is_waiting, prerequisites_of
from gpuctl.objects.queueing import as_submitted, is_held, queue_of, release
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.objects.workload_state import end_state

_ADMITTED = Template("it starts when Kueue admits it")
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


def pause_undone_by(live: Object) -> str | None:
    """Return the GitOps controller that would start a paused job again; None if it would stay paused.

    The manifests of gpuctl state the replicas of a service, unless an autoscaler sets them; they never state `suspend`.
    """
    if live["kind"] in TRAINING_FORMS:
        return None
    entries = live["metadata"].get("managedFields") or []
    holders = [entry for entry in entries if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})]
    if holders and all(entry.get("subresource") == "scale" for entry in holders):
        return None
    return tracked_by(live)


def check_pause_lasts(live: Object) -> None:
    """Check that no GitOps controller would undo a pause. Call this before a checkpoint runs for the pause.

    :raises NotPausable: one would.
    """
    tracker = pause_undone_by(live)
    if tracker is not None:
        raise NotPausable(
            say(
                "{object} is managed by {tracker}, which sets its replicas and would start it again",
                object=key_of(live),
                tracker=tracker,
            ),
            say("scale it down, or remove it, in its repository"),
        )


def pause(session: Session, workload: Object, keys: Records, reason: str | None = None) -> PauseResult:
    """End a job's pods and keep the job.

    :param reason: why a policy pauses it, for its owner; None if a user does.
    :raises NotPausable: it has ended, is being deleted, or a GitOps controller would start it again.
    """
    check_pause_lasts(workload)
    return _change(session, workload, lambda live: _pause(session, live, keys, reason))


def resume(session: Session, workload: Object, keys: Records, waits: str = "") -> PauseResult:
    """Let a job create its pods again, as many as before.

    :param waits: what the pods will wait for; part of the message unless a quota refuses them.
    :raises NotPausable: it has ended, is being deleted, waits for Kueue, or a GitOps controller sets its replicas.
    """
    return _change(session, workload, lambda live: _resume(session, live, keys, waits))


def resumed_object(session: Session, live: Object, keys: Records) -> Object | None:
    """Return a paused job as :func:`resume` leaves it; None if that creates no pods.

    A job that goes to a queue of Kueue gets its original node selector, and the age of its Workload.

    :raises NotPausable: it waits for Kueue.
    """
    if live["metadata"].get("deletionTimestamp") or end_state(live) or is_waiting(live, keys):
        return None
    spec = live.get("spec") or {}
    queued = _workload_of(session, live)
    if queued is not None:
        _, item = queued
        if _is_active(item):
            # It is in the queue already, even if a mark of an interrupted pause is left.
            return None
        desired = _unsuspended(live)
        as_submitted(desired, item)
        desired["metadata"]["creationTimestamp"] = item["metadata"]["creationTimestamp"]
        return desired
    if is_held(live) and kueue_resources(session) is not None:
        desired = _unsuspended(live)
        release(desired)
        del desired["metadata"]["creationTimestamp"]
        return desired
    if is_scheduled(live):
        return None
    if live["kind"] in TRAININGS:
        return _unsuspended(live) if spec.get("suspend") else None
    if spec.get("replicas", 1) or keys.paused not in annotations_of(live) or pause_undone_by(live) is not None:
        return None
    return {**live, "spec": {**spec, "replicas": _replicas_before_pause(live, keys)}}


def _unsuspended(live: Object) -> Object:
    desired = copy.deepcopy(live)
    desired["spec"]["suspend"] = False
    return desired


def _replicas_before_pause(live: Object, keys: Records) -> int:
    """Return the number of replicas that a paused service had."""
    said = annotations_of(live).get(keys.paused, "")
    return int(said) if said.isdecimal() and int(said) else 1


def _change(session: Session, workload: Object, change: Callable[[Object], PauseResult]) -> PauseResult:
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


def _pause(session: Session, live: Object, keys: Records, reason: str | None) -> PauseResult:
    key, spec = key_of(live), live.get("spec") or {}
    be = verb_of(dry_run=session.dry_run)
    stays = verb_of(dry_run=session.dry_run, done="stays")
    marked = keys.paused in annotations_of(live)
    if is_scheduled(live):
        return _pause_schedule(session, live, keys, reason)
    queued = _workload_of(session, live)
    if queued is not None:
        resource, item = queued
        if not _is_active(item) and marked:
            return PauseResult(key, "paused", False, say("is paused already"), "paused")
        _patch(session, live, {"metadata": {"annotations": _mark(keys, "0", reason)}})
        _activate(session, resource, item, active=False)
        if spec.get("suspend"):
            said = say("{be} paused; it waits no longer in Kueue's queue {queue}", be=be, queue=queue_of(live))
            return PauseResult(key, "paused", True, said, "paused")
        return PauseResult(
            key, "paused", True, say("{be} paused; Kueue ends its pods and gives its GPUs to others", be=be), "paused"
        )
    if key.kind in TRAININGS:
        if spec.get("suspend") and marked:
            return PauseResult(key, "paused", False, say("is paused already"), "paused")
        running = pods_left(live)
        tracker = tracked_by(live)
        lasts = (
            say("; {tracker} does not undo this, unless its manifest sets `suspend`", tracker=tracker)
            if tracker is not None
            else ""
        )
        _patch(session, live, {"metadata": {"annotations": _mark(keys, "0", reason)}, "spec": {"suspend": True}})
        if running:
            return PauseResult(key, "paused", True, _ends(running, be) + lasts, "gpus-freed")
        return PauseResult(
            key, "paused", True, say("{stays} suspended until it is resumed{lasts}", stays=stays, lasts=lasts)
        )
    count = int(spec.get("replicas", 1))
    if not count and marked:
        return PauseResult(key, "paused", False, say("is paused already"), "paused")
    for scaler in _autoscalers(session, live):
        _patch_scaler(session, scaler, pause_patch(scaler, keys.paused))
    _patch(session, live, {"metadata": {"annotations": _mark(keys, str(count), reason)}, "spec": {"replicas": 0}})
    if count:
        return PauseResult(key, "paused", True, _ends(count, be), "gpus-freed")
    return PauseResult(key, "paused", True, say("{stays} at 0 replicas until it is resumed", stays=stays))


def _mark(keys: Records, replicas: str | None = None, reason: str | None = None) -> dict[str, str | None]:
    """Return the annotations of a pause; without ``replicas``, the change that removes them."""
    return {keys.paused: replicas, keys.pause_reason: reason}


def _pause_schedule(session: Session, live: Object, keys: Records, reason: str | None) -> PauseResult:
    key, is_suspended = key_of(live), bool(live["spec"].get("suspend"))
    if is_suspended and keys.paused in annotations_of(live):
        return PauseResult(key, "paused", False, say("is paused already"), "paused")
    _patch(session, live, {"metadata": {"annotations": _mark(keys, "0", reason)}, "spec": {"suspend": True}})
    running = [item["name"] for item in (live.get("status") or {}).get("active") or []]
    said = say("; its unfinished run {runs:and} continues", runs=running) if running else ""
    be = verb_of(dry_run=session.dry_run)
    message = say("{be} paused: no further run starts until it is resumed{runs}", be=be, runs=said)
    return PauseResult(key, "paused", True, message, "paused")


def _resume_schedule(session: Session, live: Object, keys: Records) -> PauseResult:
    key, mark = key_of(live), {"annotations": _mark(keys)}
    if not live["spec"].get("suspend"):
        return _not_paused(session, live, annotations_of(live).get(keys.paused), keys)
    _patch(session, live, {"metadata": mark, "spec": {"suspend": False}})
    # The controller starts the latest missed run, if its deadline has not passed.
    be = verb_of(dry_run=session.dry_run)
    message = say("{be} resumed; if a run was due during the pause, one starts now", be=be)
    return PauseResult(key, "resumed", True, message)


def _ends(pods: int, be: str) -> str:
    what = say("its pod ends") if pods == 1 else say("its {pods} pods end", pods=pods)
    return say("{be} paused; {pods}, which frees the GPUs and removes the logs", be=be, pods=what)


def _resume(session: Session, live: Object, keys: Records, waits: str) -> PauseResult:
    key, spec = key_of(live), live.get("spec") or {}
    be = verb_of(dry_run=session.dry_run)
    remembered = annotations_of(live).get(keys.paused)
    if is_scheduled(live):
        return _resume_schedule(session, live, keys)
    if is_waiting(live, keys):
        waits = say("it waits for {names:few}", names=list(prerequisites_of(live, keys.after)))
    queued = _workload_of(session, live)
    if queued is not None:
        resource, item = queued
        if _is_active(item) and remembered is None:
            waits = waits or say("Kueue decides when it starts")
            return PauseResult(key, "resumed", False, say("is not paused; {waits}", waits=waits))
        _activate(session, resource, item, active=True)
        _patch(session, live, {"metadata": {"annotations": _mark(keys)}})
        return _resumed(key, be, waits, say(_ADMITTED))
    report_finished_indexes(session, live)
    if is_held(live) and kueue_resources(session) is not None:
        labels = {QUEUE_LABEL: queue_of(live)}
        gone = {**_mark(keys), HELD_QUEUE: None, FINISHED_INDEXES: None}
        _patch(session, live, {"metadata": {"labels": labels, "annotations": gone}})
        return _resumed(key, be, waits, say(_ADMITTED))
    if is_waiting(live, keys):
        if remembered is None:
            return PauseResult(key, "resumed", False, say("is not paused; {waits}", waits=waits))
        _patch(session, live, {"metadata": {"annotations": _mark(keys)}})
        return PauseResult(key, "resumed", True, say("{be} resumed; {waits}", be=be, waits=waits))
    if key.kind in TRAININGS:
        if not spec.get("suspend"):
            return _not_paused(session, live, remembered, keys)
        # Checked first: afterwards the job's own pods use the quota.
        refusal = _refusal(session, live)
        gone = {**_mark(keys), FINISHED_INDEXES: None}
        _patch(session, live, {"metadata": {"annotations": gone}, "spec": {"suspend": False}})
        return _resumed(key, be, refusal or waits, say("it starts from its beginning, or its last checkpoint"))
    if spec.get("replicas", 1):
        return _not_paused(session, live, remembered, keys)
    tracker = pause_undone_by(live)
    if tracker is not None:
        raise NotPausable(
            say("{object} is managed by {tracker}, which sets its replicas", object=key, tracker=tracker),
            say("it starts with the next sync of its repository"),
        )
    if remembered is None:
        if keys.scales_to_zero in annotations_of(live):
            raise NotPausable(
                say("{object} is not paused: its autoscaler has scaled it to 0", object=key),
                say("it starts when there is load"),
            )
        raise NotPausable(
            say("{object} has 0 replicas, and not by `gpuctl pause`", object=key),
            say("apply its document, which states them"),
        )
    count = _replicas_before_pause(live, keys)
    refusal = _refusal(session, live)
    if queue_of(live) and (live.get("status") or {}).get("replicas") and key.kind == "StatefulSet":
        # Kueue's webhook refuses the change until then.
        raise NotPausable(say("the pods of {object} are still ending", object=key), say("run it again in a moment"))
    _patch(session, live, {"metadata": {"annotations": _mark(keys)}, "spec": {"replicas": count}})
    for scaler in _autoscalers(session, live):
        _patch_scaler(session, scaler, resume_patch(scaler, keys.paused))
    if not refusal and (waits or queue_of(live)):
        return _resumed(key, be, waits, say(_ADMITTED))
    said = say("{be} resumed with {replicas:replica}", be=be, replicas=count)
    if refusal:
        return PauseResult(key, "resumed", True, clauses(said, refusal))
    return PauseResult(key, "resumed", True, said, "resumed")


def _resumed(key: Key, be: str, waits: str, otherwise: str) -> PauseResult:
    """Return the result for a job that was resumed.

    :param be: the verb, of :func:`verb_of`.
    :param waits: why it does not start now, "" if nothing is known against it.
    :param otherwise: when it starts without such a reason.
    """
    message = say("{be} resumed; {waits}", be=be, waits=waits or otherwise)
    return PauseResult(key, "resumed", True, message, "" if waits else "resumed")


def _autoscalers(session: Session, live: Object) -> list[Object]:
    """Return the autoscalers of a service that might start it while it is paused, without those that KEDA creates."""
    scope = Scope(session, live["metadata"]["namespace"])
    found: list[Object] = []
    for kind in sorted(AUTOSCALERS) if live["kind"] in SCALED else ():
        # Those that may not be read are not gpuctl's.
        found += scope.all_if_allowed(kind, labels=f"{MANAGED_BY}={MANAGER},app={live['metadata']['name']}") or []
    return [scaler for scaler in found if not is_controlled(scaler)]


def _patch_scaler(session: Session, scaler: Object, patch: Object | None) -> None:
    if patch is not None:
        session.patch(key_of(scaler), patch)


def _refusal(session: Session, live: Object) -> str:
    """Return the message if a quota refuses a pod of the job now; "" if none does."""
    going_on = _unsuspended(live)
    step = Step("create", key_of(live), desired=going_on)
    for template, pods in pod_templates(going_on):
        if not pods:
            continue
        try:
            session.create(as_created_by_controller(DryRunPod(step, template, pods, template)), dry_run=True)
        except ApiError as error:
            if error.exceeds_quota:
                return say("but its pods are refused for now: {error}", error=error.message)
    return ""


def _not_paused(session: Session, live: Object, remembered: str | None, keys: Records) -> PauseResult:
    """Remove the mark of a pause that another client ended: it would hide replicas from the next apply."""
    if remembered is not None:
        _patch(session, live, {"metadata": {"annotations": _mark(keys)}})
        return PauseResult(
            key_of(live),
            "resumed",
            True,
            say("runs already; the mark of its pause {be} removed", be=verb_of(dry_run=session.dry_run)),
        )
    return PauseResult(key_of(live), "resumed", False, say("is not paused"))


def _patch(session: Session, live: Object, patch: Object) -> None:
    metadata = {**patch["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    session.patch(key_of(live), {**patch, "metadata": metadata})


def _workload_of(session: Session, live: Object) -> tuple[Resource, Object] | None:
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


def _is_active(workload: Object) -> bool:
    return (workload.get("spec") or {}).get("active") is not False


def _activate(session: Session, resource: Resource, item: Object, *, active: bool) -> None:
    """Set ``spec.active``. Source: Kueue's ``kueuectl stop workload`` and ``resume workload``."""
    metadata = item["metadata"]
    path = resource.path(metadata["namespace"], metadata["name"])
    session.patch_at(path, {"metadata": {"uid": metadata["uid"]}, "spec": {"active": active}})
