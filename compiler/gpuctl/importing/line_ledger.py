"""The ledger of an import: the outcome of each source line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.language.display_text import shorten, visible
from gpuctl.language.masking import redact


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

    def mapped(self, line: int, text: str, field: str | None, note: str | None = None, *, last: int = 0) -> None:
        """Add a line whose meaning is kept."""
        self._add(line, text, Outcome.MAPPED, field, note, last)

    def changed(self, line: int, text: str, field: str | None, note: str, *, last: int = 0) -> None:
        """Add a line whose meaning differs."""
        self._add(line, text, Outcome.CHANGED, field, note, last)

    def taken(self, line: int, text: str, field: str | None, note: str | None, *, last: int = 0) -> None:
        """Add a line whose meaning differs if there is a note."""
        self._add(line, text, Outcome.MAPPED if note is None else Outcome.CHANGED, field, note, last)

    def dropped(self, line: int, text: str, note: str, *, last: int = 0) -> None:
        """Add a line that is not in the documents."""
        self._add(line, text, Outcome.DROPPED, None, note, last)

    def _add(self, line: int, text: str, outcome: Outcome, field: str | None, note: str | None, last: int) -> None:
        shown = visible(redact(shorten(" ".join(text.split()), 100)))
        line, last = placed(self.lines, line, last)
        self._entries.append(LedgerEntry(line, max(line, last), shown, outcome, field, note))

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

    def widen(self, line: int, last: int) -> None:
        """Have the entries of a line end at another one: YAML joins the lines of a text."""
        self._entries = [
            entry._replace(last_line=max(entry.last_line, last)) if entry.line == line else entry
            for entry in self._entries
        ]

    def extend(self, other: LineLedger) -> None:
        """Add the entries of another ledger of the source."""
        self._entries += other._entries

    def entries(self) -> list[LedgerEntry]:
        """Return the entries in the order of the source."""
        return in_source_order(self._entries)


def placed(lines: Mapping[int, range], line: int, last: int = 0) -> tuple[int, int]:
    """Return the first and the last line in a source, for the lines of a text inside of it."""
    first, end = (lines.get(number, range(number, number + 1)) for number in (line, max(line, last)))
    return first[0], end[-1]


def in_source_order(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return entries in the order of their lines."""
    return sorted(entries, key=lambda entry: entry.line)


def count_of(entries: Iterable[LedgerEntry], outcome: Outcome) -> int:
    """Return the number of entries with an outcome."""
    return sum(entry.outcome is outcome for entry in entries)
