"""Printing differences between manifests: a unified diff per object, or Markdown."""

from __future__ import annotations

from gpuctl.cli.output.yaml_diff import yaml_diff
from gpuctl.gitops.markdown import fold
from gpuctl.gitops.object_changes import ObjectChange, StateChanges
from gpuctl.gitops.value_change import changes_text
from gpuctl.language.masking import masked_pair
from gpuctl.objects.companion_names import without_archive

_WIDTH = 9


def text_lines(changes: StateChanges) -> list[str]:
    """Return the lines for a terminal."""
    lines = _document_lines(changes)
    for change in changes.objects:
        lines.append(f"{change.action:<{_WIDTH}} {change.key}\n")
        lines += _unified(change)
    return lines


def _unified(change: ObjectChange) -> list[str]:
    before, after = (obj and without_archive(obj) for obj in masked_pair(change.before, change.after))
    old = "/dev/null" if change.before is None else f"before/{change.key}"
    new = "/dev/null" if change.after is None else f"after/{change.key}"
    return list(yaml_diff(before, after, (old, new)))


def markdown_lines(changes: StateChanges, against: str) -> list[str]:
    """Return the lines for a comment on a pull request."""
    objects = changes.objects
    if not objects:
        return [f"No difference to `{against}`.\n"]
    number = "1 object differs" if len(objects) == 1 else f"{len(objects)} objects differ"
    lines = [f"{number} from `{against}`.\n"]
    if changes.documents:
        lines.append(fold("documents", "".join(_document_lines(changes))))
    return lines + [fold(f"{change.action} {change.key}", "".join(_unified(change))) for change in objects]


def _document_lines(changes: StateChanges) -> list[str]:
    return [f"{item.document}: {changes_text(item.changes)}\n" for item in changes.documents]
