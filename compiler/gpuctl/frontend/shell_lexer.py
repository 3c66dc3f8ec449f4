"""Words and operators of shell text. Redirections, comments and here-documents are skipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

DEEPEST = 20
"""Depth of nested constructs that are read."""
ARITHMETIC = "(("
"""The start of an arithmetic command."""
_REDIRECTION = r"\d*(?:<<<|<<-|<<|<&|<>|<|>>|>\||>&|>)|&>>|&>"
_OPERATOR = r"&&|\|\||;;|\|&|[;|&()\n]"
_PARAMETER = r"[A-Za-z_]\w*|[0-9@*#?!$-]"
_PLACEHOLDER = r"\$\([A-Z_][A-Z0-9_]*\)"
_DOCUMENT = r"<<(?P<strip>-?)[ \t]*(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"\n]+)\"|\\?(?P<bare>[\w.-]+))"
"""The start of a here-document inside a command substitution."""


class ShellWord(NamedTuple):
    """A word with quotation marks removed.

    ``known`` is False if the shell replaces a part of it. ``bare`` is the text with a NUL for each quoted character, so
    that only characters the shell may expand remain. ``start`` is the word's offset in the text.
    """

    text: str
    known: bool
    bare: str
    start: int


class ShellToken(NamedTuple):
    """A part of a command line: a word, or an operator such as `&&`, which has no ``word``."""

    text: str
    word: ShellWord | None = None


class NotUnderstood(Exception):
    """The text is not a shell script, or uses constructs that this parser does not support."""


class ShellLexer:
    """Splits shell text into words and operators. Redirections, comments and here-documents are skipped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.special = False
        """True if the text contains anything other than operators that only a shell supports."""
        self.groups = 0
        """Number of groups that begin with another group."""
        self.documents: list[tuple[str, bool]] = []
        self.documents_end = 0
        """Offset behind the last here-document that was read."""
        self.redirection_end = 0
        """Offset behind the last redirection that was read."""
        self.texts: list[range] = []
        """Places of words, of targets of redirections and of here-documents, in which each blank counts."""

    def tokens(self) -> Iterator[ShellToken]:
        text, blank = self.text, re.compile(r"(?:[ \t\r]|\\\n)*")
        redirection, operator = re.compile(_REDIRECTION), re.compile(_OPERATOR)
        while True:
            found = blank.match(text, self.at)
            self.at = found.end() if found else self.at
            if self.at >= len(text):
                return
            if text[self.at] == "#":
                self.special = True
                end = text.find("\n", self.at)
                self.at = end if end >= 0 else len(text)
                continue
            if text[self.at : self.at + 2] not in ("<(", ">("):
                match = redirection.match(text, self.at)
                if match is not None:
                    self._redirect(match)
                    continue
            word = self._arithmetic(0)
            match = operator.match(text, self.at) if word is None else None
            if match is not None:
                self.at = match.end()
                yield ShellToken(match[0])
                if match[0] == "\n" and self.documents:
                    self._pass_documents(self.documents)
                    self.documents = []
                    self.documents_end = self.at
                continue
            word = word or self._word(0)
            self.texts.append(range(word.start, self.at))
            yield ShellToken(word.text, word)

    def _arithmetic(self, depth: int) -> ShellWord | None:
        """Read an arithmetic command such as ``((i < 3))`` as one word. Return None for other text."""
        text, start = self.text, self.at
        if not text.startswith(ARITHMETIC, start):
            return None
        self.at += len(ARITHMETIC)
        self._skip(")", depth)
        if not text.startswith(")", self.at):
            # A group within a group: `((a; b); c)`. Each is read twice, so that their number is limited.
            self.groups += 1
            if self.groups > DEEPEST:
                raise NotUnderstood
            self.at = start
            return None
        self.at += 1
        self.special = True
        return ShellWord(text[start : self.at], False, ARITHMETIC.ljust(self.at - start, "\0"), start)

    def _redirect(self, match: re.Match[str]) -> None:
        self.special = True
        self.at = match.end()
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        start = self.at
        target = self._word(0)
        if self.at == start:
            raise NotUnderstood
        self.redirection_end = self.at
        self.texts.append(range(start, self.at))
        sign = match[0].lstrip("0123456789")
        if sign in ("<<", "<<-"):
            self.documents.append((target.text, sign == "<<-"))

    def _pass_documents(self, documents: list[tuple[str, bool]]) -> None:
        """Skip the lines of the here-documents that start here."""
        start = self.at
        for end, strips_tabs in documents:
            while True:
                if self.at >= len(self.text):
                    raise NotUnderstood
                stop = self.text.find("\n", self.at)
                stop = stop if stop >= 0 else len(self.text)
                line = self.text[self.at : stop]
                self.at = stop + 1
                if (line.lstrip("\t") if strips_tabs else line) == end:
                    break
        self.texts.append(range(start, stop))

    def _word(self, depth: int) -> ShellWord:
        """Read a word up to the next blank or operator."""
        text, start = self.text, self.at
        parts: list[str] = []
        bare: list[str] = []
        known = True

        def add(piece: str, quoted: bool) -> None:
            parts.append(piece)
            bare.append("\0" * len(piece) if quoted else piece)

        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r\n;&|()" or (char in "<>" and text[self.at + 1 : self.at + 2] != "("):
                break
            if char in "<>":
                opened = self.at
                self.at += 2
                self._skip(")", depth)
                add(text[opened : self.at], True)
                known, self.special = False, True
            elif char == "\\":
                if text[self.at + 1 : self.at + 2] != "\n":
                    add(text[self.at + 1 : self.at + 2], True)
                self.at += 2
            elif char == "'":
                end = self._closing("'")
                add(text[self.at + 1 : end], True)
                self.at = end + 1
            elif char == '"':
                self.at += 1
                known = self._double_quoted(add, depth) and known
            elif char in "$`":
                piece, is_expanded = self._expansion(depth, quoted=False)
                add(piece, True)
                known = known and not is_expanded
            else:
                add(char, False)
                self.at += 1
        return ShellWord("".join(parts), known, "".join(bare), start)

    def _double_quoted(self, add: Callable[[str, bool], None], depth: int) -> bool:
        """Pass the parts up to the closing mark to ``add``. Return False if the shell replaces a part."""
        text, known = self.text, True
        while self.at < len(text):
            char = text[self.at]
            if char == '"':
                self.at += 1
                return known
            if char == "\\":
                after = text[self.at + 1 : self.at + 2]
                add("" if after == "\n" else after if after in ('"', "\\", "$", "`") else "\\" + after, True)
                self.at += 2
            elif char in "$`":
                piece, is_expanded = self._expansion(depth, quoted=True)
                add(piece, True)
                known = known and not is_expanded
            else:
                add(char, True)
                self.at += 1
        raise NotUnderstood

    def _expansion(self, depth: int, *, quoted: bool) -> tuple[str, bool]:
        """Read an expansion after ``$`` or a backquote. Return its text and True if the shell replaces it."""
        text, start = self.text, self.at
        if text[start] == "`":
            self.at = self._closing("`") + 1
        elif text.startswith(("$(", "${"), start):
            self.at += 2
            self._skip(")" if text[start + 1] == "(" else "}", depth)
            if re.fullmatch(_PLACEHOLDER, text[start : self.at]):
                return text[start : self.at], True
        elif text.startswith("$'", start) and not quoted:
            self.at += 1
            self.at = self._closing("'", escapes=True) + 1
        elif (match := re.compile(_PARAMETER).match(text, start + 1)) is not None:
            self.at = match.end()
        else:
            self.at += 1
            return "$", False
        self.special = True
        return text[start : self.at], True

    def _closing(self, mark: str, *, escapes: bool = False) -> int:
        """Return the offset of the mark that closes the quotation at ``at``."""
        end = self.at + 1
        while end < len(self.text):
            if self.text[end] == mark:
                return end
            end += 2 if self.text[end] == "\\" and (escapes or mark == "`") else 1
        raise NotUnderstood

    def _skip(self, closer: str, depth: int) -> None:
        """Move behind the bracket that closes the one just before ``at``."""
        if depth > DEEPEST:
            raise NotUnderstood
        opener = "(" if closer == ")" else "{"
        level = 1
        has_commands = closer == ")" and ARITHMETIC not in self.text[self.at - 2 : self.at + 1]
        documents: list[tuple[str, bool]] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\":
                self.at += 2
                continue
            if has_commands and self._arithmetic(depth + 1) is not None:
                continue
            if has_commands and char in "<#\n":
                self._skip_in_commands(char, documents)
                continue
            if char == "'" and closer == ")":
                self.at = self._closing("'")
            elif char == '"':
                self.at += 1
                self._double_quoted(lambda piece, quoted: None, depth + 1)
                continue
            elif char == opener:
                level += 1
            elif char == closer:
                level -= 1
                if level == 0:
                    self.at += 1
                    return
            self.at += 1
        raise NotUnderstood

    def _skip_in_commands(self, char: str, documents: list[tuple[str, bool]]) -> None:
        """Skip a redirection, comment or line break of a command substitution.

        :param documents: the here-documents that start at the next line.
        """
        match = re.compile(_DOCUMENT).match(self.text, self.at) if char == "<" else None
        if match is not None:
            end = match["single"] or match["double"] or match["bare"]
            documents.append((end, match["strip"] == "-"))
            self.at = match.end()
        elif self.text.startswith("<<<", self.at):
            self.at += 3
        elif char == "#" and self.text[self.at - 1] in " \t\n;(":
            end_of_line = self.text.find("\n", self.at)
            self.at = end_of_line if end_of_line >= 0 else len(self.text)
        else:
            self.at += 1
            if char == "\n" and documents:
                self._pass_documents(documents)
                documents.clear()
