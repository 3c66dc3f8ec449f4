"""Remarks about the lines of a script, which become entries of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.importing.draft import COMMAND
from gpuctl.importing.line_ledger import LineLedger, Outcome

_RANK = {Outcome.MAPPED: 0, Outcome.CHANGED: 1, Outcome.DROPPED: 2}


class _Remark(NamedTuple):
    """An entry of the ledger in the making."""

    outcome: Outcome
    field: str | None
    notes: dict[str, None]


class BodyRemarks:
    """Collects remarks. Several about the same lines become one entry: the worst outcome, with all notes.

    :param body: the script as written.
    :param first_line: the line of the file where it starts.
    """

    def __init__(self, body: str, first_line: int) -> None:
        self._lines = body.split("\n")
        self._first_line = first_line
        self._remarks: dict[range, _Remark] = {}
        self._covered: set[int] = set()
        self._lost: dict[tuple[int, str], str] = {}

    def add(self, lines: range, outcome: Outcome, field: str | None, note: str | None = None) -> None:
        """Add the outcome of lines."""
        old = self._remarks.get(lines)
        notes = {**(old.notes if old is not None else {}), **({note: None} if note else {})}
        if old is not None and _RANK[old.outcome] >= _RANK[outcome]:
            outcome, field = old.outcome, old.field
        self._remarks[lines] = _Remark(outcome, field, notes)
        self._covered.update(lines)

    def take(self, other: BodyRemarks) -> None:
        """Add the remarks about another part of the script."""
        for lines, remark in other._remarks.items():
            for note in remark.notes or (None,):
                self.add(lines, remark.outcome, remark.field, note)
        self._lost.update(other._lost)

    def changed(self, lines: range, note: str, field: str | None = COMMAND) -> None:
        """Add lines with a meaning that differs in the document."""
        self.add(lines, Outcome.CHANGED, field, note)

    def dropped(self, lines: range, note: str, command: str = "") -> None:
        """Add lines that are not in the document, or do not work there.

        :param command: the part of the lines to which this applies; "" if it is all of them.
        """
        self.add(lines, Outcome.DROPPED, None, f"`{command}`: {note}" if command else note)

    def lost(self, line: int, variable: str, note: str) -> None:
        """Add a variable whose value is not known. The line with it stays."""
        self._lost[line, variable] = note

    def is_dropped(self, line: int) -> bool:
        """Return True if a line is a part of what is dropped."""
        return any(line in lines for lines, remark in self._remarks.items() if remark.outcome is Outcome.DROPPED)

    def has_all(self, lines: range) -> bool:
        """Return True if there is a remark about each of the lines."""
        return self._covered.issuperset(lines)

    def write(self, ledger: LineLedger, fields: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write the remarks into a ledger.

        :param fields: field of a remark -> the field of the ledger.
        """
        for (line, variable), reason in self._lost.items():
            ledger.dropped(line, variable, reason)
        for lines, remark in self._remarks.items():
            text = "\n".join(self._lines[lines[0] - self._first_line : lines[-1] - self._first_line + 1])
            field = fields.get(remark.field or "", remark.field)
            ledger.add(lines, text, remark.outcome, field, "; ".join(remark.notes) or None)
