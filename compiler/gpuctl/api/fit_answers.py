"""Whether jobs find room, as JSON: ``fit``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuctl.capacity.fit import Fit, named
from gpuctl.capacity.suggestions import FieldChange, JobName, Suggestion
from gpuctl.capacity.told_fit import ToldFit, ToldOpening
from gpuctl.capacity.verdicts import Opening


def fit_answer(
    fits: Iterable[Fit | ToldFit], suggestions: Mapping[JobName, Sequence[Suggestion]] | None = None
) -> dict[str, Any]:
    """``fit -o json``: the jobs in the order in which they are placed, with what was suggested if anybody asked."""
    if suggestions is None:
        return {"jobs": [fit_value(item) for item in fits]}
    return {"jobs": [{**fit_value(item), "suggestions": _suggested(item, suggestions)} for item in fits]}


def _suggested(answer: Fit | ToldFit, suggestions: Mapping[JobName, Sequence[Suggestion]]) -> list[dict[str, Any]]:
    found = suggestions.get((answer.demand.namespace, answer.demand.name), ())
    return [{"kind": item.kind, "changes": [_field_change(change) for change in item.changes]} for item in found]


def _field_change(change: FieldChange) -> dict[str, Any]:
    span = change.span
    where = {"file": span.file, "line": span.line, "column": span.column}
    return {"path": change.path, "from": change.old, "to": change.new, **where}


def _opening_value(opening: Opening | ToldOpening) -> dict[str, Any]:
    after = [{"namespace": item.namespace, "job": item.job, "endsBy": item.at} for item in opening.after]
    return {"by": opening.at, "takenAt": opening.now, "after": after}


def fit_failure(message: str) -> dict[str, Any]:
    """``fit -o json`` when nothing could be told."""
    return {"jobs": [], "error": message}


def fit_value(answer: Fit | ToldFit) -> dict[str, Any]:
    """The answer for one job, amounts with their units in the names."""
    demand, found = answer.demand, answer.balance
    victims = [
        {
            "namespace": victim.pod.namespace,
            "name": victim.pod.name,
            "job": victim.pod.owner,
            "node": victim.node,
            "priority": victim.pod.priority,
            "likelihood": 1.0 if answer.certain else None,
        }
        for victim in answer.victims
    ]
    held = [
        {
            "namespace": holder.namespace,
            "job": holder.owner,
            "priority": holder.priority,
            "pods": holder.pods,
            **named({found.scarce: holder.amount}),
        }
        for holder in found.held_by
    ]
    return {
        "name": demand.name,
        "namespace": demand.namespace,
        "kind": demand.kind,
        "verdict": answer.verdict,
        "victims": victims,
        "victimsCertain": answer.certain,
        "certain": answer.certain,
        "likelihood": answer.likelihood,
        "pods": demand.pods,
        "startingPods": answer.starts,
        "heldByStartingPods": named(answer.held),
        "need": {**named(found.need), "perPod": named(found.per_pod)},
        "free": named(found.free),
        "largestNode": None if found.largest is None else {"name": found.largest[0], **named(found.largest[1])},
        "heldBy": held,
        "reason": answer.reason,
        "admitted": answer.admitted,
        "opening": None if answer.opening is None else _opening_value(answer.opening),
        "smallestChange": answer.change,
    }
