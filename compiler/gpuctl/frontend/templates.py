"""``{{model.name}}`` in strings of ``environment`` and ``service``: a reference to a field of the same document.

Only a known root followed by a dot makes a reference, so a chat template's ``{{ messages }}`` stays as it is;
``{{{{`` is a literal ``{{``. No logic, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpuctl.frontend.shapes import FreeShape, ListShape, MapShape, ModelShape, Shape, UnionShape
from gpuctl.language.fields import Block, shorten
from gpuctl.language.spelling import fold, nearest

ROOTS = ("job", "model", "resources", "service", "environment", "storage")
PLACES = ("environment", "service")
MAX_LENGTH = 65536
"""Characters that one string may expand to."""
MAX_TOTAL = 2**20
"""Characters that all strings of a document together may expand to."""
_FEWER = "use fewer references"

_TOKEN = r"\{\{\{\{|\{\{[ \t]*(" + "|".join(ROOTS) + r")[ \t]*\.([^{}]*)\}\}"
_STEP = r"[A-Za-z0-9_-]+\Z"
_SPECIAL = r"\{\{\{\{|\{\{[ \t]*(?:" + "|".join(ROOTS) + r")[ \t]*\."

Path = tuple[str | int, ...]
Report = Callable[[Path, str, str, str | None], None]
"""Takes the path of the string, the reference's text, the message and a hint."""


class _Failed(Exception):
    """A reference has no value; it was reported."""


def expand(data: dict[str, Any], shape: ModelShape, report: Report) -> set[Path]:
    """Replace the references in a bound document's data, in place. Returns the paths of strings that have bad ones."""
    expander = _Expander(data, shape, report)
    for place in PLACES:
        if place in data:
            data[place] = expander.value((place,), data[place])
    return expander.bad


def escape(text: str) -> str:
    """Text that :func:`expand` turns back into ``text``: for strings that were expanded already."""
    return text.replace("{{", "{{{{") if re.search(_SPECIAL, text) else text


def escape_document(data: dict[str, Any]) -> dict[str, Any]:
    """A document's data with every string that is subject to templates escaped."""
    return {key: _escape_tree(value) if key in PLACES else value for key, value in data.items()}


def _escape_tree(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return [_escape_tree(item) for item in value]
    if isinstance(value, dict):
        return {key: _escape_tree(item) for key, item in value.items()}
    return value


class _Expander:
    def __init__(self, data: dict[str, Any], shape: ModelShape, report: Report) -> None:
        self.data = data
        self.shape = shape
        self.report = report
        self.bad: set[Path] = set()
        self.active: list[Path] = []
        self.total = 0
        self.is_exhausted = False
        self.known: dict[Path, str | None] = {}
        """What the strings that were referred to have expanded to; None of those that failed, and were reported."""

    def value(self, path: Path, value: Any) -> Any:
        if isinstance(value, str):
            if "{{" not in value:
                return value
            try:
                return self.text(path, value)
            except _Failed:
                self.bad.add(path)
                return value
        if isinstance(value, list):
            return [self.value((*path, index), item) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.value((*path, key), item) for key, item in value.items()}
        return value

    def text(self, path: Path, text: str) -> str:
        """The text with its references replaced; every bad one is reported before :class:`_Failed` is raised."""
        pieces: list[str] = []
        length = end = 0
        failed = False
        self.active.append(path)
        for match in re.finditer(_TOKEN, text):
            try:
                piece = "{{" if match[1] is None else self.reference(path, match)
            except _Failed:
                failed = True
                continue
            # Of the text itself only what the source has anyway: no expansion is made before it is known to fit.
            pieces += (text[end : match.start()], piece)
            end = match.end()
            length += len(piece)
            self.total += len(piece)
            if length > MAX_LENGTH or self.total > MAX_TOTAL:
                self.active.pop()
                raise self._too_long(path, text)
        self.active.pop()
        if failed:
            raise _Failed
        return "".join(pieces) + text[end:]

    def _too_long(self, path: Path, text: str) -> _Failed:
        if self.total <= MAX_TOTAL:
            self.report(path, text, f"the templates expand to more than {MAX_LENGTH} characters", _FEWER)
        elif not self.is_exhausted:
            self.is_exhausted = True
            message = f"the document's templates together expand to more than {MAX_TOTAL} characters"
            self.report(path, text, message, _FEWER)
        return _Failed()

    def reference(self, path: Path, match: re.Match[str]) -> str:
        root, rest = match[1], match[2].strip()
        steps = [step.strip() for step in rest.split(".")]
        for step in steps:
            if not re.match(_STEP, step):
                what = (
                    "has no filters or expressions"
                    if re.search(r"[^A-Za-z0-9_.\s-]", rest)
                    else "is not a field's path"
                )
                self.fail(path, match[0], f"`{shorten(match[0])}` {what}", "write `{{{{` for a literal `{{`")
        return self.lookup(path, match[0], [root, *steps])

    def lookup(self, path: Path, written: str, steps: list[str]) -> str:
        """The text of the field that the steps lead to."""
        shape: Shape = self.shape
        value: Any = self.data
        at: list[str | int] = []
        for step in steps:
            shown = ".".join(str(part) for part in at) or "this document"
            if isinstance(shape, UnionShape):
                shape = (shape.list if isinstance(value, list) else shape.mapping) or shape
            if isinstance(shape, ModelShape):
                known = shape.fields.get(fold(step))
                if known is None:
                    close = nearest(step, shape.keys)
                    if not at:
                        hint = "write `{{{{` for a literal `{{`"
                        self.fail(path, written, f"`{written}`: this kind of document has no `{step}`", hint)
                    hint = f"did you mean `{close}`?" if close else f"the fields of {shown} are {', '.join(shape.keys)}"
                    self.fail(path, written, f"`{shorten(written)}`: there is no field `{step}` in {shown}", hint)
                    raise _Failed
                key, inner = known
                value = _field(shape, key, value)
                shape = inner
                at.append(key)
            elif isinstance(shape, ListShape) and step.isdigit() and isinstance(value, list) and int(step) < len(value):
                value, shape = value[int(step)], shape.item
                at.append(int(step))
            elif isinstance(shape, (MapShape, FreeShape)) and isinstance(value, dict) and step in value:
                value = value[step]
                shape = shape.value if isinstance(shape, MapShape) else shape
                at.append(step)
            else:
                self.fail(path, written, f"`{shorten(written)}`: there is nothing called `{step}` in {shown}", None)
        return self.scalar(path, written, tuple(at), value)

    def scalar(self, path: Path, written: str, at: Path, value: Any) -> str:
        field = ".".join(str(part) for part in at)
        if value is None:
            self.fail(path, written, f"`{shorten(written)}`: `{field}` is not set", f"set `{field}`")
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, (str, int, float)):
            self.fail(
                path, written, f"`{shorten(written)}`: `{field}` is not a single value", "refer to one of its fields"
            )
        text = str(value)
        if at and at[0] in PLACES and "{{" in text:
            if at in self.active:
                self.fail(path, written, f"`{shorten(written)}` refers to itself", "break the circle")
            if len(self.active) > 8:
                self.fail(
                    path, written, f"`{shorten(written)}`: references more than 8 deep", "refer to the value itself"
                )
            if at not in self.known:
                self.known[at] = None
                self.known[at] = self.text(at, text)
            expanded = self.known[at]
            if expanded is None:
                raise _Failed
            return expanded
        return text

    def fail(self, path: Path, written: str, message: str, hint: str | None) -> None:
        self.report(path, written, message, hint)
        raise _Failed


def _field(shape: ModelShape, key: str, value: Any) -> Any:
    """A field's value, or the model's default for it; None when it is not set."""
    if isinstance(value, dict) and key in value:
        return value[key]
    for name, info in shape.model.model_fields.items():
        if (info.alias or name) == key:
            default = info.get_default(call_default_factory=True) if not info.is_required() else None
            return default.model_dump(by_alias=True) if isinstance(default, Block) else default
    return None
