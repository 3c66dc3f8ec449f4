"""A YAML document of another tool. Values that no importer takes are dropped, each with an entry in the ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.field_assignments import plain_data
from gpuctl.frontend.source import Source
from gpuctl.frontend.spans import child
from gpuctl.frontend.yaml_reader import read
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, RawDocument, YamlNode
from gpuctl.importing.field_values import MOST_DIGITS
from gpuctl.importing.import_values import Unreadable
from gpuctl.importing.line_ledger import LineLedger, Outcome
from gpuctl.objects.quantities import whole_number

Path = tuple[str | int, ...]
_LONGEST_PATH = 94
_SHOWN = 60
_NO_EQUAL = "it has no equal in a document"
_TEMPLATE = r"(?m)^[ \t]*(?:- )?(?:[\w./-]+:[ \t]+)?(\{[{%])"
"""A line that begins with a tag of a template, or a value that does: as YAML this would be a mapping."""
_BOOLEAN = r"(?:[Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF)\Z"
_NUMBER = r"[-+]?[\d.][\w.:+-]{0,60}\Z"
"""Plain scalars of YAML 1.1 that may be numbers."""


def read_documents(source: Source) -> list[RawDocument]:
    """Return the YAML documents of a source.

    :raises Unreadable: it is not YAML.
    """
    diagnostics: list[Diagnostic] = []
    raws = list(read(source, diagnostics))
    for item in diagnostics:
        if item.severity is Severity.ERROR:
            if (place := re.search(_TEMPLATE, source.text)) is not None:
                line = source.text.count("\n", 0, place.start(1)) + 1
                hint = "render it first, as `helm template` does for a chart"
                raise Unreadable(line, "the file is a template, whose values are not known", hint)
            line, column = (item.span.line, item.span.column) if item.span is not None else (1, 1)
            raise Unreadable(line, item.message, item.hint or "mend the YAML of the file", column)
    return raws


class SourceTree:
    """The values of a document by path, such as ``("spec", "replicas")``."""

    def __init__(self, raw: RawDocument, ledger: LineLedger | None = None) -> None:
        self._raw = raw
        self.ledger = ledger or LineLedger()
        self._taken: set[Path] = set()

    def node(self, path: Path) -> YamlNode | None:
        """Return the node at a path; None if it does not exist, or is null."""
        found = self._find(path)
        return None if found is None or found.is_null else found

    def _find(self, path: Path) -> YamlNode | None:
        found: YamlNode = self._raw.root
        for step in path:
            pair = child(found, step)
            # A key in another spelling is another key.
            if pair is None or (pair[0] is not None and pair[0].value != step):
                return None
            found = pair[1]
        return found

    def get(self, path: Path) -> Any:
        """Return the data at a path, in which every scalar is text; None if it does not exist."""
        node = self.node(path)
        return None if node is None else plain_data(node)

    def typed(self, path: Path) -> Any:
        """Return the data at a path with the numbers and booleans of YAML; None if it does not exist."""
        node = self.node(path)
        return None if node is None else self._typed(node)

    def _typed(self, node: YamlNode) -> Any:
        if node.kind == MAPPING:
            return {str(key.value): self._typed(value) for key, value in node.value}
        if node.kind == SEQUENCE:
            return [self._typed(item) for item in node.value]
        text = str(node.value)
        if node.is_null or not node.plain:
            return None if node.is_null else text
        if (boolean := _boolean(text)) is not None:
            return boolean
        if re.match(r"0o?[0-7]{1,20}\Z", text):
            return int(text.replace("o", ""), 8)
        return int(text) if re.match(r"(?a)-?(?:0|[1-9]\d{0,17})\Z", text) else text

    def text(self, path: Path) -> str | None:
        """Return the scalar at a path; None if it does not exist."""
        node = self.node(path)
        return str(node.value) if node is not None and node.kind == SCALAR else None

    def number(self, path: Path) -> int | None:
        """Return the whole number at a path; None if it does not exist, or is something else."""
        return whole_number(self.text(path) or "", MOST_DIGITS)

    def flag(self, path: Path) -> bool | None:
        """Return the boolean at a path; None if it does not exist, or is something else."""
        return _boolean(self.text(path) or "")

    def python_text(self, path: Path) -> str | None:
        """Return the scalar at a path as tools in Python write it: ``True`` for ``yes``, ``1e-05`` for ``0.00001``."""
        node, text = self.node(path), self.text(path)
        if node is None or text is None or not node.plain:
            return text
        if (boolean := _boolean(text)) is not None:
            return str(boolean)
        if re.match(_NUMBER, text) is None:
            return text
        try:
            number = yaml.safe_load(text)
        except ValueError:
            # An invalid date, such as `2024-13-45`.
            return text
        return str(number) if isinstance(number, (int, float)) else text

    def written(self, path: Path) -> str:
        """Return the text of a value in the source; "" if it does not exist."""
        node = self.node(path)
        return "" if node is None else self._raw.chunk.written(node).strip()

    def items(self, path: Path) -> int:
        """Return the number of items of a list; 0 if it does not exist."""
        node = self.node(path)
        return len(node.value) if node is not None and node.kind == SEQUENCE else 0

    def keys(self, path: Path) -> list[str]:
        """Return the keys of a mapping; [] if it does not exist."""
        node = self.node(path)
        return [str(key.value) for key, _ in node.value] if node is not None and node.kind == MAPPING else []

    def line(self, path: Path) -> int:
        """Return the line of a value; 1 if it does not exist."""
        node = self.node(path)
        return self._raw.chunk.span(node).line if node is not None else 1

    def lines(self, path: Path) -> range:
        """Return the lines of a value; the first one if it does not exist."""
        node = self.node(path)
        if node is None:
            return range(1, 2)
        chunk = self._raw.chunk
        end = node.start + len(chunk.written(node).rstrip())
        return range(self.line(path), chunk.place(max(end - 1, node.start))[0] + chunk.first_line + 2)

    def lines_of_text(self, path: Path) -> list[range]:
        """Return the lines of a value for each line of its text: all of them if it is not a literal block."""
        node, whole = self.node(path), self.lines(path)
        number = 1 if node is None else str(node.value).rstrip("\n").count("\n") + 1
        style = "" if node is None else self._raw.chunk.written(node)[:1]
        if style == ">":
            whole = range(whole.start + 1, whole.stop)
        if style != "|":
            return [whole] * number
        return [range(line, line + 1) for line in range(whole.start + 1, whole.start + 1 + number)]

    def mapped(self, path: Path, field: str | None, note: str | None = None) -> None:
        """Take a value whose meaning is kept."""
        self._take(path, Outcome.MAPPED, field, note)

    def changed(self, path: Path, field: str | None, note: str) -> None:
        """Take a value whose meaning differs."""
        self._take(path, Outcome.CHANGED, field, note)

    def taken(self, path: Path, field: str | None, note: str | None) -> None:
        """Take a value whose meaning differs if there is a note."""
        self._take(path, Outcome.MAPPED if note is None else Outcome.CHANGED, field, note)

    def dropped(self, path: Path, note: str) -> None:
        """Take a value that is not in the document."""
        self._take(path, Outcome.DROPPED, None, note)

    def note(self, path: Path, note: str) -> None:
        """Note what differs at the first line of a value, of which the parts have entries of their own."""
        self.ledger.changed(self.line(path), self._text(path, self.written(path).split("\n", 1)[0]), None, note)

    def dropped_secret(self, path: Path, text: str, note: str) -> None:
        """Drop a value that holds credentials: the ledger has a text in its place."""
        if self.node(path) is not None:
            self._taken.add(path)
            self.ledger.dropped(self.lines(path), text, note)

    def dropped_entry(self, path: Path, note: str) -> None:
        """Drop an entry of a mapping, with the line of its key."""
        parent = self.node(path[:-1])
        pair = None if parent is None else child(parent, path[-1])
        if pair is None or pair[0] is None or path in self._taken:
            return
        self._taken.add(path)
        chunk = self._raw.chunk
        first = chunk.span(pair[0]).line
        last = first if pair[1].is_null else self.lines(path)[-1]
        self.ledger.dropped(range(first, last + 1), self._text(path, chunk.written(pair[1]).strip()), note)

    def dropped_null(self, path: Path, note: str) -> None:
        """Drop a key without a value."""
        node = self._find(path)
        if node is not None:
            self._taken.add(path)
            self.ledger.dropped(self._raw.chunk.span(node).line, dotted_path(path), note)

    def take_apart(self, path: Path) -> None:
        """Take a value whose lines get entries of their own."""
        self._taken.add(path)

    def _take(self, path: Path, outcome: Outcome, field: str | None, note: str | None) -> None:
        node = self.node(path)
        if node is None or path in self._taken:
            return
        self._taken.add(path)
        self.ledger.add(self.lines(path), self._text(path, self._raw.chunk.written(node)), outcome, field, note)

    @staticmethod
    def _text(path: Path, written: str) -> str:
        shown = dotted_path(path)
        if len(shown) > _LONGEST_PATH:
            # The ledger cuts long texts at their end, where the field and its value are.
            shown = f"...{shown[-_SHOWN:]}"
        return f"{shown}: {written}".removeprefix(": ")

    def drop_rest(self, notes: Mapping[str, str]) -> None:
        """Drop the values that are left. A subtree of which nothing is taken is one entry, if one note is about it.

        :param notes: pattern of a path as :func:`dotted_path` writes it -> what to do.
        """
        for path, note in self._rest((), self._raw.root, notes)[0]:
            if note is None:
                self._empty(path)
            else:
                self.dropped(path, note)

    def _rest(self, path: Path, node: YamlNode, notes: Mapping[str, str]) -> tuple[list[tuple[Path, str | None]], bool]:
        """Return the values that are left with their notes, None for an empty one, and True if nothing is taken."""
        if path in self._taken:
            return [], False
        items: list[tuple[str | int, YamlNode]] = []
        if node.kind == MAPPING:
            items = [(str(key.value), value) for key, value in node.value]
        elif node.kind == SEQUENCE:
            items = list(enumerate(node.value))
        if not items:
            is_empty = node.is_null or node.kind != SCALAR
            return [(path, None if is_empty else _note_of(path, notes))], True
        left: list[tuple[Path, str | None]] = []
        is_whole = True
        for step, value in items:
            rest, is_left = self._rest((*path, step), value, notes)
            left += rest
            is_whole = is_whole and is_left
        found = {note for _, note in left if note is not None}
        is_one = is_whole and bool(path) and len(left) > 1 and len(found) == 1
        return [(path, found.pop())] if is_one else left, is_whole

    def _empty(self, path: Path) -> None:
        node = self._find(path)
        if node is not None:
            self._taken.add(path)
            self.ledger.mapped(self._raw.chunk.span(node).line, dotted_path(path), None, "it is empty")


def _boolean(text: str) -> bool | None:
    """Return the boolean that a plain scalar is for YAML 1.1, which these tools read."""
    if re.match(_BOOLEAN, text) is None:
        return None
    return text.lower() in ("true", "yes", "on")


def _note_of(path: Path, notes: Mapping[str, str]) -> str:
    shown = dotted_path(path)
    return next((note for pattern, note in notes.items() if re.search(pattern, shown)), _NO_EQUAL)


def dotted_path(path: Path) -> str:
    """Return a path as text: ``spec.containers[0].image``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
