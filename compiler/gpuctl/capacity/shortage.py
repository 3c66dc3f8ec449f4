"""What a job lacks in a cluster, who has it, and the smallest change with which it would fit."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import compress, repeat
from operator import attrgetter, floordiv, is_not
from typing import NamedTuple

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.placement import PodGroup, State, initial, settle
from gpuctl.capacity.quota_charges import Shortfall, format_amount
from gpuctl.capacity.scheduler_model import Incoming, Seat, Units
from gpuctl.capacity.scheduling import RULES, census, untolerated
from gpuctl.capacity.unready_nodes import is_passing
from gpuctl.objects.api_resources import TRAININGS

PODS = "pods"
"""The resource that a node's ``allocatable`` has beside the others: how many pods it runs."""
_OF_NODES = ("cordon", "taints", "node-selector", "node-affinity", "volumes")
# A change is told in steps that people would take.
# What the node controller, autoscalers (cluster-autoscaler, Karpenter) and administrators put on nodes out of use.
_UPKEEP = re.compile(
    r"node\.kubernetes\.io/|node\.cloudprovider\.kubernetes\.io/|ByClusterAutoscaler|OfClusterAutoscaler|karpenter\.sh/"
    r"|maint(?:enance|ain)|drain|repair|cordon|broken|unhealthy|quarantine|faulty|upgrad",
    re.IGNORECASE,
)
_STEPS = {"cpu": 100, "memory": 64 << 20, "ephemeral-storage": 64 << 20}
_TRIED = 32
# The node controller's, beside ``spec.unschedulable`` (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
_CORDON = "node.kubernetes.io/unschedulable"

Groups = Sequence[tuple[PodGroup, int]]


class Holder(NamedTuple):
    """A workload that has some of the resource that is short."""

    namespace: str
    owner: str
    priority: int
    pods: int
    amount: int


class Balance(NamedTuple):
    """What a job needs and what the nodes open to it have. ``scarce`` is the resource that has room for the fewest."""

    per_pod: Units
    need: Units
    free: Units
    largest: tuple[str, Units] | None
    scarce: str
    held_by: list[Holder]


def told(resource: str, amount: int) -> str:
    """``3 nvidia.com/gpu``, ``1500m cpu``, ``64Gi memory``."""
    exact = Fraction(amount, 1000) if resource == "cpu" else Fraction(amount)
    return f"{format_amount(resource, exact)} {resource}"


def open_seats(incoming: Incoming, seats: Sequence[Seat]) -> list[Seat]:
    """The nodes that nothing but what runs there keeps a pod from."""
    counted = census(incoming, ())
    rules = [rule for rule in RULES if rule.name in _OF_NODES]
    return [seat for seat in seats if all(rule.holds(incoming, seat, counted) for rule in rules)]


def balance(demand: Demand, seats: Sequence[Seat], counted: CountedNodes | None = None) -> Balance:
    """Need, room and holders. Of several kinds of pods the one counts first that needs most room on its node.

    :param counted: the nodes that are open to its pods, where they are known, with what was counted on them before.
    """
    need: Units = {}
    for group, number in demand.groups:
        for name, amount in group.incoming.pod.requests.items():
            need[name] = need.get(name, 0) + amount * number
    if not demand.groups:
        return Balance({}, need, {}, None, PODS, [])
    incoming = demand.groups[0][0].incoming
    own = incoming.pod.requests
    if counted is None:
        seats = open_seats(incoming, seats)
        counted = CountedNodes(range(len(seats)))
    nodes = counted.follow(seats)
    names = [*sorted(own, key=lambda name: "/" not in name), PODS]
    left = {name: counted.left(name) for name in names}
    rooms = {name: _rooms(left[name], own.get(name, 1)) for name in names}
    scarce = min(names, key=rooms.__getitem__)
    free = {name: sum(left[name]) for name in names}
    most = max(left[scarce], default=0)
    best = nodes[left[scarce].index(most)] if nodes else None
    largest = None if best is None else (best.node.name, {name: max(0, best.free(name)) for name in names})
    return Balance(own, need, free, largest, scarce, counted.held(scarce))


def _left(name: str, seats: Sequence[Seat]) -> list[int]:
    """What nodes have left of a resource."""
    if name == PODS:
        left = [seat.node.allocatable.get(name, 0) - len(seat.pods) for seat in seats]
    else:
        left = [seat.node.allocatable.get(name, 0) - seat.used.get(name, 0) for seat in seats]
    return [amount if amount > 0 else 0 for amount in left]


def _rooms(left: Sequence[int], amount: int) -> int:
    """How many times an amount is left, node by node."""
    return sum(left) if amount == 1 else sum(map(floordiv, left, repeat(amount)))


class CountedNodes:
    """Some nodes, told by their numbers among others, while these change: what is left on them, and who has the rest.

    Only what has changed is counted again.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._seats: list[Seat] = []
        self._left: dict[str, list[int]] = {}
        self._held: dict[str, HeldAmounts] = {}

    def follow(self, seats: Sequence[Seat]) -> list[Seat]:
        """These nodes as they are now, among all."""
        before, self._seats = self._seats, [seats[number] for number in self._numbers]
        if self._left:
            changed = list(compress(range(len(before)), map(is_not, before, self._seats)))
            now = [self._seats[index] for index in changed]
            for name, left in self._left.items():
                for index, amount in zip(changed, _left(name, now), strict=True):
                    left[index] = amount
        return self._seats

    def left(self, name: str) -> Sequence[int]:
        """What each of them has left of a resource, now."""
        if name not in self._left:
            self._left[name] = _left(name, self._seats)
        return self._left[name]

    def held(self, name: str) -> list[Holder]:
        """Who has how much of a resource on them, now."""
        return self._held.setdefault(name, HeldAmounts(name)).of(self._seats)


class HeldAmounts:
    """Who has how much of a resource on some nodes, while these change: only what has changed is counted again."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._seats: Sequence[Seat | None] = ()
        self._found: dict[tuple[str, str, int], Holder] = {}
        self._in_order: list[tuple[str, str, int]] = []

    def of(self, seats: Sequence[Seat]) -> list[Holder]:
        """Who has how much on these nodes, the largest holder first: always the same nodes, in the same order."""
        before = self._seats or [None] * len(seats)
        for index in compress(range(len(seats)), map(is_not, before, seats)):
            self._count(before[index], -1)
            self._count(seats[index], 1)
        self._seats = seats
        # Python's sort keeps the order of what is equal, from behind, too.
        holders = map(self._found.__getitem__, self._in_order)
        return sorted(holders, key=attrgetter("amount"), reverse=True)

    def _count(self, seat: Seat | None, sign: int) -> None:
        found = self._found
        for key, amount in seat.held(self._resource) if seat else ():
            before = found.get(key)
            if before is None:
                insort(self._in_order, key)
                found[key] = Holder(*key, sign, sign * amount)
            elif before.pods + sign:
                found[key] = Holder(*key, before.pods + sign, before.amount + sign * amount)
            else:
                del found[key], self._in_order[bisect_left(self._in_order, key)]


def holders(resource: str, seats: Sequence[Seat]) -> list[Holder]:
    """Who has how much of a resource on some nodes, the largest holder first."""
    return HeldAmounts(resource).of(seats)


def shortage(demand: Demand, found: Balance, starts: int) -> str:
    """Why not all pods of a job have room now."""
    asked = ", ".join(told(name, amount) for name, amount in found.per_pod.items()) or "no resources"
    if found.largest is None:
        return "no node is open to its pods"
    name, room = found.largest
    room_there = told(found.scarce, room[found.scarce]).split()[0]
    here = f"{told(found.scarce, found.free[found.scarce])} free in all, at most {room_there} on one node ({name})"
    return f"{starts} of {demand.pods} pods ({asked} each) have room now; {here}"


def port_shortage(demand: Demand, starts: int, seats: Sequence[Seat]) -> str:
    """Return a sentence if too few nodes have the host ports free; "" if something else is short, or nothing.

    Two pods with one host port need two nodes. Nodes are taken as they are before the job comes.
    """
    if len(demand.groups) != 1 or not demand.groups[0][0].incoming.pod.ports:
        return ""
    incoming = demand.groups[0][0].incoming
    counted = census(incoming, seats)
    rules = {rule.name: rule for rule in RULES}
    roomy = [
        seat
        for seat in open_seats(incoming, seats)
        if all(rules[name].holds(incoming, seat, counted) for name in ("pods", "resources"))
    ]
    free = [seat for seat in roomy if rules["host-ports"].holds(incoming, seat, counted)]
    own = {**incoming.pod.requests, PODS: 1}
    rooms = sum(min(seat.free(name) // amount for name, amount in own.items() if amount) for seat in roomy)
    if len(free) >= demand.pods or rooms < demand.pods:
        return ""
    ports = ", ".join(str(port.number) for port in incoming.pod.ports)
    where = f"on {len(free)} of {len(roomy)} node{'' if len(roomy) == 1 else 's'} with room"
    other = "; `job.master_port` sets the port at which a training's nodes meet" if demand.kind in TRAININGS else ""
    return (
        f"{starts} of {demand.pods} pods have room now: each needs the host port {ports}, which is free {where}{other}"
    )


def exclusions(incoming: Incoming, seats: Sequence[Seat]) -> str:
    """Why a pod may go to none of some nodes: how many which rule excludes."""
    counted = census(incoming, seats)
    excluded: dict[str, list[Seat]] = {}
    for seat in seats:
        rule = next((rule for rule in RULES if not rule.holds(incoming, seat, counted)), None)
        if rule is not None:
            excluded.setdefault(rule.name, []).append(seat)
    if not excluded:
        return "there are no nodes"
    parts = (_excluded(name, incoming, among) for name, among in excluded.items())
    return "no node takes one of its pods: " + ", ".join(parts)


def _excluded(rule: str, incoming: Incoming, seats: Sequence[Seat]) -> str:
    """``3 excluded by taints``, ``2 excluded by resources (16 nvidia.com/gpu needed, the largest, gpu-1, has 8)``."""
    said = f"{len(seats)} excluded by {rule}"
    if rule == "node-selector":
        return f"{said} ({', '.join(f'{key}={value}' for key, value in incoming.node_selector.items())})"
    if rule != "resources":
        return said
    asked = incoming.pod.requests
    # The resource that the fewest nodes have enough of.
    short = min(asked, key=lambda name: (sum(seat.free(name) >= asked[name] for seat in seats), "/" not in name, name))
    best = max(seats, key=lambda seat: seat.free(short))
    most = told(short, max(0, best.free(short))).split()[0]
    return f"{said} ({told(short, asked[short])} needed, the largest, {best.node.name}, has {most})"


def smallest_change(
    state: State, demand: Demand, found: Balance, refused: Sequence[Shortfall], *, names_hosts: bool
) -> str | None:
    """The first change, the smallest kinds first, with which all pods have room and nobody is evicted; else None."""
    if refused:
        raised = ", ".join(
            f"{item.resource} of quota {item.quota} to {format_amount(item.resource, item.total)}" for item in refused
        )
        return f"raise {raised}" if _fits(list(state.seats), demand.groups, names_hosts) else None
    for text, seats, groups in _changes(state, demand, found, names_hosts):
        if _fits(seats, groups, names_hosts):
            return text
    return None


def _fits(seats: Sequence[Seat], groups: Groups, names_hosts: bool) -> bool:
    outcome = settle(initial(seats, names_hosts), groups, (), final=True)
    wanted = sum(number for _, number in groups)
    if not (outcome.exhaustive or outcome.confluent):
        return False
    return all(sum(end.placed.values()) == wanted and not end.evicted for end in outcome.states)


def _changes(
    state: State, demand: Demand, found: Balance, names_hosts: bool
) -> Iterator[tuple[str, Sequence[Seat], Groups]]:
    seats, groups = list(state.seats), demand.groups
    cordoned = [index for index, seat in enumerate(seats) if seat.node.unschedulable]
    for index in cordoned[:_TRIED]:
        seat = seats[index]
        taints = [taint for taint in seat.node.taints if taint["key"] != _CORDON]
        opened = replace(seat, node=replace(seat.node, unschedulable=False, taints=taints))
        yield f"uncordon node {seat.node.name}", [*seats[:index], opened, *seats[index + 1 :]], groups
    for taint in _taints(groups, seats)[:_TRIED]:
        yield f"tolerate the taint {_title(taint)}", seats, [(_tolerant(group, taint), n) for group, n in groups]
    if len(groups) != 1:
        return
    (group, number), *_ = groups
    yield from _freed(seats, group, number, names_hosts)
    yield from _leaner(seats, group, number, found.scarce, names_hosts)
    fewer = _most(number - 1, lambda count: _fits(seats, [(group, count)], names_hosts))
    if fewer:
        yield f"run {fewer} pod{'s' if fewer > 1 else ''} instead of {number}", seats, [(group, fewer)]


def _taints(groups: Groups, seats: Sequence[Seat]) -> list[dict[str, str]]:
    result: list[dict[str, str]] = []
    for seat in seats:
        for group, _ in groups:
            taint = untolerated(group.incoming, seat.node)
            if taint is not None and taint not in result and not (is_upkeep(taint) or is_passing(taint)):
                result.append(taint)
    return result


def is_upkeep(taint: dict[str, str]) -> bool:
    """Whether a taint tells of a node's state, or keeps it free for work on it: tolerating it mends nothing."""
    return bool(_UPKEEP.search(f"{taint.get('key')}={taint.get('value') or ''}"))


def _title(taint: dict[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _tolerant(group: PodGroup, taint: dict[str, str]) -> PodGroup:
    toleration = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
    incoming = replace(group.incoming, tolerations=[*group.incoming.tolerations, toleration])
    return group._replace(incoming=incoming)


def _freed(
    seats: Sequence[Seat], group: PodGroup, number: int, names_hosts: bool
) -> Iterator[tuple[str, Sequence[Seat], Groups]]:
    """Free what the pods that find no room lack, on the nodes where that is least."""
    peaceful = group._replace(incoming=replace(group.incoming, preempts=False))
    outcome = settle(initial(seats, names_hosts), [(peaceful, number)], (), final=True)
    end = outcome.states[0]
    left = number - sum(end.placed.values())
    now, given = list(end.seats), [dict[str, int]() for _ in seats]
    own = {**group.incoming.pod.requests, PODS: 1}
    nodes = open_seats(group.incoming, now)
    for _ in range(min(left, _TRIED)):
        lacks = []
        for index, seat in enumerate(now):
            lack = {name: amount - seat.free(name) for name, amount in own.items() if amount > seat.free(name)}
            held = {name: sum(pod.requests.get(name, 0) for pod in seats[index].pods) for name in lack}
            held[PODS] = len(seats[index].pods)
            if seat in nodes and all(amount + given[index].get(name, 0) <= held[name] for name, amount in lack.items()):
                share = sum(Fraction(amount, own[name]) for name, amount in lack.items())
                lacks.append((len(lack), share, index, lack))
        if not lacks:
            return
        _, _, index, lack = min(lacks, key=lambda item: item[:3])
        for name, amount in lack.items():
            given[index][name] = given[index].get(name, 0) + amount
        before = now[index]
        now[index] = _with_more(before, lack).with_pod(group.incoming.pod)
        nodes = [now[index] if seat is before else seat for seat in nodes]
    # Hidden nodes read alike, and are one.
    by_node: dict[str, Counter[str]] = {}
    for seat, lack in zip(seats, given, strict=True):
        if lack:
            by_node.setdefault(f"{seat.node.name}", Counter()).update(lack)
    parts = [
        f"{' and '.join(told(name, amount) for name, amount in lack.items())} on {node}"
        for node, lack in by_node.items()
    ]
    if parts and left <= _TRIED:
        freed = [_with_more(seat, lack) for seat, lack in zip(seats, given, strict=True)]
        yield f"free {', '.join(parts)}", freed, [(group, number)]


def _with_more(seat: Seat, more: Units) -> Seat:
    allocatable = dict(seat.node.allocatable)
    for name, amount in more.items():
        allocatable[name] = allocatable.get(name, 0) + amount
    return replace(seat, node=replace(seat.node, allocatable=allocatable))


def _leaner(
    seats: Sequence[Seat], group: PodGroup, number: int, scarce: str, names_hosts: bool
) -> Iterator[tuple[str, Sequence[Seat], Groups]]:
    """Ask less of the scarce resource for each pod."""
    asked = group.incoming.pod.requests.get(scarce, 0)
    step = min(_STEPS.get(scarce, 1), max(asked, 1))

    def leaner(steps: int) -> Groups:
        pod = replace(group.incoming.pod, requests={**group.incoming.pod.requests, scarce: steps * step})
        return [(group._replace(incoming=replace(group.incoming, pod=pod)), number)]

    most = _most((asked - 1) // step, lambda steps: _fits(seats, leaner(steps), names_hosts))
    if most:
        yield (
            f"ask for {told(scarce, most * step)} per pod instead of {told(scarce, asked).split()[0]}",
            seats,
            leaner(most),
        )


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to a limit that fits, where every smaller one does; 0 when 1 does not."""
    least, most = 0, max(limit, 0)
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least
