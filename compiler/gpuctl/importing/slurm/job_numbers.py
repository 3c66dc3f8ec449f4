"""Numbers that scripts make of Slurm's job id, or at random, mostly for ports."""

from __future__ import annotations

import re

from gpuctl.importing.slurm.script_edits import VariableChange, substitute

_ID = r"\$?\{?\bSLURM_(?:ARRAY_)?JOB_?ID\b\}?"
_INNER = r"(?:[^()\n]|\([^()\n]{0,200}\)){0,400}"
_ARITHMETIC = (
    rf"\(\({_INNER}?{_ID}{_INNER}\)\)|\$\[[^\]\n]{{0,400}}?{_ID}[^\]\n]{{0,400}}\]|\bexpr[ \t][^\n`]{{0,400}}?{_ID}"
)
_SHORTENED = r"\$\{SLURM_(?:ARRAY_)?JOB_?ID:(?:[ \t]{0,9}-|\d:)(?P<digits>\d)\}"
_LAST = (
    r"\$\([ \t]*echo[ \t]+(?:-n[ \t]+)?\$\{?SLURM_JOB_?ID\}?[ \t]*\|[ \t]*tail[ \t]+-c[ \t]*-?(?P<digits>\d)[ \t]*\)"
)
_NO_NUMBER = "the id of a job is not a number here: 0 stands for it in each run"
_RANDOM_PORT = (
    r"(?mi)^(?P<head>[ \t]*(?:export[ \t]+)?\w{0,60}port=)"
    r"(?=[^\n]{0,400}?(?:\bRANDOM\b|\bshuf\b|\bsocket\b|\bget_free_port\b))[^\n]*"
)


def replace_job_numbers(body: str, changes: list[VariableChange]) -> str:
    """Replace the job id by 0 where a script computes with it."""
    for pattern in (_SHORTENED, _LAST):
        body = substitute(pattern, lambda match: "0" * int(match["digits"]), body, _NO_NUMBER, changes)
    return substitute(_ARITHMETIC, lambda match: re.sub(_ID, "0", match[0]), body, _NO_NUMBER, changes)


def replace_random_ports(body: str, changes: list[VariableChange]) -> str:
    """Replace ports that a script takes at random, which would differ between the nodes of a job."""
    note = "each node would take another port: it is `MASTER_PORT`, the same on all nodes"
    return substitute(_RANDOM_PORT, lambda match: f"{match['head']}$MASTER_PORT", body, note, changes)
