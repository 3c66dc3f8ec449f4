"""Logins to services, stored in ``$XDG_CONFIG_HOME/gpuctl/servers.json`` with mode 0600."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.language.display_text import visible
from gpuctl.language.ip_addresses import is_loopback
from gpuctl.usecases.atomic_files import write_atomically

_PORTS = {"http": 80, "https": 443}


class SavedLogin(NamedTuple):
    """A service and its token.

    :param authority: PEM file of certificates to trust; "" for the system's.
    :param plain: the user allowed http:// for this address.
    """

    url: str
    token: str
    authority: str = ""
    plain: bool = False


def server_url(text: str, *, plain: bool = False) -> str:
    """Return the normalized address of a service: scheme, host, port and path prefix. Tokens are stored by it.

    :param plain: allow http:// for hosts other than this machine.
    :raises ConfigurationError: the text is not the address of a service.
    """
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    shown = visible(text.rpartition("@")[2])[:200]
    if not host or parts.scheme not in _PORTS or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError(f"`{shown}` is not the address of a service", "as in https://gpuctl.example.com")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(
            f"the address of a service has no user, `?` or `#`: {shown}", "the token is asked for by `gpuctl login`"
        )
    if parts.scheme == "http" and not is_loopback(host) and not plain:
        raise ConfigurationError(
            f"{shown} would be sent the token without encryption",
            "use https://, or say --insecure-plain-http at `gpuctl login`",
        )
    name = f"[{host}]" if ":" in host else host
    where = name if port in (None, _PORTS[parts.scheme]) else f"{name}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/').removesuffix('/api/v1').rstrip('/')}"


def logins_file() -> Path:
    """Return the path of the file."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    directory = Path(base) if os.path.isabs(base) else Path.home() / ".config"
    return directory / "gpuctl" / "servers.json"


class SavedLogins(NamedTuple):
    """All stored logins. ``current`` is the address that commands use; "" for none."""

    current: str = ""
    servers: tuple[SavedLogin, ...] = ()

    def find(self, url: str) -> SavedLogin | None:
        """Return the login for an address, or None."""
        return next((server for server in self.servers if server.url == url), None)

    def with_server(self, server: SavedLogin) -> SavedLogins:
        """Return the logins with another one, which becomes the current one."""
        others = tuple(item for item in self.servers if item.url != server.url)
        return SavedLogins(server.url, (*others, server))

    def without(self, url: str) -> SavedLogins:
        """Return the logins without one."""
        return SavedLogins(
            "" if self.current == url else self.current, tuple(item for item in self.servers if item.url != url)
        )


def read_logins() -> SavedLogins:
    """Read the stored logins; none if the file does not exist.

    :raises ConfigurationError: other users may read the file, or it is damaged.
    """
    path = logins_file()
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigurationError(f"{path} is not a file")
            if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in (os.getuid(), 0):
                raise ConfigurationError(
                    f"{path} contains tokens, and other users may read it",
                    f"`chmod 600 {path}`, and have the tokens replaced",
                )
            data = stream.read()
    except FileNotFoundError:
        return SavedLogins()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {(error.strerror or '').lower()}") from None
    try:
        return _kept(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigurationError(f"{path} is damaged", "remove it, and run `gpuctl login` again") from None


def _kept(value: Any) -> SavedLogins:
    servers = tuple(
        SavedLogin(str(url), str(item["token"]), str(item.get("authority", "")), item.get("plain") is True)
        for url, item in value["servers"].items()
    )
    current = str(value.get("current", ""))
    return SavedLogins(current if any(server.url == current for server in servers) else "", servers)


def write_logins(kept: SavedLogins) -> None:
    """Write the logins atomically.

    :raises ConfigurationError: the file cannot be written.
    """
    path = logins_file()
    value = {
        "current": kept.current,
        "servers": {
            item.url: {"token": item.token, "authority": item.authority, "plain": item.plain} for item in kept.servers
        },
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, json.dumps(value, indent=2))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {(error.strerror or '').lower()}") from None
