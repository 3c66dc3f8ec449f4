"""Turns pydantic's errors into diagnostics: the second pass over a document."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from gpuctl.frontend.diagnostics import FieldPath, format_path
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.spans import child
from gpuctl.frontend.yaml_tree import YamlNode
from gpuctl.language.autoscaling_block import OwnMetric
from gpuctl.language.environment_block import VariableSource
from gpuctl.language.field_errors import ERROR_TYPE
from gpuctl.language.gpu_share_block import GpuShare
from gpuctl.language.node_range import NodeRange
from gpuctl.language.schedule_block import Schedule

# Errors of the union branches that a value is not for: the first pass has chosen the branch.
_OTHER_BRANCH = frozenset({"string_type", "int_type", "list_type", "dict_type", "model_type", "literal_error"})
_BLOCKS = "|".join(block.__name__ for block in (GpuShare, NodeRange, OwnMetric, Schedule, VariableSource))
_BRANCH_NAME = rf"[\[\]()<>,]|^(str|int|list|dict|constrained-\w+|function-\w+|nullable|{_BLOCKS})$"
_MISSING_HINTS = {
    "job": "add `job:` with a `name:`",
    "environment": "add `environment:` with an `image:`",
    "image": "add `image:`, the container image to run",
    "name": "add `name:`",
}


def report_model_errors(findings: Findings, error: ValidationError, prefix: FieldPath = ()) -> None:
    """Report pydantic's errors as diagnostics, except those that follow from an error reported before.

    :param prefix: path of the validated part, if it is not the whole document.
    """
    findings.failed = True
    for item in error.errors(include_url=False, include_input=False):
        kind: str = item["type"]
        context: dict[str, Any] = item.get("ctx", {})
        path = prefix + _document_path(findings.root, item["loc"], prefix)
        if kind == ERROR_TYPE:
            path += tuple(context["path"])
            if not findings.is_reported(path) and not _follows_from_bad(findings, path, context):
                key = "[key]" in item["loc"] or (bool(context["path"]) and context["code"] in ("GPU201", "GPU213"))
                findings.at_path(context["code"], context["message"], path, context["hint"], key=key)
        elif kind == "missing":
            path = path if path and path[-1] == item["loc"][-1] else (*path, str(item["loc"][-1]))
            if not findings.is_reported(path):
                _report_missing(findings, path)
        elif kind in ("greater_than_equal", "less_than_equal"):
            bound = context.get("ge", context.get("le"))
            most = f"{'at least' if kind == 'greater_than_equal' else 'at most'} {bound}"
            message = f"`{format_path(path[-1:])}` must be {most}"
            findings.at_path("GPU206", message, path, f"write a number that is {most}")
        elif not findings.is_reported(path) and kind not in _OTHER_BRANCH:
            findings.at_path("GPU202", f"`{format_path(path[-1:])}`: {item['msg'].lower()}", path)


def _follows_from_bad(findings: Findings, path: FieldPath, context: dict[str, Any]) -> bool:
    """Return True if a block is reported to lack a field that it has with an invalid value, or under another name."""
    block = path[: len(path) - len(context["path"])]
    is_there = any(bad[: len(block)] == block for bad in findings.bad) or (block != () and block in findings.puzzling)
    return context["code"] == "GPU201" and is_there


def _report_missing(findings: Findings, path: FieldPath) -> None:
    name, parent = str(path[-1]), path[:-1]
    where = f" in {format_path(parent)}" if parent else ""
    # In a list, the entry is what lacks the field.
    what = "block" if name in ("job", "environment") and not parent else "field"
    message = f"missing required {what} `{name}`{where}"
    hint = _MISSING_HINTS.get(name, f"add `{name}:`")
    findings.add("GPU201", message, findings.span(parent, key=True), path, hint)


def _document_path(root: YamlNode, loc: tuple[int | str, ...], prefix: FieldPath) -> FieldPath:
    """Return pydantic's location below ``prefix`` as a document path, without the names of union branches."""
    path: list[str | int] = []
    node: YamlNode | None = root
    for part in prefix:
        step = child(node, part) if node is not None else None
        node = step[1] if step else None
    for part in loc:
        if part == "[key]":
            break
        step = child(node, part) if node is not None else None
        if step is not None:
            node = step[1]
            path.append(part)
        elif isinstance(part, int) or not re.search(_BRANCH_NAME, part):
            path.append(part)
            node = None
    return tuple(path)
