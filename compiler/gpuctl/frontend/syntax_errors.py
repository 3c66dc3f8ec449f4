"""Turns libyaml's errors, which describe the states of its parser, into messages that a user can act on."""

from __future__ import annotations

import re

import yaml

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.source import lines_of
from gpuctl.frontend.yaml_tree import Chunk
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Sentence, Template, say

TAB = Template("a tab is used for indentation, which YAML forbids")
TAB_HINT = Template("indent with spaces (`expand -t2 FILE` replaces tabs)")
MAX_DEPTH = 64
MAX_VALUES = 250_000
"""Maximum number of scalars, mappings and lists in one document, as written."""
TOO_DEEP = Template("nested deeper than {most} levels")
FLATTEN = Template("flatten the document")

_HINTS: tuple[tuple[str, Template, Template], ...] = (
    # (part of libyaml's problem, message, hint)
    (
        "mapping values are not allowed",
        Template("a `:` is not allowed here"),
        Template("quote the value, or check the indentation of the line"),
    ),
    (
        "did not find expected key",
        Template("this does not fit the lines above"),
        Template("check the indentation, or a missing `:` or quote"),
    ),
    (
        "could not find expected ':'",
        Template("there is no `:` after this key"),
        Template("write `key: value`, or check the line above"),
    ),
    (
        "did not find expected '-' indicator",
        Template("this does not fit the list above"),
        Template("start each item with `- ` in one column"),
    ),
    (
        "did not find expected ',' or ']'",
        Template("the list is not closed here"),
        Template("add a `,` between items, or `]` at the end"),
    ),
    (
        "did not find expected ',' or '}'",
        Template("the mapping is not closed here"),
        Template("add a `,` between entries, or `}}` at the end"),
    ),
    ("found unexpected end of stream", Template("this quoted text is not closed"), Template("close the quote")),
    (
        "found unexpected document indicator",
        Template("this quoted text is not closed"),
        Template("close the quote before `---`"),
    ),
    (
        "did not find expected <document start>",
        Template("there is text after the end of the document"),
        Template("remove it, or start a document with `---`"),
    ),
    ("found undefined tag handle", Template("a `!` starts a YAML tag"), Template("quote the value")),
    (
        "block sequence entries are not allowed",
        Template("a `-` list cannot start on this line"),
        Template("put `- ` on a line of its own"),
    ),
    ("while scanning an alias", Template("a `*` starts a YAML alias"), Template("quote the value")),
    (
        "did not find expected alphabetic or numeric character",
        Template("`*` and `&` start YAML aliases and anchors"),
        Template("quote the value"),
    ),
    (
        "invalid Unicode character escape code",
        Template("this escape is half of a character"),
        Template('write the character itself, or its code in one escape such as "\\U0001F600"'),
    ),
    (
        "found unknown escape character",
        Template("this escape is unknown in double quotes"),
        Template("write `\\\\` for a backslash, or use single quotes"),
    ),
    (
        "did not find expected hexdecimal number",
        Template("this escape needs hexadecimal digits"),
        Template("write `\\\\` for a backslash, or use single quotes"),
    ),
    (
        "did not find expected node content",
        Template("a value is missing here"),
        Template("write one, or quote the text"),
    ),
    ("found duplicate", Template("this is given twice"), Template("remove one")),
    ("invalid leading UTF-8 octet", Template("this is not UTF-8"), Template("save the file as UTF-8")),
)
_CONTEXTS = {
    "while parsing a block collection": Template("parsing a block collection"),
    "while parsing a block mapping": Template("parsing a block mapping"),
    "while parsing a flow mapping": Template("parsing a flow mapping"),
    "while parsing a flow sequence": Template("parsing a flow sequence"),
    "while scanning a block scalar": Template("scanning a block scalar"),
    "while scanning a quoted scalar": Template("scanning a quoted scalar"),
    "while scanning a simple key": Template("scanning a simple key"),
}
"""What libyaml was reading -> the role of the place where it began."""


_AFTER_JOINED_PAIR = ("mapping values are not allowed", "could not find expected ':'")
_CONFLICT = r"(?:<{7}|>{7}|\|{7}) |={7}\Z"
"""Matches the lines that git writes around the sides of a conflict."""


def syntax_error(chunk: Chunk, error: yaml.MarkedYAMLError) -> Diagnostic:
    """Return the diagnostic for an error of libyaml."""
    problem = str(error.problem or error.context or "not YAML")
    mark = error.problem_mark or error.context_mark
    assert mark is not None, "libyaml gives each of its errors a place"
    line, column = mark.line, mark.column
    lines = lines_of(chunk.text)
    written = lines[line] if line < len(lines) else ""
    character = written[column : column + 1]
    code, hint = "GPU004", say("check the line and the one above it")
    message = Sentence(problem)
    conflict = next((number for number, text in enumerate(lines) if re.match(_CONFLICT, text)), None)
    if conflict is not None:
        message = say("this line is of a merge conflict that is not resolved")
        hint = say("keep one side, and remove the markers")
        span = chunk.point(conflict, 0)
        return Diagnostic(Severity.ERROR, code, message, span, hint=hint)
    joined = _joined_pair(lines, line) if problem.startswith(_AFTER_JOINED_PAIR) else None
    if joined is not None:
        number, pair = joined
        span = chunk.point(number, pair.start(2) - 1)
        hint = say("write `{text}`", text=f"{pair[1]}: {shorten(pair[2])}")
        return Diagnostic(Severity.ERROR, "GPU004", say("a blank is missing after the `:`"), span, hint=hint)
    if character == "\t" or "tab character" in problem or "'\\t'" in problem:
        code, message, hint = "GPU005", say(TAB), say(TAB_HINT)
    elif "cannot start any token" in problem:
        message = say("the character {character} is not allowed here", character=repr(character))
        hint = say("remove it, or quote the text that starts with it")
    elif "flow mapping" in (error.context or "") and re.search(r"(?<!\$)\$\{", written[: column + 1]):
        message, hint = say("`${{` begins a mapping here"), say("quote the value")
    elif "maximum nesting depth" in problem:
        # libyaml scans ahead of its events, so its own limit can be reached before the composer counts 64 levels.
        code, message, hint = "GPU008", say(TOO_DEEP, most=MAX_DEPTH), say(FLATTEN)
    else:
        both = f"{error.context or ''}; {problem}"
        for part, said, advice in _HINTS:
            if part in problem or (part.startswith("while") and part in both):
                message, hint = say(said), say(advice)
                break
    related: tuple[Related, ...] = ()
    context = error.context_mark
    if context is not None and ("end of stream" in problem or "document indicator" in problem):
        # The error is at the opening quote, not at the place where the text ended.
        line, column = context.line, context.column
    if context is not None and mark is not None and (context.line, context.column) != (line, column):
        known = _CONTEXTS.get(error.context or "")
        began = Sentence(error.context.replace("while ", "")) if error.context else say("started here")
        related = (Related(say(known) if known else began, chunk.point(context.line, context.column)),)
    return Diagnostic(Severity.ERROR, code, message, chunk.point(line, column), hint=hint, related=related)


def _joined_pair(lines: list[str], last: int) -> tuple[int, re.Match[str]] | None:
    """Return the first of the lines such as ``name:demo`` that end at a line or before it, with its number.

    YAML reads them as text, which the key of the next line does not fit.
    """
    found = None
    # An error at the end of the text is on a line of its own.
    last = min(last, len(lines) - 1)
    for number in range(last, -1, -1):
        pair = re.match(r"[ \t]*(?:- +)?([A-Za-z][\w-]*):([^\s:/](?:(?!: ).)*?)[ \t]*\Z", lines[number])
        if pair is not None:
            found = (number, pair)
        elif found is not None or (number < last and lines[number].strip()):
            break
    return found


def character_error(chunk: Chunk, text: str, error: yaml.reader.ReaderError) -> Diagnostic:
    """Return the diagnostic for a character that YAML does not allow; libyaml's offset counts bytes of UTF-8."""
    match = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    offset = match.start() if match else 0
    before = lines_of(text[:offset])
    line, column = len(before) - 1, len(before[-1])
    code = ord(match[0]) if match else 0
    if code == 0:
        message, hint = say("the file contains a NUL byte: this looks like a binary file"), say("name a YAML file")
    else:
        message = say("the file contains the control character {character}", character=f"U+{code:04X}")
        hint = say('write it as an escape in double quotes, such as "\\x07"')
    return Diagnostic(Severity.ERROR, "GPU002", message, chunk.point(line, column), hint=hint)
