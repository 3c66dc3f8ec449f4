"""Heterogeneous jobs: parts with resources of their own, which become roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Given, Missing
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.allocation import Allocation
from gpuctl.importing.slurm.batch_file import BatchFile
from gpuctl.importing.slurm.body_syntax import statements_of_whole
from gpuctl.importing.slurm.job_options import ALLOCATION, missing_pool
from gpuctl.importing.slurm.sbatch_options import SlurmOption
from gpuctl.importing.slurm.script_edits import ScriptEdits

_GROUP = r"--(?:het|pack)-group[= ]\"?"
_SEVERAL_GROUPS = rf"{_GROUP}\d+[,-]"
_STEP_OF_GROUP = rf"\bsrun\b[^\n]*{_GROUP}\d"
_OF_CARDS = ("gpu-type", "gpu-vendor", "gpu-profile")
_OF_EACH = ("gpu", *_OF_CARDS, "cpu", "memory")


class RolePart(NamedTuple):
    """A part of a heterogeneous job. ``tasks`` and ``gpus``: of each node; ``resources``: of a role."""

    nodes: int
    tasks: int
    gpus: int
    resources: dict[str, Any]
    missing: Sequence[Missing] = ()


def take_parts(batch: BatchFile, given: Given, first: Allocation, draft: Draft, ledger: LineLedger) -> list[RolePart]:
    """Return the parts of a job, [] if it has only one. Their options are added to the ledger.

    :param first: the allocation of the first part, which is in the document.
    """
    if not batch.parts:
        return []
    found = [_part(first, draft)]
    for options in batch.parts:
        scratch = Draft("training", "", "", draft.settings)
        allocation = Allocation(options, given, scratch, ledger)
        allocation.take("", 1)
        part = _part(allocation, scratch)
        found.append(part)
        for option in options.values():
            if option.name in ALLOCATION:
                continue
            same = batch.options.get(option.name)
            if same is not None and same.value == option.value:
                ledger.mapped(option.line, option.text, None, f"it equals line {same.line}")
            elif option.name == "partition":
                part = found[-1] = _with_pool(part, option, given, ledger)
            else:
                ledger.dropped(option.line, option.text, "it is about one part of the job, and roles have one job")
    for name in _OF_CARDS:
        if any(part.gpus and name not in part.resources for part in found):
            # A role that does not name it would have that of the job.
            draft.remove(f"resources.{name}")
    return found


def _part(allocation: Allocation, draft: Draft) -> RolePart:
    resources = {name: draft.get(f"resources.{name}") for name in _OF_EACH}
    resources = {name: value for name, value in resources.items() if value is not None}
    resources["gpu"] = allocation.gpus
    return RolePart(allocation.nodes, allocation.tasks, allocation.gpus, resources, allocation.missing)


def _with_pool(part: RolePart, option: SlurmOption, given: Given, ledger: LineLedger) -> RolePart:
    """Return a part with the pool of its partition, or with the question for it."""
    pool = given.pool or given.pools.get(option.value or "")
    source = "--pool" if given.pool is not None else "--partition"
    if pool is not None:
        ledger.changed(option.line, option.text, "roles[].resources.pool", f"{source}: the pool `{pool}`")
        return part._replace(resources={"pool": pool, **part.resources})
    ledger.changed(option.line, option.text, "roles[].resources.pool", "--partition names the pool")
    return part._replace(missing=[*part.missing, missing_pool(option)])


def why_undivided(text: str) -> str:
    """Return why a script that starts no step in the background has no roles; "" if that is not known."""
    if re.search(_SEVERAL_GROUPS, text) is not None:
        return "one program runs on several parts, and the nodes of a role find only each other"
    return "the steps run one after another, and roles start together" if runs_in_turn(text) else ""


def runs_in_turn(text: str) -> bool:
    """Return True if a script that starts no step in the background runs one on each of several parts."""
    return re.search(_SEVERAL_GROUPS, text) is None and len(re.findall(_STEP_OF_GROUP, text)) > 1


def separate_steps(text: str) -> str:
    """Return a script in which each step of ``srun --het-group=0 A : --het-group=1 B`` is a command in the background.

    It has the same lines.
    """
    edits = ScriptEdits(text)
    for statement in statements_of_whole(text):
        command = statement.single
        if command is None or command.name != "srun":
            continue
        colons = [word for word in command.program if text[word.start : word.end] == ":"]
        for word in colons:
            edits.replace(word.start, word.end, "& srun")
        if colons and not statement.background:
            edits.replace(statement.ends_at, statement.ends_at, " & wait")
    return edits.result()
