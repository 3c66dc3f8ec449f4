"""Variables of the environment that a source sets, as fields of a document."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from gpuctl.frontend.platform_restrictions import NO_DEVICES, RESERVED_ENV, VISIBLE_DEVICES
from gpuctl.importing.draft import Draft
from gpuctl.importing.line_ledger import Lines
from gpuctl.importing.source_tree import Path, SourceTree
from gpuctl.language.names import is_pod_field
from gpuctl.objects.quantities import whole_number

_PORT = "MASTER_PORT"
CARDS = "the device plugin sets it, for the cards of `resources.gpu`: this value is not used"


class TakenVariable(NamedTuple):
    """A variable that is taken. ``field``: None if gpuctl sets it. ``note``: what differs, None if nothing does."""

    field: str | None
    note: str | None = None


def take_variable(draft: Draft, name: str, value: Any, lines: Lines) -> TakenVariable:
    """Set a variable of a document, but for those that gpuctl sets in trainings, and that of NVIDIA's runtime."""
    if shows_cards(name, value):
        return TakenVariable(None, CARDS)
    if not is_set_by_gpuctl(draft, name):
        draft.set_item("environment.env", name, value, lines)
        return TakenVariable(f"environment.env.{name}")
    port = whole_number(value) if name == _PORT and isinstance(value, str) else None
    if port is not None:
        draft.set("job.master_port", port, lines)
        return TakenVariable("job.master_port")
    return TakenVariable(None, f"gpuctl sets `{name}`, and documents cannot: this value is not used")


def refers_to(value: Any, names: Collection[str]) -> bool:
    """Return True if a value contains one of these variables, as ``$(NAME)``: it has to come after them."""
    return isinstance(value, str) and any(f"$({name})" in value for name in names)


def is_set_by_gpuctl(draft: Draft, name: str) -> bool:
    """Return True if documents cannot set a variable: gpuctl sets it in trainings."""
    return draft.kind == "training" and name in RESERVED_ENV


def shows_cards(name: str, value: Any) -> bool:
    """Return True for a variable that shows a container cards, whichever pods they belong to."""
    return name == VISIBLE_DEVICES and value not in NO_DEVICES


def source_of_variable(tree: SourceTree, path: Path) -> dict[str, str] | None:
    """Return the source of a variable of a manifest, as a document has it; None if the language has none like it."""
    for kind, field in (("secret", "secretKeyRef"), ("configMap", "configMapKeyRef")):
        reference = tree.get((*path, field))
        if isinstance(reference, dict) and set(reference) == {"name", "key"}:
            return {kind: reference["name"], "key": reference["key"]}
    field_path = tree.text((*path, "fieldRef", "fieldPath"))
    return {"fieldRef": field_path} if field_path is not None and is_pod_field(field_path) else None
