"""Nodes and pods in the scheduler's terms: what a node has, what its pods hold, what a pod to come asks for.

Amounts are whole numbers as the scheduler counts: thousandths of cpu, everything else in bytes or pieces, rounded up
(``framework/types.go``, Resource.Add).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gpuctl.capacity.pod_requests import Amounts
from gpuctl.objects.api_resources import Object
from gpuctl.objects.selectors import Labels, selects

Units = dict[str, int]
"""Resource name -> amount in the scheduler's units."""
Volume = tuple[str, str]
"""A volume that a CSI driver attaches: the driver, and its own name for the volume."""
HOST_NAME = "kubernetes.io/hostname"
CLUSTER_TOPOLOGY = "(cluster)"
"""A label that no node can have, with one value for all nodes: what is near by it is in the cluster."""
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - the API's word for all addresses of a node, nothing is bound here


def units(amounts: Amounts) -> Units:
    """Amounts as the scheduler counts them; what is zero is left out."""
    return {
        name: math.ceil(amount * 1000) if name == "cpu" else math.ceil(amount)
        for name, amount in amounts.items()
        if amount > 0
    }


class HostPort(NamedTuple):
    """A port of the node that a container binds."""

    ip: str
    protocol: str
    number: int

    def conflicts(self, other: HostPort) -> bool:
        """Source: kube-scheduler ``framework/types.go``, HostPortInfo.CheckConflict."""
        same = (self.protocol, self.number) == (other.protocol, other.number)
        return same and (self.ip == other.ip or _EVERYWHERE in (self.ip, other.ip))


class AffinityTerm(NamedTuple):
    """A required term of pod affinity or anti-affinity: other pods, and the label of nodes that makes them near."""

    topology: str
    selector: Object | None
    namespaces: frozenset[str]

    def matches(self, pod: PlacedPod) -> bool:
        """Whether it is about a pod."""
        return pod.namespace in self.namespaces and selects(self.selector, pod.labels)


class SpreadConstraint(NamedTuple):
    """A topology spread constraint that forbids (``DoNotSchedule``)."""

    topology: str
    selector: Object | None
    max_skew: int
    min_domains: int
    honour_affinity: bool
    honour_taints: bool


class DelayedClaim(NamedTuple):
    """A claim that gets its volume with the first pod; ``own``: each pod has one (an ephemeral volume)."""

    claim: Object
    is_ephemeral: bool

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.claim["namespace"], self.claim["name"]


@dataclass(frozen=True, eq=False)
class PlacedPod:
    """A pod as its node sees it. ``start`` is RFC 3339, "" before it; ``stays``: every node runs one (DaemonSet).

    ``volumes`` are those that a CSI driver attaches to its node. ``priority_class`` and ``has_deadline``
    (``activeDeadlineSeconds``) are what quotas ask for. ``scored`` is its cpu and memory where nodes are ranked.

    ``ends`` is when it has left at the latest (RFC 3339, "" where that is not known).
    """

    namespace: str
    name: str
    labels: Labels = field(default_factory=dict)
    priority: int = 0
    requests: Units = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    start: str = ""
    stays: bool = False
    deleting: bool = False
    owner: str = ""
    priority_class: str = ""
    has_deadline: bool = False
    volumes: frozenset[Volume] = frozenset()
    scored: tuple[int, int] = (0, 0)
    ends: str = ""

    @property
    def importance(self) -> tuple[int, str]:
        """Less is evicted later. Source: ``pkg/scheduler/util/utils.go``, MoreImportantPod."""
        return -self.priority, self.start or "~"


@dataclass(frozen=True, eq=False)
class SchedulableNode:
    """A node, without its pods. ``attachable`` is how many volumes a driver can attach, ``attached`` which are now."""

    name: str
    allocatable: Units
    labels: Labels
    taints: Sequence[Object]
    unschedulable: bool
    attachable: Mapping[str, int]
    attached: frozenset[Volume]


@dataclass(frozen=True, eq=False)
class NodeInfo:
    """A node with the pods on it. Never changes: moving a pod makes another one."""

    node: SchedulableNode
    pods: tuple[PlacedPod, ...] = ()

    @cached_property
    def used(self) -> Units:
        """The sum of the pods' requests."""
        total: Units = {}
        for pod in self.pods:
            for name, amount in pod.requests.items():
                total[name] = total.get(name, 0) + amount
        return total

    @cached_property
    def scored(self) -> tuple[int, int]:
        """The cpu and memory that its pods count where nodes are ranked."""
        return sum(pod.scored[0] for pod in self.pods), sum(pod.scored[1] for pod in self.pods)

    @cached_property
    def repelling(self) -> tuple[PlacedPod, ...]:
        """Pods that keep others away."""
        return tuple(pod for pod in self.pods if pod.anti_affinity)

    def free(self, name: str) -> int:
        """What is left of a resource; ``pods`` is one, too."""
        if name == "pods":
            return self.node.allocatable.get("pods", 0) - len(self.pods)
        return self.node.allocatable.get(name, 0) - self.used.get(name, 0)

    @cached_property
    def _held(self) -> dict[str, list[tuple[tuple[str, str, int], int]]]:
        return {}

    def held(self, name: str) -> list[tuple[tuple[str, str, int], int]]:
        """Who has how much of a resource, pod by pod: namespace, workload, priority; of ``pods`` one each."""
        if name not in self._held:
            self._held[name] = [
                ((pod.namespace, pod.owner, pod.priority), amount)
                for pod in self.pods
                if (amount := 1 if name == "pods" else pod.requests.get(name, 0))
            ]
        return self._held[name]

    def with_pod(self, pod: PlacedPod) -> NodeInfo:
        """The same with one pod more."""
        more = NodeInfo(self.node, (*self.pods, pod))
        if "used" in self.__dict__:
            # Its sum is known from this one's: of many pods, most of what it costs.
            used = dict(self.used)
            for name, amount in pod.requests.items():
                used[name] = used.get(name, 0) + amount
            more.__dict__["used"] = used
        return more

    def without(self, pods: Iterable[PlacedPod]) -> NodeInfo:
        """The same without some of its pods."""
        gone = {id(pod): pod for pod in pods}
        fewer = NodeInfo(self.node, tuple(pod for pod in self.pods if id(pod) not in gone))
        if "used" in self.__dict__ and len(fewer.pods) + len(gone) == len(self.pods):
            used = dict(self.used)
            for pod in gone.values():
                for name, amount in pod.requests.items():
                    used[name] -= amount
            fewer.__dict__["used"] = used
        return fewer

    @cached_property
    def _below(self) -> dict[int, Units | None]:
        return {}

    def below(self, priority: int) -> Units | None:
        """What its pods below a priority have; None when there are none."""
        if priority not in self._below:
            total: Units = {}
            lower = [pod for pod in self.pods if pod.priority < priority]
            for pod in lower:
                for name, amount in pod.requests.items():
                    total[name] = total.get(name, 0) + amount
            self._below[priority] = total if lower else None
        return self._below[priority]


@dataclass(frozen=True, eq=False)
class IncomingPod:
    """A pod that is to be scheduled. ``node_terms`` all have to hold, each a list of alternatives.

    ``volume_terms`` are those of the volumes that its claims are bound to, ``late`` its claims that have none yet,
    ``volume_nodes`` the names of the nodes where these get one (None: all).

    ``preferred_nodes`` are weighted terms.
    """

    pod: PlacedPod
    tolerations: Sequence[Object] = ()
    node_selector: Labels = field(default_factory=dict)
    node_terms: Sequence[Sequence[Object]] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    preempts: bool = True
    preferred_nodes: Sequence[tuple[int, Object]] = ()
    volume_terms: Sequence[Sequence[Object]] = ()
    delayed_claims: tuple[DelayedClaim, ...] = ()
    volume_nodes: frozenset[str] | None = None

    @cached_property
    def terms(self) -> tuple[AffinityTerm, ...]:
        """All that its rules say of other pods, whatever they say."""
        spread = (AffinityTerm(rule.topology, rule.selector, frozenset((self.pod.namespace,))) for rule in self.spread)
        return (*self.affinity, *self.pod.anti_affinity, *spread)

    @property
    def has_neighbours(self) -> bool:
        """Whether it matters to it which pods are where."""
        return bool(self.affinity or self.pod.anti_affinity or self.spread)
