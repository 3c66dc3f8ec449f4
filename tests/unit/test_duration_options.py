"""Durations in options: one form for all commands."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import click
import pytest

from gpuctl.cli.commands.apply import command as apply
from gpuctl.cli.commands.logs import command as logs
from gpuctl.cli.commands.usage.sql import command as sql
from gpuctl.cli.commands.wait import command as wait
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl_server.startup import main

OPTIONS = {
    "apply": (apply, ["-f", "job.yaml", "--timeout"], "timeout"),
    "sql": (sql, ["SELECT 1", "--timeout"], "timeout"),
    "wait": (wait, ["train", "--for=done", "--timeout"], "timeout"),
    "logs": (logs, ["train", "--since"], "since_seconds"),
}
LONGEST = 999_999_999 * 86400


def seconds(command: str, value: str) -> int | str:
    """Return the value of a command's option, or the error's message."""
    parser, arguments, name = OPTIONS[command]
    try:
        # The root command's names: click keeps the option of the first context of a command.
        context = parser.make_context(command, [*arguments, value], help_option_names=["-h", "--help"])
        found: int = context.params[name]
    except click.BadParameter as error:
        return error.message
    return found


def rejection(value: str) -> str:
    return f"`{value}` is not a duration such as 90s, 5m or 1h30m"


@pytest.mark.parametrize("command", OPTIONS)
@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("90s", 90),
        ("5m", 300),
        ("12h", 43200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("999999999d", LONGEST),
        ("", None),
        ("m", None),
        ("1h30", None),
        ("1.5h", None),
        ("-5m", None),
        ("5 m", None),
        ("1w", None),
    ],
)
def test_every_option_reads_the_same_durations(command: str, value: str, meant: int | None) -> None:
    assert seconds(command, value) == (rejection(value) if meant is None else meant)


def test_only_timeouts_may_be_plain_seconds() -> None:
    assert {command: seconds(command, "90") for command in OPTIONS} == {
        "apply": 90,
        "sql": 90,
        "wait": 90,
        "logs": rejection("90"),
    }


@pytest.mark.parametrize("value", ["0s", "0h0m"])
def test_only_wait_accepts_zero(value: str) -> None:
    assert {command: seconds(command, value) for command in OPTIONS} == {
        "apply": rejection(value),
        "sql": rejection(value),
        "wait": 0,
        "logs": rejection(value),
    }


@pytest.mark.parametrize(
    ("lasts", "lifetime"),
    [
        ("45m", timedelta(minutes=45)),
        ("1d12h", timedelta(hours=36)),
        ("99999d", timedelta(days=99_999)),
        ("always", None),
    ],
)
def test_token_lasts_for_a_duration(
    lasts: str, lifetime: timedelta | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens.json"
    monkeypatch.setenv("GPUCTL_SERVER_TOKENS", str(tokens))
    assert main(["token", "create", "anna", "--all", "--lasts", lasts]) == 0
    (entry,) = json.loads(tokens.read_text(encoding="utf-8"))["tokens"]
    expires, created = entry.get("expires"), parse_timestamp(entry["created"])
    assert (expires and parse_timestamp(expires) - created) == lifetime


@pytest.mark.parametrize("lasts", ["90", "0d", "100000d", "99999d1s", "1y", "forever"])
def test_token_rejects_other_lifetimes(
    lasts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUCTL_SERVER_TOKENS", str(tmp_path / "tokens.json"))
    assert main(["token", "create", "anna", "--all", "--lasts", lasts]) == 2
    assert f"`{lasts}` is not a duration: use 30m, 12h or 90d, or `always`" in capsys.readouterr().err
    assert not (tmp_path / "tokens.json").exists()
