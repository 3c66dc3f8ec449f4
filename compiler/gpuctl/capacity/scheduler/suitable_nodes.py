"""The nodes that suit a pod whatever runs there, and keys for pods that the scheduler treats alike."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo
from gpuctl.capacity.scheduler.scheduling import NO_NEIGHBOURS, SchedulingRule, node_rules

_SELECTING = ("node-selector", "node-affinity", "volumes")


class SuitableNodes:
    """The nodes without their pods. The suitable ones are computed once for all pods with the same selection."""

    def __init__(self, node_infos: Sequence[NodeInfo]) -> None:
        self._node_infos = [NodeInfo(node_info.node) for node_info in node_infos]
        self._rules = node_rules()
        self._open: dict[object, list[int]] = {}

    def open_to(self, incoming: IncomingPod) -> list[int]:
        """Return the numbers of the nodes that pass the node rules for a pod and are large enough for it."""
        key = *node_selection_key(incoming), str(incoming.tolerations), frozenset(incoming.pod.requests.items())
        if key not in self._open:
            self._open[key] = self._kept(incoming, self._rules)
        return self._open[key]

    def selected_by(self, incoming: IncomingPod) -> list[int]:
        """Return the numbers of the nodes that a pod selects, even if taints, cordon or size exclude it."""
        key = node_selection_key(incoming)
        if key not in self._open:
            self._open[key] = self._kept(incoming, [rule for rule in self._rules if rule.name in _SELECTING])
        return self._open[key]

    def _kept(self, incoming: IncomingPod, rules: Sequence[SchedulingRule]) -> list[int]:
        return [
            index
            for index, node_info in enumerate(self._node_infos)
            if all(rule.holds(incoming, node_info, NO_NEIGHBOURS) for rule in rules)
        ]


def node_selection_key(incoming: IncomingPod) -> tuple[object, ...]:
    """Return a value that is equal for pods that select the same nodes."""
    return (
        frozenset(incoming.node_selector.items()),
        str(incoming.node_terms),
        str(incoming.volume_terms),
        incoming.volume_nodes,
    )


def scheduling_key(incoming: IncomingPod) -> object:
    """Return a value that is equal for pods that no rule distinguishes."""
    pod = incoming.pod
    return (
        frozenset(pod.requests.items()),
        pod.scored,
        pod.priority,
        incoming.preempts,
        *node_selection_key(incoming),
        str(incoming.tolerations),
        str(incoming.preferred_nodes),
        pod.ports,
        pod.volumes,
        (pod.namespace, frozenset(pod.labels.items()), str(incoming.terms)) if incoming.terms else None,
    )
