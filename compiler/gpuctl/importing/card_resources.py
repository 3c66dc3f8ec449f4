"""The extended resources of cards in manifests, as fields of a document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuctl.importing.draft import Draft
from gpuctl.importing.line_ledger import Lines
from gpuctl.language.settings import Settings

_TYPES = {
    r"(?i)MI\d{2,3}[A-Z]?\Z": "amd",
    r"(?i)(?:[ABHLTV]\d{1,3}|G[BH]\d{3}|K[248]0|P(?:4|40|100)|RTX|GTX|TESLA|TITAN)(?![0-9])": "nvidia",
}
"""Pattern of a type of GPUs -> its vendor. Other types are not known by their names alone."""


class CardKind(NamedTuple):
    """Cards of one resource. ``type``: the GPU type by which the resource is chosen; None for that of the vendor."""

    vendor: str
    type: str | None


def card_kinds(settings: Settings) -> Mapping[str, CardKind]:
    """Return the cards by their extended resource, such as ``nvidia.com/gpu``."""
    return {
        gpu.resource: CardKind(vendor, gpu.resource.rpartition("/")[2] if chip else None)
        for vendor, chips in settings.gpu_chips.items()
        for chip, gpu in chips.items()
    }


def set_card_kind(draft: Draft, kind: CardKind, lines: Lines | None) -> str | None:
    """Set the vendor of the cards of a document, and their type. Return what differs."""
    if kind.vendor != draft.settings.default_vendor:
        draft.set("resources.gpu-vendor", kind.vendor, lines)
    if kind.type is None:
        return None
    draft.set("resources.gpu-type", kind.type, lines)
    return f"`resources.gpu-type` chooses this resource, and nodes with the label of the type `{kind.type}`"


def set_types(draft: Draft, types: Sequence[str], lines: Lines | None, vendor: str = "") -> str | None:
    """Set the types of the GPUs of a document, in order of preference, and their vendor if the names tell it.

    Return what differs: the GPUs of a document are those of one vendor.

    :param vendor: the one that the source names. Default: that of the first type with a known vendor.
    """
    of = {name: next((vendor for pattern, vendor in _TYPES.items() if re.match(pattern, name)), "") for name in types}
    vendor = vendor or next(filter(None, of.values()), "")
    kept = [name for name in types if of[name] in ("", vendor)] or list(types)
    if kept:
        draft.set("resources.gpu-type", kept[0] if len(kept) == 1 else kept, lines)
    if vendor and all(of[name] == vendor for name in kept):
        set_card_kind(draft, CardKind(vendor, None), lines)
    others = ", ".join(f"`{name}`" for name in types if name not in kept)
    return f"a job has GPUs of one vendor: without {others}" if others else None
