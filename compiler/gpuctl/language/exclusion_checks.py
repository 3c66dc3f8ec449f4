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
    """A field below a block: its attributes, and its default."""

    attributes: tuple[str, ...]
    default: Any

    def has_value(self, block: Any) -> bool:
        """Return True if a block has another value than the default."""
        for attribute in self.attributes:
            block = getattr(block, attribute, None)
        return block is not None and block != self.default


@cache
def place_of(block: type[Block], name: str) -> _Place:
    """Return the place of a field, by its name below a block."""
    attributes, inner, default = [], block, None
    for step in name.split("."):
        attribute, info = next(
            (attribute, info) for attribute, info in inner.model_fields.items() if step == (info.alias or attribute)
        )
        attributes.append(attribute)
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        inner = form_of(inner, step).block or inner
    return _Place(tuple(attributes), default)


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
        if not place.has_value(block) or rule.value not in (None, getattr(block, rule.written, None)):
            continue
        other = next((name for name in rule.others if place_of(kind, name).has_value(block)), None)
        if other is not None and rule.message is not None:
            names = {"first": rule.written, "second": other, **words}
            path = tuple((other if rule.at is None else rule.at).split(".")) if rule.at != "" else ()
            raise field_error("GPU213", say(rule.message, **names), say(rule.hint, **names), path)
