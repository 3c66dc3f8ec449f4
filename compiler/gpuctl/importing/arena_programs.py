"""The program of an Arena job, which Arena gives to a shell as one text."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.frontend.shell import read_command
from gpuctl.importing.torchrun_programs import as_torchrun


class ArenaProgram(NamedTuple):
    """A command. ``note`` and ``port``: as of a :class:`~gpuctl.importing.torchrun_programs.TorchrunProgram`."""

    words: list[str]
    note: str | None
    port: int | None
    needs_shell: bool


def arena_program(text: str, shell: str, nodes: int, gpus: int, *, is_pytorch: bool) -> ArenaProgram:
    """Return the command of a text.

    :param shell: the shell that runs it, if it needs one.
    """
    command = read_command(text)
    words = [word.text for word in command.words or ()]
    if command.needs_shell or not words:
        return ArenaProgram([shell, "-c", text], None, None, needs_shell=True)
    return ArenaProgram(*as_torchrun(words, nodes, gpus, is_pytorch=is_pytorch), needs_shell=False)
