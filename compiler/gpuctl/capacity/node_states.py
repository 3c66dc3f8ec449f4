"""What nodes have left, as far as amounts tell: one state for all nodes and runs where it is the same.

What a node is worth to pods of a size is worked out once for each state.
"""

from __future__ import annotations

from gpuctl.capacity.scoring import balance_gained, evenness, least_allocated
from gpuctl.capacity.seats import PlacedPod, Seat, Units

Amounts = tuple[int, int]
"""Of cpu and of memory."""


class LeftAmounts:
    """What is left on a node.

    ``free`` has what is left of each resource, "pods" is one, too; ``scored`` is what its pods count where nodes are
    ranked, ``capacity`` what there is in all. ``used`` tells what is taken of cpu and memory, ``evenness`` how evenly.
    ``pieces`` are the most that are left of any extended resource.
    """

    __slots__ = ("capacity", "evenness", "free", "pieces", "scored", "used")

    def __init__(self, capacity: Amounts, free: Units, scored: Amounts) -> None:
        self.capacity, self.free, self.scored = capacity, free, scored
        self.used = capacity[0] - free.get("cpu", 0), capacity[1] - free.get("memory", 0)
        self.evenness = evenness(self.used, capacity)
        self.pieces = max([0, *[amount for name, amount in free.items() if "/" in name]])


class Size:
    """What pods ask for in amounts: one for all that ask for the same.

    ``scores`` are those of nodes by what is left on them, ``after`` is what is left beside one pod more.
    """

    def __init__(self, pod: PlacedPod) -> None:
        # What is scarce first: most nodes without room are told by it.
        self.wanted = sorted(pod.requests.items(), key=lambda item: "/" not in item[0])
        self.used = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
        self.scored = pod.scored
        # Most nodes without room have fewer left of any extended resource than are wanted of one.
        self.pieces = max([amount for name, amount in self.wanted if "/" in name], default=0)
        # A few large dicts, not one for each of very many states: these are hardly ever asked twice about a size.
        self.scores = Scores(self)
        self.after: dict[LeftAmounts, LeftAmounts] = {}


class Scores(dict[LeftAmounts, int]):
    """The scores of nodes for pods of a size: from 1 on, 0 where there is no room."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._wanted, self._used, self._scored = size.wanted, size.used, size.scored

    def __missing__(self, state: LeftAmounts) -> int:
        free = state.free
        if free["pods"] <= 0:
            return self.setdefault(state, 0)
        for name, amount in self._wanted:
            if amount > free.get(name, 0):
                return self.setdefault(state, 0)
        (cpu, memory), (own_cpu, own_memory), capacity = state.scored, self._scored, state.capacity
        score = 1 + least_allocated((cpu + own_cpu, memory + own_memory), capacity)
        (cpu, memory), (own_cpu, own_memory) = state.used, self._used
        if own_cpu or own_memory:
            score += balance_gained(state.evenness, evenness((cpu + own_cpu, memory + own_memory), capacity))
        self[state] = score
        return score


class NodeStates:
    """The states that were met in any run."""

    def __init__(self) -> None:
        self._known: dict[object, LeftAmounts] = {}

    def of(self, seat: Seat) -> LeftAmounts:
        """The state of a node with its pods."""
        has = seat.node.allocatable
        scored = sum(pod.scored[0] for pod in seat.pods), sum(pod.scored[1] for pod in seat.pods)
        free = {name: seat.free(name) for name in sorted({*has, "pods"})}
        return self._one((has.get("cpu", 0), has.get("memory", 0)), free, scored)

    def after(self, state: LeftAmounts, size: Size) -> LeftAmounts:
        """The state with one pod more."""
        known = size.after.get(state)
        if known is None:
            free = dict(state.free)
            for name, amount in size.wanted:
                free[name] = free.get(name, 0) - amount
            free["pods"] -= 1
            scored = state.scored[0] + size.scored[0], state.scored[1] + size.scored[1]
            known = size.after[state] = self._one(state.capacity, free, scored)
        return known

    def _one(self, capacity: Amounts, free: Units, scored: Amounts) -> LeftAmounts:
        # Names are in order, but for those that no node has.
        key = *capacity, *scored, *free, *free.values()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = LeftAmounts(capacity, free, scored)
        return known
