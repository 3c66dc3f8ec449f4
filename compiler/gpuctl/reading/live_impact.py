"""What a change of documents does to a cluster as it is.

Running jobs that it ends, finished trainings that it runs again, and whether the new jobs fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuctl.apply.plan.ended import Ended, RunAgain, ended, run_again
from gpuctl.apply.plan.evictions import evicted_jobs
from gpuctl.apply.plan.plan import EvictedJob
from gpuctl.apply.state.records import records
from gpuctl.backend.api_resources import WORKLOADS, Object, key_of, labels_of
from gpuctl.capacity.fit import Fit, fit
from gpuctl.capacity.machines import machines
from gpuctl.capacity.snapshot import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.gitops.breakages import Breakage
from gpuctl.gitops.sides import JobId, Side
from gpuctl.language.settings import Settings

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
        if known is None or known.settings.sharing != "none":
            result.append(side)
            continue
        left = named[0].keys() - named[1].keys() if side is after else ()
        found = machines(snapshot, known.settings, labels, left)
        nodes: dict[str, dict[str, list[int | None]]] = {
            pool: {gpu_type: list(counts) for gpu_type, counts in found.get(pool, {}).items()} for pool in about
        }
        result.append(replace(side, nodes=nodes))
    return result[0], result[1]


class CausedEviction(NamedTuple):
    """A job that would be evicted, and the jobs of the change for which."""

    job: EvictedJob
    by: tuple[JobId, ...]


@dataclass(frozen=True)
class LiveImpact:
    """What a change does to a cluster as it was at a time (``taken_at``, RFC 3339).

    ``ended`` are the running jobs that it ends, ``fits`` the answers for new and changed jobs. ``runs_again`` are the
    finished trainings that it runs again (None: unknown, Jobs may not be listed or an older gpuctl took the snapshot).
    ``absent_nodes`` are named by pools and not there. ``titles`` has the jobs of ``fits`` by namespace and name.
    ``evictions`` are the jobs that all of these together would evict, each once.
    """

    taken_at: str
    ended: list[Ended]
    runs_again: list[RunAgain] | None
    fits: list[Fit]
    absent_nodes: list[str]
    titles: dict[tuple[str, str], JobId]
    evictions: list[CausedEviction]

    @property
    def evicted_pods(self) -> int:
        """How many pods would be evicted. Each is for one job: of one that is told for two another goes as well."""
        return sum(len(answer.victims) for answer in self.fits)

    @property
    def breakages(self) -> list[Breakage]:
        """The jobs that never fit in it."""
        return [
            Breakage(f"{self.title(answer)}: never fits in the cluster: {answer.reason}", True)
            for answer in self.fits
            if answer.verdict == "never"
        ]

    def title(self, answer: Fit) -> JobId:
        """The job that an answer is about."""
        return self.titles[answer.demand.namespace, answer.demand.name]


def live_impact(old: Compilation | None, new: Compilation | None, snapshot: Snapshot) -> LiveImpact:
    """Look at a cluster with the documents of before and after; None is no document."""
    found = ended(old, new, snapshot)
    kept = {(item.namespace, item.name) for item in found if item.manner == "kept"}
    titles = {
        (namespace, name): JobId(item.document.kind, namespace, name)
        for item in (new.lowered if new else ())
        for namespace, name in [key_of(item.object)[1:]]
    }
    changed = _changed(old, new, kept)
    answers = fit(snapshot, [obj for obj in (new.objects if new else ()) if key_of(obj) in changed or _counts(obj)])
    absent = sorted(_nodes(new).keys() - {node["name"] for node in snapshot.nodes})
    settings = next((item.settings for item in (new, old) if item is not None), None)
    evictions = _evictions(answers, titles, snapshot, settings) if settings is not None else []
    again = None if snapshot.lacks("finished", "jobs", "jobSets") else run_again(old, new, snapshot)
    return LiveImpact(snapshot.taken_at, found, again, answers, absent, titles, evictions)


def _evictions(
    answers: Iterable[Fit], titles: dict[tuple[str, str], JobId], snapshot: Snapshot, settings: Settings
) -> list[CausedEviction]:
    """The victims of all jobs by the jobs that they belong to."""
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
