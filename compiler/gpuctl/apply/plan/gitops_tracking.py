"""GitOps controllers that keep objects in sync with a repository: gpuctl does not change what they track."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.hints import OR_ADOPT
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import Object, annotations_of, key_of, labels_of

# Flux' labels, and the kind of the object that each names.
_FLUX = {"kustomize.toolkit.fluxcd.io": "Kustomization", "helm.toolkit.fluxcd.io": "HelmRelease"}
_ARGO_ID = "argocd.argoproj.io/tracking-id"
_ARGO_LABEL = "app.kubernetes.io/instance"
_ARGO_MANAGERS = "argocd-"


def tracked_by(obj: Object) -> str | None:
    """Return the GitOps controller that keeps an object in sync with a repository; None without one.

    Argo CD marks a tracked object by an annotation that names the object itself. It ignores a copy, whose annotation
    names another object. It can be configured to use a label that other tools use too: then its field manager decides.
    Flux labels the objects that it applies.

    Sources: Argo CD, User Guide, Resource Tracking; Flux, Kustomization and HelmRelease.
    """
    labels, annotations = labels_of(obj), annotations_of(obj)
    for group, kind in _FLUX.items():
        if f"{group}/name" in labels:
            name = f"{labels.get(f'{group}/namespace', '')}/{labels[f'{group}/name']}".removeprefix("/")
            return f"Flux ({kind} {visible(name)})"
    if _ARGO_ID in annotations:
        application, _, tracked = annotations[_ARGO_ID].partition(":")
        key = key_of(obj)
        own = f"{key.resource.group}/{key.kind}:{key.namespace}/{key.name}"
        return say("Argo CD (application {name})", name=visible(application)) if tracked == own else None
    managers = [str(entry.get("manager", "")) for entry in obj["metadata"].get("managedFields") or []]
    if _ARGO_LABEL in labels and any(manager.startswith(_ARGO_MANAGERS) for manager in managers):
        return say("Argo CD (application {name})", name=visible(labels[_ARGO_LABEL]))
    return None


def tracking_marks(obj: Object) -> dict[str, list[str]]:
    """Return the ``labels`` and ``annotations`` by which a GitOps controller tracks an object; empty if none does."""
    if tracked_by(obj) is None:
        return {}
    flux = [f"{group}/{part}" for group in _FLUX for part in ("name", "namespace")]
    is_flux, has_id = any(key in labels_of(obj) for key in flux), _ARGO_ID in annotations_of(obj)
    marks = {"labels": flux if is_flux or has_id else [_ARGO_LABEL], "annotations": [_ARGO_ID]}
    found = {part: [key for key in keys if key in (obj["metadata"].get(part) or {})] for part, keys in marks.items()}
    return {part: keys for part, keys in found.items() if keys}


def refuse_tracked_changes(plan: Plan, steps: Iterable[Step], *, adopt: bool) -> None:
    """Refuse changes of objects that Argo CD or Flux track; with ``adopt`` take them over."""
    for step in steps:
        tracker = tracked_by(step.live) if step.live is not None and not step.shared else None
        if step.live is None or tracker is None:
            continue
        if adopt:
            _take_over(step, step.live, tracker)
        elif step.action == "update" and not step.changes:
            step.action, step.method, step.desired, step.reason = (
                "unchanged",
                "none",
                None,
                say("is managed by {tracker}", tracker=tracker),
            )
        elif step.action in WRITING:
            plan.tracked.append(
                say(
                    "{object} is managed by {tracker}, which would undo the change: change it in its repository{adopt}",
                    object=step.key,
                    tracker=tracker,
                    adopt=OR_ADOPT,
                )
            )


def _take_over(step: Step, live: Object, tracker: str) -> None:
    """Remove the tracking marks from an object, so that its former tool no longer tracks it."""
    marks = tracking_marks(live)
    if step.action == "unchanged":
        step.action, step.method, step.desired = "update", "patch", {"metadata": {"uid": live["metadata"]["uid"]}}
    if step.action == "update":
        for part, names in marks.items():
            step.changes += [
                FieldOutcome(f"metadata.{part}[{name}]", live["metadata"][part][name], None) for name in names
            ]
    taken = say("taken over from {tracker}", tracker=tracker)
    step.reason = clauses(taken, step.reason)
