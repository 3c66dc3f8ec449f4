"""Checks for credentials in commands and variables: they would be in the pod's spec, in git and in process lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuctl.frontend.command_lines import Word, command_line, programs_of
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.environment_block import Environment
from gpuctl.language.helper_block import HelperContainer
from gpuctl.language.kinds import Job
from gpuctl.language.masking import holds_a_credential, names_a_secret
from gpuctl.language.sentences import Sentence, say

# Names that end so hold only credentials. For other names that masking knows, such as KAGGLE_KEY, the value decides.
_NAME = r"(?i)(?:.*[-_.])?(?:token|pwd|secret|credentials?|passphrase|(?:api|access|secret|private|auth)[-_]?key)\Z"
_PASSWORD = r"(?i).*passw(?:or)?d\Z"  # noqa: S105 - names
_TOKENIZER_NAME = r"(?i)(?:.*_)?(?:eos|bos|pad|unk|sep|cls|mask|special|stop|image|start|end)_token\Z"
_RANDOM = r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.-]{16,}\Z"
_OPTION = r"(?i)--?(?:[\w-]+\.)*(?:[\w-]*[-_])?(?:token|password|passwd|secret|api[-_]?key)\Z"
_REFERENCE = r"\$\([A-Za-z_][\w.-]*\)|\$\{?[A-Za-z_]"


def check_credentials(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report credentials by their form, and by the names of the options and variables that hold them."""
    words = command_line(model)
    said: set[FieldPath] = set()
    for word, message, name in _credentials_in_words(words):
        if word.path not in said:
            said.add(word.path)
            diagnostic = _credential(document, word.path, message, name)
            yield document.within(diagnostic, word.text, word.earlier) if word.in_script else diagnostic
    yield from _variable_credentials(document, model)


def _credentials_in_words(words: Sequence[Word]) -> Iterator[tuple[Word, Sentence, str | None]]:
    """Yield the words that hold a credential, each with the message and the option (None without one)."""
    for index, word in enumerate(words):
        name, value, target = _pair(words, index)
        if name.startswith("-") and re.match(_OPTION, name) and _may_be_secret(value):
            yield target, say("`{name}` gives a credential in the command", name=name), name
        elif holds_a_credential(word.text) and not (index and re.match(_OPTION, words[index - 1].text)):
            yield word, say("the command holds what looks like a credential"), None
    for program in programs_of(words):
        inside = [word for word in (*program.variables, *program.words) if word.in_script]
        for index, word in enumerate(inside):
            name, value, target = _pair(inside, index)
            if re.match(_OPTION, name) and _may_be_secret(value):
                yield target, say("`{name}` gives a credential in the command", name=name), name
            elif "=" in word.text and _is_secret(name, value):
                yield word, say("the script sets `{name}` to a credential", name=name), None


def _pair(words: Sequence[Word], index: int) -> tuple[str, str, Word]:
    """Return an option or variable, its value, and the word that contains the value."""
    word = words[index]
    name, equals, value = word.text.partition("=")
    if equals or index + 1 == len(words):
        return name, value, word
    return name, words[index + 1].text, words[index + 1]


def _is_secret(name: str, value: str) -> bool:
    """Return True if a variable holds a credential, judged by its name."""
    if not names_a_secret(name, value) or not _may_be_secret(value) or re.match(_TOKENIZER_NAME, name):
        return False
    return (
        re.match(_NAME, name) is not None
        or re.match(_PASSWORD, name) is not None
        or re.match(_RANDOM, value) is not None
    )


def _may_be_secret(value: str) -> bool:
    """Return True if a value may be a credential: not a reference, a number, a file or the next option."""
    value = value.strip("'\"")
    return value != "" and not value.isdigit() and value[0] not in "-/<[{" and not re.search(_REFERENCE, value)


def _variable_credentials(document: Document, model: Job) -> Iterator[Diagnostic]:
    containers: list[tuple[FieldPath, Environment | HelperContainer]] = [(("environment",), model.environment)]
    containers += model.helpers
    for place, container in containers:
        for position, variable in enumerate(container.variables):
            value = variable.value or ""
            if holds_a_credential(value):
                message = say("the variable `{name}` holds what looks like a credential", name=variable.name)
            elif _is_secret(variable.name, value):
                message = say("the variable `{name}` holds a credential, by its name", name=variable.name)
            else:
                continue
            path: FieldPath = (*place, "env", variable.name)
            if isinstance(container.env, list):
                path = (*place, "env", position, "value")
            hint = say(
                "write `secret: NAME` and `key: KEY` instead of the value, after `kubectl create secret generic NAME "
                "--from-literal=KEY=...`"
            )
            yield document.diagnostic(Severity.WARNING, "GPU507", message, path, hint)


def _credential(document: Document, path: tuple[str | int, ...], message: Sentence, name: str | None) -> Diagnostic:
    option_text = f"`{name}=$(TOKEN)`" if name else "`$(TOKEN)`"
    hint = say(
        "keep it in a Secret: `kubectl create secret generic NAME --from-literal=token=...`, then `env: "
        "[{{name: TOKEN, secret: NAME, key: token}}]` and {option} in the command",
        option=option_text,
    )
    return document.diagnostic(Severity.WARNING, "GPU507", message, path, hint)
