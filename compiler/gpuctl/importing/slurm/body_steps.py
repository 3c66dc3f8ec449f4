"""Steps: what `srun` starts becomes what a pod starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyCommand, BodyWord
from gpuctl.importing.slurm.called_script_variables import script_of, scripts_in_shell, variables_for
from gpuctl.importing.slurm.called_scripts import CalledScript
from gpuctl.importing.slurm.command_rules import is_for_each_node, lost_processes, reason_to_drop
from gpuctl.importing.slurm.container_commands import container_program, takes_inner_container
from gpuctl.importing.slurm.deepspeed_launcher import convert_deepspeed
from gpuctl.importing.slurm.sbatch_options import SlurmOption, read_options
from gpuctl.importing.slurm.srun_options import SrunOptions, SrunStep, exported, step_gpus
from gpuctl.importing.slurm.step_gpus import LOOP, OwnGpus, own_gpus
from gpuctl.importing.slurm.step_processes import (
    has_launcher,
    is_for_torchrun,
    lost_launches,
    processes_per_node,
    remove_launcher_options,
    shell_script,
    start_processes,
)
from gpuctl.objects.quantities import whole_number

_IN_CONTAINER = frozenset({"container-image", "container-name", "environment", "image"})
_COUNTS = frozenset({"ntasks", "ntasks-per-node"})
_VARIABLE = r"\"?\$\{?(\w+)(?:\[[@*]\])?\}?\"?"
_SUM = r"\A\$\(\((.*)\)\)\Z"
_NAME_OF_VARIABLE = r"\A\$[({]?(\w+)[)}]?\Z"


def convert_step(body: BodyState, command: BodyCommand, srun: SrunOptions) -> None:
    """Replace an `srun` by its program, and add its options to the document."""
    lines = body.lines(command.start, command.end)
    words, owners = body.known_words(command.program)
    options, at = _step_options(body, words, lines)
    options = [_with_number(body, option) for option in options]
    allocation = srun.take(options)
    reason = _no_program(words, at, options)
    if reason is None:
        if _has_unknown_options(words, owners, at, len(command.program)):
            note = "a variable has options of srun with values that are not known: write them out"
            body.remarks.dropped(lines, note)
        reason = reason_to_drop(command._replace(words=command.program[owners[at] :]))
    if reason is not None:
        body.edits.replace(command.start, command.end, ":")
        body.remarks.dropped(lines, reason)
        return
    _Step(body, command, srun, options, allocation, owners[at]).convert()


class _Step:
    """A step that a pod runs.

    :param allocation: the nodes and tasks that its options name.
    :param place: index of its program among the words of the command.
    """

    def __init__(
        self,
        body: BodyState,
        command: BodyCommand,
        srun: SrunOptions,
        options: Sequence[SlurmOption],
        allocation: SrunStep,
        place: int,
    ) -> None:
        self._body = body
        self._command = command
        self._srun = srun
        self._options = options
        self._allocation = allocation
        self._lines = body.lines(command.start, command.end)
        self._words_of_srun = command.program[1:place]
        self._program = command.program[place:]

    def convert(self) -> None:
        """Replace the step by its program."""
        body, command, role = self._body, self._command, self._srun.role
        exports = _exported(body, self._words_of_srun)
        if (lost := lost_processes(command._replace(words=self._program), nodes=1)) is not None:
            self._drop(lost)
        self._leave_container()
        script = script_of(body, self._program)
        exports += self._variables_of_scripts(script, exports)
        is_elsewhere = self._allocation.host not in (None, "$(MASTER_ADDR)")
        own = self._own_gpus(is_elsewhere) if role is None or body.facts.shares_gpus else None
        guard, prefix = (own.guard, own.prefix) if own is not None else ("", "")
        if role is not None:
            convert_deepspeed(body, self._program)
            start_processes(body, self._allocation, self._program, self._lines, script)
        else:
            if own is None and body.facts.undivided and command.background and self._allocation.host is None:
                is_elsewhere = not self._allocation.is_everywhere(body.facts.nodes)
            if self._start_without_roles(script, is_elsewhere, has_own_gpus=own is not None) and own is None:
                guard = '[ "$NODE_RANK" != 0 ] || '
            if own is None:
                _note_queue(body, command, self._options)
        body.step_variables = exports
        if exports:
            prefix += f"env {' '.join(f'{name}={value}' for name, value in exports)} "
        before = body.text[command.start : command.program[0].start]
        body.edits.replace(command.start, self._program[0].start, f"{guard}{before}{prefix}")
        remove_launcher_options(body, self._program)

    def _note(self, text: str) -> None:
        self._body.remarks.changed(self._lines, text)

    def _drop(self, text: str) -> None:
        self._body.remarks.dropped(self._lines, text)

    def _leave_container(self) -> None:
        """Remove the start of a container before the program: the pod is one."""
        body, options = self._body, self._options
        inner = container_program(body, self._program, self._srun)
        self._program = self._program[inner:]
        in_container = (
            inner > 0
            or takes_inner_container(body, self._program, self._srun)
            or any(option.name in _IN_CONTAINER for option in options)
        )
        body.note_place(self._program, self._lines, in_container=in_container)

    def _variables_of_scripts(
        self, script: CalledScript | None, exports: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Return the variables of Slurm that the called scripts need, without those that are exported already."""
        body, allocation = self._body, self._allocation
        equals = _equals_of_step(body, allocation)
        found: list[tuple[str, str]] = []
        if script is not None:
            by_torchrun = is_for_torchrun(body, allocation, script)
            found += variables_for(body, script, self._lines, equals, by_torchrun=by_torchrun)
        is_split = processes_per_node(body, allocation) == body.facts.gpus > 1
        by_torchrun = is_split and shell_script(body, self._program) is not None
        for called in scripts_in_shell(body, self._program):
            needed = variables_for(body, called, self._lines, equals, by_torchrun=by_torchrun)
            found += [item for item in needed if item not in (*exports, *found)]
        return found

    def _own_gpus(self, is_elsewhere: bool) -> OwnGpus | None:
        """Return how the step has GPUs of its own beside others; None if it has all of its node. Note what is not
        kept.
        """
        body, command, allocation = self._body, self._command, self._allocation
        nodes = 1 if allocation.tasks == 1 else allocation.nodes or body.facts.nodes
        tasks = allocation.tasks_per_node or allocation.tasks
        gpus = step_gpus(self._options, nodes, tasks or 1)
        if gpus is None and body.facts.gpus_per_task:
            gpus = body.facts.gpus_per_task * (tasks or body.facts.tasks)
        if gpus is None or not 0 < gpus < body.facts.gpus:
            return None
        if any(word.text.startswith("CUDA_VISIBLE_DEVICES=") for word in command.assignments):
            return None
        if not command.background:
            self._note(f"the program sees all {body.facts.gpus} GPUs of a pod; Slurm shows it {gpus}")
            return None
        if nodes == 1 and (body.facts.shares_gpus or not is_elsewhere):
            found = own_gpus(body, command, gpus)
            if found is not None:
                self._note(found.note)
                return found
        self._drop("steps beside each other share all GPUs of a pod: set `CUDA_VISIBLE_DEVICES` for each")
        return None

    def _start_without_roles(self, script: CalledScript | None, is_elsewhere: bool, *, has_own_gpus: bool) -> bool:
        """Start the processes of a step that is not a role. Return True if the first node alone runs it."""
        body, program, allocation, facts = self._body, self._program, self._allocation, self._body.facts
        if facts.nodes > 1 and is_elsewhere:
            reason = f" ({facts.undivided})" if facts.undivided else ""
            self._drop(
                "a step on other nodes is a role: write `roles`, with a program for each group of nodes" + reason
            )
        starts_all = convert_deepspeed(body, program)
        is_counted = self._is_counted(starts_all)
        if allocation.is_first_node_only(facts.nodes) and not starts_all:
            if not has_own_gpus:
                self._note("only the node with `NODE_RANK` 0 runs it")
            tasks = allocation.tasks_per_node or allocation.tasks or facts.tasks
            if tasks > 1 and not has_launcher(program):
                self._drop(lost_launches(tasks))
            return True
        count = allocation.nodes or allocation.tasks or facts.nodes
        if not is_elsewhere and 1 < count < facts.nodes:
            self._note(f"all {facts.nodes} nodes run it; Slurm runs it on {count}")
        start_processes(body, allocation, program, self._lines, script)
        is_one = script is None and is_counted and not is_elsewhere and not self._command.background
        if is_one and count > 1 and processes_per_node(body, allocation) <= 1 and _needs_srun(body, program):
            self._note("the nodes find each other by `MASTER_ADDR`, `NODE_RANK` and `NNODES`: a pod has no MPI of srun")
        return False

    def _is_counted(self, starts_all: bool) -> bool:
        """Return True if the number of processes is known. Note numbers that are not.

        :param starts_all: the program itself starts the processes of all nodes.
        """
        unknown = [
            item.text for item in self._options if item.name in _COUNTS and whole_number(item.value or "") is None
        ]
        if unknown and not starts_all and not has_launcher(self._program):
            self._drop(f"`{unknown[0]}` is a number of processes that is not known, and a pod starts one: use torchrun")
        nodes, number = self._body.facts.nodes, next((item for item in self._options if item.name == "nodes"), None)
        if nodes > 1 and number is not None and self._allocation.nodes is None:
            self._drop(f"`{number.text}` is a number of nodes that is not known: all {nodes} nodes run it")
        return not unknown


def _has_unknown_options(words: Sequence[str], owners: Sequence[int], at: int, length: int) -> bool:
    """Return True if a variable holds options of srun that are not known: before the program in one word with it, or
    in place of the program.

    :param owners: the index of the written word that each known word is of.
    :param at: index of the program among the known words.
    :param length: number of the written words.
    """
    variable = re.match(r"\"?\$\{?(\w+)", words[at])
    is_in_place = variable is not None and owners[at] + 1 < length and "ARG" in variable[1].upper()
    return owners[at] == owners[at - 1] or is_in_place


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


def _step_options(body: BodyState, words: Sequence[str], lines: range) -> tuple[list[SlurmOption], int]:
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
        body.remarks.dropped(lines, f"`{words[at]}` has options of srun that are not known: write them out")
        at += 1
    return options, at


def _equals_of_step(body: BodyState, step: SrunStep) -> dict[str, str]:
    """Return the variables of Slurm about the processes of a step on all nodes, with their values in a pod."""
    if not step.is_everywhere(body.facts.nodes):
        return {}
    tasks = processes_per_node(body, step)
    if tasks == 1:
        return {"SLURM_PROCID": "$NODE_RANK", "SLURM_LOCALID": "0", "SLURM_NTASKS": "$NNODES"}
    return {"SLURM_NTASKS": str(tasks * body.facts.nodes)}


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
        body.remarks.changed(body.lines(command.start, command.end), note)
