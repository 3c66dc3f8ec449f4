"""Where the scheduler may put pods, one after another, and whom it evicts for them: every way it may choose.

Among nodes that a pod may go to, the scheduler's choice rests on scores and, among equals, on chance. So what is
computed here is the set of all states a cluster may be in afterwards. Nodes alike count as one. Past ``LIMIT`` states
only some are followed, and ``exhaustive`` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice
from typing import NamedTuple

from gpuctl.cluster.resources import Object
from gpuctl.cluster.scheduling import (
    HOST_NAME,
    NO_CENSUS,
    Census,
    Incoming,
    Pod,
    Seat,
    census,
    obstacle,
    selects,
)

LIMIT = 128
"""States that are followed at once."""
_EFFORT = 400_000
"""Nodes that are looked at, over all states, before only one state is followed."""
_MINIMUM_CANDIDATES, _CANDIDATES_PERCENT = 100, 10
_PRIORITY_OFFSET = 2**31
_DEPARTURES = 4


class Budget(NamedTuple):
    """A PodDisruptionBudget: how many of its pods may still be disrupted."""

    namespace: str
    selector: Object | None
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def covers(self, pod: Pod) -> bool:
        """Source: ``defaultpreemption/default_preemption.go``, filterPodsWithPDBViolation."""
        if pod.namespace != self.namespace or not pod.labels or pod.name in self.disrupted:
            return False
        return any((self.selector or {}).values()) and selects(self.selector, pod.labels)


class Eviction(NamedTuple):
    """The pods that would be evicted from a node. Not ``certain``: others of the same rank may be taken instead."""

    victims: tuple[Pod, ...]
    violations: int
    certain: bool

    @property
    def cost(self) -> tuple[int, int, int, int, tuple[int, ...]]:
        """Less is preferred. Source: ``preemption/preemption.go``, pickOneNodeForPreemption."""
        highest = self.victims[0].priority
        total = sum(pod.priority + _PRIORITY_OFFSET for pod in self.victims)
        earliest = min(pod.importance[1] for pod in self.victims if pod.priority == highest)
        # The latest start is preferred.
        return self.violations, highest, total, len(self.victims), tuple(-ord(character) for character in earliest)


class Group(NamedTuple):
    """Pods alike of one workload. ``number`` tells groups of a request apart."""

    number: int
    incoming: Incoming

    @property
    def is_independent(self) -> bool:
        """Whether its pods go anywhere that has room, whatever other pods do."""
        return not self.incoming.has_neighbours

    @property
    def wants_domains(self) -> bool:
        """Whether where one of its pods is decides on more than its own node for the others."""
        own = self.incoming.pod
        return bool(self._domains) or any(term.matches(own) for term in self.incoming.affinity)

    @property
    def is_confluent(self) -> bool:
        """Whether as many of its pods find room in whichever order nodes are taken.

        With one rule that its pods meet in each other, a pod put somewhere takes room of its own domain only. Of two
        such rules, or where the first pod binds the others to its domain, the order decides.
        """
        own = self.incoming.pod
        return len(self._domains) <= 1 and not any(term.matches(own) for term in self.incoming.affinity)

    @property
    def _domains(self) -> list[str]:
        own = self.incoming.pod
        apart = [term.topology for term in own.anti_affinity if term.topology != HOST_NAME and term.matches(own)]
        return apart + [rule.topology for rule in self.incoming.spread if selects(rule.selector, own.labels)]


@dataclass(frozen=True, eq=False)
class State:
    """What a cluster may look like: nodes that differ from the beginning, and what happened.

    ``placed`` counts pods by group. ``leaving`` are victims by node, who may or may not be gone yet.
    """

    base: Sequence[Seat]
    classes: Sequence[Hashable]
    changed: Mapping[int, Seat] = field(default_factory=dict)
    placed: Mapping[int, int] = field(default_factory=dict)
    evicted: tuple[Pod, ...] = ()
    leaving: Mapping[int, tuple[Pod, ...]] = field(default_factory=dict)
    certain: bool = True

    def seat(self, index: int) -> Seat:
        """A node as it is now."""
        return self.changed.get(index, self.base[index])

    @property
    def seats(self) -> Iterator[Seat]:
        """All nodes as they are now."""
        return (self.changed.get(index, seat) for index, seat in enumerate(self.base))

    def view(self, gone: frozenset[int]) -> list[Seat]:
        """All nodes, with the victims that have not left yet: those outside ``gone`` nodes."""
        return [
            seat if index in gone or index not in self.leaving else Seat(seat.node, seat.pods + self.leaving[index])
            for index, seat in enumerate(self.seats)
        ]

    def place(self, index: int, group: Group, number: int = 1) -> State:
        """The state with pods of a group on a node."""
        seat = self.seat(index)
        seat = Seat(seat.node, seat.pods + (group.incoming.pod,) * number)
        placed = {**self.placed, group.number: self.placed.get(group.number, 0) + number}
        return replace(self, changed={**self.changed, index: seat}, placed=placed)

    def evict(self, index: int, eviction: Eviction, group: Group) -> State:
        """The state with victims on their way out of a node, and a pod of the group that waits for their room.

        The pod counts on the node from now on: its nomination keeps others away.
        """
        new = tuple(pod for pod in eviction.victims if pod not in self.evicted)
        left = replace(
            self,
            changed={**self.changed, index: self.seat(index).without(eviction.victims)},
            evicted=self.evicted + new,
            leaving={**self.leaving, index: self.leaving.get(index, ()) + new},
            certain=self.certain and eviction.certain,
        )
        return left.place(index, group)

    def key(self, index: int) -> Hashable:
        """What tells a node from others in this state."""
        seat = self.changed.get(index)
        if seat is None:
            return self.classes[index]
        leaving = tuple(sorted(map(id, self.leaving.get(index, ()))))
        return self.classes[index], frozenset(Counter(map(id, seat.pods)).items()), leaving

    @property
    def signature(self) -> Hashable:
        """Equal for states that differ by the names of nodes alike."""
        keys = frozenset(Counter(self.key(index) for index in self.changed).items())
        return keys, frozenset(map(id, self.evicted)), frozenset(self.placed.items()), self.certain


class Outcome(NamedTuple):
    """The states that placing pods may end in. Not ``exhaustive``: there may be others.

    ``confluent``: in all of them, followed or not, as many pods are placed, and either all or none by evicting.
    """

    states: list[State]
    exhaustive: bool
    confluent: bool


def initial(seats: Sequence[Seat], named_hosts: bool) -> State:
    """The state before anything is placed. ``named_hosts``: pods may ask for nodes by name, so that none are alike."""
    return State(seats, [_class(index, seat, named_hosts) for index, seat in enumerate(seats)])


def _class(index: int, seat: Seat, named_hosts: bool) -> Hashable:
    """Nodes of one class are alike to every pod; nodes with pods on them are classes of their own."""
    if named_hosts or seat.pods:
        return index
    node = seat.node
    labels = frozenset(item for item in node.labels.items() if item[0] != HOST_NAME)
    return labels, frozenset(node.allocatable.items()), str(node.taints), node.unschedulable, HOST_NAME in node.labels


def capacity(seat: Seat, group: Group, most: int) -> int:
    """How many pods of an independent group go to a node, at most ``most``: the least floor(free / request)."""
    if obstacle(group.incoming, seat, NO_CENSUS) is not None:
        return 0
    pod = group.incoming.pod
    number = min([most, seat.free("pods"), *(seat.free(name) // amount for name, amount in pod.requests.items())])
    return min(number, 1) if pod.ports else number


def evictions(
    seats: Sequence[Seat], counted: Census, incoming: Incoming, budgets: Sequence[Budget]
) -> dict[int, Eviction]:
    """For each node where evicting helps, whom it would cost.

    Source: ``preemption/preemption.go``, findCandidates: nodes whose status is Unschedulable.
    """
    if not incoming.preempts:
        return {}
    counts_pods = incoming.has_neighbours or bool(counted.repelled)
    result: dict[int, Eviction] = {}
    potential = 0
    for index, seat in enumerate(seats):
        rule = obstacle(incoming, seat, counted)
        if rule is None or not rule.resolvable:
            continue
        potential += 1

        def fits(changed: Seat, at: int = index) -> bool:
            others = chain(seats[:at], [changed], seats[at + 1 :])
            return obstacle(incoming, changed, census(incoming, others) if counts_pods else NO_CENSUS) is None

        found = _eviction(incoming, seat, fits, budgets)
        if found is not None:
            result[index] = found
    if potential > max(_MINIMUM_CANDIDATES, potential * _CANDIDATES_PERCENT // 100):
        # GetOffsetAndNumCandidates: beyond that many, the search stops early at a place chosen by chance.
        return {index: found._replace(certain=False) for index, found in result.items()}
    return result


def _eviction(incoming: Incoming, seat: Seat, fits: Callable[[Seat], bool], budgets: Sequence[Budget]) -> Eviction | None:
    """Whom a node would lose: all with a lower priority, but those, most important first, for whom there is room.

    Source: ``defaultpreemption/default_preemption.go``, SelectVictimsOnNode.
    """
    lower = sorted((pod for pod in seat.pods if pod.priority < incoming.pod.priority), key=lambda pod: pod.importance)
    left = seat.without(lower)
    if not lower or not fits(left):
        return None
    violating = _violating(lower, budgets)
    protected = [pod for pod in lower if pod in violating]
    victims: list[Pod] = []
    spared: list[Pod] = []
    for pod in [*protected, *(pod for pod in lower if pod not in violating)]:
        if fits(left.with_pod(pod)):
            left = left.with_pod(pod)
            spared.append(pod)
        else:
            victims.append(pod)
    if not victims:
        return None
    victims.sort(key=lambda pod: pod.importance)
    certain = not _tied(victims, spared, lower, budgets)
    return Eviction(tuple(victims), sum(pod in violating for pod in victims), certain)


def _violating(pods: Sequence[Pod], budgets: Sequence[Budget]) -> list[Pod]:
    """The pods, most important first, whose eviction a budget does not allow any more."""
    allowed = [budget.allowed for budget in budgets]
    result = []
    for pod in pods:
        violated = False
        for index, budget in enumerate(budgets):
            if budget.covers(pod):
                allowed[index] -= 1
                violated = violated or allowed[index] < 0
        if violated:
            result.append(pod)
    return result


def _tied(victims: list[Pod], spared: list[Pod], lower: list[Pod], budgets: Sequence[Budget]) -> bool:
    """Whether the order among pods of one importance, which is the scheduler's, may have decided."""
    ranks = {pod.importance for pod in spared}
    if any(pod.importance in ranks for pod in victims):
        return True
    covered = Counter(pod.importance for pod in lower if any(budget.covers(pod) for budget in budgets))
    return any(number > 1 for number in covered.values())


def settle(state: State, groups: Sequence[tuple[Group, int]], budgets: Sequence[Budget], *, final: bool) -> Outcome:
    """Place so many pods of each group, as the scheduler would, evicting where nothing else helps.

    ``final``: nothing is placed afterwards, so that it does not matter which of several nodes with room is taken.
    """
    state = replace(state, placed={}, evicted=(), leaving={}, certain=True)
    simple = len(groups) == 1 and groups[0][0].is_confluent
    if simple and groups[0][0].is_independent and not census(groups[0][0].incoming, state.seats).repelled:
        state, done = _fill(state, *groups[0], final=final)
        if done:
            return Outcome([state], True, True)
    outcome = _explore(state, groups, budgets, narrow=simple and final)
    evicting = any(end.evicted for end in outcome.states)
    return outcome._replace(confluent=simple and not (evicting and groups[0][0].wants_domains))


def _fill(state: State, group: Group, number: int, *, final: bool) -> tuple[State, bool]:
    """Put an independent group where it has room, as long as that leaves no choice that matters; True: all of it."""
    rooms = {index: capacity(seat, group, number) for index, seat in enumerate(state.seats)}
    total = sum(rooms.values())
    if total > number and not final:
        return state, False
    left = number
    for index, room in rooms.items():
        taken = min(room, left)
        if taken:
            state = state.place(index, group, taken)
            left -= taken
    return state, left == 0


def _explore(
    state: State, groups: Sequence[tuple[Group, int]], budgets: Sequence[Budget], *, narrow: bool
) -> Outcome:
    """Follow every choice, breadth first; ``narrow``: only one of the nodes with room."""
    frontier = [state]
    ends: dict[Hashable, State] = {}
    exhaustive, effort = True, 0
    while frontier:
        following: dict[Hashable, State] = {}
        for current in frontier:
            effort += len(state.base)
            waiting = [group for group, number in groups if current.placed.get(group.number, 0) < number]
            moves = [move for group in waiting for move in _moves(current, group, budgets, narrow=narrow)]
            if not moves:
                ends[current.signature] = current
            following.update((move.signature, move) for move in moves)
        limit = LIMIT if effort < _EFFORT else 1
        frontier = list(following.values())
        if len(frontier) > limit:
            exhaustive = False
            frontier = frontier[:limit]
    return Outcome(list(ends.values()), exhaustive, False)


def _moves(state: State, group: Group, budgets: Sequence[Budget], *, narrow: bool) -> Iterator[State]:
    """What may become of the next pod of a group; nothing when it stays pending."""
    for gone in _departures(state):
        seats = state.view(gone)
        counted = census(group.incoming, seats)
        places = (index for index, seat in enumerate(seats) if obstacle(group.incoming, seat, counted) is None)
        different = {state.key(index): index for index in (islice(places, 1) if narrow else places)}
        if different:
            yield from (state.place(index, group) for index in different.values())
            continue
        found = evictions(seats, counted, group.incoming, budgets)
        least = min((eviction.cost for eviction in found.values()), default=None)
        best = {state.key(index): index for index, eviction in found.items() if eviction.cost == least}
        yield from (state.evict(index, found[index], group) for index in best.values())


def _departures(state: State) -> Iterator[frozenset[int]]:
    """The nodes that victims may have left by now. Of many nodes, only none and all are looked at."""
    nodes = list(state.leaving)
    sizes = range(len(nodes) + 1) if len(nodes) <= _DEPARTURES else (0, len(nodes))
    return (frozenset(gone) for size in sizes for gone in combinations(nodes, size))


def bounds(lower: State, upper: State, groups: Sequence[tuple[Group, int]]) -> tuple[State, State]:
    """Two states between which all are that placing independent groups without evicting may lead to.

    Nothing is placed in the lower one. In the upper one each node has all the pods that it alone could have.
    """
    for group, number in groups:
        for index, seat in enumerate(lower.seats):
            room = capacity(seat, group, number)
            if room:
                upper = upper.place(index, group, room)
    return lower, upper
