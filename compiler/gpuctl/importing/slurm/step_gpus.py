"""GPUs of steps that run beside each other in a pod: Slurm gives each its own, `CUDA_VISIBLE_DEVICES` does it here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyCommand, Statement
from gpuctl.importing.slurm.step_loops import number_of_runs
from gpuctl.importing.slurm.step_places import JobShape, NoPlace
from gpuctl.language.display_text import count_text

_REDIRECTION = r"\d?(?:&?>{1,2}\|?|>&|<)[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|()\"']+)+"
_BACKGROUND = rf"(?:[ \t]|\\\n|{_REDIRECTION})*(?:\|&?[^\n;&|()]+(?:>&\d)?)*&(?![&>])"
LOOP = r"(?:for|while|until)\b"
_SUBSHELL = r"(?m)(?:^|[;&|]|\b(?:do|then|else))[ \t]*(?:\((?!\()|\{\s)"
_WAIT = "wait $(jobs -p) || true"
"""Waits for the steps so far. After a plain `wait`, the shell would not know their processes and status."""
_NAMES = ("gpu", "step_gpu", "gpu_of_step")


class OwnGpus(NamedTuple):
    """The GPUs of a step. ``guard``: shell text in front of the whole command; ``prefix``: in front of its program."""

    guard: str
    prefix: str
    note: str


def own_gpus(body: BodyState, command: BodyCommand, gpus: int) -> OwnGpus | None:
    """Return how a step in the background gets GPUs of its own; None if that is not known.

    A loop gets a counter. Steps for which no GPU is free wait for those before them.

    :param gpus: of the step.
    """
    if command.certain:
        return _of_statement(body, gpus)
    ampersand = re.compile(_BACKGROUND).match(body.text, command.end)
    statement = body.statement
    if statement is None or ampersand is None:
        return None
    return _of_loop(body, statement, command, gpus, ampersand.end())


def _of_statement(body: BodyState, gpus: int) -> OwnGpus | None:
    of_node = body.facts.gpus
    first = body.gpus_taken
    if first % of_node + gpus > of_node:
        first = (first // of_node + 1) * of_node
    guard = ""
    if first + gpus > of_node * body.facts.nodes:
        if not body.only_steps_in_background:
            return None
        first, guard = 0, f"{_WAIT}; "
    body.gpus_taken = first + gpus
    node, on_node = divmod(first, of_node)
    if body.facts.nodes > 1:
        guard += f'[ "$NODE_RANK" != {node} ] || '
    listed = ",".join(str(on_node + index) for index in range(gpus))
    note = f"`CUDA_VISIBLE_DEVICES` gives it GPU{'s' if gpus > 1 else ''} {listed} of the pod"
    if body.facts.nodes > 1:
        note += f" with `NODE_RANK` {node}"
    if guard.startswith("wait"):
        note += f"; it starts when the steps before have ended, as they have all {of_node * body.facts.nodes} GPUs"
    return OwnGpus(guard, f"CUDA_VISIBLE_DEVICES={listed} ", note)


def _of_loop(body: BodyState, statement: Statement, command: BodyCommand, gpus: int, end: int) -> OwnGpus | None:
    written = body.text[statement.start : statement.end]
    steps = [item for item in statement.commands if item.background and not item.is_behind_pipe(body.text)]
    if re.match(LOOP, written) is None or re.search(_SUBSHELL, written) is not None or len(steps) != 1:
        return None
    if body.facts.gpus % gpus:
        return None
    name = next((name for name in _NAMES if re.search(rf"\b{name}\b", body.text) is None), None)
    if name is None:
        return None
    of_node, nodes = body.facts.gpus, body.facts.nodes
    total = of_node * nodes
    runs = _runs(body, statement)
    start = -(-body.gpus_taken // gpus) * gpus
    guard = ""
    is_queue = runs is None or start + runs * gpus > total
    if is_queue:
        if not body.only_steps_in_background:
            return None
        guard = f"[ ${name} -lt {total} ] || {{ {_WAIT}; {name}=0; }}; "
    on_node, place = f"${name}", name
    if nodes > 1:
        guard += f'[ "$NODE_RANK" != $(({name} / {of_node})) ] || '
        place = f"{name} % {of_node}"
        on_node = f"$(({place}))"
    of_step = [on_node, *(f"$(({place} + {index}))" for index in range(1, gpus))]
    pad = re.compile(r"[ \t]*").match(body.text, body.text.rfind("\n", 0, statement.start) + 1)
    indent = pad[0] if pad is not None and pad.end() == statement.start else ""
    body.edits.replace(statement.start, statement.start, f"{name}={start}\n{indent}")
    separator = "" if body.text[end:].lstrip(" \t")[:1] in ("\n", "") else ";"
    body.edits.replace(end, end, f" {name}=$(({name} + {gpus})){separator}")
    body.gpus_taken = total
    note = f"`CUDA_VISIBLE_DEVICES` gives each step {count_text(gpus, 'GPU')} of its own"
    if nodes > 1:
        note += f", on one of the {nodes} nodes"
    if is_queue:
        note += f"; {total // gpus} start at a time, and Slurm starts the next as soon as a GPU is free"
    return OwnGpus(guard, f"CUDA_VISIBLE_DEVICES={','.join(of_step)} ", note)


def _runs(body: BodyState, statement: Statement) -> int | None:
    """Return how often a loop runs; None if that is not known, or if there is a loop in it."""
    written = body.text[statement.start : statement.end]
    if len(list(_loops(written))) != 1:
        return None
    try:
        return number_of_runs(
            written, JobShape(body.facts.nodes, body.facts.tasks, frozenset()), body.values, body.arrays
        )
    except NoPlace:
        return None


def _loops(text: str) -> Iterator[re.Match[str]]:
    return re.finditer(r"(?m)(?:^|[;&|]|\b(?:do|then|else))[ \t]*(?:for|while|until)\b", text)
