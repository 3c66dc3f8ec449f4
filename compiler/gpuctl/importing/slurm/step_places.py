"""The nodes on which `srun` starts a step, as far as a batch script names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyWord
from gpuctl.importing.slurm.sbatch_options import SlurmOption
from gpuctl.importing.slurm.shell_values import Values, word_value
from gpuctl.importing.slurm.text_places import reference
from gpuctl.objects.quantities import whole_number

_HOST = r"@(\d{1,4})@\Z"
_COUNT = rf"\$\(\([ \t]*(?:NNODES|{reference('NNODES')})[ \t]*(?:-[ \t]*(\d{{1,4}}))?[ \t]*\)\)|{reference('NNODES')}"
_LITERAL_HOST = r"[A-Za-z][\w.-]*\Z"


class Place(NamedTuple):
    """The nodes of a step.

    ``size``: how many. ``indices``: of the job's nodes, None if Slurm chooses them. ``hosts``: their names, in place of
    indices. ``component``: the part of a heterogeneous job, whose nodes are all the step's.
    """

    size: int
    indices: frozenset[int] | None = None
    hosts: frozenset[str] = frozenset()
    component: int | None = None


class NoPlace(Exception):
    """The script does not name the nodes of a step. The text is the reason."""


class JobShape(NamedTuple):
    """Numbers of a job that has several programs.

    ``tasks``: processes on each node. ``hosts``: variables with the names of all nodes. ``components``: the nodes of
    each part of a heterogeneous job, [] for others. ``loop``: the variable of a loop, whose node is ``@L@``.
    """

    nodes: int
    tasks: int
    hosts: frozenset[str]
    components: Sequence[int] = ()
    loop: str = ""

    def known_text(self, raw: str) -> str:
        """Return a word as written with the numbers of nodes, and ``@INDEX@`` for the name of a node."""
        for name in self.hosts:
            raw = re.sub(rf"\$\{{{name}\[(\d{{1,4}})\]\}}", r"@\1@", raw)
            if self.loop:
                raw = re.sub(rf"\$\{{{name}\[\$?{self.loop}\]\}}", "@L@", raw)
        return re.sub(_COUNT, lambda match: str(self.nodes - int(match[1] or 0)), raw)

    def value(self, raw: str, values: Values) -> str | None:
        """Return the value of a word as written; None if it is not known."""
        return word_value(self.known_text(raw), values)


def expanded_words(body: BodyState, words: Sequence[BodyWord], shape: JobShape) -> list[tuple[str, BodyWord]]:
    """Return the words of a command, each with the written word that it comes from; unknown ones stay as written."""
    found: list[tuple[str, BodyWord]] = []
    for word, items in zip(words, body.all_expanded(words), strict=True):
        value = shape.value(body.raw(word), body.values) if len(items) == 1 else None
        found += [(item, word) for item in ([value] if value is not None else items)]
    return found


def place_of(options: Sequence[SlurmOption], shape: JobShape) -> Place:
    """Return the nodes of a step.

    :raises NoPlace: its options do not determine them.
    """
    values = {option.name: option for option in options}
    if "overlap" in values and not {"nodelist", "het-group", "relative"} & set(values):
        raise NoPlace("`--overlap` without `--nodelist` shares nodes with other steps")
    if shape.components:
        return _component(values.get("het-group"), shape)
    count = _count(values, shape)
    if "nodelist" in values:
        return _listed(values["nodelist"], count, shape)
    if "exclude" in values:
        excluded = _hosts(values["exclude"])
        if excluded is None or not all(isinstance(item, int) for item in excluded):
            raise NoPlace(f"`{values['exclude'].text}` names nodes that are not known")
        rest = frozenset(range(shape.nodes)) - excluded
        if count is not None and count != len(rest):
            raise NoPlace(f"it takes {count} of {len(rest)} nodes")
        return Place(len(rest), frozenset(int(index) for index in rest))
    if "relative" in values:
        first = whole_number(values["relative"].value or "")
        if first is None or count is None or first + count > shape.nodes:
            raise NoPlace(f"`{values['relative'].text}` does not name nodes of the job")
        return Place(count, frozenset(range(first, first + count)))
    if count is None or count == shape.nodes:
        return Place(shape.nodes, frozenset(range(shape.nodes)))
    return Place(count)


def _component(option: SlurmOption | None, shape: JobShape) -> Place:
    number = 0 if option is None else whole_number(option.value or "")
    if number is None or number >= len(shape.components):
        raise NoPlace("it starts on several parts of the job, or on one that does not exist")
    return Place(shape.components[number], component=number)


def _count(values: dict[str, SlurmOption], shape: JobShape) -> int | None:
    """Return the number of nodes that the options name, None if they name none."""
    numbers: dict[str, int] = {}
    for name in ("nodes", "ntasks", "ntasks-per-node"):
        if name in values:
            number = whole_number(values[name].value or "")
            if not number:
                raise NoPlace(f"`{values[name].text}` is not a number that is known")
            numbers[name] = number
    tasks = numbers.get("ntasks-per-node", shape.tasks)
    count = numbers.get("nodes")
    if count is None and "ntasks" in numbers:
        count = -(-numbers["ntasks"] // tasks)
        if count > 1 and numbers["ntasks"] % tasks:
            raise NoPlace(f"{numbers['ntasks']} processes do not divide into nodes of {tasks}")
    if count is not None and count > shape.nodes:
        raise NoPlace(f"it takes {count} nodes, and the job has {shape.nodes}")
    return count


def _hosts(option: SlurmOption) -> frozenset[int | str] | None:
    """Return the indices or names of listed nodes; None if one is not known."""
    found: set[int | str] = set()
    for item in (option.value or "").split(","):
        index = re.match(_HOST, item)
        if item == "$(MASTER_ADDR)":
            found.add(0)
        elif index is not None:
            found.add(int(index[1]))
        elif re.match(_LITERAL_HOST, item):
            found.add(item)
        else:
            return None
    return frozenset(found)


def _listed(option: SlurmOption, count: int | None, shape: JobShape) -> Place:
    found = _hosts(option)
    if found is None:
        raise NoPlace(f"`{option.text}` names nodes that are not known")
    if count is not None and count != len(found):
        raise NoPlace(f"`{option.text}` names {len(found)} nodes of {count}")
    indices = frozenset(item for item in found if isinstance(item, int))
    if len(indices) == len(found):
        if max(indices) >= shape.nodes:
            raise NoPlace(f"`{option.text}` names a node that the job does not have")
        return Place(len(found), indices)
    if indices:
        raise NoPlace(f"`{option.text}` names nodes by their name and by their number")
    return Place(len(found), hosts=frozenset(str(item) for item in found))
