"""Tokens of the service: 256 random bits, stored as hashes in a private file."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from gpuctl.objects.timestamps import format_timestamp, parse_timestamp
from gpuctl.usecases.atomic_files import write_atomically
from gpuctl_server.access.caller import TokenCaller
from gpuctl_server.access.rights import Rights, Role
from gpuctl_server.request_log import LOG

PREFIX = "gpuctl_"
_BYTES = 32
_LARGEST = 16 * 1024 * 1024
FIRST_NAME = "admin"
"""Name of the token that the first start of a service creates."""
FIRST_LIFETIME = timedelta(days=90)


class DamagedTokens(ValueError):
    """The token file is invalid, or other users may read it; ``str()`` is a message for the user."""


def _legal_time(text: str) -> str:
    try:
        parse_timestamp(text)
    except ValueError:
        raise DamagedTokens("input should be a time in RFC 3339") from None
    return text


class TokenEntry(BaseModel):
    """A stored token: ``digest`` is its SHA-256 in hexadecimal, ``expires`` is RFC 3339 in UTC or None."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str
    digest: str = Field(alias="sha256", pattern=r"^[0-9a-f]{64}$")
    role: Role
    namespaces: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None
    created: str = ""
    expires: Annotated[str, AfterValidator(_legal_time)] | None = None

    def is_expired(self, now: datetime) -> bool:
        return self.expires is not None and parse_timestamp(self.expires) <= now

    def caller(self, own: frozenset[str] = frozenset()) -> TokenCaller:
        """Return the caller that the token stands for.

        :param own: the namespaces of the service itself.
        """
        rights = Rights(self.role, _set(self.namespaces), _set(self.pools), own)
        return TokenCaller(self.name, rights, self.namespaces[0] if self.namespaces else None)


class _TokenFile(BaseModel):
    """The content of a token file."""

    tokens: list[TokenEntry]


def new_token(
    name: str,
    role: Role,
    *,
    namespaces: Iterable[str] | None = None,
    pools: Iterable[str] | None = None,
    lasts: timedelta | None = None,
) -> tuple[str, TokenEntry]:
    """Return a new token, and the entry to store."""
    token = PREFIX + secrets.token_urlsafe(_BYTES)
    now = datetime.now(timezone.utc)
    expires = None if lasts is None else format_timestamp(now + lasts)
    return token, TokenEntry(
        name=name,
        digest=digest_of(token),
        role=role,
        namespaces=None if namespaces is None else tuple(namespaces),
        pools=None if pools is None else tuple(pools),
        created=format_timestamp(now),
        expires=expires,
    )


def bearer(header: str) -> str:
    """Return the token of an Authorization header; "" without one."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def digest_of(token: str) -> str:
    """Return the hash under which a token is stored. The token is random, so that a plain hash cannot be reversed."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens(path: Path) -> list[TokenEntry]:
    """Return the entries of a token file.

    :raises DamagedTokens: the file is not a valid token file, or other users may read it.
    :raises FileNotFoundError: the file does not exist.
    """
    # O_NONBLOCK: opening a pipe must not wait for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        _require_private(path, os.fstat(file.fileno()))
        try:
            return _TokenFile.model_validate_json(file.read()).tokens
        except ValidationError as error:
            raise DamagedTokens(_problem(path, error.errors()[0])) from None


def _problem(path: Path, error: ErrorDetails) -> str:
    """Return what is wrong with a token file, with the field of an invalid entry."""
    text = str(error.get("ctx", {}).get("error") or error["msg"])
    message = f"{text[:1].lower()}{text[1:]}"
    _, *entry = error["loc"] or ("tokens",)
    if error["type"] == "json_invalid":
        return f"{path} is not valid JSON: {message}"
    if not entry:
        return f"{path} has no list `tokens`"
    number, *field = entry
    return f"tokens[{number}] of {path} is invalid: {'.'.join(map(str, field)) or 'the entry'}: {message}"


def _require_private(path: Path, status: os.stat_result) -> None:
    """Check that other users can neither read nor write the file, and its group cannot write it.

    :raises DamagedTokens: they can, or it is not a regular file.
    """
    if not stat.S_ISREG(status.st_mode):
        raise DamagedTokens(f"{path} is not a regular file")
    if status.st_size > _LARGEST:
        raise DamagedTokens(f"{path} is larger than {_LARGEST // 2**20} MiB")
    # A Secret that Kubernetes mounts is owned by root, and readable for the group of the pod.
    if status.st_uid not in (0, os.geteuid()):
        raise DamagedTokens(f"{path} is owned by another user (uid {status.st_uid}), who could add tokens")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o027:
        who = "all users" if mode & 0o007 else "its group"
        what = "read" if mode & 0o005 else "written"
        raise DamagedTokens(f"{path} may be {what} by {who} (mode {mode:04o}): `chmod 600 {path}`")


def write_tokens(path: Path, entries: Iterable[TokenEntry]) -> None:
    """Replace a token file. Only its owner can read the new one."""
    text = _TokenFile(tokens=list(entries)).model_dump_json(by_alias=True, exclude_none=True, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text + "\n")


def create_first_token(path: Path) -> Path:
    """Write a token file with one token, which may do everything, and return the file with the token itself.

    Only the owner can read both files.
    """
    token, entry = new_token(FIRST_NAME, "admin", lasts=FIRST_LIFETIME)
    write_tokens(path, [entry])
    first = path.with_name(f"{FIRST_NAME}-token")
    write_atomically(first, token + "\n")
    return first


class ServiceTokenFile:
    """The tokens of a file, read again when it has changed. If the file becomes invalid, the last valid content is
    kept.

    ``own`` are the namespaces of the service itself.
    """

    def __init__(self, path: Path, own: Iterable[str] = ()) -> None:
        self.path = path
        self._own = frozenset(own)
        self.problem: str | None = None
        self._lock = threading.Lock()
        self._state: tuple[int, ...] | None = None
        self._entries: list[TokenEntry] = []
        self._read(strict=True)

    def caller(self, token: str) -> TokenCaller | None:
        """Return the caller of a token. All entries are compared, each in constant time."""
        self._read()
        digest, now = digest_of(token), datetime.now(timezone.utc)
        found = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        return None if found is None or found.is_expired(now) else found.caller(self._own)

    def check(self) -> str | None:
        """Return why the file cannot be read, or None. Until it can be read again, the last valid content is used."""
        self._read()
        return self.problem

    def _read(self, *, strict: bool = False) -> None:
        try:
            status = self.path.stat()
            # The change time is included because chmod does not alter the modification time.
            state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            if state == self._state:
                self.problem = None
                return
            with self._lock:
                self._entries = read_tokens(self.path)
                self._state, self.problem = state, None
        except (OSError, DamagedTokens) as error:
            if strict:
                raise
            if self.problem != str(error):
                self.problem = str(error)
                LOG.error("the token file cannot be read; the tokens read before stay valid: %s", error)


def _set(values: Iterable[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)
