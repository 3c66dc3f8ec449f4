"""The tools whose job descriptions can be imported, and how a source is recognized."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from gpuctl.frontend.source import Source
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.imported import Imported
from gpuctl.importing.slurm.conversion import import_batch_script


class Importer(NamedTuple):
    """An importer. ``is_its``: return True if a text is one of the tool's files."""

    is_its: Callable[[str], bool]
    run: Callable[[Source, Given], Imported]


def _is_batch_script(text: str) -> bool:
    return re.search(r"(?m)^#SBATCH[ \t]", text) is not None


IMPORTERS: dict[str, Importer] = {"slurm": Importer(_is_batch_script, import_batch_script)}


def import_source(source: Source, given: Given, tool: str | None) -> Imported:
    """Return the documents of a source.

    :param tool: a key of :data:`IMPORTERS`; None: the one that recognizes the source.
    :raises Unreadable: no tool recognizes it, or it cannot be imported.
    """
    found = [tool] if tool is not None else [name for name, item in IMPORTERS.items() if item.is_its(source.text)]
    if not found:
        hint = f"name the tool with --from: {', '.join(IMPORTERS)}"
        raise Unreadable(1, "no tool is known that reads this file", hint)
    return IMPORTERS[found[0]].run(source, given)
