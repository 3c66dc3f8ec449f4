"""Notes on values of a sweep that run again because the job that had them loses its number."""

from __future__ import annotations

from gpuctl.apply.plan.plan import Plan
from gpuctl.language.display_text import shorten
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.label_names import SWEEP, SWEEP_VALUES, sweep_values

_Place = tuple[str, str, frozenset[tuple[str, str]]]


def note_moved_values(plan: Plan, settings: Settings) -> None:
    """Add a note for each job that takes over the values of a job which this plan replaces or deletes."""
    former: dict[_Place, str] = {}
    for step in plan.steps:
        place = _place(step.live, settings) if step.live is not None and step.deletes else None
        if place is not None and step.live is not None:
            former[place] = labels_of(step.live).get("app", step.key.name)
    for step in plan.steps:
        if step.desired is None or step.action not in ("create", "replace"):
            continue
        place = _place(step.desired, settings)
        before, name = former.get(place) if place is not None else None, labels_of(step.desired).get("app", "")
        if place is not None and before is not None and before != name:
            values = sweep_values(step.desired, settings.label(SWEEP_VALUES))
            shown = shorten(", ".join(f"{key}={value}" for key, value in values.items()))
            plan.notes.append(f"{name} in {place[0]} has the values of the former {before}, and starts anew: {shown}")


def _place(obj: Object, settings: Settings) -> _Place | None:
    """Return the namespace, the sweep and the values of a job; None if it is not in a sweep."""
    sweep = labels_of(obj).get(settings.label(SWEEP))
    values = sweep_values(obj, settings.label(SWEEP_VALUES))
    return (obj["metadata"].get("namespace", ""), sweep, frozenset(values.items())) if sweep and values else None
