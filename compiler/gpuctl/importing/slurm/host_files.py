"""Files with the hosts of a job, which batch scripts write for DeepSpeed's launcher."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from gpuctl.frontend.command_checks import HOSTFILE_DIRECTORY, uses_deepspeed
from gpuctl.importing.draft import COMMAND
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyCommand, BodyWord, Statement, statements_of_whole
from gpuctl.importing.slurm.command_rules import assigned_names
from gpuctl.importing.slurm.script_edits import ScriptEdits
from gpuctl.importing.slurm.shell_values import word_value

HOST_FILE = f"{HOSTFILE_DIRECTORY}/hostfile"
"""The file with the hosts of a training on several nodes, which gpuctl mounts for DeepSpeed."""
_TOOLS = """
: awk cat cut echo false gawk grep head hostname perl paste printf read scontrol sed sort srun tee tr true uniq wc xargs
"""
_OF_TEXT = frozenset(_TOOLS.split())
"""Programs that a script makes a list of hosts with."""
_ABOUT_FILES = frozenset(["cat", "chmod", "ls", "mkdir", "rm", "sed", "sync", "touch", "wc", "head", "tail"])
_LISTED = (
    r"\bscontrol[ \t]+show[ \t]+host(?:name)?s?\b|\bSLURM_(?:JOB_)?NODELIST\b|\bsrun\b[^\n|;&]{0,200}[ \t]hostname\b"
)
_TARGET = (
    r"'[^']*'|(?P<to>(?<![0-9&<])>{1,2}\|?[ \t]*|\btee[ \t]+(?:-a[ \t]+)?)"
    r"(?P<file>\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|<>()\"']+)|\"(?:\\.|[^\"\\])*\""
)
_NOT_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_ONLY_REDIRECTS = r"(?m)^(?P<pad>[ \t]*)(?P<rest>>{1,2}[ \t]*(?P<file>[^\s>&|;]+)[ \t]*)$"
_USED = r"\$\{?#?([A-Za-z_]\w*)"
_VARIABLE = r"\$([A-Za-z_]\w*)\Z"
_LAUNCHER = (
    r"(?m)(?:^|[;&|(\"'=]|[ \t](?:srun|exec|then|do|env|time)[ \t][^\n]{0,400}?)[ \t]*(?:[^\s\"'=;&|(]{0,200}/)?"
    r"deepspeed(?=[ \t\\\"'])"
)
_SLOTS = r"\bslots=(\"?\$\{?\w+\}?|\d{1,4})"


class HostFiles(NamedTuple):
    """The files with hosts.

    ``names``: variables with their paths. ``paths``: as written. ``writers``: the indices of the statements that write
    them, or list hosts for that. ``about``: those of statements that only print or remove them. ``slots``: the GPUs of
    each host, as written.
    """

    names: frozenset[str]
    paths: frozenset[str]
    writers: frozenset[int]
    about: frozenset[int]
    slots: Sequence[str]

    def is_one(self, raw: str) -> bool:
        """Return True if a word as written names one of the files."""
        key = _key(raw)
        match = re.match(_VARIABLE, key)
        return match[1] in self.names if match is not None else key in self.paths


def find_host_files(text: str, statements: Sequence[Statement], hosts: Collection[str]) -> HostFiles:
    """Return the files to which a script writes the hosts of its job.

    :param hosts: variables with the names of all hosts.
    """
    names: set[str] = set()
    paths: set[str] = set()
    writers: set[int] = set()
    listing: set[str] = set()
    slots: list[str] = []
    reports = {file for item in statements if (file := _report(text, item, hosts)) is not None}
    assigned = {name: key for item in statements for name, key in _assigned(text, item)}
    for index, statement in enumerate(statements):
        written = text[statement.start : statement.end]
        used = {command.name for command in statement.commands}
        is_listing = re.search(_LISTED, written) is not None or bool(listing & used)
        is_listing = is_listing or not set(hosts).isdisjoint(re.findall(_USED, written))
        is_listing = is_listing or not paths.isdisjoint(map(_key, re.split(r"[\s<>|;&()]+", written)))
        if not is_listing or not used <= _OF_TEXT | listing or not _asks_for_hosts(text, statement):
            continue
        if statement.defines_function(text):
            listing.add(statement.defined_name(text))
        elif (file := _target(written)) is None or file in reports:
            continue
        elif (match := re.match(_VARIABLE, file)) is not None:
            names.add(match[1])
            paths |= {assigned[match[1]]} if "$(" not in assigned.get(match[1], "$(") else set()
        else:
            paths.add(file)
        writers.add(index)
        slots += re.findall(_SLOTS, written)
    if not names and not paths:
        return HostFiles(frozenset(), frozenset(), frozenset(), frozenset(), [])
    names |= {name for name, path in assigned.items() if path in paths}
    found = HostFiles(frozenset(names), frozenset(paths), frozenset(writers), frozenset(), slots)
    about = (index for index, item in enumerate(statements) if index not in writers and _is_about(text, item, found))
    return found._replace(about=frozenset(about))


def with_our_host_file(text: str, hosts: Collection[str]) -> str:
    """Return a script for DeepSpeed with the hostfile of gpuctl in place of its own. It has the same lines."""
    if re.search(_LAUNCHER, text) is None:
        return text
    statements = statements_of_whole(text)
    found = find_host_files(text, statements, hosts)
    edits = ScriptEdits(text)
    for index, statement in enumerate(statements):
        for command in statement.commands if index not in found.writers else ():
            for word in command.words:
                name, equals, path = text[word.start : word.end].partition("=")
                if "\n" in name + path:
                    continue
                if equals and (name in found.names or (path and found.is_one(path) and "$" not in path)):
                    edits.replace(word.start + len(name) + 1, word.end, HOST_FILE)
                elif not equals and found.is_one(name) and "$" not in name:
                    edits.replace(word.start, word.end, HOST_FILE)

    def replaced(match: re.Match[str]) -> str:
        is_path = found.is_one(match["path"]) and "$" not in match["path"]
        return match["option"] + HOST_FILE if is_path else match[0]

    text = re.sub(
        _ONLY_REDIRECTS,
        lambda match: f"{match['pad']}: {match['rest']}" if found.is_one(match["file"]) else match[0],
        edits.result(),
    )
    # An option may be part of a text, as in `CMD="train.py --hostfile hosts"`.
    return re.sub(r"(?P<option>--hostfile[= ])(?P<path>[^\s\"';&|()]+)", replaced, text)


def _report(text: str, statement: Statement, hosts: Collection[str]) -> str | None:
    """Return the file to which a statement adds text without hosts; None if it adds none. Such a file is a report."""
    written = text[statement.start : statement.end]
    is_one = len(statement.commands) == 1 and statement.commands[0].certain
    if not is_one or ">>" not in written or statement.commands[0].name not in ("cat", "echo", "printf"):
        return None
    names_host = re.search(rf"{_LISTED}|{_SLOTS}|\bMASTER_ADDR\b", written) is not None
    return None if names_host or not set(hosts).isdisjoint(re.findall(_USED, written)) else _target(written)


def _asks_for_hosts(text: str, statement: Statement) -> bool:
    """Return True if the steps of a statement print host names, and run no other program."""
    steps = (command for command in statement.commands if command.name == "srun")
    return all(re.search(r"[ \t]hostname\b", text[step.start : step.end]) is not None for step in steps)


def _assigned(text: str, statement: Statement) -> Iterator[tuple[str, str]]:
    for command in statement.commands:
        for word in command.words if assigned_names(command) else ():
            name, equals, value = text[word.start : word.end].partition("=")
            if equals and word.is_assignment:
                yield name, _key(value)


def _key(raw: str) -> str:
    """Return a path as written without quotation marks and braces."""
    return re.sub(r"\$\{(\w+)\}", r"$\1", raw.replace('"', "").replace("'", "")).removeprefix("./")


def _target(written: str) -> str | None:
    """Return the file that a statement writes, as written; None if it writes none, or several."""
    found = {_key(match["file"]) for match in re.finditer(_TARGET, written) if match["to"] is not None}
    files = found - _NOT_FILES
    return files.pop() if len(files) == 1 else None


def _is_about(text: str, statement: Statement, files: HostFiles) -> bool:
    """Return True if a statement only prints, empties or removes the files."""
    written = text[statement.start : statement.end]
    if not statement.commands or {command.name for command in statement.commands} <= {":", "true", "echo"}:
        target = _target(written)
        return target is not None and files.is_one(target)
    return all(_is_file_command(text, command, files) for command in statement.commands)


def _is_file_command(text: str, command: BodyCommand, files: HostFiles) -> bool:
    words = [word for word in command.program[1:] if not word.text.startswith("-")]
    if command.name == "sed":
        words = words[1:]
    return command.name in _ABOUT_FILES and bool(words) and all(_names_file(text, word, files) for word in words)


def _names_file(text: str, word: BodyWord, files: HostFiles) -> bool:
    raw = text[word.start : word.end]
    directory = re.match(r"\"?\$\([ \t]*dirname[ \t]+(\S+?)[ \t]*\)\"?\Z", raw)
    return files.is_one(directory[1] if directory is not None else raw)


def note_host_files(body: BodyState, files: HostFiles, statements: Sequence[Statement]) -> frozenset[str]:
    """Note the statements about files of hosts. Return the variables with paths of files that no pod has."""
    is_mounted = body.facts.nodes > 1 and uses_deepspeed(body.draft.get(COMMAND) or [])
    slots = {word_value(raw, body.values) for raw in files.slots} - {None, "$(GPUCTL_GPUS_PER_NODE)"}
    for index in sorted(files.writers | files.about):
        outcome, note = Outcome.CHANGED, f"gpuctl mounts the list of the job's pods at `{HOST_FILE}`"
        if body.facts.nodes == 1:
            note = "one node needs no list of hosts"
        elif not is_mounted:
            outcome, note = Outcome.DROPPED, "no pod has a list of hosts: the first is `MASTER_ADDR`"
        elif index in files.writers and slots - {str(body.facts.gpus)}:
            outcome = Outcome.DROPPED
            note = f"the hostfile that gpuctl mounts has `slots={body.facts.gpus}`, the GPUs of a node"
        body.remarks.add(body.lines(statements[index].start, statements[index].end), outcome, None, note)
    return files.names if body.facts.nodes > 1 and not is_mounted else frozenset()
