"""Annotations that GitOps controllers need on objects.

Sources: Argo CD's user guide, Sync Options ("No Prune Resources", "No Resource Deletion", "Force Sync") and Sync Phases
and Waves; Flux's kustomize-controller, Kustomization, "Controlling the apply behavior of resources".
"""

from __future__ import annotations

import json

from gpuctl.backend.lowering_context import Context, Lowered
from gpuctl.frontend.diagnostics import Severity
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import CLAIM, CREATED_ONCE, SHARED_KINDS, Object
from gpuctl.objects.elastic_jobs import node_bounds
from gpuctl.objects.prerequisites import GATE, gates_of

FLUX_CREATES_ONCE = {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
"""The annotation of an object that Flux creates and never changes."""
# Jobs cannot be changed in place: with stable names, controllers must delete and create them.
_REPLACED = frozenset({"Job", "JobSet"})
# Other workloads may need them after the last document here that names them is removed.
_LARGE = 200 * 1024
"""Size of objects that need a server-side apply, characters: a client-side apply copies them into an annotation of at
most 256 KiB. Source: Argo CD's user guide, Sync Options ("Server-Side Apply").
"""
_OPTIONS = "argocd.argoproj.io/sync-options"


def annotate(context: Context, obj: Object) -> None:
    """Add the controller's annotations to an object, in place."""
    hashed = bool(context.options.hashed)
    annotations = _argocd(obj, hashed=hashed) if context.options.gitops == "argocd" else _flux(obj, hashed=hashed)
    if annotations:
        metadata = obj["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}


def _argocd(obj: Object, *, hashed: bool) -> dict[str, str]:
    kind = obj["kind"]
    annotations = {}
    if kind in CREATED_ONCE:
        # Argo CD sorts kinds that it does not list last, classes of priorities and flavors among them.
        annotations["argocd.argoproj.io/sync-wave"] = "-1"
    if kind in SHARED_KINDS:
        # Delete=false applies when the Application is deleted, Prune=false when the object is removed from git.
        annotations[_OPTIONS] = "Prune=false,Delete=false" + (",ServerSideApply=true" if kind == "Node" else "")
    elif kind in _REPLACED and not hashed:
        annotations[_OPTIONS] = "Force=true,Replace=true"
    elif len(json.dumps(obj)) > _LARGE:
        annotations[_OPTIONS] = "ServerSideApply=true"
    return annotations


def _flux(obj: Object, *, hashed: bool) -> dict[str, str]:
    kind = obj["kind"]
    if kind in _REPLACED and not hashed:
        return {"kustomize.toolkit.fluxcd.io/force": "enabled"}
    if kind == CLAIM:
        # The first version stays: a claim cannot shrink or change its class.
        return {"kustomize.toolkit.fluxcd.io/prune": "disabled", **FLUX_CREATES_ONCE}
    if kind in _REPLACED and (GATE in gates_of(obj) or node_bounds(obj) is not None):
        # A training that waits for others is suspended here: another apply would suspend it again after its start. That
        # of an elastic training would set its greatest number of nodes again.
        return FLUX_CREATES_ONCE
    if kind in SHARED_KINDS:
        return {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
    return {}


def warn_about_replacing(context: Context, lowered: Lowered) -> None:
    """Warn that Argo CD, set to replace Jobs, replaces this one at every sync that applies it, changed or not."""
    if context.options.gitops == "argocd" and not context.options.hashed:
        context.report(
            lowered.document,
            "GPU608",
            say(
                "with --job-names plain Argo CD restarts this training at every sync that also applies unchanged "
                "objects"
            ),
            ("job", "name"),
            say("leave --job-names out, or set ApplyOutOfSyncOnly=true in the Application's syncOptions"),
            severity=Severity.WARNING,
        )


def warn_about_ttl(context: Context, lowered: Lowered) -> None:
    """Warn that a controller creates a job again after its ttl deleted it, and so runs it for ever."""
    model = lowered.document.model
    if model.kind == "training" and model.job.ttl is not None:
        context.report(
            lowered.document,
            "GPU605",
            say(
                "with {gitops} the finished job is deleted by its ttl and then run again, for ever",
                gitops=context.options.gitops,
            ),
            ("job", "ttl"),
            say("remove the ttl, or the job's file once it is done"),
            severity=Severity.WARNING,
            key=True,
        )
