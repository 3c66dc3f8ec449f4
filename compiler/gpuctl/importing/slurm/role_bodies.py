"""The steps of a batch script that run on different nodes, as the roles of a training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuctl.importing.draft import COMMAND, NEED_JOBSET, Draft
from gpuctl.importing.line_ledger import LineLedger, Outcome
from gpuctl.importing.slurm.body_facts import BodyFacts, BodyState
from gpuctl.importing.slurm.body_remarks import BodyRemarks
from gpuctl.importing.slurm.body_syntax import Statement
from gpuctl.importing.slurm.command_rules import assigned_names
from gpuctl.importing.slurm.heterogeneous_jobs import RolePart
from gpuctl.importing.slurm.role_names import role_names
from gpuctl.importing.slurm.script_body import ScriptBody
from gpuctl.importing.slurm.script_edits import ScriptEdits
from gpuctl.importing.slurm.slurm_values import memory_of
from gpuctl.importing.slurm.slurm_variables import PART, Replaced
from gpuctl.importing.slurm.srun_options import SrunOptions, step_gpus
from gpuctl.importing.slurm.step_groups import Division, PlacedStep, StepGroup, divide
from gpuctl.importing.slurm.step_loops import StepLoop
from gpuctl.importing.slurm.step_places import JobShape, NoPlace
from gpuctl.importing.slurm.text_places import QUOTED, outside_quotes, reference
from gpuctl.language.display_text import count_text
from gpuctl.objects.quantities import whole_number

_FIELD = "roles"
_NUMBER = rf"{reference('NNODES')}|\$\{{NNODES:?-[^{{}}\n]*\}}|\bNNODES\b(?=[^\n()]*\)\))"
_FIRST = rf"{reference('MASTER_ADDR')}|(?<=\$\{{)MASTER_ADDR\b(?=[:%#/-])"
_MASTER_OF_PART = rf"(?m)^[ \t]*(?:export[ \t]+)?MASTER_ADDR=\"?\${PART}(\d)"
_JOBSET = "the platform needs JobSet: `training: {backend: jobset}`"
_OF_JOB = ("environment.workdir", "job.master_port", "resources.shm")


class RoleBodies:
    """Converts a script with several programs."""

    def __init__(
        self, replaced: Replaced, statements: Sequence[Statement], division: Division, facts: BodyFacts, draft: Draft
    ) -> None:
        self.replaced = replaced
        self.statements = statements
        self.division = division
        self.facts = facts
        self.draft = draft
        self.is_one = len(division.groups) == 1
        self.names = role_names(division.groups, draft.get("job.name") or "")
        part = re.search(_MASTER_OF_PART, replaced.text)
        first = next(
            (
                place
                for place, group in enumerate(division.groups)
                if (group.first == 0 if part is None else group.component == int(part[1]))
            ),
            None,
        )
        self.first_role = None if first is None else self.names[first]
        self.lines_of = BodyState(replaced.text, replaced.text, facts, draft).lines

    def convert(self, body: str, ledger: LineLedger, *, keeps_image: bool, parts: Sequence[RolePart] = ()) -> None:
        """Set the roles of the document, and add the lines of the script to the ledger."""
        remarks = BodyRemarks(body, self.facts.first_line)
        drafts: list[Draft] = []
        for place, group in enumerate(self.division.groups):
            part = parts[group.component] if group.component is not None else None
            scratch = Draft("training", "", "")
            role = "" if self.is_one else self.names[place]
            srun = SrunOptions(scratch, ledger, keeps_image=keeps_image, role=role)
            script = self._script(place)
            facts = self.facts._replace(nodes=group.nodes, shares_gpus=len(group.steps) > 1)
            if part is not None:
                facts = facts._replace(tasks=part.tasks, gpus=part.gpus)
            addresses = [f"{self._prefix(index)}_ADDR" for index in range(len(self.names))]
            loops = [step.loop.name for step in group.steps if step.loop is not None]
            for step in group.steps if loops else ():
                loops += [name for item in self.statements[step.statement].commands for name in assigned_names(item)]
            remarks.take(ScriptBody(body, script, facts, scratch, srun, addresses, loops).convert())
            drafts.append(scratch)
        self._remarks(remarks)
        remarks.write(ledger, {} if self.is_one else {COMMAND: f"{_FIELD}[].command"})
        self._merge(drafts, parts)

    def _script(self, place: int) -> Replaced:
        """Return the script with the statements of one group. It has the same lines."""
        group = self.division.groups[place]
        edits = ScriptEdits(self.replaced.text)
        keeps_ends = len(group.steps) + len(group.others) > 1
        own = group.statements | (self._ends_of(place, edits) if keeps_ends else frozenset())
        if place == 0:
            own |= self.division.small.difference(self.division.depends)
        special = self.division.ends | self.division.small
        special |= {index for other in self.division.groups for index in other.statements}
        last = max(own | group.statements)
        if any(last < max(other.statements) for other in self.division.groups):
            # They prepare later steps, and would give their status to the program.
            special |= frozenset(range(last + 1, len(self.statements)))
        for index in special - own:
            start, end = self.statements[index].start, self._end(index)
            pause = self._pause(index) if min(group.statements) < index < max(group.statements) else ""
            edits.replace(start, end, pause + "\n" * self.replaced.text.count("\n", start, end))
        for step in group.steps:
            end = self._ampersand(step.end)
            if not keeps_ends:
                edits.blank(step.end, end)
            if step.loop is not None:
                statement = self.statements[step.statement]
                edits.blank(statement.start, step.command.start)
                edits.replace(step.start, step.end, _with_rank(self.replaced.text[step.start : step.end], step.loop))
                edits.blank(end, statement.end)
                for index in self._first_values(step):
                    edits.blank(self.statements[index].start, self._end(index))
        kept = edits.result()
        lines = {number for number, line in enumerate(kept.split("\n")) if line.strip()}
        changes = [change for change in self.replaced.changes if change.line in lines]
        return Replaced(self._addresses(kept, place, group), changes, self.replaced.hosts)

    def _pause(self, index: int) -> str:
        """Return the pause that a statement of other nodes gives the programs of a role; "" if it has none."""
        statement = self.statements[index]
        text = self.replaced.text[statement.start : statement.end]
        if index in self.division.depends:
            return text
        steps = (step for group in self.division.groups for step in group.steps)
        runs = next((step.loop.runs for step in steps if step.statement == index and step.loop is not None), 0)
        seconds = runs * sum(map(int, re.findall(r"\bsleep[ \t]+(\d{1,4})s?(?![\w.])", text)))
        return f"sleep {seconds}" if seconds else ""

    def _ends_of(self, place: int, edits: ScriptEdits) -> frozenset[int]:
        """Return the statements of a group of several programs that wait for them, stop them, or report how they ended.

        Those about other nodes are left out. A group whose end is not that of the job waits for all its programs.
        """
        division, group = self.division, self.division.groups[place]
        is_awaited = not division.primary or place in division.primary
        ends_last = any(not self.statements[index].background for index in group.statements)
        own = {name for name, statement in division.pids.items() if statement in group.statements}
        kept: set[int] = set()
        waits = is_awaited and ends_last
        for index in sorted(division.ends) if is_awaited else ():
            command = self.statements[index].single
            words = [word.text for word in command.words] if command is not None else []
            name, is_about_own = words[0] if words else "", {word.strip("${}") for word in words[1:]} <= own
            if name.endswith("=$!"):
                is_own = name.removesuffix("=$!") in own
            elif name in ("wait", "kill"):
                is_own = is_about_own
                waits |= is_own and name == "wait"
            else:
                is_own = waits
            kept |= {index} if is_own else set()
        if not waits:
            last = max(group.statements)
            after = [index for index in sorted(division.ends - kept) if index > last]
            if after:
                statement = self.statements[after[0]]
                edits.replace(statement.start, statement.ends_at, "wait")
                kept.add(after[0])
            else:
                edits.replace(self._end(last), self._end(last), " wait")
        return frozenset(kept)

    def _first_values(self, step: PlacedStep) -> list[int]:
        """Return the statements that give the counters of a step's loop their first value."""
        counters = set(step.loop.counters) if step.loop is not None else set()
        before = ((index, item.single) for index, item in enumerate(self.statements[: step.statement]))
        return [index for index, command in before if command is not None and counters & set(assigned_names(command))]

    def _end(self, index: int) -> int:
        """Return the end of a statement with its `&`."""
        statement = self.statements[index]
        return max(statement.end, self._ampersand(statement.ends_at))

    def _ampersand(self, at: int) -> int:
        """Return the offset behind a separator of commands, or the offset itself."""
        match = re.compile(r"[ \t]*[&;]").match(self.replaced.text, at)
        return match.end() if match is not None else at

    def _addresses(self, text: str, place: int, group: StepGroup) -> str:
        """Replace the names of nodes, and the number of all nodes, in a group's script."""
        for name in self.replaced.hosts:
            for index, other in enumerate(self.division.groups):
                if other.first is not None and (index != place or other.first != 0):
                    text = text.replace(f"${{{name}[{other.first}]}}", f"${self._prefix(index)}_ADDR")
        for index, other in enumerate(self.division.groups):
            text = text.replace(f"${PART}{other.component}", f"${self._prefix(index)}_ADDR")
        own = " ".join(self.replaced.text[step.start : step.end] for step in group.steps)
        if self.first_role is None and re.search(_FIRST, re.sub(QUOTED, "", own)):
            raise NoPlace("a step uses the address of the first node, and it is not known which step runs there")
        if self.first_role is not None and self.names[place] != self.first_role:
            address = f"${self._prefix(self.names.index(self.first_role))}_ADDR"
            text = outside_quotes(_FIRST, address, text)
        return outside_quotes(_NUMBER, str(sum(item.nodes for item in self.division.groups)), text)

    def _prefix(self, place: int) -> str:
        return f"GPUCTL_{self.names[place].upper().replace('-', '_')}"

    def _remarks(self, remarks: BodyRemarks) -> None:
        """Note which role each step is, and what ends the training."""
        for step in (item for group in self.division.groups for item in group.steps):
            for index in self._first_values(step):
                note = "a node's number is `NODE_RANK`"
                remarks.changed(self._lines(index), note, COMMAND if self.is_one else _FIELD)
        if self.is_one:
            self._one_remark(remarks)
            return
        needs: str | None = _JOBSET
        for name, group in zip(self.names, self.division.groups, strict=True):
            for index in sorted(group.statements):
                note = f"it is the role `{name}`, on {count_text(group.nodes, 'node')} of its own"
                remarks.changed(self._lines(index), f"{note}; {needs}" if needs else note, _FIELD)
                needs = None
        for index, statement in enumerate(self.statements):
            names = {name for command in statement.commands for name in assigned_names(command)}
            if self.first_role is not None and "MASTER_ADDR" in names and statement.commands[0].name == "export":
                address = f"{self._prefix(self.names.index(self.first_role))}_ADDR"
                note = f"each role has the address of its own first node; that of the job is `{address}`"
                remarks.changed(self._lines(index), note, None)
        for index in sorted(self.division.ends | self.division.small):
            lines = self._lines(index)
            is_left = index in self.division.ends or index in self.division.depends
            if remarks.has_all(lines) and not is_left:
                continue
            word = self.statements[index].commands[0].name if self.statements[index].commands else ""
            if index in self.division.depends:
                later, earlier = (self.names[place] for place in self.division.depends[index])
                note = f"`{later}` starts when the pods of `{earlier}` are ready"
                remarks.changed(lines, note, f"{_FIELD}[].dependsOn")
            elif word == "sleep":
                remarks.changed(lines, "all roles start together", _FIELD)
            else:
                note = "it ends when all roles have ended"
                if self.division.primary:
                    note = "it ends with the roles of `primary`"
                remarks.add(lines, Outcome.MAPPED, "primary" if self.division.primary else _FIELD, note)

    def _one_remark(self, remarks: BodyRemarks) -> None:
        """Note the loop that starts the same step on all nodes, and what waits for it."""
        [group] = self.division.groups
        note = f"each of the {group.nodes} nodes runs its step; a node's number is `NODE_RANK`"
        remarks.changed(self._lines(group.steps[0].statement), note)
        for index in self.division.ends | self.division.small:
            remarks.add(self._lines(index), Outcome.MAPPED, COMMAND)

    def _lines(self, index: int) -> range:
        return self.lines_of(self.statements[index].start, self.statements[index].end)

    def _merge(self, drafts: Sequence[Draft], parts: Sequence[RolePart]) -> None:
        """Set what the roles have in common in the job, and what differs in each role.

        :raises NoPlace: a value of the job differs.
        """
        draft = self.draft
        shared = self._set_common(drafts)
        if self.is_one:
            draft.set(COMMAND, drafts[0].get(COMMAND), self._lines(self.division.groups[0].steps[0].statement))
            return
        draft.remove("resources.nodes")
        draft.head.append(NEED_JOBSET)
        for place, (group, scratch) in enumerate(zip(self.division.groups, drafts, strict=True)):
            part = dict(parts[group.component].resources) if group.component is not None else {}
            role = self._role(place, group, scratch, part | _resources(group, self.facts.gpus), shared)
            draft.append(_FIELD, role, self._lines(min(group.statements))[0])
        if self.division.primary:
            draft.set("primary", [self.names[place] for place in self.division.primary])

    def _set_common(self, drafts: Sequence[Draft]) -> Mapping[str, str]:
        """Set what the roles have in common in the job. Return their common variables.

        :raises NoPlace: a value of the job differs.
        """
        draft = self.draft
        common = {path: {scratch.get(path) for scratch in drafts} - {None} for path in _OF_JOB}
        for path, values in common.items():
            if len(values) > 1:
                raise NoPlace(f"`{path}` is one value, and the steps have several")
        for path, values in common.items():
            if values:
                draft.set(path, values.pop())
        shared = _shared_variables(drafts)
        for name, value in shared.items():
            draft.set_item("environment.env", name, value, None)
        for scratch in drafts:
            image = scratch.get("environment.image")
            if image is not None and draft.get("environment.image") is None:
                draft.set("environment.image", image)
            for mount in scratch.get("storage.workdirs") or []:
                if mount not in (draft.get("storage.workdirs") or []):
                    draft.append("storage.workdirs", mount)
        return shared

    def _role(
        self, place: int, group: StepGroup, scratch: Draft, resources: Mapping[str, Any], shared: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return a role, with what differs from the job.

        :param scratch: the document that its step alone would be.
        :param resources: of each of its pods.
        :param shared: variables of the job.
        """
        draft = self.draft
        role: dict[str, Any] = {"name": self.names[place]}
        if group.nodes > 1:
            role["nodes"] = group.nodes
        earlier = {before for after, before in self.division.depends.values() if after == place}
        if earlier:
            role["dependsOn"] = [self.names[before] for before in sorted(earlier)]
        image = scratch.get("environment.image")
        if image not in (None, draft.get("environment.image")):
            role["image"] = image
        role["command"] = scratch.get(COMMAND)
        own = {key: text for key, text in (scratch.get("environment.env") or {}).items() if key not in shared}
        if own:
            role["env"] = own
        shared_amounts = {"gpu": 0, **(draft.get("resources") or {})}
        different = {key: item for key, item in resources.items() if item != shared_amounts.get(key)}
        if different:
            role["resources"] = different
        return role


def import_roles(
    body: str,
    replaced: Replaced,
    statements: Sequence[Statement],
    facts: BodyFacts,
    draft: Draft,
    ledger: LineLedger,
    keeps_image: bool,
    parts: Sequence[RolePart] = (),
) -> str | None:
    """Set the roles of a script that divides its nodes. Return why it has none; "" if it needs none, None if set."""
    shape = JobShape(facts.nodes, facts.tasks, replaced.hosts, [part.nodes for part in parts])
    state = BodyState(body, replaced.text, facts, draft)
    try:
        division = divide(state, statements, shape)
        if division is None:
            return ""
        own = LineLedger()
        bodies = RoleBodies(replaced, statements, division, facts, draft)
        bodies.convert(body, own, keeps_image=keeps_image, parts=parts)
    except NoPlace as error:
        return str(error)
    ledger.extend(own)
    return None


def _with_rank(program: str, loop: StepLoop) -> str:
    """Replace the number of a loop in the program of its step by the rank of the node."""
    for name, first in loop.numbers.items():
        rank = "$NODE_RANK" if first == 0 else f"$((NODE_RANK + {first}))"
        program = outside_quotes(reference(name), rank, program)
    return program


def _shared_variables(drafts: Sequence[Draft]) -> dict[str, str]:
    first, *others = [scratch.get("environment.env") or {} for scratch in drafts]
    return {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}


def _resources(group: StepGroup, most: int) -> dict[str, Any]:
    """Return the resources of each node that the options of its steps name. Several steps share the CPUs and memory of
    the job; of its GPUs, steps beside each other have their own.

    :param most: GPUs of each node of the job.
    """
    found = [_step_resources(step, group.nodes) for step in group.steps]
    if len(found) == 1 and not group.others:
        return found[0]
    gpus = [one["gpu"] for one in found if "gpu" in one]
    if not gpus or len(gpus) < len(found) or group.others:
        return {}
    beside = [number for number, step in zip(gpus, group.steps, strict=True) if step.command.background]
    return {"gpu": min(max(sum(beside), *gpus), most)}


def _step_resources(step: PlacedStep, nodes: int) -> dict[str, Any]:
    values = {option.name: option.value or "" for option in step.options}
    tasks = whole_number(values.get("ntasks-per-node", "")) or 1
    found: dict[str, Any] = {}
    gpus = step_gpus(step.options, nodes, tasks)
    if gpus is not None:
        found["gpu"] = gpus
    cpus = whole_number(values.get("cpus-per-task", ""))
    if cpus:
        found["cpu"] = cpus * tasks
    memory = memory_of(values["mem"]) if "mem" in values else None
    if memory:
        found["memory"] = memory
    return found
