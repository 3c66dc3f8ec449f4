"""Live objects of a document's job beside those that it is lowered to now: companions and workloads of other kinds."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.claim_template_steps import kept_template
from gpuctl.apply.plan.code_steps import code_change
from gpuctl.apply.plan.gitops_tracking import tracked_by
from gpuctl.apply.plan.overwritten_foreign_fields import lost_fields
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.plan_draft import PlanDraft, title_of
from gpuctl.frontend.document import Document
from gpuctl.hints import JobHint
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    ROUTES,
    WORKLOADS,
    Key,
    Object,
    annotations_of,
    key_of,
    labels_of,
)
from gpuctl.objects.autoscalers import AUTOSCALERS, keep_paused, pause_patch
from gpuctl.objects.companion_names import is_code_archive
from gpuctl.objects.ownership_metadata import PART_OF, is_controlled, is_ours, is_shared
from gpuctl.objects.recreated_objects import carried_over


def check_other_kinds(draft: PlanDraft, request: ApplyRequest, document: Document, name: str) -> None:
    """Handle a live workload of this name and another kind: an error, or another form of the same training."""
    for kind in WORKLOADS:
        key = Key(kind, document.namespace, name)
        live = draft.live.objects.get(key)
        if live is None or key in draft.steps or not is_ours(live) or is_controlled(live):
            continue
        job_type = labels_of(live).get(request.keys.job_type)
        if job_type != document.kind:
            draft.plan.errors.append(
                say(
                    "{title}: {kind}/{name} exists in {namespace}, and a job of another kind cannot have its name; "
                    "rename one, or {command} first",
                    title=title_of(document),
                    kind=job_type or kind,
                    name=name,
                    namespace=document.namespace,
                    command=JobHint("delete", name, document.namespace),
                )
            )
            continue
        # They are forms of one job (a Job and a JobSet, for example): the new form replaces the old one.
        step = draft.workload(document.namespace, name)
        if step is not None and step.action == "create":
            step.action, step.live, step.reason = "replace", live, say("was a {kind}", kind=kind)
            assert step.desired is not None
            step.desired = carried_over(step.desired, live, request.keys)
            step.lost = lost_fields(live, step.desired, None, ())


def companions(
    draft: PlanDraft,
    request: ApplyRequest,
    document: Document,
    own: Sequence[Object],
    wanted: set[Key],
) -> None:
    """Delete companions of the job that its document no longer yields; of a job that is kept, only its old route."""
    name = document.name
    main = draft.workload(document.namespace, name)
    if main is None:
        return
    beside = [draft.live.objects[key] for key in draft.companions.get((document.namespace, name), ())]
    beside = [live for live in beside if _is_companion(live, request, document, name)]
    change = code_change(filter(is_code_archive, beside), own, main, title_of(document))
    draft.steps.update((step.key, step) for step in change.steps)
    draft.plan.notes += [change.note] if change.note is not None else []
    draft.plan.errors += [change.error] if change.error is not None else []
    _pause_new_autoscalers(draft, own, main, request.keys.paused)
    kept = kept_template(beside, wanted, main, title_of(document))
    for live in beside:
        key = key_of(live)
        if key in wanted or is_code_archive(live):
            continue
        if kept is not None and key == kept.key:
            draft.steps[key] = kept
            continue
        if main.kept and key.kind not in ROUTES:
            continue
        draft.steps[key] = Step(
            "delete",
            key,
            say("{job} no longer has it", job=title_of(document)),
            live=live,
            method="delete",
            title=title_of(document),
            companion_of=main.key,
        )


def _pause_new_autoscalers(draft: PlanDraft, own: Sequence[Object], main: Step, mark: str) -> None:
    """Let an autoscaler that is created for a paused service not start it."""
    service = main.desired if main.action == "replace" else main.live
    if service is None or mark not in annotations_of(service) or service["spec"].get("replicas", 1):
        return
    for obj in own:
        step = draft.steps.get(key_of(obj))
        if step is None or step.action != "create" or step.desired is None or step.key.kind not in AUTOSCALERS:
            continue
        patch = pause_patch(step.desired, mark)
        if patch is not None:
            step.desired = copy.deepcopy(step.desired)
            keep_paused(step.desired, patch, mark)


def _is_companion(live: Object, request: ApplyRequest, document: Document, name: str) -> bool:
    labels = labels_of(live)
    if not is_ours(live) or is_controlled(live) or is_shared(live, request.keys) or tracked_by(live) is not None:
        return False
    if labels.get("app") != name or labels.get(request.keys.job_type) != document.kind:
        return False
    other = labels.get(PART_OF)
    return other is None or request.part_of is None or other == request.part_of
