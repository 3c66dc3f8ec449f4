"""The body of a batch script as the command of a training: one program if it is one, else a script."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.frontend.shell import is_shell_only
from gpuctl.importing.draft import COMMAND, Draft
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.slurm.body_facts import BodyFacts, BodyState, defaults_of, variable_of_pods
from gpuctl.importing.slurm.body_remarks import BodyRemarks
from gpuctl.importing.slurm.body_steps import convert_step
from gpuctl.importing.slurm.body_syntax import (
    BodyCommand,
    BodyWord,
    Statement,
    functions_that_run_arguments,
    part_of_line,
    program_of,
    statements_of_body,
)
from gpuctl.importing.slurm.called_script_variables import prepare_called_script
from gpuctl.importing.slurm.command_rules import (
    SHELL_WITH_COMMAND,
    SUBMITS_TEXT,
    assigned_names,
    assignments,
    differs_by_node,
    is_harmless_on_every_node,
    lost_processes,
    note_of_program,
    reads_variables,
    reason_to_drop,
    reason_to_leave_out,
)
from gpuctl.importing.slurm.container_commands import (
    bind_variable,
    container_program,
    remember_pulled_image,
    starts_container,
    takes_inner_container,
)
from gpuctl.importing.slurm.deepspeed_launcher import convert_deepspeed
from gpuctl.importing.slurm.host_files import find_host_files, note_host_files
from gpuctl.importing.slurm.launcher_options import set_by_gpuctl
from gpuctl.importing.slurm.script_edits import as_argument, tidy_script
from gpuctl.importing.slurm.script_lines import NO_HOSTS, ScriptLines
from gpuctl.importing.slurm.shell_values import Value, constant_of, word_value, words_of
from gpuctl.importing.slurm.slurm_variables import Replaced, lists_own_gpus
from gpuctl.importing.slurm.srun_options import SrunOptions, setting_of_step
from gpuctl.importing.slurm.step_processes import remove_launcher_options
from gpuctl.importing.slurm.text_places import VariableUses, end_of_document
from gpuctl.language.path_fields import normal_path

_NEVER_IN_DOCUMENT = frozenset({"IFS", "PS1", "BASH_ENV", "HOME", "PWD", "SHELL"})


class ScriptBody:
    """Converts a body.

    :param addresses: variables of the pods with the addresses of roles.
    :param known: further variables that are not the submitting shell's.
    """

    def __init__(
        self,
        body: str,
        replaced: Replaced,
        facts: BodyFacts,
        draft: Draft,
        srun: SrunOptions,
        addresses: Iterable[str] = (),
        known: Iterable[str] = (),
    ) -> None:
        self.body = BodyState(body, replaced.text, facts, draft)
        self.body.values.update({name: Value(f"$({name})") for name in addresses})
        self.known = frozenset([*addresses, *known])
        self.text = replaced.text
        self.uses = VariableUses(self.text)
        self.replaced = replaced
        self.remarks = self.body.remarks
        self.srun = srun
        self.sourced: set[str] = set()
        """Variables that scripts beside the file set."""
        self.removed: set[int] = set()
        """Lines of commands that are not in the script."""
        self.kept: list[Statement] = []
        self.constants: dict[str, list[Statement]] = {}
        """Assignments that a script needs and a single program does not."""
        self.settings: list[Statement] = []
        """Shell options such as `set -e`, which a single program does not need."""
        self.statements = statements_of_body(self.text, facts.first_line)
        self.assigned = assignments(self.text, self.statements)
        self.runners = functions_that_run_arguments(self.text, self.statements)
        self.has_steps = any(command.name == "srun" for item in self.statements for command in item.commands)
        """True if Slurm starts programs, to which it gives a list of their GPUs."""
        self.host_files = find_host_files(self.text, self.statements, replaced.hosts)
        stay = (item for item in self.statements if reason_to_leave_out(item) is None)
        self.staying = {line for item in stay for line in self._lines(item)}
        """Lines of statements that are not left out."""

    def convert(self) -> BodyRemarks:
        """Set the command, the variables and the directory of the document. Return what there is to note."""
        for command in (item for statement in self.statements for item in statement.commands):
            for word in command.words:
                name, equals, value = self.body.raw(word).partition("=")
                if equals and word.is_assignment:
                    self.body.assigned.setdefault(name, []).append(value.strip("\"' "))
            if command.background and command.name != "srun" and not command.is_behind_pipe(self.text):
                self.body.only_steps_in_background = False
        for index, statement in enumerate(self.statements):
            if index in self.host_files.writers | self.host_files.about:
                self._remove(statement)
            else:
                self._statement(statement)
        self.body.note_commands_of_nodes()
        left = ScriptLines(self.body, self.statements, self.removed)
        left.note(self.known.union(self.assigned, self.sourced, self.replaced.hosts))
        words = self._single_program()
        result = self.body.edits.result() if words is None else " ".join(words)
        left.note_uses(self.replaced.hosts, result)
        left.note_replacements(self.replaced.changes, self.text if words is None else result)
        if words is not None:
            self.body.draft.set(self._field, words, self._lines(self.kept[0]))
        elif self.kept:
            self._script()
        left.note_uses(note_host_files(self.body, self.host_files, self.statements))
        for statement in self.statements:
            if not self.remarks.has_all(self._lines(statement)):
                self._note(statement, COMMAND)
        for number, text in left.unquoted():
            # Redirections without a command are no statement.
            line = range(number, number + 1)
            if text.strip() and not self.remarks.has_all(line):
                self.remarks.add(line, Outcome.MAPPED, COMMAND)
        return self.remarks

    def _lines(self, statement: Statement) -> range:
        return self.body.lines(statement.start, statement.end)

    def _remove(self, statement: Statement) -> None:
        self.body.edits.remove(statement.start, statement.end)
        self.removed.update(self._lines(statement))

    def _take_out(self, statement: Statement, field: str | None, note: str | None = None) -> None:
        """Remove a statement that the document or gpuctl replaces."""
        self._remove(statement)
        self._note(statement, field, note)

    def _leave_out(self, statement: Statement, reason: str) -> None:
        """Remove a statement that has no place in a pod. The remark names it if another one on its line stays."""
        self._remove(statement)
        lines = self._lines(statement)
        part = part_of_line(self.text, statement.start, statement.ends_at)
        self.remarks.dropped(lines, reason, "" if self.staying.isdisjoint(lines) else part)

    def _note(self, statement: Statement, field: str | None, note: str | None = None) -> None:
        self.remarks.add(self._lines(statement), Outcome.MAPPED if note is None else Outcome.CHANGED, field, note)

    def _statement(self, statement: Statement) -> None:
        single = statement.single
        self.body.statement = statement
        if single is not None and [word.text for word in single.program] == ["wait"]:
            self.body.gpus_taken = 0
        if self._lists_hosts(statement):
            self._take_out(statement, None, NO_HOSTS)
            return
        for command in statement.commands:
            remember_pulled_image(self.body, command.program)
        if (reason := reason_to_leave_out(statement)) is not None:
            self._leave_out(statement, reason)
            return
        if single is not None and not statement.background:
            if self._assignment(statement, single) or self._directory(statement, single):
                return
            if single.name == ":" and (note := defaults_of(self.body, single, self.assigned)) is not None:
                self._note(statement, COMMAND, note)
                self.kept.append(statement)
                return
            if single.name in ("set", "shopt"):
                self.settings.append(statement)
                return
        for command in statement.commands:
            self._command(command)
        self.kept.append(statement)

    def _lists_hosts(self, statement: Statement) -> bool:
        """Return True if a statement only sets variables to names of hosts."""
        known = [not self.replaced.hosts.isdisjoint(assigned_names(command)) for command in statement.commands]
        return bool(known) and all(known) and not statement.defines_function(self.text)

    def _command(self, command: BodyCommand) -> None:
        """Convert a command that stays, or is a part of a statement."""
        lines = self.body.lines(command.start, command.end)
        if not self.replaced.hosts.isdisjoint(assigned_names(command)):
            self.body.edits.replace(command.start, command.end, ":")
            self.remarks.changed(lines, NO_HOSTS, None)
            return
        if (reason := reason_to_drop(command)) is not None:
            end = end_of_document(self.text, command.end)
            self.body.edits.replace(command.start, end or command.end, ":\n" if end else ":")
            lines = self.body.lines(command.start, end or command.end)
            self.removed.update(lines)
            reason = SUBMITS_TEXT if end and command.name == "sbatch" else reason
            self.remarks.dropped(lines, reason, "" if end else part_of_line(self.text, command.start, command.end))
            return
        if (note := note_of_program(command, self.body.facts.nodes)) is not None:
            self.remarks.changed(lines, note)
        name = self.body.name(command)
        if name in self.runners and len(command.program) > 1:
            self._command(command._replace(words=command.program[1:]))
            return
        self.srun.steps += name == "srun" or starts_container(name)
        if name == "srun":
            convert_step(self.body, command, self.srun)
            return
        if (command.certain or not self.body.facts.on_every_node) and convert_deepspeed(self.body, command.program):
            return
        is_everywhere = self.body.facts.nodes > 1 and not self.body.facts.on_every_node
        if (note := lost_processes(command, self.body.facts.nodes)) is not None:
            self.remarks.dropped(lines, note)
        elif is_everywhere and differs_by_node(command, map(self.body.raw, command.words)):
            self.remarks.changed(lines, "each node computes its own value; Slurm computes it once")
        elif is_everywhere and not is_harmless_on_every_node(command):
            self.remarks.changed(lines, "every node runs it; Slurm runs it on the first node")
        program = command.program
        if place := container_program(self.body, program, self.srun) if program else 0:
            self.body.edits.replace(program[0].start, program[place].start, "")
            program = program[place:]
        in_container = place > 0 or takes_inner_container(self.body, program, self.srun)
        self.body.note_place(program, lines, in_container=in_container)
        self.sourced |= prepare_called_script(self.body, command, program, lines)
        remove_launcher_options(self.body, program)

    def _assignment(self, statement: Statement, command: BodyCommand) -> bool:
        """Take a statement that only sets variables. Return True if it is not part of the script."""
        words = command.words
        is_export = command.name in ("export", "declare", "typeset", "readonly")
        if is_export:
            words = tuple(word for word in words[1:] if not word.text.startswith("-"))
            is_export = command.name == "export" or any(word.text.startswith("-x") for word in command.words[1:2])
        elif command.program:
            return False
        if not words:
            return False
        outcomes = [self._variable(word, statement, exported=is_export) for word in words]
        if all(outcome is not None for outcome in outcomes):
            found = [outcome for outcome in outcomes if outcome is not None]
            field, note = next((outcome for outcome in found if outcome[1]), found[0])
            self._take_out(statement, field, note)
            return True
        if len(words) == 1 and words[0].is_assignment and not is_export:
            name = words[0].text.split("=", 1)[0]
            if name in self.body.values:
                self.constants.setdefault(name, []).append(statement)
                return True
        return False

    def _variable(
        self, word: BodyWord, statement: Statement, *, exported: bool
    ) -> tuple[str | None, str | None] | None:
        """Return the field and note of a variable that the document or gpuctl sets; None if the script sets it."""
        name, equals, written = self.body.raw(word).partition("=")
        if not name.isidentifier() or not name.isascii():
            return None
        line = self.body.line(word.start)
        setting = setting_of_step(name) if equals and not self.uses.is_behind(name, statement.end) else None
        if setting is not None:
            note, is_lost = setting
            if is_lost:
                self.remarks.lost(line, name, note)
            return None, note
        values = self.body.values
        value = constant_of(self.text, word, values) if equals else values.get(name)
        once = self.assigned[name] == 1
        if once and word.items is not None:
            self.body.arrays[name] = word
        if once and (own := variable_of_pods(self.body, name, value, line, has_steps=self.has_steps)) is not None:
            return own
        if lists_own_gpus(name, written):
            return None, "a pod sees its own GPUs, and needs no list of them"
        is_rank = value is not None and value.text == "$(NODE_RANK)"
        if name == "NODE_RANK" and self.body.facts.nodes > 1 and not is_rank and f"{{{name}:" not in written:
            self.remarks.lost(line, name, "each pod has its own, and this value is the same in all")
        if value is None or not once:
            return None
        is_own = value.text == f"$({name})" or (name, value.text) == ("NNODES", str(self.body.facts.nodes))
        if name in RESERVED_ENV and is_own:
            return None, None
        values[name] = value
        if not exported or self.uses.is_before(name, statement.start):
            return None
        field = self._field_of_variable(name, value, line)
        return None if field is None else (field, None)

    def _field_of_variable(self, name: str, value: Value, line: int) -> str | None:
        """Return the field that an exported variable was set in; None if only the script can set it."""
        is_text = value.items is None and "$(" not in value.text.replace("$$(", "")
        if not is_text or name in RESERVED_ENV | _NEVER_IN_DOCUMENT:
            return None
        if (field := bind_variable(name, value.text, line, self.srun)) is not None:
            return field
        if any(map(reads_variables, (command for statement in self.kept for command in statement.commands))):
            return None
        self.body.draft.set_item("environment.env", name, value.text, line)
        for constant in self.constants.pop(name, ()):
            self._take_out(constant, f"environment.env.{name}")
        return f"environment.env.{name}"

    def _directory(self, statement: Statement, command: BodyCommand) -> bool:
        """Take a `cd` before the first program as the directory of the container."""
        if command.name != "cd" or len(command.program) != 2 or self.kept:
            return False
        word = command.program[1]
        if self.body.raw(word).strip('"') in ("$SLURM_SUBMIT_DIR", "${SLURM_SUBMIT_DIR}"):
            note = "write the directory into `environment.workdir`, or add `--workdir DIR`: the program starts there"
            self._leave_out(statement, note)
            return True
        value = word_value(self.body.raw(word), self.body.values)
        if value is None or not value.startswith("/") or "$(" in value:
            return False
        self.body.draft.set("environment.workdir", normal_path(value), self.body.line(command.start))
        self._take_out(statement, "environment.workdir")
        return True

    def _single_program(self) -> list[str] | None:
        """Return the words of the program, if the script is only one; None if it needs a shell."""
        command = self._single_command()
        if command is None:
            return None
        line = self.body.line(command.start)
        text = self.body.edits.part(self.kept[0].start, self.kept[0].end)
        program = program_of(text)
        values = words_of(text, program, self.body.values)
        if not values or is_shell_only(values[0]):
            return None
        variables = [(name, word_value(raw, self.body.values)) for name, raw in self.body.step_variables]
        if any(value is None or "$(" in value for _, value in variables):
            return None
        for name, value in variables:
            self.body.draft.set_item("environment.env", name, value, line)
        # `env` in front of the program set them.
        values = values[len(variables) + 1 :] if variables else values
        ours = set_by_gpuctl(values, self.body.facts.nodes, self.body.facts.gpus)
        if ours is not None:
            values = [value for place, value in enumerate(values) if place not in ours.places]
            if ours.port is not None:
                self.body.set_master_port(ours.port, line)
        note = None
        if ours is not None or self.body.removed_options:
            note = "gpuctl sets the options of torchrun for the rendezvous as variables"
        if re.match(SHELL_WITH_COMMAND, " ".join(values[-3:-1])) is not None and "\n" in values[-1]:
            values[-1] = tidy_script(values[-1])
        for statement in self.settings:
            self._note(statement, None, "a single program needs no options of the shell")
        for statement in (item for items in self.constants.values() for item in items):
            self._note(statement, COMMAND)
        self._note(self.kept[0], self._field, note)
        return values

    def _single_command(self) -> BodyCommand | None:
        """Return the command that a script consists of, beside its variables; None if a shell has to run more."""
        if len(self.kept) != 1 or self.body.facts.index_line is not None or self.body.facts.interpreter[1:]:
            return None
        command = self.kept[0].single
        if command is None or command.assignments or not command.program or command.words[0] != command.program[0]:
            return None
        if self.body.entrypoint_lines and self.srun.role is not None:
            return None
        if self.kept[0].background or any(item.single is None for items in self.constants.values() for item in items):
            return None
        return command

    @property
    def _field(self) -> str:
        """The field of a single program: `args` of an image's entrypoint have no program of their own."""
        return "environment.args" if self.body.entrypoint_lines else COMMAND

    def _script(self) -> None:
        """Set the command to a shell with the script."""
        for lines in self.body.entrypoint_lines:
            note = "the entrypoint of the image has these arguments, and a script cannot start it: write its program"
            self.remarks.dropped(lines, note)
        result = self.body.edits.result()
        left = VariableUses(result)
        for name, statements in self.constants.items():
            for statement in statements:
                if self.uses.is_behind(name, statement.end) and not left.is_behind(name, 0):
                    self._take_out(statement, COMMAND, f"nothing uses `{name}` now")
        script = self.body.edits.result()
        if self.body.facts.index_line is not None:
            script = f"{self.body.facts.index_line}\n{script}"
        variables = RESERVED_ENV | frozenset(self.body.draft.get("environment.env") or ())
        command = [*self.body.facts.interpreter, "-c", as_argument(tidy_script(script), variables)]
        self.body.draft.set(COMMAND, command, self.body.lines(self.kept[0].start, self.kept[-1].end))
