"""Changes that controllers make to a workload on their own: admission by Kueue, the replicas of an autoscaler."""

from __future__ import annotations

from gpuctl.apply.state.compare import compare
from gpuctl.apply.state.managed_fields import fields_of, holders_of, holdings_of
from gpuctl.objects.api_resources import Object

_CONTROLLERS = frozenset({"kueue", "kube-controller-manager", "keda"})
"""Field managers that change a spec on their own; the second one contains the HorizontalPodAutoscaler's controller."""


def only_controllers_changed(before: Object, now: Object) -> bool:
    """Return True if controllers made all changes of the spec between two versions of an object.

    The manager of a field is the last one that changed it. Of a removed field it is the former one. Clients choose the
    names of managers, so this protects from accidents only.
    """
    paths = [change.path for change in compare(now["kind"], before, now, ours=fields_of(now)).changes]
    # Ignored in a comparison with a document.
    if _suspend(before) != _suspend(now):
        paths.append("spec.suspend")
    versions = [holdings_of(now), holdings_of(before)]
    for path in paths:
        holders = next(filter(None, (holders_of(path, holdings) for holdings in versions)), ())
        if not holders or any(holder.manager not in _CONTROLLERS for holder in holders):
            return False
    return True


def _suspend(obj: Object) -> bool:
    return bool((obj.get("spec") or {}).get("suspend"))
