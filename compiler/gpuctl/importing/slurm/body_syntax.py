"""The statements and commands of a batch script's body, with their places in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuctl.frontend.shell_lexer import ARITHMETIC, NotUnderstood, ShellLexer
from gpuctl.importing.import_values import Unreadable

_OPENS = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}
_BETWEEN = frozenset({"then", "do", "else", "elif", "!", "time"})
_ASSIGNMENT = r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?="
_PREFIXES = frozenset({"exec", "nohup", "command", "builtin"})
_FUNCTION = r"function[ \t]+[\w:.-]+|[\w:.-]+[ \t]*\([ \t]*\)"
_RUNS_ARGUMENTS = (
    r"(?m)(?:^|[;&|{(]|\bif|\bthen|\bdo|!)[ \t]*(?:(?:time|eval|exec)[ \t]+)?\"?\$\{?[@*]\}?\"?(?=[ \t;&|)}]|$)"
)
_PLACEHOLDER = r"(?m)(?<=[\s=/])<[A-Za-z][\w -]*>(?=[ \t;]*$)"
_DEEPEST = 40
_LONGEST_GAP = 200


class BodyWord(NamedTuple):
    """A word without quotation marks, and its place. ``items``: the places of the words of an array, else None."""

    text: str
    start: int
    end: int
    items: tuple[tuple[int, int], ...] | None = None

    @property
    def is_assignment(self) -> bool:
        """True for ``NAME=value``, at the start of a command."""
        return re.match(_ASSIGNMENT, self.text) is not None


class BodyCommand(NamedTuple):
    """A simple command. ``certain``: it is not inside a construct, and not behind `||` or a test. ``background``: it
    is in a pipeline or list that `&` ends.
    """

    words: tuple[BodyWord, ...]
    certain: bool
    background: bool = False

    @property
    def assignments(self) -> tuple[BodyWord, ...]:
        """The assignments before the program."""
        for index, word in enumerate(self.words):
            if not word.is_assignment:
                return self.words[:index]
        return self.words

    @property
    def program(self) -> tuple[BodyWord, ...]:
        """The words from the program on; empty if there are only assignments, or an arithmetic command."""
        words = self.words[len(self.assignments) :]
        if words and words[0].text.startswith(ARITHMETIC):
            return ()
        while words and words[0].text in _PREFIXES:
            words = words[1:]
        return words

    @property
    def name(self) -> str:
        """The base name of the program; "" if there are only assignments."""
        words = self.program
        return words[0].text.rsplit("/", 1)[-1] if words else ""

    def is_behind_pipe(self, text: str) -> bool:
        """Return True if the command reads the output of another one.

        :param text: the script.
        """
        return re.search(r"[^|]\|&?[ \t\n\\]*\Z", text[max(self.start - _LONGEST_GAP, 0) : self.start]) is not None

    @property
    def start(self) -> int:
        """The offset of the first word."""
        return self.words[0].start

    @property
    def end(self) -> int:
        """The offset behind the last word. Redirections that follow are not included."""
        return self.words[-1].end


class Statement(NamedTuple):
    """A statement of the outermost level, with its here-documents. ``ends_at``: the end without them."""

    start: int
    end: int
    ends_at: int
    commands: tuple[BodyCommand, ...]
    background: bool

    def defines_function(self, text: str) -> bool:
        """Return True if the statement is the definition of a function.

        :param text: the script.
        """
        return re.compile(_FUNCTION).match(text, self.start) is not None

    def defined_name(self, text: str) -> str:
        """Return the name of the function that the statement defines, "" for another one.

        :param text: the script.
        """
        match = re.compile(_FUNCTION).match(text, self.start)
        return "" if match is None else re.split(r"[ \t(]", match[0].removeprefix("function").lstrip(), maxsplit=1)[0]

    @property
    def single(self) -> BodyCommand | None:
        """The command, if the statement is one simple command without a pipe or redirection."""
        if len(self.commands) != 1 or not self.commands[0].certain:
            return None
        command = self.commands[0]
        return command if (command.start, command.end) == (self.start, self.ends_at) else None


def statements_of(text: str) -> list[Statement]:
    """Return the statements of a script.

    :raises NotUnderstood: a quotation mark, bracket or construct is not closed.
    """
    return list(_Parser(text).statements())


def statements_of_whole(text: str) -> list[Statement]:
    """Return the statements of a script; [] if a quotation mark, bracket or construct is not closed."""
    try:
        return statements_of(text)
    except NotUnderstood:
        return []


def statements_of_body(text: str, first_line: int) -> list[Statement]:
    """Return the statements of a batch script's body.

    :param first_line: the line of the file in which it begins.
    :raises Unreadable: a quotation mark, bracket or construct is not closed.
    """
    try:
        return statements_of(text)
    except NotUnderstood:
        place = re.search(_PLACEHOLDER, text)
    if place is not None:
        message = f"`{place[0]}` is a placeholder, which no shell can read"
        raise Unreadable(first_line + text.count("\n", 0, place.start()), message, "write its value")
    message = "the script has a quotation mark, bracket or construct that is not closed"
    raise Unreadable(first_line, message, "`bash -n FILE` names the place")


def part_of_line(text: str, start: int, end: int) -> str:
    """Return a part of a script if another command is before or behind it on its lines; "" if it is alone."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    behind = text[end:].split("\n", 1)[0].split(" #", 1)[0]
    return text[start:end] if (before + behind).strip("; \t") else ""


def functions_that_run_arguments(text: str, statements: Sequence[Statement]) -> frozenset[str]:
    """Return the names of functions such as ``run() { echo "$@"; "$@"; }``."""
    defined = [item for item in statements if item.defines_function(text)]
    return frozenset(
        item.defined_name(text) for item in defined if re.search(_RUNS_ARGUMENTS, text[item.start : item.end])
    )


def program_of(text: str) -> tuple[BodyWord, ...]:
    """Return the words of a script that is one simple command; () if it is another."""
    statements = statements_of_whole(text)
    single = statements[0].single if len(statements) == 1 else None
    return () if single is None or single.assignments else single.program


class _Parser:
    def __init__(self, text: str) -> None:
        self.lexer = ShellLexer(text)
        self.closers: list[str] = []
        self.words: list[BodyWord] = []
        self.commands: list[BodyCommand] = []
        self.start: int | None = None
        self.end = 0
        self.conditional = False
        self.list_start = 0
        """The first command of the current pipeline or list."""
        self.continues = False
        """True after `|`, `&&` or `||`: a line break does not end the statement."""

    def statements(self) -> Iterator[Statement]:
        pending: Statement | None = None
        in_test = False
        for text, word in self._tokens():
            # The here-documents of a command begin behind its line.
            is_before_documents = word is None and text == "\n" and self.lexer.documents
            if pending is not None and not is_before_documents:
                yield pending._replace(end=max(pending.end, self.lexer.documents_end))
                pending = None
            if self.start is None and (word is not None or text == "("):
                self.start = word.start if word is not None else self.lexer.at - 1
            if word is not None or text not in ("\n", ";", "&"):
                self.end = self.lexer.at if word is None else word.end
            if in_test:
                in_test = text != "]]"
                continue
            if word is not None:
                in_test = self._take(word) or in_test
                self.continues = False
                continue
            if len(self.closers) > _DEEPEST:
                raise NotUnderstood
            self._operator(text)
            if self.closers or self.continues or text not in ("\n", ";", "&"):
                continue
            self.conditional = False
            if self.start is not None:
                end = max(self.end, self.lexer.redirection_end)
                pending = Statement(self.start, end, end, tuple(self.commands), text == "&")
            self.start, self.commands, self.list_start = None, [], 0
            if not self.lexer.documents and pending is not None:
                yield pending
                pending = None
        if self.closers or in_test:
            raise NotUnderstood
        self._finish()
        if pending is not None:
            yield pending._replace(end=max(pending.end, self.lexer.documents_end))
        elif self.start is not None:
            end = max(self.end, self.lexer.redirection_end)
            yield Statement(self.start, end, end, tuple(self.commands), background=False)

    def _tokens(self) -> Iterator[tuple[str, BodyWord | None]]:
        """Yield operators and words. An array such as ``A=(x y)`` is one word."""
        array: BodyWord | None = None
        items: list[tuple[int, int]] = []
        depth = 0
        held: BodyWord | None = None
        for token in self.lexer.tokens():
            at = self.lexer.at
            if array is not None:
                depth += (token.text == "(") - (token.text == ")") if token.word is None else 0
                if token.word is not None:
                    items.append((token.word.start, at))
                elif depth == 0:
                    yield array.text, array._replace(end=at, items=tuple(items))
                    array = None
                continue
            if held is not None:
                if token.word is None and token.text == "(" and at - 1 == held.end:
                    array, items, depth, held = held, [], 1, None
                    continue
                yield held.text, held
                held = None
            if token.word is None:
                yield token.text, None
                continue
            word = BodyWord(token.text, token.word.start, at)
            if word.text.endswith("=") and word.is_assignment:
                held = word
            else:
                yield word.text, word
        if array is not None:
            raise NotUnderstood
        if held is not None:
            yield held.text, held

    def _take(self, word: BodyWord) -> bool:
        """Take a word. Return True if it opens a test."""
        text = word.text
        if [item.text for item in self.words[:1]] == ["function"] and text == "{":
            self.words = []
            self.closers.append("}")
        elif self.words:
            self.words.append(word)
        elif self.closers and text == self.closers[-1]:
            self.closers.pop()
        elif text in _OPENS:
            self.closers.append(_OPENS[text])
            if text in ("for", "select", "case"):
                self.words = [word]
        elif text == "function":
            self.words = [word]
        elif text not in _BETWEEN:
            self.words.append(word)
            return text == "[["
        return False

    def _operator(self, text: str) -> None:
        in_case = self.closers[-1:] == ["esac"]
        if text == "(":
            # `name ()` defines a function; the parentheses are empty.
            self.words = []
            self.closers.append(")")
            return
        if text == ")" and in_case:
            self.words = []
            return
        self._finish()
        if text == "&":
            self.commands[self.list_start :] = [
                command._replace(background=True) for command in self.commands[self.list_start :]
            ]
        if text in ("\n", ";", "&"):
            self.list_start = len(self.commands)
        if text == ")":
            if self.closers[-1:] != [")"]:
                raise NotUnderstood
            self.closers.pop()
        elif text in ("||", "&&"):
            self.conditional = True
        if text in ("|", "|&", "&&", "||"):
            self.continues = True

    def _finish(self) -> None:
        words, self.words = self.words, []
        if not words or words[0].text in ("for", "select", "case", "function"):
            return
        self.commands.append(BodyCommand(tuple(words), not self.closers and not self.conditional))
