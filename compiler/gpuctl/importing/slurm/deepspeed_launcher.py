"""DeepSpeed's launcher: in Slurm it starts the processes of all nodes by ssh, here each node starts its own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.frontend.command_lines import named_program, options_from
from gpuctl.frontend.launcher_checks import DEEPSPEED, DEEPSPEED_FLAGS
from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyWord
from gpuctl.objects.quantities import whole_number

_START = 6
_UNKNOWN = r"\$(?!\()|`"
_RANK = {"--node_rank": "$NODE_RANK", "--master_addr": "$MASTER_ADDR"}
# Options about how the launcher reaches other nodes.
_OF_NODES = frozenset(
    ["--hostfile", "-H", "--launcher", "--launcher_args", "--ssh_port", "--no_ssh", "--no_ssh_check", *_RANK]
)
_HOSTS = frozenset(["--include", "-i", "--exclude", "-e"])


class _LocalStart(NamedTuple):
    """A command of DeepSpeed's launcher with which each node starts its own processes.

    ``words``: those of the command, None for one that falls away. ``at``: the index behind the launcher, where
    ``added`` is put. ``end``: the index of the script. ``port``: of the rendezvous, if it is known. ``lost``: what is
    lost, "" if nothing is.
    """

    words: list[str | None]
    at: int
    added: list[str]
    end: int
    port: int | None
    lost: str


def _local_start(words: Sequence[str], nodes: int, gpus: int) -> _LocalStart | None:
    """Return the command with which each node starts its own processes; None if nothing changes.

    :param words: their values; a value that is not known is as written.
    """
    name, start = named_program(words)
    if name not in DEEPSPEED:
        return None
    kept: list[str | None] = list(words)
    port: int | None = None
    lost = ""
    at = start
    for name, value, places in options_from(words, start, DEEPSPEED_FLAGS):
        value, at = value or "", places.stop
        if name == "--num_nodes" and whole_number(value) not in (None, nodes):
            lost = lost or f"`{name} {value}` differs from the {nodes} nodes of the job"
        if name in _HOSTS and nodes > 1:
            lost = lost or f"`{name}` names hosts, and pods have other names"
        is_ours = name in _OF_NODES or name == "--num_nodes" or (name in _HOSTS and nodes > 1)
        if name == "--num_gpus" and nodes > 1:
            is_ours = whole_number(value) in (gpus, None)
        if name == "--master_port" and nodes > 1:
            is_ours, port = True, whole_number(value)
        if is_ours:
            for place in places:
                kept[place] = None
    if nodes > 1 and at < len(words) and re.search(_UNKNOWN, words[at]) and not re.search(r"\.py\b", words[at]):
        lost = lost or "a variable may have options of deepspeed that are not known: write them out"
    added = ["--no_ssh", *(f"{name}={value}" for name, value in _RANK.items())] if nodes > 1 else []
    added += (
        ["--master_port=$MASTER_PORT"] if added and any(word.startswith("--master_port") for word in words[:at]) else []
    )
    return _LocalStart(kept, start, added, at, port, lost) if added or None in kept else None


def convert_deepspeed(body: BodyState, program: Sequence[BodyWord]) -> bool:
    """Have each node start its own processes. Return True if the command starts DeepSpeed's launcher."""
    if named_program(body.known_words(program[:_START])[0])[0] not in DEEPSPEED:
        return False
    words, owners = body.known_words(program)
    found = _local_start(words, body.facts.nodes, body.facts.gpus)
    if found is None:
        return True
    lines = body.lines(program[0].start, program[-1].end)
    if found.port is not None:
        body.set_master_port(found.port, lines[0])
    note = "one node needs no options of other nodes"
    if body.facts.nodes > 1:
        note = f"each of the {body.facts.nodes} nodes starts its own processes, without ssh, and finds the others by "
        note += "`NODE_RANK`, `MASTER_ADDR` and the hostfile that gpuctl mounts"
    body.remarks.changed(lines, note)
    if found.lost:
        body.remarks.dropped(lines, found.lost)
    end = program[owners[found.end - 1]].end
    body.edits.replace(program[0].start, end, _written(body, program, owners, found))
    return True


def _written(body: BodyState, program: Sequence[BodyWord], owners: Sequence[int], found: _LocalStart) -> str:
    """Return the launcher with its options as shell text."""
    last = owners[found.end - 1]
    texts: dict[int, list[str | None]] = {}
    for owner, text in zip(owners, found.words, strict=True):
        texts.setdefault(owner, []).append(text)
    out = ""
    added = found.added
    place = 0
    for owner in range(last + 1):
        items = texts.get(owner, [])
        place += len(items)
        if items and all(item is None for item in items):
            continue
        whole = len(items) == 1
        parts = [body.raw(program[owner])] if whole else [_quoted(item) for item in items if item is not None]
        if added and place >= found.at:
            at = 1 if whole else sum(item is not None for item in items[: len(items) - (place - found.at)])
            parts[at:at] = added
            added = []
        gap = body.text[program[owner - 1].end : program[owner].start] if owner else ""
        out += gap + " ".join(parts)
    return out


def _quoted(text: str) -> str:
    """Return a known word as shell text."""
    if re.search(_UNKNOWN, text):
        return text
    shown = re.sub(r"\$\((\w+)\)", r"$\1", text)
    return shown if re.fullmatch(r"[\w./:=@%+,$-]+", shown) else shlex.quote(text)
