"""Facts about a job and its script, while the script is converted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from gpuctl.frontend.platform_restrictions import VISIBLE_DEVICES
from gpuctl.importing.draft import Draft
from gpuctl.importing.slurm.body_remarks import BodyRemarks
from gpuctl.importing.slurm.body_syntax import BodyCommand, BodyWord, Statement
from gpuctl.importing.slurm.called_scripts import LAUNCHER, CalledScripts
from gpuctl.importing.slurm.command_rules import (
    is_for_each_node,
)
from gpuctl.importing.slurm.script_edits import ScriptEdits
from gpuctl.importing.slurm.shell_values import LONGEST_COMMAND, Value, word_value, words_of
from gpuctl.importing.slurm.slurm_variables import is_list_of_other_gpus
from gpuctl.importing.slurm.text_places import LineBreaks
from gpuctl.language.training_document import DEFAULT_MASTER_PORT
from gpuctl.objects.quantities import whole_number

_SETS_DEFAULT = r"\"?\$\{(?P<name>[A-Za-z_]\w*):?=(?P<value>[^{}\"]*(?:\$\{\w+\}[^{}\"]*)*)\}\"?"


class BodyFacts(NamedTuple):
    """Facts about a job that its script does not state.

    :param tasks: number of processes on each node.
    :param gpus: number of GPUs of each node.
    :param shares_gpus: True if the nodes of a role run several steps.
    :param gpus_per_task: number of GPUs of each process, which steps inherit; None if the job does not name it.
    :param first_line: the line of the file in which the script begins.
    :param index_line: a line of shell that computes the index of an array job; None if gpuctl's index is the same.
    :param on_every_node: True if the other tool starts the script on every node; Slurm starts it on the first one.
    :param in_submit_directory: True if the script starts in the directory in which sbatch was called.
    :param scripts: finds the files that the script calls; None if they need not be read.
    :param undivided: the reason why steps on several groups of nodes are not roles; "" if there are no such steps.
    """

    nodes: int
    tasks: int
    gpus: int
    first_line: int
    interpreter: list[str]
    index_line: str | None
    on_every_node: bool = False
    in_submit_directory: bool = False
    scripts: CalledScripts | None = None
    undivided: str = ""
    gpus_per_task: int | None = None
    shares_gpus: bool = False


class BodyState:
    """A script, its changes, and the values of its variables at the current statement."""

    def __init__(self, body: str, text: str, facts: BodyFacts, draft: Draft) -> None:
        self.text = text
        self.facts = facts
        self.draft = draft
        self._breaks = LineBreaks(text)
        self.edits = ScriptEdits(text)
        self.remarks = BodyRemarks(body, facts.first_line)
        self.values: dict[str, Value] = {}
        self.assigned: dict[str, list[str]] = {}
        """All values that the script gives to a variable, as written but for quotation marks."""
        self.arrays: dict[str, BodyWord] = {}
        self.images: dict[str, str] = {}
        """A file of an image -> the reference that the script made it from."""
        self.step_variables: list[tuple[str, str]] = []
        """The variables that the options of the last step set, with their values as written."""
        self.renamed: set[tuple[int, str]] = set()
        """Lines and variables of Slurm that a step replaces by those of torchrun."""
        self.in_containers = False
        """True if the script starts a program in a container."""
        self.on_nodes: list[range] = []
        """Lines of commands that run outside of containers, but for those that only prepare or print."""
        self.entrypoint_lines: list[range] = []
        """Lines of commands that only name arguments for the entrypoint of an image."""
        self.statement: Statement | None = None
        """The current statement."""
        self.gpus_taken = 0
        """The GPUs of all nodes that steps in the background have."""
        self.only_steps_in_background = True
        """True if nothing but steps runs in the background."""
        self.removed_options = False
        """True if options of torchrun are removed, which gpuctl sets as variables."""

    @cached_property
    def has_launcher(self) -> bool:
        """True if the script starts torchrun or another launcher."""
        return re.search(LAUNCHER, re.sub(r"(?m)^[ \t]*#[^\n]*", "", self.text)) is not None

    def line(self, offset: int) -> int:
        """Return the line of the file, from 1."""
        return self.facts.first_line + self._breaks.before(offset)

    def lines(self, start: int, end: int) -> range:
        """Return the lines of the file that a part of the script is on."""
        return range(self.line(start), self.line(end - 1) + 1)

    def raw(self, word: BodyWord) -> str:
        """Return a word as written."""
        return self.text[word.start : word.end]

    def all_expanded(self, words: Sequence[BodyWord]) -> list[list[str]]:
        """Return :meth:`expanded` of each word; after very many characters, words stay as written."""
        out: list[list[str]] = []
        length = 0
        for word in words:
            out.append(self.expanded(word) if length <= LONGEST_COMMAND else [self.raw(word)])
            length += sum(map(len, out[-1])) + len(out[-1])
        return out

    def known_words(self, words: Sequence[BodyWord]) -> tuple[list[str], list[int]]:
        """Return :meth:`all_expanded` as one list, and for each of its words the index of the word it comes from."""
        expanded = self.all_expanded(words)
        owners = [index for index, found in enumerate(expanded) for _ in found]
        return [text for found in expanded for text in found], owners

    def expanded(self, word: BodyWord, *, nested: bool = False) -> list[str]:
        """Return the words that a shell makes of a word; what is not known stays as written.

        :param nested: the word is in an array; arrays in arrays stay as written.
        """
        raw = self.raw(word)
        array = re.match(r"\"?\$\{(\w+)\[[@*]\]\}\"?\Z", raw)
        if array is not None and array[1] in self.arrays and not nested:
            items = self.arrays[array[1]].items or ()
            return [text for start, end in items for text in self.expanded(BodyWord("", start, end), nested=True)]
        found = words_of(self.text, [word], self.values)
        return [raw] if found is None else found

    def name(self, command: BodyCommand) -> str:
        """Return the base name of a command's program, also of one in a variable."""
        name = command.name
        if name.startswith(("$", '"$')):
            found = self.expanded(command.program[0])
            name = found[0].rsplit("/", 1)[-1] if found else name
        return name

    def note_place(self, program: Sequence[BodyWord], lines: range, *, in_container: bool) -> None:
        """Remember whether a command runs in a container or on its node."""
        if in_container:
            self.in_containers = True
        elif program and not is_for_each_node([word.text for word in program]):
            self.on_nodes.append(lines)

    def note_commands_of_nodes(self) -> None:
        """Note the commands that a pod runs in the image of a container which another command names."""
        for lines in self.on_nodes if self.in_containers else ():
            if not self.remarks.has_all(lines):
                self.remarks.changed(lines, "it runs in the image too, and not outside of the container")

    def set_master_port(self, port: int, line: int) -> None:
        """Set the rendezvous port, if it is not the default."""
        if port != DEFAULT_MASTER_PORT:
            self.draft.set("job.master_port", port, line)


def foreign_default(name: str, default: str) -> str:
    """Return the note about the default of a variable that the submitting shell may set."""
    value = f"its default `{default}` is used" if default else "it is empty"
    return f"`{name}` of the shell that submits is not passed on: {value}"


def defaults_of(body: BodyState, command: BodyCommand, assigned: Mapping[str, int]) -> str | None:
    """Take `: ${NAME:=value}`, which sets variables that are not set. Return the note; None for another command.

    :param assigned: how often the script sets each variable.
    """
    found = [re.fullmatch(_SETS_DEFAULT, body.raw(word)) for word in command.program[1:]]
    notes = []
    for match in found:
        if match is None:
            return None
        name, written = match["name"], match["value"]
        value = word_value(f'"{written}"', body.values)
        if value is not None and not assigned.get(name):
            body.values[name] = Value(value)
        notes.append(foreign_default(name, written))
    return "; ".join(notes) or None


def variable_of_pods(
    body: BodyState, name: str, value: Value | None, line: int, *, has_steps: bool
) -> tuple[str | None, str | None] | None:
    """Return the field and note of a variable that each pod has a value of its own for; None for another.

    :param has_steps: Slurm starts programs, to which it gives a list of their GPUs.
    """
    if name == "MASTER_ADDR":
        exact = value is not None and value.text == "$(MASTER_ADDR)"
        return None, None if exact else "`MASTER_ADDR` is the address of the first node"
    if name == "MASTER_PORT":
        port = whole_number(value.text) if value is not None else None
        if port is None:
            return None, "gpuctl sets `MASTER_PORT`, the same on all nodes"
        body.set_master_port(port, line)
        return "job.master_port", None
    if name == VISIBLE_DEVICES:
        return None, f"the device plugin sets `{name}`"
    if name != "CUDA_VISIBLE_DEVICES" or value is None:
        return None
    if not is_list_of_other_gpus(value.text, body.facts.gpus, has_steps=has_steps):
        return None
    return None, "a pod has GPUs of its own, which count from 0: it needs no list of them"
