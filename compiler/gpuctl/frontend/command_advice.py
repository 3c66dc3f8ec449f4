"""Hints for a command that was not written as a list: the list to write, or a shell to run the text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from gpuctl.frontend.full_width import ascii_meant
from gpuctl.frontend.shell import read_command
from gpuctl.frontend.shell_lexer import ShellWord
from gpuctl.language.sentences import Sentence, Template, say

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
SEVERAL_WORDS = r"\S\s+-?\S"
"""Matches a text of several words."""
_MAX_LENGTH = 8000
"""Longest command that a hint repeats, characters."""
_WORKFLOW_COMMAND = r"(?m)^\s*(?:::|##\[)"
"""Matches lines that a CI system would execute as its own commands when they are printed."""
_COMMAND_START = (
    r"(?a)(?:cd|export|source|set|pip3?|python[0-9.]*|torchrun|accelerate|deepspeed|vllm|bash|sh|conda|apt|apt-get|git|mkdir"
    r"|cp|mv|ls|echo|wget|curl|jupyter|llamafactory-cli)\s"
)
"""Matches a line that starts a command of its own, as opposed to arguments of the line before."""
_TOO_LONG = Template('write one list item a word, or `command: ["bash", "-c", SCRIPT]` with the text as SCRIPT')
_NOT_CLOSED = Template("a quotation mark is not closed: close it, and write one list item a word")
ONLY_SHELL = Template("only a shell understands this")
_WRITE = Template("{because}; write{command}")
_WITHOUT_ARGS = Template("{because}; remove `args` and write{command}")
_ADD = Template("{because}; add {words} behind its program, and write{command}")
_ADD_WITHOUT_ARGS = Template("{because}; remove `args`, add {words} behind its program, and write{command}")
_VARIABLE = r"(?a)(?<![\\$])\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"


def advise_command(
    text: str, rest: Sequence[str] = (), args: Sequence[str] = (), *, indent: int | None, field: str = "command"
) -> Sentence:
    """Return the hint for a command that was written as one text.

    :param rest: the other items of the list whose first item is ``text``.
    :param args: the words of `args`, which are appended to the command.
    :param indent: column of the key `command`; None if the hint must be one line.
    :param field: the name of the command's field.
    """
    if len(text) > _MAX_LENGTH:
        return say(_TOO_LONG)
    text = ascii_meant(text)
    if (quoted := _quoted_list(text)) is not None and not rest:
        return say("remove the quotation marks around the list: {words}", words=flow_list(quoted))
    reading = read_command(text)
    if reading.words is None and not reading.needs_shell:
        return say(_NOT_CLOSED)
    if reading.words is not None and not reading.needs_shell:
        words = [*map(_as_item, reading.words), *(part for word in rest for part in _split_option(word))]
        if lacks_script_option(words):
            return advise_shell(words[1], words[2:], indent=indent, field=field)
        return say("write a list: {words}", words=flow_list(words))
    script = text.replace("$$", "$$$$")
    return advise_shell(script, [*rest, *args], has_args=bool(args), indent=indent, field=field)


def advise_args(text: str, command: Sequence[str], *, indent: int | None) -> Sentence:
    """Return the hint for `args` that were written as one text. ``command``: the words of `command`, may be empty."""
    if len(text) > _MAX_LENGTH:
        return say(_TOO_LONG)
    text = ascii_meant(text)
    if (quoted := _quoted_list(text)) is not None:
        return say("remove the quotation marks around the list: {words}", words=flow_list(quoted))
    if is_shell(command):
        return say("write a list of one item: {words}", words=flow_list([text.strip().replace("$$", "$$$$")]))
    # Options are often written one per line, with shell variables.
    options = text.strip().replace("\n", " ") if text.lstrip().startswith("-") else text
    reading = read_command(re.sub(_VARIABLE, lambda match: f"$({match[1] or match[2]})", options))
    if not reading.needs_shell:
        if not reading.words:
            return say(_NOT_CLOSED)
        return say("write a list: {words}", words=flow_list([*map(_as_item, reading.words)]))
    script = " ".join([*map(quote, command), text.strip().replace("$$", "$$$$")])
    return advise_shell(script, has_args=True, indent=indent)


def advise_shell(
    script: str,
    rest: Sequence[str] = (),
    *,
    has_args: bool = False,
    because: Template = ONLY_SHELL,
    indent: int | None,
    field: str = "command",
) -> Sentence:
    """Return the hint to run a script with bash.

    :param rest: words to append to the script's last line.
    :param has_args: True if the document has `args`, which the script now contains.
    :param field: the name of the command's field.
    """
    if len(script) + sum(map(len, rest)) > _MAX_LENGTH:
        return say(_TOO_LONG)
    # To a shell a carriage return is part of the word before it.
    script = script.replace("\r\n", "\n").strip()
    template = _WITHOUT_ARGS if has_args else _WRITE
    last_line = script[script.rfind("\n") + 1 :]
    if not script.endswith("&") and not any(sign in last_line for sign in "|;#>"):
        script = " ".join([script, *map(quote, rest)])
    elif rest:
        template = _ADD_WITHOUT_ARGS if has_args else _ADD
    if indent is None or "\n" not in script or _is_hard_to_print(script):
        command = f" {field}: {flow_list(['bash', '-c', script])}"
        return say(template, because=say(because), words=flow_list(rest), command=command)
    margin = " " * indent
    lines = [f":\n{margin}{field}:", f"{margin}  - bash", f"{margin}  - -c", f"{margin}  - |"]
    lines += [f"{margin}    {line}" if line.strip() else "" for line in script.split("\n")]
    return say(template, because=say(because), words=flow_list(rest), command="\n".join(lines))


def unfolded(written: str) -> str | None:
    """Return the lines of a text that YAML folds into one line if a later line starts another command; else None."""
    lines = [line.strip() for line in written.strip().split("\n")]
    lines = [line for line in (lines[1:] if lines[0].startswith(">") else lines) if line]
    if lines and not lines[0].startswith(("|", "'", '"')) and any(re.match(_COMMAND_START, line) for line in lines[1:]):
        return "\n".join(lines)
    return None


def is_shell(words: Sequence[str]) -> bool:
    """Return True if the words end in a shell's option ``-c``, so that a script must follow."""
    names = [word.rpartition("/")[2] for word in words]
    return len(words) > 1 and any(name in SHELLS for name in names) and re.match(r"-[a-z]*c\Z", words[-1]) is not None


def lacks_script_option(words: Sequence[str]) -> bool:
    """Return True for a shell whose script lacks ``-c``: the shell would open a file of that name."""
    is_given = len(words) > 1 and words[0].rpartition("/")[2] in SHELLS
    return is_given and not words[1].startswith(("-", "+")) and re.search(SEVERAL_WORDS, words[1]) is not None


def flow_list(words: Sequence[str]) -> str:
    """Return words as a YAML list on one line: ``["python", "train.py"]``."""
    return f"[{', '.join(map(_double_quoted, words))}]"


def quote(word: str) -> str:
    """Return a word quoted for a shell. Kubernetes references, ``$(NAME)``, are not quoted."""
    if word and re.search(r"(?a)[^\w@%+=:,./-]", re.sub(r"(?a)\$\([A-Za-z_][\w.-]*\)", "", word)) is None:
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def option_with_value(text: str) -> re.Match[str] | None:
    """Match an item that holds an option and its value: ``--lr 1``."""
    return re.match(r"(--?[A-Za-z][\w.-]*)[ \t]+(\S.*)\Z", text)


def _split_option(word: str) -> list[str]:
    match = option_with_value(word)
    return [match[1], match[2]] if match else [word]


def _as_item(word: ShellWord) -> str:
    """Return a shell word as a list item, with ``$`` escaped where Kubernetes would expand ``$$`` or ``$(NAME)``."""
    return word.text.replace("$", "$$") if word.known and re.search(r"\$[$(]", word.text) else word.text


def _quoted_list(text: str) -> list[str] | None:
    """Return the words of a list that was written as quoted text; None for any other text."""
    if not text.strip().startswith("["):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def _is_hard_to_print(script: str) -> bool:
    """Return True if the lines of a script cannot be copied from a terminal, or would be executed by a CI system."""
    return not script.replace("\n", "").isprintable() or re.search(_WORKFLOW_COMMAND, script) is not None


def _double_quoted(word: str) -> str:
    text = json.dumps(word, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
