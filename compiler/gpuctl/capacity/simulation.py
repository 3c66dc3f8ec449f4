"""One way in which the scheduler may place the pods of some jobs: what it does with each, one after another.

Source: Kubernetes 1.36, ``pkg/scheduler/schedule_one.go``, ``framework/preemption/preemption.go``. What it leaves to
chance is drawn: which of the best nodes is taken, from where nodes are looked at, when victims are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuctl.capacity.draws import Draws
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.preemption import Budget, Eviction, candidates_looked_for, eviction
from gpuctl.capacity.scheduling import Census, Pair, obstacle, recounted
from gpuctl.capacity.scoring import (
    WEIGHTS,
    balanced_allocation,
    least_allocated,
    liking,
    looked_for,
    neighbours_normalised,
    normalised,
    spread_scores,
)
from gpuctl.capacity.seats import Incoming, PlacedPod, Seat, Units
from gpuctl.capacity.shapes import Shape, shape_key

_ROUNDS = 12
"""How often pods that wait are tried again at most."""


@dataclass(eq=False)
class Entry:
    """A pod in the scheduler's queue; ``job`` is the number of its job, None for a pod that waits already."""

    pod: PlacedPod
    shape: Shape
    job: int | None


class Arena:
    """What all runs begin with: nodes, pods and what they ask for. ``nodes`` is how many the whole cluster has."""

    def __init__(self, seats: Sequence[Seat], budgets: Sequence[Budget], nodes: int) -> None:
        self.seats = list(seats)
        self.budgets = budgets
        self.looked_for = looked_for(nodes)
        self.promised: dict[int, list[PlacedPod]] = {}
        self.entries: list[Entry] = []
        self.capacity = [
            (seat.node.allocatable.get("cpu", 0), seat.node.allocatable.get("memory", 0)) for seat in self.seats
        ]
        self.free = [_free(seat) for seat in self.seats]
        self.scored = [_scored(seat) for seat in self.seats]
        self.rows: dict[int, list[int]] = {}
        self.evictions: dict[tuple[int, int], tuple[Seat, Eviction | None]] = {}
        self.zones = _by_zones(self.seats)

    def queue(self, jobs: Sequence[Sequence[tuple[PodGroup, int]]], waiting: Sequence[Incoming]) -> None:
        """Add the pods of jobs, and those that wait already."""
        kinds = [*(group.incoming for groups in jobs for group, _ in groups), *waiting]
        shapes: dict[object, Shape] = {}
        others = [incoming.pod for incoming in kinds if any(True for _ in incoming.pod.terms)]
        minding = [pod for pod in (*others, *(pod for seat in self.seats for pod in seat.pods)) if any(pod.terms)]

        def shape_of(incoming: Incoming) -> Shape:
            # Where pods have wishes about others, labels tell pods apart.
            key = (shape_key(incoming), id(incoming) if minding else None)
            if key not in shapes:
                shapes[key] = Shape(incoming, self.seats, others)
            return shapes[key]

        for number, groups in enumerate(jobs):
            for group, count in groups:
                shape = shape_of(group.incoming)
                self.entries += [Entry(replace(group.incoming.pod), shape, number) for _ in range(count)]
        # They have been tried before: if they could evict anybody, they would have been promised a node.
        for incoming in waiting:
            self.entries.append(Entry(incoming.pod, shape_of(replace(incoming, preempts=False)), None))


def _free(seat: Seat) -> Units:
    """What is left of each resource; "pods" is one, too."""
    return {name: seat.free(name) for name in {*seat.node.allocatable, "pods"}}


def _scored(seat: Seat) -> tuple[int, int]:
    return sum(pod.scored[0] for pod in seat.pods), sum(pod.scored[1] for pod in seat.pods)


def _by_zones(seats: Sequence[Seat]) -> list[int]:
    """Nodes in the order in which they are looked at. Source: ``backend/cache/node_tree.go``, list."""
    zones: dict[tuple[str, str], list[int]] = {}
    for index, seat in enumerate(seats):
        labels = seat.node.labels
        zone = labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")
        zones.setdefault(zone, []).append(index)
    longest = max(map(len, zones.values()), default=0)
    return [own[place] for place in range(longest) for own in zones.values() if place < len(own)]


class Run:
    """One way. ``bound`` has the nodes of the pods by entry, ``evicted`` by job the victims with their nodes.

    ``found`` are the nodes as the first pod of each job found them, if it is asked for.
    """

    def __init__(self, arena: Arena, draws: Draws, *, keeps: bool = False) -> None:
        self._arena = arena
        self._draws = draws
        self.seats = list(arena.seats)
        self._free = list(arena.free)
        self._scored = list(arena.scored)
        self.bound: dict[Entry, int] = {}
        self.evicted: dict[int | None, list[tuple[PlacedPod, int]]] = {}
        self.certain = True
        self.found: dict[int, list[Seat]] | None = {} if keeps else None
        self._rows: dict[int, tuple[list[int], int]] = {}
        self._log: list[int] = []
        self._moves: list[tuple[Seat, Seat]] = []
        self._counts: dict[int, tuple[Census, Counter[Pair], int]] = {}
        self._promised: dict[int, list[tuple[PlacedPod, Entry | None]]] = {
            index: [(pod, None) for pod in pods] for index, pods in arena.promised.items()
        }
        self._nominated: dict[Entry, int] = {}
        self._leaving: dict[int, list[PlacedPod]] = {}
        self._gone = 0
        self._failed: dict[int, int] = {}
        # Victims with a grace period stay until the queue is empty, others are gone at once, or soon.
        self._leaves_at = draws.below(3)

    def go(self, entries: Sequence[Entry]) -> None:
        """Try the pods in this order, and those that found no room again, until nothing comes of it."""
        pending = list(entries)
        for _ in range(_ROUNDS):
            before = len(self._log), self._gone
            left = []
            for entry in pending:
                if self.found is not None and entry.job is not None:
                    self.found.setdefault(entry.job, list(self.seats))
                if not self._try(entry):
                    left.append(entry)
                if self._leaving and self._leaves_at and (self._leaves_at == 1 or self._draws.below(2)):
                    self._leave()
            self._leave()
            pending = left
            if not pending or before == (len(self._log), self._gone):
                return

    def _try(self, entry: Entry) -> bool:
        """Whether a pod is bound. Source: ``schedule_one.go``, schedulingAlgorithm."""
        shape = entry.shape
        if self._failed.get(id(shape)) == self._stage(shape) and entry not in self._nominated:
            return False
        promised = self._nominated.get(entry)
        if promised is not None and self._fits(shape, promised, entry):
            self._bind(entry, promised)
            return True
        place = self._best(shape, entry)
        if place is not None:
            self._bind(entry, place)
            return True
        if not shape.incoming.preempts or self._is_waiting(entry):
            return False
        found = self._victims(shape, entry)
        self._forget(entry)
        if found is None:
            self._failed[id(shape)] = self._stage(shape)
        else:
            self._evict(entry, *found)
        return False

    def _stage(self, shape: Shape) -> int:
        """What has to change for a pod that found no room: for simple ones only others that leave."""
        return self._gone if shape.simple else len(self._log)

    def _is_waiting(self, entry: Entry) -> bool:
        """Source: ``defaultpreemption/default_preemption.go``, PodEligibleToPreemptOthers."""
        return bool(entry in self._nominated and self._leaving.get(self._nominated[entry]))

    def _bind(self, entry: Entry, index: int) -> None:
        self._forget(entry)
        self.bound[entry] = index
        self._change(index, self.seats[index].with_pod(entry.pod))
        free, wanted = dict(self._free[index]), entry.pod.requests
        for name, amount in wanted.items():
            free[name] = free.get(name, 0) - amount
        free["pods"] -= 1
        self._free[index] = free
        cpu, memory = self._scored[index]
        self._scored[index] = cpu + entry.pod.scored[0], memory + entry.pod.scored[1]

    def _change(self, index: int, seat: Seat) -> None:
        self._moves.append((self.seats[index], seat))
        self.seats[index] = seat
        self._log.append(index)

    def _forget(self, entry: Entry) -> None:
        index = self._nominated.pop(entry, None)
        if index is not None:
            self._promised[index] = [item for item in self._promised[index] if item[1] is not entry]
            self._change(index, self.seats[index])

    def _evict(self, entry: Entry, index: int, found: Eviction) -> None:
        there = self._leaving.setdefault(index, [])
        new = [pod for pod in found.victims if not any(pod is other for other in there)]
        there += new
        self.certain = self.certain and found.certain
        self.evicted.setdefault(entry.job, []).extend((pod, index) for pod in new)
        self._nominated[entry] = index
        self._promised.setdefault(index, []).append((entry.pod, entry))
        self._change(index, self.seats[index])

    def _leave(self) -> None:
        """Let victims be gone."""
        if not self._leaving:
            return
        for index, pods in self._leaving.items():
            gone = set(map(id, pods))
            for entry in [entry for entry, place in self.bound.items() if place == index and id(entry.pod) in gone]:
                del self.bound[entry]
            seat = self.seats[index].without(pods)
            self._change(index, seat)
            self._free[index], self._scored[index] = _free(seat), _scored(seat)
        self._leaving = {}
        self._gone += 1

    def _fits(self, shape: Shape, index: int, entry: Entry | None) -> bool:
        """Source: ``framework/runtime/framework.go``, RunFilterPluginsWithNominatedPods."""
        seat, census = self.seats[index], self._census(shape)
        if obstacle(shape.incoming, seat, census) is not None:
            return False
        more = self._kept_for(shape, index, entry)
        if not more:
            return True
        full = Seat(seat.node, seat.pods + more)
        return obstacle(shape.incoming, full, self._recounted(shape, census, seat, full)) is None

    def _kept_for(self, shape: Shape, index: int, entry: Entry | None) -> tuple[PlacedPod, ...]:
        return tuple(
            pod
            for pod, other in self._promised.get(index, ())
            if pod.priority >= shape.priority and (other is None or other is not entry)
        )

    def _census(self, shape: Shape) -> Census:
        if shape.alone:
            return shape.counted
        return self._counted(shape)[0]

    def _counted(self, shape: Shape) -> tuple[Census, Counter[Pair]]:
        """What is counted of other pods, and how they are liked, as of now."""
        census, liked, since = self._counts.get(id(shape), (shape.counted, shape.liked, 0))
        for before, now in self._moves[since:]:
            if before is now:
                continue
            if not shape.alone:
                census = recounted(census, shape.incoming, before, now)
            if shape.likes:
                liked = Counter(liked)
                liked.subtract(liking(shape.incoming, [before]))
                liked.update(liking(shape.incoming, [now]))
        self._counts[id(shape)] = census, liked, len(self._moves)
        return census, liked

    @staticmethod
    def _recounted(shape: Shape, census: Census, before: Seat, now: Seat) -> Census:
        return census if shape.alone else recounted(census, shape.incoming, before, now)

    def _row(self, shape: Shape, entry: Entry) -> list[int]:
        """The score of each node for a pod by its amounts; -1 where there is no room."""
        if not shape.simple:
            row = [-1] * len(self.seats)
            for index in shape.nodes:
                if self._fits(shape, index, entry):
                    row[index] = self._amounts_score(shape, index)
            return row
        known = self._rows.get(id(shape))
        if known is None:
            first = self._arena.rows.get(id(shape))
            if first is None:
                first = [-1] * len(self.seats)
                fresh = Run(self._arena, self._draws)
                for index in shape.nodes:
                    first[index] = fresh._simple_score(shape, index, entry)
                self._arena.rows[id(shape)] = first
            row, since = list(first), 0
        else:
            row, since = known
        if since < len(self._log):
            suits = shape.taints
            for index in set(self._log[since:]):
                if index in suits:
                    row[index] = self._simple_score(shape, index, entry)
        self._rows[id(shape)] = row, len(self._log)
        return row

    def _simple_score(self, shape: Shape, index: int, entry: Entry) -> int:
        free = self._free[index]
        if free["pods"] < 1:
            return -1
        for name, amount in shape.wanted:
            if free.get(name, 0) < amount:
                return -1
        if index in self._promised and self._promised[index] and not self._fits(shape, index, entry):
            return -1
        return self._amounts_score(shape, index)

    def _amounts_score(self, shape: Shape, index: int) -> int:
        cpu, memory = capacity = self._arena.capacity[index]
        scored, own = self._scored[index], shape.incoming.pod.scored
        score = least_allocated((scored[0] + own[0], cpu), (scored[1] + own[1], memory))
        if shape.cpu or shape.memory:
            free = self._free[index]
            before = cpu - free.get("cpu", 0), memory - free.get("memory", 0)
            score += balanced_allocation(before, (before[0] + shape.cpu, before[1] + shape.memory), capacity)
        return score

    def _best(self, shape: Shape, entry: Entry) -> int | None:
        """The node that is taken. Source: ``schedule_one.go``, schedulePod."""
        row = self._row(shape, entry)
        best = max(row, default=-1)
        if best < 0:
            return None
        if not shape.is_ranked and len(shape.nodes) <= self._arena.looked_for:
            return self._nth(row, best, self._draws.below(row.count(best)))
        places = self._looked_at(row)
        scores = self._ranked(shape, places, row) if shape.is_ranked else [row[index] for index in places]
        highest = max(scores)
        return self._draws.one_of([index for index, score in zip(places, scores, strict=True) if score == highest])

    @staticmethod
    def _nth(row: list[int], value: int, number: int) -> int:
        place = row.index(value)
        for _ in range(number):
            place = row.index(value, place + 1)
        return place

    def _looked_at(self, row: list[int]) -> list[int]:
        """The nodes with room that are looked at, from a place on that is as good as drawn."""
        order = self._arena.zones
        start = self._draws.below(len(order))
        places = [index for index in (*order[start:], *order[:start]) if row[index] >= 0]
        return places[: self._arena.looked_for]

    def _ranked(self, shape: Shape, places: list[int], row: list[int]) -> list[int]:
        incoming = shape.incoming
        parts = [[row[index] for index in places]]
        taints = normalised([shape.taints[index] for index in places], reverse=True)
        parts.append([WEIGHTS["TaintToleration"] * score for score in taints])
        if incoming.preferred_nodes:
            preferred = normalised([shape.preferred[index] for index in places], reverse=False)
            parts.append([WEIGHTS["NodeAffinity"] * score for score in preferred])
        nodes = [self.seats[index] for index in places]
        if incoming.soft_spread:
            spread = spread_scores(incoming, nodes, self.seats)
            parts.append([WEIGHTS["PodTopologySpread"] * score for score in spread])
        if shape.likes:
            liked = neighbours_normalised(self._counted(shape)[1], nodes)
            parts.append([WEIGHTS["InterPodAffinity"] * score for score in liked])
        return [sum(scores) for scores in zip(*parts, strict=True)]

    def _victims(self, shape: Shape, entry: Entry) -> tuple[int, Eviction] | None:
        """Where evicting costs least. Source: ``preemption/preemption.go``, DryRunPreemption, SelectCandidate."""
        census = self._census(shape)
        places = []
        for index in shape.nodes:
            rule = obstacle(shape.incoming, self.seats[index], census)
            if rule is None or rule.resolvable:
                places.append(index)
        if not places:
            return None
        start, most = self._draws.below(len(places)), candidates_looked_for(len(places))
        found: list[tuple[int, Eviction]] = []
        for index in (*places[start:], *places[:start]):
            one = self._eviction(shape, index, entry, census)
            if one is not None:
                found.append((index, one))
                if len(found) >= most and any(not item.violations for _, item in found):
                    break
        if not found:
            return None
        least = min(item.cost for _, item in found)
        return self._draws.one_of([item for item in found if item[1].cost == least])

    def _eviction(self, shape: Shape, index: int, entry: Entry, census: Census) -> Eviction | None:
        seat, more = self.seats[index], self._kept_for(shape, index, entry)
        if not any(pod.priority < shape.priority for pod in seat.pods):
            return None

        def fits(changed: Seat) -> bool:
            full = Seat(changed.node, changed.pods + more) if more else changed
            return all(
                obstacle(shape.incoming, one, self._recounted(shape, census, seat, one)) is None
                for one in ((full, changed) if more else (changed,))
            )

        if more or not shape.alone:
            return eviction(shape.incoming, seat, fits, self._arena.budgets)
        key = id(seat), id(shape)
        if key not in self._arena.evictions:
            self._arena.evictions[key] = seat, eviction(shape.incoming, seat, fits, self._arena.budgets)
        return self._arena.evictions[key][1]
