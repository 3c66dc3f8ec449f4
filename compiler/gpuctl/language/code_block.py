"""The ``code:`` block: source code for the program, without an image of its own."""

import re
from typing import Annotated

from pydantic import Field, model_validator

from gpuctl.language.display_text import shorten
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Check, ObjectName, RelativePath, Scalar

CODE_DIRECTORY = "/code"
"""Directory of the code in all containers of the pod."""

_PATH = r"[A-Za-z0-9_.~/%+-]"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_URL = rf"(?:https?://{_HOST}(?::[0-9]{{1,5}})?|ssh://(?:[A-Za-z0-9_.-]+@)?{_HOST}(?::[0-9]{{1,5}})?)/{_PATH}+"
_SCP = rf"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?{_HOST}:(?!/)(?!-){_PATH}+"
GIT_URL = rf"(?:{_URL}|{_SCP})"
"""Matches a repository: `https://`, `http://` or `ssh://` without a password, or `git@HOST:PATH`."""
GIT_REF = r"(?!.*(?:\.\.|//|/\.|\.lock(?:/|\Z)|[./]\Z))[A-Za-z0-9_][A-Za-z0-9_./+-]*"
"""Matches a commit, branch or tag: letters, digits and `_./+-`, by the rules of git-check-ref-format."""
_COMMIT = "(?:[0-9a-f]{40}|[0-9a-f]{64})"
_CREDENTIALS = r"(?i)(?:https?://[^/]*|ssh://[^/@]*:[^/]*)@"


def _git_url(value: str) -> str:
    if re.match(_CREDENTIALS, value):
        message = "the address of the repository contains a login"
        raise field_error("GPU237", message, "write the address without it, and name a Secret with `code.secret`")
    if re.fullmatch(GIT_URL, value) is None:
        message = f"`{shorten(value)}` is not a repository that git can clone over https or ssh"
        raise field_error("GPU237", message, "write `https://HOST/PATH.git` or `git@HOST:PATH.git`")
    return value


def _git_ref(value: str) -> str:
    if re.fullmatch("[0-9a-f]{7,39}", value):
        # Servers send a commit only for its whole name.
        message = f"`{value}` looks like a shortened commit, which git servers do not know"
        hint = f"write all digits, which `git rev-parse {value}` prints; for a branch of this name `refs/heads/{value}`"
        raise field_error("GPU238", message, hint)
    if len(value) > 250 or re.fullmatch(GIT_REF, value) is None:
        message = f"`{shorten(value)}` is not a commit, branch or tag"
        raise field_error("GPU238", message, "write a commit, which `git rev-parse HEAD` prints")
    return value


def _printable(value: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise field_error("GPU210", "the path contains a control character")
    return value


GitUrl = Annotated[str, Scalar.TEXT, Check(_git_url)]
GitRef = Annotated[str, Scalar.TEXT, Check(_git_ref)]
CodePath = Annotated[RelativePath, Check(_printable)]


class Code(Block):
    """Source code at `/code` in all containers, where the program starts unless `environment.workdir` is set."""

    git: GitUrl = Field(
        description="Address of a git repository. Before the program starts, an init container fetches the commit. "
        "Submodules and Git LFS files are not fetched.",
        examples=["https://git.example.com/nlp/train.git"],
    )
    ref: GitRef = Field(
        description="Commit to fetch, with all its digits. A branch or tag works too, with a warning: every start of a "
        "pod may get other code.",
        examples=["5f1c0a4b7de2938161b0e3a7c5d2f49e8b6a0c13"],
    )
    path: CodePath | None = Field(
        None,
        description="Directory of the repository where the program starts. Default: its root.",
        examples=["training"],
    )
    secret: ObjectName | None = Field(
        None,
        description="Secret in the job's namespace with the login for a private repository. `https`: the keys "
        "`username` and `password` (a token). `ssh`: the keys `ssh-privatekey` and `known_hosts`. Default: the "
        "platform's `code.secrets` for the host.",
        examples=["git-login"],
    )

    @model_validator(mode="after")
    def _protected_login(self) -> "Code":
        if self.secret is not None and self.git.startswith("http://"):
            message = "`http` would send the login in clear text"
            raise field_error("GPU213", message, "write `https://`", ("git",))
        return self

    @property
    def directory(self) -> str:
        """Directory in the container where the program starts."""
        return code_directory(self.path)

    @property
    def is_commit(self) -> bool:
        """True if the code is the same at every start."""
        return re.fullmatch(_COMMIT, self.ref) is not None

    @property
    def host(self) -> str:
        """Host of the repository, without user and port."""
        return git_host(self.git)

    @property
    def uses_ssh(self) -> bool:
        """True if git connects by ssh."""
        return not self.git.startswith(("http://", "https://"))


def git_host(url: str) -> str:
    """Return the host of a repository's address, without user and port."""
    rest = url.partition("://")[2] or url
    return re.split("[:/]", rest.rpartition("@")[2], maxsplit=1)[0]


def code_directory(path: str | None) -> str:
    """Return the directory in the container for a directory of the code."""
    return "/".join([CODE_DIRECTORY, *(part for part in (path or "").split("/") if part not in ("", "."))])
