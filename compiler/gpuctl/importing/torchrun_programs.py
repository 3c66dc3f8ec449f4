"""Programs of other tools' jobs as gpuctl starts them: these tools set RANK and WORLD_SIZE, here torchrun does."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.importing.slurm.launcher_options import launcher_arguments, set_by_gpuctl
from gpuctl.importing.slurm.step_processes import python_script

BY_TORCHRUN = "gpuctl sets NODE_RANK and NNODES, not RANK and WORLD_SIZE: start the program by torchrun"

BY_SETTINGS = "gpuctl sets the options of torchrun for the rendezvous as variables"


class TorchrunProgram(NamedTuple):
    """A command. ``note``: what differs, :data:`BY_TORCHRUN` if the user has to change the command. ``port``: the
    rendezvous port, if it is not the default.
    """

    words: list[str]
    note: str | None = None
    port: int | None = None


def as_torchrun(words: list[str], nodes: int, gpus: int, *, is_pytorch: bool = True) -> TorchrunProgram:
    """Return the command of a job. It has the same list of words if nothing changes.

    :param is_pytorch: the other tool sets RANK and WORLD_SIZE.
    """
    if (ours := set_by_gpuctl(words, nodes, gpus)) is not None:
        kept = [word for place, word in enumerate(words) if place not in ours.places]
        return TorchrunProgram(kept, BY_SETTINGS, ours.port)
    if nodes == 1 or launcher_arguments(words) is not None:
        return TorchrunProgram(words)
    if (found := python_script(words)) is not None and gpus <= 1 and is_pytorch:
        return TorchrunProgram(
            [*words[: found[0]], "torchrun", *words[found[1] :]],
            "torchrun sets RANK and WORLD_SIZE, as PyTorchJob does",
        )
    return TorchrunProgram(words, BY_TORCHRUN)
