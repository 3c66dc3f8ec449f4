"""Sources: named texts, read from files, directories, standard input or memory."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpuctl.frontend.code_tree import CodeTree, DiskTree, repository_of
from gpuctl.frontend.diagnostics import Diagnostic, Severity, SourceSpan
from gpuctl.frontend.directory_listing import MAX_BYTES, SUFFIXES, NotAFile, file_type, list_directory, read_bytes
from gpuctl.language.display_text import shorten, visible
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import nearest, suggest_name

__all__ = ["STDIN", "SUFFIXES", "Source", "Sources", "collect", "decode", "lines_of"]

STDIN = "<stdin>"
_LONGEST_NAME = 200


class Source(NamedTuple):
    """A text with a name for messages.

    ``direct``: True if the caller named it. A directory may contain other YAML, which is skipped with a note; a file
    named directly must be a gpuctl document. ``path``: the file it was read from, whose name may have bytes that
    messages cannot show. ``tree``: the files around it, None if it is in no directory. ``mark``: the byte-order mark
    that the file starts with, which ``text`` does not have.
    """

    name: str
    text: str
    direct: bool = True
    path: str | None = None
    tree: CodeTree | None = None
    mark: str = ""


class Sources(NamedTuple):
    """The result of reading the inputs: sources in a deterministic order, and diagnostics for unreadable input.

    ``starts``: directories that contain the inputs; None stands for standard input and texts in memory.
    """

    sources: list[Source]
    diagnostics: list[Diagnostic]
    starts: list[str | None]


def collect(
    inputs: Iterable[str | os.PathLike[str] | Source], stdin: BinaryIO | None = None, without: Path | None = None
) -> Sources:
    """Read every input: a :class:`Source`, a file, a directory (recursive, ``*.yaml`` and ``*.yml``, sorted) or ``-``.

    Missing, unreadable, binary and too large files become diagnostics, not exceptions. A file reached twice is read
    once.

    :param without: a directory below an input that is skipped.
    """
    return _Collector(stdin, os.path.realpath(without) if without is not None else None).collect(inputs)


def printable_path(path: str) -> str:
    """Return a path as text for any stream: bytes that are not UTF-8 and control characters are escaped."""
    try:
        path.encode()
    except UnicodeEncodeError:
        with contextlib.suppress(UnicodeEncodeError):
            return visible(os.fsencode(path).decode("utf-8", "backslashreplace"))
    return visible(path)


class _Collector:
    def __init__(self, stdin: BinaryIO | None, without: str | None) -> None:
        self.stdin = stdin
        self.without = without
        self.sources: list[Source] = []
        self.diagnostics: list[Diagnostic] = []
        self.starts: dict[str | None, None] = {}
        self.seen: set[str] = set()

    def collect(self, inputs: Iterable[str | os.PathLike[str] | Source]) -> Sources:
        for item in inputs:
            if isinstance(item, Source):
                self.starts[None] = None
                self._text(item)
            elif os.fspath(item) == "-":
                self.starts[None] = None
                if STDIN not in self.seen:
                    self.seen.add(STDIN)
                    self._standard_input()
            else:
                self._path(os.fspath(item))
        return Sources(self.sources, self.diagnostics, list(self.starts))

    def _standard_input(self) -> None:
        try:
            data = (self.stdin or sys.stdin.buffer).read(MAX_BYTES + 1)
        except OSError as error:
            self.diagnostics.append(_unreadable(STDIN, error))
        else:
            self._bytes(STDIN, data, direct=True)

    def _path(self, path: str) -> None:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            self.diagnostics.append(_unreadable(path, error))
            return
        if stat.S_ISDIR(mode):
            self.starts[os.path.realpath(path)] = None
            self._directory(path)
            return
        # Input from a shell (`<(...)`, /dev/stdin) is in no directory of the user.
        self.starts[os.path.realpath(os.path.dirname(path) or ".") if stat.S_ISREG(mode) else None] = None
        if stat.S_ISSOCK(mode):
            self._not_a_file(path, file_type(mode))
        else:
            self._file(path, direct=True, has_files=stat.S_ISREG(mode))

    def _directory(self, path: str) -> None:
        listing = list_directory(_plain(path), self.without)
        self.diagnostics += [_unreadable(name, error) for name, error in listing.errors]
        for name, reason, hint in listing.unread:
            self._skipped(name, reason, hint)
        if not listing.files and not listing.errors:
            name = printable_path(path)
            message = say("no .yaml or .yml file in directory `{name}`", name=name)
            hint = say("name a file or another directory")
            self.diagnostics.append(Diagnostic(Severity.ERROR, "GPU013", message, _start(name), hint=hint))
        bounds = _bounds(path)
        inside = bounds.rstrip(os.sep) + os.sep
        for file, real in listing.files.items():
            # A link in a repository could show files of the machine that reads it.
            if real.startswith(inside):
                self._file(file, direct=False, real=real)
            elif not os.path.exists(file):
                self._skipped(file, Template("`{name}` is a broken link"), say("fix or remove it"))
            else:
                outside = Template("`{name}` is a link to a file outside of `{directory}`, so it is not read")
                self._skipped(file, outside, say("name it directly"), directory=bounds)

    def _file(self, path: str, *, direct: bool, real: str | None = None, has_files: bool = True) -> None:
        identity = os.path.realpath(path) if real is None else real
        if identity in self.seen:
            return
        self.seen.add(identity)
        try:
            data = read_bytes(path, any_kind=direct)
        except OSError as error:
            self.diagnostics.append(_unreadable(path, error))
        except NotAFile as error:
            if direct:
                self._not_a_file(path, error.type)
            else:
                unread = Template("`{name}` is {type}, so it is not read")
                self._skipped(path, unread, say("name it directly, or remove it"), type=say(error.type))
        else:
            # Below a directory, only paths that start with `./` can be shortened.
            name = printable_path(_plain(path) if direct else path.removeprefix("./"))
            self._bytes(name, data, direct=direct, path=path, has_files=has_files)

    def _bytes(self, name: str, data: bytes, *, direct: bool, path: str | None = None, has_files: bool = True) -> None:
        decoded = decode(name, data)
        if isinstance(decoded, Diagnostic):
            self.diagnostics.append(decoded)
        else:
            tree = DiskTree(path) if path is not None and has_files else None
            mark = "\ufeff" if data.startswith(codecs.BOM_UTF8) else ""
            self.sources.append(Source(name, _without_marks(decoded), direct, path, tree, mark))

    def _text(self, source: Source) -> None:
        """Add a text in memory, under the rules for files."""
        name = printable_path(source.name)
        text = _without_marks(source.text)
        match = re.search(_SURROGATE, text)
        if match is None:
            self.sources.append(source._replace(name=name, text=text))
            return
        lines = lines_of(text[: match.start()])
        span = SourceSpan(name, len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)
        message = say(
            "the text contains {character}, half of a character, which no UTF-8 file can",
            character=f"U+{ord(match[0]):04X}",
        )
        hint = say("decode the text as UTF-8")
        self.diagnostics.append(Diagnostic(Severity.ERROR, "GPU002", message, span, hint=hint))

    def _skipped(self, path: str, problem: Template, hint: Sentence, **values: str) -> None:
        name = printable_path(_plain(path))
        message = say(problem, name=name, **values)
        self.diagnostics.append(
            Diagnostic(Severity.NOTE, "GPU011", message, _start(name), hint=Sentence(printable_path(hint)))
        )

    def _not_a_file(self, path: str, what: Template) -> None:
        name = printable_path(path)
        message = say("`{name}` is {type}, not a file", name=name, type=say(what))
        self.diagnostics.append(
            Diagnostic(Severity.ERROR, "GPU001", message, _start(name), hint=say("name a YAML file"))
        )


_SURROGATE = "[\ud800-\udfff]"
_MARK = "\\A\ufeff|(?<=\n)\ufeff(?=---)|(?<=\n---\n)\ufeff|(?<=\n---\r\n)\ufeff"


def _bounds(directory: str) -> str:
    """Return the directory that links may point into: the enclosing git repository, else the directory itself."""
    return repository_of(os.path.realpath(directory))


def _without_marks(text: str) -> str:
    """Remove byte-order marks wherever a document may start with one: concatenated files have several."""
    return re.sub(_MARK, "", text) if "\ufeff" in text else text


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, split as in YAML: at LF, CRLF and a lone CR."""
    return re.split("\r\n|\n|\r", text) if "\r" in text else text.split("\n")


def decode(name: str, data: bytes) -> str | Diagnostic:
    """Return UTF-8 bytes as text without a byte-order mark, or a diagnostic if they cannot be decoded."""
    if len(data) > MAX_BYTES:
        message = say("the file is larger than {most} MiB", most=MAX_BYTES // 2**20)
        return Diagnostic(Severity.ERROR, "GPU003", message, _start(name), hint=say("split it into several files"))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Diagnostic(
            Severity.ERROR, "GPU002", say("the file is UTF-16, not UTF-8"), _start(name), hint=say("save it as UTF-8")
        )
    try:
        # The codec that handles marks is written in Python and slow, and few files have a mark.
        return data.decode("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8")
    except UnicodeDecodeError as error:
        # With a mark, that codec counts from behind it.
        before = _without_marks(error.object[: error.start].decode("utf-8"))
        lines = lines_of(before)
        line, column = len(lines), len(lines[-1]) + 1
        byte = error.object[error.start]
        message = say("the file contains byte {byte}, which is not UTF-8", byte=f"0x{byte:02x}")
        if b"\0" in data[:8192]:
            message = say("the file contains binary data")
        span = SourceSpan(name, line, column, line, column + 1)
        return Diagnostic(
            Severity.ERROR,
            "GPU002",
            message,
            span,
            hint=say("save it as UTF-8 text"),
        )


def _plain(path: str) -> str:
    """Return a path without redundant parts: ``./a//b/`` is ``a/b``."""
    return str(Path(path))


def _start(name: str) -> SourceSpan:
    return SourceSpan(name, 1, 1, 1, 1)


def _unreadable(path: str, error: OSError | ValueError) -> Diagnostic:
    name = printable_path(path)
    hint = None
    if isinstance(error, ValueError):
        # From os.stat, for a NUL or a character that file names cannot have.
        reason = say("no file has such a name")
    else:
        known = {
            FileNotFoundError: Template("there is no such file or directory"),
            PermissionError: Template("permission denied"),
            NotADirectoryError: Template("a part of the path is not a directory"),
            IsADirectoryError: Template("it is a directory"),
        }.get(type(error))
        said = Sentence(error.strerror.lower()) if error.strerror else say("it cannot be read")
        reason = say(known) if known is not None else said
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        reason, hint = say("it is a link to a file that does not exist"), say("correct the link, or remove it")
    elif isinstance(error, FileNotFoundError):
        hint = _similar_file(path)
    shown = shorten(name, _LONGEST_NAME)
    return Diagnostic(
        Severity.ERROR,
        "GPU001",
        say("cannot read `{name}`: {reason}", name=shown, reason=reason),
        _start(name),
        hint=hint,
    )


def _similar_file(name: str) -> Sentence | None:
    path = Path(name)
    try:
        present = sorted(os.listdir(path.parent))
    except OSError:
        return None
    # Compare stems: by whole names, everything that ends in .yaml would be similar.
    stems = {Path(entry).stem: entry for entry in present}
    close = nearest(path.stem, stems)
    return suggest_name(printable_path(str(path.parent / stems[close]))) if close else None
