"""One way in which the scheduler may place the pods of some jobs: what it does with each, one after another.

Source: Kubernetes 1.36, ``pkg/scheduler/schedule_one.go``, ``framework/preemption/preemption.go``. What it leaves to
chance is drawn: which of the best nodes is taken, from where nodes are looked at, when victims are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from gpuctl.capacity.arena import Arena, Candidate, QueuedPod, free_of, scored_of
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.pod_shapes import Shape
from gpuctl.capacity.preemption import Eviction, candidates_looked_for, eviction
from gpuctl.capacity.scheduling import Census, Pair, obstacle, recounted
from gpuctl.capacity.scoring import (
    WEIGHTS,
    Spreading,
    balanced_allocation,
    least_allocated,
    liking,
    neighbours_normalised,
    normalised,
)
from gpuctl.capacity.seats import PlacedPod, Seat

_ROUNDS = 12
"""How often pods that wait are tried again at most."""


class _Move(NamedTuple):
    """A node before and after pods came or went."""

    place: int
    before: Seat
    now: Seat
    came: Sequence[PlacedPod]
    went: Sequence[PlacedPod]


class Run:
    """One way. ``bound`` has the nodes of the pods by entry, ``evicted`` by job the victims with their nodes; of those
    of ``uncertain`` jobs others on the same node may be taken.

    ``found`` are the nodes as the first pod of each job found them, if it is asked for.
    """

    def __init__(self, arena: Arena, draws: Draws, *, keeps: bool = False) -> None:
        self._arena = arena
        self._draws = draws
        self.seats = list(arena.seats)
        self._free = list(arena.free)
        self._scored = list(arena.scored)
        self.bound: dict[QueuedPod, int] = {}
        self.evicted: dict[int | None, list[tuple[PlacedPod, int]]] = {}
        self.uncertain: set[int | None] = set()
        self.found: dict[int, list[Seat]] | None = {} if keeps else None
        self._rows: dict[int, tuple[list[int], int]] = {}
        self._log: list[int] = []
        self._moves: list[_Move] = []
        self._spreadings: dict[int, tuple[Spreading, int]] = {}
        self._counts: dict[int, tuple[Census, Counter[Pair], int]] = {}
        self._promised: dict[int, list[tuple[PlacedPod, QueuedPod | None]]] = {
            index: [(pod, None) for pod in pods] for index, pods in arena.promised.items()
        }
        self._nominated: dict[QueuedPod, int] = {}
        self._leaving: dict[int, list[PlacedPod]] = {}
        self.candidates: dict[int, dict[int, tuple[Seat, Candidate | None]]] = {}
        self._gone = 0
        # Nodes that have lost pods.
        self._left: set[int] = set()
        self._failed: dict[int, int] = {}
        # Victims with a grace period stay until the queue is empty, others are gone at once, or soon.
        self._leaves_at = draws.below(3)

    def go(self, entries: Sequence[QueuedPod]) -> None:
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

    def _try(self, entry: QueuedPod) -> bool:
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

    def _is_waiting(self, entry: QueuedPod) -> bool:
        """Source: ``defaultpreemption/default_preemption.go``, PodEligibleToPreemptOthers."""
        return bool(entry in self._nominated and self._leaving.get(self._nominated[entry]))

    def _bind(self, entry: QueuedPod, index: int) -> None:
        self._forget(entry)
        self.bound[entry] = index
        self._change(index, self.seats[index].with_pod(entry.pod), came=(entry.pod,))
        free, wanted = dict(self._free[index]), entry.pod.requests
        for name, amount in wanted.items():
            free[name] = free.get(name, 0) - amount
        free["pods"] -= 1
        self._free[index] = free
        cpu, memory = self._scored[index]
        self._scored[index] = cpu + entry.pod.scored[0], memory + entry.pod.scored[1]

    def _change(self, index: int, seat: Seat, came: Sequence[PlacedPod] = (), went: Sequence[PlacedPod] = ()) -> None:
        if came or went:
            self._moves.append(_Move(index, self.seats[index], seat, came, went))
        self.seats[index] = seat
        self._log.append(index)

    def _forget(self, entry: QueuedPod) -> None:
        index = self._nominated.pop(entry, None)
        if index is not None:
            self._promised[index] = [item for item in self._promised[index] if item[1] is not entry]
            self._change(index, self.seats[index])

    def _evict(self, entry: QueuedPod, index: int, found: Eviction) -> None:
        there = self._leaving.setdefault(index, [])
        new = [pod for pod in found.victims if not any(pod is other for other in there)]
        there += new
        if not found.certain:
            self.uncertain.add(entry.job)
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
            self._change(index, seat, went=pods)
            self._free[index], self._scored[index] = free_of(seat), scored_of(seat)
        self._left.update(self._leaving)
        self._leaving = {}
        self._gone += 1

    def _fits(self, shape: Shape, index: int, entry: QueuedPod | None) -> bool:
        """Source: ``framework/runtime/framework.go``, RunFilterPluginsWithNominatedPods."""
        seat, census = self.seats[index], self._census(shape)
        if obstacle(shape.incoming, seat, census) is not None:
            return False
        more = self._kept_for(shape, index, entry)
        if not more:
            return True
        full = Seat(seat.node, seat.pods + more)
        return obstacle(shape.incoming, full, self._recounted(shape, census, seat, full)) is None

    def _kept_for(self, shape: Shape, index: int, entry: QueuedPod | None) -> tuple[PlacedPod, ...]:
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
        for _, before, now, *_ in self._moves[since:]:
            if not shape.alone:
                census = recounted(census, shape.incoming, before, now)
            if shape.likes:
                liked = Counter(liked)
                liked.subtract(liking(shape.incoming, [before]))
                liked.update(liking(shape.incoming, [now]))
        self._counts[id(shape)] = census, liked, len(self._moves)
        return census, liked

    def _spreading(self, shape: Shape, first: Spreading) -> Spreading:
        """What its soft rules count as of now."""
        if id(shape) not in self._spreadings:
            self._spreadings[id(shape)] = first.copy(), 0
        counted, since = self._spreadings[id(shape)]
        for move in self._moves[since:]:
            counted.count(move.place, move.came, 1)
            counted.count(move.place, move.went, -1)
        self._spreadings[id(shape)] = counted, len(self._moves)
        return counted

    @staticmethod
    def _recounted(shape: Shape, census: Census, before: Seat, now: Seat) -> Census:
        return census if shape.alone else recounted(census, shape.incoming, before, now)

    def _row(self, shape: Shape, entry: QueuedPod) -> list[int]:
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
            suits, frees = shape.taints, self._free
            scarce, amount = shape.scarce
            for index in set(self._log[since:]):
                if index in suits:
                    # Most nodes without room are told by what is scarce.
                    short = frees[index].get(scarce, 0) < amount
                    row[index] = -1 if short else self._simple_score(shape, index, entry)
        self._rows[id(shape)] = row, len(self._log)
        return row

    def _simple_score(self, shape: Shape, index: int, entry: QueuedPod) -> int:
        free = self._free[index]
        if free["pods"] < 1:
            return -1
        for name, amount in shape.wanted:
            if free.get(name, 0) < amount:
                return -1
        if self._promised.get(index) and not shape.has_amounts(self.seats[index], self._kept_for(shape, index, entry)):
            return -1
        return self._amounts_score(shape, index)

    def _amounts_score(self, shape: Shape, index: int) -> int:
        free = self._free[index]
        key = index, self._scored[index], free.get("cpu", 0), free.get("memory", 0), shape.asked
        known = self._arena.scores.get(key)
        if known is None:
            known = self._arena.scores[key] = self._first_score(shape, index)
        return known

    def _first_score(self, shape: Shape, index: int) -> int:
        cpu, memory = capacity = self._arena.capacity[index]
        scored, own = self._scored[index], shape.incoming.pod.scored
        score = least_allocated((scored[0] + own[0], cpu), (scored[1] + own[1], memory))
        if shape.cpu or shape.memory:
            free = self._free[index]
            before = cpu - free.get("cpu", 0), memory - free.get("memory", 0)
            score += balanced_allocation(before, (before[0] + shape.cpu, before[1] + shape.memory), capacity)
        return score

    def _best(self, shape: Shape, entry: QueuedPod) -> int | None:
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
        if shape.spreading is not None:
            spread = self._spreading(shape, shape.spreading).scores(places)
            parts.append([WEIGHTS["PodTopologySpread"] * score for score in spread])
        if shape.likes:
            liked = neighbours_normalised(self._counted(shape)[1], nodes)
            parts.append([WEIGHTS["InterPodAffinity"] * score for score in liked])
        return [sum(scores) for scores in zip(*parts, strict=True)]

    def _victims(self, shape: Shape, entry: QueuedPod) -> tuple[int, Eviction] | None:
        """Where evicting costs least. Source: ``preemption/preemption.go``, DryRunPreemption, SelectCandidate."""
        census = self._census(shape)
        places = (
            shape.nodes
            if shape.simple
            else [
                index
                for index in shape.nodes
                if (rule := obstacle(shape.incoming, self.seats[index], census)) is None or rule.resolvable
            ]
        )
        if not places:
            return None
        start, most = self._draws.below(len(places)), candidates_looked_for(len(places))
        found: list[tuple[int, Candidate]] = []
        spares = False
        seats, firsts, promised = self.seats, self._arena.seats, self._promised
        at_first, later = self._arena.candidates.setdefault(id(shape), {}), self.candidates.setdefault(id(shape), {})
        hopeless = self._arena.hopeless(shape) if shape.simple else frozenset()
        for index in (*places[start:], *places[:start]):
            if index in hopeless and index not in self._left:
                continue
            seat = seats[index]
            known = (at_first if seat is firsts[index] else later).get(index)
            if known is not None and known[0] is seat and not promised.get(index):
                one = known[1]
            else:
                one = self._candidate(shape, index, entry, census)
            if one is not None:
                found.append((index, one))
                spares = spares or not one.eviction.violations
                if len(found) >= most and spares:
                    break
        if not found:
            return None
        least = min(item.cost for _, item in found)
        index, chosen = self._draws.one_of([item for item in found if item[1].cost == least])
        return index, chosen.eviction

    def _candidate(self, shape: Shape, index: int, entry: QueuedPod, census: Census) -> Candidate | None:
        seat, is_promised = self.seats[index], bool(self._promised.get(index))
        more = self._kept_for(shape, index, entry) if is_promised else ()
        found = self._eviction(shape, index, more, census)
        candidate = None if found is None else Candidate(found, found.cost)
        # What is decided by more than this node may be another thing the next time.
        if shape.alone and not is_promised:
            known = self._arena if seat is self._arena.seats[index] else self
            known.candidates[id(shape)][index] = seat, candidate
        return candidate

    def _eviction(self, shape: Shape, index: int, more: tuple[PlacedPod, ...], census: Census) -> Eviction | None:
        seat = self.seats[index]
        if not shape.may_evict(seat):
            return None
        if shape.simple:
            return eviction(shape.incoming, seat, partial(shape.has_amounts, more=more), self._arena.budgets)

        def fits(changed: Seat) -> bool:
            full = Seat(changed.node, changed.pods + more) if more else changed
            return all(
                obstacle(shape.incoming, one, self._recounted(shape, census, seat, one)) is None
                for one in ((full, changed) if more else (changed,))
            )

        return eviction(shape.incoming, seat, fits, self._arena.budgets)
