"""Turns libyaml's errors, which describe the states of its parser, into messages that a user can act on."""

from __future__ import annotations

import re

import yaml

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.source import lines_of
from gpuctl.frontend.yaml_tree import Chunk

TAB = "a tab is used for indentation, which YAML forbids"
TAB_HINT = "indent with spaces (`expand -t2 FILE` replaces tabs)"
MAX_DEPTH = 64
MAX_VALUES = 250_000
"""Maximum number of scalars, mappings and lists in one document, as written."""
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
FLATTEN = "flatten the document"

_HINTS: tuple[tuple[str, str, str], ...] = (
    # (part of libyaml's problem, message, hint)
    (
        "mapping values are not allowed",
        "a `:` is not allowed here",
        "quote the value, or check the indentation of the line",
    ),
    (
        "did not find expected key",
        "this does not fit the lines above",
        "check the indentation, or a missing `:` or quote",
    ),
    ("could not find expected ':'", "there is no `:` after this key", "write `key: value`, or check the line above"),
    (
        "did not find expected '-' indicator",
        "this does not fit the list above",
        "start each item with `- ` in one column",
    ),
    ("did not find expected ',' or ']'", "the list is not closed here", "add a `,` between items, or `]` at the end"),
    (
        "did not find expected ',' or '}'",
        "the mapping is not closed here",
        "add a `,` between entries, or `}` at the end",
    ),
    ("found unexpected end of stream", "this quoted text is not closed", "close the quote"),
    ("found unexpected document indicator", "this quoted text is not closed", "close the quote before `---`"),
    (
        "did not find expected <document start>",
        "there is text after the end of the document",
        "remove it, or start a document with `---`",
    ),
    ("found undefined tag handle", "a `!` starts a YAML tag", "quote the value"),
    ("block sequence entries are not allowed", "a `-` list cannot start on this line", "put `- ` on a line of its own"),
    ("while scanning an alias", "a `*` starts a YAML alias", "quote the value"),
    (
        "did not find expected alphabetic or numeric character",
        "`*` and `&` start YAML aliases and anchors",
        "quote the value",
    ),
    (
        "invalid Unicode character escape code",
        "this escape is half of a character",
        'write the character itself, or its code in one escape such as "\\U0001F600"',
    ),
    (
        "found unknown escape character",
        "this escape is unknown in double quotes",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        "did not find expected hexdecimal number",
        "this escape needs hexadecimal digits",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    ("did not find expected node content", "a value is missing here", "write one, or quote the text"),
    ("found duplicate", "this is given twice", "remove one"),
    ("invalid leading UTF-8 octet", "this is not UTF-8", "save the file as UTF-8"),
)


_CONFLICT = r"(?:<{7}|>{7}|\|{7}) |={7}\Z"
"""Matches the lines that git writes around the sides of a conflict."""


def syntax_error(chunk: Chunk, error: yaml.MarkedYAMLError) -> Diagnostic:
    """Return the diagnostic for an error of libyaml."""
    problem = str(error.problem or error.context or "not YAML")
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    lines = lines_of(chunk.text)
    character = lines[line][column] if line < len(lines) and column < len(lines[line]) else ""
    code, hint = "GPU004", "check the line and the one above it"
    message = problem
    conflict = next((number for number, text in enumerate(lines) if re.match(_CONFLICT, text)), None)
    if conflict is not None:
        message, hint = "this line is of a merge conflict that is not resolved", "keep one side, and remove the markers"
        span = chunk.point(conflict, 0)
        return Diagnostic(Severity.ERROR, code, message, span, hint=hint)
    if character == "\t" or "tab character" in problem or "'\\t'" in problem:
        code, message, hint = "GPU005", TAB, TAB_HINT
    elif "cannot start any token" in problem:
        message = f"the character {character!r} is not allowed here"
        hint = "remove it, or quote the text that starts with it"
    elif "maximum nesting depth" in problem:
        # libyaml scans ahead of its events, so its own limit can be reached before the composer counts 64 levels.
        code, message, hint = "GPU008", TOO_DEEP, FLATTEN
    else:
        both = f"{error.context or ''}; {problem}"
        for part, said, advice in _HINTS:
            if part in problem or (part.startswith("while") and part in both):
                message, hint = said, advice
                break
    related: tuple[Related, ...] = ()
    context = error.context_mark
    if context is not None and ("end of stream" in problem or "document indicator" in problem):
        # The error is at the opening quote, not at the place where the text ended.
        line, column = context.line, context.column
    if context is not None and mark is not None and (context.line, context.column) != (line, column):
        related = (
            Related((error.context or "started here").replace("while ", ""), chunk.point(context.line, context.column)),
        )
    return Diagnostic(Severity.ERROR, code, message, chunk.point(line, column), hint=hint, related=related)


def character_error(chunk: Chunk, text: str, error: yaml.reader.ReaderError) -> Diagnostic:
    """Return the diagnostic for a character that YAML does not allow; libyaml's offset counts bytes of UTF-8."""
    match = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    offset = match.start() if match else 0
    before = lines_of(text[:offset])
    line, column = len(before) - 1, len(before[-1])
    code = ord(match[0]) if match else 0
    what = "a NUL byte: this looks like a binary file" if code == 0 else f"the control character U+{code:04X}"
    hint = "name a YAML file" if code == 0 else 'write it as an escape in double quotes, such as "\\x07"'
    return Diagnostic(Severity.ERROR, "GPU002", f"the file contains {what}", chunk.point(line, column), hint=hint)
