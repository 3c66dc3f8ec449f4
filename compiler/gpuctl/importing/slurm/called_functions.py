"""Functions that start one step, such as `launch HOST RANK`: the step takes the place of each call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.importing.slurm.body_syntax import BodyCommand, Statement, statements_of_whole
from gpuctl.importing.slurm.script_edits import ScriptEdits
from gpuctl.importing.slurm.text_places import reference

_DEFINITION = r"(?:function[ \t]+)?(?P<name>[\w.:-]+)[ \t]*(?:\([ \t]*\))?[ \t\n]*\{(?P<body>.*)\}[ \t]*\Z"
_ARGUMENT = r"\$(?:\{([1-9])\}|([1-9])\b)"
_NAMES_ARGUMENT = rf"(?:local[ \t]+)?(?P<name>[A-Za-z_]\w*)=\"?(?P<argument>{_ARGUMENT})\"?[ \t]*;?\Z"
_ANY_ARGUMENT = r"\$\{?[@*#0-9]|\b(?:shift|return)\b|<<"
_SIMPLE = r"[\w./:=@%+,$\[\]{}-]+\Z"


class InlinedSteps(NamedTuple):
    """A script with the steps of its functions at their calls. It has the same lines. ``names``: of the functions."""

    text: str
    names: frozenset[str]


def inline_steps(text: str) -> InlinedSteps:
    """Replace the calls of functions that start one step."""
    statements = statements_of_whole(text)
    bodies = {name: body for item in statements if (found := _step_of(text, item)) for name, body in [found]}
    edits = ScriptEdits(text)
    for statement in statements:
        if statement.defines_function(text):
            continue
        for command in statement.commands:
            if command.name not in bodies:
                continue
            called = _called(text, bodies[command.name], command)
            if called is None:
                # One of its calls stays.
                return InlinedSteps(text, frozenset())
            end = re.compile(r"[ \t]*[;&](?!&)").match(text, command.end) if called.endswith("&") else None
            edits.replace(command.start, end.end() if end is not None else command.end, called)
    return InlinedSteps(edits.result(), frozenset(bodies))


def _step_of(text: str, statement: Statement) -> tuple[str, str] | None:
    """Return the name of a function and its step on one line; None if a statement is another, or not as simple."""
    if not statement.defines_function(text) or sum(item.name == "srun" for item in statement.commands) != 1:
        return None
    match = re.match(_DEFINITION, text[statement.start : statement.end], re.DOTALL)
    if match is None or any(item.name not in ("", "echo", "local", "srun") for item in statement.commands):
        return None
    written = [line.strip().rstrip(";") for line in re.sub(r"\\\n[ \t]*", "", match["body"]).split("\n")]
    named = {found["name"]: found["argument"] for line in written if (found := re.match(_NAMES_ARGUMENT, line))}
    lines = [line for line in written if line and not line.startswith("#") and not re.match(_NAMES_ARGUMENT, line)]
    if not lines:
        return None
    body = "; ".join(lines)
    for name, argument in named.items():
        body = re.sub(reference(name), argument, body)
    if re.search(_ANY_ARGUMENT, re.sub(_ARGUMENT, "", body)) is not None or not lines[-1].startswith("srun"):
        return None
    return match["name"], body


def _called(text: str, body: str, command: BodyCommand) -> str | None:
    """Return the step of a call, whose words stand for the arguments; None if one of them is not simple."""
    words = [text[word.start : word.end].strip('"') for word in command.program[1:]]
    if command.assignments or any(re.match(_SIMPLE, word) is None for word in words):
        return None
    return re.sub(_ARGUMENT, lambda match: _argument(words, int(match[1] or match[2])), body)


def _argument(words: Sequence[str], number: int) -> str:
    return words[number - 1] if number <= len(words) else ""
