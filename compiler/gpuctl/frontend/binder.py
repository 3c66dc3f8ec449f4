"""From YAML trees to models: every problem of a document at once, each said once, each with its place.

Two passes. The first walks the tree along the model's shape: it folds spellings, finds unknown and repeated keys and
values of the wrong kind, and gives text fields the exact text of the source. The second is pydantic's, over what the
first left: ranges, formats, required fields and the rules between fields.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Any, NamedTuple

from pydantic import ValidationError

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity, Span, format_path
from gpuctl.frontend.foreign import Owner, misspelt_kind, near_kind, owner_of
from gpuctl.frontend.numbers import read_number
from gpuctl.frontend.shapes import (
    ListShape,
    MapShape,
    ModelShape,
    ScalarShape,
    Shape,
    UnionShape,
    kind_shape,
)
from gpuctl.frontend.spans import child, locate, within
from gpuctl.frontend.templates import expand, without_references
from gpuctl.frontend.tentative import tentative
from gpuctl.frontend.tree import Chunk, RawDocument, YamlNode
from gpuctl.language.fields import Scalar, shorten
from gpuctl.language.kinds import ALIASES, KINDS, VERSION, WORKLOADS, Model
from gpuctl.language.problems import ERROR_TYPE
from gpuctl.language.spelling import fold, nearest

_INTEGER = r"(?a)[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z"
_FLOAT = r"(?a)[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_LIKE_TRUE = frozenset({"yes", "on", "y", "1", "true"})
_LIKE_FALSE = frozenset({"no", "off", "n", "0", "false"})
_ARTICLES = {"scalar": "a single value", "list": "a list", "mapping": "a mapping"}


class _Nothing:
    """The value of a field that had a problem: it is left out, and its absence is not reported again."""


_NOTHING = _Nothing()


class Bound(NamedTuple):
    """A document after binding: its model, or None when it has errors; then ``tentative`` is what is right of it."""

    kind: str
    model: Model | None
    tentative: Model | None = None


def kind_of(root: YamlNode) -> tuple[YamlNode | None, str | None]:
    """The node of a document's ``kind`` and its text, None where there is none."""
    if root.kind == "mapping":
        for key, value in root.value:
            if fold(key.value) == "kind" and value.kind == "scalar" and not value.is_null:
                return value, value.value
    return None, None


def _is_manifest_of_ours(root: YamlNode) -> bool:
    """Whether this is an object that gpuctl rendered: a directory of them may stand beside its documents."""
    labels = _value(_value(root, "metadata"), "labels")
    manager = _value(labels, "app.kubernetes.io/managed-by")
    return manager is not None and manager.kind == "scalar" and manager.value == "gpuctl"


def _value(node: YamlNode | None, name: str) -> YamlNode | None:
    if node is None or node.kind != "mapping":
        return None
    return next((value for key, value in node.value if key.value == name), None)


def bind(
    raw: RawDocument, diagnostics: list[Diagnostic], defaults: dict[str, dict[str, Any]] | None = None
) -> Bound | None:
    """Bind one document, appending every problem to ``diagnostics``.

    ``defaults`` are the platform's: kind -> partial document that fills in what this one leaves out. None is returned
    for a document that is not ours and stands in a directory.
    """
    binder = _Binder(raw.chunk, raw.root, diagnostics)
    kind = binder.kind(direct=raw.chunk.source.direct)
    if kind is None:
        return None
    data = binder.document(kind)
    if defaults and kind in defaults:
        data = merge(defaults[kind], data)
    binder.expand_templates(data)
    model = binder.model(kind, data)
    if model is not None or kind not in WORKLOADS:
        return Bound(kind, model)
    return Bound(kind, None, tentative(kind_shape(kind), data, binder.bad))  # type: ignore[arg-type]


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` with what only ``base`` has; mappings are merged, anything else is taken whole."""
    merged = dict(over)
    for key, value in base.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = merge(value, merged[key])
    return merged


class _Binder:
    """The state of binding one document."""

    def __init__(self, chunk: Chunk, root: YamlNode, diagnostics: list[Diagnostic]) -> None:
        self.chunk = chunk
        self.root = root
        self.diagnostics = diagnostics
        self.path: list[str | int] = []
        self.bad: set[FieldPath] = set()
        self.kind_name = ""
        self.failed = False

    def kind(self, *, direct: bool) -> str | None:
        """The document's kind in canonical form; None, with a diagnostic, when there is none of ours."""
        node, text = kind_of(self.root)
        kind = ALIASES.get(text or "", text or "")
        if kind in KINDS:
            self.kind_name = kind
            return kind
        owner = Owner.OURS if direct else owner_of(self.root, self.chunk.source.name)
        if owner is Owner.OURS:
            self._no_kind(node, text)
        elif not _is_manifest_of_ours(self.root):
            self._foreign(owner, node, text)
        return None

    def _no_kind(self, node: YamlNode | None, text: str | None) -> None:
        if self.root.kind != "mapping":
            self._report("GPU106", "a document must be a mapping that starts with `kind:`", self.root)
        elif node is not None and text is not None:
            close = near_kind(text) or nearest(text, [*KINDS, *ALIASES])
            hint = f"did you mean `{close}`?" if close else f"the kinds are {', '.join(KINDS)}"
            if owner_of(self.root, self.chunk.source.name) is Owner.OTHERS:
                hint = "this is a Kubernetes manifest already; `kubectl apply -f` takes it"
            self._report("GPU102", f"unknown kind `{shorten(text)}`", node, hint, path=("kind",))
        elif (written := child(self.root, "kind")) is not None and not written[1].is_null:
            self.path.append("kind")
            self._wrong(written[1], "scalar")
            self.path.pop()
        else:
            misspelt = misspelt_kind(self.root)
            first = misspelt or (written[0] if written else self.root.value[0][0] if self.root.value else self.root)
            hint = f"add `kind:` with one of {', '.join(KINDS)}" if misspelt is None else "did you mean `kind`?"
            self._report("GPU101", "the document has no `kind`", first or self.root, hint)

    def _foreign(self, owner: Owner, node: YamlNode | None, text: str | None) -> None:
        what = (
            f"kind `{shorten(text)}`"
            if text is not None
            else "a document without `kind`"
            if self.root.kind == "mapping"
            else "a document that is no mapping"
        )
        span = self.chunk.span(node) if node is not None else locate(self.chunk, self.root, ())
        if owner is Owner.OTHERS:
            found = Diagnostic(Severity.NOTE, "GPU105", f"{what} is not one of ours: left alone", span)
        else:
            hint = "add an `apiVersion` and a `kind` if it is a manifest, or move it elsewhere"
            message = f"{what} is left alone, and nothing says whose it is"
            found = Diagnostic(Severity.NOTE, "GPU107", message, span, hint=hint)
        self.diagnostics.append(found)

    def document(self, kind: str) -> dict[str, Any]:
        """The first pass over the whole document."""
        data = self._mapping(self.root, kind_shape(kind))
        data["kind"] = kind
        if "version" not in data and ("version",) not in self.bad:
            message = f"the document has no `version`; {VERSION} is assumed"
            span = locate(self.chunk, self.root, ())
            self.diagnostics.append(
                Diagnostic(Severity.WARNING, "GPU103", message, span, ("version",), f"add `version: {VERSION}`")
            )
            data["version"] = VERSION
        for partial_kind, partial in (data.get("defaults") or {}).items() if kind == "platform" else ():
            self._check_defaults(partial_kind, partial)
        return data

    def expand_templates(self, data: dict[str, Any]) -> None:
        """Replace ``{{job.name}}`` and its like; what refers to nothing is reported once, at its place."""
        if self.kind_name in WORKLOADS:
            self.bad |= expand(data, kind_shape(self.kind_name), self._report_template)

    def _report_template(self, path: FieldPath, written: str, message: str, hint: str | None) -> None:
        self.failed = True
        span = locate(self.chunk, self.root, path)
        span = within(self.chunk, span, written)
        self.diagnostics.append(Diagnostic(Severity.ERROR, "GPU301", message, span, path, hint))

    def model(self, kind: str, data: dict[str, Any]) -> Model | None:
        """The second pass: the model, or None with what pydantic found among ``diagnostics``."""
        try:
            model: Model = kind_shape(kind).model.model_validate(data)  # type: ignore[assignment]
        except ValidationError as error:
            self._report_validation(error, ())
            return None
        return None if self.failed else model

    def _check_defaults(self, kind: str, partial: dict[str, Any]) -> None:
        """Check a platform's defaults by filling them up to a document, so that mistakes show at the platform file."""
        skeleton = {"kind": kind, "version": VERSION, "job": {"name": "x"}, "environment": {"image": "x"}}
        for key in ("name", "namespace"):
            if key in partial.get("job", {}):
                self._report_path(("defaults", kind, "job", key), "GPU213", f"a default `{key}` would be every job's")
        try:
            kind_shape(kind).model.model_validate(merge(skeleton, without_references(partial)))
        except ValidationError as error:
            self._report_validation(error, ("defaults", kind))

    # First pass -----------------------------------------------------------------------------------------------------

    def _value(self, node: YamlNode, shape: Shape) -> Any:
        if isinstance(shape, ScalarShape):
            return self._scalar(node, shape)
        if isinstance(shape, ModelShape):
            if node.kind == "mapping":
                return self._mapping(node, shape)
            return self._wrong(node, "mapping")
        if isinstance(shape, ListShape):
            if node.kind == "list":
                return self._list(node, shape)
            return self._wrong(node, "list")
        if isinstance(shape, MapShape):
            if node.kind == "mapping":
                return self._invented(node, shape)
            return self._wrong(node, "mapping")
        if isinstance(shape, UnionShape):
            option = getattr(shape, node.kind)
            if option is not None and not node.is_null:
                return self._value(node, option)
            names = [_ARTICLES[kind] for kind in ("scalar", "list", "mapping") if getattr(shape, kind) is not None]
            return self._wrong(node, " or ".join(names))
        return self._free(node) if node.kind == "mapping" else self._wrong(node, "mapping")

    def _mapping(self, node: YamlNode, shape: ModelShape) -> dict[str, Any]:
        data: dict[str, Any] = {}
        seen: dict[str, YamlNode] = {}
        fields = shape.fields
        path = self.path
        for key, value in node.value:
            text = key.value
            folded = fold(text)
            known = fields.get(folded)
            if known is None:
                self._unknown(key, shape, self._torn(node, key, value))
                continue
            canonical, value_shape = known
            earlier = seen.get(canonical)
            if earlier is not None:
                self._report(
                    "GPU204",
                    f"`{text}` and `{earlier.value}` are two spellings of one key",
                    key,
                    f"keep one; `{canonical}` is the canonical spelling",
                    path=(*path, canonical),
                    related=(Related("first here", self.chunk.span(earlier)),),
                )
                continue
            seen[canonical] = key
            path.append(canonical)
            bound = self._value(value, value_shape)
            path.pop()
            if bound is _NOTHING:
                self.bad.add((*path, canonical))
            else:
                data[canonical] = bound
        return data

    def _invented(self, node: YamlNode, shape: MapShape) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in node.value:
            if key.plain and key.value in ("", "~"):
                self._report("GPU205", "a name is missing before the `:`", key)
                continue
            self.path.append(key.value)
            bound = self._value(value, shape.value)
            if bound is _NOTHING:
                self.bad.add(tuple(self.path))
            else:
                data[key.value] = bound
            self.path.pop()
        return data

    def _list(self, node: YamlNode, shape: ListShape) -> Any:
        item_shape = shape.item
        plain_text = type(item_shape) is ScalarShape and item_shape.scalar is Scalar.TEXT and not item_shape.choices
        if plain_text and all(item.kind == "scalar" and not item.is_null for item in node.value):
            # The common case, command lines: no path is needed unless something is wrong.
            return [item.value for item in node.value]
        items: list[Any] = []
        for index, item in enumerate(node.value):
            self.path.append(index)
            bound = self._value(item, item_shape)
            if bound is _NOTHING:
                self.bad.add(tuple(self.path))
            # What is wrong keeps its place, or the positions of pydantic's errors would be wrong by one.
            items.append(bound)
            self.path.pop()
        return items

    def _scalar(self, node: YamlNode, shape: ScalarShape) -> Any:
        if node.kind != "scalar":
            return self._wrong(node, "scalar")
        text: str = node.value
        if node.plain and node.is_null:
            return self._wrong(node, "scalar")
        scalar = shape.scalar
        if scalar is Scalar.TEXT:
            if self.path == ["kind"]:
                return self.kind_name  # Read before everything else; it may be an alias.
            if shape.choices and text not in shape.choices:
                return self._choice(node, shape.choices)
            return text
        if scalar is Scalar.BOOLEAN:
            return self._boolean(node)
        return self._number(node, whole=scalar is Scalar.INTEGER)

    def _choice(self, node: YamlNode, choices: tuple[str, ...]) -> Any:
        close = nearest(node.value, [choice for choice in choices if choice])
        listed = ", ".join(choice for choice in choices if choice)
        code = "GPU104" if self.path == ["version"] else "GPU211"
        hint = (
            f"did you mean `{close}`?"
            if close
            else f"write one of {listed}"
            if len(choices) > 1
            else f"write `{listed}`"
        )
        if close and len(choices) > 1:
            hint += f" (one of {listed})"
        return self._report(code, f"`{shorten(node.value)}` is not a value of {self._field()}", node, hint)

    def _boolean(self, node: YamlNode) -> Any:
        if node.plain and node.value in _BOOLEANS:
            return _BOOLEANS[node.value]
        low = node.value.lower()
        hint = (
            "write `true`"
            if low in _LIKE_TRUE
            else "write `false`"
            if low in _LIKE_FALSE
            else "write `true` or `false`"
        )
        return self._report("GPU202", f"{self._field()} is true or false, not `{shorten(node.value)}`", node, hint)

    def _number(self, node: YamlNode, *, whole: bool) -> Any:
        text: str = node.value
        expected = "a whole number" if whole else "a number"
        bare = text.strip()
        if not node.plain and re.match(_INTEGER if whole else _FLOAT, bare):
            return self._report(
                "GPU202", f"{self._field()} is {expected}, not text", node, f"write {bare} without quotes"
            )
        if node.plain and len(text) <= 40:
            if re.match(_INTEGER, text):
                return _integer(text)
            if not whole and re.match(_FLOAT, text) and math.isfinite(float(text)):
                return float(text)
        hint = f"write {expected} such as 8" if whole else f"write {expected} such as 12.5"
        if whole and re.match(_FLOAT, bare) and len(bare) < 20 and math.isfinite(float(bare)):
            hint = f"write {int(float(bare))}"
        elif bare.replace("_", "").replace(",", "").isdigit() and len(bare) < 20:
            hint = f"write {bare.replace('_', '').replace(',', '')}"
        elif bare.startswith("$"):
            hint += "; gpuctl reads no variables of the shell"
        share = _share_of_a_card(bare) if self.path[-2:] == ["resources", "gpu"] else None
        if share is not None:
            hint = f"write `gpu: 1` and `gpu-share: {share}` for a part of a card"
        return self._report("GPU202", f"{self._field()} is {expected}, not `{shorten(text)}`", node, hint)

    def _free(self, node: YamlNode) -> Any:
        """A JSON value as kubectl reads it, for parts whose schema is Kubernetes'; `yes` and `on` stay text."""
        if node.kind == "list":
            items = [self._freechild(item, index) for index, item in enumerate(node.value)]
            return _NOTHING if any(item is _NOTHING for item in items) else items
        if node.kind == "mapping":
            pairs = {key.value: self._freechild(value, key.value) for key, value in node.value}
            return _NOTHING if any(value is _NOTHING for value in pairs.values()) else pairs
        if not node.plain:
            return node.value
        if node.is_null:
            return self._wrong(node, "scalar")
        text = node.value
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        number = read_number(text)
        if number is not None:
            return number
        if text.lower() in (".inf", "-.inf", "+.inf", ".nan"):
            return self._report(
                "GPU202", f"`{text}` is not a number that JSON can hold", node, "quote it, if it is text"
            )
        return text

    def _freechild(self, node: YamlNode, part: str | int) -> Any:
        self.path.append(part)
        value = self._free(node)
        self.path.pop()
        return value

    # Messages -------------------------------------------------------------------------------------------------------

    def _field(self) -> str:
        path = tuple(self.path)
        return f"`{format_path(path[-2:] if path and isinstance(path[-1], int) else path[-1:])}`" if path else "this"

    def _torn(self, node: YamlNode, key: YamlNode, value: YamlNode) -> str | None:
        """The hint for ``{value: a,b}``, where the comma was meant as part of the text."""
        if not (value.is_null and value.value == "" and key.plain):
            return None
        earlier = None
        for candidate, text in node.value:
            if candidate is key:
                break
            earlier = text
        if earlier is None or earlier.kind != "scalar" or not earlier.plain or earlier.is_null:
            return None
        between = self.chunk.text[earlier.end : key.start]
        if between.strip(" \t") != ",":
            return None
        return f'quote the text if the comma belongs to it: "{shorten(earlier.value + between + key.value)}"'

    def _unknown(self, key: YamlNode, shape: ModelShape, hint: str | None) -> None:
        """That a key is none of the block's; ``hint`` is what to do about it, where that is known already."""
        text = key.value
        where = f" in {format_path(tuple(self.path))}" if self.path else f" in a {self.kind_name} document"
        hint = hint or self._known_elsewhere(text, shape)
        self._report("GPU203", f"unknown field `{shorten(text)}`{where}", key, hint, path=(*self.path, text))

    def _known_elsewhere(self, text: str, shape: ModelShape) -> str:
        hint = None
        if fold(text) == "valuefrom" and "secret" in shape.keys:
            return "write `secret: NAME` and `key: KEY` for a Secret; other sources go into `podPatch`"
        close = nearest(text, shape.keys)
        if close is not None and fold(close) != fold(text):
            hint = f"did you mean `{close}`?"
        home = self._home_of(text)
        if home is not None and (hint is None or fold(text) in home[1]):
            hint = (
                f"`{home[2]}` belongs in `{home[0]}`" if home[0] else f"`{home[2]}` belongs at the top of the document"
            )
        return hint or f"the fields here are {', '.join(shape.keys)}"

    def _home_of(self, text: str) -> tuple[str, frozenset[str], str] | None:
        """The block of this kind that does have a key: (block, its folded keys, canonical key)."""
        top = kind_shape(self.kind_name)
        folded = fold(text)
        if self.path and folded in top.fields:
            return ("", frozenset({folded}), top.fields[folded][0])
        for block, shape in top.fields.values():
            if isinstance(shape, ModelShape) and folded in shape.fields and [block] != self.path[:1]:
                return (block, frozenset(shape.fields), shape.fields[folded][0])
        return None

    def _wrong(self, node: YamlNode, expected: str) -> Any:
        field = self._field()
        if node.is_null:
            advice = {"list": "write `[]`, or remove the line", "mapping": "fill it, or remove the line"}.get(
                expected, 'give it a value, remove the line, or quote it ("null") if it is text'
            )
            return self._report("GPU205", f"{field} has no value", node, advice)
        hint: str | None = None
        if expected == "list" and node.kind == "scalar":
            hint = f"write a list: {_as_list(node.value)}"
        elif expected == "list":
            hint = "start each entry with `- `"
        elif expected == "mapping":
            hint = "write `key: value` lines below it"
        elif expected == "scalar":
            hint = "write one value"
        wanted = _ARTICLES.get(expected, expected)
        return self._report("GPU202", f"{field} must be {wanted}, not {_ARTICLES[node.kind]}", node, hint)

    def _report(
        self,
        code: str,
        message: str,
        node: YamlNode,
        hint: str | None = None,
        *,
        path: FieldPath | None = None,
        related: tuple[Related, ...] = (),
    ) -> Any:
        self.failed = True
        where = tuple(self.path) if path is None else path
        span = self._visible_span(node, where)
        self.diagnostics.append(Diagnostic(Severity.ERROR, code, message, span, where, hint, related))
        return _NOTHING

    def _visible_span(self, node: YamlNode, path: FieldPath) -> Span:
        """The node's span, or its key's when the node is empty or spans lines and would be marked by one character."""
        if node.start == node.end or (node.kind != "scalar" and not self.chunk.is_on_one_line(node)):
            return locate(self.chunk, self.root, path, key=True)
        return self.chunk.span(node)

    def _report_path(self, path: FieldPath, code: str, message: str, hint: str | None = None) -> None:
        self.failed = True
        span = locate(self.chunk, self.root, path)
        self.diagnostics.append(Diagnostic(Severity.ERROR, code, message, span, path, hint))

    # Second pass ----------------------------------------------------------------------------------------------------

    def _report_validation(self, error: ValidationError, prefix: FieldPath) -> None:
        """Pydantic's errors as diagnostics, leaving out what follows from something that was said already."""
        self.failed = True
        for item in error.errors(include_url=False, include_input=False):
            kind: str = item["type"]
            context: dict[str, Any] = item.get("ctx", {})
            path = prefix + self._node_path(item["loc"], prefix)
            if kind == ERROR_TYPE:
                path += tuple(context["path"])
                if not self._said(path) and not self._rests_on_bad(path, context):
                    key = "[key]" in item["loc"] or (bool(context["path"]) and context["code"] in ("GPU201", "GPU213"))
                    span = self._validation_span(path, key=key)
                    self.diagnostics.append(
                        Diagnostic(Severity.ERROR, context["code"], context["message"], span, path, context["hint"])
                    )
            elif kind == "missing":
                path = path if path and path[-1] == item["loc"][-1] else (*path, str(item["loc"][-1]))
                if not self._said(path):
                    self._missing(path)
            elif kind in ("greater_than_equal", "less_than_equal"):
                bound = context.get("ge", context.get("le"))
                word = "at least" if kind == "greater_than_equal" else "at most"
                name = format_path(path[-1:])
                self._report_path(
                    path, "GPU206", f"`{name}` must be {word} {bound}", f"write a number that is {word} {bound}"
                )
            elif not self._said(path) and kind not in _OTHER_BRANCH:
                self._report_path(path, "GPU202", f"`{format_path(path[-1:])}`: {item['msg'].lower()}")

    def _validation_span(self, path: FieldPath, *, key: bool) -> Span:
        return locate(self.chunk, self.root, path, key=key)

    def _said(self, path: FieldPath) -> bool:
        return any(path[:length] in self.bad for length in range(1, len(path) + 1))

    def _rests_on_bad(self, path: FieldPath, context: dict[str, Any]) -> bool:
        """Whether a block is said to lack something that it has, though with a wrong value."""
        block = path[: len(path) - len(context["path"])]
        return context["code"] == "GPU201" and any(bad[: len(block)] == block for bad in self.bad)

    def _missing(self, path: FieldPath) -> None:
        name = str(path[-1])
        parent = path[:-1]
        where = f" in {format_path(parent)}" if parent else ""
        span = locate(self.chunk, self.root, parent, key=True)
        # In a list the entry is what lacks the field.
        what = "block" if name in ("job", "environment") and not parent else "field"
        hint = _MISSING_HINTS.get(name, f"add `{name}:`")
        self.diagnostics.append(
            Diagnostic(Severity.ERROR, "GPU201", f"missing required {what} `{name}`{where}", span, path, hint)
        )

    def _node_path(self, loc: tuple[int | str, ...], prefix: FieldPath) -> FieldPath:
        """Pydantic's location without the names of union branches, which are no part of the document."""
        path: list[str | int] = []
        node: YamlNode | None = self.root
        for part in prefix:
            step = child(node, part) if node is not None else None
            node = step[1] if step else None
        for part in loc:
            if part == "[key]":
                break
            step = child(node, part) if node is not None else None
            if step is not None:
                node = step[1]
                path.append(part)
            elif isinstance(part, int) or not re.search(
                r"[\[\]()<>,]|^(str|int|list|dict|constrained-\w+|function-\w+|nullable)$", part
            ):
                path.append(part)
                node = None
        return tuple(path)


# What pydantic says of the branches of a union that a value does not take; the first pass chose the branch.
_OTHER_BRANCH = frozenset({"string_type", "int_type", "list_type", "dict_type", "model_type"})
_MISSING_HINTS = {
    "job": "add `job:` with a `name:`",
    "environment": "add `environment:` with an `image:`",
    "image": "add `image:`, the container image to run",
    "name": "add `name:`",
}


def _share_of_a_card(text: str) -> str | None:
    """``.5`` or ``50%`` -> ``0.5``: what somebody wants who asks for less than one GPU."""
    number = text.removesuffix("%")
    if re.match(_FLOAT, number) is None or len(number) > 8:
        return None
    share = float(number) / (100 if number != text else 1)
    return f"{share:g}" if 0 < share < 1 else None


def _integer(text: str) -> int:
    if text.startswith("0o"):
        return int(text[2:], 8)
    if text.startswith("0x"):
        return int(text[2:], 16)
    return int(text)


def _as_list(text: str) -> str:
    """A command line as the YAML list that was meant: ``python train.py`` -> ``["python", "train.py"]``."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    shown = ", ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words[:12])
    return f"[{shown}{', ...' if len(words) > 12 else ''}]"
