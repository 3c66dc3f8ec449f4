"""Imports commands of Arena: `arena submit` as trainings, `arena serve` as inferences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuctl.frontend.platform_restrictions import is_reserved_key
from gpuctl.frontend.shell_lexer import NotUnderstood
from gpuctl.frontend.source import Source
from gpuctl.importing.arena_options import (
    CLIENT,
    COPIED_DATA,
    DROPPED,
    DROPPED_PATTERNS,
    FLAGS,
    OTHER_JOBS,
    SERVICE_FLAGS,
    TFJOB_FLAGS,
)
from gpuctl.importing.arena_programs import FRAMEWORKS, PYTORCH, arena_program
from gpuctl.importing.arena_words import ArenaFlag, ArenaWord, split_flags, verb_place
from gpuctl.importing.card_resources import card_kinds, set_card_kind
from gpuctl.importing.carried_fields import PATCHED, SET_BY_GPUCTL
from gpuctl.importing.draft import Draft
from gpuctl.importing.environment_variables import take_variable
from gpuctl.importing.field_values import MOST_DIGITS, at_most, number_or_text, short_duration
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing, Unreadable, check_script
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.body_syntax import BodyCommand, statements_of
from gpuctl.importing.slurm.shell_values import Value, constant_of, words_of
from gpuctl.importing.slurm.text_places import LineBreaks
from gpuctl.language.array_block import MOST_RETRIES
from gpuctl.language.settings import DEFAULT_PRIORITIES
from gpuctl.objects.quantities import whole_number

TOOL = "Arena"
_ABOUT_SERVICES = frozenset(
    ["attach", "delete", "get", "list", "logs", "traffic-router-split", "traffic-split", "update", "--help", "-h"]
)
_ANY_TEXT = frozenset({"annotation", "env", "label"})
_PORTS = {
    "port": "grpc",
    "restful-port": "http",
    "http-port": "http",
    "grpc-port": "grpc",
    "metrics-port": "metrics",
    "metric-port": "metrics",
}
"""Flag of a port -> the name of a further port. The first one of a command is `service.port`."""
_SYNC = "GIT_SYNC_"
"""Begin of the names of variables that Arena gives to the container that fetches the code."""


def import_arena_commands(source: Source, given: Given) -> Imported:
    """Return the documents of the `arena submit` and `arena serve` commands of a script.

    :raises Unreadable: the script is not valid, or has no such command.
    """
    text = source.text.replace("\r\n", "\n")
    check_script(text, "split it, and import each part")
    try:
        statements = statements_of(text)
    except NotUnderstood:
        hint = "`bash -n FILE` names the place"
        raise Unreadable(1, "the script has a quotation mark or bracket that is not closed", hint) from None
    ledger = LineLedger()
    breaks = LineBreaks(text)
    values: dict[str, Value] = {}
    drafts: list[Draft] = []
    missing: list[Missing] = []
    number = sum(statement.single is not None and _is_job(statement.single) for statement in statements)
    for statement in statements:
        lines = breaks.lines(statement.start, statement.end)
        written = text[statement.start : statement.end]
        single = statement.single
        if single is not None and _is_job(single):
            own = given.of_job(len(drafts), number)
            job = _ArenaJob(text, breaks, single, values, source.name, own, ledger)
            drafts.append(job.draft)
            missing += job.take()
        elif single is not None and not single.program and (value := constant_of(text, single.words[0], values)):
            values[single.words[0].text.split("=", 1)[0]] = value
            ledger.mapped(lines, written, None, "its value is in the documents")
        elif not (lines[0] == 1 and written.startswith("#!")):
            ledger.dropped(lines, written, "it starts no job, as `arena submit` and `arena serve` do")
    if not drafts:
        raise Unreadable(1, "the file has no `arena submit` or `arena serve`", "name a script with one, without a pipe")
    if text.startswith("#!"):
        ledger.mapped(1, text.split("\n", 1)[0], None)
    return Imported(TOOL, drafts, ledger.entries(), missing)


def _is_job(command: BodyCommand) -> bool:
    """Return True for a command that starts a job or a service."""
    words = [word.text for word in command.program]
    place = verb_place(words)
    if place is None:
        return False
    return words[place] == "submit" or words[place + 1 : place + 2] == [] or words[place + 1] not in _ABOUT_SERVICES


class _ArenaJob:
    """One command of Arena."""

    def __init__(
        self,
        text: str,
        breaks: LineBreaks,
        command: BodyCommand,
        values: dict[str, Value],
        source: str,
        given: Given,
        ledger: LineLedger,
    ) -> None:
        self.ledger = ledger
        self.given = given
        program = command.program
        verb = verb_place([word.text for word in program]) or 1
        self.is_service = program[verb].text == "serve"
        self.draft = Draft("inference" if self.is_service else "training", source, TOOL, given.settings)
        self.line = breaks.before(command.start) + 1
        self.type = program[verb + 1].text if len(program) > verb + 1 else ""
        words = [
            (words_of(text, [word], values) or [text[word.start : word.end]], word)
            for word in (*program[1:verb], *program[verb + 2 :])
        ]
        self.words = [ArenaWord(item, breaks.lines(word.start, word.end)) for items, word in words for item in items]
        self.shell = "sh"
        self.secrets: list[str] = []
        self.syncs_data = any(re.search(r"rsync\Z", word.text) for word in self.words)
        self.gpus = given.gpus_per_node or 0
        self.nodes = 1
        if given.nodes is not None and not self.is_service:
            self.nodes = given.nodes
            if self.nodes > 1:
                self.draft.set("resources.nodes", self.nodes)
        own = SERVICE_FLAGS if self.is_service else TFJOB_FLAGS if FRAMEWORKS.get(self.type) == "tensorflow" else {}
        self.fields = {**FLAGS, **own}
        self.actions: dict[str, Callable[[ArenaFlag], bool]] = {
            "active-deadline-seconds": self._deadline,
            "annotation": lambda flag: self._pair(flag, "job.annotations"),
            "config-file": lambda flag: False,
            "data": self._data,
            "data-dir": self._data_dir,
            "env": self._env,
            "gpumemory": self._gpu_memory,
            "device": self._device,
            "gpus": self._gpus,
            "image-pull-policy": self._pull_policy,
            "image-pull-secret": self._pull_secret,
            "shell": self._shell,
            "toleration": self._toleration,
            **(dict.fromkeys(_PORTS, self._port) if self.is_service else {}),
            "hostIPC": lambda flag: self._switch(flag, "podPatch.hostIPC"),
            "hostPID": lambda flag: self._switch(flag, "podPatch.hostPID"),
            "hostNetwork": lambda flag: self._switch(flag, "resources.network.hostNetwork"),
            "job-backoff-limit": self._retries,
            "label": lambda flag: self._pair(flag, "job.labels"),
            "name": self._name,
            "priority": self._priority,
            "retry": self._retries,
            "rdma": lambda flag: self._switch(flag, "resources.network.rdma"),
            "selector": self._selector,
            "temp-dir": self._temporary,
            "workers": self._workers,
        }

    def take(self) -> list[Missing]:
        """Take the flags and the program. Return what is missing."""
        flags, rest = split_flags(self.words)
        shown = f"arena {'serve' if self.is_service else 'submit'} {self.type}"
        if self.is_service:
            self.draft.set("service.type", "ClusterIP", self.line)
        if not self.is_service and FRAMEWORKS.get(self.type) != PYTORCH:
            other = "starts its processes in another way: use torchrun, or `roles` for other programs"
            note = f"`{self.type}` {OTHER_JOBS.get(self.type.removesuffix('job'), other)}"
            self.ledger.changed(self.line, shown, "kind", note)
        elif self.is_service and self.type != "custom":
            note = f"`{self.type}` starts a server of its own: write it into `environment.command`"
            self.ledger.changed(self.line, shown, "kind", note)
        else:
            self.ledger.mapped(self.line, shown, "kind")
        for flag in flags:
            if flag.name == "command" and not rest:
                rest = [ArenaWord(flag.value, flag.lines)]
            else:
                self._flag(flag)
        self._program(rest)
        return set_given_values(self.draft, self.given, self.ledger, self.line, has_gpus=self.gpus > 0)

    def _flag(self, flag: ArenaFlag) -> None:
        field = self.fields.get(flag.name)
        action = self.actions.get(flag.name)
        is_known = "$" not in flag.value or flag.name in _ANY_TEXT
        if flag.name in CLIENT:
            self.ledger.mapped(flag.lines, flag.text, None, "it is an option of the client")
            return
        if is_known and action is not None and action(flag):
            return
        if is_known and field is not None and action is None:
            self._set(flag, field, number_or_text(flag.value))
        elif not is_known and (field is not None or action is not None):
            self.ledger.dropped(
                flag.lines, flag.text, f"`{flag.value}` is not known: write its value into the document"
            )
        else:
            note = next(note for pattern, note in DROPPED_PATTERNS.items() if re.match(pattern, flag.name))
            is_data = flag.name.startswith("sync-") and self.syncs_data
            note = COPIED_DATA if is_data else DROPPED.get(flag.name, note)
            self.ledger.dropped(flag.lines, flag.text, note)

    def _set(self, flag: ArenaFlag, field: str, value: object, note: str | None = None) -> bool:
        self.draft.set(field, value, flag.lines)
        self.ledger.taken(flag.lines, flag.text, field, note)
        return True

    def _append(self, flag: ArenaFlag, field: str, item: object, note: str | None = None) -> bool:
        self.draft.append(field, item, flag.lines)
        self.ledger.taken(flag.lines, flag.text, field, note)
        return True

    def _switch(self, flag: ArenaFlag, field: str) -> bool:
        if flag.value == "true":
            return self._set(flag, field, True)
        self.ledger.mapped(flag.lines, flag.text, field)
        return True

    def _name(self, flag: ArenaFlag) -> bool:
        name, note = self.given.job_name(flag.value)
        if name is None:
            return False
        return self._set(flag, "job.name", name, note)

    def _gpus(self, flag: ArenaFlag) -> bool:
        number = whole_number(flag.value)
        if number is None and self.given.gpus_per_node is None:
            return False
        return self._set(flag, "resources.gpu", self._number_of_gpus(number or 0))

    def _number_of_gpus(self, number: int) -> int:
        """Return the number of GPUs of a pod: that of the command line, or of a flag."""
        self.gpus = number if self.given.gpus_per_node is None else self.given.gpus_per_node
        return self.gpus

    def _gpu_memory(self, flag: ArenaFlag) -> bool:
        number = whole_number(flag.value)
        if not number:
            return False
        if self.draft.get("resources.gpu") is None:
            self.draft.set("resources.gpu", self._number_of_gpus(1), flag.lines)
        return self._set(flag, "resources.gpu-share", f"{number}Gi")

    def _device(self, flag: ArenaFlag) -> bool:
        name, _, value = flag.value.partition("=")
        number, kind = whole_number(value), card_kinds(self.draft.settings).get(name)
        if number is None or kind is None:
            return False
        note = set_card_kind(self.draft, kind, flag.lines)
        return self._set(flag, "resources.gpu", self._number_of_gpus(number), note)

    def _pull_secret(self, flag: ArenaFlag) -> bool:
        self.secrets.append(flag.value)
        return self._set(flag, "environment.imagePullSecret", self.secrets if self.secrets[1:] else flag.value)

    def _pull_policy(self, flag: ArenaFlag) -> bool:
        if flag.value == SET_BY_GPUCTL["imagePullPolicy"]:
            self.ledger.mapped(flag.lines, flag.text, None, "gpuctl sets it")
        else:
            field = "podPatch.containers"
            self.draft.append(field, {"name": "main", "imagePullPolicy": flag.value}, flag.lines)
            self.ledger.changed(flag.lines, flag.text, f"{field}[].imagePullPolicy", PATCHED)
        return True

    def _shell(self, flag: ArenaFlag) -> bool:
        self.shell = flag.value
        self.ledger.mapped(flag.lines, flag.text, "environment.command")
        return True

    def _port(self, flag: ArenaFlag) -> bool:
        number = whole_number(flag.value)
        if not number:
            return False
        if self.draft.get("service.port") is None:
            return self._set(flag, "service.port", number)
        return self._append(flag, "service.ports", {"name": _PORTS[flag.name], "port": number})

    def _toleration(self, flag: ArenaFlag) -> bool:
        found = re.match(r"(?P<key>[^=:,]+)=(?P<value>[^:,]*):(?P<effect>\w+),(?P<operator>\w+)\Z", flag.value)
        if found is not None:
            value = {key: text for key, text in found.groupdict().items() if text}
        elif flag.value == "all":
            value = {"operator": "Exists"}
        elif re.match(r"[\w./-]+\Z", flag.value):
            value = {"key": flag.value, "operator": "Exists"}
        else:
            return False
        return self._append(flag, "podPatch.tolerations", value, PATCHED)

    def _workers(self, flag: ArenaFlag) -> bool:
        number = self.given.nodes or whole_number(flag.value)
        if not number:
            return False
        self.nodes = number
        if number > 1:
            return self._set(flag, "resources.nodes", number)
        self.ledger.mapped(flag.lines, flag.text, "resources.nodes")
        return True

    def _env(self, flag: ArenaFlag) -> bool:
        name, equals, value = flag.value.partition("=")
        if name.startswith(_SYNC):
            self.ledger.dropped(flag.lines, flag.text, DROPPED["sync-mode"])
            return True
        if not equals or value.startswith("$"):
            return False
        field, note = take_variable(self.draft, name, value, flag.lines)
        self.ledger.taken(flag.lines, flag.text, field, note)
        return True

    def _pair(self, flag: ArenaFlag, field: str) -> bool:
        name, equals, value = flag.value.partition("=")
        if not equals or is_reserved_key(name, self.draft.settings):
            return False
        self.draft.set_item(field, name, value, flag.lines)
        self.ledger.mapped(flag.lines, flag.text, f"{field}.{name}")
        return True

    def _data(self, flag: ArenaFlag) -> bool:
        claim, colon, path = flag.value.partition(":")
        if not colon or not path.startswith("/") or ":" in path:
            return False
        return self._append(flag, "storage.workdirs", {"path": path, "pvc": {"claim": claim}})

    def _data_dir(self, flag: ArenaFlag) -> bool:
        path, _, target = flag.value.partition(":")
        if not path.startswith("/"):
            return False
        mount = {"path": path, **({"mountPath": target} if target and target != path else {})}
        return self._append(flag, "storage.workdirs", mount)

    def _temporary(self, flag: ArenaFlag) -> bool:
        _, colon, path = flag.value.partition(":")
        if not colon or not path.startswith("/"):
            return False
        return self._append(flag, "storage.workdirs", {"path": path, "emptyDir": {}})

    def _deadline(self, flag: ArenaFlag) -> bool:
        seconds = whole_number(flag.value, MOST_DIGITS)
        return self._set(flag, "job.max_runtime", short_duration(seconds) if seconds else flag.value)

    def _retries(self, flag: ArenaFlag) -> bool:
        number = whole_number(flag.value)
        return number is not None and self._set(flag, "job.retries", *at_most(number, MOST_RETRIES))

    def _priority(self, flag: ArenaFlag) -> bool:
        return flag.value in DEFAULT_PRIORITIES and self._set(flag, "job.priority", flag.value)

    def _selector(self, flag: ArenaFlag) -> bool:
        name, equals, value = flag.value.partition("=")
        if self.given.pool is not None:
            self.ledger.changed(flag.lines, flag.text, "resources.pool", "--pool selects the nodes")
        elif equals and name:
            self.draft.set_item("podPatch.nodeSelector", name, value, flag.lines)
            self.ledger.changed(flag.lines, flag.text, "podPatch.nodeSelector", PATCHED)
        return self.given.pool is not None or bool(equals and name)

    def _program(self, rest: Sequence[ArenaWord]) -> None:
        """Set the command, which Arena gives to a shell as one text."""
        text = " ".join(word.text for word in rest)
        if not text:
            return
        lines = range(rest[0].lines.start, rest[-1].lines.stop)
        found = arena_program(text, self.shell, self.nodes, self.gpus, self.type)
        if found.port is not None:
            self.draft.set("job.master_port", found.port, lines[0])
        self.draft.set("environment.command", found.words, lines)
        self.ledger.taken(lines, text, "environment.command", found.note)
