"""The input for judging one component: its jobs, and the nodes and pods that matter to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpuctl.capacity.fit.shortage import ResourceBalance, eligible_nodes, resource_balance
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.pods.quota_admission import QuotaAdmission
from gpuctl.capacity.scheduler.cluster_state import ClusterState, PodGroup, initial_state
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo
from gpuctl.capacity.scheduler.suitable_nodes import node_selection_key, scheduling_key


@dataclass(frozen=True)
class ComponentInput:
    """The jobs of a component, the most important first, and its part of the cluster.

    ``selectable_nodes`` are all nodes that the jobs select: a change of a job or a node may open them. ``all_nodes``
    are all nodes of the cluster. The other fields are caches.
    """

    cluster: ClusterModel
    demands: list[Demand]
    admissions: list[QuotaAdmission]
    selectable_nodes: list[NodeInfo] = field(default_factory=list)
    all_nodes: list[NodeInfo] = field(default_factory=list)
    open_nodes: dict[object, list[int]] = field(default_factory=dict)
    balances: dict[object, ResourceBalance] = field(default_factory=dict)
    start_states: dict[int, ClusterState] = field(default_factory=dict)

    @cached_property
    def reported_groups(self) -> list[list[tuple[PodGroup, int]]]:
        """The pod groups of each job, without resources that no node reports."""
        return [
            [(without_unreported(group, self.cluster.reported_resources), number) for group, number in demand.groups]
            for demand in self.demands
        ]

    @cached_property
    def daemon_state(self) -> ClusterState:
        """The nodes with only the pods that stay on them (DaemonSets, static pods)."""
        node_infos = [node_info.when_empty() for node_info in self.cluster.node_infos]
        return initial_state(node_infos, self.cluster.names_hosts)

    def balance(self, demand: Demand, node_infos: Sequence[NodeInfo]) -> ResourceBalance:
        """Return what a job needs and what these nodes have free.

        :param node_infos: all nodes of the component, in its order.
        """
        numbers = self.open_to(demand.groups[0][0].incoming) if demand.groups else []
        return resource_balance(demand, [node_infos[number] for number in numbers])

    def open_to(self, incoming: IncomingPod) -> list[int]:
        """Return the numbers of the nodes that pass the node rules for a pod."""
        key = node_selection_key(incoming), str(incoming.tolerations)
        if key not in self.open_nodes:
            own = self.cluster.node_infos
            numbers = {node_info.node.name: index for index, node_info in enumerate(own)}
            self.open_nodes[key] = [numbers[node_info.node.name] for node_info in eligible_nodes(incoming, own)]
        return self.open_nodes[key]

    def balance_before(self, demand: Demand) -> ResourceBalance:
        """Return what a job needs and what the nodes have free before any job is created."""
        key = demand.priority, tuple((scheduling_key(group.incoming), number) for group, number in demand.groups)
        if key not in self.balances:
            self.balances[key] = self.balance(demand, list(self.start_state(demand.priority).node_infos))
        return self.balances[key]

    def start_state(self, priority: int) -> ClusterState:
        """Return the nodes as a first job of a priority finds them, with the nominated pods that it must respect."""
        promised = [(index, pod) for index, pod in self.cluster.nominated if pod.priority >= priority]
        # A lower priority sees more nominated pods: the same number means the same pods.
        if len(promised) not in self.start_states:
            state = initial_state(self.cluster.node_infos, self.cluster.names_hosts)
            for index, pod in promised:
                state = state.put(index, pod)
            self.start_states[len(promised)] = state
        return self.start_states[len(promised)]


def without_unreported(group: PodGroup, resources: frozenset[str]) -> PodGroup:
    """Return the group without resources that no node reports: another component may allocate them."""
    pod = group.incoming.pod
    if pod.requests.keys() <= resources:
        return group
    known = {name: amount for name, amount in pod.requests.items() if name in resources}
    return group._replace(incoming=replace(group.incoming, pod=replace(pod, requests=known)))
