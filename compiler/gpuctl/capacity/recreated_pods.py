"""Pods that come again when they are evicted: their controllers make them anew, and they want room as before.

A pod that no controller has made is gone for good; one that belongs to its node has nowhere else to go. What is made
again of Jobs that fail, and which pods end with them, :mod:`gpuctl.capacity.job_pods` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuctl.capacity.incoming_pods import waiting_pod
from gpuctl.capacity.job_pods import JobIndex
from gpuctl.capacity.scheduler_model import IncomingPod, PlacedPod
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object
from gpuctl.objects.selectors import Labels


class RecreatedPods:
    """The pods of a cluster that come again, as the scheduler will find them; ``jobs`` tells which end with others."""

    def __init__(
        self,
        pods: Iterable[tuple[PlacedPod, Object]],
        expected: Iterable[tuple[PlacedPod, Object]],
        snapshot: Snapshot,
        namespaces: Mapping[str, Labels],
        classes: Mapping[str, Object],
    ) -> None:
        """
        :param pods: the pods of the snapshot that are on nodes, in both forms.
        :param expected: those that are not yet.
        """
        there, others = list(pods), list(expected)
        self.jobs = JobIndex(there, others, snapshot)
        self._items = {
            pod: item
            for pod, item in (*there, *others)
            if item.get("owner") and not (pod.stays or pod.deleting or self._is_over(pod))
        }
        self._context = snapshot, namespaces, classes
        self._known: dict[PlacedPod, IncomingPod] = {}

    def __contains__(self, pod: PlacedPod) -> bool:
        return pod in self._items

    def of(self, pod: PlacedPod) -> IncomingPod | None:
        """A pod as it comes again, unless it ends with its Job; None when nobody makes it."""
        item = self._items.get(pod)
        if item is None:
            return None
        if pod not in self._known:
            snapshot, namespaces, classes = self._context
            polite = classes.get(pod.priority_class, {}).get("preemptionPolicy") == "Never"
            found = waiting_pod(item, snapshot, namespaces, classes)
            self._known[pod] = replace(found, pod=replace(pod, start=""), preempts=not polite)
        return self._known[pod]

    def may_end_with(self, pod: PlacedPod) -> Iterable[PlacedPod]:
        """All that may end when a pod is evicted, and others of its Job: those of its whole, itself among them."""
        job = self.jobs.of(pod)
        return (*job.domain.pods, *job.domain.expected) if job is not None and job.may_fail else (pod,)

    def _is_over(self, pod: PlacedPod) -> bool:
        """Whether a pod does not come again, whoever else is evicted."""
        job = self.jobs.of(pod)
        return job is not None and bool(job.fails(1)) and job.domain.restarts is False


NO_RECREATED_PODS = RecreatedPods((), (), Snapshot("", [], []), {}, {})
"""No pods that come again."""
