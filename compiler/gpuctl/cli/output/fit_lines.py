"""Printing whether jobs fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gpuctl.api.fit_answers import FitJob, FitSuggestion
from gpuctl.capacity.fit.earliest_start_text import describe_opening
from gpuctl.capacity.fit.partial_starts import describe_partial_start
from gpuctl.capacity.fit.shortage import PODS
from gpuctl.capacity.fit.verdicts import EndingWorkload, Opening, from_unit_names
from gpuctl.capacity.scheduler.scheduler_model import format_units
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import RESOURCES

_HOLDERS = 3
VERDICT_TEXTS = {
    "fits": "fits now",
    "preempts": "fits by evicting other pods",
    "fits-when-empty": "does not fit now, but may later",
    "never": "never fits",
    "unknown": "cannot be told",
}
"""The text of each verdict."""
_COLOURS = {"fits": "green", "preempts": "yellow", "fits-when-empty": "red", "never": "red", "unknown": "magenta"}


def fit_lines(job: FitJob, *, coloured: bool = False) -> Iterator[str]:
    """Yield the result for a job: the verdict, then its reasons."""
    title = f"{RESOURCES[job.kind].title}/{job.name} -n {job.namespace}"
    pods = count_text(job.pods, "pod")
    each: Mapping[str, Any] | None = job.need.get("perPod")
    amounts = from_unit_names(job.need if each is None else each)
    asked = ", ".join(format_units(name, amount) for name, amount in amounts.items())
    if asked and each is None:
        asked += " in all"
    said = VERDICT_TEXTS.get(job.verdict, job.verdict)
    if coloured:
        said = click.style(said, fg=_COLOURS.get(job.verdict))
    yield f"{title}: {said} ({pods}{f' of {asked}' if asked else ''})"
    if job.reason:
        yield f"  reason: {job.reason}"
    if job.opening is not None:
        after = [EndingWorkload(item.namespace, item.job, item.ends_by) for item in job.opening.after]
        yield f"  when: {describe_opening(Opening(job.opening.taken_at, job.opening.by, after))}"
    if job.held_by_starting_pods:
        held = from_unit_names(job.held_by_starting_pods)
        yield f"  partly: {describe_partial_start(job.starting_pods, job.pods, held)}"
    for victim in job.victims:
        if victim.priority is None:
            yield "  evicts: work in other namespaces"
            continue
        of = "" if victim.job == f"Pod/{victim.name}" else f" of {victim.job}"
        yield f"  evicts: pod {victim.name} -n {victim.namespace}{of} on {victim.node} (priority {victim.priority})"
    if job.verdict in ("fits", "unknown") and not job.victims:
        return
    if job.held_by:
        yield f"  {_holders(job)}"
    if job.smallest_change is not None:
        yield f"  smallest change: {job.smallest_change}"


def _holders(job: FitJob) -> str:
    """Return the largest holders of the scarce resource, by their amount, or by number of pods if pods are scarce."""
    scarce = next((name for name in job.held_by[0] if name in job.free and name != PODS), PODS)
    (resource,) = from_unit_names({scarce: 0})
    held = [_holder(holder, scarce) for holder in job.held_by[:_HOLDERS]]
    more = len(job.held_by) - len(held)
    return f"{resource} on nodes open to it held by: {', '.join(held)}{f' and {more} others' if more else ''}"


def _holder(holder: Mapping[str, Any], scarce: str) -> str:
    """Return a holder and its amount; the amount is unknown for pods that the caller may not see."""
    whose = "work in other namespaces" if holder["priority"] is None else f"{holder['job']} -n {holder['namespace']}"
    if holder[scarce] is None:
        return whose
    ((resource, amount),) = from_unit_names({scarce: holder[scarce]}).items()
    return f"{whose} {format_units(resource, amount).split()[0]}"


def suggestion_lines(suggestions: Sequence[FitSuggestion]) -> Iterator[str]:
    """Yield a line for each change of the document that makes the job fit."""
    for suggestion in suggestions:
        yield f"  fits with {suggestion.kind}: {', '.join(map(_field_change, suggestion.changes))}"
    if not suggestions:
        yield "  no smaller request, other GPU type or pool makes it fit"


def _field_change(item: Mapping[str, Any]) -> str:
    path, old, new = item["path"], item["from"], item["to"]
    was = f"was {old}" if old is not None else "not set before"
    said = f"{path}: {new}" if new is not None else f"no {path}"
    return f"{said} ({was}; {item['file']}:{item['line']})"
