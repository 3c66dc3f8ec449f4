"""Read documents at a revision of the git repository, without touching the work tree."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gpuctl.frontend.binder import kind_of
from gpuctl.frontend.code_tree import MOST_LINKS, TreeEntry, without_links
from gpuctl.frontend.diagnostics import Diagnostic, Severity, SourceSpan
from gpuctl.frontend.directory_listing import MAX_BYTES
from gpuctl.frontend.platform_file import PLATFORM_FILE
from gpuctl.frontend.source import SUFFIXES, Source, collect, decode
from gpuctl.frontend.yaml_reader import read
from gpuctl.gitops.build_error import RevisionError
from gpuctl.gitops.directory_state import read_plain
from gpuctl.gitops.manifest import MANIFEST
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say
from gpuctl.objects.hashed_names import LOWERED_FROM

_NO_PLATFORM = "kind: platform\nversion: v0.1\n"
_LINK, _SUBMODULE, _EXECUTABLE = "120000", "160000", "100755"
_LONGEST_TARGET = 4096
"""Length of a link's target, bytes: PATH_MAX of Linux."""
_OF_HOOKS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"})


class Revision(NamedTuple):
    """The sources at a commit.

    :param platform: the platform at the commit; None if it is among the sources.
    :param problems: files that cannot be read.
    :param missing: inputs that do not exist there.
    """

    commit: str
    sources: list[Source]
    platform: Source | None
    problems: list[Diagnostic]
    missing: list[str]


class _Blob(NamedTuple):
    """A file at a commit: its repository (a submodule has its own), its id, and whether it is a symbolic link, or
    executable.
    """

    repository: Path
    id: str
    is_link: bool
    is_executable: bool


def read_revision(reference: str, inputs: Sequence[str], platform: str | None = None) -> Revision:
    """Return the documents below ``inputs`` at a revision; paths that do not exist there have none.

    :raises RevisionError: the repository or revision does not exist, or an input is outside the repository.
    """
    root = _root(inputs[0])
    commit = _commit(root, reference)
    paths = [_inside(root, name) for name in inputs]
    tree = _Tree(root, commit)
    chosen = {path: direct for path in tree.blobs for direct in [_is_chosen(path, paths)] if direct is not None}
    problems: list[Diagnostic] = []
    sources = tree.sources(chosen, problems)
    return Revision(
        commit,
        sources,
        _platform(tree, root, platform, paths, sources, problems),
        problems,
        [name for name, path in zip(inputs, paths, strict=True) if not tree.has(path)],
    )


def rendered_between(
    before: str, after: str | None, inputs: Sequence[str]
) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Return namespace and name of the Jobs and JobSets that `build` wrote, and of those that later builds may keep.

    The first are all those in directories of manifests at ``before``. A build may keep those whose files record what
    they were lowered from and are unchanged at ``after``, or (None) on disk.
    """
    root = _root(inputs[0])
    old = _Tree(root, _commit(root, before)).blobs
    matches = (re.fullmatch(r"(.*/|)([^/]+)/job(?:set)?-([^/]+)\.yaml", path) for path in old)
    rendered = {match[0]: (match[2], match[3]) for match in matches if match and f"{match[1]}{MANIFEST}" in old}
    contents = _contents({old[path] for path in rendered})
    new = _Tree(root, _commit(root, after)).blobs if after is not None else None

    def is_kept(path: str) -> bool:
        data = contents[old[path]]
        if f"/{LOWERED_FROM}: ".encode() not in data:
            return False
        return read_plain(root / path) == data if new is None else new.get(path) == old[path]

    return frozenset(rendered.values()), frozenset(job for path, job in rendered.items() if is_kept(path))


def contents_at(reference: str, directory: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """Return path -> content of the plain files below a directory that exist at a revision.

    :raises RevisionError: the repository or revision does not exist, or the directory is outside the repository.
    """
    root = _root(str(directory))
    commit = _commit(root, reference)
    names = {path: posixpath.normpath(posixpath.join(_inside(root, str(directory)), path)) for path in paths}
    if not names:
        return {}
    tree = _Tree(root, commit).blobs
    found = {path: tree[name] for path, name in names.items() if name in tree and not tree[name].is_link}
    contents = _contents(set(found.values()))
    return {path: contents[blob] for path, blob in found.items()}


class _Tree:
    """The files of a commit, including those of submodules that are checked out."""

    def __init__(self, root: Path, commit: str) -> None:
        self.short = commit[:10]
        self.blobs: dict[str, _Blob] = {}
        self._read(root, commit, "")

    def _read(self, repository: Path, commit: str, prefix: str) -> None:
        for line in _git(repository, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0"):
            head, _, path = line.partition("\t")
            if not path:
                continue
            mode, _, identity = head.split()[:3]
            if mode != _SUBMODULE:
                self.blobs[prefix + path] = _Blob(repository, identity, mode == _LINK, mode == _EXECUTABLE)
            elif (repository / path / ".git").exists():
                # A submodule that is not checked out has no documents on disk either.
                inner = repository / path
                self._read(inner, _commit(inner, identity), f"{prefix}{path}/")

    def has(self, path: str) -> bool:
        """Return True if a file or directory exists at the commit."""
        return path == "." or path in self.blobs or any(name.startswith(f"{path}/") for name in self.blobs)

    @cached_property
    def folders(self) -> dict[str, dict[str, TreeEntry]]:
        """Return directory -> its entries, by name. The root is ""."""
        found: dict[str, dict[str, TreeEntry]] = {"": {}}
        for path, blob in self.blobs.items():
            folder, name = posixpath.split(path)
            found.setdefault(folder, {})[name] = TreeEntry(name, "link" if blob.is_link else "file", blob.is_executable)
            while folder:
                folder, name = posixpath.split(folder)
                found.setdefault(folder, {})[name] = TreeEntry(name, "directory")
        return found

    def platform_above(self, path: str) -> str | None:
        """Return the platform's file at or above a path, or None."""
        folders = [PurePosixPath(path), *PurePosixPath(path).parents]
        candidates = (str(folder / PLATFORM_FILE) for folder in folders)
        return next((candidate for candidate in candidates if candidate in self.blobs), None)

    def sources(self, chosen: dict[str, bool], problems: list[Diagnostic]) -> list[Source]:
        """Return the texts of files, each once, as on disk.

        :param chosen: path -> True if the file itself was named.
        """
        real: dict[str, str] = {}
        seen: set[str | None] = {None}
        for path in sorted(chosen, key=lambda path: (self.blobs[path].is_link, path)):
            target = self._follow(path, problems)
            if target not in seen and target is not None:
                seen.add(target)
                real[path] = target
        sizes = _sizes(self.blobs[target] for target in real.values())
        contents = _contents(blob for blob, size in sizes.items() if size <= MAX_BYTES)
        sources = []
        for path in sorted(real):
            # One more byte than the limit, as of a file on disk.
            text = decode(self._name(path), contents.get(self.blobs[real[path]], bytes(MAX_BYTES + 1)))
            if isinstance(text, str):
                sources.append(Source(self._name(path), text, chosen[path], None, _CommitTree(self, real[path])))
            else:
                problems.append(text)
        return sources

    def _follow(self, path: str, problems: list[Diagnostic]) -> str | None:
        """Return the file that a link leads to, or the file itself; None for a link to a directory."""
        here = path
        for _ in range(MOST_LINKS):
            text = self.target(here)
            if text is None:
                break
            here = posixpath.normpath(posixpath.join(posixpath.dirname(here), text))
        if here in self.blobs and not self.blobs[here].is_link:
            return here
        if here in self.blobs or not self.has(here):
            name = self._name(path)
            message = say("the link `{name}` leads to no file of the repository", name=visible(name))
            hint = say("what it meant at that revision is not known: replace it by the file")
            problems.append(Diagnostic(Severity.ERROR, "GPU001", message, SourceSpan(name, 1, 1, 1, 1), hint=hint))
        return None

    def target(self, path: str) -> str | None:
        """Return the target of a link, "/" if no system has links of its length; None for other paths."""
        blob = self.blobs.get(path)
        if blob is None or not blob.is_link:
            return None
        is_valid = _sizes([blob])[blob] <= _LONGEST_TARGET
        return _contents([blob])[blob].decode("utf-8", "surrogateescape") if is_valid else "/"

    def _name(self, path: str) -> str:
        return f"{path}@{self.short}"


class _CommitTree:
    """The files around a source at a commit."""

    def __init__(self, tree: _Tree, path: str) -> None:
        self._tree = tree
        self.file = path
        self.cache: dict[Any, Any] = {}

    def real_path(self, path: str) -> str | None:
        """Return a path with the targets of its links; None if it leaves the repository."""
        return without_links(path, self._tree.target)

    def entries(self, directory: str) -> list[TreeEntry] | None:
        """Return the entries of a directory; None if the commit has no such directory."""
        found = self._tree.folders.get(directory)
        return None if found is None else list(found.values())

    def sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Return path -> size of files and links, bytes."""
        sizes = _sizes(self._tree.blobs[path] for path in paths)
        return {path: sizes[self._tree.blobs[path]] for path in paths}

    def read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return path -> content of files, and the targets of links."""
        contents = _contents({self._tree.blobs[path] for path in paths})
        return {path: contents[self._tree.blobs[path]] for path in paths}


def _platform(
    tree: _Tree, root: Path, named: str | None, inputs: Sequence[str], sources: list[Source], problems: list[Diagnostic]
) -> Source | None:
    """Return the platform as :func:`gpuctl.compile` finds it: the named one, or the one at or above the inputs.

    Further ones are added to ``sources``, where the compiler compares them. None if it is already among the sources.
    """
    if named is not None:
        if not _is_inside(root, named):
            # A platform outside the repository has no revision here: it applies to both sides.
            return _on_disk(named, problems)
        path = _inside(root, named)
        if path not in tree.blobs and not os.path.exists(named):
            raise RevisionError(f"there is no platform file `{named}`")
        paths = [path] if path in tree.blobs else []
    else:
        paths = sorted({path for path in map(tree.platform_above, inputs) if path is not None})
    read_already = {source.name for source in sources}
    found = [
        source for path in paths for source in tree.sources({path: True}, problems) if source.name not in read_already
    ]
    sources += found[1:]
    if found:
        return found[0]
    return None if any(_holds_platform(source) for source in sources) else Source(PLATFORM_FILE, _NO_PLATFORM)


def _on_disk(name: str, problems: list[Diagnostic]) -> Source:
    found = collect([name])
    problems += found.diagnostics
    return found.sources[0] if found.sources else Source(name, _NO_PLATFORM)


def _holds_platform(source: Source) -> bool:
    return "platform" in source.text and any(kind_of(raw.root)[1] == "platform" for raw in read(source, []))


def _root(name: str) -> Path:
    """Return the root of the repository that contains a path, which may have been deleted."""
    if name == "-":
        raise RevisionError("standard input has no revisions; name files or directories")
    start = Path(os.path.abspath(name))
    while not start.is_dir():
        start = start.parent
    return Path(_git(start, "rev-parse", "--show-toplevel").removesuffix("\n"))


def _git(directory: Path, *arguments: str) -> str:
    return _run(directory, arguments).decode("utf-8", "surrogateescape")


def _run(directory: Path, arguments: Sequence[str], data: bytes | None = None) -> bytes:
    # A git hook sets the variables of its own repository; here the path decides. Messages are parsed, so they have to
    # be in English.
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    environment.update(LC_ALL="C", LANGUAGE="C")
    command = ["git", "-C", str(directory), *arguments]
    try:
        result = subprocess.run(command, input=data, capture_output=True, env=environment)
    except FileNotFoundError:
        raise RevisionError("git is not installed; it is needed to read a revision") from None
    if result.returncode:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {result.returncode}"]
        reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1]).removeprefix("fatal: ")
        owner = re.search(r"dubious ownership in repository at '(.+)'", reason)
        trust = f"git config --global --add safe.directory {shlex.quote(owner[1])}" if owner else ""
        hint = f"; another user owns it: if you trust them, run `{visible(trust)}`" if owner else ""
        raise RevisionError(f"git cannot read the repository of `{visible(str(directory))}`: {visible(reason)}{hint}")
    return result.stdout


def _commit(root: Path, reference: str) -> str:
    if reference.startswith("-"):
        raise RevisionError(f"`{visible(reference)}` is not a revision")
    try:
        found = _git(root, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}").strip()
    except (RevisionError, ValueError):  # ValueError: a NUL, which no argument can contain.
        found = ""
    if not re.fullmatch("[0-9a-f]{40,64}", found):
        hint = "in CI, fetch it first: `git fetch origin REF`, or check out with full history"
        raise RevisionError(f"there is no revision `{visible(reference)}` here; {hint}")
    return found


def _inside(root: Path, name: str) -> str:
    if name == "-":
        raise RevisionError("standard input has no revisions; name files or directories")
    if not _is_inside(root, name):
        raise RevisionError(f"`{visible(name)}` is not in the git repository `{visible(str(root))}`")
    return Path(name).resolve().relative_to(root.resolve()).as_posix()


def _is_inside(root: Path, name: str) -> bool:
    return Path(name).resolve().is_relative_to(root.resolve())


def _is_chosen(path: str, inputs: Sequence[str]) -> bool | None:
    """Return True if an input names the file itself, False for a directory above it, None otherwise.

    In directories, hidden files and other suffixes are left out, as on disk.
    """
    if path in inputs:
        return True
    for folder in inputs:
        rest = path if folder == "." else path.removeprefix(f"{folder}/")
        below = (folder == "." or rest != path) and path.endswith(SUFFIXES)
        if below and not any(part.startswith(".") for part in PurePosixPath(rest).parts):
            return False
    return None


def _sizes(blobs: Iterable[_Blob]) -> dict[_Blob, int]:
    """Return the sizes of files, bytes. Source: git-cat-file(1), batch output."""
    sizes: dict[_Blob, int] = {}
    for repository, wanted in _by_repository(blobs).items():
        listed = "".join(f"{blob.id}\n" for blob in wanted).encode()
        output = _run(repository, ["cat-file", "--batch-check"], listed)
        for blob, line in zip(wanted, output.splitlines(), strict=True):
            words = line.split()
            if len(words) != 3:
                raise _lacks(blob)
            sizes[blob] = int(words[2])
    return sizes


def _lacks(blob: _Blob) -> RevisionError:
    return RevisionError(f"git lacks the file {blob.id}: fetch the repository with its contents")


def _by_repository(blobs: Iterable[_Blob]) -> dict[Path, list[_Blob]]:
    found: dict[Path, list[_Blob]] = {}
    for blob in blobs:
        found.setdefault(blob.repository, []).append(blob)
    return found


def _contents(blobs: Iterable[_Blob]) -> dict[_Blob, bytes]:
    """Return the contents of files. Source: git-cat-file(1), batch output."""
    contents: dict[_Blob, bytes] = {}
    for repository, wanted in _by_repository(blobs).items():
        output = _run(repository, ["cat-file", "--batch"], "".join(f"{blob.id}\n" for blob in wanted).encode())
        position = 0
        for blob in wanted:
            end = output.index(b"\n", position)
            words = output[position:end].split()
            if len(words) != 3:
                raise _lacks(blob)
            size = int(words[2])
            contents[blob] = output[end + 1 : end + 1 + size]
            position = end + 1 + size + 1
    return contents
