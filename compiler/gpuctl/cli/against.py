"""``gpuctl diff --against``: documents against manifests in a directory, or against themselves at another revision."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuctl.backend.emitter import emit_object
from gpuctl.cli.printers.markdown import fold
from gpuctl.gitops.objects import ObjectChange, ObjectKey, by_key, differences, objects_in, without_delivery
from gpuctl.language.masking import masked_pair

if TYPE_CHECKING:
    from gpuctl.compilation import Compilation

GIT = "git:"
_WIDTH = 9


def diff_against(
    against: str, inputs: Sequence[str], platform: str | None, namespace: str, strict: bool, output: str
) -> int:
    """The difference from a directory (``DIR``) or a revision (``git:REF``) to the documents as they are.

    0: none; 1: there is one; 2: it could not be told.
    """
    from gpuctl.cli.impact import compiled_at, compiled_pair
    from gpuctl.gitops.errors import BuildError

    if against.startswith(GIT):
        pair = compiled_pair(against.removeprefix(GIT), None, inputs, platform, namespace, strict)
        before, after = (_objects(compilation) for compilation in pair)
    else:
        now = compiled_at(None, inputs, platform, namespace, strict)
        try:
            before = objects_in(Path(against))
        except BuildError as error:
            for problem in error.problems:
                click.echo(f"error: {problem}", err=True)
            return 2
        before, after = _comparable(before, now)
    changes = differences(before, after)
    if output == "json":
        click.echo(_json(changes), nl=False)
    else:
        sys.stdout.writelines(_markdown(changes, against) if output == "markdown" else _text(changes))
    return 1 if changes else 0


def _objects(compilation: Compilation | None) -> dict[ObjectKey, Any]:
    return by_key(compilation.objects) if compilation is not None else {}


def _comparable(
    before: dict[ObjectKey, Any], now: Compilation | None
) -> tuple[dict[ObjectKey, Any], dict[ObjectKey, Any]]:
    """Both sides without what depends on how the directory was rendered: delivery, Node labels, shared objects."""
    if now is None:
        return before, {}
    document_key = now.settings.label("document")
    shared = {key for item in now.lowered if item.shared for key in by_key([item.object])}
    has_shared = any(key in before for key in shared if key.kind != "Node")
    has_nodes = any(key.kind == "Node" for key in before)
    left_out = {key for key in shared if key not in before and not (has_nodes if key.kind == "Node" else has_shared)}
    after = {key: without_delivery(obj, document_key) for key, obj in _objects(now).items() if key not in left_out}
    return {key: without_delivery(obj, document_key) for key, obj in before.items()}, after


def _text(changes: list[ObjectChange]) -> list[str]:
    lines = []
    for change in changes:
        lines.append(f"{change.action:<{_WIDTH}} {change.key}\n")
        lines += _unified(change)
    return lines


def _unified(change: ObjectChange) -> list[str]:
    def shown(obj: Any) -> list[str]:
        return emit_object(obj).splitlines(keepends=True) if obj is not None else []

    before, after = masked_pair(change.before, change.after)
    old = "/dev/null" if change.before is None else f"before/{change.key}"
    new = "/dev/null" if change.after is None else f"after/{change.key}"
    return list(unified_diff(shown(before), shown(after), old, new))


def _markdown(changes: list[ObjectChange], against: str) -> list[str]:
    if not changes:
        return [f"No difference to `{against}`.\n"]
    number = "1 object differs" if len(changes) == 1 else f"{len(changes)} objects differ"
    lines = [f"{number} from `{against}`.\n"]
    return lines + [fold(f"{change.action} {change.key}", "".join(_unified(change))) for change in changes]


def _json(changes: list[ObjectChange]) -> str:
    steps = [
        {
            "action": change.action,
            "apiVersion": change.key.api_version,
            "kind": change.key.kind,
            "namespace": change.key.namespace or None,
            "name": change.key.name,
            "reason": None,
            "changes": [
                {"path": item.path, "from": item.old, "to": item.new}
                for item in change._replace(before=before, after=after).changes
            ],
            "result": "planned",
            "error": None,
        }
        for change in changes
        for before, after in [masked_pair(change.before, change.after)]
    ]
    summary: dict[str, int] = {}
    for change in changes:
        summary[change.action] = summary.get(change.action, 0) + 1
    return json.dumps({"set": None, "steps": steps, "summary": summary}, ensure_ascii=False, indent=2) + "\n"
