"""The outcome of an earlier run with the few parts made anew that have changed, where nothing else follows from them.

What documents have to do with each other is found from a few facts of each, and which objects there are from their
names. A changed image, command or variable alters neither, so that the whole stands but for the texts of its manifests.
Wherever that is in doubt all parts are put together as if for the first time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.incremental.entry import Entry, packed
from gpuctl.incremental.parts import Part, written
from gpuctl.incremental.units import Unit


def part_key(how: bytes, unit: Unit) -> str:
    """The digest of a unit, and of ``how`` parts are made: of all else that its part depends on."""
    chunk = unit.chunk
    stretch = f"{chunk.source.name!r} {chunk.source.direct} {unit.whole}\n{chunk.text}"
    return hashlib.blake2b(stretch.encode(), key=how, digest_size=16).hexdigest()


def frame(how: bytes, found: Iterable[Unit], starts: Sequence[str | None], said: Iterable[Diagnostic]) -> str:
    """The digest of all that a whole consists of, whatever its units hold.

    These are how parts are made, which units there are, and what is said before they are looked at: of files that are
    not read, and of the platform.
    """
    stretches = [(unit.chunk.source.name, unit.chunk.source.direct, unit.whole) for unit in found]
    facts = [list(starts), [packed(item) for item in said], stretches]
    return hashlib.blake2b(json.dumps(facts).encode(), key=how, digest_size=16).hexdigest()


def renewed(entry: Entry, found: Sequence[Unit], keys: Sequence[str], made: Mapping[str, Part]) -> Entry | None:
    """The entry, of the same frame, as a run would leave it now; None where the parts are to be put together.

    :param keys: those of the units ``found``, in their order.
    :param made: the parts that the entry has not, by key.
    """
    head = entry.head
    if len(head["keys"]) != len(keys):
        return None
    changed = [number for number, key in enumerate(keys) if head["keys"][number] != key]
    # What is told of a document tells its lines, which may be others now.
    files = {found[number].chunk.source.name for number in changed}
    if not changed or any(files & _files(item) for item in head["diagnostics"]):
        return None
    texts: dict[int, str] = {}
    for number in changed:
        part = made.get(keys[number])
        own = _texts(entry, json.loads(entry.parts[number]), part) if part is not None else None
        if own is None:
            return None
        texts.update(own)
    return entry.renewed({number: keys[number] for number in changed}, texts)


def _files(diagnostic: Sequence[Any]) -> set[str]:
    """The files that a diagnostic as plain data names."""
    place, related = diagnostic[3], diagnostic[6]
    return {at[0] for at in (place, *(place for _, place in related)) if at is not None}


def _texts(entry: Entry, before: list[Any], part: Part) -> dict[int, str] | None:
    """The texts of a part's own manifests by their numbers; None when it differs in anything else."""
    numbers = [number for piece in before[3] for number in piece[-1]]
    rows = [row for piece in part.pieces for row in piece.rows]
    if any(piece.facts is None for piece in part.pieces) or not rows or len(numbers) != len(rows):
        return None
    texts: dict[int, str] = {}
    for number, row in zip(numbers, rows, strict=True):
        if entry.rows[number][:5] != list(row[:5]):
            return None
        if row.shared and str(entry.texts[number], "utf-8") != row.text:
            return None
        texts[number] = row.text
    index = {row[:4]: number for number, row in zip(numbers, rows, strict=True)}
    # As it would be read: a tuple is a list there.
    return texts if json.loads(json.dumps(written(part, index))) == before else None
