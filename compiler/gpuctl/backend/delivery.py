"""What GitOps controllers need beside the objects themselves, as annotations.

Sources: Argo CD's sync waves and sync options, Flux's kustomize-controller annotations.
"""

from __future__ import annotations

from gpuctl.backend.context import Context, Lowered, Object
from gpuctl.frontend.diagnostics import Severity

# Jobs cannot be changed in place; controllers must be told to delete and create.
_REPLACED = frozenset({"Job", "JobSet"})


def annotate(context: Context, lowered: Lowered) -> None:
    """Add the controller's annotations to an object, in place."""
    annotations = _argocd(lowered.object) if context.options.gitops == "argocd" else _flux(lowered.object)
    if annotations:
        metadata = lowered.object["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}


def _argocd(obj: Object) -> dict[str, str]:
    kind = obj["kind"]
    if kind == "PriorityClass":
        # Argo CD sorts the kinds it does not list last, PriorityClass among them.
        return {"argocd.argoproj.io/sync-wave": "-1"}
    if kind in _REPLACED:
        return {"argocd.argoproj.io/sync-options": "Force=true,Replace=true"}
    if kind == "Node":
        return {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false,ServerSideApply=true"}
    if kind == "Namespace":
        return {"argocd.argoproj.io/sync-options": "Delete=false"}
    return {}


def _flux(obj: Object) -> dict[str, str]:
    kind = obj["kind"]
    if kind in _REPLACED:
        return {"kustomize.toolkit.fluxcd.io/force": "enabled"}
    if kind in ("Node", "Namespace"):
        return {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
    return {}


def warn_about_ttl(context: Context, lowered: Lowered) -> None:
    """A controller creates a job again that its ttl deleted, and so runs it for ever."""
    model = lowered.document.model
    if model.kind == "training" and model.job.ttl is not None:
        context.report(
            lowered.document,
            "GPU605",
            f"with {context.options.gitops} the finished job is deleted by its ttl and then run again, for ever",
            ("job", "ttl"),
            "remove the ttl, or the job's file once it is done",
            severity=Severity.WARNING,
            key=True,
        )
