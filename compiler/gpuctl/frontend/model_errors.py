"""Turns pydantic's errors into diagnostics: the second pass over a document."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from gpuctl.frontend.command_advice import flow_list
from gpuctl.frontend.diagnostics import FieldPath, format_path
from gpuctl.frontend.field_shapes import TEXT, ListShape, Shape, UnionShape, kind_shape, value_shape
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.full_width import ASCII
from gpuctl.language.field_errors import ERROR_TYPE
from gpuctl.language.kinds import KINDS
from gpuctl.language.sentences import Sentence, Template, say

# Errors of the union branches that a value is not for: the first pass has chosen the branch.
_OTHER_BRANCH = frozenset({"string_type", "int_type", "list_type", "dict_type", "model_type", "literal_error"})
_MISSING_HINTS = {
    "job": Template("add `job:` with a `name:`"),
    "environment": Template("add `environment:` with an `image:`"),
    "image": Template("add `image:`, the container image to run"),
}
_EMPTY_HINTS: dict[FieldPath, Template] = {
    ("placement", "clusters"): Template("name a cluster, or remove `placement`"),
    ("spot", "labels"): Template("name a label of these nodes, or remove `spot`"),
    ("users",): Template("add a name with its limits"),
    ("namespace",): Template("add a name with its limits"),
}
"""Field that must not be empty and cannot be left out -> the hint."""


def report_model_errors(
    findings: Findings, error: ValidationError, data: dict[str, Any], prefix: FieldPath = ()
) -> None:
    """Report pydantic's errors as diagnostics, except those that follow from an error reported before.

    :param data: the validated data.
    :param prefix: path of the validated part, if it is not the whole document.
    """
    findings.failed = True
    for item in error.errors(include_url=False, include_input=False):
        kind: str = item["type"]
        context: dict[str, Any] = item.get("ctx", {})
        path = prefix + document_path(data, item["loc"])
        if kind == ERROR_TYPE:
            path += tuple(context["path"])
            if not findings.is_reported(path) and not _follows_from_bad(findings, path, context):
                key = "[key]" in item["loc"] or (bool(context["path"]) and context["code"] in ("GPU201", "GPU213"))
                hint = _as_list(data, path[len(prefix) :]) or context["hint"]
                findings.at_path(context["code"], context["message"], path, hint, key=key)
        elif kind == "missing":
            path = path if path and path[-1] == item["loc"][-1] else (*path, str(item["loc"][-1]))
            # With unknown fields, `job.sweep` stands for `sweep`: users do not write its own.
            is_sweep = path[:-1] == ("job", "sweep") and path[:-1] in findings.puzzling
            if not findings.is_reported(path) and not is_sweep:
                _report_missing(findings, path)
        elif kind in ("greater_than_equal", "less_than_equal"):
            bound = context.get("ge", context.get("le"))
            field = format_path(path[-1:])
            if kind == "greater_than_equal":
                message = say("`{field}` must be at least {bound}", field=field, bound=bound)
                hint = say("write a number that is at least {bound}", bound=bound)
            else:
                message = say("`{field}` must be at most {bound}", field=field, bound=bound)
                hint = say("write a number that is at most {bound}", bound=bound)
            findings.at_path("GPU206", message, path, hint)
        elif not findings.is_reported(path) and kind not in _OTHER_BRANCH:
            _report_other(findings, item, path)


def _as_list(data: dict[str, Any], path: FieldPath) -> Sentence | None:
    """Return the hint for several values in one text, as ``V100,A100``, if the field takes a list too; else None."""
    if data.get("kind") not in KINDS or document_path(data, path) != path:
        return None
    value: Any = data
    shape: Shape | None = kind_shape(data["kind"])
    for step in path:
        value, shape = value[step], value_shape(shape, step)
    if not isinstance(value, str) or not isinstance(shape, UnionShape) or shape.list != ListShape(TEXT):
        return None
    texts = (part.strip(" '\"[]") for part in re.split(r"[,;|]", value.translate(ASCII)))
    parts = [text for text in texts if text]
    return say("write a list: {words}", words=flow_list(parts)) if len(parts) > 1 else None


def _report_other(findings: Findings, item: Mapping[str, Any], path: FieldPath) -> None:
    """Report an error about the number of entries of a list or a mapping, or one in pydantic's words."""
    field, context = format_path(path[-1:]), item.get("ctx", {})
    if item["type"] == "too_short":
        if any(bad[: len(path)] == path for bad in findings.bad):
            # Entries with an error are left out of the validated data.
            return
        message = say("`{field}` must have at least {least:item}", field=field, least=context["min_length"])
        hint = say(_EMPTY_HINTS.get(path, Template("add one, or remove the line")))
        findings.at_path("GPU202", message, path, hint)
    elif item["type"] == "too_long":
        most = context["max_length"]
        message = say("`{field}` has more than {most:item}", field=field, most=most)
        findings.at_path("GPU202", message, path, say("write at most {most}", most=most))
    else:
        message = say("`{field}`: {problem}", field=field, problem=item["msg"].lower())
        findings.at_path("GPU202", message, path)


def _follows_from_bad(findings: Findings, path: FieldPath, context: dict[str, Any]) -> bool:
    """Return True if a block is reported to lack a field that it has with an invalid value, or under another name.

    GPU232: `job.notify` lacks an event.
    """
    block = path[: len(path) - len(context["path"])]
    is_there = any(bad[: len(block)] == block for bad in findings.bad) or (block != () and block in findings.puzzling)
    return context["code"] in ("GPU201", "GPU232") and is_there


def _report_missing(findings: Findings, path: FieldPath) -> None:
    name, parent = str(path[-1]), path[:-1]
    # In a list, the entry is what lacks the field.
    if parent:
        message = say("missing required field `{name}` in {block}", name=name, block=format_path(parent))
    elif name in ("job", "environment"):
        message = say("missing required block `{name}`", name=name)
    else:
        message = say("missing required field `{name}`", name=name)
    known = _MISSING_HINTS.get(name)
    hint = say(known) if known is not None else say("add `{name}:`", name=name)
    findings.add("GPU201", message, findings.span(parent, key=True), path, hint)


def document_path(data: Any, loc: Iterable[int | str]) -> FieldPath:
    """Return pydantic's location as a path in the validated data, as deep as the data goes, without the names of union
    branches.
    """
    path: FieldPath = ()
    for part in loc:
        if part == "[key]":
            break
        steps: Container[int | str] = ()
        if isinstance(data, dict):
            steps = data
        elif isinstance(data, list):
            steps = range(len(data))
        if part in steps:
            data, path = data[part], (*path, part)
    return path
