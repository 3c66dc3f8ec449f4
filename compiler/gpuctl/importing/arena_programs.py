"""The program of an Arena job, which Arena gives to a shell as one text."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.frontend.shell import read_command
from gpuctl.importing.arena_options import BY_TORCHRUN
from gpuctl.importing.slurm.body_steps import python_script
from gpuctl.importing.slurm.launcher_options import launcher_arguments, set_by_gpuctl


class ArenaProgram(NamedTuple):
    """A command. ``note``: what differs. ``port``: the rendezvous port, if it is not the default."""

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
    if (ours := set_by_gpuctl(words, nodes, gpus)) is not None:
        words = [word for place, word in enumerate(words) if place not in ours.places]
        note = "gpuctl sets the options of torchrun for the rendezvous as variables"
        return ArenaProgram(words, note, ours.port, needs_shell=False)
    if nodes == 1 or launcher_arguments(words) is not None:
        return ArenaProgram(words, None, None, needs_shell=False)
    if (at := python_script(words)) is not None and gpus <= 1 and is_pytorch:
        note = "torchrun sets RANK and WORLD_SIZE, as PyTorchJob does"
        return ArenaProgram(["torchrun", *words[at:]], note, None, needs_shell=False)
    return ArenaProgram(words, BY_TORCHRUN, None, needs_shell=False)
