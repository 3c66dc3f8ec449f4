"""``.gpuctl-manifest``: the files of a directory that gpuctl wrote, their hashes, and the sources of the build.

One JSON object per line, sorted by path, so that git merges it line by line. The file has no extension, because kubectl
-R and Argo CD read every ``*.json`` and ``*.yaml``. A path may occur twice: after a merge with conflicts, or while a
build replaces files. Then gpuctl wrote a file with each of the hashes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from gpuctl.frontend.source import lines_of
from gpuctl.gitops.build_error import BuildError, relative_path
from gpuctl.gitops.layout import File, illegal
from gpuctl.gitops.sources import BuildSource
from gpuctl.language.display_text import visible
from gpuctl.language.names import BUILD_MANIFEST

MANIFEST = BUILD_MANIFEST
_VERSION = 1
_HEADER = f"# gpuctl-manifest {_VERSION}: the files that `gpuctl build` wrote here. Do not edit.\n"
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_SOURCE = "# source: "
_CONFLICT = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")

OwnedHashes = dict[str, frozenset[str]]
"""Path -> the possible hashes of its content, unless it was edited."""


def digest(data: bytes) -> str:
    """Return the hash of a file's content for the manifest."""
    return hashlib.sha256(data).hexdigest()


def render_manifest(files: Iterable[File], sources: Iterable[BuildSource] = ()) -> bytes:
    """Return the manifest of files, given in any order, and of their sources."""
    head = "".join(
        f"{_SOURCE}{_ENCODE({key: value for key, value in source._asdict().items() if value is not None})}\n"
        for source in sources
    )
    return (_HEADER + head + "".join(_line(file) for file in sorted(files, key=lambda file: file.path))).encode(
        # A file name that is not UTF-8 contains surrogates; backslashreplace writes them as JSON escapes.
        "utf-8",
        "backslashreplace",
    )


def _line(file: File) -> str:
    entry: dict[str, object] = {"path": file.path, "sha256": digest(file.data)}
    if file.source is not None:
        entry["source"] = file.source
    elif file.object is not None:
        entry["shared"] = True
    return _ENCODE(entry) + "\n"


def parse_manifest(data: bytes, name: str) -> OwnedHashes:
    """Parse a manifest.

    :param name: its path, for messages.
    :raises BuildError: the text is not a manifest, or names a path outside of the directory.
    """
    try:
        lines = lines_of(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise _broken(name, 1, "is not UTF-8") from None
    found: OwnedHashes = {}
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            _check_version(line, name, number)
        elif line.strip() and not line.startswith(_CONFLICT):
            path, value = _entry(line, name, number)
            found[path] = found.get(path, frozenset()) | {value}
    return found


def parse_sources(data: bytes) -> tuple[BuildSource, ...]:
    """Return the sources that a manifest records; damaged lines are skipped."""
    found = set()
    for line in lines_of(data.decode("utf-8", "replace")):
        if not line.startswith(_SOURCE):
            continue
        try:
            entry = json.loads(line.removeprefix(_SOURCE))
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("path"), str):
            others = [entry.get(key) for key in ("repository", "cluster", "profile")]
            found.add(BuildSource(entry["path"], *(value if isinstance(value, str) else None for value in others)))
    return tuple(sorted(found, key=str))


def is_merged(one: bytes, other: bytes) -> bool:
    """Return True if two manifests have the same set of lines, as after a merge."""
    return set(one.split(b"\n")) == set(other.split(b"\n"))


def merge_manifests(old: bytes, new: bytes) -> bytes:
    """Return the new manifest with the files of the old one added."""
    lines = {line for line in lines_of(old.decode("utf-8", "replace")) if not line.startswith(("#", *_CONFLICT))}
    lines |= set(lines_of(new.decode("utf-8", "replace")))
    return "".join(f"{line}\n" for line in sorted(lines) if line).encode()


def _check_version(line: str, name: str, number: int) -> None:
    version = re.match(r"# gpuctl-manifest (\d+)", line)
    if version is not None and int(version[1]) > _VERSION:
        message = f"`{relative_path(name)}`, line {number}, was written by a newer gpuctl: build with that one"
        raise BuildError(message)


def _entry(line: str, name: str, number: int) -> tuple[str, str]:
    try:
        entry = json.loads(line)
    except ValueError:
        raise _broken(name, number, "is not JSON") from None
    path = entry.get("path") if isinstance(entry, dict) else None
    value = entry.get("sha256") if isinstance(entry, dict) else None
    if not isinstance(path, str) or not isinstance(value, str):
        raise _broken(name, number, "has no `path` and `sha256`")
    if illegal(path) is not None:
        raise _broken(name, number, f"names `{visible(path)}`, which `gpuctl build` never writes")
    return path, value


def _broken(name: str, number: int, what: str) -> BuildError:
    return BuildError(
        f"line {number} of `{relative_path(name)}` {what}: restore the file from git; or delete it, with the files "
        "that gpuctl wrote, and build again"
    )
