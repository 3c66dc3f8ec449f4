"""Numbers that scripts make of Slurm's job id, or at random, mostly for ports."""

from __future__ import annotations

import re

from gpuctl.importing.slurm.script_edits import VariableChange, substitute
from gpuctl.importing.slurm.text_places import reference

_ID_NAME = r"SLURM_(?:ARRAY_)?JOB_?ID"
_ID = rf"(?:{reference(_ID_NAME)}|\b{_ID_NAME}\b)"
_INNER = r"(?:[^()\n]|\([^()\n]{0,200}\)){0,400}"
_ARITHMETIC = (
    rf"\(\({_INNER}?{_ID}{_INNER}\)\)|\$\[[^\]\n]{{0,400}}?{_ID}[^\]\n]{{0,400}}\]|\bexpr[ \t][^\n`]{{0,400}}?{_ID}"
)
_SHORTENED = r"\$\{SLURM_(?:ARRAY_)?JOB_?ID:(?:[ \t]{0,9}-|\d:)(?P<digits>\d)\}"
_LAST = (
    r"\$\([ \t]*echo[ \t]+(?:-n[ \t]+)?\$\{?SLURM_JOB_?ID\}?[ \t]*\|[ \t]*tail[ \t]+-c[ \t]*-?(?P<digits>\d)[ \t]*\)"
)
_NO_NUMBER = "the id of a job is not a number here: 0 stands for it in each run"
_SUBSTITUTED = rf"\$\((?:[^()\n]|\({_INNER}\)){{0,400}}\)"
_WORD = rf"(?:{_SUBSTITUTED}|`[^`\n]*`|\"(?:[^\"$\n]|\$(?!\()|{_SUBSTITUTED})*\"|[^\s;&|\"`$]|\$(?!\())*"
_PORT = rf"(?mi)^(?P<head>[ \t]*(?:export[ \t]+)?\w{{0,60}}port=)(?P<value>{_WORD})"
_RANDOM = r"(?i)\b(?:RANDOM|shuf|socket|get_free_port)\b"


def replace_job_numbers(body: str, changes: list[VariableChange]) -> str:
    """Replace the job id by 0 where a script computes with it."""
    for pattern in (_SHORTENED, _LAST):
        body = substitute(pattern, lambda match: "0" * int(match["digits"]), body, _NO_NUMBER, changes)
    return substitute(_ARITHMETIC, lambda match: re.sub(_ID, "0", match[0]), body, _NO_NUMBER, changes)


def replace_random_ports(body: str, changes: list[VariableChange]) -> str:
    """Replace ports that a script takes at random, which would differ between the nodes of a job."""
    note = "each node would take another port: it is `MASTER_PORT`, the same on all nodes"

    def replaced(match: re.Match[str]) -> str:
        return f"{match['head']}$MASTER_PORT" if re.search(_RANDOM, match["value"]) else match[0]

    return substitute(_PORT, replaced, body, note, changes)
