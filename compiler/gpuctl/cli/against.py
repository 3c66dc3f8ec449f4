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
from gpuctl.gitops.objects import (
    ObjectChange,
    ObjectKey,
    by_key,
    differences,
    has_generations,
    key_of,
    objects_in,
    without_delivery,
)
from gpuctl.language.masking import masked_pair

if TYPE_CHECKING:
    from gpuctl.compilation import Compilation

GIT = "git:"
_WIDTH = 9


def diff_against(
    against: str, inputs: Sequence[str], platform: str | None, namespace: str, strict: bool, output: str
) -> int:
    """The difference from a directory (``DIR``) or a revision (``git:REF``) to the documents as they are.

    0: none; 1: there is one; 2: it could not be determined.
    """
    from gpuctl.cli.impact import compiled_at, compiled_pair
    from gpuctl.gitops.build_error import BuildError

    if against.startswith(GIT):
        pair = compiled_pair(against.removeprefix(GIT), None, inputs, platform, namespace, strict)
        before, after = (_objects(compilation) for compilation in pair)
    else:
        try:
            before = objects_in(Path(against))
        except BuildError as error:
            for problem in error.problems:
                click.echo(f"error: {problem}", err=True)
            return 2
        now = compiled_at(
            None, inputs, platform, namespace, strict, job_names="hashed" if has_generations(before) else "plain"
        )
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
    after = _objects(now)
    # A namespace's file stays in a built directory when nothing needs it any more.
    before = {key: obj for key, obj in before.items() if key.kind != "Namespace" or key in after}
    if now is None:
        return before, {}
    document_key = now.settings.label("document")
    left_out = _left_out(before, now)
    after = {key: without_delivery(obj, document_key) for key, obj in after.items() if key not in left_out}
    return {key: without_delivery(obj, document_key) for key, obj in before.items()}, after


def _left_out(before: dict[ObjectKey, Any], now: Compilation) -> set[ObjectKey]:
    """The shared objects that a directory was rendered without, by what it has of their like."""
    shared: dict[str, set[ObjectKey]] = {}
    for item in now.lowered:
        if item.shared:
            kind = item.object["kind"]
            # A quota's output holds its namespaces even where a job's does not.
            own = kind == "Namespace" and item.document.kind not in ("quota", "platform")
            group = kind if kind == "Node" or own else ""
            shared.setdefault(group, set()).add(key_of(item.object))
    rendered = {group for group, keys in shared.items() if any(key in before for key in keys)}
    return {key for group, keys in shared.items() if group not in rendered for key in keys if key not in before}


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
