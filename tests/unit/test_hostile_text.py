"""Text from a cluster or service cannot control the terminal, however it is printed, also through a pipe."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from gpuctl.cli.commands.describe.sections import show_facts, show_lines, show_section
from gpuctl.cli.output.paragraphs import section
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.cli.output.terminal import escape_controls
from gpuctl_server.request_log import JsonLines

HOSTILE = {
    "title": "a\x1b]0;owned\x07b",
    "clipboard": "a\x1b]52;c;aGk=\x07b",
    "C1": "a\x9b31mb",
    "override": "a\u202eb",
    "isolate": "a\u2066b",
    "line separator": "a\u2028error: fake",
    "next line": "a\x85error: fake",
    "carriage return": "a\rerror: fake",
    "backspace": "a\bb",
}
PRINTERS: dict[str, Callable[[str], None]] = {
    "facts": lambda text: show_facts([("Name", text)]),
    "lines": lambda text: show_lines("Events", [text]),
    "section": lambda text: show_section("Pods", ("NAME",), [[text]]),
    "table": lambda text: show_table(("NAME", "STATUS"), [[text, text]]),
    "paragraph": lambda text: print(*section("Because", [text], None), sep="\n"),
    "broken paragraph": lambda text: print(*section("Because", [text], 40), sep="\n"),
    "json": lambda text: show_value({"name": text}, "json"),
    "yaml": lambda text: show_value({"name": text}, "yaml"),
    "log": lambda text: print(JsonLines().format(logging.makeLogRecord({"msg": "request", "path": text}))),
}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("printer", PRINTERS)
def test_printed_text_has_no_control_characters(printer: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    PRINTERS[printer](HOSTILE[text])
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n")), ascii(printed)
    assert not any(line.startswith("error: fake") for line in printed.split("\n"))


@pytest.mark.parametrize("text", HOSTILE)
def test_json_round_trips_control_characters(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_value({"name": HOSTILE[text]}, "json")
    assert json.loads(capsys.readouterr().out) == {"name": HOSTILE[text]}
    line = JsonLines().format(logging.makeLogRecord({"msg": "request", "path": HOSTILE[text]}))
    assert json.loads(line)["path"] == HOSTILE[text]


def test_line_breaks_in_a_paragraph_become_spaces() -> None:
    assert list(section("Fix", ["a\nerror: fake"], None)) == ["Fix         a error: fake"]


def test_colour_codes_in_paragraphs_are_escaped() -> None:
    assert list(section("Fix", ["\x1b[31mred"], None)) == ["Fix         \\x1b[31mred"]


def test_escape_controls_keeps_colours() -> None:
    assert escape_controls("\x1b[31mred\x1b[0m\u2028\u2029") == "\x1b[31mred\x1b[0m\\u2028\\u2029"
