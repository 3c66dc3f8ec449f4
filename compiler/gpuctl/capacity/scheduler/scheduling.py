"""The filter rules of kube-scheduler's default plugins: may a pod run on a node?

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins`` (the file is named at each rule). Rules that only rank
nodes are in :mod:`gpuctl.capacity.scheduler.scoring`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpuctl.capacity.scheduler.scheduler_model import (
    AffinityTerm,
    IncomingPod,
    NodeInfo,
    PlacedPod,
    SchedulableNode,
    SpreadConstraint,
)
from gpuctl.objects.api_resources import Object
from gpuctl.objects.selectors import Labels, blocking_taint, requirement_matches, selector_matches, tolerates

Pair = tuple[str, str]
"""A topology domain: key and value of a node label."""
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NeighbourCounts(NamedTuple):
    """Number of pods by topology domain that matter to an incoming pod: the plugins' PreFilter state.

    ``repelled``: domains with pods whose anti-affinity excludes the incoming pod. ``spread``: for each spread
    constraint, matching pods by domain.
    """

    affinity: Counter[Pair]
    anti_affinity: Counter[Pair]
    repelled: Counter[Pair]
    spread: tuple[Counter[str], ...]


NO_NEIGHBOURS = NeighbourCounts(Counter(), Counter(), Counter(), ())


def count_neighbours(incoming: IncomingPod, node_infos: Iterable[NodeInfo]) -> NeighbourCounts:
    """Count the pods that matter to an incoming pod.

    Source: ``interpodaffinity/filtering.go`` (PreFilter), ``podtopologyspread/filtering.go`` (calPreFilterState).
    """
    result = NeighbourCounts(Counter(), Counter(), Counter(), tuple(Counter() for _ in incoming.spread))
    for node_info in node_infos:
        labels = node_info.node.labels
        for pod in node_info.repelling:
            _count(result.repelled, [term for term in pod.anti_affinity if term.matches(incoming.pod)], labels)
        if not incoming.has_neighbours:
            continue
        for pod in node_info.pods:
            if incoming.affinity and all(term.matches(pod) for term in incoming.affinity):
                _count(result.affinity, incoming.affinity, labels)
            _count(result.anti_affinity, [term for term in incoming.pod.anti_affinity if term.matches(pod)], labels)
        if all(rule.topology in labels for rule in incoming.spread):
            for rule, counts in zip(incoming.spread, result.spread, strict=True):
                if counts_node(rule, incoming, node_info.node):
                    counts[labels[rule.topology]] += sum(counts_pod(rule, incoming, pod) for pod in node_info.pods)
    return result


def updated_counts(counted: NeighbourCounts, incoming: IncomingPod, before: NodeInfo, now: NodeInfo) -> NeighbourCounts:
    """Return the counts after one node has changed."""
    old, new = count_neighbours(incoming, (before,)), count_neighbours(incoming, (now,))

    def pairs(total: Counter[Pair], less: Counter[Pair], more: Counter[Pair]) -> Counter[Pair]:
        total = Counter(total)
        total.subtract(less)
        total.update(more)
        return +total

    spread = []
    for total, less, more in zip(map(Counter, counted.spread), old.spread, new.spread, strict=True):
        # A domain whose count drops to 0 is still a domain.
        total.subtract(less)
        total.update(more)
        spread.append(total)
    return NeighbourCounts(
        pairs(counted.affinity, old.affinity, new.affinity),
        pairs(counted.anti_affinity, old.anti_affinity, new.anti_affinity),
        pairs(counted.repelled, old.repelled, new.repelled),
        tuple(spread),
    )


def _count(counts: Counter[Pair], terms: Iterable[AffinityTerm], labels: Labels) -> None:
    for term in terms:
        if term.topology in labels:
            counts[term.topology, labels[term.topology]] += 1


def counts_node(rule: SpreadConstraint, incoming: IncomingPod, node: SchedulableNode) -> bool:
    """Return True if a spread constraint includes a node.

    Source: ``podtopologyspread/common.go``, matchNodeInclusionPolicies.
    """
    if rule.honour_affinity and not (_selected(incoming, node) and _in_terms(incoming, node)):
        return False
    return not rule.honour_taints or untolerated_taint(incoming, node) is None


def counts_pod(rule: SpreadConstraint, incoming: IncomingPod, pod: PlacedPod) -> bool:
    """Return True if a spread constraint counts a pod. An empty selector counts none.

    Source: ``podtopologyspread/common.go``, countPodsMatchSelector.
    """
    if pod.deleting or pod.namespace != incoming.pod.namespace or rule.selector == {}:
        return False
    return selector_matches(rule.selector, pod.labels)


def matches_node_term(term: Object, node: SchedulableNode) -> bool:
    """Return True if a node selector term matches a node. An empty term matches no node.

    Source: ``component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go``.
    """
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not (expressions or fields):
        return False
    names = {"metadata.name": node.name}
    return all(requirement_matches(item, node.labels) for item in expressions) and all(
        requirement_matches(item, names) for item in fields
    )


def _is_schedulable(incoming: IncomingPod, node_info: NodeInfo, _: NeighbourCounts) -> bool:
    """Source: ``nodeunschedulable/node_unschedulable.go``."""
    return not node_info.node.unschedulable or any(tolerates(item, _UNSCHEDULABLE) for item in incoming.tolerations)


def untolerated_taint(incoming: IncomingPod, node: SchedulableNode) -> Object | None:
    """Return a node's first taint that a pod does not tolerate. Source: ``tainttoleration/taint_toleration.go``."""
    return blocking_taint(node.taints, incoming.tolerations)


def _selected(incoming: IncomingPod, node: SchedulableNode) -> bool:
    return incoming.node_selector.items() <= node.labels.items()


def _in_terms(incoming: IncomingPod, node: SchedulableNode) -> bool:
    return all(any(matches_node_term(term, node) for term in terms) for terms in incoming.node_terms)


def _reaches_volumes(incoming: IncomingPod, node_info: NodeInfo, _: NeighbourCounts) -> bool:
    """Source: ``volumebinding/binder.go``, FindPodVolumes; ``volumezone/volume_zone.go``."""
    if incoming.volume_nodes is not None and node_info.node.name not in incoming.volume_nodes:
        return False
    return all(any(matches_node_term(term, node_info.node) for term in terms) for terms in incoming.volume_terms)


def _has_free_ports(incoming: IncomingPod, node_info: NodeInfo, _: NeighbourCounts) -> bool:
    """Source: ``nodeports/node_ports.go``."""
    taken = [port for pod in node_info.pods for port in pod.ports] if incoming.pod.ports else []
    return not any(port.conflicts(other) for port in incoming.pod.ports for other in taken)


def _has_pod_slot(incoming: IncomingPod, node_info: NodeInfo, _: NeighbourCounts) -> bool:
    """Source: ``noderesources/fit.go``, fitsRequest: ``Too many pods``."""
    return len(node_info.pods) < node_info.node.allocatable.get("pods", 0)


def _has_resources(incoming: IncomingPod, node_info: NodeInfo, _: NeighbourCounts) -> bool:
    """Source: ``noderesources/fit.go``, fitsRequest: ``Insufficient ...``."""
    has, used = node_info.node.allocatable, node_info.used
    asked = node_info.node.charged(incoming.pod.requests)
    return all(amount <= has.get(name, 0) - used.get(name, 0) for name, amount in asked.items())


def _within_attach_limits(incoming: IncomingPod, node_info: NodeInfo, _: NeighbourCounts) -> bool:
    """Source: ``nodevolumelimits/csi.go``, Filter: a volume that several pods use counts once.

    As in the plugin, an attached volume that no pod of the node uses counts in addition.
    """
    limits = node_info.node.attachable
    if not limits or not incoming.pod.volumes:
        return True
    used = frozenset().union(*(pod.volumes for pod in node_info.pods))
    new, there = incoming.pod.volumes - used, used | node_info.node.attached
    return all(
        sum(driver == name for name, _ in there) + sum(driver == name for name, _ in new) <= limits[driver]
        for driver in {driver for driver, _ in new} & limits.keys()
    )


def _keeps_max_skew(incoming: IncomingPod, node_info: NodeInfo, counted: NeighbourCounts) -> bool:
    """Source: ``podtopologyspread/filtering.go``, Filter."""
    for rule, counts in zip(incoming.spread, counted.spread, strict=True):
        value = node_info.node.labels.get(rule.topology)
        if value is None:
            return False
        least = min(counts.values(), default=0) if len(counts) >= rule.min_domains else 0
        own = selector_matches(rule.selector, incoming.pod.labels)
        if counts[value] + own - least > rule.max_skew:
            return False
    return True


def _satisfies_affinity(incoming: IncomingPod, node_info: NodeInfo, counted: NeighbourCounts) -> bool:
    """Source: ``interpodaffinity/filtering.go``, satisfyPodAffinity: the first pod of a group that matches itself needs
    no other pod.
    """
    labels = node_info.node.labels
    if any(term.topology not in labels for term in incoming.affinity):
        return False
    if all(counted.affinity[term.topology, labels[term.topology]] > 0 for term in incoming.affinity):
        return True
    return not counted.affinity and all(term.matches(incoming.pod) for term in incoming.affinity)


def _satisfies_anti_affinity(incoming: IncomingPod, node_info: NodeInfo, counted: NeighbourCounts) -> bool:
    """Source: ``interpodaffinity/filtering.go``, satisfyPodAntiAffinity."""
    pairs = ((term.topology, node_info.node.labels.get(term.topology, "")) for term in incoming.pod.anti_affinity)
    return not any(counted.anti_affinity[pair] > 0 for pair in pairs)


def _satisfies_existing_anti_affinity(incoming: IncomingPod, node_info: NodeInfo, counted: NeighbourCounts) -> bool:
    """Source: ``interpodaffinity/filtering.go``, satisfyExistingPodsAntiAffinity."""
    return not any(node_info.node.labels.get(key) == value for key, value in counted.repelled)


class SchedulingRule(NamedTuple):
    """A filter rule. ``resolvable``: evicting pods may make the node pass."""

    name: str
    holds: Callable[[IncomingPod, NodeInfo, NeighbourCounts], bool]
    resolvable: bool


RULES: list[SchedulingRule] = [
    SchedulingRule("cordon", _is_schedulable, False),
    SchedulingRule("taints", lambda incoming, node_info, _: untolerated_taint(incoming, node_info.node) is None, False),
    SchedulingRule("node-selector", lambda incoming, node_info, _: _selected(incoming, node_info.node), False),
    SchedulingRule("node-affinity", lambda incoming, node_info, _: _in_terms(incoming, node_info.node), False),
    SchedulingRule("host-ports", _has_free_ports, True),
    SchedulingRule("pods", _has_pod_slot, True),
    SchedulingRule("resources", _has_resources, True),
    SchedulingRule("attach-limits", _within_attach_limits, True),
    SchedulingRule("volumes", _reaches_volumes, False),
    SchedulingRule("topology-spread", _keeps_max_skew, True),
    SchedulingRule("pod-affinity", _satisfies_affinity, False),
    SchedulingRule("pod-anti-affinity", _satisfies_anti_affinity, True),
    SchedulingRule("existing-anti-affinity", _satisfies_existing_anti_affinity, True),
]
"""In the order of the plugins (``apis/config/v1/default_plugins.go``): the first rule that fails is the node's status.
"""


def rules_named(*names: str) -> list[SchedulingRule]:
    """Return some rules, in this order."""
    rules = {rule.name: rule for rule in RULES}
    return [rules[name] for name in names if name in rules]


ROOM = rules_named("pods", "resources")
"""The rules about the amounts that pods leave free."""


def node_rules() -> list[SchedulingRule]:
    """Return the rules that can be checked on a node without pods, the cheapest first.

    A node that fails one of them stays closed to the pod, whichever pods leave.
    """
    return rules_named("node-selector", "node-affinity", "volumes", "cordon", "taints", "pods", "resources")


def nodes_that_pass(
    rules: Sequence[SchedulingRule], incoming: IncomingPod, node_infos: Iterable[NodeInfo], counted: NeighbourCounts
) -> list[NodeInfo]:
    """Return the nodes on which all of some rules hold."""
    return [node_info for node_info in node_infos if all(rule.holds(incoming, node_info, counted) for rule in rules)]


def failing_rule(incoming: IncomingPod, node_info: NodeInfo, counted: NeighbourCounts) -> SchedulingRule | None:
    """Return the first rule that excludes a node, or None if the pod may run there."""
    for rule in RULES:
        if not rule.holds(incoming, node_info, counted):
            return rule
    return None


def has_room(incoming: IncomingPod, node_info: NodeInfo) -> bool:
    """Return True if a node has enough of every resource."""
    return _has_pod_slot(incoming, node_info, NO_NEIGHBOURS) and _has_resources(incoming, node_info, NO_NEIGHBOURS)


def may_run(incoming: IncomingPod, node_info: NodeInfo, counted: NeighbourCounts) -> bool:
    """Return True if no rule excludes a node. Most nodes have no room, which is the cheapest to check."""
    return has_room(incoming, node_info) and failing_rule(incoming, node_info, counted) is None


def has_node_for(incoming: IncomingPod, node_infos: Sequence[NodeInfo]) -> bool:
    """Return True if a pod may run on any of all nodes."""
    counted = count_neighbours(incoming, node_infos)
    return any(may_run(incoming, node_info, counted) for node_info in node_infos)
