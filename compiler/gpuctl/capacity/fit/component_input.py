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
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo
from gpuctl.capacity.scheduler.scheduling import has_node_for
from gpuctl.capacity.scheduler.suitable_nodes import scheduling_key


@dataclass(frozen=True)
class ComponentInput:
    """The jobs of a component, the most important first, and its part of the cluster.

    ``selectable_nodes`` are all nodes that the jobs select: a change of a job or a node may open them. ``all_nodes``
    are all nodes of the cluster. ``balances`` is a cache.
    """

    cluster: ClusterModel
    demands: list[Demand]
    admissions: list[QuotaAdmission]
    selectable_nodes: list[NodeInfo] = field(default_factory=list)
    all_nodes: list[NodeInfo] = field(default_factory=list)
    balances: dict[object, ResourceBalance] = field(default_factory=dict)

    @cached_property
    def reported_groups(self) -> list[list[tuple[PodGroup, int]]]:
        """The pod groups of each job, without resources that no node reports."""
        return [
            [(without_unreported(group, self.cluster.reported_resources), number) for group, number in demand.groups]
            for demand in self.demands
        ]

    @cached_property
    def has_room_for_pending(self) -> bool:
        """True if a pending pod may be placed now: then that happens before new pods are, whatever their priority."""
        return any(has_node_for(pod, self.cluster.node_infos) for pod in self.cluster.waiting)

    @cached_property
    def daemon_state(self) -> ClusterState:
        """The nodes with only the pods that stay on them (DaemonSets, static pods)."""
        node_infos = [node_info.when_empty() for node_info in self.cluster.node_infos]
        return initial_state(node_infos, self.cluster.names_hosts)

    def balance(self, demand: Demand, node_infos: Sequence[NodeInfo]) -> ResourceBalance:
        """Return what a job needs and what these nodes have free.

        :param node_infos: all nodes of the component, in its order.
        """
        own = self.cluster.node_infos
        numbers = {node_info.node.name: index for index, node_info in enumerate(own)}
        nodes = eligible_nodes(demand.groups[0][0].incoming, own) if demand.groups else []
        return resource_balance(demand, [node_infos[numbers[node_info.node.name]] for node_info in nodes])

    def balance_before(self, demand: Demand) -> ResourceBalance:
        """Return what a job needs and what the nodes have free before any job is created."""
        key = demand.priority, tuple((scheduling_key(group.incoming), number) for group, number in demand.groups)
        if key not in self.balances:
            self.balances[key] = self.balance(demand, list(self.start_state(demand.priority).node_infos))
        return self.balances[key]

    def start_state(self, priority: int) -> ClusterState:
        """Return the nodes as a first job of a priority finds them, with the nominated pods that it must respect."""
        state = initial_state(self.cluster.node_infos, self.cluster.names_hosts)
        for index, pod in self.cluster.nominated:
            if pod.priority >= priority:
                state = state.put(index, pod)
        return state


def without_unreported(group: PodGroup, resources: frozenset[str]) -> PodGroup:
    """Return the group without resources that no node reports: another component may allocate them."""
    pod = group.incoming.pod
    if pod.requests.keys() <= resources:
        return group
    known = {name: amount for name, amount in pod.requests.items() if name in resources}
    return group._replace(incoming=replace(group.incoming, pod=replace(pod, requests=known)))
