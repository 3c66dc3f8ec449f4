"""Jobs that may meet, with the nodes that they look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpuctl.capacity.cluster_model import Cluster
from gpuctl.capacity.demand import Demand
from gpuctl.capacity.placement import PodGroup, State, initial
from gpuctl.capacity.quota_admission import Admission
from gpuctl.capacity.scheduler_model import Incoming, Seat
from gpuctl.capacity.shortage import Balance, CountedNodes, balance, open_seats
from gpuctl.capacity.suitable_nodes import selection_of, shape_key
from gpuctl.capacity.verdicts import Verdict


@dataclass(frozen=True)
class Scene:
    """Jobs that may meet, the most important first, and the nodes that they look at.

    ``around`` are nodes, these among them, that a change of a job or a node may open, ``whole`` are all.
    """

    cluster: Cluster
    demands: list[Demand]
    admissions: list[Admission]
    around: list[Seat] = field(default_factory=list)
    whole: list[Seat] = field(default_factory=list)
    open_nodes: dict[object, list[int]] = field(default_factory=dict)
    emptied: dict[object, tuple[Verdict, str]] = field(default_factory=dict)
    balances: dict[object, Balance] = field(default_factory=dict)
    counted: dict[object, CountedNodes] = field(default_factory=dict)
    starts: dict[int, State] = field(default_factory=dict)

    @cached_property
    def shown(self) -> list[list[tuple[PodGroup, int]]]:
        """The groups of each job's pods, without what no node shows."""
        return [
            [(shown(group, self.cluster.shown), number) for group, number in demand.groups] for demand in self.demands
        ]

    @cached_property
    def bare(self) -> State:
        """The nodes with those pods only that every node has (DaemonSets, static pods)."""
        seats = [Seat(seat.node, tuple(pod for pod in seat.pods if pod.stays)) for seat in self.cluster.seats]
        return initial(seats, self.cluster.names_hosts)

    def balance(self, demand: Demand, seats: Sequence[Seat], *, first: bool = False) -> Balance:
        """What a job needs and finds on these nodes, in the order of the cluster's.

        :param first: the nodes are as they are before any job comes: they are counted apart from others.
        """
        if not demand.groups:
            return balance(demand, seats)
        numbers = self.open_to(demand.groups[0][0].incoming)
        # Equal lists are the same, and kept.
        key = id(numbers), first
        if key not in self.counted:
            self.counted[key] = CountedNodes(numbers)
        return balance(demand, seats, self.counted[key])

    def open_to(self, incoming: Incoming) -> list[int]:
        """The numbers of the nodes that nothing but what runs there keeps a pod from."""
        key = selection_of(incoming), str(incoming.tolerations)
        if key not in self.open_nodes:
            own = self.cluster.seats
            numbers = {seat.node.name: index for index, seat in enumerate(own)}
            self.open_nodes[key] = [numbers[seat.node.name] for seat in open_seats(incoming, own)]
        return self.open_nodes[key]

    def balance_before(self, demand: Demand) -> Balance:
        """The same on the nodes as they are before any job comes."""
        key = demand.priority, tuple((shape_key(group.incoming), number) for group, number in demand.groups)
        if key not in self.balances:
            self.balances[key] = self.balance(demand, list(self.start(demand.priority).seats), first=True)
        return self.balances[key]

    def start(self, priority: int) -> State:
        """The nodes as a job of a priority finds them when it is the first, with the pods that are promised one."""
        promised = [(index, pod) for index, pod in self.cluster.nominated if pod.priority >= priority]
        # Of less important jobs these are some more: as many are the same.
        if len(promised) not in self.starts:
            state = initial(self.cluster.seats, self.cluster.names_hosts)
            for index, pod in promised:
                state = state.put(index, pod)
            self.starts[len(promised)] = state
        return self.starts[len(promised)]


def shown(group: PodGroup, resources: frozenset[str]) -> PodGroup:
    """The group without what no node shows: for whatever hands that out, it may well be placed."""
    pod = group.incoming.pod
    if pod.requests.keys() <= resources:
        return group
    known = {name: amount for name, amount in pod.requests.items() if name in resources}
    return group._replace(incoming=replace(group.incoming, pod=replace(pod, requests=known)))
