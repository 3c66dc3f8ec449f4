"""Checks of commands for programs and variables of Slurm, which no pod has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuctl.frontend.command_lines import Word, diagnostic_at, programs_of, script_of, unwrapped
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.sentences import Sentence, say

NODE_VARIABLES = {
    "SLURM_NNODES": "NNODES",
    "SLURM_JOB_NUM_NODES": "NNODES",
    "SLURM_NODEID": "NODE_RANK",
    "SLURM_JOB_NAME": "GPUCTL_JOB",
    "SLURM_GPUS_ON_NODE": "GPUCTL_GPUS_PER_NODE",
    "SLURM_GPUS_PER_NODE": "GPUCTL_GPUS_PER_NODE",
    "SLURMD_NODENAME": "HOSTNAME",
}
"""Variable of Slurm -> the variable of a training's pods with the same value."""
ARRAY_VARIABLES = {"SLURM_ARRAY_TASK_ID": "GPUCTL_ARRAY_INDEX", "SLURM_ARRAY_TASK_COUNT": "GPUCTL_ARRAY_SIZE"}
_PROCESS_VARIABLES = {
    "SLURM_PROCID": "RANK",
    "SLURM_LOCALID": "LOCAL_RANK",
    "SLURM_NTASKS": "WORLD_SIZE",
    "SLURM_NPROCS": "WORLD_SIZE",
}
"""Variable of Slurm -> that of torchrun, which starts the processes of a node."""
_HOSTS = frozenset({"SLURM_JOB_NODELIST", "SLURM_NODELIST"})
_PROGRAMS = frozenset({"srun", "sbatch", "salloc", "scontrol", "squeue", "sinfo", "sacct", "scancel", "sbcast"})
_VARIABLE = r"(?a)(?<![\\$])\$(?:(SLURMD?_[A-Z0-9_]+)\b|\{(SLURMD?_[A-Z0-9_]+)\}|\((SLURMD?_[A-Z0-9_]+)\))"


def check_slurm(document: Document, words: Sequence[Word], known: frozenset[str] | None) -> Iterator[Diagnostic]:
    """Report programs of Slurm that a command starts, and variables of Slurm that its script reads.

    :param known: the container's variables; None if unknown.
    """
    for program in programs_of(words):
        if program.name in _PROGRAMS:
            hint = say("remove it: `resources` of the document asks for nodes and GPUs")
            if program.name == "srun":
                hint = say(
                    "remove `srun` and its options: gpuctl starts the command once on each node of `{nodes}`, and "
                    "torchrun a process for each GPU",
                    nodes=document.nodes_field,
                )
            message = say("`{name}` is a program of Slurm, and no Slurm runs in a pod", name=program.name)
            yield diagnostic_at(document, "GPU527", message, program.words[0], hint)
    script = script_of(unwrapped(words)[1])
    if script is None:
        return
    for name, part, hint in slurm_variables(script.text, known, in_script=True):
        message = say("`{name}` is a variable of Slurm, and no Slurm runs in a pod", name=name)
        diagnostic = document.diagnostic(Severity.WARNING, "GPU527", message, script.path, hint)
        yield document.within(diagnostic, part)


def slurm_variables(
    text: str, known: frozenset[str] | None, *, in_script: bool = False
) -> Iterator[tuple[str, str, Sentence]]:
    """Yield the name of each variable of Slurm that a text reads, its first place as written, and what to write there.

    A variable that the text or the document sets, or that has a default, does not count, nor a line of comment.
    """
    seen = set(known or ())
    text = re.sub(r"(?m)^\s*#.*", "", text)
    for match in re.finditer(_VARIABLE, text) if known is not None else ():
        name = match[1] or match[2] or match[3]
        if name not in seen and not re.search(rf"\b{name}=", text):
            own = "MASTER_ADDR" if name in _HOSTS else {**NODE_VARIABLES, **ARRAY_VARIABLES}.get(name, "")
            better = match[0].replace(name, own) if in_script else f"$({own})"
            yield name, match[0], _advice(name, better if own in (*seen, "HOSTNAME") else None)
        seen.add(name)


def _advice(name: str, better: str | None) -> Sentence:
    """Return what to write in place of a variable of Slurm. ``better``: the variable of the pod, None without one."""
    if name in _PROCESS_VARIABLES:
        variable = _PROCESS_VARIABLES[name]
        return say("start the program with torchrun, which sets `{variable}` for each process", variable=variable)
    if better is None:
        return say("write its value: no pod has such a variable")
    if name in _HOSTS:
        return say("pods have no list of hosts; the address of the first node is `{text}`", text=better)
    if name in ARRAY_VARIABLES:
        return say("write `{text}`, which the runs of an `array` have; indexes begin with 0", text=better)
    return say("write `{text}`, which has the same value in a pod", text=better)
