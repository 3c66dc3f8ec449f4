"""Nodes and pods in the scheduler's terms.

Amounts are whole numbers in the scheduler's units: thousandths of a core for cpu, bytes or pieces for everything else,
rounded up (``framework/types.go``, Resource.Add).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from gpuctl.capacity.snapshot.pod_requests import Amounts
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.label_names import LEADER_WORKER_SET_NAME
from gpuctl.objects.quantities import format_amount, sum_by_key
from gpuctl.objects.role_jobs import JOBSET_LABEL
from gpuctl.objects.selectors import Labels, selector_matches

Units = dict[str, int]
"""Resource name -> amount in the scheduler's units."""
Volume = tuple[str, str]
"""A volume that a CSI driver attaches: the driver's name and the volume handle."""
VOLUMES_OF_CLASS = "volumes of storage class "
"""Prefix of the resource that stands for the existing volumes of a storage class, for which unbound claims compete."""
HOST_NAME = "kubernetes.io/hostname"
CLUSTER_TOPOLOGY = "(cluster)"
"""A label added to every node, with one value for the whole cluster: the topology of rules that hold cluster-wide. No
real label can have this name.
"""
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - the API's word for all addresses of a node, nothing is bound here


def units(amounts: Amounts) -> Units:
    """Convert amounts to the scheduler's units; zero amounts are left out."""
    return {
        name: math.ceil(amount * 1000) if name == "cpu" else math.ceil(amount)
        for name, amount in amounts.items()
        if amount > 0
    }


def amount_of(resource: str, value: int) -> Fraction:
    """Convert a value in the scheduler's units to an amount."""
    return Fraction(value, 1000) if resource == "cpu" else Fraction(value)


def format_units(resource: str, amount: int) -> str:
    """Format an amount in the scheduler's units: ``3 nvidia.com/gpu``, ``1500m cpu``, ``64Gi memory``."""
    if resource.startswith(VOLUMES_OF_CLASS):
        storage_class = resource.removeprefix(VOLUMES_OF_CLASS)
        return say("{volumes:volume} of storage class {name}", volumes=amount, name=storage_class)
    return f"{format_amount(resource, amount_of(resource, amount))} {resource}"


class HostPort(NamedTuple):
    """A host port that a container binds."""

    ip: str
    protocol: str
    number: int

    def conflicts(self, other: HostPort) -> bool:
        """Source: kube-scheduler ``framework/types.go``, HostPortInfo.CheckConflict."""
        same = (self.protocol, self.number) == (other.protocol, other.number)
        return same and (self.ip == other.ip or _EVERYWHERE in (self.ip, other.ip))


class AffinityTerm(NamedTuple):
    """A required term of pod affinity or anti-affinity: a pod selector and the topology key."""

    topology: str
    selector: Object | None
    namespaces: frozenset[str]

    def matches(self, pod: PlacedPod) -> bool:
        """Return True if the term selects a pod."""
        return pod.namespace in self.namespaces and selector_matches(self.selector, pod.labels)


class SpreadConstraint(NamedTuple):
    """A topology spread constraint with ``whenUnsatisfiable: DoNotSchedule``.

    ``honour_affinity`` and ``honour_taints`` are its node inclusion policies.
    """

    topology: str
    selector: Object | None
    max_skew: int
    min_domains: int
    honour_affinity: bool
    honour_taints: bool


class DelayedClaim(NamedTuple):
    """A claim that is bound when the first pod that uses it is scheduled (``WaitForFirstConsumer``).

    ``is_ephemeral``: the claim of an ephemeral volume, one for each pod.
    """

    claim: Object
    is_ephemeral: bool

    @property
    def key(self) -> tuple[str, str]:
        """The claim's namespace and name."""
        return self.claim["namespace"], self.claim["name"]


@dataclass(frozen=True, eq=False)
class PlacedPod:
    """A pod with what matters to the scheduler and to quotas.

    ``start`` is the start time (RFC 3339), "" before the start. ``stays_on_node``: the pod belongs to its node
    (DaemonSet, static pod). ``volumes`` are attached to the node by CSI drivers. ``scored`` is the cpu and memory used
    to score nodes. ``ends`` is the latest time at which the pod has left its node (RFC 3339), "" if unknown.
    ``priority_class`` and ``has_deadline`` (``activeDeadlineSeconds``) select quota scopes.
    """

    namespace: str
    name: str
    labels: Labels = field(default_factory=dict)
    priority: int = 0
    requests: Units = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    start: str = ""
    stays_on_node: bool = False
    deleting: bool = False
    owner: str = ""
    priority_class: str = ""
    has_deadline: bool = False
    volumes: frozenset[Volume] = frozenset()
    scored: tuple[int, int] = (0, 0)
    ends: str = ""

    @property
    def importance(self) -> tuple[int, str]:
        """Sort key: pods with a smaller key are preempted last. Source: ``pkg/scheduler/util/utils.go``,
        MoreImportantPod.
        """
        return -self.priority, self.start or "~"


@dataclass(frozen=True, eq=False)
class SchedulableNode:
    """A node without its pods.

    ``attachable`` is the number of volumes that each CSI driver can attach; ``attached`` are the volumes attached now.
    ``devices`` are the resources that drivers offer as devices (DRA); ``shared`` are those that count the same devices.
    """

    name: str
    allocatable: Units
    labels: Labels
    taints: Sequence[Object]
    unschedulable: bool
    attachable: Mapping[str, int]
    attached: frozenset[Volume]
    devices: frozenset[str] = frozenset()
    shared: tuple[frozenset[str], ...] = ()

    def charged(self, requests: Units) -> Units:
        """Return what requests take of each resource of the node; those that count the same devices take the sum."""
        result = dict(requests) if self.shared else requests
        for names in self.shared:
            total = sum(requests.get(name, 0) for name in names)
            if total:
                result.update(dict.fromkeys(names, total))
        return result


def _workload(pod: PlacedPod) -> str:
    """Return the workload of a pod as ``KIND/NAME``: the JobSet or LeaderWorkerSet, not a part that it owns."""
    if name := pod.labels.get(JOBSET_LABEL):
        return f"JobSet/{name}"
    if name := pod.labels.get(LEADER_WORKER_SET_NAME):
        return f"LeaderWorkerSet/{name}"
    return pod.owner


@dataclass(frozen=True, eq=False)
class NodeInfo:
    """A node with its pods. Immutable: adding or removing a pod returns another one."""

    node: SchedulableNode
    pods: tuple[PlacedPod, ...] = ()

    @cached_property
    def used(self) -> Units:
        """The sum of the pods' requests."""
        return sum_by_key(self.node.charged(pod.requests) for pod in self.pods)

    @cached_property
    def scored(self) -> tuple[int, int]:
        """The cpu and memory of its pods, as used to score nodes."""
        return sum(pod.scored[0] for pod in self.pods), sum(pod.scored[1] for pod in self.pods)

    @cached_property
    def repelling(self) -> tuple[PlacedPod, ...]:
        """The pods with required anti-affinity."""
        return tuple(pod for pod in self.pods if pod.anti_affinity)

    def free(self, name: str) -> int:
        """Return the free amount of a resource; ``pods`` is the number of pods that still fit. Negative if
        overcommitted.
        """
        if name == "pods":
            return self.node.allocatable.get("pods", 0) - len(self.pods)
        return self.node.allocatable.get(name, 0) - self.used.get(name, 0)

    def held(self, name: str) -> list[tuple[tuple[str, str, int], int]]:
        """Return a holder (namespace, workload, priority) and an amount for each pod that holds a resource. Each pod
        holds 1 of ``pods``.
        """
        return [
            ((pod.namespace, _workload(pod), pod.priority), amount)
            for pod in self.pods
            if (amount := 1 if name == "pods" else self.node.charged(pod.requests).get(name, 0))
        ]

    def with_pod(self, pod: PlacedPod) -> NodeInfo:
        """Return the node with one more pod."""
        return NodeInfo(self.node, (*self.pods, pod))

    def without(self, pods: Iterable[PlacedPod]) -> NodeInfo:
        """Return the node without some of its pods."""
        gone = set(map(id, pods))
        return NodeInfo(self.node, tuple(pod for pod in self.pods if id(pod) not in gone))

    def when_empty(self) -> NodeInfo:
        """Return the node with only the pods that stay on it (DaemonSets, static pods)."""
        return NodeInfo(self.node, tuple(pod for pod in self.pods if pod.stays_on_node))

    def below(self, priority: int) -> Units | None:
        """Return the requests of its pods below a priority, or None if it has no such pods."""
        lower = [self.node.charged(pod.requests) for pod in self.pods if pod.priority < priority]
        return sum_by_key(lower) if lower else None


@dataclass(frozen=True, eq=False)
class IncomingPod:
    """A pod that is to be scheduled.

    ``node_terms``: each item is a list of alternative node selector terms; all items must match. ``preferred_nodes``
    are weighted terms. ``volume_terms`` are the node terms of the volumes of its bound claims. ``delayed_claims`` are
    its claims without a volume; ``volume_nodes`` the names of the nodes on which they can get one, None for all nodes.
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
        """All its rules about other pods, spread constraints included, as affinity terms."""
        spread = (AffinityTerm(rule.topology, rule.selector, frozenset((self.pod.namespace,))) for rule in self.spread)
        return (*self.affinity, *self.pod.anti_affinity, *spread)

    @property
    def has_neighbours(self) -> bool:
        """True if any of its rules depends on other pods."""
        return bool(self.affinity or self.pod.anti_affinity or self.spread)
