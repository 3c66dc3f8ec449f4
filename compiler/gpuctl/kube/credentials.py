"""Credentials of requests: tokens and their sources, client certificates, impersonation.

Rules: ``k8s.io/client-go`` (``tools/clientcmd/client_config.go``, ``transport/round_trippers.go``): a token file takes
precedence over a token, and both over a credential plugin; a client certificate is sent with any of them.
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
# Characters of a header name (RFC 9110) without `%`, which begins an escape.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&'*+-.^_`|~")


class ClientCertificate(NamedTuple):
    """A client certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Credential(NamedTuple):
    """The credentials of a request. ``authorization``: the value of the header, "" for none."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


class CredentialSource(Protocol):
    """A source of credentials. Called by one thread at a time."""

    def current(self) -> Credential:
        """Return the credentials to send.

        :raises ConfigurationError: they cannot be obtained.
        """

    def renew(self, refused: Credential) -> bool:
        """Return True if other credentials are available after the server refused these (401)."""


class StaticCredential:
    """A source that always returns the same credentials."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def current(self) -> Credential:
        return self._credential

    def renew(self, refused: Credential) -> bool:
        return False


class TokenFileSource:
    """A token in a file that another process renews; ``otherwise`` is sent while the file cannot be read."""

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
    """Return the content of a file of at most 1 MiB.

    :raises OSError: it cannot be read, or it is larger.
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
    """Return the Authorization header's value for a token."""
    return f"Bearer {token.strip()}"


def basic(user: str, password: str) -> str:
    """Return the Authorization header's value for a user name and password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def impersonation_headers(
    user: str, uid: str = "", groups: Sequence[str] = (), extra: Mapping[str, Sequence[str]] | None = None
) -> Headers:
    """Return the headers that impersonate another user (``NewImpersonatingRoundTripper``).

    :raises ConfigurationError: a value contains characters that a header cannot carry.
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
    """Return the headers unchanged.

    :raises ConfigurationError: a value contains characters that a header cannot carry.
    """
    for name, value in headers:
        if any(ord(character) < 32 or ord(character) == 127 for character in value):
            raise ConfigurationError(f"the value for {name} contains a line break or another control character", hint)
    return headers


def _escaped(key: str) -> str:
    """Percent-encode characters that a header name cannot contain (``headerKeyEscape``)."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in key.encode())
