"""Tokens of the service: 256 random bits, stored as hashes in a file that only its owner may read."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from gpuctl.objects.timestamps import format_timestamp, parse_timestamp
from gpuctl.usecases.atomic_files import write_atomically
from gpuctl_server.access.caller import TokenCaller
from gpuctl_server.access.rights import ROLES, Rights, Role
from gpuctl_server.request_log import LOG

PREFIX = "gpuctl_"
_BYTES = 32
_LARGEST = 16 * 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")
FIRST_NAME = "admin"
"""Name of the token that the first start of a service creates."""
FIRST_LIFETIME = timedelta(days=90)


class DamagedTokens(ValueError):
    """The token file is invalid, or other users may read it; ``str()`` is a message for the user."""


@dataclass(frozen=True)
class TokenEntry:
    """A stored token: ``digest`` is its SHA-256 in hexadecimal, ``expires`` is RFC 3339 in UTC or None."""

    name: str
    digest: str
    role: Role
    namespaces: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None
    created: str = ""
    expires: str | None = None

    def is_expired(self, now: datetime) -> bool:
        return self.expires is not None and parse_timestamp(self.expires) <= now

    def caller(self, own: frozenset[str] = frozenset()) -> TokenCaller:
        """Return the caller that the token stands for.

        :param own: the namespaces of the service itself.
        """
        rights = Rights(self.role, _set(self.namespaces), _set(self.pools), own)
        return TokenCaller(self.name, rights, self.namespaces[0] if self.namespaces else None)


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
    entry = TokenEntry(name, digest_of(token), role, _tuple(namespaces), _tuple(pools), format_timestamp(now), expires)
    return token, entry


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
    with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        _require_private(path, os.fstat(file.fileno()))
        try:
            value = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise DamagedTokens(f"{path} is not valid JSON: {error}") from None
    listed = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise DamagedTokens(f"{path} has no list `tokens`")
    return [_entry(item, f"tokens[{number}] of {path}") for number, item in enumerate(listed)]


def _require_private(path: Path, status: os.stat_result) -> None:
    """Check that other users can neither read nor write the file.

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
    value = {"tokens": [_value(entry) for entry in entries]}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(value, indent=1) + "\n")


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


def _entry(value: Any, where: str) -> TokenEntry:
    try:
        entry = TokenEntry(
            str(value["name"]),
            str(value["sha256"]),
            value["role"],
            _names(value.get("namespaces")),
            _names(value.get("pools")),
            str(value.get("created") or ""),
            value.get("expires"),
        )
        entry.is_expired(datetime.now(timezone.utc))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedTokens(f"{where} is invalid: it needs name, sha256 and role, and times in RFC 3339") from None
    if entry.role not in ROLES or not _DIGEST.fullmatch(entry.digest):
        raise DamagedTokens(f"{where} is invalid: its role must be one of {', '.join(ROLES)}, sha256 64 digits")
    return entry


def _value(entry: TokenEntry) -> dict[str, Any]:
    value = {
        "name": entry.name,
        "sha256": entry.digest,
        "role": entry.role,
        "namespaces": entry.namespaces,
        "pools": entry.pools,
        "created": entry.created,
        "expires": entry.expires,
    }
    return {key: item for key, item in value.items() if item is not None}


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("not a list of names")
    return tuple(value)


def _tuple(values: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _set(values: Iterable[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)
