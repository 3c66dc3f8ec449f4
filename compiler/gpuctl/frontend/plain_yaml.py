"""The YAML that most documents are written in, read line by line.

Blocks of ``key: value`` and ``- item``, scalars and brackets of one line, comments. Everything else that YAML has is
libyaml's to read, and so is everything that may be wrong: :func:`read_plain` gives up at the first line that it is not
sure of. What it does read becomes the same tree, offsets included, in a third of the time,
and without importing a library; a property test holds the two against each other.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gpuctl.frontend.tree import MAPPING, SCALAR, SEQUENCE, YamlNode

_DEEPEST = 31
_INDENT, _DASH, _KEY, _TEXT, _QUOTED, _BRACKETS = range(1, 7)

# Every repetition ends where the next thing cannot begin, or a long line that does not fit would be tried at length.
_QUOTED_TEXT = r"""(?:"[^"\\\n]*"|'[^'\n]*')"""
_KEY_TEXT = r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}"
_WORD = r"[^ \n:#]*(?:(?::(?=[^ \n])|#)[^ \n:#]*)*"
_WORDS = rf"""(?:[^- \n?:,#&*!|>'"%@`\[\]{{}}]|-(?=[^ \n])){_WORD}(?: +(?=[^ \n:#]){_WORD})*"""
_LINE = (
    rf"^( *)(?! )(- +(?! ))?(?:({_KEY_TEXT}):(?= |$) *(?! ))?"
    rf"""(?:({_WORDS})|({_QUOTED_TEXT})|([\[{{][^#\n"']*(?:{_QUOTED_TEXT}[^#\n"']*)*[\]}}]))?"""
    r" *(?:(?<![^ \n])#[^\n]*)?(?:\n|\Z)"
)
# Within brackets a text has none of the signs that mean something there, and so no `:`.
_PART = r"""[^ \n,?:#\[\]{}"'&*!|>%@`]"""
_PLAIN = rf"(?!-(?!{_PART})){_PART}+(?: +{_PART}+)*"
# Anything else is a token too, or it would be searched for the next one.
_TOKEN = rf" *(?:([\[{{])|({_KEY_TEXT}):(?= )|(?:({_QUOTED_TEXT}|{_PLAIN})|([\]}}])) *(,?))|."


@cache
def _lines() -> Any:
    return re.compile(_LINE, re.MULTILINE).finditer


@cache
def _tokens() -> Any:
    return re.compile(_TOKEN).finditer


class _Block:
    """A mapping or list that lines are added to; ``keys`` are those of a mapping, None for a list."""

    __slots__ = ("column", "entries", "keys", "node")

    def __init__(self, node: YamlNode, column: int) -> None:
        self.node = node
        self.column = column
        self.entries: list[Any] = node.value
        self.keys: set[str] | None = set() if node.kind is MAPPING else None


def read_plain(text: str) -> YamlNode | None:
    """The tree of a chunk that holds one document, or None where libyaml has to look."""
    # Tabs, other line breaks and invisible characters each have rules of their own.
    if not text.replace("\n", "").isprintable():
        return None
    position = 4 if text.startswith("---\n") else 0
    blocks: list[_Block] = []
    top: Any = None
    waiting: YamlNode | None = None
    for line in _lines()(text, position):
        start = line.start()
        if start != position:
            return None
        position = line.end()
        what = line.lastindex
        if what == _INDENT:
            continue
        dash, key = line[_DASH], line[_KEY]
        if what == _DASH or (key is None and dash is None):
            return None
        column = line.end(_INDENT) - start
        start += column
        if top is None or (waiting is not None and (column > top.column or (column == top.column and dash))):
            top = _opened(blocks, YamlNode(SEQUENCE if dash else MAPPING, [], start, start), column, waiting)
        else:
            if waiting is not None:
                top.entries.append((waiting, _nothing_after(waiting)))
            if top.column != column or (top.keys is None) is (dash is None):
                top = _continued(blocks, column, start, is_item=dash is not None)
                if top is None:
                    return None
        waiting = None
        if dash is not None:
            start += len(dash)
            if key is None:
                value = _value(line, what)
                if value is None:
                    return None
                top.entries.append(value)
                continue
            top = _opened(blocks, YamlNode(MAPPING, [], start, start), column + len(dash), None)
        if key in top.keys or len(blocks) > _DEEPEST:
            return None
        top.keys.add(key)
        key_node = YamlNode(SCALAR, key, start, start + len(key), True)
        if what == _KEY:
            waiting = key_node
            continue
        value = _value(line, what)
        if value is None:
            return None
        top.entries.append((key_node, value))
    if position != len(text) or top is None:
        return None
    if waiting is not None:
        top.entries.append((waiting, _nothing_after(waiting)))
    # Blocks end where the text does; in the line after the last one if nothing but that ends them.
    last_column = position - text.rfind("\n") - 1
    for block in blocks:
        block.node.end = position + (1 if block.column <= last_column and last_column else 0)
    return blocks[0].node


def _opened(blocks: list[_Block], node: YamlNode, column: int, key: YamlNode | None) -> _Block:
    """A new block, which is a key's value, the next item of the list above it, or the document."""
    block = _Block(node, column)
    if blocks:
        blocks[-1].entries.append(node if key is None else (key, node))
    blocks.append(block)
    return block


def _continued(blocks: list[_Block], column: int, start: int, *, is_item: bool) -> _Block | None:
    """The block that a line in this column adds to, those further in ended; None where there is none."""
    while blocks:
        top = blocks[-1]
        is_list = top.keys is None
        if top.column == column and is_list is is_item:
            return top
        # A list may stand in the column of its key, so that the mapping around it goes on in the list's column.
        if top.column < column or (top.column == column and not is_list):
            return None
        top.node.end = start
        blocks.pop()
    return None


def _nothing_after(key: YamlNode) -> YamlNode:
    """The empty value of a key, which stands behind its colon."""
    return YamlNode(SCALAR, "", key.end + 1, key.end + 1, True)


def _value(line: re.Match[str], what: int) -> YamlNode | None:
    text = line[what]
    start = line.start(what)
    end = start + len(text)
    if what == _TEXT:
        return YamlNode(SCALAR, text, start, end, True)
    if what == _QUOTED:
        return YamlNode(SCALAR, text[1:-1], start, end)
    return _in_brackets(line.string, start, end)


def _in_brackets(text: str, start: int, end: int) -> YamlNode | None:
    """The list or mapping that brackets in one line hold; None for what is not as simple as it looks."""
    around: list[YamlNode] = []
    # The keys of each mapping in `around`: a mapping with thousands of keys is not searched for each of them.
    keys: list[set[str]] = []
    key: YamlNode | None = None
    wants_entry, position = True, start
    for token in _tokens()(text, start, end):
        if token.start() != position:
            return None
        position = token.end()
        opening, name, scalar, closing, comma = token.groups()
        if token.lastindex is None:
            return None
        if closing is not None:
            node = around.pop()
            keys.pop()
            is_left_open = key is not None or (wants_entry and node.value)
            if is_left_open or (closing == "]") is not (node.kind is SEQUENCE):
                return None
            node.end = token.end(4)
            if not around:
                return node if position == end and not comma else None
            wants_entry = comma == ","
        elif not wants_entry:
            return None
        elif name is not None:
            top = around[-1]
            if top.kind is SEQUENCE or key is not None or name in keys[-1]:
                return None
            keys[-1].add(name)
            key = YamlNode(SCALAR, name, token.end() - len(name) - 1, token.end() - 1, True)
        else:
            if scalar is not None:
                quoted, at = scalar[0] in "\"'", token.start(3)
                node = YamlNode(SCALAR, scalar[1:-1] if quoted else scalar, at, at + len(scalar), not quoted)
            else:
                node = YamlNode(SEQUENCE if opening == "[" else MAPPING, [], position - 1, position)
            if around:
                top = around[-1]
                if (top.kind is MAPPING) is (key is None):
                    return None
                top.value.append(node if key is None else (key, node))
                key = None
            if scalar is None:
                around.append(node)
                keys.append(set())
                if len(around) > _DEEPEST:
                    return None
            else:
                wants_entry = comma == ","
    return None
