"""Changes of an object since its plan was made: by users, or by controllers, such as admission by Kueue."""

from __future__ import annotations

from gpuctl.apply.state.compare import compare
from gpuctl.apply.state.managed_fields import fields_of, holders_of, holdings_of
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import TRAININGS, Object, annotations_of
from gpuctl.objects.ownership_metadata import Records

BY_ANOTHER = Template("was changed by another client")

_CONTROLLERS = frozenset({"kueue", "kube-controller-manager", "keda"})
"""Field managers that change a spec on their own; the second one contains the HorizontalPodAutoscaler's controller."""


def is_unchanged(planned: Object, now: Object, keys: Records, *, by_users: bool = False) -> bool:
    """Return True if an object is unchanged since the plan was made: same uid, generation, hash, pause and spec.

    :param by_users: ignore changes of the spec by controllers.
    """
    one, two = planned["metadata"], now["metadata"]
    # A pause of a job in a queue changes its annotation first, and its spec a moment later.
    recorded = [[annotations_of(obj).get(key) for key in (keys.hash, keys.paused)] for obj in (planned, now)]
    if one["uid"] != two["uid"] or recorded[0] != recorded[1]:
        return False
    if one.get("generation") == two.get("generation"):
        return not compare(planned["kind"], planned, now).changes
    return by_users and only_controllers_changed(planned, now)


def change_of(planned: Object, now: Object | None, keys: Records) -> str:
    """Return who has changed an object since the plan was made, as the end of a sentence."""
    if now is None or not is_unchanged(planned, now, keys, by_users=True):
        return say(BY_ANOTHER)
    return say("was changed by Kueue") if planned["kind"] in TRAININGS else say("was scaled by its autoscaler")


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
