"""``PATH=VALUE`` as options take it: ``resources.gpu=8``, ``train:job.labels."example.com/team"=nlp``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gpuctl.frontend.composer import compose
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity, SourceSpan
from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, Chunk, OptionNode, ReadError, YamlNode
from gpuctl.language.masking import MASK, hidden, masked, redact
from gpuctl.language.sentences import say

_STEP = r"\"[^\"\n]+\"|[^\s\".=\[\]:]+"
_STEPS = rf"(?:{_STEP})(?:\[\d+\])*"
_NO_YAML = re.compile(r"\s*[>|@`%*]")
"""Matches a value whose first character begins no YAML value of one line, such as ``>=40Gi``: it is text."""
_ASSIGNMENT = re.compile(rf"(?:(?P<job>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?):)?(?P<path>{_STEPS}(?:\.{_STEPS})*)=")


class Assignment(NamedTuple):
    """A value for one field.

    ``job``: the job's name before the path, if any. ``keys``: the steps of the path as nodes; that of an index is the
    index. ``written``: the value as written. ``text``: path and value without credentials.
    """

    job: str | None
    path: FieldPath
    keys: tuple[YamlNode, ...]
    value: YamlNode
    written: str
    text: str
    span: SourceSpan

    @property
    def root(self) -> YamlNode:
        """A mapping with the value at its path, and nothing else. The path has no index."""
        node = self.value
        for key in reversed(self.keys):
            node = node.with_value([(key, node)])
            node.kind, node.start, node.plain = MAPPING, key.start, False
        return node


class Assignments(NamedTuple):
    """The assignments of an option, which occurs once for each. ``source``: their texts without credentials, a line
    each.
    """

    items: list[Assignment]
    source: Source
    diagnostics: list[Diagnostic]


def parse_assignments(option: str, texts: tuple[str, ...]) -> Assignments:
    """Parse the values of an option. Diagnostics name the option as the file, and the number of the value as the line.

    A value is YAML, so that it has the same type as in a file: ``8``, ``"8"``, ``[a, b]``, ``{secret: s, key: k}``.
    One that no file could have without quotation marks, such as ``>=40Gi``, is text.
    """
    # A line break would change the numbers of the following lines.
    texts = tuple(" ".join(text.splitlines()) for text in texts)
    parsed = Assignments([], Source(option, ""), [])
    before, shown = "", []
    # The texts are stored in the history.
    with hidden():
        for text in texts:
            shown.append(_parse(option, text, before, parsed))
            before += " " * len(text) + "\n"
    return parsed._replace(source=Source(option, "\n".join(shown)))


def _parse(option: str, text: str, before: str, parsed: Assignments) -> str:
    """Parse one text, and return it without credentials.

    :param before: blanks and line breaks in place of the texts before it, so that positions need no correction.
    """
    start, line = len(before), before.count("\n") + 1
    span = SourceSpan(option, line, 1, line, len(text) + 1)
    match = _ASSIGNMENT.match(text)
    if match is None:
        hint = say("write `PATH=VALUE` or `JOB:PATH=VALUE`, such as `resources.gpu=8`")
        message = say("`{text}` does not assign a value to a field", text=redact(text))
        parsed.diagnostics.append(Diagnostic(Severity.ERROR, "GPU113", message, span, hint=hint))
        return redact(text)
    chunk = Chunk(Source(option, before + text), 0, start + len(text), 0)
    values = Chunk(Source(option, before + " " * match.end() + text[match.end() :]), 0, chunk.end, 0)
    end = chunk.end
    try:
        if _NO_YAML.match(text, match.end()):
            first = start + match.end()
            roots = [YamlNode(SCALAR, text[match.end() :].strip(), first, end)]
        else:
            roots = compose(values, parsed.diagnostics)
    except ReadError as error:
        place = error.diagnostic.span
        # The end of an unfinished value is on the line after it.
        inside = place is not None and place.line == line
        parsed.diagnostics.append(error.diagnostic if inside else error.diagnostic._replace(span=span))
        return redact(text)
    value = _placed(roots[0], chunk) if roots else OptionNode(SCALAR, "", end, end, True, chunk)
    path: list[str | int] = []
    keys = []
    for found in re.finditer(rf"{_STEP}|\d+(?=\])", match["path"]):
        is_index = match["path"][found.start() - 1 : found.start()] == "["
        path.append(int(found[0]) if is_index else found[0].strip('"'))
        first = start + match.start("path") + found.start()
        keys.append(OptionNode(SCALAR, found[0].strip('"'), first, first + len(found[0]), False, chunk))
    written = text[match.end() :]
    shown = text[: match.end()] + masked_value(tuple(path), value, written)
    item = Assignment(match["job"], tuple(path), tuple(keys), value, written, shown[match.start("path") :], span)
    parsed.items.append(item)
    return shown


def masked_value(path: FieldPath, node: YamlNode, text: str) -> str:
    """Return the text of a field's value, or a mask if there is a credential in it, by its name or its form.

    :param node: the value's tree.
    """
    data = plain_data(node)
    for step in reversed(path):
        data = {step: data}
    return text if masked(data) == data else MASK


def plain_data(node: YamlNode) -> Any:
    """Return a tree as data in which every scalar is text."""
    if node.kind == MAPPING:
        return {key.value: plain_data(value) for key, value in node.value}
    return [plain_data(item) for item in node.value] if node.kind == SEQUENCE else node.value


def _placed(node: YamlNode, chunk: Chunk) -> OptionNode:
    """Return a copy of a tree whose positions are in ``chunk``."""
    value = node.value
    if node.kind == MAPPING:
        value = [(_placed(key, chunk), _placed(item, chunk)) for key, item in value]
    elif node.kind == SEQUENCE:
        value = [_placed(item, chunk) for item in value]
    return OptionNode(node.kind, value, node.start, node.end, node.plain, chunk)
