"""docs/usage.md: its commands run, and print the output that it shows."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path

import pytest

from gpuctl.cli.main import run
from gpuctl.objects.durations import HOUR
from support.pages import Block, assert_output, blocks
from support.small_usage import small_world

PAGE = "docs/usage.md"
START = int(datetime(2026, 10, 30, tzinfo=timezone.utc).timestamp())
END = START + 24 * HOUR + 1800


def test_commands_print_the_documented_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("GPUCTL_SERVER", raising=False)
    monkeypatch.setenv("GPUCTL_SERVER_USAGE_DATABASE", str(tmp_path / "usage.db"))
    monkeypatch.setattr("time.time", lambda: float(END))
    found = blocks(PAGE)
    files: list[Block] = [block for block in found if block.note.startswith("file:")]
    for block in files:
        (tmp_path / str(block.note_after("file:"))).write_text(block.text)
    small_world(START).collected(tmp_path / "usage.db", START, END).close()

    def printed(command: str) -> str:
        program, *arguments = shlex.split(command.partition(" > ")[0])
        assert program == "gpuctl"
        code = run(arguments)
        captured = capsys.readouterr()
        assert code == 0, f"{command}\n{captured.err}"
        # Which jobs can be paused is known only with a cluster, and the last hour is still running.
        notes = "note: unknown which of them" if arguments[1] == "waste" else "note: "
        assert captured.err.startswith(notes) or not captured.err, captured.err
        return captured.out

    shown = {block.note_after("output:"): block.text for block in found if block.note.startswith("output:")}
    assert len(shown) == 3
    for command, text in shown.items():
        assert_output(text, printed(str(command)))
    lines = [line for block in found if block.language == "sh" for line in block.text.splitlines()]
    assert len(lines) == 9
    for line in lines:
        assert printed(line).count("\n") >= 2, line
