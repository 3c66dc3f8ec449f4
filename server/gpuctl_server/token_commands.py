"""``gpuctl-server token create|list|revoke``: management of the token file. A running service reads it again by
itself."""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from gpuctl.language.names import is_dns_label
from gpuctl.objects.durations import parse_duration
from gpuctl_server.access.rights import ROLES
from gpuctl_server.access.tokens import TokenEntry, new_token, read_tokens, write_tokens

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_LONGEST = timedelta(days=99_999)
"""Longest lifetime of a token that has an end."""


class TokenCommandError(ValueError):
    """The arguments are invalid; ``str()`` is a message for the user."""


def add_commands(commands: Any) -> None:
    """Add ``token`` to the commands of a parser."""
    token = commands.add_parser("token", help="create, list and revoke tokens")
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="print a new token, once")
    create.add_argument("name", metavar="NAME", help="owner of the token, shown in the audit")
    create.add_argument("--role", choices=ROLES, default="user")
    create.add_argument("--namespace", action="append", metavar="NAME", help="repeatable; default with --pool: all")
    create.add_argument("--pool", action="append", metavar="NAME", help="repeatable; default with --namespace: all")
    create.add_argument("--all", action="store_true", help="all namespaces and pools")
    again = create.add_mutually_exclusive_group()
    again.add_argument("--replace", action="store_true", help="revoke the existing tokens of this name")
    again.add_argument("--add", action="store_true", help="keep the existing tokens of this name")
    create.add_argument(
        "--lasts", default="90d", metavar="TIME", help="lifetime, such as 12h or 90d, or `always` (default: 90d)"
    )
    actions.add_parser("list", help="list tokens with their owners and rights")
    revoke = actions.add_parser("revoke", help="revoke all tokens of a name")
    revoke.add_argument("name", metavar="NAME")


def run(path: Path, options: argparse.Namespace) -> int:
    """Run a command. Return the exit code.

    :raises TokenCommandError: the arguments are invalid.
    :raises DamagedTokens: the token file is invalid.
    """
    if options.action == "create":
        return _create(path, options)
    if options.action == "revoke":
        return _revoke(path, options.name)
    _print(_read(path))
    return 0


def _create(path: Path, options: argparse.Namespace) -> int:
    if not _NAME.fullmatch(options.name):
        raise TokenCommandError(f"`{options.name}` is not a valid token name: use letters, digits, and . _ @ - within")
    for name in (*(options.namespace or ()), *(options.pool or ())):
        if not is_dns_label(name):
            raise TokenCommandError(f"`{name}` is not a legal name")
    if options.role != "metrics" and options.all == bool(options.namespace or options.pool):
        raise TokenCommandError("set the limits of the token with --namespace or --pool, or use --all")
    token, entry = new_token(
        options.name, options.role, namespaces=options.namespace, pools=options.pool, lasts=_lasts(options.lasts)
    )
    with _locked(path):
        entries = _read(path)
        others = [item for item in entries if item.name != entry.name]
        if len(others) < len(entries) and not options.add:
            if not options.replace:
                raise TokenCommandError(f"{entry.name} has a token already: --replace revokes it, --add keeps both")
            entries = others
        write_tokens(path, [*entries, entry])
    until = f"until {entry.expires}" if entry.expires else "no expiry"
    print(f"token of {entry.name} ({entry.role}, {until}), shown this once:", file=sys.stderr)
    print(token)
    return 0


def _revoke(path: Path, name: str) -> int:
    with _locked(path):
        entries = _read(path)
        left = [entry for entry in entries if entry.name != name]
        if len(left) == len(entries):
            raise TokenCommandError(f"there is no token of {name}; `gpuctl-server token list` lists them")
        write_tokens(path, left)
    print(f"{len(entries) - len(left)} revoked", file=sys.stderr)
    return 0


def _lasts(text: str) -> timedelta | None:
    if text == "always":
        return None
    if seconds := parse_duration(text, most=_LONGEST.total_seconds()):
        return timedelta(seconds=seconds)
    raise TokenCommandError(f"`{text}` is not a duration: use 30m, 12h or 90d, or `always`")


def _read(path: Path) -> list[TokenEntry]:
    try:
        return read_tokens(path)
    except FileNotFoundError:
        return []


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that two concurrent commands do not lose each other's tokens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.parent / f".{path.name}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _print(entries: Sequence[TokenEntry]) -> None:
    now = datetime.now(timezone.utc)
    rows = [("NAME", "ROLE", "NAMESPACES", "POOLS", "CREATED", "EXPIRES")]
    for entry in entries:
        expires = (entry.expires or "never") + (" (expired)" if entry.is_expired(now) else "")
        rows.append(
            (entry.name, entry.role, _listed(entry.namespaces), _listed(entry.pools), entry.created or "-", expires)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _listed(names: Sequence[str] | None) -> str:
    return "all" if names is None else ",".join(names) or "none"
