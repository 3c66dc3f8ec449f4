"""Sources: named texts, read from files, directories, standard input or memory."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpuctl.frontend.diagnostics import Diagnostic, Severity, Span

STDIN = "<stdin>"
MAX_BYTES = 8 * 2**20
SUFFIXES = (".yaml", ".yml")
PLATFORM_FILE = "platform.yaml"


class Source(NamedTuple):
    """A text with a name for messages.

    ``direct`` tells whether the caller named it: a directory may hold other YAML, which is left alone with a note; a
    file named directly must be ours.
    """

    name: str
    text: str
    direct: bool = True


class Sources(NamedTuple):
    """What was found: readable sources in a deterministic order, and what could not be read."""

    sources: list[Source]
    diagnostics: list[Diagnostic]


def collect(inputs: Iterable[str | os.PathLike[str] | Source], stdin: BinaryIO | None = None) -> Sources:
    """Read every input: a :class:`Source`, a file, a directory (recursive, ``*.yaml`` and ``*.yml``, sorted) or ``-``.

    Nothing is raised for what an input is or contains: missing, unreadable, binary and too large files become
    diagnostics. A file reached twice is read once.
    """
    found = Sources([], [])
    seen: set[str] = set()
    for item in inputs:
        if isinstance(item, Source):
            found.sources.append(item)
        elif os.fspath(item) == "-":
            if STDIN not in seen:
                seen.add(STDIN)
                _add(found, STDIN, (stdin or sys.stdin.buffer).read(MAX_BYTES + 1), direct=True)
        else:
            _collect_path(Path(item), found, seen)
    return found


def _collect_path(path: Path, found: Sources, seen: set[str]) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        found.diagnostics.append(_unreadable(str(path), error))
        return
    if not stat.S_ISDIR(mode):
        _read_file(path, mode, found, seen, direct=True)
        return
    files = _walk(path, found)
    if not files:
        message = f"no .yaml or .yml file in directory `{path}`"
        found.diagnostics.append(
            Diagnostic(Severity.ERROR, "GPU001", message, _start(str(path)), hint="name a file or another directory")
        )
    for file in files:
        try:
            _read_file(file, file.stat().st_mode, found, seen, direct=False)
        except OSError as error:
            found.diagnostics.append(_unreadable(str(file), error))


def _walk(directory: Path, found: Sources) -> list[Path]:
    """YAML files below a directory in the order of their parts; hidden directories are skipped, links not followed."""
    files: list[Path] = []

    def unreadable(error: OSError) -> None:
        found.diagnostics.append(_unreadable(str(error.filename or directory), error))

    for root, directories, names in os.walk(directory, onerror=unreadable):
        directories[:] = [name for name in directories if not name.startswith(".")]
        files += [Path(root, name) for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    return sorted(files, key=lambda file: file.parts)


def _read_file(path: Path, mode: int, found: Sources, seen: set[str], *, direct: bool) -> None:
    name = str(path)
    identity = os.path.realpath(path)
    if identity in seen:
        return
    seen.add(identity)
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        message = f"`{name}` is not a file"
        found.diagnostics.append(Diagnostic(Severity.ERROR, "GPU001", message, _start(name), hint="name a YAML file"))
        return
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        found.diagnostics.append(_unreadable(name, error))
        return
    _add(found, name, data, direct=direct)


def _add(found: Sources, name: str, data: bytes, *, direct: bool) -> None:
    decoded = decode(name, data)
    if isinstance(decoded, Diagnostic):
        found.diagnostics.append(decoded)
    else:
        found.sources.append(Source(name, decoded, direct))


def lines_of(text: str) -> list[str]:
    """The lines of a text, broken where YAML breaks them: LF, CRLF, and a CR alone."""
    return re.split("\r\n|\n|\r", text) if "\r" in text else text.split("\n")


def decode(name: str, data: bytes) -> str | Diagnostic:
    """UTF-8 bytes as text without a byte-order mark, or why they are not."""
    if len(data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 2**20} MiB"
        return Diagnostic(Severity.ERROR, "GPU003", message, _start(name), hint="split it into several files")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Diagnostic(
            Severity.ERROR, "GPU002", "the file is UTF-16, not UTF-8", _start(name), hint="save it as UTF-8"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        lines = lines_of(before)
        line, column = len(lines), len(lines[-1]) + 1
        kind = "binary data" if b"\0" in data[:8192] else f"byte 0x{data[error.start]:02x}, which is not UTF-8"
        span = Span(name, line, column, line, column + 1)
        return Diagnostic(Severity.ERROR, "GPU002", f"the file contains {kind}", span, hint="save it as UTF-8 text")


def _start(name: str) -> Span:
    return Span(name, 1, 1, 1, 1)


def _unreadable(name: str, error: OSError) -> Diagnostic:
    reason = {
        FileNotFoundError: "there is no such file or directory",
        PermissionError: "permission denied",
        NotADirectoryError: "a part of the path is not a directory",
        IsADirectoryError: "it is a directory",
    }.get(type(error), (error.strerror or "it cannot be read").lower())
    hint = None
    if isinstance(error, FileNotFoundError):
        hint = _similar_file(name)
    return Diagnostic(Severity.ERROR, "GPU001", f"cannot read `{name}`: {reason}", _start(name), hint=hint)


def _similar_file(name: str) -> str | None:
    import difflib

    path = Path(name)
    try:
        present = sorted(os.listdir(path.parent))
    except OSError:
        return None
    # By the part that people misspell: by whole names, everything that ends in .yaml is near.
    stems = {Path(entry).stem: entry for entry in present}
    close = difflib.get_close_matches(path.stem, stems, n=1)
    return f"did you mean `{path.parent / stems[close[0]]}`?" if close else None


def find_platform(inputs: Sequence[str | os.PathLike[str] | Source], directory: Path) -> Path | None:
    """``platform.yaml`` at or above the first input, no higher than the git root.

    Standard input and in-memory sources count as ``directory``.
    """
    start = directory
    if inputs and not isinstance(inputs[0], Source) and os.fspath(inputs[0]) != "-":
        first = Path(inputs[0])
        start = first if first.is_dir() else first.parent
    start = Path(os.path.abspath(start))
    chain = [start, *start.parents]
    roots = [index for index, folder in enumerate(chain) if (folder / ".git").exists()]
    for folder in chain[: roots[0] + 1] if roots else chain:
        candidate = folder / PLATFORM_FILE
        if candidate.is_file():
            return candidate
    return None
