"""The identity of a git repository, the same in all its clones: the address of its remote, or its first commit.

The configuration is read here and not by git: a pipeline's container may have no git, or git refuses a directory that
another user owns.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from gpuctl.language.display_text import visible

_SECTION = re.compile(r"\s*\[\s*([\w.-]+)(?:\s+\"((?:[^\"\\]|\\.)*)\")?\s*\]\s*(.*)")
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_SHORT_FORM = re.compile(r"(?:[^@/]*@)?(\[[^\]/]+\]|[^:/\[\]]+):(?!//)(.*)")
_PORT = re.compile(r":\d*\Z")
_COMMIT = re.compile(r"[0-9a-f]{40,64}\Z")
_MOST_BYTES = 2**20
_MOST_SECONDS = 20.0
_LONGEST = 200

_HOSTS = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com",
}
"""SSH hosts of a service -> the service's main host."""


def repository_id(root: Path) -> str | None:
    """Return the identity of a work tree's repository, such as ``github.com/team/jobs``; None if it has none.

    It is the address of the remote ``origin``, or of the only remote, without scheme, user, password and port: SSH and
    HTTPS addresses become equal. Without a remote it is the id of the first commit, which a shallow clone does not
    have.
    """
    folder = _common_folder(root)
    if folder is None:
        return None
    remotes = _remotes(folder / "config")
    url = remotes.get("origin") or (next(iter(remotes.values())) if len(remotes) == 1 else None)
    if url is not None:
        return normalized_address(url, root)
    return None if (folder / "shallow").exists() else _first_commit(root)


class Commit(NamedTuple):
    """The commit that a work tree has checked out. ``dirty``: files of interest differ from it.

    ``repository`` is its :func:`repository_id`.
    """

    id: str
    dirty: bool
    repository: str | None


def commit_of(root: Path, paths: Sequence[Path]) -> Commit | None:
    """Return the checked-out commit, and whether some of its files differ; None without a commit or without git."""
    commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit is None or not _COMMIT.match(commit):
        return None
    # Do not start a monitor that the repository configures, and do not write the index.
    asked = ("-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain", "--ignored")
    changed = _git(root, *asked, "--", *map(str, paths))
    return Commit(commit, changed != "", repository_id(root))


def parse_commit(value: Any) -> Commit | None:
    """Return the commit in the JSON of an annotation or a history entry; None if it is invalid."""
    if not isinstance(value, dict):
        return None
    identity, repository = value.get("id"), value.get("repository")
    if not isinstance(identity, str) or not _COMMIT.match(identity):
        return None
    shown = visible(repository)[:_LONGEST] if isinstance(repository, str) else None
    return Commit(identity, value.get("dirty") is not False, shown)


class Checkout(NamedTuple):
    """A work tree and its checked-out commit."""

    root: Path
    commit: Commit


class CommitOrder(NamedTuple):
    """The order of two commits. ``is_older``: the first is an ancestor of the second. ``unknown``: the reason why git
    cannot decide, "" if it can.
    """

    is_older: bool
    unknown: str = ""


def compare_commits(checkout: Checkout, other: str) -> CommitOrder:
    """Compare the checked-out commit with another of the same repository.

    In a shallow clone git answers no if commits between the two are missing; yes is always correct.
    """
    ours = checkout.commit.id
    if ours == other or _is_ancestor(checkout.root, other, ours):
        return CommitOrder(False)
    if _is_ancestor(checkout.root, ours, other):
        return CommitOrder(True)
    folder = _common_folder(checkout.root)
    if folder is not None and (folder / "shallow").exists():
        return CommitOrder(False, "this clone is shallow, `git fetch --unshallow` completes it")
    is_known = _git(checkout.root, "cat-file", "-e", f"{other}^{{commit}}") is not None
    return CommitOrder(False, "" if is_known else "this clone does not have that commit, `git fetch` gets new ones")


def _is_ancestor(root: Path, commit: str, of: str) -> bool:
    return _git(root, "merge-base", "--is-ancestor", commit, of) is not None


def normalized_address(url: str, root: Path) -> str:
    """Return the address of a repository in one form for all protocols; ``root`` is the base of relative paths.

    A path on this machine gets the machine's name.
    """
    scheme, mark, rest = url.partition("://")
    if mark and scheme.lower() != "file":
        authority, _, path = rest.partition("/")
        host = _PORT.sub("", authority.rpartition("@")[2])
    else:
        short = None if mark else _SHORT_FORM.fullmatch(url)
        if short is None:
            local = os.path.realpath(root / (rest if mark else url))
            return f"{os.uname().nodename}:{local.removesuffix('/.git').removesuffix('.git')}"
        scheme, host, path = "ssh", short[1], short[2]
    host = host.lower().rstrip(".")
    host = _HOSTS.get(host, host)
    path = posixpath.normpath("/" + unquote(re.split("[?#]", path)[0])).lstrip("/").removesuffix(".git")
    if host == "dev.azure.com":
        path = path.removeprefix("v3/").replace("/_git/", "/")
    elif scheme.lower() in ("http", "https") and path.count("/") == 2:
        # Bitbucket Data Center serves PROJECT/REPOSITORY below this path.
        path = path.removeprefix("scm/")
    return f"{host}/{path}"


def _common_folder(root: Path) -> Path | None:
    """Return the directory with a work tree's configuration. Source: gitrepository-layout(5), ``gitdir`` and
    ``commondir``.
    """
    folder = root / ".git"
    if not folder.is_dir():
        line = _read(folder)
        if not line.startswith("gitdir:"):
            return None
        folder = root / line.removeprefix("gitdir:").strip()
    common = _read(folder / "commondir").strip()
    return folder / common if common else folder


def _remotes(config: Path) -> dict[str, str]:
    """Return remote -> fetch address. Source: git-config(1), syntax."""
    remotes: dict[str, str] = {}
    remote = None
    for line in _read(config).split("\n"):
        section = _SECTION.match(line)
        if section is not None:
            remote = section[2] if section[1].lower() == "remote" else None
            line = section[3]
        entry = _ENTRY.match(line)
        if entry is not None and remote is not None and entry[1].lower() == "url":
            url = re.split(r"\s[#;]", entry[2])[0].strip().strip('"')
            if url:
                remotes.setdefault(remote, url)
    return remotes


def _first_commit(root: Path) -> str | None:
    commit = _git(root, "rev-list", "--max-parents=0", "--first-parent", "HEAD", "--")
    return commit if commit is not None and _COMMIT.match(commit) else None


def _git(root: Path, *arguments: str) -> str | None:
    """Return git's output for a work tree; None on failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Do not use a repository around this one.
    environment["GIT_CEILING_DIRECTORIES"] = str(root.parent)
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_MOST_SECONDS)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read(_MOST_BYTES)
    except (OSError, ValueError):
        return ""
