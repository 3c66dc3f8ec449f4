"""The start of a step's processes in a pod: by a launcher of the script, or by torchrun."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyWord
from gpuctl.importing.slurm.called_script_variables import scripts_in_shell
from gpuctl.importing.slurm.called_scripts import LAUNCHER, OF_TORCHRUN, CalledScript
from gpuctl.importing.slurm.command_rules import SHELL_WITH_COMMAND
from gpuctl.importing.slurm.launcher_options import launcher_arguments, set_by_gpuctl
from gpuctl.importing.slurm.shell_values import word_value
from gpuctl.importing.slurm.srun_options import SrunStep

_START = 6
"""Words of a command that show whether it starts torchrun."""
_MOST_WORDS = 1000
_PYTHON = r"(?:\S*/)?python[\d.]*\Z"
_RUNNERS = r"(?:\S*/)?(?:uv|poetry|pixi|pdm) run\Z"
_OF_PYTHON = r"\bpython[\d.]*\b|\.py\b|\bSLURM_(?:PROCID|LOCALID)\b"
"""A program that knows the variables of torchrun, or asks for the rank of its process."""


def processes_per_node(body: BodyState, step: SrunStep) -> int:
    """Return the number of processes that a step starts on each of its nodes."""
    on_each = step.tasks // (step.nodes or body.facts.nodes) if step.tasks else 0
    return step.tasks_per_node or on_each or body.facts.tasks


def is_for_torchrun(body: BodyState, step: SrunStep, script: CalledScript) -> bool:
    """Return True if torchrun starts a script once for each GPU."""
    return (
        processes_per_node(body, step) == body.facts.gpus > 1
        and script.text is not None
        and not script.starts_processes
    )


def start_processes(
    body: BodyState,
    step: SrunStep,
    program: tuple[BodyWord, ...],
    lines: range,
    called: CalledScript | None,
) -> None:
    """Start the processes of a node by torchrun, where `srun` started one for each GPU."""
    tasks = processes_per_node(body, step)
    if tasks > 1 and has_launcher(program):
        note = f"a pod starts one launcher, for all processes of the node; srun starts {tasks}"
        body.remarks.changed(lines, note)
    if tasks <= 1 or has_launcher(program):
        return
    found = python_script([word.text for word in program])
    if found is not None and tasks == body.facts.gpus:
        body.edits.replace(program[found[0]].start, program[found[1]].start, "torchrun ")
        note = "torchrun starts a process for each GPU, with RANK and LOCAL_RANK for SLURM_PROCID and SLURM_LOCALID"
        body.remarks.changed(lines, note)
        return
    if called is not None and is_for_torchrun(body, step, called):
        body.edits.replace(program[0].start, program[0].start, _torchrun_for([called]))
        body.remarks.changed(lines, f"torchrun starts `{called.name}` once for each GPU")
        return
    if tasks == body.facts.gpus and (script := shell_script(body, program)) is not None:
        body.edits.replace(program[0].start, program[0].start, _torchrun_for(scripts_in_shell(body, program)))
        for name, ours in OF_TORCHRUN.items():
            for match in re.finditer(rf"\b{name}\b", body.text[script.start : script.end]):
                place = script.start + match.start()
                body.edits.replace(place, place + len(name), ours)
                body.renamed.add((body.line(place), name))
        note = "torchrun starts the shell once for each GPU: `SLURM_PROCID` is `RANK`, `SLURM_LOCALID` is `LOCAL_RANK`"
        body.remarks.changed(lines, note)
        return
    body.remarks.dropped(lines, lost_launches(tasks))


def _torchrun_for(scripts: Sequence[CalledScript]) -> str:
    """Return the start of a command that starts a program by torchrun, with Slurm's variables that scripts use."""
    used = {name for script in scripts for name in script.variables}
    sets = [f"{name}=${ours}" for name, ours in OF_TORCHRUN.items() if name in used]
    return f"torchrun --no-python bash -c '{' '.join(sets)} exec \"$@\"' - " if sets else "torchrun --no-python "


def shell_script(body: BodyState, program: tuple[BodyWord, ...]) -> BodyWord | None:
    """Return the script of ``bash -c SCRIPT``; None if the program is another, or its script is in a variable."""
    if len(program) < 3 or re.match(SHELL_WITH_COMMAND, " ".join(word.text for word in program[:2])) is None:
        return None
    text = _with_values(body, program[2].text)
    starts_itself = re.search(LAUNCHER, text) is not None or re.search(_OF_PYTHON, text) is None
    return program[2] if body.raw(program[2])[:1] in ("'", '"') and not starts_itself else None


def _with_values(body: BodyState, text: str) -> str:
    """Return a text with all values that the script gives to its variables, and to those in them.

    With a variable whose value is not known, it is the whole script.
    """
    found = [text]
    left = body.assigned
    while names := set(re.findall(r"\$\{?([A-Za-z_]\w*)", found[-1])) - RESERVED_ENV:
        if not names <= body.assigned.keys():
            return body.text
        found.append(" ".join(value for name in names & left.keys() for value in left[name]))
        left = {name: values for name, values in left.items() if name not in names}
    return " ".join(found)


def has_launcher(program: tuple[BodyWord, ...]) -> bool:
    return launcher_arguments([word.text for word in program]) is not None


def lost_launches(tasks: int) -> str:
    return f"srun starts {tasks} processes on each node, a pod one: use torchrun or another launcher"


def python_script(words: list[str]) -> tuple[int, int] | None:
    """Return the places of a Python interpreter and of its script, or of its `-m`; None if the command is another.

    The interpreter may be started by a runner such as ``uv run``.
    """
    first = 0
    if re.match(_RUNNERS, " ".join(words[:2])) is not None:
        first = next((place for place, word in enumerate(words[:_START]) if re.match(_PYTHON, word)), 0)
    at = first + (2 if words[first + 1 : first + 2] == ["-u"] else 1)
    if not re.match(_PYTHON, words[first]) or len(words) <= at:
        return None
    return (first, at) if words[at] == "-m" or words[at].endswith(".py") else None


def remove_launcher_options(body: BodyState, program: tuple[BodyWord, ...]) -> None:
    """Remove options of torchrun from the script that gpuctl sets as variables."""
    if launcher_arguments([word_value(body.raw(word), body.values) for word in program[:_START]]) is None:
        return
    known: list[str | None] = []
    for word in program[:_MOST_WORDS]:
        raw = body.raw(word)
        value = word_value(raw, body.values)
        # The name of an option is known, even if its value is not.
        known.append(raw if value is None and raw.startswith("-") else value)
    is_known = not any(word is None or re.match(r"\$|--(?:nnodes|standalone)\b", word) for word in known)
    if body.facts.nodes > 1 and not body.facts.on_every_node and is_known:
        note = "the nodes train together, as gpuctl sets `--nnodes`; without it, torchrun of each node is on its own"
        body.remarks.changed(body.lines(program[0].start, program[-1].end), note)
    found = set_by_gpuctl(known, body.facts.nodes, body.facts.gpus)
    for place in found.places if found is not None else ():
        body.edits.replace(program[place - 1].end, program[place].end, "")
        body.removed_options = True
    if found is not None and found.port is not None:
        body.set_master_port(found.port, body.line(program[0].start))
