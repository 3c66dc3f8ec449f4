"""Turns observed pods and nodes into holdings and capacities.

Times follow the API server's clock: the PodScheduled condition for binding, the managed fields for changes, the Ready
condition for nodes. Container start and end times come from the node's clock and are limited to the time between the
previous event and the observation. ``at``, the time of an observation, is the local clock corrected to the API
server's.

No input or output: all observations and their times are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl_usage.facts import Capacity, CapacityState, EndReason, Holding, smallest
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import NamespaceFacts, NodeFacts, PodFacts
from gpuctl_usage.gathering.tracked_objects import (
    Belonging,
    ChangeRecorder,
    Changes,
    TrackedNode,
    TrackedPod,
    capacity_of,
    change_time,
    texts_of,
    times_above,
)

_SPLIT_FIELDS = ("workload", "node", "gpus", "model", "labels", "annotations")
"""Fields of a holding whose change ends it and begins a new one."""
_EPSILON = 1e-6
"""Rounding error of sums, in GPUs."""


class OpenIntervals:
    """The open intervals of a cluster, and the ones that have just ended.

    :param known_until: time until which an earlier collector followed the cluster; None if there was no earlier one.
    Objects that are gone since then are assumed to have ended at that time.
    """

    def __init__(self, weights: GpuWeights, known_until: float | None = None) -> None:
        self._weights = weights
        self._known_until = known_until
        self._listed = False
        self._pods: dict[str, TrackedPod] = {}
        self._nodes: dict[str, TrackedNode] = {}
        self._namespaces: dict[str, NamespaceFacts] = {}
        self._changes = ChangeRecorder()
        self._devices: Mapping[str, float] = {}

    def restore(
        self, holdings: Iterable[Holding], capacities: Iterable[Capacity], ends: Mapping[str, float] | None = None
    ) -> None:
        """Load the intervals that an earlier collector left open, and when each node's last closed capacity ended."""
        self._changes.capacity_ends.update(ends or {})
        for holding in holdings:
            self._pods[holding.pod_uid] = TrackedPod(open=holding, node=holding.node)
            self._nodes.setdefault(holding.node, TrackedNode()).pods.add(holding.pod_uid)
        for capacity in capacities:
            self._nodes.setdefault(capacity.node, TrackedNode()).open = capacity

    def restore_ended(self, ends: Mapping[str, float]) -> None:
        """Load when pods whose holdings have all ended last held GPUs, by uid."""
        for uid, end in ends.items():
            self._pods.setdefault(uid, TrackedPod(not_before=end, is_recorded=True))

    def all_listed(self, at: float) -> None:
        """End the intervals of objects that are missing after all kinds have been listed."""
        gone = at if self._known_until is None else min(self._known_until, at)
        for uid in [uid for uid, pod in self._pods.items() if pod.facts is None]:
            self.drop_pod(uid, gone, EndReason.LAST_SEEN)
        for name in [name for name, node in self._nodes.items() if node.facts is None]:
            self.drop_node(name, gone, EndReason.LAST_SEEN)
        self._listed = True
        for node in self._nodes.values():
            since = self._resize_time(node, at)
            if node.facts is not None and self._renew_node(node, at if since is None else since, node.facts, since):
                self._renew_pods(node, at, None)

    def put_namespace(self, facts: NamespaceFacts, at: float) -> None:
        """Update a namespace."""
        before = self._namespaces.get(facts.name)
        self._namespaces[facts.name] = facts
        if before is None or before._replace(written=facts.written) != facts:
            for pod in self._pods.values():
                if pod.facts is not None and pod.facts.namespace == facts.name:
                    self._renew(pod, at, change_time(before, facts))

    def put_node(self, facts: NodeFacts, at: float) -> None:
        """Update a node."""
        node = self._nodes.setdefault(facts.name, TrackedNode())
        if self._known_until is not None and node.is_replaced_by(facts, self._known_until):
            self.drop_node(facts.name, self._known_until, EndReason.LAST_SEEN)
            node = self._nodes.setdefault(facts.name, TrackedNode())
        before, node.facts = node.facts, facts
        came = self._renew_node(node, at, before)
        if came or before is None or (before.model, before.units_per_card) != (facts.model, facts.units_per_card):
            self._renew_pods(node, at, change_time(before, facts))

    def put_devices(self, devices: Mapping[str, float], at: float) -> None:
        """Set the number of GPUs that DRA drivers offer on each node."""
        before, self._devices = self._devices, devices
        for name, node in self._nodes.items():
            is_changed = node.facts is not None and before.get(name) != devices.get(name)
            if is_changed and self._renew_node(node, at, node.facts):
                self._renew_pods(node, at, None)

    def drop_node(self, name: str, at: float, ending: EndReason = EndReason.DELETED) -> None:
        """Remove a node and end its holdings. If it comes back with its pods, new holdings begin then."""
        node = self._nodes.get(name)
        if node is None:
            return
        for uid in tuple(node.pods):
            pod = self._pods[uid]
            if pod.open is not None:
                self._end(pod, at, ending)
            pod.not_before = at
        if node.open is not None:
            self._changes.put_capacity(node.open._replace(end=max(at, node.open.start)), at)
        node.open = node.facts = None
        if not node.pods:
            del self._nodes[name]

    def put_pod(self, facts: PodFacts, belonging: Belonging, at: float) -> None:
        """Update a pod and its workload."""
        pod = self._pods.setdefault(facts.uid, TrackedPod())
        before, pod.facts = pod.facts, facts
        pod.belong(belonging)
        if facts.node:
            pod.node = facts.node
            self._nodes.setdefault(facts.node, TrackedNode()).pods.add(facts.uid)
        self._renew(pod, at, change_time(before, facts))

    def put_belonging(self, uid: str, belonging: Belonging, at: float) -> None:
        """Update a pod's workload: the labels of the workload may have changed."""
        pod = self._pods.get(uid)
        if pod is not None:
            before = pod.belonging
            pod.belong(belonging)
            self._renew(pod, at, change_time(before, belonging))

    def drop_pod(
        self, uid: str, at: float, ending: EndReason = EndReason.DELETED, facts: PodFacts | None = None
    ) -> None:
        """Remove a pod. Its holding ends when its containers finished, else at ``at``.

        :param facts: the last state of the pod, if known.
        """
        pod = self._pods.get(uid)
        if pod is None:
            return
        if facts is not None:
            before, pod.facts = pod.facts, facts
            self._renew(pod, at, change_time(before, facts))
        del self._pods[uid]
        if pod.open is not None:
            self._finish(pod, at, at, ending)
        self._leave(pod.node, uid, at)

    def open_pods(self) -> list[PodFacts]:
        """Return the pods that hold GPUs."""
        return [pod.facts for pod in self._pods.values() if pod.open is not None and pod.facts is not None]

    def unsized_pods(self) -> list[PodFacts]:
        """Return the pods whose share of a card has an unknown size."""
        return [pod.facts for pod in self._pods.values() if pod.unsized and pod.facts is not None]

    def open_holdings(self) -> list[Holding]:
        """Return the open holdings."""
        return [pod.open for pod in self._pods.values() if pod.open is not None]

    def open_capacities(self) -> list[Capacity]:
        """Return the open capacities."""
        return [node.open for node in self._nodes.values() if node.open is not None]

    def take(self) -> Changes:
        """Return the changes since the last call."""
        return self._changes.take()

    def _renew(self, pod: TrackedPod, at: float, written: float | None) -> None:
        """Update a pod's holding. ``written``: when the change was written; None if unknown."""
        facts, belonging = pod.facts, pod.belonging
        node = self._nodes.get(facts.node) if facts is not None and facts.node else None
        if pod.over or facts is None or belonging is None or node is None or node.facts is None:
            return
        gpus, before = self._size(pod, facts, node, at), pod.open
        if gpus == 0 and before is not None:
            # The requests of a pod are constant: its claims have been released, or cannot be read.
            gpus = before.gpus
        if gpus is None:
            if before is not None:
                self._end(pod, at, EndReason.CHANGED)
                pod.not_before = at
            pod.over = facts.over
            return
        start = before.start if before is not None else self._start(pod, facts, node, gpus, at)
        if start is None:
            return
        namespace = self._namespaces.get(facts.namespace)
        now = Holding(
            facts.uid,
            facts.namespace,
            facts.name,
            belonging.workload,
            facts.node,
            gpus,
            node.facts.model,
            texts_of((namespace, facts, belonging), "labels"),
            texts_of((namespace, facts, belonging), "annotations"),
            start,
            smallest(before.started if before is not None else None, facts.started),
            None,
        )
        if before is not None:
            now = self._split(before, now, at, written)
        pod.open = now
        if facts.over:
            self._finish(pod, at, at if facts.written is None else min(facts.written, at), EndReason.DELETED)
            pod.over = True
        elif now != before:
            only_started = before is not None and now == before._replace(started=now.started)
            self._changes.put_holding(now, max(now.started or 0.0, now.start) if only_started else now.start)
        if node.facts.allocatable < node.facts.capacity or facts.by_claim:
            self._renew_node(node, at, node.facts, now.start)

    def _size(self, pod: TrackedPod, facts: PodFacts, node: TrackedNode, at: float) -> float | None:
        """Return the GPUs that a pod holds; None if unknown: until the pod has ended, its node is unsized then."""
        assert node.facts is not None
        gpus = self._share(pod, facts, node.facts.units_per_card)
        is_unsized = gpus is None and not facts.over
        if is_unsized != pod.unsized:
            pod.unsized = is_unsized
            self._renew_node(node, at, node.facts)
        if pod.crowded and gpus is not None:
            # Until now, the shares of the node exceeded its cards.
            pod.crowded, pod.not_before = False, at
        return gpus

    def _start(self, pod: TrackedPod, facts: PodFacts, node: TrackedNode, gpus: float, at: float) -> float | None:
        """Return when a pod without a holding began to hold its GPUs; None if no holding begins."""
        if gpus <= 0:
            return None
        if facts.over and (pod.is_recorded or self._was_known(facts)):
            pod.over = True
            return None
        start = min(facts.created if facts.scheduled is None else facts.scheduled, at)
        if not pod.not_before:
            return start
        # Its node was missing, also for an earlier collector; the GPUs count only since it came back.
        return None if node.open is None else max(start, pod.not_before, node.open.start)

    def _split(self, before: Holding, now: Holding, at: float, written: float | None) -> Holding:
        """End a holding at a change that splits it, and return the one that begins then; else return ``now``."""
        moment = self._time_of_change(before.start, at, written)
        if moment <= before.start or all(getattr(now, name) == getattr(before, name) for name in _SPLIT_FIELDS):
            return now
        since, ended = moment, before._replace(end=moment, ending=EndReason.CHANGED)
        if before.started is None and now.started is not None and now.started < moment:
            # The start time became known together with the change, for example after an outage.
            since, ended = max(now.started, before.start), ended._replace(started=now.started)
        self._changes.put_holding(ended, since)
        return now._replace(start=moment)

    def _time_of_change(self, start: float, at: float, written: float | None) -> float:
        """Return when an interval changed. A change seen in the first lists came after the earlier collector."""
        moment = min(max(at if written is None else written, start), at)
        if self._known_until is not None and not self._listed:
            moment = max(moment, min(self._known_until, at))
        return max(moment, start)

    def _share(self, pod: TrackedPod, facts: PodFacts, units: Mapping[str, float]) -> float | None:
        """Return the GPUs that a pod holds; None if unknown. A share that does not fit beside the others is unknown,
        too: one of them must have another size than requested.
        """
        gpus = self._weights.held_gpus(facts.gpu_requests, units)
        node = self._nodes[facts.node]
        if gpus is None or node.facts is None or not self._weights.is_share(facts.gpu_requests):
            return gpus
        if pod.open is not None and pod.open.gpus == gpus:
            return gpus
        others = (self._pods[uid] for uid in node.pods if uid != facts.uid)
        held = sum(other.open.gpus for other in others if other.open is not None)
        if held + gpus <= node.facts.capacity + _EPSILON:
            return gpus
        pod.crowded = True
        return None

    def _was_known(self, facts: PodFacts) -> bool:
        """Return True if an earlier collector has already stored a pod that ended before this one started."""
        ended = facts.finished if facts.finished is not None else facts.written
        return self._known_until is not None and ended is not None and ended <= self._known_until

    def _finish(self, pod: TrackedPod, at: float, otherwise: float, ending: EndReason) -> None:
        """End a holding when the containers finished; if that is unknown, at another time."""
        finished = pod.facts.finished if pod.facts is not None else None
        if finished is None:
            self._end(pod, otherwise, ending)
        else:
            self._end(pod, min(finished, at), EndReason.FINISHED)

    def _end(self, pod: TrackedPod, at: float, ending: EndReason) -> None:
        assert pod.open is not None
        end = max(at, pod.open.start)
        self._changes.put_holding(pod.open._replace(end=end, ending=ending), end)
        pod.open = None

    def _leave(self, name: str, uid: str, at: float) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        node.pods.discard(uid)
        if node.facts is not None:
            for other in [self._pods[one] for one in node.pods if self._pods[one].unsized]:
                # It may fit now.
                self._renew(other, at, None)
            self._renew_node(node, at, node.facts)
        elif node.open is None and not node.pods:
            del self._nodes[name]

    def _renew_pods(self, node: TrackedNode, at: float, written: float | None) -> None:
        for uid in tuple(node.pods):
            self._renew(self._pods[uid], at, written)

    def _renew_node(self, node: TrackedNode, at: float, before: NodeFacts | None, since: float | None = None) -> bool:
        """Update a node's capacity; return True if it had no GPUs before.

        :param since: when a pod began to hold GPUs: the GPUs existed by then.
        """
        facts = node.facts
        assert facts is not None
        gpus = self._capacity(node, facts)
        if not self._listed and self._known_until is not None and facts.created <= self._known_until:
            # All pods are needed to date the new number of a node that an earlier collector followed.
            gpus = node.gpus
        if node.open is None:
            if gpus:
                state = self._state(node, facts)
                start = since if since is not None and self._listed else self._begin(facts, at)
                # Times of the API server have whole seconds, and its GPUs may have been gone while a pod held them.
                start = max(start, self._changes.capacity_ends.get(facts.name, start))
                node.open = Capacity(facts.name, facts.model, gpus, state, start, None)
                self._changes.put_capacity(node.open, node.open.start)
            return node.open is not None
        known = node.open
        now = known._replace(model=facts.model, gpus=gpus, state=self._state(node, facts))
        if now == known:
            return False
        if since is not None and gpus > known.gpus:
            at = since
        turned = before is not None and before.ready_changed != facts.ready_changed
        written = (
            facts.ready_changed if turned and now._replace(state=known.state) == known else change_time(before, facts)
        )
        moment = self._time_of_change(known.start, at, written)
        if moment > known.start or not gpus:
            self._changes.put_capacity(known._replace(end=moment), moment)
        node.open = now._replace(start=moment) if gpus else None
        if node.open is not None:
            self._changes.put_capacity(node.open, moment)
        return False

    def _begin(self, facts: NodeFacts, at: float) -> float:
        """Return since when a node has its GPUs: its creation if it was not watched before, else the latest possible
        time.
        """
        if not self._listed:
            return min(facts.created, at)
        return min(max(facts.created, at if facts.written is None else facts.written), at)

    def _resize_time(self, node: TrackedNode, at: float) -> float | None:
        """Return since when a node has another number of GPUs than an earlier collector saw; None if it has the same.
        Time does not count as free in which the GPUs may not have existed, unless pods held them.
        """
        facts, known_until = node.facts, self._known_until
        if facts is None or known_until is None or (gpus := self._capacity(node, facts)) == node.gpus:
            return None
        held = [*self._changes.holdings_on(facts.name), *(self._pods[uid].open for uid in node.pods)]
        beyond = times_above(filter(None, held), min(gpus, node.gpus) + _EPSILON, known_until)
        if gpus < node.gpus:
            return min(beyond[-1][1], at) if beyond else known_until
        # The last write of a node says nothing about the devices of a driver.
        is_dated = not self._devices.get(facts.name) and (facts.written or 0.0) > known_until
        return smallest(at, beyond[0][0] if beyond else None, facts.written if is_dated else None)

    def _capacity(self, node: TrackedNode, facts: NodeFacts) -> float:
        pods = map(self._pods.__getitem__, node.pods)
        return capacity_of(facts, pods, self._devices.get(facts.name, 0.0), all_known=self._listed)

    def _state(self, node: TrackedNode, facts: NodeFacts) -> CapacityState:
        """Return a node's state. Until all pods are listed, an unsized node stays unsized."""
        was_unsized = node.open is not None and node.open.state is CapacityState.UNSIZED
        if (was_unsized and not self._listed) or any(self._pods[uid].unsized for uid in node.pods):
            return CapacityState.UNSIZED
        return facts.state
