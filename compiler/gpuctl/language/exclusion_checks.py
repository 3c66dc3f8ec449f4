"""Finds fields of a block that exclude each other."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from gpuctl.language.exclusions import Exclusion
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block
from gpuctl.language.sentences import say
from gpuctl.language.value_forms import form_of


class _Place(NamedTuple):
    """A field below a block: its keys and attributes, and its default. ``item``: its place in each block of a list."""

    keys: tuple[str, ...]
    attributes: tuple[str, ...]
    default: Any
    item: _Place | None = None

    def path_in(self, block: Any) -> tuple[str | int, ...] | None:
        """Return the path of the field's first value that is not the default; None if a block has none."""
        for attribute in self.attributes:
            block = getattr(block, attribute, None)
        if self.item is None:
            return self.keys if block is not None and block != self.default else None
        found = ((index, self.item.path_in(item)) for index, item in enumerate(block or ()))
        return next(((*self.keys, index, *path) for index, path in found if path is not None), None)


@cache
def place_of(block: type[Block], name: str) -> _Place:
    """Return the place of a field, by its name below a block."""
    outer, _, in_item = name.partition("[].")
    keys, attributes, inner, default, item = tuple(outer.split(".")), [], block, None, None
    for key in keys:
        attribute, info = next(
            (attribute, info) for attribute, info in inner.model_fields.items() if key == (info.alias or attribute)
        )
        attributes.append(attribute)
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        form = form_of(inner, key)
        inner = form.block or (form.item and form.item.block) or inner
    if in_item:
        item = place_of(inner, in_item)
        default = item.default
    return _Place(keys, tuple(attributes), default, item)


@cache
def _refused(block: type[Block]) -> list[tuple[Exclusion, _Place]]:
    """Return the exclusions of a block that its validator reports, each with the place of its first field."""
    return [(rule, place_of(block, rule.written)) for rule in block.exclusions if rule.message is not None]


def refuse_exclusions(block: Block, **words: object) -> None:
    """Raise the error of the first two fields of a block that exclude each other.

    :param words: further values of the messages.
    """
    kind = type(block)
    for rule, place in _refused(kind):
        if place.path_in(block) is None or rule.value not in (None, getattr(block, rule.written, None)):
            continue
        paths = ((name, place_of(kind, name).path_in(block)) for name in rule.others)
        other, path = next(((name, path) for name, path in paths if path is not None), (None, ()))
        if other is not None and rule.message is not None:
            names = {"first": rule.written, "second": other, **words}
            if rule.at is not None:
                path = tuple(filter(None, rule.at.split(".")))
            raise field_error("GPU213", say(rule.message, **names), say(rule.hint, **names), path)
