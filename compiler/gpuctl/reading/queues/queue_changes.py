"""The effect of changed quota documents on Kueue's queues in a cluster snapshot, and on the jobs in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuctl.capacity.kueue.kueue_requests import held_quota
from gpuctl.capacity.kueue.queue_limits import changed_limits
from gpuctl.capacity.snapshot.kueue_entries import cluster_queue_entry, flavor_entry, local_queue_entry
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, key_of
from gpuctl.objects.quantities import sum_by_key

_ENTRIES = {
    "ResourceFlavor": ("resourceflavors", flavor_entry),
    "ClusterQueue": ("clusterqueues", cluster_queue_entry),
    "LocalQueue": ("localqueues", local_queue_entry),
}
_Place = tuple[str, str]


def with_changed_queues(snapshot: Snapshot, old: Compilation | None, new: Compilation | None) -> Snapshot:
    """Return a snapshot with the queues of the new documents. Flavors that exist are never changed."""
    if snapshot.kueue is None:
        return snapshot
    before, after = _queues(old), _queues(new)
    lists = dict(snapshot.kueue)
    for kind, (plural, entry) in _ENTRIES.items():
        if plural not in lists:
            continue
        there = {(item.get("namespace") or "", item["name"]): item for item in lists[plural]}
        wanted = {place: entry(obj) for (name, place), obj in after.items() if name == kind}
        if kind == "ResourceFlavor":
            lists[plural] = [*there.values(), *(item for place, item in wanted.items() if place not in there)]
            continue
        changed = {place: item for place, item in wanted.items() if before.get((kind, place)) != after[kind, place]}
        gone = {place for name, place in before if name == kind} - wanted.keys()
        lists[plural] = [item for place, item in {**there, **changed}.items() if place not in gone]
    return replace(snapshot, kueue=lists)


def queue_changes(snapshot: Snapshot, old: Compilation | None, new: Compilation | None) -> Iterator[str]:
    """Yield what changed and deleted queues mean for the jobs that run or wait in them."""
    workloads = (snapshot.kueue or {}).get("workloads") or []
    after = _queues(new)
    for (kind, place), queue in sorted(_queues(old).items(), key=lambda item: item[0]):
        if kind == "ClusterQueue":
            admitted = [item["admission"] for item in workloads if "admission" in item]
            holding = [admission for admission in admitted if admission["clusterQueue"] == place[1]]
            if (kind, place) in after:
                yield from changed_limits(queue, after[kind, place], sum_by_key(map(held_quota, holding)))
            elif holding:
                yield say(
                    "ClusterQueue {name} is deleted: {jobs:job} {jobs:runs/run} on; Kueue deletes the queue after "
                    "their end",
                    name=place[1],
                    jobs=len(holding),
                )
        elif kind == "LocalQueue" and (kind, place) not in after:
            waiting = [
                f"{owner.get('kind', 'workload').lower()}/{owner.get('name', item['name'])}"
                for item in workloads
                for owner in [item.get("owner") or {}]
                if "admission" not in item and (item["namespace"], item["queue"]) == place
            ]
            if waiting:
                yield say(
                    "LocalQueue {name} in {namespace} is deleted: {jobs:few5} cannot start without it",
                    name=place[1],
                    namespace=place[0],
                    jobs=sorted(waiting),
                )


def _queues(compilation: Compilation | None) -> dict[tuple[str, _Place], Object]:
    objects = compilation.objects if compilation is not None else ()
    found = [(key_of(obj), obj) for obj in objects if obj["kind"] in _ENTRIES]
    return {(key.kind, (key.namespace, key.name)): obj for key, obj in found}
