"""The ledger of an import: the outcome of each source line, which the importer of the tool decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.language.display_text import shorten, visible
from gpuctl.language.masking import redact

Lines = int | range
"""A line of a source, or several, counted from 1."""


class Outcome(str, Enum):
    """The outcome of a source line.

    ``mapped``: a field with the same meaning. ``changed``: a field with a meaning that differs, as the note says.
    ``dropped``: not in the documents.
    """

    MAPPED = "mapped"
    CHANGED = "changed"
    DROPPED = "dropped"


class LedgerEntry(NamedTuple):
    """The outcome of one option, field or command of a source.

    ``line`` and ``last_line`` count from 1. ``field``: the path of the document's field, None if it is dropped.
    ``note``: what differs and what to do.
    """

    line: int
    last_line: int
    text: str
    outcome: Outcome
    field: str | None = None
    note: str | None = None

    @property
    def lines(self) -> str:
        """The lines as text: ``3`` or ``3-5``."""
        return f"{self.line}" if self.last_line == self.line else f"{self.line}-{self.last_line}"


class LineLedger:
    """Collects the entries of one source, in any order.

    ``lines``: the lines of the source for those of a text inside of it, while that text is read.
    """

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []
        self.lines: Mapping[int, range] = MappingProxyType({})

    def mapped(self, lines: Lines, text: str, field: str | None, note: str | None = None) -> None:
        """Add lines whose meaning is kept."""
        self.add(lines, text, Outcome.MAPPED, field, note)

    def changed(self, lines: Lines, text: str, field: str | None, note: str) -> None:
        """Add lines whose meaning differs."""
        self.add(lines, text, Outcome.CHANGED, field, note)

    def taken(self, lines: Lines, text: str, field: str | None, note: str | None) -> None:
        """Add lines whose meaning differs if there is a note."""
        self.add(lines, text, Outcome.MAPPED if note is None else Outcome.CHANGED, field, note)

    def dropped(self, lines: Lines, text: str, note: str) -> None:
        """Add lines that are not in the documents."""
        self.add(lines, text, Outcome.DROPPED, None, note)

    def add(self, lines: Lines, text: str, outcome: Outcome, field: str | None, note: str | None) -> None:
        """Add the outcome of lines."""
        shown = visible(redact(shorten(" ".join(text.split()), 100)))
        lines = placed(self.lines, lines)
        self._entries.append(LedgerEntry(lines[0], lines[-1], shown, outcome, field, note))

    def replaced(self, field: str, note: str) -> None:
        """Note that the command line replaces the value of a field."""
        self._entries = [
            entry._replace(outcome=Outcome.CHANGED, note=note) if entry.field == field else entry
            for entry in self._entries
        ]

    def renamed(self, names: Mapping[str, str]) -> LineLedger:
        """Return the entries with other fields.

        :param names: field -> the new one, also of the fields below it; the first that fits.
        """
        result = LineLedger()
        for entry in self._entries:
            field = entry.field or ""
            old = next((name for name in names if field == name or field.startswith(f"{name}.")), None)
            new = entry.field if old is None else names[old] + field.removeprefix(old)
            result._entries.append(entry._replace(field=new))
        return result

    def extend(self, other: LineLedger) -> None:
        """Add the entries of another ledger of the source."""
        self._entries += other._entries

    def entries(self) -> list[LedgerEntry]:
        """Return the entries in the order of the source."""
        return in_source_order(self._entries)


def placed(lines: Mapping[int, range], inside: Lines) -> range:
    """Return the lines in a source, for those of a text inside of it."""
    if isinstance(inside, int):
        inside = range(inside, inside + 1)
    first, last = (lines.get(number, range(number, number + 1)) for number in (inside[0], inside[-1]))
    return range(first[0], max(first[0], last[-1]) + 1)


def line_numbers(lines: range) -> str:
    """Return ``line 3`` or ``lines 3-5``."""
    return f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]}-{lines[-1]}"


def in_source_order(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return entries in the order of their lines."""
    return sorted(entries, key=lambda entry: entry.line)


def count_of(entries: Iterable[LedgerEntry], outcome: Outcome) -> int:
    """Return the number of entries with an outcome."""
    return sum(entry.outcome is outcome for entry in entries)
