"""The planner: makes a plan from documents and the state of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from gpuctl.apply.plan import pool_labels as nodes
from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.claim_steps import note_existing_claims
from gpuctl.apply.plan.companion_steps import check_other_kinds, companions
from gpuctl.apply.plan.create_only import created_before, leftover_companions, refuse_existing
from gpuctl.apply.plan.decision_inputs import DecisionOptions, DecisionRefused, InOtherSet, PendingDecision, Target
from gpuctl.apply.plan.dry_run_pods import creation_error
from gpuctl.apply.plan.foreign_autoscalers import keep_autoscaled_replicas
from gpuctl.apply.plan.gitops_tracking import refuse_tracked_changes
from gpuctl.apply.plan.hashed_trainings import find_hashed_trainings, keep_steps, replace_hashed
from gpuctl.apply.plan.last_applied import LastApplied
from gpuctl.apply.plan.missing_namespaces import undeclared_namespaces
from gpuctl.apply.plan.object_decision import decide, decide_with_answer, dry_run_copy, kept_step, metadata_added
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.plan_draft import PlanDraft, documents_of, jobs_of, title_of
from gpuctl.apply.plan.quota_queue_notes import note_changed_limits
from gpuctl.apply.plan.scheduled_run_plan import note_unfinished_runs
from gpuctl.apply.plan.set_run import in_other_sets
from gpuctl.apply.plan.ttl_removed import keep_expired
from gpuctl.apply.state.live_state import LiveState, read_live_state
from gpuctl.apply.state.managed_fields import fields_of
from gpuctl.backend.lowering_context import Lowered
from gpuctl.backend.object_order import sort_key
from gpuctl.gitops.document_changes import embedded_changes
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    TRAININGS,
    Key,
    Object,
    annotations_of,
    key_of,
)
from gpuctl.objects.autoscalers import AUTOSCALERS, replica_range
from gpuctl.objects.embedded_document import is_same_document
from gpuctl.objects.json_digest import json_digest
from gpuctl.objects.ownership_metadata import is_ours, marked, stamp
from gpuctl.objects.recreated_objects import own_strategy


def make_plan(session: Session, request: ApplyRequest, interrupted: Collection[Key] = ()) -> Plan:
    """Plan all objects of the documents, and those that their jobs no longer have. Only reads and dry-runs.

    The plan's ``errors`` are the reasons why it cannot be carried out.

    :param interrupted: the objects that an interrupted run may have deleted.
    """
    objects = [item.object for item in request.lowered]
    wanted = {key_of(obj) for obj in objects}
    live = read_live_state(session, wanted, jobs_of(request.lowered), foreign=request.planning.adopt)
    last = LastApplied(live.objects, request.lowered, request.settings, request.keys)
    draft = PlanDraft(Plan(), live, last, created_before(request, live))
    draft.unchanged_documents = _unchanged_documents(request, live, draft.hashes)
    keep_autoscaled_replicas(session, draft, request)
    pending: list[tuple[PendingDecision, DecisionOptions]] = []
    in_old_form = _keep_old_forms(draft, request)
    built = find_hashed_trainings(request.lowered, live.objects, request.keys, relower=request.planning.relower)
    for training in built:
        if training.equal:
            options = DecisionOptions(request)
            draft.steps.update((step.key, step) for step in keep_steps(training, title_of(training.document), options))
            in_old_form.add(id(training.document))
    for lowered in request.lowered:
        if lowered.object["kind"] == "Node" or (id(lowered.document) in in_old_form and not lowered.shared):
            continue
        _decide(draft, request, lowered, pending)
    _dry_run_pending(session, draft, pending, request)
    for key, step in draft.steps.items():
        if step.live is not None and key_of(step.live) == key:
            # The object from the server, without the fields that were taken over for the comparison.
            step.live = live.objects.get(key, step.live)
    draft.plan.notes += draft.last.notes
    draft.plan.errors += in_other_sets(session, draft.in_other_sets)
    for training in built:
        replace_hashed(training, draft.steps, draft.plan, request.keys, partial(_as_created, session, request))
    yielded: dict[int, list[Object]] = {}
    for item in request.lowered:
        yielded.setdefault(id(item.document), []).append(item.object)
    for document in documents_of(request.lowered):
        if document.is_workload:
            check_other_kinds(draft, request, document, document.name)
            companions(draft, request, document, yielded[id(document)], wanted)
    note_unfinished_runs(draft.steps.values(), live.objects.values())
    keep_expired(session, draft.plan, draft.steps, request, interrupted)
    pooled = list(
        nodes.plan_nodes(session, draft.plan, request.lowered, live, request.keys, adopt=request.planning.adopt)
    )
    draft.steps.update((step.key, step) for step in pooled)
    nodes.note_jobs_left_behind(session, draft.plan, pooled, request.keys, request.sees)
    _confirm_scale_down(draft)
    draft.plan.steps = sorted(draft.steps.values(), key=_order)
    note_existing_claims(draft.plan)
    note_changed_limits(draft.plan)
    _compare_documents(draft.plan.steps, request)
    refuse_tracked_changes(draft.plan, draft.plan.steps, adopt=request.planning.adopt)
    if not request.planning.create_namespace:
        draft.plan.errors += undeclared_namespaces(session, draft.plan.steps, request.lowered, request.sees)
    if request.planning.create_only:
        refuse_existing(draft.plan, draft.own | leftover_companions(request, live))
    return draft.plan


def _confirm_scale_down(draft: PlanDraft) -> None:
    """Ask for confirmation if gpuctl's autoscaler gets a maximum below the number of ready pods, which ends some."""
    for step in draft.steps.values():
        if (
            step.key.kind not in AUTOSCALERS
            or step.desired is None
            or step.action not in ("create", "update")
            # A step that only joins the set changes no spec.
            or "spec" not in step.desired
        ):
            continue
        key = Key(step.desired["spec"]["scaleTargetRef"]["kind"], step.key.namespace, step.key.name)
        live, most = draft.live.objects.get(key), replica_range(step.desired)[1]
        ready = ((live or {}).get("status") or {}).get("readyReplicas") or 0
        main = draft.steps.get(key)
        if ready > most and (main is None or not main.deletes):
            draft.plan.confirm.append(
                say(
                    "scales {job} in {namespace} to {most} at most: ends {pods:ready pod}",
                    job=step.title,
                    namespace=step.key.namespace,
                    most=most,
                    pods=ready - most,
                )
            )


def _compare_documents(steps: Iterable[Step], request: ApplyRequest) -> None:
    """Set the changes of documents in the steps that replace or update the objects of jobs."""
    wanted = {key_of(item.object): item.object for item in request.lowered}
    for step in steps:
        if step.live is not None and step.key in wanted:
            step.document_changes = embedded_changes(step.live, wanted[step.key], request.keys.document)


def _order(step: Step) -> tuple[int, str, str, str]:
    return sort_key({"kind": step.key.kind, "metadata": {"namespace": step.key.namespace, "name": step.key.name}})


def _decide(
    draft: PlanDraft, request: ApplyRequest, lowered: Lowered, pending: list[tuple[PendingDecision, DecisionOptions]]
) -> None:
    shared = lowered.shared
    key = key_of(lowered.object)
    desired = lowered.object
    if not shared:
        desired = stamp(desired, request.keys, request.part_of, draft.hashes.get(key))
    live = draft.live.objects.get(key)
    if key in draft.live.unreadable:
        draft.steps[key] = Step("skip", key, draft.live.unreadable[key], desired=desired, shared=True)
        return
    if request.mark is not None and not shared:
        if key in draft.own:
            draft.steps[key] = Step("unchanged", key, say("was created by this request"), live=live)
            return
        if live is None:
            desired = marked(desired, request.keys, request.mark)
    options = DecisionOptions(request, _is_rolling(request, desired, live), draft.autoscaled, shared)
    target = Target(desired, shared, title_of(lowered.document), id(lowered.document) in draft.unchanged_documents)
    if live is not None:
        claims, claimed = draft.last.claim(lowered, live, desired)
        live, target = claimed.live, target._replace(claims=claims, claimed=claimed)
    try:
        decision = decide(target, live, options)
    except InOtherSet as other:
        draft.in_other_sets[key] = str(other)
        return
    except DecisionRefused as refusal:
        draft.plan.errors.append(str(refusal))
        return
    if isinstance(decision, PendingDecision):
        pending.append((decision, options))
    else:
        draft.steps[key] = decision


def _is_rolling(request: ApplyRequest, desired: Object, live: Object | None) -> bool:
    """Return the strategy from ``--strategy``, else the document, the live object's annotation, or the platform."""
    if request.planning.strategy is not None:
        return request.planning.strategy == "rolling"
    own = annotations_of(desired).get(request.keys.strategy)
    if own is None and live is not None:
        own = own_strategy(live, request.keys)
    return own == "rolling" if own in ("rolling", "replace") else request.settings.is_rolling


def _unchanged_documents(request: ApplyRequest, live: LiveState, hashes: dict[Key, str]) -> frozenset[int]:
    """Return the ids of the documents whose live main object was made from an equal document, but lowered differently.

    :param hashes: the computed hashes are added to it.
    """
    result = set()
    for item in request.lowered:
        if not item.document.is_workload:
            # A pool or a quota runs nothing, so it always follows the platform.
            continue
        key = key_of(item.object)
        main = live.objects.get(key)
        if main is None or not is_same_document(item.object, main, request.keys.document):
            continue
        # The companions must be made from this document in its current lowered form.
        hashes[key] = json_digest(item.object)
        if annotations_of(main).get(request.keys.hash) != hashes[key]:
            result.add(id(item.document))
    return frozenset(result)


def _keep_old_forms(draft: PlanDraft, request: ApplyRequest) -> set[int]:
    """Keep trainings that the platform would now lower to a Job instead of a JobSet, or vice versa.

    An unchanged document keeps its objects. Return the ids of these documents.
    """
    kept_documents = set()
    for item in request.lowered:
        main = key_of(item.object)
        if main.kind not in TRAININGS or request.planning.relower:
            continue
        for kind in TRAININGS - {main.kind}:
            live = draft.live.objects.get(main._replace(kind=kind))
            if live is None or not is_ours(live) or not is_same_document(item.object, live, request.keys.document):
                continue
            options = DecisionOptions(request)
            draft.steps[key_of(live)] = kept_step(key_of(live), live, title_of(item.document), options)
            kept_documents.add(id(item.document))
    return kept_documents


def _dry_run_pending(
    session: Session, draft: PlanDraft, pending: list[tuple[PendingDecision, DecisionOptions]], request: ApplyRequest
) -> None:
    """Dry-run the probes of all pending decisions concurrently, and decide with the answers."""

    def answer(decision: PendingDecision) -> Object | ApiError | None:
        if request.offline:
            return None
        try:
            return session.create(decision.probe, dry_run=True)
        except ApiError as error:
            if error.lacks_permission or error.exceeds_quota:
                return error
            # A dry-run under its own name returns nothing to compare with, but its refusals are valid.
            own = decision.probe["metadata"] | {"name": decision.target.key.name}
            return creation_error(session, {**decision.probe, "metadata": own})

    session.warnings.clear()
    answers = session.each(answer, [decision for decision, _ in pending])
    for (decision, options), reply in zip(pending, answers, strict=True):
        key = decision.target.key
        if isinstance(reply, ApiError):
            if not reply.lacks_permission and not reply.exceeds_quota:
                draft.plan.errors.append(say("{object}: {error}", object=key, error=reply.message))
                continue
            if reply.lacks_permission:
                draft.plan.notes.append(say("compared without the API server's dry-run: {error}", error=reply.message))
            reply = None
        try:
            is_needed = reply is None or metadata_added(reply, decision.probe)
            document = draft.last.document(decision.live) if is_needed else None
            step = decide_with_answer(decision, reply, options, fields_of(document) if document is not None else None)
            # The probe of a replacement is the replacement itself, except for its name.
            step.passed_dry_run = reply is not None and step.action == "replace"
            draft.steps[key] = step
        except DecisionRefused as refusal:
            draft.plan.errors.append(str(refusal))


def _as_created(session: Session, request: ApplyRequest, desired: Object) -> Object | None:
    """Return the object as the server would create it.

    None if the server is not asked, or refuses the object: the checks report that.
    """
    if request.offline:
        return None
    try:
        return session.create(dry_run_copy(desired), dry_run=True)
    except ApiError:
        return None
