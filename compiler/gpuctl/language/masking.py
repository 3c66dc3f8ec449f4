"""Masks credentials in output, recognised by their names and by their form.

One module for diagnostics, differences, plans, descriptions and lines of logs that these quote. Manifests and what
`gpuctl logs` prints are not masked. Every function takes linear time, because its input is untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

MASK = "***"
CHANGED = "<masked, changed>"
"""Replaces a new value that differs from the old one if both are masked."""

CREDENTIAL = (
    r"hf_[A-Za-z0-9]{16,}|(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}"
    r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/_-]{20,}"
    # Without the lookbehind, every `eyJ` inside a long word would start a match.
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*"
)
"""Matches tokens of known form: Hugging Face, OpenAI, GitHub, GitLab, AWS, Slack, Google, JSON Web Tokens."""

# Strings until first use: most commands mask nothing, and compiling all patterns slows a cold start.
_PRIVATE_KEY = r"(?s)(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(.*?)(-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
_USER_INFO = r"(://[^\s/@:'\"]*:)([^\s/'\"]+)(@)"
_AUTHORIZATION = r"(?i)(\bbearer[ \t]+|authorization[\"']?[ \t]*[:=][ \t]*[\"']?basic[ \t]+)([\w.~+/=-]{6,})()"
_WORD = r"token|passw(?:or)?d|passphrase|pwd|secret|credentials?|key|signature"
_GIVEN = (
    rf"(?i)((?:{_WORD})[\w-]{{0,40}}(?:=|[ \t]{{1,8}}|[\"'][ \t]{{0,8}}[,:][ \t]{{0,8}}[\"']?)[\"']?)"
    # References and placeholders (`...`, VALUE) are not credentials, nor is the backquote at the end of a command.
    r"(?![$/<-]|\.\.\.|VALUE\b)([^\s\"',\]\[}&;]*[^\s\"',\]\[}&;`])"
)
_LOGGED = (
    r"(?i)((?:token|password|passwd|secret|api[_-]?key|authorization)\w{0,40}[\"']?\s{0,8}[=:]\s{0,8}[\"']?(?:bearer\s{1,8})?)[^\s,;&\"']+"
    r"|\b(?:hf_|sk-|ghp_|glpat-|AKIA)[A-Za-z0-9_-]{8,}"
)
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_SUSPECT = (
    r"(?i)token(?!i[sz])|passw|passphrase|pwd|secret|credential|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|signature|(?:\A|[-_.])key\Z|[a-z]Key\Z"
)
_ABOUT = r"(?i)[-_](?:file|path|dir|name|ref)\Z|\Apwd\Z|\Aoldpwd\Z"
_HARMLESS = r"(?i)-?[\d.]+\Z|true\Z|false\Z|none\Z|null\Z|\Z"
_REFERENCE = r"\$\([\w.-]+\)\Z|\$\{?\w+\}?\Z"
_LONGEST_NAME = 200

# Mappings from user-chosen names to values.
_MAPS = frozenset({"env", "data", "stringData", "annotations"})
_ENTRY = r"(?:\A|\.)(?:env|data|stringData|annotations)(?:\[([^\]]*)\]|\.([^.\[\]]+))(?:\.value)?\Z"
_OPEN: ContextVar[bool] = ContextVar("secrets are shown", default=False)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@contextmanager
def shown() -> Iterator[None]:
    """Show credentials in this context, for a user who asked for it in a terminal."""
    token = _OPEN.set(True)
    try:
        yield
    finally:
        _OPEN.reset(token)


@contextmanager
def hidden() -> Iterator[None]:
    """Mask credentials in this context even if :func:`shown` is active, for text that is stored."""
    token = _OPEN.set(False)
    try:
        yield
    finally:
        _OPEN.reset(token)


def names_a_secret(name: str, value: str = "x") -> bool:
    """Return True if a variable, option or key of this name holds a credential: ``HF_TOKEN``, ``--db-password``.

    Names of locations (``TOKEN_FILE``) and counts of tokens (``MAX_TOKENS``) do not count.
    """
    name = name[-_LONGEST_NAME:].rpartition("/")[2]
    if not _compiled(_SUSPECT).search(name) or _compiled(_ABOUT).search(name) or _compiled(_REFERENCE).match(value):
        return False
    # `--eos-token 2`, `MAX_TOKENS`, `USE_TOKEN=true`: a number is a credential only as a password, a switch never is.
    return not _compiled(_HARMLESS).match(value) or (value != "" and "pass" in name.lower() and value.isdigit())


def holds_a_credential(text: str) -> bool:
    """Return True if a text contains a credential by its form: a token, a private key, a password in a URL."""
    if "PRIVATE KEY-----" in text or _compiled(CREDENTIAL).search(text):
        return True
    return any(match[2][0] not in "$<{" for match in _compiled(_USER_INFO).finditer(text)) if "://" in text else False


def redact(text: str) -> str:
    """Return a text with its credentials replaced by `*`, with the same length and lines."""
    return _masked_text(text, lambda secret: "".join("\n" if char == "\n" else "*" for char in secret))


def masked_log_line(line: str) -> str:
    """Return a line of a program's log without credentials. Also masked is what only may be one, such as the value in
    ``password: x``: programs write them in more forms than documents, and cut them.
    """
    return _compiled(_LOGGED).sub(lambda match: (match[1] or "") + MASK, _masked_text(line, lambda secret: MASK))


def _masked_text(text: str, mask: Callable[[str], str]) -> str:
    if _OPEN.get():
        return text
    if "PRIVATE KEY-----" in text:
        text = _compiled(_PRIVATE_KEY).sub(lambda match: match[1] + mask(match[2]) + match[3], text)
    if "://" in text:
        text = _compiled(_USER_INFO).sub(lambda match: match[1] + mask(match[2]) + match[3], text)
    text = _compiled(_AUTHORIZATION).sub(lambda match: match[1] + mask(match[2]), text)
    text = _compiled(_GIVEN).sub(
        lambda match: match[1] + mask(match[2]) if _is_credential_value(match) else match[0], text
    )
    return _compiled(CREDENTIAL).sub(lambda match: mask(match[0]), text)


def _is_credential_value(match: re.Match[str]) -> bool:
    """Return True if a match is a name with its value: ``--token x`` is, ``the token is`` is not."""
    start = match.start()
    before = match.string[max(0, start - _LONGEST_NAME) : start]
    head = match[1].lstrip(_NAME_CHARACTERS)
    name = before[len(before.rstrip(_NAME_CHARACTERS)) :] + match[1][: len(match[1]) - len(head)]
    sign = head[0]
    if sign in " \t" and not name.startswith("-"):
        return False
    return names_a_secret(name.lstrip("-"), match[2])


def masked(value: Any, path: str = "") -> Any:
    """Return an object, or a part of it, without credentials.

    :param path: its path, as in a plan's changes: ``spec.template.spec.containers[main].env[HF_TOKEN].value``.
    """
    if _OPEN.get():
        return value
    entry = _compiled(_ENTRY).search(path)
    if entry and isinstance(value, str) and names_a_secret(entry[1] or entry[2] or "", value):
        return MASK
    return _masked(value, path.rpartition(".")[2])


def _masked(value: Any, field: str) -> Any:
    if isinstance(value, dict):
        return _masked_map(value, field)
    if isinstance(value, list):
        given = [None, *(item if isinstance(item, str) and item.startswith("-") else None for item in value)]
        return [
            MASK if _is_argument(name, item) else _masked(item, "") for item, name in zip(value, given, strict=False)
        ]
    if not isinstance(value, str):
        return value
    if value.startswith(("{", "[")):
        # The document in an annotation, or kubectl's last-applied configuration.
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            inner = None
        if isinstance(inner, (dict, list)) and (found := _masked(inner, "")) != inner:
            return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return _masked_text(value, lambda secret: MASK)


def _is_argument(option: str | None, item: Any) -> bool:
    """Return True if an item of a command line is the secret value of the option before it."""
    if option is None or "=" in option or not isinstance(item, str) or item.startswith("-"):
        return False
    return names_a_secret(option.lstrip("-"), item)


def _masked_map(value: dict[Any, Any], field: str) -> dict[Any, Any]:
    name, text = value.get("name"), value.get("value")
    if isinstance(name, str) and isinstance(text, str) and names_a_secret(name, text):
        return {**value, "value": MASK}
    is_secret = value.get("kind") == "Secret"
    result: dict[Any, Any] = {}
    for key, item in value.items():
        if is_secret and key in ("data", "stringData") and isinstance(item, dict):
            result[key] = dict.fromkeys(item, MASK)
        elif field in _MAPS and isinstance(item, str) and names_a_secret(str(key), item):
            result[key] = MASK
        else:
            result[key] = _masked(item, str(key))
    return result


def masked_pair(old: Any, new: Any, path: str = "") -> tuple[Any, Any]:
    """Return two values of one field, both masked. If a masked value changed, the new one is marked as changed."""
    return _marked_changes(old, new, masked(old, path), masked(new, path))


def _marked_changes(old: Any, new: Any, shown_old: Any, shown_new: Any) -> tuple[Any, Any]:
    if old == new or old is None or new is None:
        return shown_old, shown_new
    if isinstance(shown_old, dict) and isinstance(shown_new, dict):
        both = shown_old.keys() & shown_new.keys()
        pairs = {key: _marked_changes(old[key], new[key], shown_old[key], shown_new[key]) for key in both}
        return (
            {**shown_old, **{key: pair[0] for key, pair in pairs.items()}},
            {**shown_new, **{key: pair[1] for key, pair in pairs.items()}},
        )
    if isinstance(shown_old, list) and isinstance(shown_new, list):
        result = list(shown_new)
        places = _places(old)
        for index, (item, key) in enumerate(zip(new, _places(new), strict=True)):
            if key in places:
                before = places[key]
                _, result[index] = _marked_changes(old[before], item, shown_old[before], shown_new[index])
        return shown_old, result
    if shown_old != shown_new:
        return shown_old, shown_new
    return shown_old, CHANGED if shown_new == MASK else f"{shown_new} {CHANGED}"


def _places(items: list[Any]) -> dict[Any, int]:
    """Return the index of each item of a list, by name if all items have one, else by number."""
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    if None in names or len({*map(str, names)}) < len(names):
        return {number: number for number in range(len(items))}
    return {str(name): number for number, name in enumerate(names)}


_NAMED_LINE = r"\s*(?:- )?name: [\"']?([^\s\"']+)"
_VALUE_LINE = r"(\s*(?:- )?value: )(.+)"
_ITEM_LINE = r"(\s*- )(.+)"
_PAIR_LINE = r"(\s*(?:- )?[\"']?([\w./-]{1,200})[\"']?: )(.+)"
_KIND_LINE = r"kind: [\"']?Secret[\"']?\s*(?:#.*)?"
_DATA_LINE = r"(?:data|stringData):(\s.*)?"
# Fields of Kubernetes and of documents that name a Secret, or a key in it.
_STRUCTURE = frozenset({"key", "secret", "secretName", "secretKeyRef", "secretRef", "imagePullSecret", "pullSecret"})


def masked_lines(text: str) -> list[str]:
    """Return the lines of a YAML text without credentials, the same number of lines, for diffs of files."""
    lines = redact(text).split("\n")
    if _OPEN.get():
        return lines
    of_secrets = _lines_of_secrets(lines)
    name = option = ""
    for number, line in enumerate(lines):
        value, pair, item = (_compiled(pattern).fullmatch(line) for pattern in (_VALUE_LINE, _PAIR_LINE, _ITEM_LINE))
        if number in of_secrets:
            lines[number] = (pair[1] if pair else line[: len(line) - len(line.lstrip())]) + MASK
        elif value and names_a_secret(name, value[2].strip("\"'")):
            lines[number] = value[1] + MASK
        elif pair and pair[2] not in _STRUCTURE and names_a_secret(pair[2], pair[3].strip("\"'")):
            lines[number] = pair[1] + MASK
        elif item and option and _is_argument(option, item[2].strip("\"'")):
            lines[number] = item[1] + MASK
        named = _compiled(_NAMED_LINE).match(line)
        name = named[1] if named else name if value is None else ""
        said = item[2].strip("\"'") if item else ""
        option = said if said.startswith("-") else ""
    return lines


def _lines_of_secrets(lines: list[str]) -> set[int]:
    """Return the numbers of the lines that contain values of Kubernetes Secrets."""
    found: set[int] = set()
    data: list[int] = []
    is_secret = is_data = False
    for number, line in enumerate([*lines, "---"]):
        if line.startswith("---"):
            found.update(data if is_secret else ())
            data, is_secret, is_data = [], False, False
        elif line and line[0] not in " \t#":
            is_secret = is_secret or _compiled(_KIND_LINE).fullmatch(line) is not None
            start = _compiled(_DATA_LINE).fullmatch(line)
            is_data = start is not None
            if start and (start[1] or "").strip():
                data.append(number)
        elif is_data and line.strip():
            data.append(number)
    return found
