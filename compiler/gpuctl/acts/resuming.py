"""Resume: the pods of a paused job start again, as many as before; see pausing.py for what a pause does."""

from __future__ import annotations

import copy

from gpuctl.acts.pause_writes import (
    NotPausable,
    PauseResult,
    change_unless_ended,
    is_active,
    patch_autoscalers,
    patch_version,
    pause_annotations,
    queued_workload,
    set_active,
)
from gpuctl.acts.pausing import pause_undone_by
from gpuctl.apply.plan.dry_run_pods import DryRunPod, as_created_by_controller
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run.remaining_indexes import report_finished_indexes
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Template, clauses, say, verb_of
from gpuctl.objects.api_resources import (
    QUEUE_LABEL,
    TRAININGS,
    Key,
    Object,
    annotations_of,
    key_of,
)
from gpuctl.objects.autoscalers import resume_patch
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, HELD_QUEUE, Records
from gpuctl.objects.pod_templates import pod_templates, with_replicas
from gpuctl.objects.prerequisites import is_waiting, prerequisites_of
from gpuctl.objects.queueing import as_submitted, is_held, queue_of, release
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.objects.workload_start import replicas_before_pause
from gpuctl.objects.workload_state import end_state

_ADMITTED = Template("it starts when Kueue admits it")


def resume(session: Session, workload: Object, keys: Records, waits: str = "") -> PauseResult:
    """Let a job create its pods again, as many as before.

    :param waits: what the pods will wait for; part of the message unless a quota refuses them.
    :raises NotPausable: it has ended, is being deleted, waits for Kueue, or a GitOps controller sets its replicas.
    """
    return change_unless_ended(session, workload, lambda live: _resume(session, live, keys, waits))


def resumed_object(session: Session, live: Object, keys: Records) -> Object | None:
    """Return a paused job as :func:`resume` leaves it; None if that creates no pods.

    A job that goes to a queue of Kueue gets its original node selector, and the age of its Workload.

    :raises NotPausable: it waits for Kueue.
    """
    if live["metadata"].get("deletionTimestamp") or end_state(live) or is_waiting(live, keys):
        return None
    spec = live.get("spec") or {}
    queued = queued_workload(session, live)
    if queued is not None:
        _, item = queued
        if is_active(item):
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
    return with_replicas(live, replicas_before_pause(live, keys))


def _resume(session: Session, live: Object, keys: Records, waits: str) -> PauseResult:
    key, spec = key_of(live), live.get("spec") or {}
    be = verb_of(dry_run=session.dry_run)
    remembered = annotations_of(live).get(keys.paused)
    if is_scheduled(live):
        return _resume_schedule(session, live, keys)
    if is_waiting(live, keys):
        waits = say("it waits for {names:few}", names=list(prerequisites_of(live, keys.after)))
    queued = queued_workload(session, live)
    if queued is not None:
        resource, item = queued
        if is_active(item) and remembered is None:
            waits = waits or say("Kueue decides when it starts")
            return PauseResult(key, "resumed", False, say("is not paused; {waits}", waits=waits))
        set_active(session, resource, item, active=True)
        patch_version(session, live, pause_annotations(keys))
        return _resumed(key, be, waits, say(_ADMITTED))
    report_finished_indexes(session, live)
    if is_held(live) and kueue_resources(session) is not None:
        labels = {QUEUE_LABEL: queue_of(live)}
        gone = {**pause_annotations(keys), HELD_QUEUE: None, FINISHED_INDEXES: None}
        patch_version(session, live, gone, labels=labels)
        return _resumed(key, be, waits, say(_ADMITTED))
    if is_waiting(live, keys):
        if remembered is None:
            return PauseResult(key, "resumed", False, say("is not paused; {waits}", waits=waits))
        patch_version(session, live, pause_annotations(keys))
        return PauseResult(key, "resumed", True, say("{be} resumed; {waits}", be=be, waits=waits))
    if key.kind in TRAININGS:
        if not spec.get("suspend"):
            return _not_paused(session, live, keys)
        # Checked first: afterwards the job's own pods use the quota.
        refusal = _refusal(session, live)
        gone = {**pause_annotations(keys), FINISHED_INDEXES: None}
        patch_version(session, live, gone, spec={"suspend": False})
        return _resumed(key, be, refusal or waits, say("it starts from its beginning, or its last checkpoint"))
    return _resume_service(session, live, keys, waits)


def _resume_service(session: Session, live: Object, keys: Records, waits: str) -> PauseResult:
    key, be = key_of(live), verb_of(dry_run=session.dry_run)
    is_marked = keys.paused in annotations_of(live)
    have = (live.get("spec") or {}).get("replicas", 1)
    tracker = None if have else pause_undone_by(live)
    if tracker is not None:
        raise NotPausable(
            say("{object} is managed by {tracker}, which sets its replicas", object=key, tracker=tracker),
            say("it starts with the next sync of its repository"),
        )
    # First, and also of a service that runs: a paused autoscaler stops its pods.
    changed = patch_autoscalers(session, live, keys.paused, resume_patch)
    if changed and not is_marked:
        return _resumed(key, be, waits, say("its autoscaler sets its replicas"))
    if have:
        return _not_paused(session, live, keys)
    if not is_marked:
        if keys.scales_to_zero in annotations_of(live):
            raise NotPausable(
                say("{object} is not paused: its autoscaler has scaled it to 0", object=key),
                say("it starts when there is load"),
            )
        raise NotPausable(
            say("{object} has 0 replicas, and not by `gpuctl pause`", object=key),
            say("apply its document, which states them"),
        )
    count = replicas_before_pause(live, keys)
    refusal = _refusal(session, live)
    if queue_of(live) and (live.get("status") or {}).get("replicas") and key.kind == "StatefulSet":
        # Kueue's webhook refuses the change until then.
        raise NotPausable(say("the pods of {object} are still ending", object=key), say("run it again in a moment"))
    patch_version(session, live, pause_annotations(keys), spec={"replicas": count})
    if not refusal and (waits or queue_of(live)):
        return _resumed(key, be, waits, say(_ADMITTED))
    said = say("{be} resumed with {replicas:replica}", be=be, replicas=count)
    return PauseResult(key, "resumed", True, clauses(said, refusal), "" if refusal else "resumed")


def _resume_schedule(session: Session, live: Object, keys: Records) -> PauseResult:
    key = key_of(live)
    if not live["spec"].get("suspend"):
        return _not_paused(session, live, keys)
    patch_version(session, live, pause_annotations(keys), spec={"suspend": False})
    # The controller starts the latest missed run, if its deadline has not passed.
    be = verb_of(dry_run=session.dry_run)
    message = say("{be} resumed; if a run was due during the pause, one starts now", be=be)
    return PauseResult(key, "resumed", True, message)


def _resumed(key: Key, be: str, waits: str, otherwise: str) -> PauseResult:
    """Return the result for a job that was resumed.

    :param be: the verb, of :func:`verb_of`.
    :param waits: why it does not start now, "" if nothing is known against it.
    :param otherwise: when it starts without such a reason.
    """
    message = say("{be} resumed; {waits}", be=be, waits=waits or otherwise)
    return PauseResult(key, "resumed", True, message, "" if waits else "resumed")


def _not_paused(session: Session, live: Object, keys: Records) -> PauseResult:
    """Remove the mark of a pause that another client ended: it would hide replicas from the next apply."""
    if keys.paused in annotations_of(live):
        patch_version(session, live, pause_annotations(keys))
        return PauseResult(
            key_of(live),
            "resumed",
            True,
            say("runs already; the mark of its pause {be} removed", be=verb_of(dry_run=session.dry_run)),
        )
    return PauseResult(key_of(live), "resumed", False, say("is not paused"))


def _refusal(session: Session, live: Object) -> str:
    """Return the message if a quota refuses a pod of the job now; "" if none does."""
    going_on = _unsuspended(live)
    step = Step("create", key_of(live))
    for template, pods in pod_templates(going_on):
        if not pods:
            continue
        try:
            session.create(as_created_by_controller(DryRunPod(step, going_on, template, pods, template)), dry_run=True)
        except ApiError as error:
            if error.exceeds_quota:
                return say("but its pods are refused for now: {error}", error=error.message)
    return ""


def _unsuspended(live: Object) -> Object:
    desired = copy.deepcopy(live)
    desired["spec"]["suspend"] = False
    return desired
