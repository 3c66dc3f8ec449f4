"""The groups of nodes among which a batch script divides its steps: each becomes a role."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuctl.frontend.shell_lexer import NotUnderstood
from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyCommand, Statement, statements_of
from gpuctl.importing.slurm.command_rules import (
    assigned_names,
    is_for_each_node,
    is_harmless_on_every_node,
    reason_to_drop,
)
from gpuctl.importing.slurm.sbatch_options import SlurmOption, read_options
from gpuctl.importing.slurm.shell_values import Value
from gpuctl.importing.slurm.step_loops import StepLoop, counter_of, loop_of
from gpuctl.importing.slurm.step_places import JobShape, NoPlace, Place, expanded_words, place_of
from gpuctl.objects.quantities import whole_number

_PID = r"([A-Za-z_]\w*)=\"?\$!\"?\Z"
_SMALL = frozenset(
    ["echo", "printf", "date", "sleep", "hostname", "nvidia-smi", "ls", "env", "printenv", "whoami", "id"]
)
"""Programs that only print or pause."""
_MOST_STEPS = 10
_STATUS = r"[A-Za-z_]\w*=\"?\$\?\"?\Z"
_ENDS = frozenset({"wait", "kill", "exit", "true", ":"})
_TESTS = frozenset({"[", "[[", "test"})


class PlacedStep(NamedTuple):
    """A step.

    ``statement``: its place in the script. ``start``: the offset of its program, whose words are ``program``. ``end``:
    the offset behind its redirections.
    """

    statement: int
    command: BodyCommand
    start: int
    end: int
    options: Sequence[SlurmOption]
    program: Sequence[str]
    place: Place
    loop: StepLoop | None


class StepGroup(NamedTuple):
    """Nodes that run the same steps. ``others``: further statements that their first node runs alone.

    ``first``: the index of their first node in the job, None if Slurm chooses it.
    """

    nodes: int
    first: int | None
    steps: Sequence[PlacedStep]
    others: frozenset[int] = frozenset()
    component: int | None = None

    @property
    def statements(self) -> frozenset[int]:
        """The statements that only these nodes run."""
        return self.others.union(step.statement for step in self.steps)


class Division(NamedTuple):
    """The groups of a script, in its order.

    ``small``: statements that print or pause, which one group runs. ``ends``: those that wait for steps, stop them, or
    report how they ended. ``pids``: a variable -> the statement of the step whose process it names. ``primary``: the
    groups whose end is the end of the job, [] for all. ``depends``: a statement that pauses between steps -> the group
    that waits, and the group before it.
    """

    groups: Sequence[StepGroup]
    small: frozenset[int]
    ends: frozenset[int]
    pids: Mapping[str, int]
    primary: Sequence[int]
    depends: Mapping[int, tuple[int, int]]


def divide(body: BodyState, statements: Sequence[Statement], shape: JobShape) -> Division | None:
    """Return the groups of a script; None if it starts no step in the background, or one on all nodes.

    :raises NoPlace: the nodes of a step, or the end of the job, are not known.
    """
    if shape.nodes < 2 or not _starts_in_background(statements):
        return None
    return _Divider(body, statements, shape).division()


def _starts_in_background(statements: Sequence[Statement]) -> bool:
    return any(command.name == "srun" and command.background for item in statements for command in item.commands)


class _Divider:
    def __init__(self, body: BodyState, statements: Sequence[Statement], shape: JobShape) -> None:
        self.body = body
        self.statements = statements
        self.shape = shape
        self.steps: list[PlacedStep] = []
        self.programs: list[int] = []
        self.small: set[int] = set()
        self.ends: list[int] = []
        self.pids: dict[str, int] = {}
        """Variable -> the step whose process it names."""

    def division(self) -> Division | None:
        for index, statement in enumerate(self.statements):
            try:
                self._take(index, statement)
            except NoPlace as error:
                raise NoPlace(f"line {self.body.line(statement.start)}: {error}") from None
        if any(self._takes_all(step) for step in self.steps):
            return None
        groups = self._groups()
        depends = self._dependencies(groups)
        pids = {name: self.steps[place].statement for name, place in self.pids.items()}
        return Division(groups, frozenset(self.small), frozenset(self.ends), pids, self._primary(groups), depends)

    def _take(self, index: int, statement: Statement) -> None:
        sruns = [command for command in statement.commands if command.name == "srun"]
        pid = re.match(_PID, self.body.text[statement.start : statement.end])
        if pid is not None:
            if not self.steps or self.steps[-1].statement != index - 1:
                raise NoPlace("`$!` is not about a step")
            self.pids[pid[1]] = len(self.steps) - 1
            self.ends.append(index)
        elif "$!" in self.body.text[statement.start : statement.end]:
            raise NoPlace("`$!` is the number of a process, which other nodes do not know")
        elif sruns and not self.steps and self._prepares_all(statement, sruns):
            pass
        elif sruns:
            self._take_steps(index, statement, sruns)
        elif (self.steps or self.programs) and self._is_end(statement):
            self.ends.append(index)
        elif not statement.background and all(map(self._is_common, statement.commands)):
            self._remember(statement)
            if statement.commands and all(command.name in _SMALL for command in statement.commands):
                self.small.add(index)
        elif self._has_waited():
            raise NoPlace("a program runs after the steps have ended")
        else:
            self.programs.append(index)

    def _prepares_all(self, statement: Statement, sruns: Sequence[BodyCommand]) -> bool:
        """Return True for a step that prepares all nodes, such as `ray stop`: each role begins with it."""
        if len(statement.commands) != 1 or not sruns[0].certain or statement.background or self.shape.components:
            return False
        words = [text for text, _ in expanded_words(self.body, sruns[0].program[1:], self.shape)]
        split = read_options(words, self.body.line(sruns[0].start), srun=True)
        try:
            place = place_of(split.options, self.shape)
        except NoPlace:
            return False
        return place.size == self.shape.nodes and is_for_each_node(words[split.words :])

    def _is_end(self, statement: Statement) -> bool:
        """Return True for a statement that waits for steps, stops them, or reports how they ended."""
        if re.match(_STATUS, self.body.text[statement.start : statement.end]):
            return True
        names = {command.name for command in statement.commands}
        return not statement.background and bool(names & _ENDS) and names <= _ENDS | _SMALL | _TESTS

    def _has_waited(self) -> bool:
        """Return True if the script has waited for steps."""
        ends = (self.statements[index].single for index in self.ends)
        return any(command is not None and command.name == "wait" for command in ends)

    def _is_common(self, command: BodyCommand) -> bool:
        if not self.shape.hosts.isdisjoint(assigned_names(command)):
            return True
        return is_harmless_on_every_node(command) or reason_to_drop(command) is not None

    def _remember(self, statement: Statement) -> None:
        """Remember the values of variables."""
        command = statement.single
        if command is None:
            return
        for word in command.words:
            name, equals, written = self.body.raw(word).partition("=")
            if not equals or not word.is_assignment:
                continue
            if word.items is not None:
                self.body.arrays[name] = word
            value = self.shape.value(written, self.body.values) if word.items is None else None
            if value is not None:
                self.body.values[name] = Value(value)
            else:
                self.body.values.pop(name, None)

    def _take_steps(self, index: int, statement: Statement, sruns: Sequence[BodyCommand]) -> None:
        if len(self.steps) >= _MOST_STEPS:
            raise NoPlace(f"a training has at most {_MOST_STEPS} roles")
        if len(sruns) > 1:
            raise NoPlace("one statement starts several steps")
        has_run = any(not self.statements[program].background for program in self.programs)
        if has_run or self._has_waited() or any(not self._is_background(step) for step in self.steps):
            raise NoPlace("a program runs before all steps have started")
        [command] = sruns
        loop = None
        if not command.certain:
            loop = loop_of(self.body.text, statement, self.shape, self.body.values)
            if loop is None:
                raise NoPlace("a loop, condition or function starts it")
            inner, place_shape, counters = self._in_loop(loop)
            loop = loop._replace(counters=counters)
            command, end = inner.commands[0], inner.ends_at
        else:
            place_shape, end = self.shape, statement.ends_at
        found = expanded_words(self.body, command.program[1:], place_shape)
        words = [text for text, _ in found]
        line = self.body.line(command.start)
        split = read_options(words, line, srun=True)
        if split.words >= len(words):
            raise NoPlace("it starts no program")
        start = found[split.words][1].start
        place = self._place(split.options, loop)
        self.steps.append(PlacedStep(index, command, start, end, split.options, words[split.words :], place, loop))

    def _place(self, options: Sequence[SlurmOption], loop: StepLoop | None) -> Place:
        if loop is None:
            return place_of(options, self.shape)
        rest = [option for option in options if option.name != "nodelist"]
        place = place_of(rest, self.shape) if rest else Place(1)
        listed = [option.value for option in options if option.name == "nodelist"]
        if place.size != 1 or place.indices is not None:
            raise NoPlace("each of the loop's steps takes several nodes")
        if not listed:
            return Place(loop.runs)
        if listed != ["@L@"] or loop.first + loop.runs > self.shape.nodes:
            raise NoPlace("the loop's nodes are not known")
        return Place(loop.runs, frozenset(range(loop.first, loop.first + loop.runs)))

    def _in_loop(self, loop: StepLoop) -> tuple[Statement, JobShape, dict[str, int]]:
        """Return the step of a loop's body, a shape that knows the loop's node, and the counters with their values."""
        written = self.body.text[loop.start : loop.end]
        try:
            inner = statements_of(" " * loop.start + written)
        except NotUnderstood:
            raise NoPlace("the loop has a construct that is not closed") from None
        shape = self.shape._replace(loop=loop.name) if loop.is_number else self.shape
        if not loop.is_number:
            self.body.values[loop.name] = Value("@L@")
        found: list[Statement] = []
        counters: dict[str, int] = {}
        for statement in inner:
            command = statement.single
            counter = counter_of(self.body.text[statement.start : statement.end])
            first = whole_number(self.body.values[counter].text) if counter in self.body.values else None
            if counter is not None and first is not None and found:
                counters[counter] = first
                continue
            if any(item.name == "srun" for item in statement.commands):
                if len(statement.commands) != 1 or not statement.commands[0].certain or not statement.background:
                    raise NoPlace("the loop does not start its steps in the background")
                found.append(statement)
            elif command is not None and not command.program:
                for word in command.words:
                    name, _, value = self.body.raw(word).partition("=")
                    known = shape.value(value, self.body.values)
                    if known is None:
                        raise NoPlace(f"the value of `{name}` differs between the loop's steps")
                    self.body.values[name] = Value(known)
            elif not all(item.name in _SMALL for item in statement.commands):
                raise NoPlace("the loop runs other programs")
        if len(found) != 1:
            raise NoPlace("the loop starts several steps")
        for counter in counters:
            # Each run has another value.
            del self.body.values[counter]
        return found[0], shape, counters

    def _is_background(self, step: PlacedStep) -> bool:
        return step.loop is not None or self.statements[step.statement].background

    def _takes_all(self, step: PlacedStep) -> bool:
        """Return True if all nodes run a step: others, such as a monitor, run beside it."""
        place = step.place
        return step.loop is None and place.indices is not None and len(place.indices) == self.shape.nodes

    def _groups(self) -> list[StepGroup]:
        found: dict[object, list[PlacedStep]] = {}
        for step in self.steps:
            place = step.place
            key: object = place.component if place.component is not None else place.indices or place.hosts
            found.setdefault(key or ("step", step.statement), []).append(step)
        groups = [_group(steps) for steps in found.values()]
        self._check_nodes(groups)
        if self.programs:
            groups = self._with_programs(groups)
        nodes = sum(group.nodes for group in groups)
        if nodes != self.shape.nodes:
            raise NoPlace(f"the steps take {nodes} of the job's {self.shape.nodes} nodes")
        return sorted(groups, key=lambda group: self.shape.nodes if group.first is None else group.first)

    def _check_nodes(self, groups: Sequence[StepGroup]) -> None:
        taken: set[object] = set()
        for group in groups:
            place = group.steps[0].place
            own = set(place.indices or place.hosts)
            if taken & own:
                raise NoPlace("steps share some of their nodes")
            taken |= own

    def _with_programs(self, groups: list[StepGroup]) -> list[StepGroup]:
        """Add the script's own programs, which run on the first node."""
        programs = frozenset(self.programs)
        for place, group in enumerate(groups):
            if group.first == 0 or group.component == 0:
                return [*groups[:place], group._replace(others=programs), *groups[place + 1 :]]
        if any(group.first is None for group in groups):
            raise NoPlace("the script runs programs of its own, and it is not known beside which step")
        return [StepGroup(1, 0, (), programs), *groups]

    def _dependencies(self, groups: Sequence[StepGroup]) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for index in self.small:
            before = [step.statement for step in self.steps if step.statement < index]
            after = [step.statement for step in self.steps if step.statement > index]
            if self.statements[index].commands[0].name != "sleep" or not before or not after:
                continue
            earlier = next(place for place, group in enumerate(groups) if before[-1] in group.statements)
            later = next(place for place, group in enumerate(groups) if after[0] in group.statements)
            if earlier < later:
                found[index] = (later, earlier)
        return found

    def _primary(self, groups: Sequence[StepGroup]) -> list[int]:
        """Return the groups whose end is the end of the job.

        :raises NoPlace: the script ends before its steps do.
        """
        last = max(step.statement for step in self.steps if self._is_background(step))
        foreground = {index for index in self.programs if not self.statements[index].background}
        foreground |= {step.statement for step in self.steps if not self._is_background(step)}
        if foreground and not any(foreground <= group.statements for group in groups):
            raise NoPlace("programs of several nodes run one after another")
        waited: set[int] | None = None
        for index in self.ends:
            command = self.statements[index].single
            words = [word.text for word in command.program] if command is not None else []
            if words[:1] != ["wait"] or index < last:
                continue
            names = [word.strip("${}") for word in words[1:]]
            if not names:
                return []
            if not set(names) <= set(self.pids):
                raise NoPlace("`wait` names a process that is not a step's")
            waited = (waited or set()) | {self.steps[self.pids[name]].statement for name in names}
        ends = waited or set()
        if max(foreground, default=-1) > last:
            ends.add(max(foreground))
        if not ends:
            raise NoPlace("the script ends while its steps run: `wait` is missing")
        found = [place for place, group in enumerate(groups) if group.statements & ends]
        return [] if len(found) == len(groups) else found


def _group(steps: Sequence[PlacedStep]) -> StepGroup:
    place = steps[0].place
    first = min(place.indices) if place.indices is not None else 0 if place.component == 0 else None
    return StepGroup(place.size, first, steps, component=place.component)
