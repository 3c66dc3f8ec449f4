"""Printing a plan: one line per step, or a unified diff."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import click

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.step_diff import before_and_after, masked_change
from gpuctl.apply.state.field_paths import named
from gpuctl.cli.output.yaml_diff import yaml_diff
from gpuctl.gitops.value_change import changes_text
from gpuctl.hints import NextStep, explain_waiting, reach_job
from gpuctl.objects.api_resources import WORKLOADS, Key, Object
from gpuctl.objects.ownership_metadata import Records

_DONE = {
    "create": "created",
    "replace": "replaced",
    "update": "updated",
    "unchanged": "unchanged",
    "prune": "pruned",
    "delete": "deleted",
    "skip": "skipped",
}
_COLOURS = {
    "create": "green",
    "replace": "yellow",
    "update": "cyan",
    "prune": "red",
    "delete": "red",
    "failed": "red",
    "restored": "yellow",
    "rolled-back": "yellow",
}
_UNDONE = ("failed", "restored", "rolled-back", "not-run")
_WIDTH = 9


def planned_line(step: Step, *, coloured: bool = False) -> str:
    """Return the line of a planned step: ``replace   deployment.apps/chat -n team-a  (containers[main].image)``."""
    saves = f"checkpoint runs before: {step.checkpoint}" if step.checkpoint is not None else ""
    by = f"applied by {step.applied_by}" if step.applied_by is not None else ""
    more = [
        step.running or step.finished,
        by,
        saves,
        step.blocking_finalizers,
        _evictions(step),
        step.waiting,
        *step.side_effects,
    ]
    return _line(step.action, step.action, step, step.reason, more, coloured)


def document_lines(step: Step) -> list[str]:
    """Return the line with the changes of the document, ``          environment.image: app:v1 -> app:v2``, if any."""
    return [f"{'':<{_WIDTH}} {changes_text(step.document_changes)}\n"] if step.document_changes else []


def recovery_line(step: Step, *, coloured: bool = False) -> str:
    """Return the line of a step that recovers an interrupted run."""
    word = "recover" if step.action == "create" else step.action
    return _line(word, step.action, step, step.reason, [], coloured)


def result_line(step: Step, *, coloured: bool = False) -> str:
    """Return the line of a finished step."""
    if step.result in _UNDONE:
        word = step.result.replace("-", " ")
        # The line already contains the object's name.
        error = re.sub(rf"\A{re.escape(str(step.key))}:? ", "", step.error or "")
        return _line(word, step.result, step, error, [], coloured)
    more = [_evictions(step), step.waiting, *step.side_effects]
    return _line(_DONE[step.action], step.action, step, step.reason, more, coloured)


def _evictions(step: Step) -> str:
    return f"evicts {', '.join(map(str, step.victims))}" if step.victims else ""


def _line(word: str, colour: str, step: Step, reason: str, more: Sequence[str | None], coloured: bool) -> str:
    word = f"{word:<{_WIDTH}}"
    if coloured and colour in _COLOURS:
        word = click.style(word, fg=_COLOURS[colour])
    where = f" -n {step.key.namespace}" if step.key.namespace else ""
    said = "; ".join(part for part in (reason, *more) if part)
    return f"{word} {step.key.resource.title}/{step.key.name}{where}" + (f"  ({said})" if said else "")


def is_shown(step: Step) -> bool:
    """Return True if a step is printed. Unchanged shared objects are not: every job has some."""
    return not (step.shared and step.action == "unchanged")


def summary_line(plan: Plan, *, done: bool = False) -> str:
    """Return the counts of a plan: ``2 to create, 1 unchanged``; with ``done``: ``2 created, 1 unchanged``."""
    shown = [step for step in plan.steps if is_shown(step)]
    counts: dict[str, int] = {}
    recovered = sum(step.action == "create" for step in plan.recovery)
    if recovered:
        counts["recovered" if done else "to recover"] = recovered
    for action, past in _DONE.items():
        for step in shown:
            if step.action == action:
                failed = step.result in _UNDONE
                future = past if action in ("unchanged", "skip") else f"to {action}"
                word = step.result.replace("-", " ") if failed else past if done else future
                counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{number} {word}" for word, number in counts.items()) or "nothing to do"


def next_step(plan: Plan) -> NextStep | None:
    """Return the step after a plan was carried out, for one of the started jobs; None if it has started none.

    A job that waits comes first, then one with a port.
    """
    started = [
        step
        for step in plan.steps
        if step.key.kind in WORKLOADS and step.action in ("create", "replace") and step.result == "done"
    ]
    if not started:
        return None
    step = min(started, key=lambda step: (not step.waiting, step.title.startswith("training/")))
    kind, _, name = step.title.partition("/")
    namespace = step.key.namespace or ""
    return explain_waiting(name, namespace) if step.waiting else reach_job(kind, name, namespace)


def diff_text(step: Step, keys: Records, *, coloured: bool = False) -> Iterator[str]:
    """Yield the unified diff of one step, in YAML."""
    yield from object_diff(step.key, *before_and_after(step, keys), coloured=coloured)
    for line in _lost(step):
        yield click.style(line, fg="red") if coloured else line


def object_diff(key: Key, before: Object | None, after: Object | None, *, coloured: bool = False) -> Iterator[str]:
    """Yield the unified diff of an object, in YAML; None: it does not exist."""
    titles = (
        f"live/{key}" if before is not None else "/dev/null",
        f"wanted/{key}" if after is not None else "/dev/null",
    )
    return _coloured(yaml_diff(before, after, titles), coloured)


def _coloured(lines: Iterable[str], coloured: bool) -> Iterator[str]:
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        yield click.style(line, fg=colour) if coloured and colour else line


def _lost(step: Step) -> Iterator[str]:
    """Yield a line for each field of another manager that a replacement drops; ``!`` is no marker of unified diffs."""
    for one in step.lost:
        change = masked_change(one)
        becomes = f" -> {_flow(change.new)}" if one.new is not None else ""
        yield f"! lost {named(one.path)}: {_flow(change.old)}{becomes} (from {one.manager})\n"
    for key in step.dependents:
        yield f"! lost {key.resource.title}/{key.name}: garbage collection deletes it with its owner\n"


def _flow(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _in_order_of(model: Any, value: Any) -> Any:
    """Return a value with its keys in the order of ``model``, so that a different order is not a difference."""
    if isinstance(model, dict) and isinstance(value, dict):
        names = [*(name for name in model if name in value), *(name for name in value if name not in model)]
        return {name: _in_order_of(model.get(name), value[name]) for name in names}
    if isinstance(model, list) and isinstance(value, list):
        paired = zip_longest(model[: len(value)], value)
        return [_in_order_of(one, item) for one, item in paired]
    return value


def fallback_text(key: Key, new: Object, old: Object, *, coloured: bool = False) -> Iterator[str]:
    """Yield the diff between the new object and the old one, which a recovery creates if the new one is refused."""
    return _coloured(yaml_diff(new, _in_order_of(new, old), (f"wanted/{key}", f"if refused/{key}")), coloured)
