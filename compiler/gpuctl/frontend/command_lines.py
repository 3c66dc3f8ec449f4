"""Finds the programs that a command starts: behind wrappers such as `env` and `numactl`, and in shell scripts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuctl.frontend.command_advice import SHELLS
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.shell import simple_commands
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import Sentence
from gpuctl.objects.quantities import whole_number

_ASSIGNMENT = r"[A-Za-z_]\w*="
_MAX_DEPTH = 8
"""Maximum nesting of programs that start programs."""


class Word(NamedTuple):
    """A word of a command and the path of the field that contains it.

    ``known`` is False if a part of the word is replaced at run time. ``in_script``: the field holds a whole script, in
    which ``text`` occurs ``earlier`` times before this word.
    """

    text: str
    path: FieldPath
    known: bool = True
    in_script: bool = False
    earlier: int = 0

    @property
    def is_open(self) -> bool:
        """True if the word may expand to any number of words, such as ``$ARGS`` and ``"$@"``."""
        return not self.known and self.text.startswith("$")


class Program(NamedTuple):
    """A program that a command starts.

    ``words`` start with the program; ``variables`` are the assignments before it. ``name`` is its base name; for
    ``python -m a.b`` the module's name, and "" for the image's entrypoint. ``arguments`` are the remaining words.
    ``background``: the script continues while the program runs.
    """

    words: tuple[Word, ...]
    variables: tuple[Word, ...]
    name: str
    arguments: tuple[Word, ...]
    background: bool

    @property
    def head(self) -> str:
        """The words that name the program, without arguments: ``python -m deepspeed``."""
        return " ".join(word.text for word in self.words[: len(self.words) - len(self.arguments)])


class LauncherOption(NamedTuple):
    """An option of a launcher. ``name`` has underscores; ``value`` is "" without one, None if it is not known.

    ``places``: those of its words.
    """

    name: str
    value: str | None
    places: range


class _Wrapper(NamedTuple):
    """A program that runs the program in its arguments: its options with a value, and the number of words before that
    program.
    """

    valued: frozenset[str] = frozenset()
    words: int = 0
    command: str = ""
    """Subcommand that must come first, as in `conda run`."""


_WRAPPERS = {
    "env": _Wrapper(frozenset({"-u", "--unset", "-C", "--chdir"})),
    "exec": _Wrapper(frozenset({"-a"})),
    "command": _Wrapper(),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "time": _Wrapper(frozenset({"-f", "-o"})),
    "sudo": _Wrapper(frozenset({"-u", "-g"})),
    "gosu": _Wrapper(words=1),
    "tini": _Wrapper(frozenset({"-e", "-p"})),
    "dumb-init": _Wrapper(),
    "catchsegv": _Wrapper(),
    "unbuffer": _Wrapper(),
    "stdbuf": _Wrapper(frozenset({"-i", "-o", "-e"})),
    "nice": _Wrapper(frozenset({"-n", "--adjustment"})),
    "ionice": _Wrapper(frozenset({"-c", "-n"})),
    "taskset": _Wrapper(words=1),
    "chrt": _Wrapper(words=1),
    "timeout": _Wrapper(frozenset({"-k", "--kill-after", "-s", "--signal"}), words=1),
    "numactl": _Wrapper(
        frozenset({"-N", "--cpunodebind", "-m", "--membind", "-C", "--physcpubind", "-i", "--interleave", "-p"})
    ),
    "nsys": _Wrapper(frozenset({"-o", "--output", "-t", "--trace", "-s", "--sample"}), command="profile"),
    "conda": _Wrapper(frozenset({"-n", "--name", "-p", "--prefix"}), command="run"),
    "micromamba": _Wrapper(frozenset({"-n", "--name", "-p", "--prefix"}), command="run"),
    "uv": _Wrapper(frozenset({"--with", "--python", "-p", "--project", "--directory"}), command="run"),
    "poetry": _Wrapper(command="run"),
    "pipenv": _Wrapper(command="run"),
}
_PYTHON = r"(?a)(?:python|pypy)[0-9.]*\Z"
_VALUED_BY_PYTHON = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def command_line(model: Job) -> list[Word]:
    """Return the container's command and arguments as one list of words."""
    environment = model.environment
    return [
        *words_of(environment.command, ("environment", "command")),
        *words_of(environment.args, ("environment", "args")),
    ]


def words_of(texts: Iterable[str], path: FieldPath) -> list[Word]:
    """Return the items of a list as words. Items with ``$(NAME)`` are not known: Kubernetes expands them."""
    return [Word(text, (*path, index), "$(" not in text) for index, text in enumerate(texts)]


def programs_of(words: Sequence[Word]) -> list[Program]:
    """Return the programs that a container's command always starts, in the order in which they start."""
    return list(_programs(tuple(words), in_script=False, background=False, depth=0))


def _programs(words: tuple[Word, ...], *, in_script: bool, background: bool, depth: int) -> Iterator[Program]:
    variables, words = unwrapped(words, in_script=in_script)
    if not words or depth > _MAX_DEPTH:
        return
    script = script_of(words)
    if script is None:
        name, place = named_program([word.text for word in words])
        yield Program(words, variables, name, words[place:], background)
        return
    for command in simple_commands(script.text):
        inside = tuple(
            Word(word.text, script.path, word.known, True, script.text.count(word.text, 0, word.start))
            for word in command.words
        )
        runs_beside = background or command.background
        yield from _programs(inside, in_script=True, background=runs_beside, depth=depth + 1)


def unwrapped(words: Sequence[Word], *, in_script: bool = False) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the assignments before a program, and the program with its words, behind all wrappers such as `env`."""
    variables: tuple[Word, ...] = ()
    rest = tuple(words)
    while True:
        count = 0
        while in_script and count < len(rest) and re.match(_ASSIGNMENT, rest[count].text):
            count += 1
        variables, rest = variables + rest[:count], rest[count:]
        inner = _wrapped_words(rest)
        if inner is None:
            return variables, rest
        # `env A=b program` assigns without a shell.
        in_script = in_script or rest[0].text.rpartition("/")[2] == "env"
        rest = inner


def script_of(words: Sequence[Word]) -> Word | None:
    """Return the script of ``bash -c SCRIPT``; None if the program is not a shell or has no script."""
    names = [word.text.rpartition("/")[2] for word in words[:2]]
    start = 2 if names == ["busybox", "sh"] else 1
    if not words or (names[0] not in SHELLS and start == 1):
        return None
    has_script = False
    index = start
    while index < len(words) and words[index].text[:1] in ("-", "+"):
        text = words[index].text
        has_script = has_script or re.match(r"-[A-Za-z]*c[A-Za-z]*\Z", text) is not None
        index += 2 if re.match(r"[-+][A-Za-z]*[oO]\Z", text) else 1
    return words[index] if has_script and index < len(words) else None


def _wrapped_words(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """Return the words of the program that a wrapper runs; None if the first word is not a wrapper."""
    wrapper = _WRAPPERS.get(words[0].text.rpartition("/")[2]) if words else None
    if wrapper is None:
        return None
    index = 1
    if wrapper.command:
        if [word.text for word in words[1:2]] != [wrapper.command]:
            return None
        index = 2
    while index < len(words) and words[index].text.startswith("-"):
        if words[index].text == "--":
            index += 1
            break
        index += 2 if words[index].text in wrapper.valued else 1
    return words[index + wrapper.words :]


def named_program(words: Sequence[str]) -> tuple[str, int]:
    """Return the name of a program and the place of its first argument; for an interpreter, of the module or script
    that it runs.
    """
    if not words or words[0].startswith("-"):
        return "", 0  # Arguments of the image's entrypoint.
    name = words[0].rpartition("/")[2]
    if not re.match(_PYTHON, name):
        return name, 1
    index = 1
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "-m" and index + 1 < len(words):
            return words[index + 1], index + 2
        if words[index] == "-c":
            return name, 1
        index += 2 if words[index] in _VALUED_BY_PYTHON else 1
    if index < len(words):
        return words[index].rpartition("/")[2], index + 1
    return name, 1


def diagnostic_at(document: Document, code: str, message: Sentence, word: Word, hint: Sentence | None) -> Diagnostic:
    """Return a warning at a word of a command."""
    diagnostic = document.diagnostic(Severity.WARNING, code, message, word.path, hint)
    return document.within(diagnostic, word.text, word.earlier) if word.in_script else diagnostic


def option(words: Sequence[Word], *names: str) -> tuple[Word, str] | None:
    """Return the last value of an option (``--name value`` or ``--name=value``) and the word that contains it; None if
    absent.
    """
    found: tuple[Word, str] | None = None
    for index, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        name, equals, value = word.text.partition("=")
        if name not in names:
            continue
        if equals:
            found = (word, value)
        elif index + 1 < len(words):
            found = (words[index + 1], words[index + 1].text)
    return found


def options_from(words: Sequence[str | None], place: int, flags: Collection[str]) -> Iterator[LauncherOption]:
    """Yield a launcher's own options, which are those before its script.

    :param words: None for a word that is not known.
    :param place: that of the first argument.
    :param flags: options without a value; any other option without ``=`` takes the next word.
    """
    while place < len(words) and (word := words[place]) is not None and word.startswith("-"):
        name, equals, value = word.partition("=")
        name = "-" * (len(name) - len(name.lstrip("-"))) + name.lstrip("-").replace("-", "_")
        takes_next = not equals and name not in flags and place + 1 < len(words)
        yield LauncherOption(name, words[place + 1] if takes_next else value, range(place, place + 1 + takes_next))
        place += 1 + takes_next


def launcher_options(arguments: Sequence[Word], flags: Collection[str]) -> tuple[dict[str, tuple[Word, str]], int]:
    """Return a launcher's own options and the index of its script."""
    found = list(options_from([word.text for word in arguments], 0, flags))
    options = {option.name: (arguments[option.places[-1]], option.value or "") for option in found}
    return options, found[-1].places.stop if found else 0


def number(text: str) -> int | None:
    """Return the value of a numeric option; None if it is not a number of at most five digits."""
    return whole_number(text, 5)
