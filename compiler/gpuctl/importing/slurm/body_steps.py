"""Steps: what `srun` starts becomes what a pod starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.slurm.body_facts import COMMAND, BodyState, script_of, scripts_in_shell, variables_for
from gpuctl.importing.slurm.body_syntax import BodyCommand, BodyWord
from gpuctl.importing.slurm.called_scripts import LAUNCHER, OF_TORCHRUN, CalledScript
from gpuctl.importing.slurm.command_rules import SHELL_WITH_COMMAND, is_for_each_node, lost_processes, reason_to_drop
from gpuctl.importing.slurm.container_commands import container_program, takes_inner_container
from gpuctl.importing.slurm.deepspeed_launcher import convert_deepspeed
from gpuctl.importing.slurm.launcher_options import launcher_arguments, set_by_gpuctl
from gpuctl.importing.slurm.sbatch_options import SlurmOption, read_options
from gpuctl.importing.slurm.shell_values import word_value
from gpuctl.importing.slurm.slurm_values import whole_number
from gpuctl.importing.slurm.srun_options import SrunOptions, SrunStep, exported, step_gpus
from gpuctl.importing.slurm.step_gpus import LOOP, OwnGpus, own_gpus

_IN_CONTAINER = frozenset({"container-image", "container-name", "environment", "image"})
_COUNTS = frozenset({"ntasks", "ntasks-per-node"})
_START = 6
"""Words of a command that show whether it starts torchrun."""
_MOST_WORDS = 1000
_PYTHON = r"(?:\S*/)?python[\d.]*\Z"
_VARIABLE = r"\"?\$\{?(\w+)(?:\[[@*]\])?\}?\"?"
_SUM = r"\A\$\(\((.*)\)\)\Z"
_NAME_OF_VARIABLE = r"\A\$[({]?(\w+)[)}]?\Z"
_RUNNERS = r"(?:\S*/)?(?:uv|poetry|pixi|pdm) run\Z"
_OF_PYTHON = r"\bpython[\d.]*\b|\.py\b|\bSLURM_(?:PROCID|LOCALID)\b"
"""A program that knows the variables of torchrun, or asks for the rank of its process."""


def convert_step(body: BodyState, command: BodyCommand, srun: SrunOptions) -> None:
    """Replace an `srun` by its program, and add its options to the document."""
    line, last = body.line(command.start), body.line(command.end - 1)
    words, owners = body.known_words(command.program)
    options, at = _step_options(body, words, (line, last))
    options = [_with_number(body, option) for option in options]
    step = srun.take(options)
    if (lost := _no_program(words, at, options)) is not None:
        body.edits.replace(command.start, command.end, ":")
        body.remarks.dropped(line, last, lost)
        return
    place = owners[at]
    variable = re.match(r"\"?\$\{?(\w+)", words[at])
    is_split = place == owners[at - 1]
    if is_split or (variable is not None and place + 1 < len(command.program) and "ARG" in variable[1].upper()):
        note = "a variable has options of srun with values that are not known: write them out"
        body.remarks.dropped(line, last, note)
    reason = reason_to_drop(command._replace(words=command.program[place:]))
    if reason is not None:
        body.edits.replace(command.start, command.end, ":")
        body.remarks.dropped(line, last, reason)
        return
    exports = _exported(body, command.program[1:place])
    if (lost := lost_processes(command._replace(words=command.program[place:]), nodes=1)) is not None:
        body.remarks.dropped(line, last, lost)
    inner = container_program(body, command.program[place:], srun)
    place += inner
    program = command.program[place:]
    in_container = (
        inner > 0
        or takes_inner_container(body, program, srun)
        or any(option.name in _IN_CONTAINER for option in options)
    )
    body.note_place(program, (line, last), in_container=in_container)
    script = script_of(body, program)
    if script is not None:
        equals = _equals_of_step(body, step)
        by_torchrun = _is_for_torchrun(body, step, script)
        exports += variables_for(body, script, (line, last), equals, by_torchrun=by_torchrun)
    by_torchrun = _tasks(body, step) == body.facts.gpus > 1 and _shell_script(body, program) is not None
    for called in scripts_in_shell(body, program):
        needed = variables_for(body, called, (line, last), _equals_of_step(body, step), by_torchrun=by_torchrun)
        exports += [item for item in needed if item not in exports]
    guard = prefix = ""
    is_elsewhere = step.host not in (None, "$(MASTER_ADDR)")
    own = _own_gpus(body, command, options, step, is_elsewhere) if srun.role is None or body.facts.shares_gpus else None
    if own is not None:
        guard, prefix = own.guard, own.prefix
    elif body.facts.undivided and command.background and step.host is None:
        is_elsewhere = not step.is_everywhere(body.facts.nodes)
    if body.facts.nodes > 1 and is_elsewhere and srun.role is None:
        note = "a step on other nodes is a role: write `roles`, with a program for each group of nodes"
        reason = f" ({body.facts.undivided})" if body.facts.undivided else ""
        body.remarks.dropped(line, last, note + reason)
    starts_all = convert_deepspeed(body, program)
    unknown = [option.text for option in options if option.name in _COUNTS and whole_number(option.value) is None]
    if unknown and srun.role is None and not starts_all and not _has_launcher(program):
        note = f"`{unknown[0]}` is a number of processes that is not known, and a pod starts one: use torchrun"
        body.remarks.dropped(line, last, note)
    number_of_nodes = next((option for option in options if option.name == "nodes"), None)
    if body.facts.nodes > 1 and number_of_nodes is not None and step.nodes is None and srun.role is None:
        note = f"`{number_of_nodes.text}` is a number of nodes that is not known: all {body.facts.nodes} nodes run it"
        body.remarks.dropped(line, last, note)
    if step.is_first_node_only(body.facts.nodes) and srun.role is None and not starts_all:
        if own is None:
            body.remarks.add(line, last, Outcome.CHANGED, COMMAND, "only the node with `NODE_RANK` 0 runs it")
            guard = '[ "$NODE_RANK" != 0 ] || '
        tasks = step.tasks_per_node or step.tasks or body.facts.tasks
        if tasks > 1 and not _has_launcher(program):
            body.remarks.dropped(line, last, _processes(tasks))
    else:
        count = step.nodes or step.tasks or body.facts.nodes
        if not is_elsewhere and srun.role is None and 1 < count < body.facts.nodes:
            note = f"all {body.facts.nodes} nodes run it; Slurm runs it on {count}"
            body.remarks.add(line, last, Outcome.CHANGED, COMMAND, note)
        _start_processes(body, step, program, (line, last), script)
        is_one = srun.role is None and script is None and not (is_elsewhere or unknown or command.background)
        if is_one and count > 1 and _tasks(body, step) <= 1 and _needs_srun(body, program):
            note = "the nodes find each other by `MASTER_ADDR`, `NODE_RANK` and `NNODES`: a pod has no MPI of srun"
            body.remarks.add(line, last, Outcome.CHANGED, COMMAND, note)
    if srun.role is None and own is None:
        _note_queue(body, command, options)
    body.step_variables = exports
    if exports:
        prefix += f"env {' '.join(f'{name}={value}' for name, value in exports)} "
    before = body.text[command.start : command.program[0].start]
    body.edits.replace(command.start, program[0].start, f"{guard}{before}{prefix}")
    remove_launcher_options(body, program)


def _with_number(body: BodyState, option: SlurmOption) -> SlurmOption:
    """Return an option with the number of nodes or GPUs in place of gpuctl's variable."""
    if option.name == "nodelist" and body.facts.nodes == 1:
        return option._replace(value="$(MASTER_ADDR)")
    number = _product(body, option.value or "") if option.name in (*_COUNTS, "nodes") else None
    return option._replace(value=str(number)) if number else option


def _product(body: BodyState, written: str) -> int | None:
    """Return the number that a text such as ``$((NNODES * GPUS))`` is; None if that is not known."""
    known = {"$(NNODES)": body.facts.nodes, "$(GPUCTL_GPUS_PER_NODE)": body.facts.gpus}
    if not {value.strip("${}") for value in body.assigned.get("NNODES", ())} <= {"NNODES", str(body.facts.nodes)}:
        # The script gives it other values.
        del known["$(NNODES)"]
    product = 1
    for factor in re.sub(_SUM, r"\1", written).split("*"):
        name = re.sub(_NAME_OF_VARIABLE, r"\1", factor.strip())
        value = body.values[name].text if name in body.values else f"$({name})"
        number = whole_number(name) or known.get(value) or whole_number(value)
        if not number:
            return None
        product *= number
    return product


def _no_program(words: Sequence[str], at: int, options: Sequence[SlurmOption]) -> str | None:
    """Return why a step has not one program; None if it has."""
    if at >= len(words):
        return "it starts no program"
    if ":" in words[at:] or any(option.name == "multi-prog" for option in options):
        return "it starts several programs, each on its own tasks: write `roles`"
    return None


def _step_options(body: BodyState, words: Sequence[str], lines: tuple[int, int]) -> tuple[list[SlurmOption], int]:
    """Return the options of a step, and the index of its program. Variables with unknown options are dropped."""
    options: list[SlurmOption] = []
    at = 1
    while at < len(words):
        split = read_options(words[at:], lines[0], srun=True)
        options += split.options
        at += split.words
        variable = re.fullmatch(_VARIABLE, words[at]) if at < len(words) else None
        if variable is None:
            break
        values = body.assigned.get(variable[1], [])
        if not values or any(value and not value.startswith("-") for value in values):
            break
        body.remarks.dropped(*lines, f"`{words[at]}` has options of srun that are not known: write them out")
        at += 1
    return options, at


def _tasks(body: BodyState, step: SrunStep) -> int:
    """Return the number of processes that a step starts on each of its nodes."""
    on_each = step.tasks // (step.nodes or body.facts.nodes) if step.tasks else 0
    return step.tasks_per_node or on_each or body.facts.tasks


def _equals_of_step(body: BodyState, step: SrunStep) -> dict[str, str]:
    """Return the variables of Slurm about the processes of a step on all nodes, with their values in a pod."""
    if not step.is_everywhere(body.facts.nodes):
        return {}
    tasks = _tasks(body, step)
    if tasks == 1:
        return {"SLURM_PROCID": "$NODE_RANK", "SLURM_LOCALID": "0", "SLURM_NTASKS": "$NNODES"}
    return {"SLURM_NTASKS": str(tasks * body.facts.nodes)}


def _is_for_torchrun(body: BodyState, step: SrunStep, script: CalledScript) -> bool:
    """Return True if torchrun starts a script once for each GPU."""
    return _tasks(body, step) == body.facts.gpus > 1 and script.text is not None and not script.starts_processes


def _start_processes(
    body: BodyState,
    step: SrunStep,
    program: tuple[BodyWord, ...],
    lines: tuple[int, int],
    called: CalledScript | None,
) -> None:
    """Start the processes of a node by torchrun, where `srun` started one for each GPU."""
    tasks = _tasks(body, step)
    if tasks > 1 and _has_launcher(program):
        note = f"a pod starts one launcher, for all processes of the node; srun starts {tasks}"
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, note)
    if tasks <= 1 or _has_launcher(program):
        return
    found = python_script([word.text for word in program])
    if found is not None and tasks == body.facts.gpus:
        body.edits.replace(program[found[0]].start, program[found[1]].start, "torchrun ")
        note = "torchrun starts a process for each GPU, with RANK and LOCAL_RANK for SLURM_PROCID and SLURM_LOCALID"
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, note)
        return
    if called is not None and _is_for_torchrun(body, step, called):
        body.edits.replace(program[0].start, program[0].start, _torchrun_for([called]))
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, f"torchrun starts `{called.name}` once for each GPU")
        return
    if tasks == body.facts.gpus and (script := _shell_script(body, program)) is not None:
        body.edits.replace(program[0].start, program[0].start, _torchrun_for(scripts_in_shell(body, program)))
        for name, ours in OF_TORCHRUN.items():
            for match in re.finditer(rf"\b{name}\b", body.text[script.start : script.end]):
                place = script.start + match.start()
                body.edits.replace(place, place + len(name), ours)
                body.renamed.add((body.line(place), name))
        note = "torchrun starts the shell once for each GPU: `SLURM_PROCID` is `RANK`, `SLURM_LOCALID` is `LOCAL_RANK`"
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, note)
        return
    body.remarks.dropped(*lines, _processes(tasks))


def _torchrun_for(scripts: Sequence[CalledScript]) -> str:
    """Return the start of a command that starts a program by torchrun, with Slurm's variables that scripts use."""
    used = {name for script in scripts for name in script.variables}
    sets = [f"{name}=${ours}" for name, ours in OF_TORCHRUN.items() if name in used]
    return f"torchrun --no-python bash -c '{' '.join(sets)} exec \"$@\"' - " if sets else "torchrun --no-python "


def _shell_script(body: BodyState, program: tuple[BodyWord, ...]) -> BodyWord | None:
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


def _needs_srun(body: BodyState, program: tuple[BodyWord, ...]) -> bool:
    """Return True if a program on several nodes has no launcher, and is not told the rank of its node."""
    if body.has_launcher or is_for_each_node([word.text for word in program]):
        return False
    text = body.edits.part(program[0].start, program[-1].end)
    return re.search(r"\bNODE_RANK\b|\bMASTER_ADDR\b", text) is None


def _exported(body: BodyState, words: Sequence[BodyWord]) -> list[tuple[str, str]]:
    """Return the variables that the options of a step set, with their values as written."""
    found: list[tuple[str, str]] = []
    for before, word in pairwise([BodyWord("", 0, 0), *words]):
        if word.text.startswith("--export=") or before.text == "--export":
            found += exported(body.raw(word))
    return found


def _note_queue(body: BodyState, command: BodyCommand, options: Sequence[SlurmOption]) -> None:
    """Note steps of a loop that Slurm starts only when its allocation has room for them."""
    in_loop = body.statement is not None and re.compile(LOOP).match(body.text, body.statement.start) is not None
    if (
        in_loop
        and command.background
        and not command.certain
        and not {"overlap", "nodelist"} & {item.name for item in options}
    ):
        note = "all of these programs start at once; Slurm starts each when CPUs of the job are free"
        lines = body.line(command.start), body.line(command.end - 1)
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, note)


def _has_launcher(program: tuple[BodyWord, ...]) -> bool:
    return launcher_arguments([word.text for word in program]) is not None


def _processes(tasks: int) -> str:
    return f"srun starts {tasks} processes on each node, a pod one: use torchrun or another launcher"


def _own_gpus(
    body: BodyState, command: BodyCommand, options: Sequence[SlurmOption], step: SrunStep, is_elsewhere: bool
) -> OwnGpus | None:
    """Return how a step has GPUs of its own beside others; None if it has all of its node. Note what is not kept."""
    nodes = 1 if step.tasks == 1 else step.nodes or body.facts.nodes
    gpus = step_gpus(options, nodes, step.tasks_per_node or step.tasks or 1)
    if gpus is None and body.facts.gpus_per_task:
        gpus = body.facts.gpus_per_task * (step.tasks_per_node or step.tasks or body.facts.tasks)
    if gpus is None or not 0 < gpus < body.facts.gpus:
        return None
    if any(word.text.startswith("CUDA_VISIBLE_DEVICES=") for word in command.assignments):
        return None
    lines = body.line(command.start), body.line(command.end - 1)
    if (
        command.background
        and nodes == 1
        and (body.facts.shares_gpus or not is_elsewhere)
        and (found := own_gpus(body, command, gpus)) is not None
    ):
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, found.note)
        return found
    if command.background:
        note = "steps beside each other share all GPUs of a pod: set `CUDA_VISIBLE_DEVICES` for each"
        body.remarks.dropped(*lines, note)
    else:
        note = f"the program sees all {body.facts.gpus} GPUs of a pod; Slurm shows it {gpus}"
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, note)
    return None


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
        lines = body.line(program[0].start), body.line(program[-1].end - 1)
        body.remarks.add(*lines, Outcome.CHANGED, COMMAND, note)
    found = set_by_gpuctl(known, body.facts.nodes, body.facts.gpus)
    for place in found.places if found is not None else ():
        body.edits.replace(program[place - 1].end, program[place].end, "")
        body.removed_options = True
    if found is not None and found.port is not None:
        body.set_master_port(found.port, body.line(program[0].start))
