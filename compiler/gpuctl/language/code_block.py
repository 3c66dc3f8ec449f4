"""The ``code:`` block: source code for the program, without an image of its own."""

import re
from typing import Annotated

from pydantic import Field, model_validator

from gpuctl.language.display_text import shorten
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import Exclusion
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Boolean, Check, NonEmpty, ObjectName, Scalar
from gpuctl.language.path_fields import RelativePath
from gpuctl.language.sentences import Template, say

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
        message = say("the address of the repository contains a login")
        raise field_error("GPU237", message, say("write the address without it, and name a Secret with `code.secret`"))
    if re.fullmatch(GIT_URL, value) is None:
        message = say("`{value}` is not a repository that git can clone over https or ssh", value=shorten(value))
        raise field_error("GPU237", message, say("write `https://HOST/PATH.git` or `git@HOST:PATH.git`"))
    return value


def _git_ref(value: str) -> str:
    if re.fullmatch("[0-9a-f]{7,39}", value):
        # Servers send a commit only for its whole name.
        message = say("`{value}` looks like a shortened commit, which git servers do not know", value=value)
        hint = say(
            "write all digits, which `git rev-parse {value}` prints; for a branch of this name `refs/heads/{value}`",
            value=value,
        )
        raise field_error("GPU238", message, hint)
    if len(value) > 250 or re.fullmatch(GIT_REF, value) is None:
        message = say("`{value}` is not a commit, branch or tag", value=shorten(value))
        raise field_error("GPU238", message, say("write a commit, which `git rev-parse HEAD` prints"))
    return value


def _printable(value: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise field_error("GPU210", say("the path contains a control character"))
    return value


GitUrl = Annotated[str, Scalar.TEXT, Check(_git_url, "address of a git repository")]
GitRef = Annotated[str, Scalar.TEXT, Check(_git_ref, "commit, branch or tag")]
CodePath = Annotated[RelativePath, Check(_printable, "relative path")]


def _local_path(value: str) -> str:
    if value.startswith(("/", "~")) or "\\" in value:
        message = say("`{value}` is not a path relative to this file", value=shorten(value))
        raise field_error("GPU210", message, say("write a directory of the repository, such as `./src`"))
    return _printable(value)


def _sha256(value: str) -> str:
    if re.fullmatch("[0-9a-f]{64}", value) is None:
        raise field_error(
            "GPU210", say("`{value}` is not a SHA-256: 64 digits and letters a to f", value=shorten(value))
        )
    return value


LocalPath = Annotated[NonEmpty, Check(_local_path, "path relative to this file")]
Sha256 = Annotated[str, Scalar.TEXT, Check(_sha256, "SHA-256 of 64 digits")]


_ONE_SOURCE = Template("code has both {first} and {second}")


class Code(Block):
    """Source code at `/code` in all containers, where the program starts unless `environment.workdir` is set."""

    exclusions = (
        Exclusion("local", ("git", "ref", "secret", "submodules"), _ONE_SOURCE),
        Exclusion("git", ("local", "sha256"), _ONE_SOURCE),
    )

    local: LocalPath | None = Field(
        None,
        description="Directory of the repository, relative to this file. Its files, without those that `.gitignore` "
        "names, are packed into a ConfigMap: at most 900 KiB.",
        examples=["./src"],
    )
    sha256: Sha256 | None = Field(
        None,
        description="Hash of the packed files of `local`. gpuctl adds it to the documents that it stores, which have "
        "no files beside them: the ConfigMap must then exist.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    )
    git: GitUrl | None = Field(
        None,
        description="Address of a git repository. Before the program starts, an init container fetches the commit. "
        "Files of Git LFS are not fetched: the program finds pointers in their place. Put large files into `storage`.",
        examples=["https://git.example.com/nlp/train.git"],
    )
    ref: GitRef | None = Field(
        None,
        description="Commit to fetch, with all its digits. A branch or tag works too, with a warning: every start of a "
        "pod may get other code.",
        examples=["5f1c0a4b7de2938161b0e3a7c5d2f49e8b6a0c13"],
    )
    path: CodePath | None = Field(
        None,
        description="Directory of the repository where the program starts. Default: its root.",
        examples=["training"],
    )
    submodules: Boolean = Field(
        False,
        description="Fetch the submodules of the repository too, and theirs, at the commits that it names. The login "
        "is for submodules on the same host.",
        examples=[True],
    )
    secret: ObjectName | None = Field(
        None,
        description="Secret in the job's namespace with the login for a private repository. `https`: the keys "
        "`username` and `password` (a token). `ssh`: the keys `ssh-privatekey` and `known_hosts`. Default: the "
        "platform's `code.secrets` for the host.",
        examples=["git-login"],
    )

    @model_validator(mode="after")
    def _one_source(self) -> "Code":
        if self.git is None and self.local is None:
            raise field_error("GPU201", say("the code has neither `git` nor `local`"), say("add one of them"), ("git",))
        refuse_exclusions(self)
        if self.git is not None and self.ref is None:
            raise field_error(
                "GPU201",
                say("missing required field `{name}` in {block}", name="ref", block="code"),
                say("add `{name}:`", name="ref"),
                ("ref",),
            )
        return self

    @model_validator(mode="after")
    def _protected_login(self) -> "Code":
        if self.secret is not None and self.git is not None and self.git.startswith("http://"):
            message = say("`http` would send the login in clear text")
            raise field_error("GPU213", message, say("write `https://`"), ("git",))
        return self

    @property
    def directory(self) -> str:
        """Directory in the container where the program starts."""
        return code_directory(self.path)

    @property
    def is_commit(self) -> bool:
        """True if the code is the same at every start."""
        return self.ref is None or re.fullmatch(_COMMIT, self.ref) is not None

    @property
    def host(self) -> str:
        """Host of the repository, without user and port."""
        return git_host(self.git or "")

    @property
    def uses_ssh(self) -> bool:
        """True if git connects by ssh."""
        return self.git is not None and not self.git.startswith(("http://", "https://"))


def git_host(url: str) -> str:
    """Return the host of a repository's address, without user and port."""
    rest = url.partition("://")[2] or url
    return re.split("[:/]", rest.rpartition("@")[2], maxsplit=1)[0]


def code_directory(path: str | None) -> str:
    """Return the directory in the container for a directory of the code."""
    return "/".join([CODE_DIRECTORY, *(part for part in (path or "").split("/") if part not in ("", "."))])
