"""The tools whose job descriptions can be imported, and how a source is recognized."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent
from typing import NamedTuple

from gpuctl.frontend.source import Source
from gpuctl.importing.arena_commands import import_arena_commands
from gpuctl.importing.arena_jobs import import_arena_jobs, is_arena_job
from gpuctl.importing.dstack_runs import import_dstack_run
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.manifests import KINDS, import_manifests
from gpuctl.importing.sky_tasks import import_sky_tasks
from gpuctl.importing.slurm.conversion import import_batch_script
from gpuctl.language.kinds import KINDS as DOCUMENT_KINDS


class Importer(NamedTuple):
    """An importer. ``is_its``: return True if a text is one of the tool's files."""

    is_its: Callable[[str], bool]
    run: Callable[[Source, Given], Imported]


_INDENTED = r"\A\s*\{|(?m:^[\"']?kind[\"']?:[ \t]*[\"']?\w*List\b)"

_SCRIPT = r"(?m)^run:(?![ \t]*(?:#.*)?\n[ \t]+[\w-]+:(?:[ \t]|$))"
"""A `run` that is a text: settings of other tools have a mapping of this name."""
_ARENA = r"(?m)^[ \t]*(?:\S*/)?arena[ \t]+(?:-.*[ \t])?(?:submit|serve)\b"


def _is_batch_script(text: str) -> bool:
    return re.search(r"(?m)^#SBATCH[ \t]", text) is not None


def _has_kind(kind: str) -> Callable[[str], bool]:
    """Return the test for manifests of a kind, also in a list or in JSON, where they are indented."""
    written = rf"[\"']?kind[\"']?:[ \t]*[\"']?{kind}[\"']?,?[ \t\r]*(?:#.*)?$"

    def test(text: str) -> bool:
        indent = r"[ \t-]*" if re.search(_INDENTED, text) is not None else ""
        return re.search(rf"(?m)^{indent}{written}", text) is not None

    return test


def _is_arena_job(text: str) -> bool:
    return re.search(_ARENA, text) is not None or is_arena_job(text)


def _import_arena(source: Source, given: Given) -> Imported:
    read = import_arena_jobs if is_arena_job(source.text) else import_arena_commands
    return read(source, given)


def _is_dstack_run(text: str) -> bool:
    return re.search(r"(?m)^type:[ \t]*(?:task|service|dev-environment|fleet|volume|gateway)\b", text) is not None


def _is_sky_task(text: str) -> bool:
    return re.search(_SCRIPT, text) is not None and re.search(r"(?m)^(?:kind|type|apiVersion):", text) is None


IMPORTERS: dict[str, Importer] = {
    "slurm": Importer(_is_batch_script, import_batch_script),
    "arena": Importer(_is_arena_job, _import_arena),
    "pytorchjob": Importer(_has_kind("PyTorchJob"), import_manifests("PyTorchJob")),
    "trainjob": Importer(_has_kind("TrainJob"), import_manifests("TrainJob")),
    "deployment": Importer(_has_kind("(?:Deployment|StatefulSet)"), import_manifests("Deployment")),
    "job": Importer(_has_kind("Job"), import_manifests("Job")),
    "dstack": Importer(_is_dstack_run, import_dstack_run),
    "skypilot": Importer(_is_sky_task, import_sky_tasks),
}


def find_importer(source: Source, tool: str | None) -> Importer:
    """Return the importer of a source.

    :param tool: a key of :data:`IMPORTERS`; None: the one that recognizes the source.
    :raises Unreadable: no tool recognizes it.
    """
    if tool is not None:
        return IMPORTERS[tool]
    text = dedent(source.text)
    found = next((item for item in IMPORTERS.values() if item.is_its(text)), None)
    if found is None and not text.strip():
        raise Unreadable(1, "the file is empty", "name a job file of another tool")
    if found is None:
        own = re.search(rf"(?m)^kind:[ \t]*[\"']?({'|'.join(DOCUMENT_KINDS)})\b", text)
        if own is not None:
            line = text.count("\n", 0, own.start()) + 1
            hint = "`gpuctl validate` checks it, `gpuctl apply -f` starts its job"
            raise Unreadable(line, f"this is a document of gpuctl already, of the kind `{own[1]}`", hint)
        kind = re.search(r"(?m)^kind:[ \t]*[\"']?([A-Z]\w*)", text)
        if kind is not None:
            line = text.count("\n", 0, kind.start()) + 1
            hint = f"manifests of these kinds are imported: {', '.join(KINDS)}; `gpuctl new` starts a document"
            raise Unreadable(line, f"no import reads the kind `{kind[1]}`", hint)
        hint = f"name the tool with --from: {', '.join(IMPORTERS)}"
        raise Unreadable(1, "no tool is known that reads this file", hint)
    return found
