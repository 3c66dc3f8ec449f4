"""Fields of a block that exclude each other: one table for validators, JSON Schemas, and changes of documents."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.language.sentences import Template

KEEP_ONE = Template("keep one")
REMOVE_IT = Template("remove it")


class Exclusion(NamedTuple):
    """A field of a block, and the fields that are an error beside it. A field with its default counts as absent.

    Names have dots for fields of inner blocks, and ``[]`` after a list of blocks. ``message``: names the two as
    ``{first}`` and ``{second}``; None if a check of the frontend reports them. ``at``: the field of the error, "" for
    the block; by default the second one. ``value``: the only value of ``written`` that excludes the others.
    ``replaces``: a change of ``written`` removes the others.
    """

    written: str
    others: tuple[str, ...]
    message: Template | None = None
    hint: Template = KEEP_ONE
    at: str | None = None
    value: str | None = None
    replaces: bool = True


def one_of(
    *names: str,
    message: Template | None = None,
    hint: Template = KEEP_ONE,
    at: str | None = None,
    replaces: bool = True,
) -> tuple[Exclusion, ...]:
    """Return the exclusions of fields of which a block has at most one."""
    return tuple(
        Exclusion(name, tuple(other for other in names if other != name), message, hint, at, replaces=replaces)
        for name in names
    )
