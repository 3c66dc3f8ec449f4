"""When a pod may go to a node, rule by rule as kube-scheduler's default plugins decide it.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins`` (named at each rule). Rules that only rank nodes are left
out: they decide where a pod goes, never whether.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpuctl.capacity.scheduler_model import Incoming, PlacedPod, SchedulableNode, Seat, Spread, Term
from gpuctl.objects.api_resources import Object
from gpuctl.objects.selectors import Labels, holds, selects, tolerates

Pair = tuple[str, str]
"""A topology domain: key and value of a node's label."""
_BLOCKING = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Census(NamedTuple):
    """Pods near which a pod must or must not be, by domain: what the plugins count before they look at nodes."""

    affinity: Counter[Pair]
    anti_affinity: Counter[Pair]
    repelled: Counter[Pair]
    spread: tuple[Counter[str], ...]


NO_CENSUS = Census(Counter(), Counter(), Counter(), ())


def census(incoming: Incoming, seats: Iterable[Seat]) -> Census:
    """Count the pods that matter to an incoming one.

    Source: ``interpodaffinity/filtering.go`` (PreFilter), ``podtopologyspread/filtering.go`` (calPreFilterState).
    """
    result = Census(Counter(), Counter(), Counter(), tuple(Counter() for _ in incoming.spread))
    for seat in seats:
        labels = seat.node.labels
        for pod in seat.repelling:
            _count(result.repelled, [term for term in pod.anti_affinity if term.matches(incoming.pod)], labels)
        if not incoming.has_neighbours:
            continue
        for pod in seat.pods:
            if incoming.affinity and all(term.matches(pod) for term in incoming.affinity):
                _count(result.affinity, incoming.affinity, labels)
            _count(result.anti_affinity, [term for term in incoming.pod.anti_affinity if term.matches(pod)], labels)
        if all(rule.topology in labels for rule in incoming.spread):
            for rule, counts in zip(incoming.spread, result.spread, strict=True):
                if is_counted(rule, incoming, seat.node):
                    counts[labels[rule.topology]] += sum(is_spread(rule, incoming, pod) for pod in seat.pods)
    return result


def recounted(counted: Census, incoming: Incoming, before: Seat, now: Seat) -> Census:
    """A census after one node has changed."""
    old, new = census(incoming, (before,)), census(incoming, (now,))

    def pairs(total: Counter[Pair], less: Counter[Pair], more: Counter[Pair]) -> Counter[Pair]:
        total = Counter(total)
        total.subtract(less)
        total.update(more)
        return +total

    spread = []
    for total, less, more in zip(map(Counter, counted.spread), old.spread, new.spread, strict=True):
        # A domain without pods stays a domain.
        total.subtract(less)
        total.update(more)
        spread.append(total)
    return Census(
        pairs(counted.affinity, old.affinity, new.affinity),
        pairs(counted.anti_affinity, old.anti_affinity, new.anti_affinity),
        pairs(counted.repelled, old.repelled, new.repelled),
        tuple(spread),
    )


def _count(counts: Counter[Pair], terms: Iterable[Term], labels: Labels) -> None:
    for term in terms:
        if term.topology in labels:
            counts[term.topology, labels[term.topology]] += 1


def is_counted(rule: Spread, incoming: Incoming, node: SchedulableNode) -> bool:
    """Whether a node is one of those among which a rule spreads pods.

    Source: ``podtopologyspread/common.go``, matchNodeInclusionPolicies.
    """
    if rule.honour_affinity and not (_selected(incoming, node) and _in_terms(incoming, node)):
        return False
    return not rule.honour_taints or untolerated(incoming, node) is None


def is_spread(rule: Spread, incoming: Incoming, pod: PlacedPod) -> bool:
    """Whether a rule of spreading counts a pod: an empty selector counts nothing.

    Source: ``podtopologyspread/common.go``, countPodsMatchSelector.
    """
    if pod.deleting or pod.namespace != incoming.pod.namespace or rule.selector == {}:
        return False
    return selects(rule.selector, pod.labels)


def in_term(term: Object, node: SchedulableNode) -> bool:
    """Whether a node is in a node selector's term; an empty term has no nodes.

    Source: ``component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go``.
    """
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not (expressions or fields):
        return False
    names = {"metadata.name": node.name}
    return all(holds(item, node.labels) for item in expressions) and all(holds(item, names) for item in fields)


def _open(incoming: Incoming, seat: Seat, _: Census) -> bool:
    """Source: ``nodeunschedulable/node_unschedulable.go``."""
    return not seat.node.unschedulable or any(tolerates(item, _UNSCHEDULABLE) for item in incoming.tolerations)


def untolerated(incoming: Incoming, node: SchedulableNode) -> Object | None:
    """The first taint of a node that keeps a pod away. Source: ``tainttoleration/taint_toleration.go``."""
    for taint in node.taints:
        if taint.get("effect") in _BLOCKING and not any(tolerates(item, taint) for item in incoming.tolerations):
            return taint
    return None


def _selected(incoming: Incoming, node: SchedulableNode) -> bool:
    return incoming.node_selector.items() <= node.labels.items()


def _in_terms(incoming: Incoming, node: SchedulableNode) -> bool:
    return all(any(in_term(term, node) for term in terms) for terms in incoming.node_terms)


def _has_volumes(incoming: Incoming, seat: Seat, _: Census) -> bool:
    """Source: ``volumebinding/binder.go``, FindPodVolumes; ``volumezone/volume_zone.go``."""
    if incoming.volume_nodes is not None and seat.node.name not in incoming.volume_nodes:
        return False
    return all(any(in_term(term, seat.node) for term in terms) for terms in incoming.volume_terms)


def _ports_free(incoming: Incoming, seat: Seat, _: Census) -> bool:
    """Source: ``nodeports/node_ports.go``."""
    taken = [port for pod in seat.pods for port in pod.ports] if incoming.pod.ports else []
    return not any(port.conflicts(other) for port in incoming.pod.ports for other in taken)


def _room_for_pod(incoming: Incoming, seat: Seat, _: Census) -> bool:
    """Source: ``noderesources/fit.go``, fitsRequest: ``Too many pods``."""
    return len(seat.pods) < seat.node.allocatable.get("pods", 0)


def _enough(incoming: Incoming, seat: Seat, _: Census) -> bool:
    """Source: ``noderesources/fit.go``, fitsRequest: ``Insufficient ...``."""
    return all(amount <= seat.free(name) for name, amount in incoming.pod.requests.items())


def _attachable(incoming: Incoming, seat: Seat, _: Census) -> bool:
    """Source: ``nodevolumelimits/csi.go``, Filter: of one volume in several pods there is one.

    As there, a volume that is attached and that no pod of the node has counts beside itself.
    """
    limits = seat.node.attachable
    if not limits or not incoming.pod.volumes:
        return True
    used = frozenset().union(*(pod.volumes for pod in seat.pods))
    new, there = incoming.pod.volumes - used, used | seat.node.attached
    return all(
        sum(driver == name for name, _ in there) + sum(driver == name for name, _ in new) <= limits[driver]
        for driver in {driver for driver, _ in new} & limits.keys()
    )


def _even(incoming: Incoming, seat: Seat, counted: Census) -> bool:
    """Source: ``podtopologyspread/filtering.go``, Filter."""
    for rule, counts in zip(incoming.spread, counted.spread, strict=True):
        value = seat.node.labels.get(rule.topology)
        if value is None:
            return False
        least = min(counts.values(), default=0) if len(counts) >= rule.domains else 0
        own = selects(rule.selector, incoming.pod.labels)
        if counts[value] + own - least > rule.most:
            return False
    return True


def _near(incoming: Incoming, seat: Seat, counted: Census) -> bool:
    """Source: ``interpodaffinity/filtering.go``, satisfyPodAffinity: the first of a series needs no other."""
    labels = seat.node.labels
    if any(term.topology not in labels for term in incoming.affinity):
        return False
    if all(counted.affinity[term.topology, labels[term.topology]] > 0 for term in incoming.affinity):
        return True
    return not counted.affinity and all(term.matches(incoming.pod) for term in incoming.affinity)


def _far(incoming: Incoming, seat: Seat, counted: Census) -> bool:
    """Source: ``interpodaffinity/filtering.go``, satisfyPodAntiAffinity."""
    pairs = ((term.topology, seat.node.labels.get(term.topology, "")) for term in incoming.pod.anti_affinity)
    return not any(counted.anti_affinity[pair] > 0 for pair in pairs)


def _welcome(incoming: Incoming, seat: Seat, counted: Census) -> bool:
    """Source: ``interpodaffinity/filtering.go``, satisfyExistingPodsAntiAffinity."""
    return not any(seat.node.labels.get(key) == value for key, value in counted.repelled)


class SchedulingRule(NamedTuple):
    """A reason for which a node is out. ``resolvable`` tells that evicting others may help."""

    name: str
    holds: Callable[[Incoming, Seat, Census], bool]
    resolvable: bool


RULES: list[SchedulingRule] = [
    SchedulingRule("cordon", _open, False),
    SchedulingRule("taints", lambda incoming, seat, _: untolerated(incoming, seat.node) is None, False),
    SchedulingRule("node-selector", lambda incoming, seat, _: _selected(incoming, seat.node), False),
    SchedulingRule("node-affinity", lambda incoming, seat, _: _in_terms(incoming, seat.node), False),
    SchedulingRule("host-ports", _ports_free, True),
    SchedulingRule("pods", _room_for_pod, True),
    SchedulingRule("resources", _enough, True),
    SchedulingRule("attach-limits", _attachable, True),
    SchedulingRule("volumes", _has_volumes, False),
    SchedulingRule("topology-spread", _even, True),
    SchedulingRule("pod-affinity", _near, False),
    SchedulingRule("pod-anti-affinity", _far, True),
    SchedulingRule("existing-anti-affinity", _welcome, True),
]
"""In the order of the plugins (``apis/config/v1/default_plugins.go``): the first that fails is the node's status."""


_OF_NODES = ("node-selector", "node-affinity", "volumes", "cordon", "taints", "pods", "resources")


def rules_of_nodes() -> list[SchedulingRule]:
    """The rules of which a node without pods tells whether pods that leave may ever open it; the cheapest first."""
    rules = {rule.name: rule for rule in RULES}
    return [rules[name] for name in _OF_NODES if name in rules]


def obstacle(incoming: Incoming, seat: Seat, counted: Census) -> SchedulingRule | None:
    """The first rule that keeps a pod from a node, or None."""
    for rule in RULES:
        if not rule.holds(incoming, seat, counted):
            return rule
    return None
