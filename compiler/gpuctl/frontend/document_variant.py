"""The chosen variant of a job's document: a profile, and fields that are overridden for one run."""

from __future__ import annotations

from typing import NamedTuple

OPTION = "--with"


class Variant(NamedTuple):
    """The variant to compile. ``overrides``: values of `--with`, each ``PATH=VALUE`` or ``JOB:PATH=VALUE``."""

    profile: str | None = None
    overrides: tuple[str, ...] = ()


PLAIN = Variant()
"""The documents as written."""
