"""A script of another tool that each node of a job runs, as the command of a document."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from gpuctl.frontend.shell import read_command
from gpuctl.importing.draft import COMMAND, Draft
from gpuctl.importing.import_values import Unreadable, check_script
from gpuctl.importing.line_ledger import LineLedger, placed
from gpuctl.importing.slurm.body_facts import BodyFacts
from gpuctl.importing.slurm.script_body import ScriptBody
from gpuctl.importing.slurm.script_edits import VariableChange
from gpuctl.importing.slurm.slurm_variables import Replaced
from gpuctl.importing.slurm.srun_options import SrunOptions
from gpuctl.importing.slurm.text_places import LineBreaks, reference


def with_constants(
    values: Mapping[str, int | str], text: str, variables: Mapping[str, str], draft: Draft, line: int
) -> dict[str, str]:
    """Return the patterns of variables with those that have a known value, also in arithmetic: ``$((COUNT / 2))``.

    If the script reads them in another way, such as ``${COUNT:-1}`` or in Python, they are set in the document.
    """
    patterns: dict[str, str] = {}
    for name, value in values.items():
        pattern = rf"{reference(name)}|(?<![\w${{'\"-]){name}(?![\w}}'\":=])"
        patterns[pattern] = str(value)
        if re.search(rf"\b{name}\b", re.sub(pattern, "", text)):
            draft.set_item("environment.env", name, str(value), line)
    others = {item: new for item, new in variables.items() if not any(re.fullmatch(item, name) for name in values)}
    return {**patterns, **others}


def convert_node_script(
    text: str,
    places: Sequence[range],
    size: tuple[int, int],
    variables: Mapping[str, str],
    draft: Draft,
    ledger: LineLedger,
    written: str = "",
    shell: str = "bash",
    known: Iterable[str] = (),
) -> None:
    """Set the command of a document to a script, and add its lines to the ledger.

    :raises Unreadable: the script is not valid, or very long.

    :param places: the lines of the source for each line of the script.
    :param size: the number of nodes, and of GPUs of each.
    :param variables: pattern of the tool's variable or of a command that reads it -> what stands for it, a template as
        of `re.sub`; "" if it has no equal.
    :param written: the script in the source, if the importer has changed its lines.
    :param shell: the shell that the tool runs the script with.
    :param known: further variables that the container has.
    """
    first_line = places[0].start
    written = written or text
    ledger.lines = draft.lines = dict(enumerate(places, first_line))
    try:
        check_script(text, "put it into a file of the image", "script", first_line)
        changes: list[VariableChange] = []
        for pattern, new in variables.items():
            breaks = LineBreaks(text)

            def replaced(match: re.Match[str], new: str = new, breaks: LineBreaks = breaks) -> str:
                line = breaks.before(match.start())
                name = match[0][1:] if match[0].startswith("${{") else match[0].strip("${}")
                new = match.expand(new)
                note = f"`{match[0].strip()}` is `{new.strip()}`" if new else "it has no equal: write its value"
                changes.append(VariableChange(line, note, new, "" if new else name))
                return new or match[0]

            text = re.sub(pattern, replaced, text)
        facts = BodyFacts(
            nodes=size[0],
            tasks=1,
            gpus=size[1],
            first_line=first_line,
            interpreter=[shell],
            index_line=None,
            on_every_node=True,
        )
        srun = SrunOptions(draft, ledger, keeps_image=draft.get("environment.image") is not None)
        body = ScriptBody(written, Replaced(text, changes, frozenset()), facts, draft, srun, known=known)
        body.convert().write(ledger)
    except Unreadable as error:
        raise error.at(placed(draft.lines, error.problem.line)[0]) from error
    finally:
        ledger.lines = draft.lines = {}
    command = draft.get(COMMAND)
    if command and command[:1] != [shell] and read_command(command[0]).needs_shell:
        # A single command that is a part of the shell, such as `source`, is no program.
        command[:] = [shell, "-c", shlex.join(command)]
