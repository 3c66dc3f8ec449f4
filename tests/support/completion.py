"""Completions as the scripts of bash, zsh and fish ask for them."""

from __future__ import annotations

import time

import pytest

from support.command import Command

SHELLS = ("bash", "zsh", "fish")


def completed(shell: str, *words: str, incomplete: str = "") -> set[str]:
    """The names that a shell offers for the word after these. Nothing else may be printed, and it may not take long."""
    began = time.monotonic()
    command = ask(shell, *words, incomplete=incomplete)
    assert (command.end(30), command.err) == (0, b"")
    assert time.monotonic() - began < 15
    lines = [line for line in command.out.decode().splitlines() if line]
    if shell == "zsh":
        return {value for kind, value in zip(lines[0::3], lines[1::3], strict=True) if kind == "plain"}
    split = [line.split(",", 1) for line in lines]
    return {value.partition("\t")[0] for kind, value in split if kind == "plain"}


def ask(shell: str, *words: str, incomplete: str = "") -> Command:
    """A process that completes the word after these."""
    line = " ".join(("gpuctl", *words, incomplete))
    number = incomplete if shell == "fish" else str(len(words) + 1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_GPUCTL_COMPLETE", f"{shell}_complete"), ("COMP_WORDS", line), ("COMP_CWORD", number)):
            patch.setenv(name, value)
        return Command()
