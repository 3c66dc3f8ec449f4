"""Checks of commands as words: whole lines in one item, and syntax that only a shell supports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuctl.frontend.command_advice import (
    SEVERAL_WORDS,
    SHELLS,
    advise_command,
    advise_shell,
    flow_list,
    lacks_script_option,
    option_with_value,
    quote,
)
from gpuctl.frontend.command_lines import Word, command_line, script_of, unwrapped, words_of
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.platform_restrictions import GROUP_ENV, LWS_ENV, MODEL_ENV, reserved_variables
from gpuctl.frontend.shell import is_shell_only
from gpuctl.frontend.slurm_checks import check_slurm, slurm_variables
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.settings import Settings

_OPERATOR = r"(?:&&|\|\|?|\|&|;|&|<|<<<?|[0-9]?>[>|]?|&>>?|[0-9]?>&[0-9])\Z|(?:[0-9]>>?|&>>?|>>?/)\S+\Z"
"""Matches shell operators, and redirections with their file."""
_CONNECTORS = frozenset({"&&", "||", "|", ";", "&"})
_ONE_ITEM = Template("the script is one item")
_VARIABLE = r"(?a)(?<!\$)\$(?:([A-Z_][A-Z0-9_]*)|\{([A-Za-z_]\w*)(?:\}|:?[-=?+]|[#%/^,]))"
_ANY_VARIABLE = r"(?a)(?<!\$)\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})"
_REFERENCE = r"(?a)(?<!\$)\$\(([^()]*)\)"
_SERVICE_VARIABLE = r"_(?:SERVICE_HOST|SERVICE_PORT|PORT)(?:_\w+)?\Z"
"""Matches the end of variables that Kubernetes creates for the Services of a namespace."""
_NAME = r"(?a)[A-Za-z_][\w.-]*\Z"
_REGULAR_EXPRESSION = r"://|[\\^|()]|\.\*"
# Programs with their own meaning of `$`, and programs that expand patterns themselves.
_OWN_DOLLARS = frozenset(
    {"awk", "gawk", "mawk", "jq", "yq", "sed", "perl", "grep", "egrep", "envsubst", "expect", "nginx"}
)
_OWN_PATTERNS = frozenset(
    {
        *("find", "rsync", "tar", "grep", "egrep", "sed", "awk", "jq", "git", "unzip", "pytest", "expr", "fd", "rg"),
        *("aws", "s5cmd", "gsutil", "gcloud", "ossutil", "ossutil64", "mc", "rclone", "hf", "huggingface-cli", "dvc"),
    }
)
_SCRIPT_OPTIONS = frozenset({"-c", "-e", "-E", "--eval", "--execute"})
"""Options whose value is program text, as in `python -c`."""
_PATTERN_OPTION = (
    r"(?i).*(?:include|exclude|pattern|glob|filter|regex|ignore|match|allow|origin|name|files|path\Z|hosts?|ips)"
)


class CheckedCommand(NamedTuple):
    """A command of a document.

    ``references``: the variables that Kubernetes expands in it, as ``$(NAME)``; None if unknown, empty if it expands
    none. ``args``: number of words that come from `args`.
    """

    words: list[Word]
    references: frozenset[str] | None
    args: int = 0


def check_words(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report commands and values of variables that need a shell, or other words."""
    known = _known_variables(model, settings)
    for command in _commands(model, known):
        found = next(_whole_lines(document, command), None)
        if found is not None:
            yield found
        else:
            yield from _without_shell(document, command)
        yield from check_slurm(document, command.words, known)
    yield from _variables(document, model, known)


def _commands(model: Job, known: frozenset[str] | None) -> Iterator[CheckedCommand]:
    """Yield the container's command, the checkpoint's, and those of a podPatch."""
    words = command_line(model)
    if words:
        yield CheckedCommand(words, known, len(model.environment.args))
    if model.job.checkpoint is not None and model.job.checkpoint.command:
        yield CheckedCommand(words_of(model.job.checkpoint.command, ("job", "checkpoint", "command")), frozenset())
    if model.job.on is not None and model.job.on.stop:
        yield CheckedCommand(words_of(model.job.on.stop, ("job", "on", "stop")), frozenset())
    for place, helper in model.helpers:
        words = [*words_of(helper.command, (*place, "command")), *words_of(helper.args, (*place, "args"))]
        if words:
            names = frozenset({"NVIDIA_VISIBLE_DEVICES", *(variable.name for variable in helper.variables)})
            yield CheckedCommand(words, names, len(helper.args))
    patch = model.podPatch if isinstance(model.podPatch, dict) else {}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(_items(patch.get(field))):
            yield from _container_commands(container, ("podPatch", field, index), known)


def _container_commands(
    container: dict[str, object], path: FieldPath, known: frozenset[str] | None
) -> Iterator[CheckedCommand]:
    texts = {field: _texts(container.get(field)) for field in ("command", "args")}
    words = [word for field in texts for word in words_of(texts[field], (*path, field))]
    if words:
        names = {str(item.get("name")) for item in _items(container.get("env"))}
        references = known
        if container.get("name") != "main":
            references = frozenset(names) if "envFrom" not in container else None
        yield CheckedCommand(words, references, len(texts["args"]))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        yield from _exec(container.get(probe), (*path, probe))
    lifecycle = container.get("lifecycle")
    if isinstance(lifecycle, dict):
        for hook in ("postStart", "preStop"):
            yield from _exec(lifecycle.get(hook), (*path, "lifecycle", hook))


def _exec(handler: object, path: FieldPath) -> Iterator[CheckedCommand]:
    """Yield the command of a probe or hook, in which Kubernetes expands nothing."""
    action = handler.get("exec") if isinstance(handler, dict) else None
    texts = _texts(action.get("command")) if isinstance(action, dict) else []
    if texts:
        yield CheckedCommand(words_of(texts, (*path, "exec", "command")), frozenset())


def _items(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []


def _known_variables(model: Job, settings: Settings) -> frozenset[str] | None:
    """Return the container's variables; None if a ConfigMap or Secret adds unknown ones."""
    if model.environment.envFrom:
        return None
    names = {variable.name for variable in model.environment.variables} | {"NVIDIA_VISIBLE_DEVICES", "HF_HOME"}
    names |= reserved_variables(model) or set(MODEL_ENV)
    if model.kind == "inference" and model.resources.nodes > 1:
        names |= GROUP_ENV | LWS_ENV
    pool = settings.external_pools.get(model.resources.pool)
    for patch in (model.podPatch, settings.defaults_of(model.kind).get("podPatch"), pool and pool.podPatch):
        for container in _items(patch.get("containers") if isinstance(patch, dict) else None):
            if container.get("name") == "main":
                if "envFrom" in container:
                    return None
                names |= {str(item.get("name")) for item in _items(container.get("env"))}
    return frozenset(names)


def _whole_lines(document: Document, command: CheckedCommand) -> Iterator[Diagnostic]:
    """Report whole lines in one item, and shell scripts that are not one item."""
    words = command.words
    first, rest, args = words[0], words[1 : len(words) - command.args], words[len(words) - command.args :]
    field = str(first.path[-2])
    if field in ("command", "stop") and re.search(SEVERAL_WORDS, first.text):
        indent = document.column(first.path[:-1])
        lines = [word.text for word in (first, *rest)]
        others = _texts_of(rest)
        if (
            "\n" not in first.text.strip()
            and len(lines) > 1
            and all(re.search(r"\A\w\S*\s+\S", line) for line in lines)
        ):
            hint = advise_shell("\n".join(lines), has_args=bool(args), indent=indent, field=field)
        else:
            hint = advise_command(first.text, others, _texts_of(args), indent=indent, field=field)
        message = say("the program would be called `{text}`, including the blanks", text=shorten(first.text))
        yield document.diagnostic(Severity.WARNING, "GPU509", message, first.path, hint)
        return
    if first.text.rpartition("/")[2] not in SHELLS or len(words) < 2:
        return
    second = words[1]
    script = script_of(words)
    if script is words[-1] and " " not in second.text:
        return
    indent = document.column(first.path[:-1])
    if match := re.match(r"-[A-Za-z]*c\s+(?=\S)", second.text):
        message = say("`{text}` is one argument, and the shell takes it for options", text=shorten(second.text))
        hint = advise_shell(second.text[match.end() :], _texts_of(words[2:]), because=_ONE_ITEM, indent=indent)
        yield document.diagnostic(Severity.WARNING, "GPU512", message, second.path, hint)
    elif lacks_script_option(_texts_of(words)):
        message = say("the shell looks for a file called `{text}`: `-c` is missing", text=shorten(second.text))
        hint = advise_shell(second.text, _texts_of(words[2:]), because=_ONE_ITEM, indent=indent)
        yield document.diagnostic(Severity.WARNING, "GPU512", message, second.path, hint)
    elif script is not None and script is not words[-1] and "$" not in script.text:
        place = next(index for index, word in enumerate(words) if word is script)
        message = say("the shell runs `{text}` alone: what follows are its parameters", text=shorten(script.text))
        in_args = script.path[-2] == "args"
        hint = advise_shell(
            _joined(words[place:]), has_args=bool(args) and not in_args, because=_ONE_ITEM, indent=indent
        )
        yield document.diagnostic(Severity.WARNING, "GPU512", message, words[place + 1].path, hint)


def _texts_of(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words]


def _joined(words: Sequence[Word]) -> str:
    """Return words as a shell line: operators and the words after connectors stay, everything else is quoted."""
    line = [words[0].text]
    for before, word in pairwise(words):
        is_raw = re.match(_OPERATOR, word.text) is not None or before.text in _CONNECTORS
        line.append(word.text if is_raw else quote(word.text))
    return " ".join(line)


def _without_shell(document: Document, command: CheckedCommand) -> Iterator[Diagnostic]:
    """Report shell syntax in words that no shell reads."""
    _, inner = unwrapped(command.words)
    if script_of(inner) is not None:
        return
    program = inner[0].text.rpartition("/")[2] if inner else ""
    if (place := _shell_only_index(command, program)) is not None:
        text = command.words[place].text
        message = say(
            "`{text}` is passed to the program as an argument: no shell reads this command", text=shorten(text)
        )
        if not place:
            message = say("the program would be called `{text}`: no shell reads this command", text=shorten(text))
        indent = document.column(command.words[0].path[:-1])
        hint = advise_shell(_joined(command.words), has_args=command.args > 0, indent=indent)
        yield document.diagnostic(Severity.WARNING, "GPU510", message, command.words[place].path, hint)
        return
    before = ""
    for word in command.words:
        if (pair := option_with_value(word.text)) is not None and not before.startswith("-"):
            message = say(
                "`{text}` is one argument, including the blank: the program expects `{option}`",
                text=shorten(word.text),
                option=pair[1],
            )
            hint = say("write two items: {items}", items=flow_list([pair[1], pair[2]])[1:-1])
            yield document.diagnostic(Severity.WARNING, "GPU509", message, word.path, hint)
        if before not in _SCRIPT_OPTIONS and not (before == "-m" and len(word.text) > 200):
            found = None
            if program not in _OWN_DOLLARS:
                found = _shell_replacement(word.text, command.references)
            if found is None and program not in _OWN_PATTERNS:
                found = _pattern(word.text, before)
            if found is not None:
                severity, part, hint = found
                message = say(
                    "`{part}` is passed to the program unchanged: no shell reads this command", part=shorten(part)
                )
                yield document.within(document.diagnostic(severity, "GPU510", message, word.path, hint), part)
        before = word.text


def _shell_only_index(command: CheckedCommand, program: str) -> int | None:
    """Return the index of the first word that is a shell operator, or of a first word that only a shell can run."""
    if command.words[0].path[-2] != "command":
        return None
    for index, word in enumerate(command.words[1:], start=1):
        # `find -exec` ends its own command with `;`.
        if re.match(_OPERATOR, word.text) and not (word.text == ";" and program in _OWN_PATTERNS):
            return index
    return 0 if is_shell_only(command.words[0].text) else None


def _shell_replacement(text: str, references: frozenset[str] | None) -> tuple[Severity, str, Sentence] | None:
    """Return severity, text and hint of the first part of a word that only a shell replaces; None without one."""
    for _, part, hint in slurm_variables(text, references):
        return Severity.WARNING, part, hint
    shell = say('use ["bash", "-c", "..."]')
    for match in re.finditer(_ANY_VARIABLE, text):
        name = match[1] or match[2]
        if references and name in references:
            return (
                Severity.WARNING,
                match[0],
                say("write `$({name})`, which Kubernetes replaces, or {use_shell}", name=name, use_shell=shell),
            )
    if (variable := re.search(_VARIABLE, text)) is not None:
        name = variable[1] or variable[2]
        if references is None or name.isupper():
            hint = shell
            if references is None:
                hint = say("write `$({name})`, or {use_shell}", name=name, use_shell=shell)
            elif references:
                hint = say("write `$({name})` and set `{name}` in `env`, or {use_shell}", name=name, use_shell=shell)
            return Severity.WARNING, variable[0], hint
    for match in re.finditer(_REFERENCE, text):
        name = match[1]
        if re.match(_NAME, name) is None:
            if re.match(r"[a-z]", name):
                return Severity.WARNING, match[0], shell
        elif references is not None and name not in references and not re.search(_SERVICE_VARIABLE, name):
            hint = (
                say("set `{name}` in `env`: Kubernetes replaces only the container's variables", name=name)
                if references
                else shell
            )
            return Severity.WARNING, match[0], hint
    value = text.partition("=")[2] if text.startswith("-") else text
    if value == "~" or value.startswith("~/"):
        return Severity.WARNING, value, say("write the absolute path: `~` is a shell's")
    if quoted := re.match(r"(?:--?[\w.-]+=)?(`[^`]+`)\Z", text):
        return Severity.WARNING, quoted[1], shell
    return None


def _pattern(text: str, before: str) -> tuple[Severity, str, Sentence] | None:
    """Return severity, text and hint of a file pattern. For the value of an option it is a note: the program may expand
    it.
    """
    name, equals, value = text.partition("=") if text.startswith("-") else (before, "", text)
    if not _is_pattern(value) or re.match(_PATTERN_OPTION, name if name.startswith("-") else ""):
        return None
    is_option = bool(equals) or before.startswith("-")
    if value == "*" and is_option:
        return None
    hint = say('use ["bash", "-c", "..."], unless the program reads patterns itself')
    return (Severity.NOTE if is_option else Severity.WARNING), value, hint


def _is_pattern(text: str) -> bool:
    """Return True for a pattern of file names, as opposed to a pattern of texts: `/data/*.json`, `*.json`."""
    if not ("*" in text or "?" in text) or any(c.isspace() for c in text) or re.search(_REGULAR_EXPRESSION, text):
        return False
    return text == "*" or "/" in text or re.match(r"[\w-]*\*\.\w+\Z", text) is not None


def _variables(document: Document, model: Job, known: frozenset[str] | None) -> Iterator[Diagnostic]:
    """Report values of variables that contain shell syntax, which stays unexpanded."""
    in_list = isinstance(model.environment.env, list)
    for position, variable in enumerate(model.environment.variables):
        found = _unexpanded_part(variable.value or "", variable.name, known)
        if found is not None:
            part, hint = found
            at: FieldPath = (position, "value") if in_list else (variable.name,)
            message = say(
                "`{part}` in `{name}` stays unchanged: no shell reads this value",
                part=shorten(part),
                name=variable.name,
            )
            diagnostic = document.diagnostic(Severity.WARNING, "GPU510", message, ("environment", "env", *at), hint)
            yield document.within(diagnostic, part)


def _unexpanded_part(text: str, variable: str, known: frozenset[str] | None) -> tuple[str, Sentence] | None:
    """Find shell syntax in the value of a variable. Return it and what to write, or None.

    :param variable: its name.
    :param known: the container's variables; None if ``envFrom`` adds unknown ones.
    """
    for _, part, hint in slurm_variables(text, known or frozenset()):
        return part, hint
    for match in re.finditer(_ANY_VARIABLE, text):
        name = match[1] or match[2]
        if name != variable and name in (known or ()):
            return match[0], say("write `$({name})`, which Kubernetes replaces if `{name}` is set before it", name=name)
    if other := re.search(_VARIABLE, text):
        name = other[1] or other[2]
        if name.isupper() and known is None and name != variable:
            return other[0], say("write `$({name})` if `envFrom` sets `{name}`, otherwise the value itself", name=name)
        if name.isupper():
            return other[0], say(
                "write the value: what the image sets `{name}` to is not known here; a script can `export` it",
                name=name,
            )
    if re.match(r"~/\S*\Z", text):
        return text, say("write the absolute path: `~` is a shell's")
    return None
