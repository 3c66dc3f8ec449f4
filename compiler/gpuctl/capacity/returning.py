"""Pods that come again when they are evicted: their controllers make them anew, and they want room as before.

A pod that no controller has made is gone for good; one that belongs to its node has nowhere else to go. Work that fails
with an evicted pod ends as a whole, and a JobSet starts again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.endings import Whole, whole_of
from gpuctl.capacity.incoming_pods import waiting_pod
from gpuctl.capacity.seats import Incoming, PlacedPod
from gpuctl.capacity.selectors import Labels
from gpuctl.capacity.snapshot import Snapshot


class Returning:
    """The pods of a cluster that come again, as the scheduler will find them, and those that end with others."""

    def __init__(
        self,
        pods: Iterable[tuple[PlacedPod, Object]],
        snapshot: Snapshot,
        namespaces: Mapping[str, Labels],
        classes: Mapping[str, Object],
    ) -> None:
        """
        :param pods: the pods of the snapshot that are on nodes, in both forms.
        """
        self._items: dict[int, Object] = {}
        self._wholes: dict[int, list[PlacedPod]] = {}
        named: dict[Whole, list[PlacedPod]] = {}
        for pod, item in pods:
            whole = whole_of(item, snapshot)
            if whole is not None:
                self._wholes[id(pod)] = named.setdefault(whole, [])
                self._wholes[id(pod)].append(pod)
            again = whole is None or whole.restarts
            if again and item.get("owner") and not (pod.stays or pod.deleting):
                self._items[id(pod)] = item
        self._context = snapshot, namespaces, classes
        self._known: dict[int, Incoming] = {}

    def __contains__(self, pod: PlacedPod) -> bool:
        return id(pod) in self._items

    def ending_with(self, pod: PlacedPod) -> Sequence[PlacedPod]:
        """The other pods that end when a pod is evicted: those of a Job, or JobSet, that fails or starts again."""
        return [other for other in self._wholes.get(id(pod), ()) if other is not pod]

    def of(self, pod: PlacedPod) -> Incoming | None:
        """A pod as it comes again; None when it does not."""
        item = self._items.get(id(pod))
        if item is None:
            return None
        if id(pod) not in self._known:
            snapshot, namespaces, classes = self._context
            polite = classes.get(pod.priority_class, {}).get("preemptionPolicy") == "Never"
            found = waiting_pod(item, snapshot, namespaces, classes)
            self._known[id(pod)] = replace(found, pod=replace(pod, start=""), preempts=not polite)
        return self._known[id(pod)]


NOBODY = Returning((), Snapshot("", [], []), {}, {})
"""No pods that come again."""
