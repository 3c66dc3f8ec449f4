"""Whether jobs find room, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from gpuctl.capacity.fit import Fit
from gpuctl.capacity.gangs import partly
from gpuctl.capacity.shortage import Holder, told
from gpuctl.capacity.suggestions import FieldChange, Suggestion
from gpuctl.capacity.told_fit import ToldFit, ToldHolder
from gpuctl.capacity.told_times import told_opening
from gpuctl.objects.api_resources import RESOURCES

_HOLDERS = 3
SAID = {
    "fits": "fits now",
    "preempts": "fits by evicting others",
    "fits-when-empty": "does not fit now, but may later",
    "never": "never fits",
    "unknown": "cannot be told",
}
"""What each verdict is called."""
_COLOURS = {"fits": "green", "preempts": "yellow", "fits-when-empty": "red", "never": "red", "unknown": "magenta"}


def fit_lines(answer: Fit | ToldFit, *, coloured: bool = False) -> Iterator[str]:
    """An answer for people: the verdict, then what it rests on."""
    demand, found = answer.demand, answer.balance
    title = f"{RESOURCES[demand.kind].title}/{demand.name} -n {demand.namespace}"
    pods = "1 pod" if demand.pods == 1 else f"{demand.pods} pods"
    asked = ", ".join(told(name, amount) for name, amount in found.per_pod.items())
    said = SAID[answer.verdict]
    if coloured:
        said = click.style(said, fg=_COLOURS[answer.verdict])
    yield f"{title}: {said} ({pods}{f' of {asked}' if asked else ''})"
    if answer.reason:
        yield f"  reason: {answer.reason}"
    if answer.opening is not None:
        yield f"  when: {told_opening(answer.opening)}"
    if answer.held:
        yield f"  partly: {partly(answer.starts, demand.pods, answer.held)}"
    for victim in answer.victims:
        if victim.pod.priority is None:
            yield "  evicts: work in other namespaces"
            continue
        of = "" if victim.pod.owner == f"Pod/{victim.pod.name}" else f" of {victim.pod.owner}"
        pod = f"pod {victim.pod.name} -n {victim.pod.namespace}{of}"
        yield f"  evicts: {pod} on {victim.node} (priority {victim.pod.priority})"
    if answer.verdict in ("fits", "unknown") and not answer.victims:
        return
    held = [f"{_whose(holder)} {told(found.scarce, holder.amount).split()[0]}" for holder in found.held_by[:_HOLDERS]]
    if held:
        more = len(found.held_by) - len(held)
        yield f"  {found.scarce} on nodes open to it held by: {', '.join(held)}{f' and {more} others' if more else ''}"
    if answer.change is not None:
        yield f"  smallest change: {answer.change}"


def suggestion_lines(suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """What to write into the document instead, a line for each change that fits."""
    for suggestion in suggestions:
        yield f"  fits with {suggestion.kind}: {', '.join(map(_field_change, suggestion.changes))}"
    if not suggestions:
        yield "  no smaller request, other GPU type or other pool was found with which it fits"


def _field_change(item: FieldChange) -> str:
    was = f"was {item.old}" if item.old is not None else "not written yet"
    said = f"{item.path}: {item.new}" if item.new is not None else f"no {item.path}"
    return f"{said} ({was}; {item.span.file}:{item.span.line})"


def _whose(holder: Holder | ToldHolder) -> str:
    return "work in other namespaces" if holder.priority is None else f"{holder.owner} -n {holder.namespace}"
