"""Verdicts of the jobs of one component: certain if no other order or choice changes them, else for one order.

A job alone in its component is followed through every choice of the scheduler. Of several jobs, those with room in
every case are proven; the others are placed one after another, as ``apply`` creates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuctl.capacity.cluster_model import Cluster
from gpuctl.capacity.component_input import Scene, shown
from gpuctl.capacity.demand import Demand
from gpuctl.capacity.job_pods import Lost
from gpuctl.capacity.placement import Placements, State, initial, settle
from gpuctl.capacity.quota_admission import Admission
from gpuctl.capacity.room_proofs import Proofs
from gpuctl.capacity.scheduler_model import PlacedPod, Seat
from gpuctl.capacity.scheduling import NO_CENSUS, census, obstacle, rules_of_nodes
from gpuctl.capacity.shortage import Balance, exclusions, port_shortage, shortage, smallest_change
from gpuctl.capacity.simulation import Run
from gpuctl.capacity.suitable_nodes import shape_key
from gpuctl.capacity.unready_nodes import made_ready, not_ready_yet, unready
from gpuctl.capacity.verdicts import STARTS, Fit, Verdict, Victim

_FOLLOWED = 4096
"""Nodes times pods of a component whose choices are followed: of more there are always too many."""
FEW = 4
"""As many jobs are looked at more closely, on however many nodes."""
DEPENDS = "depends on order"
"""Said where pods that come in another order, or another choice of the scheduler, might change the answer."""
_OF_THE_SAME_RANK = "the scheduler may evict others of the same rank instead"
_OTHERS = "others may be evicted instead: that depends on which node is taken, and on the order of pods"
_MAY_END = "others may end with who is evicted: whether their jobs go on without them cannot be told"
_COME_AGAIN = "who is evicted may come again, and evict others in turn"


def judge(scene: Scene) -> list[Fit]:
    """Return the answers in the order of the jobs: what holds for every choice, else what happens in their order."""
    proofs = Proofs(scene)
    rivals = [admission for admission in scene.admissions if admission.pods]
    size = sum(demand.pods for demand in scene.demands) * len(scene.cluster.seats)
    follows = size <= _FOLLOWED or len(scene.demands) <= FEW
    # Of several the scheduler takes the most important first only when all of them are there.
    if follows and len(rivals) < 2 and all(admission.settled for admission in scene.admissions):
        found = [_followed(scene, *job) for job in zip(scene.demands, scene.admissions, strict=True)]
    else:
        found = [_proven(scene, proofs, position) for position in range(len(scene.demands))]
    if None not in found:
        return [answer for answer in found if answer is not None]
    run = _run(scene)
    # Where the order is known, the choice among equal nodes is left.
    other = _run(scene, last=True) if all(demand.in_turn for demand in scene.demands) else None
    return [answer or _in_order(scene, run, other, position) for position, answer in enumerate(found)]


def _run(scene: Scene, *, last: bool = False) -> Run:
    """Let the jobs come in their order; of those for which nothing can be known no pod comes."""
    run = Run(scene.cluster, [group for groups in scene.shown for group, _ in groups], last=last)
    for position, (demand, admission) in enumerate(zip(scene.demands, scene.admissions, strict=True)):
        if not (demand.doubts or demand.refusals):
            run.take(position, [(shown(group, scene.cluster.shown), number) for group, number in admission.groups])
    run.finish()
    return run


def _verdict_in(run: Run, position: int, demand: Demand) -> Verdict | None:
    return answer_of(run.bound[position], (pod for pod, _ in run.evicted.get(position, ())), demand)


def _in_order(scene: Scene, run: Run, other: Run | None, position: int) -> Fit:
    """Return the answer for a job by what becomes of it when jobs come in their order.

    :param other: the same order with another choice among equal nodes, if the order is known.
    """
    demand, admission = scene.demands[position], scene.admissions[position]
    plain = plain_verdict(demand)
    if plain is not None:
        return Fit(demand, *plain, 0, [], False, scene.balance_before(demand), None)
    starts, evicted = run.bound[position], run.evicted.get(position, [])
    chosen = _verdict_in(run, position, demand)
    free = list(scene.start(demand.priority).seats)
    found = scene.balance_before(demand)
    if chosen not in STARTS and run.came(position):
        free = run.seats_without(position)
        found = scene.balance(demand, free)
    verdict: Verdict
    if chosen is None:
        verdict, reason = not_now(scene, demand, admission, found, starts)
    else:
        verdict, reason = chosen, "it waits for pods that are terminating" if chosen == "fits-when-empty" else ""
        starts = 0 if chosen == "fits-when-empty" else starts
    victims = [Victim(pod, scene.cluster.seats[place].node.name) for pod, place in evicted if not pod.deleting]
    if victims:
        reason = with_victims(reason, verdict, starts, demand.pods, "")
    depends = other is None or _verdict_in(other, position, demand) != chosen
    reason = "; ".join(part for part in (reason, DEPENDS if depends else "") if part)
    change = None
    if verdict not in ("fits", "unknown") and len(scene.demands) <= FEW:
        change = change_of(scene, demand, admission, free, found)
    return Fit(demand, verdict, reason, starts, victims, False, found, change, depends=depends)


def _proven(scene: Scene, proofs: Proofs, position: int) -> Fit | None:
    """Return the answer for a job if it is the same wherever the others of its component go."""
    demand, admission = scene.demands[position], scene.admissions[position]
    plain = plain_verdict(demand)
    if plain is not None:
        return Fit(demand, *plain, 0, [], False, scene.balance_before(demand), None)
    if proofs.fits(position):
        return Fit(demand, "fits", "", demand.pods, [], True, scene.balance_before(demand), None)
    if proofs.lacks_room(position) or (admission.settled and not admission.pods):
        found = scene.balance_before(demand)
        verdict, reason = not_now(scene, demand, admission, found, 0)
        return None if verdict == "unknown" else Fit(demand, verdict, reason, 0, [], True, found, None)
    return None


def plain_verdict(demand: Demand) -> tuple[Verdict, str] | None:
    """What is answered without a look at the nodes."""
    if demand.refusals:
        return "never", "; ".join(demand.refusals)
    if demand.doubts:
        return "unknown", "; ".join(demand.doubts)
    return None if demand.pods else ("fits", "it runs no pods now")


def _is_contested(cluster: Cluster, demand: Demand, outcome: Placements) -> bool:
    """Whether a pod that waits may have the room that a job makes for itself.

    The room is kept from those that are not more important. Source: ``framework/runtime/framework.go``,
    addGENominatedPods.
    """
    rivals = [rival for rival in cluster.waiting if rival.pod.priority > demand.priority]
    own = [group.incoming.pod for group, _ in demand.groups]
    if rivals and not outcome.exhaustive:
        return True
    for rival in rivals:
        for state in outcome.states:
            seats = [seat.without(own) for seat in state.seats]
            counted = census(rival, seats)
            if any(obstacle(rival, seat, counted) is None for seat in seats):
                return True
    return False


def _followed(scene: Scene, demand: Demand, admission: Admission) -> Fit | None:
    """The answer for a job that no other one of these meets."""
    cluster, start = scene.cluster, scene.start(demand.priority)
    groups = [(shown(group, cluster.shown), number) for group, number in admission.groups]
    outcome = settle(start, groups, cluster.budgets, final=True)
    if any(end.evicted for end in outcome.states) and _is_contested(cluster, demand, outcome):
        return None
    found = scene.balance(demand, list(start.seats))
    plain = plain_verdict(demand)
    ends = outcome.states
    starts = 0 if demand.doubts else min(sum(end.placed.values()) for end in ends)
    # Those that end already are gone at some time that nobody knows.
    leaves = any(pod.deleting for end in ends for pod in end.evicted)
    certain = _is_certain(scene, outcome) and not (leaves or _goes_on(scene, ends) or _makes_more_room(scene, ends))
    victims = [] if demand.doubts else victims_of(start, ends[0])
    if plain is not None:
        return Fit(demand, *plain, starts, victims, certain, found, None)
    answers = {answer_of(sum(end.placed.values()), end.evicted, demand) for end in ends}
    if len(answers) > 1 or not (outcome.exhaustive or outcome.confluent):
        return None
    verdict = answers.pop()
    reason = "it waits for pods that are terminating" if verdict == "fits-when-empty" else ""
    if verdict is None:
        verdict, reason = not_now(scene, demand, admission, found, starts)
    if verdict == "fits-when-empty" and leaves:
        starts = 0
    if verdict == "unknown":
        return None
    if victims:
        reason = with_victims(reason, verdict, starts, demand.pods, "" if certain else _others(scene, ends))
    change = None if verdict == "fits" else change_of(scene, demand, admission, list(start.seats), found)
    return Fit(demand, verdict, reason, starts, victims, certain, found, change)


def _others(scene: Scene, ends: Sequence[State]) -> str:
    """Why others may be evicted than those that are told."""
    if _goes_on(scene, ends):
        return _COME_AGAIN
    if any(_lost_with(scene, end).unsure for end in ends):
        return _MAY_END
    return others_instead(_lost(scene, end) for end in ends)


def _lost_with(scene: Scene, end: State) -> Lost:
    return scene.cluster.returning.jobs.lost_with(end.evicted)


def _lost(scene: Scene, end: State) -> frozenset[PlacedPod]:
    """The pods that are evicted, and those that end with them, or may."""
    return frozenset(end.evicted).union(_lost_with(scene, end).all)


def others_instead(choices: Iterable[Iterable[PlacedPod]]) -> str:
    """That others may be evicted, and which: in each of some choices these."""
    ranks = {tuple(sorted(pod.importance for pod in evicted)) for evicted in choices}
    return _OF_THE_SAME_RANK if len(ranks) == 1 else _OTHERS


def _makes_more_room(scene: Scene, ends: Sequence[State]) -> bool:
    """Whether pods end with those that are evicted, so that the next one may find room where they were."""
    several = (_lost_with(scene, end) for end in ends if sum(end.placed.values()) > 1)
    return any(lost.all or lost.frees for lost in several)


def _goes_on(scene: Scene, ends: Sequence[State]) -> bool:
    """Whether a pod that is evicted, or ends with one, may come again and evict others in its turn."""
    lost = ((end, _lost_with(scene, end)) for end in ends)
    gone = (pod for end, others in lost for pod in {*end.evicted, *others.all} - others.over)
    returning = [pod for pod in gone if pod in scene.cluster.returning]
    if not returning:
        return False
    boldest = max(pod.priority for pod in returning)
    return any(pod.priority < boldest for seat in scene.cluster.seats for pod in seat.pods)


def _is_certain(scene: Scene, outcome: Placements) -> bool:
    """Whether as many pods start, at the cost of the same others, whatever is chosen."""
    alike = len({(_lost(scene, end), sum(end.placed.values())) for end in outcome.states}) == 1
    known = all(end.certain and not _lost_with(scene, end).unsure for end in outcome.states)
    return alike and outcome.exhaustive and known


def answer_of(placed: int, evicted: Iterable[PlacedPod], demand: Demand) -> Verdict | None:
    """The verdict by how many pods were placed, and who was evicted; None when some have no room."""
    if placed < demand.pods:
        return None
    gone = list(evicted)
    if not gone:
        return "fits"
    return "fits-when-empty" if all(pod.deleting for pod in gone) else "preempts"


def not_now(scene: Scene, demand: Demand, admission: Admission, found: Balance, starts: int) -> tuple[Verdict, str]:
    """The verdict of a job that does not fit now, and why."""
    empty, why = _when_empty(scene, demand)
    if empty == "never":
        # A quota that is full now would not be the reason: raised or emptied, it changes nothing.
        return "never", "; ".join([why, *(admission.refusals if admission.for_ever else ())])
    if admission.refusals:
        return ("never" if admission.for_ever else empty), "; ".join(admission.refusals)
    if empty == "fits-when-empty":
        seats = list(scene.start(demand.priority).seats)
        why = why or port_shortage(demand, starts, seats) or shortage(demand, found, starts)
    return empty, why


def _when_empty(scene: Scene, demand: Demand) -> tuple[Verdict, str]:
    """Whether a job fits when only those pods run that every node has (DaemonSets, static pods)."""
    key = tuple((shape_key(group.incoming), number) for group, number in demand.groups)
    if any(group.incoming.terms for group, _ in demand.groups):
        return _emptied(scene, demand)
    if key not in scene.emptied:
        scene.emptied[key] = _emptied(scene, demand)
    return scene.emptied[key]


def _emptied(scene: Scene, demand: Demand) -> tuple[Verdict, str]:
    outcome = settle(scene.bare, demand.groups, (), final=True)
    placed = {sum(end.placed.values()) for end in outcome.states}
    if len(placed) > 1 or not (outcome.exhaustive or outcome.confluent):
        return "unknown", "even in the empty cluster it depends on which nodes the scheduler takes first"
    number = placed.pop()
    if number == demand.pods:
        return "fits-when-empty", ""
    late = _once_ready(scene, demand)
    if late:
        return "fits-when-empty", not_ready_yet(late)
    if number:
        why = f"even the empty cluster has room for {number} of {demand.pods} pods only"
        return "never", "; ".join(filter(None, (why, port_shortage(demand, number, list(scene.bare.seats)))))
    empty = [Seat(seat.node, tuple(pod for pod in seat.pods if pod.stays)) for seat in scene.whole]
    return "never", exclusions(demand.groups[0][0].incoming, empty)


def _once_ready(scene: Scene, demand: Demand) -> list[Seat]:
    """The nodes that a job waits for which do not take pods yet: with them, and without other work, it fits."""
    tainted = [seat for seat in unready(scene.around) if _would_open(made_ready([Seat(seat.node)])[0], demand)]
    if not tainted:
        return []
    seats = [Seat(seat.node, tuple(pod for pod in seat.pods if pod.stays)) for seat in made_ready(scene.around)]
    outcome = settle(initial(seats, scene.cluster.names_hosts), demand.groups, (), final=True)
    fits = all(sum(end.placed.values()) == demand.pods for end in outcome.states)
    return tainted if fits and (outcome.exhaustive or outcome.confluent) else []


def _would_open(seat: Seat, demand: Demand) -> bool:
    """Whether an empty node is one for any of the pods, as far as it alone decides."""
    rules = rules_of_nodes()
    return any(all(rule.holds(group.incoming, seat, NO_CENSUS) for rule in rules) for group, _ in demand.groups)


def with_victims(reason: str, verdict: Verdict, starts: int, pods: int, others: str) -> str:
    """The reason, with what others lose.

    :param others: why it may be others; "" when it may not.
    """
    parts = [reason] if reason else []
    if verdict != "preempts":
        parts.append(f"{starts} of {pods} pods would still start, and evict others")
    if others:
        parts.append(others)
    return "; ".join(parts)


def victims_of(start: State, end: State) -> list[Victim]:
    """The pods that are evicted, with their nodes."""
    places = {id(pod): seat.node.name for seat in start.seats for pod in seat.pods}
    return [Victim(pod, places[id(pod)]) for pod in end.evicted if not pod.deleting]


def change_of(scene: Scene, demand: Demand, admission: Admission, seats: Sequence[Seat], found: Balance) -> str | None:
    """The smallest change with which a job would fit, on the nodes as it finds them and those around."""
    if demand.refusals or demand.doubts:
        return None
    here = {seat.node.name: seat for seat in seats}
    every = [here.get(seat.node.name, seat) for seat in scene.around]
    state = initial(every, scene.cluster.names_hosts)
    return smallest_change(state, demand, found, admission.shortfalls, names_hosts=scene.cluster.names_hosts)
