"""Pods that come again when they are evicted: their controllers make them anew, and they want room as before.

A pod that no controller has made is gone for good; one that belongs to its node has nowhere else to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.incoming_pods import waiting_pod
from gpuctl.capacity.seats import Incoming, PlacedPod
from gpuctl.capacity.selectors import Labels
from gpuctl.capacity.snapshot import Snapshot


class Returning:
    """The pods of a cluster that come again, as the scheduler will find them."""

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
        self._items = {id(pod): item for pod, item in pods if item.get("owner") and not (pod.stays or pod.deleting)}
        self._context = snapshot, namespaces, classes
        self._known: dict[int, Incoming] = {}

    def __contains__(self, pod: PlacedPod) -> bool:
        return id(pod) in self._items

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
