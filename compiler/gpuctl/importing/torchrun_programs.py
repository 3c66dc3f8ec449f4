"""Programs of other tools' jobs as gpuctl starts them: these tools set RANK and WORLD_SIZE, here torchrun does."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gpuctl.importing.slurm.launcher_options import launcher_arguments, set_by_gpuctl
from gpuctl.importing.slurm.step_processes import python_script


class ProgramChange(str, Enum):
    """A difference between a command and that in a document. The value is the note about it."""

    OPTIONS_REMOVED = "gpuctl sets the options of torchrun for the rendezvous as variables"
    TORCHRUN_ADDED = "torchrun sets RANK and WORLD_SIZE, as PyTorchJob does"
    NEEDS_TORCHRUN = "gpuctl sets NODE_RANK and NNODES, not RANK and WORLD_SIZE: start the program by torchrun"
    """The user has to change the command."""
    ON_EACH_NODE = "each node runs it: in Arena the launcher alone does, and starts the processes on the workers"
    NO_TF_CONFIG = "gpuctl does not set TF_CONFIG"


class TorchrunProgram(NamedTuple):
    """A command. ``change``: what differs. ``port``: the rendezvous port, if it is not the default."""

    words: list[str]
    change: ProgramChange | None = None
    port: int | None = None

    @property
    def note(self) -> str | None:
        """The note about what differs."""
        return None if self.change is None else self.change.value


def as_torchrun(words: list[str], nodes: int, gpus: int, *, is_pytorch: bool = True) -> TorchrunProgram:
    """Return the command of a job. It has the same list of words if nothing changes.

    :param is_pytorch: the other tool sets RANK and WORLD_SIZE.
    """
    if (ours := set_by_gpuctl(words, nodes, gpus)) is not None:
        kept = [word for place, word in enumerate(words) if place not in ours.places]
        return TorchrunProgram(kept, ProgramChange.OPTIONS_REMOVED, ours.port)
    if nodes == 1 or launcher_arguments(words) is not None:
        return TorchrunProgram(words)
    if (found := python_script(words)) is not None and gpus <= 1 and is_pytorch:
        return TorchrunProgram([*words[: found[0]], "torchrun", *words[found[1] :]], ProgramChange.TORCHRUN_ADDED)
    return TorchrunProgram(words, ProgramChange.NEEDS_TORCHRUN)
