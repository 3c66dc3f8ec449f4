"""Pods that their controllers recreate after an eviction, and that then need room again.

A pod without a controller is gone for good; a pod that stays on its node runs nowhere else.
:mod:`gpuctl.capacity.pods.job_pods` decides which pods end with a failed Job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuctl.capacity.devices.device_counts import NO_DEVICE_COUNTS
from gpuctl.capacity.pods.incoming_pods import PodContext, waiting_pod
from gpuctl.capacity.pods.job_pods import JobIndex
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, PlacedPod
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object


class RecreatedPods:
    """The pods of a cluster that are recreated when evicted. ``jobs``: which pods end together."""

    def __init__(
        self,
        pods: Iterable[tuple[PlacedPod, Object]],
        expected: Iterable[tuple[PlacedPod, Object]],
        context: PodContext,
    ) -> None:
        """
        :param pods: the pods of the snapshot that are on nodes, in both forms.
        :param expected: those that are not yet.
        """
        there, others = list(pods), list(expected)
        self.jobs = JobIndex(there, others, context.snapshot)
        self._items = {
            pod: item
            for pod, item in (*there, *others)
            if item.get("owner") and not (pod.stays_on_node or pod.deleting or self._is_over(pod))
        }
        self._context = context
        self._known: dict[PlacedPod, IncomingPod] = {}

    def __contains__(self, pod: PlacedPod) -> bool:
        return pod in self._items

    def of(self, pod: PlacedPod) -> IncomingPod | None:
        """Return the replacement of an evicted pod, or None if nothing recreates it. Assumes that its Job does not
        fail.
        """
        item = self._items.get(pod)
        if item is None:
            return None
        if pod not in self._known:
            polite = self._context.classes.get(pod.priority_class, {}).get("preemptionPolicy") == "Never"
            found = waiting_pod(item, self._context)
            self._known[pod] = replace(found, pod=replace(pod, start=""), preempts=not polite)
        return self._known[pod]

    def may_end_with(self, pod: PlacedPod) -> Iterable[PlacedPod]:
        """Return all pods that may end when a pod is evicted, together with others of its Job: its failure domain."""
        job = self.jobs.of(pod)
        return (*job.domain.pods, *job.domain.expected) if job is not None and job.may_fail else (pod,)

    def _is_over(self, pod: PlacedPod) -> bool:
        """Return True if a pod is never recreated, whichever other pods are evicted."""
        job = self.jobs.of(pod)
        return job is not None and bool(job.fails(1)) and job.domain.restarts is False


NO_RECREATED_PODS = RecreatedPods((), (), PodContext(Snapshot("", [], []), {}, {}, NO_DEVICE_COUNTS))
"""An index without pods."""
