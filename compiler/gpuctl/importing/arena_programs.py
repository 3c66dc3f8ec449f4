"""The program of an Arena job, which Arena gives to a shell as one text."""

from __future__ import annotations

import re

from gpuctl.frontend.shell import read_command
from gpuctl.importing.torchrun_programs import ProgramChange, TorchrunProgram, as_torchrun

PYTORCH = "pytorch"
FRAMEWORKS = {
    **dict.fromkeys(("pytorchjob", "pytorch", "py"), PYTORCH),
    **dict.fromkeys(("tfjob", "tf", "tensorflow"), "tensorflow"),
    **dict.fromkeys(("mpijob", "mpi", "etjob", "et", "horovodjob", "horovod", "deepspeedjob", "deepspeed"), "mpi"),
}
"""Type of a job, or name of a framework -> how it starts its processes."""
_CHANGES = {"mpi": ProgramChange.ON_EACH_NODE, "tensorflow": ProgramChange.NO_TF_CONFIG}


def arena_program(text: str, shell: str, nodes: int, gpus: int, kind: str) -> TorchrunProgram:
    """Return the command of a text.

    :param shell: the shell that runs it, if it needs one.
    :param kind: the type of the job, or the name of its framework.
    """
    framework = FRAMEWORKS.get(kind)
    command = read_command(text)
    words = [word.text for word in command.words or ()]
    if command.needs_shell or not words:
        is_started = nodes == 1 or re.search(r"\btorchrun\b|\btorch\.distributed\b", text) is not None
        found = TorchrunProgram([shell, "-c", text], None if is_started else ProgramChange.NEEDS_TORCHRUN)
    else:
        found = as_torchrun(words, nodes, gpus, is_pytorch=framework == PYTORCH)
    if framework == "mpi" or (framework != PYTORCH and found.change is ProgramChange.NEEDS_TORCHRUN):
        return found._replace(change=_CHANGES.get(framework or ""))
    return found
