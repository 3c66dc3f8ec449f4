"""The installed releases of the dependencies: files that are generated with the locked ones differ with others."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

_LOCK = Path(__file__).parents[2] / "requirements" / "dev.txt"


def _is_locked(name: str) -> bool:
    return version(name) in re.findall(rf"^{name}==(\S+)", _LOCK.read_text(), re.MULTILINE)


with_locked_releases = pytest.mark.skipif(
    not all(map(_is_locked, ("fastapi", "pydantic", "jsonschema-rs"))),
    reason="the documents in the tree are generated and judged with the releases of requirements/dev.txt",
)
"""Marks tests that generate documents anew and compare them with those in the tree, or judge these with a tool that asks
more of jsonschema-rs than gpuctl does."""
