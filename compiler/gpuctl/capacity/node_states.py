"""What nodes have left, as far as amounts tell: one state for all nodes and runs where it is the same.

What a node is worth to pods of a size is worked out once for each state.
"""

from __future__ import annotations

from gpuctl.capacity.scoring import balance_gained, evenness, least_allocated
from gpuctl.capacity.seats import PlacedPod, Seat, Units

Amounts = tuple[int, int]
"""Of cpu and of memory."""


class Size:
    """What pods ask for in amounts: one for all that ask for the same."""

    def __init__(self, pod: PlacedPod) -> None:
        # What is scarce first: most nodes without room are told by it.
        self.wanted = sorted(pod.requests.items(), key=lambda item: "/" not in item[0])
        self.cpu, self.memory = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
        self.scored = pod.scored


class LeftAmounts(dict[Size, int]):
    """What is left on a node, and its score for pods by their size: from 1 on, 0 where there is no room.

    ``free`` has what is left of each resource, "pods" is one, too; ``scored`` is what its pods count where nodes are
    ranked, ``capacity`` what there is in all.
    """

    __slots__ = ("_evenness", "_used", "after", "capacity", "free", "scored")

    def __init__(self, capacity: Amounts, free: Units, scored: Amounts) -> None:
        super().__init__()
        self.capacity, self.free, self.scored = capacity, free, scored
        self.after: dict[Size, LeftAmounts] = {}
        self._used = capacity[0] - free.get("cpu", 0), capacity[1] - free.get("memory", 0)
        self._evenness: int | None = None

    def __missing__(self, size: Size) -> int:
        free = self.free
        score = 0
        if free["pods"] > 0:
            for name, amount in size.wanted:
                if amount > free.get(name, 0):
                    break
            else:
                score = 1 + self._score(size)
        self[size] = score
        return score

    def _score(self, size: Size) -> int:
        (cpu, memory), (own_cpu, own_memory) = self.scored, size.scored
        capacity = self.capacity
        score = least_allocated((cpu + own_cpu, capacity[0]), (memory + own_memory, capacity[1]))
        if size.cpu or size.memory:
            used = self._used
            if self._evenness is None:
                self._evenness = evenness(used, capacity)
            with_pod = evenness((used[0] + size.cpu, used[1] + size.memory), capacity)
            score += balance_gained(self._evenness, with_pod)
        return score


class NodeStates:
    """The states that were met in any run."""

    def __init__(self) -> None:
        self._known: dict[object, LeftAmounts] = {}

    def of(self, seat: Seat) -> LeftAmounts:
        """The state of a node with its pods."""
        has = seat.node.allocatable
        scored = sum(pod.scored[0] for pod in seat.pods), sum(pod.scored[1] for pod in seat.pods)
        free = {name: seat.free(name) for name in {*has, "pods"}}
        return self._one((has.get("cpu", 0), has.get("memory", 0)), free, scored)

    def after(self, state: LeftAmounts, size: Size) -> LeftAmounts:
        """The state with one pod more."""
        known = state.after.get(size)
        if known is None:
            free = dict(state.free)
            for name, amount in size.wanted:
                free[name] = free.get(name, 0) - amount
            free["pods"] -= 1
            scored = state.scored[0] + size.scored[0], state.scored[1] + size.scored[1]
            known = state.after[size] = self._one(state.capacity, free, scored)
        return known

    def _one(self, capacity: Amounts, free: Units, scored: Amounts) -> LeftAmounts:
        key = capacity, scored, frozenset(free.items())
        if key not in self._known:
            self._known[key] = LeftAmounts(capacity, free, scored)
        return self._known[key]
