"""The extended resources of cards in manifests, as fields of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuctl.importing.draft import Draft
from gpuctl.language.settings import Settings


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


def set_card_kind(draft: Draft, kind: CardKind, line: int) -> str | None:
    """Set the vendor of the cards of a document, and their type. Return what differs."""
    if kind.vendor != draft.settings.default_vendor:
        draft.set("resources.gpu-vendor", kind.vendor, line)
    if kind.type is None:
        return None
    draft.set("resources.gpu-type", kind.type, line)
    return f"`resources.gpu-type` chooses this resource, and nodes with the label of the type `{kind.type}`"
