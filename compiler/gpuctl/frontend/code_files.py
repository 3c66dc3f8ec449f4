"""The files of ``code.local``: those of a directory that git does not ignore."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from gpuctl.frontend.code_problem import CodeProblem
from gpuctl.frontend.code_tree import CodeTree, TreeEntry
from gpuctl.language.display_text import shorten, visible
from gpuctl.language.names import BUILD_MANIFEST
from gpuctl.language.sentences import Sentence, say

MAX_PACKED = 900 * 1024
"""Size of the largest archive, bytes. A ConfigMap holds 1 MiB, and an object of the API server 1.5 MiB in base64."""
_MOST_BYTES = 64 * 2**20
"""Bytes of files that are packed at all: more than that never fits."""
_MOST_FILES = 10_000
"""Files that are listed at all: the names of more never fit."""
_LONGEST_RULES = 2**20
_LARGEST = 5
_IGNORE = ".gitignore"
_NOT_CODE = frozenset({".git", ".hg", ".svn", ".tox", ".venv", ".terraform", "node_modules", "__pycache__"})
_NOT_CODE |= {".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".DS_Store"}
_SECRET = re.compile(
    r"(?i)(?:.*/)?(?:\.env(?:\.(?!example\Z|sample\Z|template\Z)[^/]*)?|[^/]*\.(?:pem|key|p12|pfx|jks)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|\.git-credentials|\.pypirc|\.npmrc|kubeconfig|credentials(?:\.json)?"
    r"|application_default_credentials\.json|\.kube/config|\.docker/config\.json|\.dockercfg)"
)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class CodeFile(NamedTuple):
    """A file or link to pack: its path in the directory, its entry, and its content or target.

    ``size``: bytes, also before the content is read.
    """

    path: str
    entry: TreeEntry
    size: int
    data: bytes = b""


def code_files(tree: CodeTree, local: str) -> list[CodeFile]:
    """Return the files and links to pack, by path, with their contents.

    :param local: path of the directory, relative to the source.
    :raises CodeProblem: there are too many, or one may not be packed.
    :raises OSError: one cannot be read.
    """
    directory = posixpath.normpath(posixpath.join(posixpath.dirname(tree.file), local))
    directory = "" if directory == "." else directory
    hint = say("name a directory of the repository; the path is relative to this file")
    if directory.split("/")[0] == "..":
        raise CodeProblem("GPU236", say("`{local}` is outside of the repository of this file", local=local), hint)
    real = tree.real_path(directory)
    if real is None or tree.entries(real) is None:
        raise CodeProblem("GPU236", say("there is no directory `{local}` beside this file", local=local), hint)
    # The rules of git are about paths without links.
    directory = real
    if ".git" in directory.lower().split("/"):
        message = say(
            "`{local}` is a directory of git itself, whose configuration may contain credentials", local=local
        )
        raise CodeProblem("GPU236", message, say("name the directory with the code"))
    start = len(directory) + 1 if directory else 0
    walked = ((path[start:], entry) for path, entry in _Walk(tree, directory).files() if path != tree.file)
    found = dict(islice(walked, _MOST_FILES + 1))
    sizes = tree.sizes([posixpath.join(directory, path) for path in found])
    unread = [CodeFile(path, entry, sizes[posixpath.join(directory, path)]) for path, entry in found.items()]
    total = sum(file.size for file in unread)
    if len(found) > _MOST_FILES:
        raise too_much_code(local, say("more than {number} files", number=f"{_MOST_FILES:,}"), unread, some=True)
    if total > _MOST_BYTES:
        raise too_much_code(
            local, say("{size} in {number} files", size=size_text(total), number=f"{len(found):,}"), unread
        )
    for path in sorted(found):
        _check(local, path, found[path])
    contents = tree.read_all([posixpath.join(directory, path) for path in found])
    read = ((path, found[path], contents[posixpath.join(directory, path)]) for path in sorted(found))
    files = [CodeFile(path, entry, len(data), data) for path, entry, data in read]
    for file in files:
        if file.entry.kind == "link":
            _check_link(local, file.path, file.data)
    return files


class _Walk:
    """Lists the files below a directory that git does not ignore. Nested rules come first, as in git."""

    def __init__(self, tree: CodeTree, directory: str) -> None:
        self._tree = tree
        self._directory = directory

    def files(self) -> Iterator[tuple[str, TreeEntry]]:
        """Yield path and entry of each file, link and other entry, by path from the root."""
        around = [""]
        for part in self._directory.split("/") if self._directory else ():
            around.append(posixpath.join(around[-1], part))
        rules: list[tuple[str, GitIgnoreSpec]] = []
        for folder in around[:-1]:
            rules = self._with_rules(folder, self._tree.entries(folder) or [], rules)
        pending = [(self._directory, rules)]
        while pending:
            folder, rules = pending.pop()
            entries = self._tree.entries(folder) or []
            if folder != self._directory and any(entry.name == BUILD_MANIFEST for entry in entries):
                # The output of `build`, which contains the archive.
                continue
            rules = self._with_rules(folder, entries, rules)
            for entry in entries:
                path = posixpath.join(folder, entry.name)
                if entry.name in _NOT_CODE or _is_ignored(path, entry, rules):
                    continue
                if entry.kind == "directory":
                    pending.append((path, rules))
                else:
                    yield path, entry

    def _with_rules(
        self, folder: str, entries: Sequence[TreeEntry], rules: list[tuple[str, GitIgnoreSpec]]
    ) -> list[tuple[str, GitIgnoreSpec]]:
        if not any(entry.name == _IGNORE and entry.kind == "file" for entry in entries):
            return rules
        path = posixpath.join(folder, _IGNORE)
        if (size := self._tree.sizes([path])[path]) > _LONGEST_RULES:
            message = say("`{path}` has {size}, which is too large for patterns", path=path, size=size_text(size))
            raise CodeProblem("GPU236", message, say("remove the lines that are not patterns"))
        text = self._tree.read_all([path])[path].decode("utf-8", "surrogateescape")
        try:
            return [(folder, GitIgnoreSpec.from_lines(text.splitlines())), *rules]
        except ValueError as error:
            message = say("`{path}` has a pattern that git ignores: {reason}", path=path, reason=visible(str(error)))
            raise CodeProblem("GPU236", message, say("correct or remove the line")) from None


def _is_ignored(path: str, entry: TreeEntry, rules: Sequence[tuple[str, GitIgnoreSpec]]) -> bool:
    for folder, spec in rules:
        inside = path[len(folder) + 1 :] if folder else path
        found = spec.check_file(inside + ("/" if entry.kind == "directory" else "")).include
        if found is not None:
            return found
    return False


def _check(local: str, path: str, entry: TreeEntry) -> None:
    shown = visible(shorten(posixpath.join(local, path)))
    if _UNPRINTABLE.search(path):
        raise CodeProblem("GPU236", say("`{shown}` is not a name in UTF-8", shown=shown), say("rename the file"))
    if entry.kind == "other":
        message = say("`{shown}` is neither a file nor a directory", shown=shown)
        raise CodeProblem("GPU236", message, say("remove it, or {ignore}", ignore=_to_ignore(local, path)))
    if _SECRET.fullmatch(posixpath.join(local, path)):
        message = say(
            "`{shown}` looks like a file with credentials: every reader of the ConfigMap could read it", shown=shown
        )
        hint = say("{ignore}, and give the program its credentials from a Secret", ignore=_to_ignore(local, path))
        raise CodeProblem("GPU239", message, hint)


def _to_ignore(local: str, path: str) -> Sentence:
    """Return the advice to ignore a file, with a pattern that matches only it."""
    line = re.sub(r"([\\*?\[\]]|\s\Z)", r"\\\1", path)
    return say("add the line `/{line}` to `{file}`", line=line, file=posixpath.join(local, _IGNORE))


def _check_link(local: str, path: str, data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
    if text.startswith("/") or target.split("/")[0] == "..":
        message = say(
            "`{path}` is a link to `{target}`, outside of the directory",
            path=posixpath.join(local, path),
            target=visible(shorten(text)),
        )
        raise CodeProblem(
            "GPU236", message, say("replace the link by the file, or {ignore}", ignore=_to_ignore(local, path))
        )


def too_much_code(local: str, size: Sentence, files: Sequence[CodeFile], *, some: bool = False) -> CodeProblem:
    """Return the problem of too much code, with its largest files; ``some``: not all were looked at."""
    largest = sorted(files, key=lambda file: (-file.size, file.path))[:_LARGEST]
    named = [say("{file} ({size})", file=visible(shorten(file.path)), size=size_text(file.size)) for file in largest]
    values = {"local": local, "size": size, "most": size_text(MAX_PACKED), "files": named}
    message = say("`{local}` has {size}; an archive holds {most}. The largest files: {files}", **values)
    if some:
        message = say("`{local}` has {size}; an archive holds {most}. Some of the largest: {files}", **values)
    return CodeProblem(
        "GPU432",
        message,
        say(
            "add data to `.gitignore` and mount it with `storage`, or fetch the code with `code: {{git: URL, "
            "ref: COMMIT}}`"
        ),
    )


def size_text(number: int) -> str:
    """Return a number of bytes as text, in KiB or MiB."""
    return f"{number / 1024:,.0f} KiB" if number < 2**20 else f"{number / 2**20:,.1f} MiB"
