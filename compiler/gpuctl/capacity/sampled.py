"""What becomes of jobs in most of the ways in which the scheduler may choose, and in which their pods may come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from gpuctl.capacity.arena import Arena, QueuedPod
from gpuctl.capacity.arrivals import RUNS, is_in_turn, made_at, pace
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.every_choice import (
    FEW,
    answer_of,
    change_of,
    not_now,
    others_instead,
    plain_verdict,
    with_victims,
)
from gpuctl.capacity.scene import Scene
from gpuctl.capacity.seats import PlacedPod, Seat
from gpuctl.capacity.simulation import Run
from gpuctl.capacity.verdicts import STARTS, Fit, Verdict, Victim

_End = tuple[Verdict | None, int]
"""How a run ends for a job: what is said of it, and how many of its pods start."""


class _Outcome(NamedTuple):
    """What became of a job in one run."""

    verdict: Verdict | None
    starts: int
    victims: tuple[tuple[PlacedPod, int], ...]
    certain: bool
    run: int

    @property
    def lost(self) -> frozenset[int]:
        """The ids of the victims."""
        return frozenset(id(pod) for pod, _ in self.victims)


class Sample:
    """The jobs of a scene in many runs."""

    def __init__(self, scene: Scene, nodes: int) -> None:
        self._scene = scene
        arena = Arena(
            scene.cluster.seats, scene.cluster.budgets, nodes, scene.cluster.nominated, scene.cluster.returning
        )
        self._seats = arena.seats
        arena.queue(scene.shown, scene.cluster.waiting, [demand.endurance for demand in scene.demands])
        self._outcomes: list[list[_Outcome]] = [[] for _ in scene.demands]
        self._left: dict[int, list[Seat]] = {}
        draws = Draws(_seed(scene))
        every = all(demand.in_turn for demand in scene.demands)
        drawn = any(demand.doubts for demand in scene.demands) or not all(item.settled for item in scene.admissions)
        arrivals: dict[object, list[list[QueuedPod]]] = {}
        for number in range(RUNS):
            in_turn = every or is_in_turn(number)
            run = Run(arena, draws, in_turn=in_turn)
            # Where nothing else is drawn, nothing but the pace tells the orders of those in turn apart.
            order = ("in turn", pace(number)) if in_turn and not drawn else number
            if order not in arrivals:
                arrivals[order] = _arrivals(scene, arena, number)
            run.go(arrivals[order])
            bound = Counter(entry.job for entry in run.bound)
            for position, demand in enumerate(scene.demands):
                coming = arena.coming.get((position, 0))
                if coming and bound[position] < demand.pods and position not in self._left:
                    self._left[position] = run.left_for(coming[0])
                evicted = tuple(run.evicted.get(position, ()))
                answer = answer_of(bound[position], (pod for pod, _ in evicted), demand)
                self._outcomes[position].append(
                    _Outcome(answer, bound[position], evicted, position not in run.uncertain, number)
                )
        # In how many runs a pod is evicted, for whichever job.
        self._often = Counter(
            pod for run in range(RUNS) for pod in {pod for job in self._outcomes for pod in job[run].lost}
        )
        self._typical = self._most_typical()

    def _most_typical(self) -> int:
        """The run whose victims are told, those of all jobs: what jobs mostly lose each by itself may be the same pods.

        In it most jobs end as they mostly do; among such it has the most victims that most runs have, and the fewest
        others.
        """
        usual = [Counter(map(_end, outcomes)).most_common(1)[0][0] for outcomes in self._outcomes]
        evicted = [[id(pod) for job in self._outcomes for pod, _ in job[run].victims] for run in range(RUNS)]

        def rank(run: int) -> tuple[int, int]:
            ends = sum(_end(job[run]) == end for job, end in zip(self._outcomes, usual, strict=True))
            return ends, sum(2 * self._often[pod] - RUNS for pod in evicted[run])

        return max(range(RUNS), key=rank)

    def answer(self, position: int) -> Fit:
        """The answer for a job: what most runs give."""
        scene = self._scene
        demand, outcomes = scene.demands[position], self._outcomes[position]
        plain = plain_verdict(demand)
        if plain is not None:
            return Fit(demand, *plain, 0, [], False, scene.balance_before(demand), None)
        (chosen, number), *_ = Counter(outcome.verdict for outcome in outcomes).most_common(1)
        seats = None if chosen in STARTS else self._left.get(position)
        found = scene.balance_before(demand) if seats is None else scene.balance(demand, seats)
        alike = [outcome for outcome in outcomes if outcome.verdict == chosen]
        starts = Counter(outcome.starts for outcome in alike).most_common(1)[0][0]
        shown = self._shown(position, (chosen, starts))
        admission = scene.quotas.drawn(scene.numbers[position], shown.run)
        verdict: Verdict
        if chosen is None:
            verdict, reason = not_now(scene, demand, admission, found, starts)
        else:
            verdict = chosen
            reason = "it waits for pods that are terminating" if chosen == "fits-when-empty" else ""
            starts = 0 if chosen == "fits-when-empty" else starts
        clear = all(outcome.certain for outcome in alike)
        same = clear and all(outcome.lost == shown.lost for outcome in alike)
        victims = [
            Victim(pod, self._seats[place].node.name, self._often[id(pod)] / RUNS if clear else None)
            for pod, place in shown.victims
            if not pod.deleting
        ]
        if victims:
            others = "" if same else others_instead([pod for pod, _ in outcome.victims] for outcome in alike)
            reason = with_victims(reason, verdict, starts, demand.pods, others)
        share = number / len(outcomes)
        waiting = sum(outcome.verdict not in STARTS for outcome in outcomes) / len(outcomes)
        tried = (
            f"so in {number} of {len(outcomes)} orders tried"
            if number < len(outcomes)
            else (f"so in all {number} orders tried")
        )
        reason = "; ".join(part for part in (reason, tried) if part)
        change = None
        if verdict not in ("fits", "unknown") and len(scene.demands) <= FEW:
            free = list(scene.start(demand.priority).seats) if seats is None else seats
            change = change_of(scene, demand, admission, free, found)
        return Fit(demand, verdict, reason, starts, victims, False, found, change, share, waiting=waiting)

    def _shown(self, position: int, end: _End) -> _Outcome:
        """What is told of a job that ends so: the typical run if it does there, else what most of such have."""
        typical = self._outcomes[position][self._typical]
        if _end(typical) == end:
            return typical
        alike = [outcome for outcome in self._outcomes[position] if _end(outcome) == end]
        taken = Counter(outcome.lost for outcome in alike).most_common(1)[0][0]
        return next(outcome for outcome in alike if outcome.lost == taken)


def _end(outcome: _Outcome) -> _End:
    return outcome.verdict, outcome.starts


def _seed(scene: Scene) -> str:
    names = [(demand.kind, demand.namespace, demand.name, demand.pods) for demand in scene.demands]
    nodes = [(seat.node.name, len(seat.pods)) for seat in scene.cluster.seats]
    return repr((names, nodes))


def _arrivals(scene: Scene, arena: Arena, run: int) -> list[list[QueuedPod]]:
    """The pods as the scheduler finds them in its queue. Those that wait were there before.

    Of pods alike, quotas take the first.
    """
    coming: list[tuple[float, int, QueuedPod]] = []
    for job, demand in enumerate(scene.demands):
        made = made_at(demand, run)
        passed = scene.quotas.passed(scene.numbers[job], run)
        for group, ((_, count), most) in enumerate(zip(demand.groups, passed, strict=False)):
            own, made = sorted(made[:count])[:most], made[count:]
            coming += ((when, job, entry) for when, entry in zip(own, arena.coming[job, group], strict=False))
    coming.sort(key=lambda item: item[:2])
    taken = pace(run)
    if taken is None:
        return [[*arena.waiting, *(entry for *_, entry in coming)]]
    return [arena.waiting, *([entry] for entry in _in_turn([(when, entry) for when, _, entry in coming], taken))]


def _in_turn(coming: Sequence[tuple[float, QueuedPod]], pace: float) -> Iterator[QueuedPod]:
    """Pods, by when they come, as a scheduler takes them that needs so long for each: the most important there is."""
    queue: list[tuple[int, int, QueuedPod]] = []
    now, came = 0.0, 0
    while queue or came < len(coming):
        if not queue:
            now = max(now, coming[came][0])
        while came < len(coming) and coming[came][0] <= now:
            entry = coming[came][1]
            heappush(queue, (-entry.shape.priority, came, entry))
            came += 1
        yield heappop(queue)[-1]
        now += pace
