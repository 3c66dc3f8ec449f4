"""Pause: a job's pods end and free their GPUs until it is resumed (:mod:`gpuctl.acts.resuming`).

A Job or JobSet is suspended (``spec.suspend``). So is a CronJob, which then creates no further runs; its unfinished
run continues. A Deployment or StatefulSet is scaled to 0, with its replicas recorded in an annotation. An autoscaler
does nothing until then: it never scales from 0, or is paused too. Kueue frees its quota. Kueue would unsuspend a Job
that another client suspends: under it the Workload is deactivated, and a Job without a Workload is kept out of its
queue.
"""

from __future__ import annotations

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
from gpuctl.apply.plan.gitops_tracking import tracked_by
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say, verb_of
from gpuctl.objects.api_resources import (
    TRAINING_FORMS,
    TRAININGS,
    Object,
    annotations_of,
    key_of,
)
from gpuctl.objects.autoscalers import pause_patch
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import pods_left
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.scheduled_jobs import is_scheduled


def pause(session: Session, workload: Object, keys: Records, reason: str | None = None) -> PauseResult:
    """End a job's pods and keep the job.

    :param reason: why a policy pauses it, for its owner; None if a user does.
    :raises NotPausable: it has ended, is being deleted, or a GitOps controller would start it again.
    """
    check_pause_lasts(workload)
    return change_unless_ended(session, workload, lambda live: _pause(session, live, keys, reason))


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


def _pause(session: Session, live: Object, keys: Records, reason: str | None) -> PauseResult:
    key, spec = key_of(live), live.get("spec") or {}
    be = verb_of(dry_run=session.dry_run)
    stays = verb_of(dry_run=session.dry_run, done="stays")
    marked = keys.paused in annotations_of(live)
    if is_scheduled(live):
        return _pause_schedule(session, live, keys, reason)
    queued = queued_workload(session, live)
    if queued is not None:
        resource, item = queued
        if not is_active(item) and marked:
            return PauseResult(key, "paused", False, say("is paused already"), "paused")
        patch_version(session, live, pause_annotations(keys, "0", reason))
        set_active(session, resource, item, active=False)
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
        patch_version(session, live, pause_annotations(keys, "0", reason), spec={"suspend": True})
        if running:
            return PauseResult(key, "paused", True, _ends(running, be) + lasts, "gpus-freed")
        return PauseResult(
            key, "paused", True, say("{stays} suspended until it is resumed{lasts}", stays=stays, lasts=lasts)
        )
    count = int(spec.get("replicas", 1))
    # First, and also of a paused service: an interrupted resume may have resumed its autoscaler already.
    changed = patch_autoscalers(session, live, keys.paused, pause_patch)
    if count or not marked:
        patch_version(session, live, pause_annotations(keys, str(count), reason), spec={"replicas": 0})
    elif not changed:
        return PauseResult(key, "paused", False, say("is paused already"), "paused")
    if count:
        return PauseResult(key, "paused", True, _ends(count, be), "gpus-freed")
    return PauseResult(key, "paused", True, say("{stays} at 0 replicas until it is resumed", stays=stays))


def _pause_schedule(session: Session, live: Object, keys: Records, reason: str | None) -> PauseResult:
    key, is_suspended = key_of(live), bool(live["spec"].get("suspend"))
    if is_suspended and keys.paused in annotations_of(live):
        return PauseResult(key, "paused", False, say("is paused already"), "paused")
    patch_version(session, live, pause_annotations(keys, "0", reason), spec={"suspend": True})
    running = [item["name"] for item in (live.get("status") or {}).get("active") or []]
    said = say("; its unfinished run {runs:and} continues", runs=running) if running else ""
    be = verb_of(dry_run=session.dry_run)
    message = say("{be} paused: no further run starts until it is resumed{runs}", be=be, runs=said)
    return PauseResult(key, "paused", True, message, "paused")


def _ends(pods: int, be: str) -> str:
    what = say("its pod ends") if pods == 1 else say("its {pods} pods end", pods=pods)
    return say("{be} paused; {pods}, which frees the GPUs and removes the logs", be=be, pods=what)
