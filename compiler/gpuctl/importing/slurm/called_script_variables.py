"""The variables of Slurm that the scripts which a batch script calls need, and which it sets for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyCommand, BodyWord
from gpuctl.importing.slurm.called_scripts import OF_TORCHRUN, CalledScript
from gpuctl.importing.slurm.command_rules import NO_STEP, SHELL_WITH_COMMAND, SLURM_COMMANDS

_STARTS_SCRIPT = r"(?:^|[\s;&|(])(?:source|\.|bash|sh)[ \t]+([\w./~$\{}][\w./~$\{}@%+-]*)"


def script_of(body: BodyState, program: Sequence[BodyWord]) -> CalledScript | None:
    """Return the script that a program is; None if it is another program."""
    scripts = body.facts.scripts
    return scripts.script_of(body.known_words(program)[0]) if scripts is not None and program else None


def scripts_in_shell(body: BodyState, program: Sequence[BodyWord]) -> list[CalledScript]:
    """Return the scripts that the text of ``bash -c TEXT`` sources or starts."""
    words = [word.text for word in program[:3]]
    if body.facts.scripts is None or len(words) < 3 or re.match(SHELL_WITH_COMMAND, " ".join(words[:2])) is None:
        return []
    found = [body.facts.scripts.script_of(["source", path]) for path in re.findall(_STARTS_SCRIPT, words[2])]
    return [script for script in dict.fromkeys(found) if script is not None]


def variables_for(
    body: BodyState,
    script: CalledScript,
    lines: range,
    of_step: Mapping[str, str] = MappingProxyType({}),
    *,
    by_torchrun: bool = False,
) -> list[tuple[str, str]]:
    """Return the variables of Slurm that a called script needs, with their values in a pod; note what has no equal.

    :param lines: of the command that calls it.
    :param of_step: variables about the processes of a step -> their values.
    :param by_torchrun: torchrun starts it once for each GPU.
    """
    if script.text is None:
        body.remarks.changed(lines, f"`{script.name}` is not beside this file: what it uses of Slurm is not known")
        return []
    equals = {**(body.facts.scripts.equals if body.facts.scripts is not None else {}), **of_step}
    found = [(name, equals[name]) for name in script.variables if name in equals]
    if found:
        names = ", ".join(f"`{name}`" for name, _ in found)
        body.remarks.changed(lines, f"the command sets {names} for `{script.name}`")
    for name in script.variables:
        if name not in equals and not (by_torchrun and name in OF_TORCHRUN):
            body.remarks.lost(lines[0], f"{script.name}: ${name}", "the script uses it, and it has no equal in a pod")
    for name in script.commands:
        body.remarks.lost(lines[0], f"{script.name}: {name}", SLURM_COMMANDS.get(name, NO_STEP))
    return found


def prepare_called_script(
    body: BodyState, command: BodyCommand, program: Sequence[BodyWord], lines: range
) -> frozenset[str]:
    """Set the variables of Slurm that a called script needs. Return the variables that it sets for the caller."""
    script = script_of(body, program)
    if script is None:
        return frozenset()
    is_sourced = command.name in ("source", ".")
    found = "".join(f"{name}={value} " for name, value in variables_for(body, script, lines))
    body.edits.replace(program[0].start, program[0].start, found if is_sourced or not found else f"env {found}")
    return script.assigned if is_sourced else frozenset()
