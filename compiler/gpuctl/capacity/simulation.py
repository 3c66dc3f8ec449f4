"""One way in which the scheduler may place the pods of some jobs: what it does with each, one after another.

Source: Kubernetes 1.36, ``pkg/scheduler/schedule_one.go``, ``framework/preemption/preemption.go``. What it leaves to
chance is drawn: which of the best nodes is taken, from where nodes are looked at, when victims are gone.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, compress

from gpuctl.capacity.arena import Arena, QueuedPod
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.job_failures import JobFailures
from gpuctl.capacity.job_pods import JobPods, Whole
from gpuctl.capacity.node_choice import ScoreRow, best_of_kinds, best_place, in_place, looked_at
from gpuctl.capacity.pod_shapes import Shape
from gpuctl.capacity.preemption import Eviction
from gpuctl.capacity.scoring import WEIGHTS, neighbours_normalised, normalised
from gpuctl.capacity.seats import PlacedPod, Seat
from gpuctl.capacity.simulated_nodes import SimulatedNodes
from gpuctl.capacity.victim_search import VictimSearch

_ROUNDS = 12
"""How often pods that wait are tried again at most."""
_SOON = 2
"""So many pods come at most before one that was evicted comes again, where jobs come one after another."""


class Run:
    """One way. ``bound`` has the nodes of the pods by entry, ``evicted`` by job the victims with their nodes; of those
    of ``uncertain`` jobs others on the same node may be taken. Nodes are told by their places in the arena.
    """

    def __init__(self, arena: Arena, draws: Draws, *, in_turn: bool = False) -> None:
        """
        :param in_turn: jobs come one after another, so that controllers have time meanwhile.
        """
        self._arena = arena
        self._draws = draws
        self._nodes = SimulatedNodes(arena)
        self._search = VictimSearch(arena, self._nodes, draws)
        self.bound: dict[QueuedPod, int] = {}
        self.evicted: dict[int | None, list[tuple[PlacedPod, int]]] = {}
        self.uncertain: set[int | None] = set()
        self._nominated: dict[QueuedPod, int] = {}
        self._leaving: dict[int, list[PlacedPod]] = {}
        self._failed: dict[Shape, int] = {}
        self._again: list[QueuedPod] = []
        # Jobs that have failed, and pods of before that are gone.
        self._over: set[int | None] = set()
        self._gone: set[PlacedPod] = set()
        self._failures = JobFailures(draws)
        self._ended: set[Whole] = set()
        # Victims with a grace period stay until the queue is empty, others are gone at once, or soon.
        self._leaves_at = draws.below(3)
        # Their controllers make them again at once, or after some time, before so many of those that come as may be.
        self._returns_at_once = draws.below(4) > 0 if in_turn else draws.below(2) == 0
        self._latest = _SOON if in_turn else None

    def go(self, arrivals: Sequence[Sequence[QueuedPod]]) -> None:
        """Try pods as the scheduler finds them in its queue, together or one after another, and those that found no
        room again, until nothing comes of it."""
        pending = self._take([list(entries) for entries in arrivals])
        for _ in range(_ROUNDS - 1):
            before = self._nodes.changes
            pending = self._take([pending])
            if not pending or before == self._nodes.changes:
                return

    def _take(self, arrivals: list[list[QueuedPod]]) -> list[QueuedPod]:
        """Try pods, of those that are in the queue at once the most important first; those that have to wait."""
        left: list[QueuedPod] = []
        for number, entries in enumerate(arrivals, 1):
            queue = sorted(entries, key=_rank) if len(entries) > 1 else entries
            for position, entry in enumerate(queue, 1):
                if not self._try(entry):
                    left.append(entry)
                if self._leaving and self._leaves_at and (self._leaves_at == 1 or self._draws.below(2)):
                    self._leave()
                    if self._returns_at_once:
                        self._queue_again(queue, position, arrivals[number:])
        self._leave()
        left += self._again
        self._again.clear()
        return left

    def left_for(self, entry: QueuedPod) -> list[Seat]:
        """The nodes as others leave them in the end to the job of a pod, in the order in which they were given."""
        own = [
            (place, other.pod)
            for found in (self.bound, self._nominated)
            for other, place in found.items()
            if other.job == entry.job
        ]
        seats = self._nodes.seats_for(entry.shape)
        for place, pod in own:
            seats[place] = seats[place].without([pod])
        return self._arena.in_order(seats)

    def _queue_again(self, queue: list[QueuedPod], first: int, later: Sequence[list[QueuedPod]]) -> None:
        """Put evicted pods into the queue, now or among those that are yet to come: somebody has to make them first."""
        for entry in self._again:
            turn = self._draws.below(1 + len(later[: self._latest]))
            if turn:
                later[turn - 1].append(entry)
            else:
                insort(queue, entry, first, key=_rank)
        self._again.clear()

    def _try(self, entry: QueuedPod) -> bool:
        """Whether a pod is bound, or wanted no longer. Source: ``schedule_one.go``, schedulingAlgorithm."""
        shape, nodes = entry.shape, self._nodes
        if entry.job in self._over or entry.pod in self._gone:
            return True
        promised = self._nominated.get(entry)
        if promised is None and self._failed.get(shape) == self._stage(shape):
            return False
        if promised is not None and nodes.fits(shape, promised, entry):
            self._bind(entry, promised)
            return True
        place = self._best(shape, nodes.row(shape, entry))
        if place is not None:
            self._bind(entry, place)
            return True
        if not shape.incoming.preempts or self._is_waiting(entry):
            return False
        found = self._search.best(shape, entry, promised)
        self._forget(entry)
        if found is None:
            self._failed[shape] = self._stage(shape)
        else:
            self._evict(entry, *found)
        return False

    def _stage(self, shape: Shape) -> int:
        """What has to change for a pod that found no room: for simple ones only others that leave."""
        return self._nodes.departures if shape.simple else self._nodes.changes

    def _is_waiting(self, entry: QueuedPod) -> bool:
        """Source: ``defaultpreemption/default_preemption.go``, PodEligibleToPreemptOthers."""
        return bool(entry in self._nominated and self._leaving.get(self._nominated[entry]))

    def _bind(self, entry: QueuedPod, place: int) -> None:
        self._forget(entry)
        self.bound[entry] = place
        self._nodes.bind(entry, place)

    def _forget(self, entry: QueuedPod) -> None:
        place = self._nominated.pop(entry, None)
        if place is not None:
            self._nodes.forget(entry.pod, place)

    def _evict(self, entry: QueuedPod, place: int, found: Eviction) -> None:
        there = self._leaving.setdefault(place, [])
        new = [pod for pod in found.victims if not any(pod is other for other in there)]
        there += new
        if not found.certain:
            self.uncertain.add(entry.job)
        self.evicted.setdefault(entry.job, []).extend((pod, place) for pod in new)
        self._nominated[entry] = place
        self._nodes.promise(entry, place)

    def _leave(self) -> None:
        """Let victims be gone."""
        if not self._leaving:
            return
        left = [pod for pod in chain.from_iterable(self._leaving.values()) if pod not in self._gone]
        failed = self._failures.failing(job for pod in left if (job := self._arena.job_of(pod)) is not None)
        self._ended.update(job.whole for job in failed if not self._failures.restarts(job.whole))
        for place, leaving in self._leaving.items():
            pods = [pod for pod in leaving if pod not in self._gone]
            gone = set(pods)
            came = self._nodes.has_newcomers(place)
            own = [entry for entry, at in self.bound.items() if at == place and entry.pod in gone] if came else []
            for entry in own:
                del self.bound[entry]
            self._nodes.leave(place, pods)
            self._gone |= gone
            self._return(own, pods)
        for job in failed:
            self._end(job, left)
        self._leaving = {}
        self._nodes.departed()

    def _end(self, job: JobPods, left: Sequence[PlacedPod]) -> None:
        """Let what fails with a Job of before end, as pods of it have left."""
        first = next(pod for pod in left if self._arena.job_of(pod) is job)
        victims = next(found for found in self.evicted.values() if any(other is first for other, _ in found))
        for place, other in self._arena.placed(job.whole.pods):
            if other not in self._gone:
                self._nodes.leave(place, [other])
                victims.append((other, place))
                self._gone.add(other)
                self._return((), [other])
        for place, other in self._arena.placed(job.whole.expected):
            if other not in self._gone:
                self._nodes.forget(other, place)
                self._gone.add(other)
                self._return((), [other])
        if job.whole in self._ended:
            # Those that wait are wanted no longer.
            self._gone.update(job.whole.expected)

    def _fail(self, job: int | None) -> None:
        """Let a job end as a whole."""
        self._over.add(job)
        for entry in [entry for entry in self._nominated if entry.job == job]:
            self._forget(entry)
        for entry, place in [item for item in self.bound.items() if item[0].job == job]:
            del self.bound[entry]
            self._gone.add(entry.pod)
            self._nodes.leave(place, [entry.pod])

    def _return(self, own: Sequence[QueuedPod], pods: Sequence[PlacedPod]) -> None:
        """Let controllers make victims again, those of jobs that come and those of before."""
        for job in dict.fromkeys(entry.job for entry in own if entry.job is not None):
            if self._failures.fails(job, self._arena.endurance[job], sum(entry.job == job for entry in own)):
                self._fail(job)
        again = [replace(entry, pod=replace(entry.pod)) for entry in own if entry.job not in self._over]
        wanted = [pod for pod in pods if self._arena.whole_of(pod) not in self._ended]
        again += [entry for pod in wanted if (entry := self._arena.returned(pod)) is not None]
        for entry in again:
            self._nodes.meet(entry.shape)
        self._again += again

    def _best(self, shape: Shape, row: ScoreRow) -> int | None:
        """The node that is taken. Source: ``schedule_one.go``, schedulePod."""
        if not row.top:
            return None
        most = self._arena.looked_for
        if not shape.is_ranked:
            return best_place(row, most, self._draws)
        start, seen = looked_at(row.values, most, self._draws)
        values = in_place(start, seen, len(row.values))
        best = self._best_of_kinds(shape, values, row.top)
        extra = self._extra(shape, [places[0] for _, places in best.values()], values)
        scores = [score + more for (score, _), more in zip(best.values(), extra, strict=True)]
        highest = list(map(max(scores).__eq__, scores))
        equal = [place for _, places in compress(best.values(), highest) for place in places]
        # In the order in which they are looked at.
        return self._draws.one_of(sorted(equal, key=lambda place: (place - start) % len(values)))

    def _best_of_kinds(self, shape: Shape, values: bytearray, most: int) -> dict[int, tuple[int, list[int]]]:
        """The best scores by amounts among nodes that nothing else tells apart, and where they are."""
        if shape.spreading is None:
            return best_of_kinds(values, most, shape.kinds, shape.kinds_in_all)
        others = values[:]
        alone: dict[int, tuple[int, list[int]]] = {}
        for place in self._nodes.spreading(shape, shape.spreading).marked:
            if values[place]:
                alone[-1 - place] = values[place], [place]
                others[place] = 0
        return alone | best_of_kinds(others, most, shape.kinds, shape.kinds_in_all)

    def _extra(self, shape: Shape, places: list[int], among: bytearray) -> list[int]:
        """What is added to the scores by amounts, for one node of each kind.

        :param among: the scores of all nodes that are looked at.
        """
        incoming = shape.incoming
        taints = normalised([shape.taints[place] for place in places], reverse=True)
        parts = [[WEIGHTS["TaintToleration"] * score for score in taints]]
        if incoming.preferred_nodes:
            preferred = normalised([shape.preferred[place] for place in places], reverse=False)
            parts.append([WEIGHTS["NodeAffinity"] * score for score in preferred])
        if shape.spreading is not None:
            spread = self._nodes.spreading(shape, shape.spreading).scores(places, among)
            parts.append([WEIGHTS["PodTopologySpread"] * score for score in spread])
        if shape.likes:
            nodes = [self._nodes.seat(place) for place in places]
            liked = neighbours_normalised(self._nodes.counted(shape)[1], nodes)
            parts.append([WEIGHTS["InterPodAffinity"] * score for score in liked])
        return [sum(scores) for scores in zip(*parts, strict=True)]


def _rank(entry: QueuedPod) -> int:
    """Source: ``queuesort/priority_sort.go``, Less."""
    return -entry.shape.priority
