"""As whom requests are sent: tokens and where they come from, client certificates, impersonation.

Rules: ``k8s.io/client-go`` (``tools/clientcmd/client_config.go``, ``transport/round_trippers.go``): a token's file goes
before the token, both before a credential plugin; a client certificate goes along with either.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from gpuctl.kube.api_errors import ConfigurationError

Headers = tuple[tuple[str, str], ...]
_LARGEST = 1024 * 1024
# RFC 9110's characters of a header's name, without the one that begins an escape.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&'*+-.^_`|~")


class ClientCertificate(NamedTuple):
    """A client certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Credential(NamedTuple):
    """What goes with a request: ``authorization`` is the header's value, "" for none."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


class CredentialSource(Protocol):
    """Where credentials come from. Called by one thread at a time."""

    def current(self) -> Credential:
        """What to send now.

        :raises ConfigurationError: it cannot be had.
        """

    def renew(self, refused: Credential) -> bool:
        """Whether there is something else to send after the server refused this (401)."""


class StaticCredential:
    """Credentials that stay as they are."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def current(self) -> Credential:
        return self._credential

    def renew(self, refused: Credential) -> bool:
        return False


class TokenFileSource:
    """A token in a file that somebody keeps fresh; ``otherwise`` is sent while it cannot be read."""

    def __init__(self, path: str, otherwise: str = "", certificate: ClientCertificate | None = None) -> None:
        self._path = path
        self._token = otherwise
        self._certificate = certificate
        self._read: tuple[int, int, int] | None = None
        if not otherwise:
            self._token = self._load()

    def current(self) -> Credential:
        with contextlib.suppress(ConfigurationError):
            self._token = self._load()
        return Credential(bearer(self._token), self._certificate)

    def renew(self, refused: Credential) -> bool:
        self._read = None
        return self.current() != refused

    def _load(self) -> str:
        try:
            found = os.stat(self._path)
            version = (found.st_ino, found.st_mtime_ns, found.st_size)
            if version == self._read:
                return self._token
            token = read_file(self._path).decode("utf-8", "surrogateescape").strip()
        except OSError as error:
            raise _unreadable(self._path, error) from None
        if not token:
            raise ConfigurationError(f"the token file {self._path} is empty", "log in again")
        self._read = version
        return token


def read_file(path: str) -> bytes:
    """A small file.

    :raises OSError: it cannot be read, or it is no small file.
    """
    with open(path, "rb") as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(27, "File too large", path)
    return data


def _unreadable(path: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"the token file {path} cannot be read: {(error.strerror or str(error)).lower()}",
        "log in again, or check `tokenFile` of the kubeconfig's user",
    )


def bearer(token: str) -> str:
    """A token as the value of Authorization."""
    return f"Bearer {token.strip()}"


def basic(user: str, password: str) -> str:
    """A name and password as the value of Authorization."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def impersonation_headers(
    user: str, uid: str = "", groups: Sequence[str] = (), extra: Mapping[str, Sequence[str]] | None = None
) -> Headers:
    """The headers that ask to act as somebody else (``NewImpersonatingRoundTripper``).

    :raises ConfigurationError: a value that no header can carry.
    """
    if not user:
        if uid or groups or extra:
            raise ConfigurationError(
                "a uid or groups to impersonate are given without a user", "name the user as well, with --as"
            )
        return ()
    headers = [("Impersonate-User", user)]
    if uid:
        headers.append(("Impersonate-Uid", uid))
    headers += [("Impersonate-Group", group) for group in groups]
    for key, values in (extra or {}).items():
        headers += [(f"Impersonate-Extra-{_escaped(key)}", value) for value in values]
    return checked(tuple(headers), "correct the user or groups to impersonate")


def checked(headers: Headers, hint: str) -> Headers:
    """Return the headers.

    :raises ConfigurationError: a value that no header can carry.
    """
    for name, value in headers:
        if any(ord(character) < 32 or ord(character) == 127 for character in value):
            raise ConfigurationError(
                f"what {name} should carry contains a line break or another control character", hint
            )
    return headers


def _escaped(key: str) -> str:
    """``headerKeyEscape``: what a header's name cannot have, as percent and two digits."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in key.encode())
