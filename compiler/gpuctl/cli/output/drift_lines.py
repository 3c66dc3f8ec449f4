"""Printing the drift of a cluster, as lines or as Markdown for a CI summary or a comment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpuctl.apply.plan.drift_detection import Drift, DriftedField, DriftedObject
from gpuctl.apply.state.field_paths import named
from gpuctl.gitops.markdown import code, code_cell, escaped
from gpuctl.gitops.value_change import changes_text
from gpuctl.language.masking import masked_pair, redact

_WIDTH = 9
_LONGEST = 120


def summary(drift: Drift) -> str:
    """Return the counts in words: ``2 differ, 1 gone, 5 the same``."""
    counts = {what: sum(one.what == what for one in drift.objects) for what in ("differs", "gone", "unnamed")}
    said = [f"{counts['differs']} {'differs' if counts['differs'] == 1 else 'differ'}"] if counts["differs"] else []
    said += [f"{counts['gone']} gone"] if counts["gone"] else []
    said += [f"{counts['unnamed']} in no document"] if counts["unnamed"] else []
    same = f"{drift.same} the same"
    if drift.problems:
        return ", ".join([*said, f"{len(drift.problems)} could not be compared", same])
    return ", ".join([*said, same]) if said else f"no drift: {same}"


def drift_text(drift: Drift) -> Iterator[str]:
    """Yield the lines for a terminal."""
    for one in drift.objects:
        yield _title(one)
        if one.document_changes:
            yield f"    not applied: {changes_text(one.document_changes)}"
        yield from (f"    {line}" for line in map(_field, one.fields))
    for one in (*drift.objects, *drift.expected):
        for field in one.expected:
            yield f"{'expected':<{_WIDTH}} {_name(one)}  {_field(field)}"


def drift_markdown(drift: Drift, server: str, cluster: str | None, revision: str) -> Iterator[str]:
    """Yield a heading, a sentence and a table of the differences in Markdown."""
    place = f"{escaped(cluster)} ({code(server)})" if cluster else code(server)
    at = f" at {code(revision[:10])}" if revision else ""
    heading = "Drift" if drift.objects else "Drift unknown" if drift.problems else "No drift"
    yield f"## {heading} on {place}"
    yield ""
    yield f"The documents{at} and the cluster: {summary(drift)}."
    if drift.objects:
        yield ""
        yield "| object | what | in the cluster | in the document | who, and when |"
        yield "|---|---|---|---|---|"
    for one in drift.objects:
        if not one.fields:
            yield f"| {escaped(_name(one))} | {one.what} | | | {escaped(one.reason)} |"
        for field in one.fields:
            live, wanted = _values(field)
            values = map(code_cell, (named(field.path), live, wanted))
            cells = (escaped(_name(one)), *values, escaped(_who(field)))
            yield f"| {' | '.join(cells)} |"
    for problem in drift.problems:
        yield ""
        yield f"Could not be compared: {escaped(redact(problem))}"


def _title(one: DriftedObject) -> str:
    said = f"since {one.since}" if one.since else "" if one.fields else one.reason
    return f"{one.what:<{_WIDTH}} {_name(one)}" + (f"  ({said})" if said else "")


def _name(one: DriftedObject) -> str:
    where = f" -n {one.key.namespace}" if one.key.namespace else ""
    return f"{one.key.resource.title}/{one.key.name}{where}"


def _field(field: DriftedField) -> str:
    live, wanted = _values(field)
    change = (
        f"added {live}"
        if field.is_added
        else f"{live} instead of {wanted}"
        if live and wanted
        else (f"{live} is not in the document" if live else f"{wanted} is missing")
    )
    who = _who(field)
    return f"{named(field.path)}: {change}" + (f" ({who})" if who else "")


def _values(field: DriftedField) -> tuple[str, str]:
    live, wanted = masked_pair(field.live, field.wanted, field.path)
    return _shown(live), _shown(wanted)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _who(field: DriftedField) -> str:
    return ", ".join(f"{holder.manager}{f' at {holder.time}' if holder.time else ''}" for holder in field.holders)
