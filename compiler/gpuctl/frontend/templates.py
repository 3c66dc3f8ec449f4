"""Templates: ``{{model.name}}`` in the text of a workload refers to a field of the same document.

Only a known root followed by a dot makes a reference, so a chat template's ``{{ messages }}`` is not changed. A near
miss of a known root (``{{modle.name}}``) is an error. ``{{{{`` is a literal ``{{``. There is no logic and no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.field_shapes import FreeShape, ListShape, MapShape, ModelShape, Shape, UnionShape
from gpuctl.language.display_text import shorten
from gpuctl.language.fields import Block
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import did_you_mean, fold, nearest
from gpuctl.language.workload import TEMPLATED_BLOCKS, UNTEMPLATED_FIELDS
from gpuctl.objects.quantities import whole_number

ROOTS = ("job", "model", "resources", "service", "environment", "storage", "sweep")
MAX_TOTAL = 2**20
"""Maximum length of all expanded strings of a document together, characters."""
_FEWER = Template("use fewer references")
_EXPRESSION = Template("`{written}`: templates have no filters or expressions")
_NO_PATH = Template("`{written}` is not a field's path")

MAX_LENGTH = 65536
"""Maximum length of one expanded string, characters."""
_NEARLY = 0.79

_MENTION = r"\{\{\{\{|\{\{[ \t]*([A-Za-z][A-Za-z_-]*)[ \t]*\.([^{}]*)\}\}"
_STEP = r"[A-Za-z0-9_-]+\Z"
_SPECIAL = r"\{\{\{\{|\{\{[ \t]*([A-Za-z][A-Za-z_-]*)[ \t]*\."

ReportReference = Callable[[FieldPath, str, Sentence, Sentence | None], None]
"""Callback: path of the string, text of the reference, message, hint."""


class _Failed(Exception):
    """A reference has no value; it was reported."""


def expand(data: dict[str, Any], shape: ModelShape, report: ReportReference) -> set[FieldPath]:
    """Replace references in a bound document's data, in place. Return the paths of strings with invalid ones."""
    expander = _Expander(data, shape, report)
    # Lookups use the unexpanded data, so that a literal `{{` of one field is not expanded in another.
    data.update({place: expander.value((place,), data[place]) for place in TEMPLATED_BLOCKS if place in data})
    return expander.bad


def expand_patch(
    patch: dict[str, Any], data: dict[str, Any], shape: ModelShape, report: ReportReference
) -> dict[str, Any]:
    """Return a platform's patch with its references replaced by values of ``data``, the expanded document."""
    expanded: dict[str, Any] = _Expander(data, shape, report).value(("podPatch",), patch)
    return expanded


def without_references(value: Any) -> Any:
    """Return the data with a letter in place of each reference, for checks of a partial document."""
    if isinstance(value, str):
        return re.sub(_MENTION, lambda match: "x" if match[1] in ROOTS else match[0], value) if "{{" in value else value
    if isinstance(value, list):
        return [without_references(item) for item in value]
    if isinstance(value, dict):
        return {key: without_references(item) for key, item in value.items()}
    return value


def references(text: str) -> Iterator[list[str]]:
    """Yield the path of each reference in a text, such as ``["sweep", "lr"]``."""
    for match in re.finditer(_MENTION, text):
        if match[1] in ROOTS:
            yield _path(match)


def _path(match: re.Match[str]) -> list[str]:
    return [match[1], *(step.strip() for step in match[2].strip().split("."))]


def _nearest_root(root: str) -> str | None:
    """Return the root that a word is, or is a near miss of; None for words of other template languages."""
    if root in ROOTS:
        return root
    word = fold(root)
    anagram = next((known for known in ROOTS if sorted(word) == sorted(known)), None)
    return anagram or nearest(word, (known for known in ROOTS if word[0] == known[0]), _NEARLY)


def escape(text: str) -> str:
    """Return text that :func:`expand` turns back into ``text``, for strings that are already expanded."""
    found = "{{" in text and re.finditer(_SPECIAL, text)
    special = found and any(match[1] is None or _nearest_root(match[1]) is not None for match in found)
    return text.replace("{{", "{{{{") if special else text


def escape_document(data: dict[str, Any]) -> dict[str, Any]:
    """Return a document's data with every string that templates apply to escaped."""
    return {key: _escape_tree(value) if key in TEMPLATED_BLOCKS else value for key, value in data.items()}


def _escape_tree(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return [_escape_tree(item) for item in value]
    if isinstance(value, dict):
        return {key: _escape_tree(item) for key, item in value.items()}
    return value


class _Expander:
    def __init__(self, data: dict[str, Any], shape: ModelShape, report: ReportReference) -> None:
        self.data = data
        self.shape = shape
        self.report = report
        self.bad: set[FieldPath] = set()
        self.active: list[FieldPath] = []
        self.total = 0
        self.is_exhausted = False
        self.known: dict[FieldPath, str | None] = {}
        """Path -> expanded text of each string that was referred to; None if its expansion failed and was reported."""

    def value(self, path: FieldPath, value: Any) -> Any:
        if isinstance(value, str):
            if "{{" not in value or path in UNTEMPLATED_FIELDS:
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

    def text(self, path: FieldPath, text: str) -> str:
        """Return the text with its references replaced. All invalid ones are reported before :class:`_Failed` is
        raised.
        """
        pieces: list[str] = []
        length = end = 0
        failed = False
        self.active.append(path)
        for match in re.finditer(_MENTION, text):
            try:
                piece = self.piece(path, match)
            except _Failed:
                failed = True
                continue
            # Copy only source text until the expansion is known to fit the limits.
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

    def _too_long(self, path: FieldPath, text: str) -> _Failed:
        if self.total <= MAX_TOTAL:
            self.report(
                path, text, say("the templates expand to more than {most} characters", most=MAX_LENGTH), say(_FEWER)
            )
        elif not self.is_exhausted:
            self.is_exhausted = True
            message = say("the document's templates together expand to more than {most} characters", most=MAX_TOTAL)
            self.report(path, text, message, say(_FEWER))
        return _Failed()

    def piece(self, path: FieldPath, match: re.Match[str]) -> str:
        """Return the replacement of one mention; those of other template languages are returned unchanged."""
        if match[1] is None:
            return "{{"
        meant = _nearest_root(match[1])
        if meant is None:
            return match[0]
        if meant != match[1]:
            hint = say("did you mean `{meant}`? Write `{{{{{{{{` for a literal `{{{{`", meant=meant)
            self.fail(
                path,
                match[0],
                say("`{written}`: there is no `{root}` to refer to", written=shorten(match[0]), root=match[1]),
                hint,
            )
        return self.reference(path, match)

    def reference(self, path: FieldPath, match: re.Match[str]) -> str:
        steps = _path(match)
        for step in steps[1:]:
            if not re.match(_STEP, step):
                is_expression = re.search(r"[^A-Za-z0-9_.\s-]", match[2].strip()) is not None
                message = say(_EXPRESSION if is_expression else _NO_PATH, written=shorten(match[0]))
                self.fail(path, match[0], message, say("write `{{{{{{{{` for a literal `{{{{`"))
        return self.lookup(path, match[0], steps)

    def lookup(self, path: FieldPath, written: str, steps: list[str]) -> str:
        """Return the text of the field at the end of the steps."""
        shape: Shape = self.shape
        value: Any = self.data
        at: list[str | int] = []
        for step in steps:
            shown = ".".join(str(part) for part in at) or say("this document")
            if isinstance(shape, UnionShape):
                shape = (shape.list if isinstance(value, list) else shape.mapping) or shape
            if isinstance(shape, ModelShape):
                known = shape.fields.get(fold(step))
                if known is None:
                    if not at:
                        hint = say("write `{{{{{{{{` for a literal `{{{{`")
                        self.fail(
                            path,
                            written,
                            say("`{written}`: this kind of document has no `{step}`", written=written, step=step),
                            hint,
                        )
                    hint = did_you_mean(step, shape.keys) or say(
                        "the fields of {block} are {names}", block=shown, names=list(shape.keys)
                    )
                    self.fail(
                        path,
                        written,
                        say(
                            "`{written}`: there is no field `{step}` in {block}",
                            written=shorten(written),
                            step=step,
                            block=shown,
                        ),
                        hint,
                    )
                key, inner = known
                value = _field(shape, key, value)
                shape = inner
                at.append(key)
            elif (
                isinstance(shape, ListShape)
                and isinstance(value, list)
                and (place := whole_number(step)) is not None
                and place < len(value)
            ):
                value, shape = value[place], shape.item
                at.append(place)
            elif isinstance(shape, (MapShape, FreeShape)) and isinstance(value, dict) and step in value:
                value = value[step]
                shape = shape.value if isinstance(shape, MapShape) else shape
                at.append(step)
            else:
                advice = _sweep_hint(step, value) if at == ["sweep"] else None
                self.fail(
                    path,
                    written,
                    say(
                        "`{written}`: there is no entry `{step}` in {block}",
                        written=shorten(written),
                        step=step,
                        block=shown,
                    ),
                    advice,
                )
        return self.scalar(path, written, tuple(at), value)

    def scalar(self, path: FieldPath, written: str, at: FieldPath, value: Any) -> str:
        field = ".".join(str(part) for part in at)
        if value is None:
            self.fail(
                path,
                written,
                say("`{written}`: `{field}` is not set", written=shorten(written), field=field),
                say("set `{fields}`", fields=field),
            )
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, (str, int, float)):
            self.fail(
                path,
                written,
                say("`{written}`: `{field}` is not a single value", written=shorten(written), field=field),
                say("refer to one of its fields"),
            )
        text = str(value)
        if at and at[0] in TEMPLATED_BLOCKS and at not in UNTEMPLATED_FIELDS and "{{" in text:
            if at in self.active:
                self.fail(
                    path,
                    written,
                    say("`{written}` refers to itself", written=shorten(written)),
                    say("remove the cycle"),
                )
            if len(self.active) > 8:
                self.fail(
                    path,
                    written,
                    say("`{written}`: references more than 8 deep", written=shorten(written)),
                    say("refer to the value itself"),
                )
            if at not in self.known:
                self.known[at] = None
                self.known[at] = self.text(at, text)
            expanded = self.known[at]
            if expanded is None:
                raise _Failed
            return expanded
        return text

    def fail(self, path: FieldPath, written: str, message: Sentence, hint: Sentence | None) -> NoReturn:
        self.report(path, written, message, hint)
        raise _Failed


def _sweep_hint(name: str, values: dict[str, str] | None) -> Sentence:
    """Return the hint for a parameter that a sweep does not have."""
    if values is None:
        return say("add `sweep: {{{name}: [VALUE, VALUE]}}` to the document", name=name)
    return did_you_mean(name, values) or say("the parameters are {names}", names=list(values))


def _field(shape: ModelShape, key: str, value: Any) -> Any:
    """Return a field's value, or the model's default; None if it is not set."""
    if isinstance(value, dict) and key in value:
        return value[key]
    for name, info in shape.model.model_fields.items():
        if (info.alias or name) == key:
            default = info.get_default(call_default_factory=True) if not info.is_required() else None
            return default.model_dump(by_alias=True) if isinstance(default, Block) else default
    return None
