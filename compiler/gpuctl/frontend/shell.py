"""A tolerant parser of shell text: the simple commands that a script always runs.

Constructs that it does not support (functions, unclosed quotation marks, very deep nesting) make the whole script
unknown. Commands inside `if`, loops and `case`, behind `||` and behind a test are left out, because they may not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gpuctl.frontend.shell_lexer import ARITHMETIC, DEEPEST, NotUnderstood, ShellLexer, ShellToken, ShellWord

_LONGEST = 65536
_LONGEST_CACHED = 4096
_BRACES = r"\{[^{}]*\}"
_ASSIGNMENT = r"[A-Za-z_]\w*\+?="
# Words with a meaning of their own in a shell; a program of the same name does something else.
_SHELL_WORDS = frozenset(
    {
        *("cd", "pushd", "popd", "export", "unset", "source", ".", "set", "shopt", "alias", "eval", "exec", "trap"),
        *(
            "ulimit",
            "umask",
            "declare",
            "local",
            "readonly",
            "typeset",
            "read",
            "wait",
            "exit",
            "return",
            ":",
            "builtin",
        ),
        *("if", "for", "while", "until", "case", "select", "function", "{", "[[", "!", "time", "command", "let"),
    }
)
_OPENS = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}
_BETWEEN = frozenset({"then", "do", "else", "elif", "!"})
_TESTS = frozenset({"[", "[[", "test"})
_SHELL_ONLY = _SHELL_WORDS - {"time", "command"}
"""Shell words that common images do not have as a program."""
# Ends of groups whose commands always run.
_GROUPS = frozenset({"}", ")"})


class SimpleCommand(NamedTuple):
    """A program with its arguments and the assignments before it. ``background``: the script does not wait for it."""

    words: tuple[ShellWord, ...]
    background: bool = False


class CommandText(NamedTuple):
    """A text that was written as one command. ``words`` is None if a quotation mark or bracket is not closed."""

    words: tuple[ShellWord, ...] | None
    needs_shell: bool


def read_command(text: str) -> CommandText:
    """Parse a text that was written as one command line, and determine whether it needs a shell.

    ``$(NAME)`` in capitals is a Kubernetes reference, which needs no shell.
    """
    text = text.strip()
    lexer = ShellLexer(text)
    try:
        tokens = list(lexer.tokens())
    except NotUnderstood:
        return CommandText(None, "\n" in text or bool(re.search(r"&&|\|\||[;|<>]", text)))
    words = tuple(token.word for token in tokens if token.word is not None)
    needs = lexer.special or len(words) < len(tokens) or any(map(_is_expanded, words))
    if words:
        needs = needs or words[0].text in _SHELL_WORDS or re.match(_ASSIGNMENT, words[0].text) is not None
    return CommandText(words, needs)


def is_shell_only(word: str) -> bool:
    """Return True if only a shell can run a command with this first word: builtin, keyword or assignment."""
    return word in _SHELL_ONLY or re.match(_ASSIGNMENT, word) is not None


def simple_commands(script: str) -> tuple[SimpleCommand, ...]:
    """Return the commands that a script always runs; empty if it is very long or not supported.

    :param script: as in a container's command, where Kubernetes replaces ``$$`` by ``$``.
    """
    if len(script) > _LONGEST:
        return ()
    return _cached_commands(script) if len(script) <= _LONGEST_CACHED else _read(script)


@lru_cache(maxsize=64)
def _cached_commands(script: str) -> tuple[SimpleCommand, ...]:
    """Cache a script that several checks read."""
    return _read(script)


def _read(script: str) -> tuple[SimpleCommand, ...]:
    try:
        return tuple(_commands(list(ShellLexer(script.replace("$$", "$")).tokens())))
    except NotUnderstood:
        return ()


def _is_expanded(word: ShellWord) -> bool:
    """Return True if a shell expands the word to file names or to several words."""
    bare = word.bare
    if bare.startswith("~") or "*" in bare or "?" in bare:
        return True
    return any("," in match[0] or ".." in match[0] for match in re.finditer(_BRACES, bare))


def _commands(tokens: list[ShellToken]) -> Iterator[SimpleCommand]:
    """Yield the simple commands of a token list. ``closers``: words that end the open constructs, innermost last."""
    closers: list[str] = []
    found: list[SimpleCommand] = []
    words: list[ShellWord] = []
    first_of_chain = 0
    is_conditional = False
    in_test = ended = False
    for token in [*tokens, ShellToken("\n")]:
        text = token.text
        if len(closers) > DEEPEST:
            raise NotUnderstood
        if in_test:
            in_test = text != "]]"
            continue
        if token.word is not None:
            bare = token.word.bare
            if words:
                words.append(token.word)
            elif closers and bare == closers[-1]:
                closers.pop()
            elif bare == "function":
                raise NotUnderstood
            elif bare in _OPENS:
                closers.append(_OPENS[bare])
                # The words of `for x in a b` and `case x in` are not a command.
                words = [token.word] if bare in ("for", "select", "case") else []
            elif bare not in _BETWEEN:
                in_test = bare == "[["
                words.append(token.word)
            continue
        if text == "(":
            if words and not (closers and closers[-1] == "esac"):
                raise NotUnderstood
            closers.append(")")
            continue
        if words:
            certain = not is_conditional and not ended and all(closer in _GROUPS for closer in closers)
            computes = words[0].bare.startswith(ARITHMETIC)
            if certain and not computes:
                found.append(SimpleCommand(tuple(words)))
                ended = words[0].bare == "exit"
            if text == "&&" and (words[0].bare in _TESTS or computes):
                is_conditional = True
            words = []
        if text == ")":
            if closers and closers[-1] == ")":
                closers.pop()
            elif "esac" not in closers:
                raise NotUnderstood
        elif text == "||":
            is_conditional = True
        elif text in (";", "\n", "&", ";;"):
            if text == "&":
                found[first_of_chain:] = [item._replace(background=True) for item in found[first_of_chain:]]
            first_of_chain = len(found)
            is_conditional = False
    if closers or in_test:
        raise NotUnderstood
    yield from found
