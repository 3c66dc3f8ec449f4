"""Lines of a script that need what a pod does not have: arguments, variables of another shell, names of hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.slurm.batch_file import DIRECTIVE
from gpuctl.importing.slurm.body_facts import BodyState, foreign_default
from gpuctl.importing.slurm.body_syntax import BodyCommand, Statement
from gpuctl.importing.slurm.command_rules import NO_STEP, SLURM_COMMANDS, STARTS_CONTAINER
from gpuctl.importing.slurm.container_commands import MOUNTS, NO_CONTAINERS, unknown_mounts
from gpuctl.importing.slurm.script_edits import ScriptEdits, VariableChange
from gpuctl.importing.slurm.text_places import single_quoted_parts

NO_HOSTS = "pods have no list of hosts; the first is `MASTER_ADDR`"
# Variables that a shell or a usual image sets, or that a script adds to.
_USUAL = """
BASH_SOURCE BASH_VERSION CUDA_HOME CUDA_VISIBLE_DEVICES EUID FUNCNAME HOSTNAME IFS LD_LIBRARY_PATH LD_PRELOAD LINENO
OLDPWD OPTARG OPTIND PATH PIPESTATUS PPID PWD PYTHONPATH RANDOM REPLY SECONDS SHLVL UID
"""
_SET_IN_SHELL = frozenset(_USUAL.split()) | RESERVED_ENV
_USED = r"(?<!\\)\$\{?([A-Za-z_]\w*)\b(?!:?[-=+])"
_LOOP = r"(?m)^[ \t]*for[ \t]+\w+[ \t]+in[ \t][^\n]*"
_LOOP_VARIABLE = r"\b(?:for|select)[ \t]+([A-Za-z_]\w*)"
_ARGUMENT = r"(?<![\\\w])\$(?:[1-9@*#]|\{[1-9@*][^}]*\})"
_FUNCTION_ON_A_LINE = r"(?m)^[ \t]+(?:function[ \t]+[\w:.-]+|[\w:.-]+[ \t]*\([ \t]*\))[ \t]*\{[^\n]*\}[ \t]*$"
_OWN_FILE = r"(?<![\\\w])\$(?:0\b|\{0[^}]*\}|\{BASH_SOURCE(?:\[0\])?[^}]*\})"
_SHELL_SCRIPT = r"(?:\S*/)?(?:bash|sh|zsh)(?: -\S+)* -\w*c\Z"
_LONGEST_SHELL = 200
_DEFAULT = r"\$\{\d:?-([^}]+)\}"
_DIRECTIVE_LINE = rf"(?m)^{DIRECTIVE}[^\n]*(?:\n|\Z)"
_HOME = r"(?:^|[\s=:\"(<>])~(?:[a-z_][\w-]*)?/|(?:\b(?:cd|pushd)[ \t]+|\w=)~(?=[\s;)]|$)"
_ASKS_SLURM = rf"(?:\$\(|`|<\()[ \t]*({'|'.join([*SLURM_COMMANDS, 'srun'])})\b"
_OF_HOST = rf"(?<![\w./$%-])(?:srun(?=[ \t])|{STARTS_CONTAINER})"
"""Programs that start others on nodes, or in containers."""
_LISTS_HOSTS = r"\bscontrol[ \t]+show[ \t]+hostnames?\b"
_HERE = r"(?<!\\)(?:\$\([ \t]*pwd[ \t]*\)|`pwd`|\$\{?PWD\b)"
_PRINTS = r"[ \t]*(?:echo|printf)\b"
_PRINTS_OR_COMMENT = rf"{_PRINTS}|[ \t]*#"
_HAS_DEFAULT = r"(?<!\\)\$\{([A-Za-z_]\w*):?-([^{}\n]*)\}"
_NAME = r"\$\{?#?!?([A-Za-z_]\w*)"
_OF_SLURM = r"SLURMD?_"
_ASSIGNED = r"(?:(?:^|[\s;(])|\$\{)([A-Za-z_]\w*)(?:\+?|:?)="
_NOTHING = r"[ \t;&|:]*(?:#|\Z)"
"""A line without a command."""
_SAME = r"(?m)(?:^|[\s;(])([A-Za-z_]\w*)=\"?\$(?:\{\1\}|\1\b)\"?(?=[\s;)]|$)"
"""An assignment such as `DATA=$DATA`, which gives a variable no value of its own."""


class ScriptLines:
    """The lines of a script that stay.

    :param removed: the numbers of those with commands that do not.
    """

    def __init__(self, body: BodyState, statements: Sequence[Statement], removed: Collection[int]) -> None:
        self.body = body
        self.statements = statements
        # Another command may be on the line of one that is removed.
        left = body.edits.remaining().split("\n")
        self.removed = {line for line in removed if re.match(_NOTHING, left[line - body.facts.first_line])}
        self.left = {line: left[line - body.facts.first_line] for line in set(removed) - self.removed}
        """Line of which a part is removed -> what is left."""
        self.remarks = body.remarks
        self.first_line = body.facts.first_line

    def note(self, known: Collection[str]) -> None:
        """Note what the lines need that a pod does not have.

        :param known: variables that are not the submitting shell's.
        """
        self._remove_directives()
        self._note_arguments()
        self._note_start_directory()
        self._note_slurm_commands()
        self._note_commands_of_hosts()
        self._note_foreign_variables(known)

    def _changed(self, line: int, note: str) -> None:
        self.remarks.changed(range(line, line + 1), note)

    def _remove_directives(self) -> None:
        """Remove `#SBATCH` lines between statements. Those of a here-document are a part of its text."""
        for match in re.finditer(_DIRECTIVE_LINE, self.body.text):
            if not any(item.start <= match.start() < item.end for item in self.statements):
                self.body.edits.replace(match.start(), match.end(), "")
                note = "Slurm ignores options below the first command"
                self.remarks.add(self.body.lines(match.start(), match.start() + 1), Outcome.MAPPED, None, note)

    def note_uses(self, names: Collection[str], result: str | None = None) -> None:
        """Note the lines that use variables with names of hosts, but for those that print them.

        :param result: the script in the document, if only the variables in it count.
        """
        if result is not None:
            lines = [line for line in result.split("\n") if not re.match(_PRINTS, line)]
            names = set(names).intersection(re.findall(_NAME, "\n".join(lines)))
        for number, text in enumerate(self.body.text.split("\n"), self.first_line) if names else ():
            if number not in self.removed and not re.match(_PRINTS_OR_COMMENT, text):
                for name in sorted(set(names).intersection(re.findall(_NAME, text))):
                    self.remarks.lost(number, f"${name}", NO_HOSTS)

    def unquoted(self, *, keeps_shells: bool = False, untouched: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the lines that stay, with their numbers, without comments and text between single quotation marks.

        :param keeps_shells: keep the text that another shell runs, as in ``bash -c '...'``.
        :param untouched: leave out the parts that are replaced.
        """
        edits = ScriptEdits(self.body.edits.remaining(untouched=untouched))
        for command in (item for statement in self.statements for item in statement.commands):
            for place, word in enumerate(command.words):
                before = " ".join(item.text[-_LONGEST_SHELL:] for item in command.words[max(place - 3, 0) : place])
                if keeps_shells and re.search(_SHELL_SCRIPT, before):
                    continue
                for part in single_quoted_parts(self.body.raw(word)):
                    edits.blank(word.start + part.start, word.start + part.stop)
        for match in re.finditer(_LOOP, self.body.text):
            for part in single_quoted_parts(match[0]):
                edits.blank(match.start() + part.start, match.start() + part.stop)
        for number, text in enumerate(edits.result().split("\n"), self.first_line):
            if number not in self.removed and not text.lstrip().startswith("#"):
                yield number, text

    def _note_arguments(self) -> None:
        """Note the arguments of the script, which are not in the file."""
        text = self.body.text
        defined = [range(item.start, item.end) for item in self.statements if item.defines_function(text)]
        # Those of a condition are no statements of their own.
        defined += [range(*match.span()) for match in re.finditer(_FUNCTION_ON_A_LINE, text)]
        inside = {line for item in defined for line in self.body.lines(item.start, item.stop)}
        sets = (command.start for item in self.statements for command in item.commands if _sets_arguments(command))
        end = self.body.line(min(sets, default=len(self.body.text)))
        for number, text in self.unquoted():
            match = re.search(_ARGUMENT, text) if number not in inside and number <= end else None
            default = re.match(_DEFAULT, match[0]) if match is not None else None
            if default is not None:
                self._changed(number, f"an argument of sbatch is not in the file: its default `{default[1]}` is used")
            elif match is not None:
                note = "it is an argument of sbatch, which is not in the file: write its value into the script"
                self.remarks.lost(number, match[0], note)
            own = re.search(_OWN_FILE, text)
            if own is not None and re.search(r"\b(?:echo|printf)\b", text) is None:
                self.remarks.lost(number, own[0], "the script is no file in a document: write the path")

    def _note_start_directory(self) -> None:
        """Note lines that use the directory in which the script starts, up to the first command that leaves it."""
        if not self.body.facts.in_submit_directory:
            return
        leaves = (
            command.start
            for item in self.statements
            for command in item.commands
            if command.certain and command.name in ("cd", "pushd")
        )
        end = self.body.line(min(leaves, default=len(self.body.text)))
        for number, text in self.unquoted():
            if number < end and re.search(_HERE, text) is not None and not re.match(_PRINTS, text):
                self._changed(
                    number, "the script starts in `environment.workdir`; Slurm starts it where sbatch is called"
                )

    def _note_slurm_commands(self) -> None:
        """Note commands of Slurm whose output a line uses."""
        for number, text in self.unquoted():
            lists_hosts = re.search(_LISTS_HOSTS, text) is not None
            for name in dict.fromkeys(re.findall(_ASKS_SLURM, text)):
                note = NO_HOSTS if name == "scontrol" and lists_hosts else SLURM_COMMANDS.get(name, NO_STEP)
                self.remarks.lost(number, name, note)

    def _note_commands_of_hosts(self) -> None:
        """Note commands in texts that stay, as in ``bash -c "srun ..."``, which an image does not have."""
        used = set(re.findall(_NAME, self.body.edits.remaining(untouched=True)))
        unused = {
            line
            for command in (item for statement in self.statements for item in statement.commands)
            for word in command.words
            if word.is_assignment and word.text.partition("=")[0] not in used
            for line in self.body.lines(word.start, word.end)
        }
        for number, text in self.unquoted(keeps_shells=True, untouched=True):
            if number in unused:
                continue
            match = re.search(_OF_HOST, text) if not re.match(_PRINTS, text) else None
            if match is not None and not self.remarks.is_dropped(number):
                self.remarks.lost(number, match[0], NO_STEP if match[0] == "srun" else NO_CONTAINERS)

    def _note_foreign_variables(self, known: Collection[str]) -> None:
        """Note variables of the shell that submits, which a container does not have, and mounts that are not known.

        :param known: further variables that are not the submitting shell's.
        """
        known = _SET_IN_SHELL.union(known, self.body.draft.get("environment.env") or ())
        assigned, same = (Counter(re.findall(pattern, self.body.text)) for pattern in (_ASSIGNED, _SAME))
        loops = set(re.findall(_LOOP_VARIABLE, self.body.text))
        not_set = {name for name, times in same.items() if times == assigned[name]} - loops
        known = known.union(assigned) - not_set
        known |= _SET_IN_SHELL
        before = (set(known) - assigned.keys()) | _SET_IN_SHELL
        for number, text in self.unquoted(keeps_shells=True):
            if (home := re.search(_HOME, text)) is not None:
                user = home[0].partition("~")[2].rstrip("/")
                note = "a container has another home directory: write an absolute path"
                self.remarks.lost(number, f"~{user}/", note)
            if (mounts := unknown_mounts(text)) is not None:
                self.remarks.lost(number, mounts, MOUNTS)
            for name, default in dict.fromkeys(re.findall(_HAS_DEFAULT, text)):
                is_own = name not in before and re.search(rf"\b{name}=\"?\$\{{{name}\b", text) is not None
                if (name not in known or is_own) and re.match(_OF_SLURM, name) is None:
                    self._changed(number, foreign_default(name, default))
            before.update(re.findall(_ASSIGNED, text))
            for name in dict.fromkeys(re.findall(_USED, text)):
                if name not in known and re.match(_OF_SLURM, name) is None:
                    note = "a container does not have this variable of the shell that submits: write its value"
                    self.remarks.lost(number, f"${name}", note)

    def note_replacements(self, changes: list[VariableChange], result: str) -> None:
        """Note the lines with replaced variables, if the result has the new ones.

        :param result: the script, or the program, in the document.
        """
        lines = self.body.text.split("\n")
        for change in sorted(changes, key=lambda change: change.line):
            line = self.first_line + change.line
            is_comment = lines[change.line].lstrip().startswith("#")
            if line in self.removed or is_comment or (line, change.name) in self.body.renamed:
                continue
            if not change.new and change.name in self.left.get(line, change.name):
                self.remarks.lost(line, f"${change.name}", change.note)
            elif change.new and change.new.strip("$") in result:
                self._changed(line, change.note)


def _sets_arguments(command: BodyCommand) -> bool:
    """Return True for `set -- WORDS`, which replaces the arguments of the script."""
    return command.name == "set" and [word.text for word in command.program[1:2]] == ["--"]
