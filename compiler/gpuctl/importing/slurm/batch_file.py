"""The parts of a batch script: interpreter, `#SBATCH` options and body."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.frontend.command_advice import SHELLS
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.sbatch_options import SlurmOption, directive_words, read_options

_INTERPRETER = r"#!\s*(?P<path>\S+)(?:\s+(?P<rest>.*))?\Z"
DIRECTIVE = r"(?:#SBATCH|#SLURM)(?=[\s-])"
"""The start of a line with options; `sbatch` still reads the old form."""
_HETEROGENEOUS = rf"{DIRECTIVE}\s*(?i:hetjob|packjob)(?=\s|\Z)"
_LOOKS_LIKE_DIRECTIVE = r"\s*#+(?:\s*SBATCH|(?i:SBATCH))\s*(?:-|(?:het|pack)job\b)"
_IGNORED = "Slurm ignores it too: lines with options begin with `#SBATCH`"
_OF_OTHER_TOOL = r"#(PBS|BSUB)(?=\s)"


class BatchFile(NamedTuple):
    """A batch script.

    ``interpreter``: the program and options of its first line. ``options``: those that count, the last of each name.
    ``body``: the text from the first command on; ``first_line`` is its line, from 1. ``parts``: the options of each
    part of a heterogeneous job but the first; the second one begins at ``part_line``.
    """

    interpreter: list[str]
    options: dict[str, SlurmOption]
    body: str
    first_line: int
    parts: list[dict[str, SlurmOption]]
    part_line: int

    @property
    def is_shell(self) -> bool:
        """True if a shell runs the body."""
        return self.interpreter[0] in SHELLS


def read_batch_file(text: str, ledger: LineLedger) -> BatchFile:
    """Split a batch script. Directives without effect are added to the ledger."""
    lines = text.split("\n")
    interpreter = ["bash"]
    parts: list[dict[str, SlurmOption]] = [{}]
    part_line = 1
    start = len(lines)
    for index, line in enumerate(lines):
        if index == 0 and line.startswith("#!"):
            interpreter = _interpreter(line)
            ledger.mapped(1, line, "environment.command")
        elif re.match(_HETEROGENEOUS, line):
            parts.append({})
            part_line = part_line if len(parts) > 2 else index + 1
            ledger.mapped(index + 1, line, "roles")
        elif re.match(DIRECTIVE, line):
            _add(parts[-1], index + 1, line, ledger)
        elif re.match(_LOOKS_LIKE_DIRECTIVE, line):
            ledger.mapped(index + 1, line, None, _IGNORED)
        elif (other := re.match(_OF_OTHER_TOOL, line)) is not None:
            ledger.dropped(index + 1, line, f"sbatch reads options of {other[1]} too: write it as `#SBATCH`")
        elif line.strip() and not line.lstrip().startswith("#"):
            start = index
            break
    # A shell reads nothing of a backslash at the end of a file; in the argument of `-c` it is text.
    body = re.sub(r"(?<!\\)((?:\\\\)*)\\\Z", r"\1", "\n".join(lines[start:]))
    return BatchFile(interpreter, parts[0], body, start + 1, parts[1:], part_line)


def _add(options: dict[str, SlurmOption], number: int, line: str, ledger: LineLedger) -> None:
    words = directive_words(re.sub(DIRECTIVE, "", line, count=1))
    found = read_options(words, number)
    if not words:
        ledger.mapped(number, line, None)
    for option in found.options:
        if not option.known:
            ledger.dropped(number, option.text, "neither Slurm nor a known plugin has such an option")
            continue
        if option.name in options:
            old = options.pop(option.name)
            ledger.mapped(old.line, old.text, None, f"line {number} replaces it")
        options[option.name] = option
    if found.words < len(words):
        rest = " ".join(words[found.words :])
        ledger.dropped(number, rest, "it is not an option, and sbatch refuses a file with it")


def _interpreter(line: str) -> list[str]:
    match = re.match(_INTERPRETER, line.rstrip())
    if match is None:
        return ["bash"]
    words = (match["rest"] or "").split()
    program = match["path"].rsplit("/", 1)[-1]
    if program == "env" and words:
        program, *words = [word for word in words if word != "-S"]
    return [program.rsplit("/", 1)[-1], *words]
