"""The effect of a document change on a cluster snapshot.

It names running jobs that end, finished trainings that run again, and whether new jobs fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuctl.apply.plan.evictions import evicted_jobs
from gpuctl.apply.plan.jobs_stopped_by_change import (
    RerunTraining,
    StoppedJob,
    recreated_in_git,
    rerun_trainings,
    stopped_jobs,
)
from gpuctl.apply.plan.plan import EvictedJob
from gpuctl.backend.lowering_context import GitOps
from gpuctl.capacity.devices.gpu_inventory import gpu_inventory
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.pods.demand import is_object_of
from gpuctl.capacity.snapshot.planned_node_labels import labels_by_node
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.gitops.declared_state import DeclaredState, JobId
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, Object, key_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.queues.queue_changes import queue_changes, with_changed_queues

_Workloads = dict[tuple[str, ...], Object]


def with_cluster_gpus(
    before: DeclaredState, after: DeclaredState, old: Compilation | None, new: Compilation | None, snapshot: Snapshot
) -> tuple[DeclaredState, DeclaredState]:
    """Return both states with the GPUs of the cluster's nodes, for the pools that the documents mention.

    If the platform shares GPUs, nodes report more GPUs than exist, so the documents' numbers are kept.
    """
    about = {pool for side in (before, after) for pool in side.nodes}
    about |= {part.pool for side in (before, after) for item in side.jobs.values() for part in item.each}
    result = []
    for side, compilation, labels in ((before, old, _nodes(old)), (after, new, _changed_labels(old, new))):
        known = compilation or new or old
        if known is None or known.settings.sharing != "none":
            result.append(side)
            continue
        found = gpu_inventory(snapshot, known.settings, labels)
        nodes: dict[str, dict[str, list[int | None]]] = {
            pool: {gpu_type: list(counts) for gpu_type, counts in found.get(pool, {}).items()} for pool in about
        }
        result.append(replace(side, nodes=nodes))
    return result[0], result[1]


class CausedEviction(NamedTuple):
    """A job that would be evicted, and the changed jobs that cause it.

    :param early: the eviction is needed only because the old pods of those jobs still run when the new pods are
        created.
    """

    job: EvictedJob
    by: tuple[JobId, ...]
    early: bool = False


@dataclass(frozen=True)
class LiveImpact:
    """The effect of a change on a cluster snapshot taken at ``taken_at`` (RFC 3339).

    :param ended: running jobs that the change ends.
    :param runs_again: finished trainings that run again; None if unknown (Jobs may not be listed).
    :param fits: verdicts for new and changed jobs.
    :param absent_nodes: nodes that pools name but that do not exist.
    :param titles: the jobs of ``fits`` by namespace and name.
    :param evictions: jobs that all these jobs together would evict, each once.
    :param gitops: the controller that applies the change; None for gpuctl itself.
    :param finished: trainings that are finished before the change, and those of them that stay finished.
    :param queues: what changed queues of quotas mean for the jobs in them.
    """

    taken_at: str
    ended: list[StoppedJob]
    runs_again: list[RerunTraining] | None
    fits: list[Fit]
    absent_nodes: list[str]
    titles: dict[tuple[str, str], JobId]
    evictions: list[CausedEviction]
    gitops: GitOps | None
    finished: tuple[frozenset[JobId], frozenset[JobId]]
    queues: list[str]

    @property
    def evicted_pods(self) -> int:
        """Return the number of pods that would be evicted."""
        return len({(item.job.namespace, pod) for item in self.evictions for pod in item.job.pods})

    def evicts_early(self, answer: Fit) -> bool:
        """Return True if a job's pods evict other jobs because its old ones still run."""
        return any(item.early and self.title(answer) in item.by for item in self.evictions)

    @property
    def never(self) -> list[Fit]:
        """Return the verdicts of the jobs that never fit into the cluster."""
        return [answer for answer in self.fits if answer.verdict == "never"]

    def title(self, answer: Fit) -> JobId:
        """Return the job of a verdict."""
        return self.titles[answer.demand.namespace, answer.demand.name]


def live_impact(
    old: Compilation | None, new: Compilation | None, snapshot: Snapshot, gitops: GitOps | None = None
) -> LiveImpact:
    """Compute the effect of a change on a cluster. None stands for no documents.

    :param gitops: the controller that applies the manifests; it creates a changed training beside the old one.
    """
    queues = list(queue_changes(snapshot, old, new))
    snapshot = with_changed_queues(snapshot, old, new)
    found = stopped_jobs(old, new, snapshot)
    kept = {(item.namespace, item.name) for item in found if item.manner == "kept" and gitops is None}
    titles = {
        (namespace, name): JobId(item.document.kind, namespace, name)
        for item in (new.lowered if new else ())
        for namespace, name in [key_of(item.object)[1:]]
    }
    changed = _changed(old, new, kept)
    objects = [obj for obj in (new.objects if new else ()) if key_of(obj) in changed or _counts(obj)]
    # A controller does not prune nodes: one that leaves its pool keeps its labels.
    objects += [
        {"kind": "Node", "metadata": {"name": name, "labels": labels}}
        for name, labels in _changed_labels(old, new).items()
        if gitops is None or name in _nodes(new)
    ]
    answers = fit(snapshot, objects)
    absent = sorted(_nodes(new).keys() - {node["name"] for node in snapshot.nodes})
    settings = next((item.settings for item in (new, old) if item is not None), None)
    evictions = _evictions(answers, titles, snapshot, settings) if settings is not None else []
    again = None if snapshot.lacks("finished", "jobs", "jobSets") else rerun_trainings(old, new, snapshot)
    beside = recreated_in_git(old, new) & changed if gitops is not None else frozenset()
    if beside and settings is not None:
        # Argo CD deletes the old object and creates the new one without waiting; Flux creates first and prunes last.
        own = {(pod.namespace, pod.name) for answer in answers for pod in answer.demand.owned}
        early = [
            replace(answer, victims=[item for item in answer.victims if (item.pod.namespace, item.pod.name) not in own])
            for answer in fit(snapshot, objects, with_running_pods=beside)
        ]
        evictions = _with_early(evictions, _evictions(early, titles, snapshot, settings))
    return LiveImpact(
        snapshot.taken_at,
        found,
        again,
        answers,
        absent,
        titles,
        evictions,
        gitops,
        _finished(old, new, snapshot, again, gitops),
        queues,
    )


def _finished(
    old: Compilation | None,
    new: Compilation | None,
    snapshot: Snapshot,
    again: Iterable[RerunTraining] | None,
    gitops: GitOps | None,
) -> tuple[frozenset[JobId], frozenset[JobId]]:
    if again is None:
        return frozenset(), frozenset()
    before, after = _over(old, snapshot), _over(new, snapshot)
    anew = {JobId(item.kind, item.namespace, item.name) for item in again if item.manner != "kept" or gitops}
    return before, (after & before) - anew


def _over(compilation: Compilation | None, snapshot: Snapshot) -> frozenset[JobId]:
    """Return the trainings that have finished in a snapshot."""
    entries: dict[tuple[str, str], list[Object]] = {}
    for entry in snapshot.finished:
        for name in {entry["name"], entry.get("app", "")}:
            entries.setdefault((entry["namespace"], name), []).append(entry)
    return frozenset(
        JobId(item.document.kind, *place)
        for item in (compilation.lowered if compilation is not None else ())
        for place in [key_of(item.object)[1:]]
        if any(is_object_of(item.object, entry) for entry in entries.get(place, ()))
    )


def _with_early(late: Sequence[CausedEviction], early: Iterable[CausedEviction]) -> list[CausedEviction]:
    """Merge both kinds of evictions: each job once, with all its pods."""
    found = {(item.job.namespace, item.job.job, item.job.priority): item for item in late}
    for item in early:
        place = item.job.namespace, item.job.job, item.job.priority
        known = found.get(place)
        pods = tuple(dict.fromkeys((*known.job.pods, *item.job.pods))) if known is not None else item.job.pods
        if known is None or len(pods) > len(known.job.pods):
            by = tuple(dict.fromkeys((*(known.by if known is not None else ()), *item.by)))
            found[place] = CausedEviction(item.job._replace(pods=pods), by, early=True)
    return [found[place] for place in sorted(found)]


def _evictions(
    answers: Iterable[Fit], titles: dict[tuple[str, str], JobId], snapshot: Snapshot, settings: Settings
) -> list[CausedEviction]:
    """Return the victims of all jobs, grouped by the job they belong to."""
    keys = records(settings)
    found: dict[tuple[str, str, int], CausedEviction] = {}
    for answer in answers:
        by = titles[answer.demand.namespace, answer.demand.name]
        for job in evicted_jobs(answer.victims, snapshot, keys):
            place = job.namespace, job.job, job.priority
            before = found.get(place)
            if before is not None:
                pods = tuple(dict.fromkeys((*before.job.pods, *job.pods)))
                found[place] = CausedEviction(before.job._replace(pods=pods), (*before.by, by))
            else:
                found[place] = CausedEviction(job, (by,))
    return [found[place] for place in sorted(found)]


def _nodes(compilation: Compilation | None) -> dict[str, Mapping[str, str | None]]:
    """Return node -> labels that documents set."""
    return labels_by_node(compilation.objects if compilation is not None else ())


def _changed_labels(old: Compilation | None, new: Compilation | None) -> dict[str, Mapping[str, str | None]]:
    """Return node -> labels that the new documents set; None for those that only the old documents set."""
    after = _nodes(new)
    gone: dict[str, Mapping[str, None]] = {name: dict.fromkeys(labels) for name, labels in _nodes(old).items()}
    return {name: {**gone.get(name, {}), **after.get(name, {})} for name in dict.fromkeys([*gone, *after])}


def _counts(obj: Object) -> bool:
    return obj["kind"] not in (*WORKLOADS, "Node")


def _workloads(compilation: Compilation | None) -> _Workloads:
    objects: Iterable[Object] = compilation.objects if compilation is not None else ()
    return {key_of(obj): obj for obj in objects if obj["kind"] in WORKLOADS}


def _changed(old: Compilation | None, new: Compilation | None, kept: set[tuple[str, str]]) -> set[tuple[str, ...]]:
    """Return the keys of workloads that are new or changed."""
    before = _workloads(old)
    return {key for key, obj in _workloads(new).items() if before.get(key) != obj and key[1:] not in kept}
