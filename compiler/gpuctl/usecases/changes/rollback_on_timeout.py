"""`apply --wait --rollback`: restore changed workloads that do not run in time, by another apply.

A replaced workload is restored as its former object, with fields set by other managers; a training that had ended is
restored suspended. Its companions are lowered from its document. New workloads stay, so that the user can inspect them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.plan import ConfirmationMissing, Plan, Step
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.background_history import BackgroundHistory
from gpuctl.apply.run.history_writer import ApplyOrigin
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.wait_running import NotRunning
from gpuctl.apply.workflow import apply
from gpuctl.backend.emitter import emit_object
from gpuctl.backend.lift import lift
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import Key, Object, annotations_of, key_of, labels_of
from gpuctl.objects.ownership_metadata import Records, is_ours
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.compiling import compile_for, platform_source, request_of

_DONE = frozenset({"done"})


def restore_late_workloads(
    session: Session,
    request: ApplyRequest,
    error: NotRunning,
    run: RunOptions,
    callbacks: RunCallbacks,
    who: str | None = None,
) -> NotRunning:
    """Restore the changed workloads that do not run. The steps of the plan get their results.

    :param who: the user, for the history.
    :returns: the error to raise: why the workloads do not run, and what was restored.
    """
    plan, said = error.plan, list(error.late.values())
    changed: list[Step] = []
    hints: list[str] = []
    for step in plan.steps:
        if step.key not in error.late:
            continue
        why = JobHint("why", step.key.name, step.key.namespace)
        delete = why._replace(action="delete")
        if step.action == "create":
            said.append(say("{object} is new, and stays unchanged", object=step.key))
            hints.append(say("{why} shows the cause; {delete} deletes it", why=why, delete=delete))
        elif not _changes_pods(step):
            said.append(say("{object} was not changed by this apply, and stays unchanged", object=step.key))
            hints.append(say("{command} shows the cause", command=why))
        elif not _is_ours_still(session, step, request.keys):
            said.append(say("{object} was changed or deleted by another client, and stays unchanged", object=step.key))
        else:
            changed.append(step)
    if changed:
        callbacks.on_message(f"restoring: {', '.join(str(_former_key(step)) for step in changed)}")
        said += _bring_back(session, request, (plan, changed, who), error.late, run, callbacks)
    return NotRunning("\n".join(said), plan, clauses(*dict.fromkeys(hints)) or None, error.late)


def _former_key(step: Step) -> Key:
    """Return the key of a step's workload in its former form."""
    return step.key if step.live is None else step.key._replace(kind=step.live["kind"])


def _is_ours_still(session: Session, step: Step, keys: Records) -> bool:
    """Return True if a workload is still as the plan changed it."""
    live = session.get(step.key)
    made = annotations_of(step.desired).get(keys.hash) if step.desired is not None else None
    return live is not None and made is not None and annotations_of(live).get(keys.hash) == made


def _changes_pods(step: Step) -> bool:
    """Return True if a step changes more than set membership and ownership metadata."""
    return step.action == "replace" or (
        step.action == "update" and any(change.path.partition(".")[0] == "spec" for change in step.changes)
    )


def _bring_back(
    session: Session,
    request: ApplyRequest,
    forth: tuple[Plan, Sequence[Step], str | None],
    late: Mapping[Key, str],
    run: RunOptions,
    callbacks: RunCallbacks,
) -> list[str]:
    """Apply the former documents; return the sentences of the error.

    :param forth: the plan that was carried out, its steps to undo, and the user.
    """
    plan, changed, who = forth
    names = ", ".join(str(_former_key(step)) for step in changed)
    try:
        former = _former_request(session, request, plan, changed)
        # A workload that does not run has no progress to save.
        quiet = replace(callbacks, confirm=_ends_no_others, on_step_done=lambda step: None)
        with BackgroundHistory(session, request.keys, lambda: ApplyOrigin(who, is_back=True)) as recorder:
            back = apply(session, former, replace(run, checkpoint=False), recorder.follow(quiet))
            recorder.finish()
    except (ClusterError, InvalidDocuments) as failure:
        why = failure.message if isinstance(failure, ClusterError) else say("its former document is no longer valid")
        for step in changed:
            step.result, step.error = (
                "failed",
                say("{object} could not be restored: {reason}", object=_former_key(step), reason=why),
            )
            callbacks.on_step_done(replace(step, error=None))
        more = getattr(getattr(failure, "plan", None), "unfinished", False)
        plan.unfinished = plan.unfinished or bool(more)
        return [say("{object} could not be restored: {reason}", object=names, reason=why)]
    plan.notes += [note for note in back.notes if note not in plan.notes]
    plan.unfinished, plan.outage = plan.unfinished or back.unfinished, plan.outage or back.outage
    return _told(plan, back, changed, late, callbacks)


def _ends_no_others(back: Plan) -> bool:
    """Confirm the questions of the rollback: the option covers the workloads that do not run, but no evictions.

    :raises ConfirmationMissing: the rollback would evict running jobs.
    """
    victims = [loss for step in back.steps for loss in step.victims if loss.runtime]
    if victims:
        raise ConfirmationMissing(say("it would evict others: {jobs}", jobs=[*map(str, victims)]), back)
    return True


def _former_request(session: Session, request: ApplyRequest, plan: Plan, changed: Sequence[Step]) -> ApplyRequest:
    """Return a request for the former documents of the changed jobs.

    :raises InvalidDocuments: a document is not valid in this version.
    """
    mains = [step.live for step in changed if step.live is not None]
    documents = lift(_of_jobs(plan, mains), request.settings)
    sources = [Source(f"{item['job']['name']} as it was", emit_object(item)) for item in documents]
    asked = request.planning
    options = PlanOptions(strategy=asked.strategy, adopt=asked.adopt, no_probe=asked.no_probe, queue=asked.queue)
    home = mains[0]["metadata"]["namespace"]
    given = DocumentOptions(sources, platform_source(request.settings), home, are_here=True)
    compilation = compile_for(session, given)
    instead = {
        key_of(step.live): step.restorable
        for step in changed
        if step.live is not None and step.restorable is not None and is_ours(step.live)
    }
    return replace(request_of(compilation, options), instead=instead)


def _of_jobs(plan: Plan, mains: Sequence[Object]) -> list[Object]:
    """Return the former workloads and their companions."""
    jobs = {(obj["metadata"]["namespace"], labels_of(obj).get("app")) for obj in mains}
    kinds = {key_of(obj) for obj in mains}
    beside = [
        step.live
        for step in plan.steps
        if step.live is not None and key_of(step.live) not in kinds and not step.shared and step.key.namespace
    ]
    return [
        *mains,
        *(obj for obj in beside if (obj["metadata"]["namespace"], labels_of(obj).get("app")) in jobs),
    ]


def _told(
    plan: Plan, back: Plan, changed: Sequence[Step], late: Mapping[Key, str], callbacks: RunCallbacks
) -> list[str]:
    """Set the results of the plan's steps, and return the sentences of the error.

    Steps are reported without their error, which is part of the raised error.
    """
    undone = {step.key: step for step in back.steps}
    mains = {step.key for step in changed}
    said: list[str] = []
    for step in plan.steps:
        other = undone.get(_former_key(step)) or undone.get(step.key)
        if other is None or (step.key not in mains and other.action == "unchanged"):
            continue
        if other.action == "unchanged":
            step.result = "failed"
            step.error = say(
                "{object} could not be restored: its former document now yields the live object", object=step.key
            )
            said.append(step.error)
        elif other.result in _DONE:
            step.result = "rolled-back"
            why = late.get(step.key, say("its job does not run")).removeprefix(say("{object} ", object=other.key))
            step.error = say("{object} was restored: {reason}", object=other.key, reason=why)
            if step.key in mains:
                said.append(say("{object} was restored", object=other.key))
        else:
            step.result = "failed"
            step.error = say(
                "{object} could not be restored: {reason}",
                object=other.key,
                reason=other.error or say("it was not begun"),
            )
            said.append(step.error)
        callbacks.on_step_done(replace(step, error=None))
    return said
