"""What a change of documents does to a cluster as it is: running jobs that it ends, and whether the new ones fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gpuctl.apply.plan.ended import Ended, ended
from gpuctl.backend.api_resources import WORKLOADS, Object, key_of, labels_of
from gpuctl.capacity.fit import Fit, fit
from gpuctl.capacity.machines import machines
from gpuctl.capacity.snapshot import Snapshot
from gpuctl.cli.commands.fit import SAID
from gpuctl.compilation import Compilation
from gpuctl.gitops.breakages import Breakage
from gpuctl.gitops.report import Live
from gpuctl.gitops.sides import JobId, Side

_MANNERS = {
    "replaced": "Running jobs that would be replaced:",
    "removed": "Running jobs whose documents go, which pruning would end:",
    "kept": "Running jobs that `gpuctl apply` keeps, for only the platform changed, and a GitOps controller replaces:",
}
_LOST = {"training": "its progress is lost", "notebook": "what is not on a volume is lost"}
_Workloads = dict[tuple[str, ...], Object]


def with_machines(
    before: Side, after: Side, old: Compilation | None, new: Compilation | None, snapshot: Snapshot
) -> tuple[Side, Side]:
    """Both sides with the GPUs that the nodes of the cluster have, for the pools that they are about.

    Where the platform shares cards, nodes show more of them than there are, and the documents' word stands.
    """
    named = [_nodes(compilation) for compilation in (old, new)]
    about = {pool for side in (before, after) for pool in (*side.nodes, *(item.pool for item in side.jobs.values()))}
    result = []
    for side, compilation, labels in ((before, old, named[0]), (after, new, named[1])):
        known = compilation or new or old
        if known is None or known.settings.platform.gpu.sharing != "none":
            result.append(side)
            continue
        left = named[0].keys() - named[1].keys() if side is after else ()
        found = machines(snapshot, known.settings, labels, left)
        nodes: dict[str, dict[str, list[int | None]]] = {
            pool: {gpu_type: list(counts) for gpu_type, counts in found.get(pool, {}).items()} for pool in about
        }
        result.append(replace(side, nodes=nodes))
    return result[0], result[1]


def look(old: Compilation | None, new: Compilation | None, snapshot: Snapshot) -> tuple[Live, list[Breakage]]:
    """What concerns the cluster, and jobs that never fit in it."""
    found = ended(old, new, snapshot)
    kept = {(item.namespace, item.name) for item in found if item.manner == "kept"}
    titles = {key_of(item.object)[1:]: _title(item.document.kind, item.object) for item in (new.lowered if new else ())}
    changed = _changed(old, new, kept)
    answers = fit(snapshot, [obj for obj in (new.objects if new else ()) if key_of(obj) in changed or _counts(obj)])
    absent = sorted(_nodes(new).keys() - {node["name"] for node in snapshot.nodes})
    fields = {
        "takenAt": snapshot.taken_at,
        "ended": [_ended_json(item) for item in found],
        "fit": [answer.as_json() for answer in answers],
        "absentNodes": absent,
    }
    lists = list(_lists(found, answers, titles))
    if absent:
        lists.append(("Nodes of pools that the cluster does not have:", absent))
    never = [
        Breakage(
            f"{titles[answer.demand.namespace, answer.demand.name]}: never fits in the cluster: {answer.reason}", True
        )
        for answer in answers
        if answer.verdict == "never"
    ]
    return Live(lists, fields), never


def _nodes(compilation: Compilation | None) -> dict[str, dict[str, str]]:
    """The labels that documents put on nodes."""
    objects: Iterable[Object] = compilation.objects if compilation is not None else ()
    return {obj["metadata"]["name"]: labels_of(obj) for obj in objects if obj["kind"] == "Node"}


def _counts(obj: Object) -> bool:
    return obj["kind"] not in WORKLOADS


def _workloads(compilation: Compilation | None) -> _Workloads:
    objects: Iterable[Object] = compilation.objects if compilation is not None else ()
    return {key_of(obj): obj for obj in objects if obj["kind"] in WORKLOADS}


def _changed(old: Compilation | None, new: Compilation | None, kept: set[tuple[str, str]]) -> set[tuple[str, ...]]:
    """The workloads that are new or other than before."""
    before = _workloads(old)
    return {key for key, obj in _workloads(new).items() if before.get(key) != obj and key[1:] not in kept}


def _title(kind: str, obj: Object) -> str:
    return str(JobId(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))


def _lists(
    found: list[Ended], answers: list[Fit], titles: dict[tuple[str, str], str]
) -> Iterator[tuple[str, list[str]]]:
    if not found:
        yield "No running job would be replaced.", []
    for manner, heading in _MANNERS.items():
        items = [_sentence(item) for item in found if item.manner == manner]
        if items:
            yield heading, items
    evicted = [line for answer in answers for line in _evictions(answer, titles)]
    if evicted:
        yield "Would be evicted:", evicted
    placed = [
        f"{titles[answer.demand.namespace, answer.demand.name]}: {SAID[answer.verdict]}"
        + (f": {answer.reason}" if answer.reason else "")
        for answer in answers
    ]
    if placed:
        yield "In the cluster as it is, new and changed jobs:", placed


def _sentence(item: Ended) -> str:
    job = JobId(item.kind, item.namespace, item.name)
    gpus = "1 GPU" if item.gpus == 1 else f"{item.gpus} GPUs"
    lost = _LOST.get(item.kind, "it stops serving meanwhile" if item.manner != "removed" else "it stops serving")
    return f"{job}: running for {item.runtime} on {gpus}, {lost} ({item.reason})"


def _evictions(answer: Fit, titles: dict[tuple[str, str], str]) -> Iterator[str]:
    job = titles[answer.demand.namespace, answer.demand.name]
    for victim in answer.victims:
        pod = victim.pod
        of = "" if pod.owner == f"Pod/{pod.name}" else f" of {pod.owner}"
        yield f"pod {pod.name} in {pod.namespace}{of} on {victim.node} (priority {pod.priority}), for {job}"


def _ended_json(item: Ended) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "namespace": item.namespace,
        "name": item.name,
        "manner": item.manner,
        "reason": item.reason,
        "runningSince": item.since or None,
        "pods": item.pods,
        "gpus": item.gpus,
    }
