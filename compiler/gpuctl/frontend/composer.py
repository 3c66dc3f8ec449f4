"""Builds YAML trees from libyaml's events.

libyaml scans the text (its marks count code points). The tree is built here because gpuctl resolves scalars itself: a
plain ``2e-5`` or ``yes`` stays text until a field defines its type. libyaml implements YAML 1.1; differences to 1.2:

- NEL, LS and PS are ordinary characters, not line breaks, as in 1.2;
- a ``?`` inside brackets, directly before a text, is an error: 1.1 reads it as a key indicator, 1.2 as part of the
  text;
- ``<<`` merges as in 1.1, because existing files use it.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml import events as yaml_events
from yaml._yaml import CParser

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.full_width import syntax_error_at
from gpuctl.frontend.syntax_errors import (
    FLATTEN,
    MAX_DEPTH,
    MAX_VALUES,
    TAB,
    TAB_HINT,
    TOO_DEEP,
    character_error,
    syntax_error,
)
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, Chunk, ReadError, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Sentence, say

MAX_EXPANDED = 100_000

_TAB_LINE = r"(?m)^[ ]*\t[ \t]*(?=\r?$)"
_RESHAPED = "\x85\u2028\u2029\ufeff"
_RESHAPED_PATTERN = f"[{_RESHAPED}]"
_KNOWN_TAGS = {"tag:yaml.org,2002:str": False, "!": False}
_AFTER_MARK = frozenset({"", " ", "\t", "\r", "\n", ",", "[", "]", "{", "}"})


def compose(chunk: Chunk, diagnostics: list[Diagnostic]) -> list[YamlNode]:
    """Return the trees of a chunk's documents. Duplicate keys are appended to ``diagnostics``.

    :raises ReadError: the text is not valid YAML for any other reason.
    """
    text = chunk.text
    restore: dict[int, str] = {}
    if re.search(_RESHAPED_PATTERN, text):
        text, restore = _reshape(text)
    composer = _Composer(chunk, restore)
    try:
        try:
            roots = composer.compose(text)
        except yaml.MarkedYAMLError:
            # libyaml rejects lines of blanks and tabs between entries, which YAML allows.
            composer = _Composer(chunk, restore)
            composer.tab_lines = [match.span() for match in re.finditer(_TAB_LINE, text)]
            if not composer.tab_lines:
                raise
            roots = composer.compose(re.sub(_TAB_LINE, lambda match: " " * len(match[0]), text))
    except yaml.reader.ReaderError as error:
        raise ReadError(character_error(chunk, text, error)) from None
    except yaml.MarkedYAMLError as error:
        raise ReadError(syntax_error_at(chunk, syntax_error(chunk, error))) from None
    diagnostics += composer.diagnostics
    return roots


def _reshape(text: str) -> tuple[str, dict[int, str]]:
    """Return the text with private use characters for YAML 1.1 line breaks, and the table that restores these."""
    present = set(text)
    free = (chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in present)
    table = {ord(character): stand_in for character, stand_in in zip(_RESHAPED, free, strict=False)}
    return text.translate(table), {ord(stand_in): chr(character) for character, stand_in in table.items()}


class _Composer:
    """Builds trees from the events of one chunk."""

    def __init__(self, chunk: Chunk, restore: dict[int, str]) -> None:
        self.chunk = chunk
        self.restore = restore
        self.diagnostics: list[Diagnostic] = []
        self.tab_lines: list[tuple[int, int]] = []
        """Ranges of the lines whose tabs were replaced by blanks."""
        self.anchors: dict[str, YamlNode] = {}
        self.weights: dict[int, int] = {}
        self.expanded = 0

    def compose(self, text: str) -> list[YamlNode]:
        next_event = CParser(text).get_event
        roots: list[YamlNode] = []
        parents: list[tuple[YamlNode, str | None]] = []
        children: list[YamlNode] = roots
        values = 0
        restore = self.restore
        question = "?" in text
        # In a text without a final line break, blocks end on a line after the last one.
        after_all = len(text) if text.endswith(("\n", "\r")) else len(text) + 1
        scalar_event, mapping_start, sequence_start = (
            yaml_events.ScalarEvent,
            yaml_events.MappingStartEvent,
            yaml_events.SequenceStartEvent,
        )
        while True:
            event: Any = next_event()
            kind = type(event)
            if kind is scalar_event or kind is mapping_start or kind is sequence_start:
                values += 1
                if values > MAX_VALUES:
                    raise self._error(
                        "GPU003",
                        say("the document has more than {most} values", most=MAX_VALUES),
                        event.start_mark.index,
                        say("split it into several documents"),
                    )
            if kind is scalar_event:
                value, start = event.value, event.start_mark.index
                if question:
                    self._refuse_question(text, start)
                if self.tab_lines and event.style in ("|", ">"):
                    self._refuse_tabs(start, event.end_mark.index)
                if restore:
                    value = value.translate(restore)
                node = YamlNode(SCALAR, value, start, event.end_mark.index, not event.style)
                if event.tag is not None:
                    self._check_tag(event, node)
                if event.anchor is not None:
                    self.anchors[event.anchor] = node
                children.append(node)
            elif kind is mapping_start or kind is sequence_start:
                if len(parents) >= MAX_DEPTH:
                    raise self._error("GPU008", say(TOO_DEEP, most=MAX_DEPTH), event.start_mark.index, say(FLATTEN))
                if question:
                    self._refuse_question(text, event.start_mark.index)
                start = event.start_mark.index
                node = YamlNode(MAPPING if kind is mapping_start else SEQUENCE, [], start, start)
                if event.tag is not None:
                    self._check_tag(event, node)
                children.append(node)
                parents.append((node, event.anchor))
                children = node.value
            elif kind is yaml_events.MappingEndEvent or kind is yaml_events.SequenceEndEvent:
                node, anchor = parents.pop()
                mark = event.end_mark
                node.end = mark.index if mark.column or mark.index < len(text) else after_all
                if node.kind is MAPPING:
                    node.value = self._pairs(node.value)
                if anchor is not None:
                    self.anchors[anchor] = node
                children = self._children(parents, roots)
            elif kind is yaml_events.AliasEvent:
                children.append(self._alias(event))
            elif kind is yaml_events.DocumentStartEvent:
                self.anchors = {}
            elif kind is yaml_events.StreamEndEvent:
                return roots

    def _refuse_question(self, text: str, index: int) -> None:
        """Raise an error if libyaml reads the ``?`` directly before a node as a key indicator and YAML 1.2 as text.

        YAML 1.2, rule ns-plain-first: a ``?`` is an indicator only if a blank or a flow indicator follows.
        """
        if index and text[index - 1] == "?" and text[index : index + 1] not in _AFTER_MARK:
            hint = say("quote the text that starts with it")
            raise self._error("GPU004", say("a `?` in brackets starts a key"), index - 1, hint)

    def _refuse_tabs(self, start: int, end: int) -> None:
        """Raise an error if a block scalar from ``start`` to ``end`` contains a line of tabs, which may be part of its
        text.
        """
        for line in self.tab_lines:
            if line[0] < end and line[1] > start:
                raise self._error("GPU005", say(TAB), line[1] - 1, say(TAB_HINT))

    @staticmethod
    def _children(parents: list[tuple[YamlNode, str | None]], roots: list[YamlNode]) -> list[YamlNode]:
        value: list[YamlNode] = parents[-1][0].value if parents else roots
        return value

    def _alias(self, event: Any) -> YamlNode:
        target = self.anchors.get(event.anchor)
        if target is None:
            raise self._error(
                "GPU007",
                say("the alias `*{anchor}` refers to no anchor before it, or to itself", anchor=event.anchor),
                event.start_mark.index,
                say("define `&{anchor}` earlier in the same document, outside of what it names", anchor=event.anchor),
            )
        self.expanded += self._weight(target)
        if self.expanded > MAX_EXPANDED:
            raise self._error(
                "GPU007",
                say("the document's aliases expand to more than {most} values", most=MAX_EXPANDED),
                event.start_mark.index,
                say("write the values out, or use fewer aliases"),
            )
        # A separate node: the same content, at the position of the alias.
        return YamlNode(target.kind, target.value, event.start_mark.index, event.end_mark.index, target.plain)

    def _weight(self, node: YamlNode) -> int:
        """Return the number of scalars and collections in a node, with aliases expanded."""
        if node.kind is SCALAR:
            return 1
        key = id(node.value)
        weight = self.weights.get(key)
        if weight is None:
            parts = [part for pair in node.value for part in pair] if node.kind is MAPPING else node.value
            weight = 1 + sum(self._weight(part) for part in parts)
            self.weights[key] = weight
        return weight

    def _check_tag(self, event: Any, node: YamlNode) -> None:
        tag = event.tag
        if node.kind is SCALAR and tag in _KNOWN_TAGS:
            node.plain = False
        elif (node.kind, tag) not in {
            (MAPPING, "tag:yaml.org,2002:map"),
            (SEQUENCE, "tag:yaml.org,2002:seq"),
            (MAPPING, "!"),
            (SEQUENCE, "!"),
        }:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error(
                "GPU010",
                say("the YAML tag `{tag}` has no meaning here", tag=shorten(shown)),
                event.start_mark.index,
                say("remove it"),
            )

    def _pairs(self, flat: list[YamlNode]) -> list[tuple[YamlNode, YamlNode]]:
        keys = flat[0::2]
        pairs = list(zip(keys, flat[1::2], strict=True))
        texts = [key.value for key in keys if key.kind is SCALAR]
        if len(texts) != len(keys):
            bad = next(key for key in keys if key.kind is not SCALAR)
            raise self._error(
                "GPU004",
                say("a key must be text, and this one is a mapping")
                if bad.kind is MAPPING
                else say("a key must be text, and this one is a list"),
                bad.start,
                say("quote it if `{{{{...}}}}` was meant as text") if bad.kind is MAPPING else say("quote it"),
            )
        if any(key.value == "<<" and key.plain for key in keys):
            pairs = self._merged(pairs)
        if len(set(texts)) != len(texts):
            pairs = self._without_duplicates(pairs)
        return pairs

    def _without_duplicates(self, pairs: list[tuple[YamlNode, YamlNode]]) -> list[tuple[YamlNode, YamlNode]]:
        first: dict[str, YamlNode] = {}
        kept = []
        for key, value in pairs:
            earlier = first.setdefault(key.value, key)
            if earlier is key:
                kept.append((key, value))
                continue
            self.diagnostics.append(
                Diagnostic(
                    Severity.ERROR,
                    "GPU006",
                    say("the key `{key}` occurs twice in one mapping", key=shorten(key.value)),
                    self.chunk.span(key),
                    hint=say("remove one of the two"),
                    related=(Related(say("first here"), self.chunk.span(earlier)),),
                )
            )
        return kept

    def _merged(self, pairs: list[tuple[YamlNode, YamlNode]]) -> list[tuple[YamlNode, YamlNode]]:
        """Return the pairs with ``<<: *base`` replaced by the entries of ``base`` that the mapping does not have
        itself.
        """
        own = [(key, value) for key, value in pairs if not (key.value == "<<" and key.plain)]
        present = {key.value for key, _ in own}
        for key, value in pairs:
            if not (key.value == "<<" and key.plain):
                continue
            bases = value.value if value.kind is SEQUENCE else [value]
            for base in bases:
                if base.kind is not MAPPING:
                    raise self._error(
                        "GPU007",
                        say("`<<` merges mappings, and this is not one"),
                        base.start,
                        say("refer to a mapping: `<<: *name`"),
                    )
                for base_key, base_value in base.value:
                    if base_key.value not in present:
                        present.add(base_key.value)
                        own.append((base_key, base_value))
        self.expanded += len(own)
        if self.expanded > MAX_EXPANDED:
            raise self._error(
                "GPU007", say("the document's aliases expand too far"), pairs[0][0].start, say("use fewer aliases")
            )
        return own

    def _error(self, code: str, message: Sentence, offset: int, hint: Sentence) -> ReadError:
        span = self.chunk.point(*self.chunk.place(offset))
        return ReadError(Diagnostic(Severity.ERROR, code, message, span, hint=hint))
