"""The first pass over a document: converts its YAML tree, along the shape of its model, to data for pydantic.

It folds the spellings of keys, reports unknown and repeated keys and values of the wrong kind, and keeps the exact
source text of text fields. Every node has its key and position, so that each problem is reported where it is.
"""

from __future__ import annotations

from typing import Any

from gpuctl.frontend.diagnostics import MAX_DIAGNOSTICS, Related, format_path
from gpuctl.frontend.field_shapes import (
    TEXT,
    ListShape,
    MapShape,
    ModelShape,
    PartialShape,
    ScalarShape,
    Shape,
    UnionShape,
    kind_shape,
)
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.kubectl_numbers import read_number
from gpuctl.frontend.scalars import (
    BOOLEANS,
    MISFIT,
    explain,
    read_scalar,
)
from gpuctl.frontend.unknown_keys import MeantKey, joined_pair_hint, split_text_hint, unknown_key_hint
from gpuctl.frontend.wrong_kinds import field_name, report_wrong_kind
from gpuctl.frontend.yaml_tree import MAPPING, NULLS, SCALAR, SEQUENCE, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.spelling import suggest_name


class _Invalid:
    """The value of a field that has a problem."""


_INVALID = _Invalid()


def conform(findings: Findings, kind: str, shape: ModelShape | None = None) -> dict[str, Any]:
    """Return the valid data of a document of a kind, under canonical keys.

    :param shape: that of a block, if ``findings`` are of the block alone.
    """
    return _Conformer(findings, kind).model(findings.root, shape or kind_shape(kind))


class _Conformer:
    """Walks one document. ``path`` and ``key`` are those of the current value."""

    def __init__(self, findings: Findings, kind: str) -> None:
        self.findings = findings
        self.kind = kind
        self.path: list[str | int] = []
        self.key: YamlNode | None = None

    def model(self, node: YamlNode, shape: ModelShape) -> dict[str, Any]:
        """Return the data of a mapping with known keys."""
        data: dict[str, Any] = {}
        seen: dict[str, YamlNode] = {}
        path = self.path
        for key, value in node.value:
            known = shape.find(key.value)
            if known is None:
                self._unknown(node, key, value, shape)
                continue
            canonical, value_shape = known
            earlier = seen.setdefault(canonical, key)
            if earlier is not key:
                self._second_spelling(key, earlier, canonical)
                continue
            if value_shape is TEXT and value.kind == SCALAR and not (value.plain and value.value in NULLS):
                # The common case: the path is needed only for problems.
                data[canonical] = value.value
                continue
            path.append(canonical)
            self.key = key
            bound = self._value(value, value_shape)
            if bound is _INVALID:
                self.findings.bad.add(tuple(path))
            else:
                data[canonical] = bound
            path.pop()
        return data

    def _value(self, node: YamlNode, shape: Shape) -> Any:
        if isinstance(shape, ScalarShape):
            return self._scalar(node, shape)
        if isinstance(shape, PartialShape):
            shape = kind_shape(shape.kind)
        if isinstance(shape, ModelShape):
            return self.model(node, shape) if node.kind == MAPPING else self._wrong(node, MAPPING, shape)
        if isinstance(shape, ListShape):
            return self._list(node, shape) if node.kind == SEQUENCE else self._wrong(node, SEQUENCE, shape)
        if isinstance(shape, MapShape):
            return self._user_mapping(node, shape) if node.kind == MAPPING else self._wrong(node, MAPPING, shape)
        if isinstance(shape, UnionShape):
            option = getattr(shape, node.kind)
            if option is not None and not node.is_null:
                return self._value(node, option)
            kinds = (SCALAR, SEQUENCE, MAPPING)
            return self._wrong(node, tuple(kind for kind in kinds if getattr(shape, kind) is not None), shape)
        return self._free(node) if node.kind == MAPPING else self._wrong(node, MAPPING)

    def _user_mapping(self, node: YamlNode, shape: MapShape) -> dict[str, Any]:
        """Return the data of a mapping whose keys users choose."""
        data: dict[str, Any] = {}
        for key, value in node.value:
            if key.plain and key.value in ("", "~"):
                self.findings.at_node("GPU205", say("a name is missing before the `:`"), key, tuple(self.path), key=key)
                continue
            bound = self._below(key.value, key, value, shape.value)
            if bound is not _INVALID:
                data[key.value] = bound
        return data

    def _list(self, node: YamlNode, shape: ListShape) -> list[Any]:
        items: list[YamlNode] = node.value
        if shape.item is TEXT:
            texts = [item.value for item in items if item.kind == SCALAR and not (item.plain and item.value in NULLS)]
            if len(texts) == len(items):
                return texts
        # An invalid item keeps its place: pydantic's errors name items by index.
        return [self._below(index, None, item, shape.item) for index, item in enumerate(items)]

    def _below(self, part: str | int, key: YamlNode | None, node: YamlNode, shape: Shape) -> Any:
        self.path.append(part)
        self.key = key
        bound = self._value(node, shape)
        if bound is _INVALID:
            self.findings.bad.add(tuple(self.path))
        self.path.pop()
        return bound

    def _scalar(self, node: YamlNode, shape: ScalarShape) -> Any:
        if node.kind != SCALAR or node.is_null:
            return self._wrong(node, SCALAR, shape)
        if self.path == ["kind"]:
            return self.kind  # Read before everything else; it may be an alias.
        value = read_scalar(node, shape)
        if value is not MISFIT:
            return value
        path = tuple(self.path)
        code, message, hint = explain(node, shape, path, field_name(path))
        return self._report(code, message, node, hint)

    def _free(self, node: YamlNode) -> Any:
        """Return a value of a Kubernetes schema as JSON, as kubectl reads it; `yes` and `on` stay text."""
        if node.kind == SEQUENCE:
            items = [self._free_below(index, None, item) for index, item in enumerate(node.value)]
            return _INVALID if any(item is _INVALID for item in items) else items
        if node.kind == MAPPING:
            pairs = {key.value: self._free_below(key.value, key, value) for key, value in node.value}
            return _INVALID if any(value is _INVALID for value in pairs.values()) else pairs
        text: str = node.value
        if not node.plain:
            return text
        if node.is_null:
            return self._wrong(node, SCALAR)
        if text in BOOLEANS:
            return BOOLEANS[text]
        number = read_number(text)
        if number is not None:
            return number
        if text.lower() in (".inf", "-.inf", "+.inf", ".nan"):
            message = say("`{text}` is not a number that JSON can hold", text=text)
            return self._report("GPU202", message, node, say("quote it, if it is text"))
        return text

    def _free_below(self, part: str | int, key: YamlNode | None, node: YamlNode) -> Any:
        self.path.append(part)
        self.key = key
        value = self._free(node)
        self.path.pop()
        return value

    def _wrong(self, node: YamlNode, expected: str | tuple[str, ...], shape: Shape | None = None) -> Any:
        report_wrong_kind(self.findings, node, self.key, tuple(self.path), expected, shape)
        return _INVALID

    def _report(self, code: str, message: Sentence, node: YamlNode, hint: Sentence | None) -> Any:
        self.findings.at_node(code, message, node, tuple(self.path), hint, key=self.key)
        return _INVALID

    def _second_spelling(self, key: YamlNode, earlier: YamlNode, canonical: str) -> None:
        self.findings.at_node(
            "GPU204",
            say("`{key}` and `{earlier}` are two spellings of one key", key=key.value, earlier=earlier.value),
            key,
            (*self.path, canonical),
            say("keep one; `{name}` is the canonical spelling", name=canonical),
            key=key,
            related=(Related(say("first here"), self.findings.chunk.span(earlier)),),
        )

    def _unknown(self, node: YamlNode, key: YamlNode, value: YamlNode, shape: ModelShape) -> None:
        path = tuple(self.path)
        hint: Sentence | None = None
        # `{NAME: value}` in a list of variables: the name is written, in another form.
        meant = "name" if path[-2:-1] == ("env",) else None
        if len(self.findings.diagnostics) < MAX_DIAGNOSTICS:
            # Further diagnostics are only counted, and a hint is by far the most expensive part.
            source = self.findings.chunk.holding(key).text
            found = (
                joined_pair_hint(key, value, shape)
                or split_text_hint(source, node, key, value)
                or unknown_key_hint(key, value, node, self.findings.root, path, shape, self.kind)
            )
            meant = found.name if isinstance(found, MeantKey) else meant
            hint = suggest_name(found.name) if isinstance(found, MeantKey) else found
        self.findings.puzzling.add(path)
        if meant is not None:
            self.findings.misspelt.add((*path, meant))
        name = shorten(key.value)
        message = say("unknown field `{name}` in {block}", name=name, block=format_path(path))
        if not path:
            article = "an" if self.kind[0] in "aeiou" else "a"
            message = say(
                "unknown field `{name}` in {article} {kind} document", name=name, article=article, kind=self.kind
            )
        self.findings.at_node("GPU203", message, key, (*path, key.value), hint, key=key)
