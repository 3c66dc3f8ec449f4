"""Whether jobs would get their pods placed, all at once, in a cluster as a snapshot shows it; and if not, why.

Jobs are placed one after another, those with the highest priority first. A verdict is given only where it holds for
every choice that the scheduler may make; where the choice decides, it is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.demand import Demand, understand
from gpuctl.capacity.placement import LIMIT, Placements, PodGroup, State, has_room_in_any_case, initial, settle
from gpuctl.capacity.quota_sum import Shortfall, Usage, shortfalls, unspecified
from gpuctl.capacity.scheduling import census, obstacle
from gpuctl.capacity.seats import PlacedPod, Seat, Units
from gpuctl.capacity.shortage import Balance, balance, exclusions, shortage, smallest_change
from gpuctl.capacity.snapshot import Snapshot
from gpuctl.capacity.snapshot_cluster import Cluster

Verdict = Literal["fits", "preempts", "fits-when-empty", "never", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("fits", "preempts", "fits-when-empty", "never", "unknown")

_UNITS = {"cpu": ("cpuCores", 1000), "memory": ("memoryBytes", 1), "ephemeral-storage": ("ephemeralStorageBytes", 1)}


class Victim(NamedTuple):
    """A pod that would be evicted, and its node."""

    pod: PlacedPod
    node: str


@dataclass(frozen=True)
class Fit:
    """The answer for one job.

    ``starts`` is how many of its pods would run now. ``victims`` are evicted for these, also when they are not all;
    without ``certain`` others of the same rank may be taken instead.
    """

    demand: Demand
    verdict: Verdict
    reason: str
    starts: int
    victims: list[Victim]
    certain: bool
    balance: Balance
    change: str | None


class _Worlds(NamedTuple):
    """The states that the jobs so far may have led to; none when nothing is known any more.

    ``elsewhere`` are independent pods that have room in them for certain, but are not placed: where is too uncertain.
    ``before`` is the state without any job, as long as all jobs so far are of independent pods that evict nobody:
    ``came``.
    """

    states: list[State]
    elsewhere: tuple[tuple[PodGroup, int], ...] = ()
    before: State | None = None
    came: tuple[tuple[PodGroup, int], ...] = ()

    def put(self, index: int, pod: PlacedPod) -> _Worlds:
        """The same with somebody else's pod on a node."""
        before = None if self.before is None else self.before.put(index, pod)
        return self._replace(states=[state.put(index, pod) for state in self.states], before=before)


def named(amounts: Units) -> dict[str, float | int]:
    """Amounts with their units in the names: ``cpuCores``, ``memoryBytes``, ``nvidia.com/gpu``."""
    result: dict[str, float | int] = {}
    for name, amount in amounts.items():
        key, size = _UNITS.get(name, (name, 1))
        result[key] = amount / size if amount % size else amount // size
    return result


def fit(snapshot: Snapshot, objects: Sequence[Object]) -> list[Fit]:
    """Judge the workloads among ``objects`` (as lowered, with their namespaces), in the order of their placing."""
    cluster, demands = understand(snapshot, objects)
    owned = [pod for demand in demands for pod in demand.owned]
    start = initial([seat.without(owned) for seat in cluster.seats], cluster.names_hosts)
    worlds = _Worlds([start], before=start)
    nominated = list(cluster.nominated)
    pending: list[int] = []
    added: list[Usage] = []
    freed = [usage for demand in demands for usage in _given_back(demand)]
    result: list[Fit] = []
    for demand in demands:
        for index, pod in [item for item in nominated if item[1].priority >= demand.priority]:
            nominated.remove((index, pod))
            worlds = worlds.put(index, pod)
        admission = _admission(cluster, demand, added, freed)
        added += admission.usages
        judged, worlds, evicts = _judge(cluster, demand, admission, worlds, final=demand is demands[-1])
        if evicts and _is_contested(cluster, demand, worlds):
            told = "pods that are pending already, and come first, may take what it frees"
            judged, worlds = _disputed(judged, "preempts", told), _Worlds([])
        if evicts and pending:
            # Room that is made for this job may be taken by pods of the others that wait, and were first.
            judged, worlds = _disputed(judged, "preempts"), _Worlds([])
            for position in pending:
                result[position] = _disputed(result[position], "fits-when-empty")
        if judged.starts < sum(number for _, number in admission.groups):
            pending.append(len(result))
        result.append(judged)
    return result


def _is_contested(cluster: Cluster, demand: Demand, worlds: _Worlds) -> bool:
    """Whether a pod that waits may have the room that a job makes for itself.

    The room is kept from those that are not more important. Source: ``framework/runtime/framework.go``,
    addGENominatedPods.
    """
    rivals = [rival for rival in cluster.waiting if rival.pod.priority > demand.priority]
    own = [group.incoming.pod for group, _ in demand.groups]
    for rival in rivals:
        for state in worlds.states:
            seats = [seat.without(own) for seat in state.seats]
            counted = census(rival, seats)
            if any(obstacle(rival, seat, counted) is None for seat in seats):
                return True
    return bool(rivals) and not worlds.states


_TAKEN = "what one job's evictions free another may take"


def _disputed(judged: Fit, verdict: Verdict, why: str = _TAKEN) -> Fit:
    """The answer, which if it is this verdict does not hold any more."""
    reason = "; ".join(part for part in (judged.reason, why) if part)
    now: Verdict = "unknown" if judged.verdict == verdict else judged.verdict
    return replace(judged, verdict=now, reason=reason, certain=False)


class _Admission(NamedTuple):
    """What quotas let through of a job: pods by group, what that takes of them, and what stands against the rest."""

    groups: list[tuple[PodGroup, int]]
    usages: list[Usage]
    refusals: list[str]
    for_ever: bool
    shortfalls: list[Shortfall]


def _given_back(demand: Demand) -> list[Usage]:
    """What a job that is replaced gives back. Its limits are not in a snapshot; gpuctl's are equal to its requests.

    Of a deadline only whether there is one matters, to the scopes Terminating and NotTerminating.
    """
    if not demand.owned:
        return []
    pods = []
    for pod in demand.owned:
        amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in pod.requests.items()}
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}
        if pod.priority_class:
            spec["priorityClassName"] = pod.priority_class
        if pod.has_deadline:
            spec["activeDeadlineSeconds"] = 1
        pods.append(Usage({"kind": "Pod", "metadata": {"labels": dict(pod.labels)}, "spec": spec}))
    return [*(usage for usage in demand.usages if usage.object["kind"] != "Pod"), *pods]


def _admission(cluster: Cluster, demand: Demand, added: list[Usage], freed: list[Usage]) -> _Admission:
    quotas = [quota for quota in cluster.quotas if quota["metadata"]["namespace"] == demand.namespace]
    refused = [*demand.refusals, *(str(item) for item in unspecified(quotas, demand.usages))]
    if refused:
        return _Admission([], [], refused, True, [])
    before = [usage for usage in added if usage.object["metadata"].get("namespace") == demand.namespace]
    short = shortfalls(quotas, [*before, *demand.usages], freed)
    if not short:
        return _Admission(demand.groups, _of(demand, demand.usages), [], False, [])
    others = [usage for usage in demand.usages if usage.object["kind"] != "Pod"]
    pods = [usage for usage in demand.usages if usage.object["kind"] == "Pod"]
    least, most = 0, demand.pods
    while least < most:
        middle = (least + most + 1) // 2
        some = [*before, *others, *_first(pods, middle)]
        least, most = (middle, most) if not shortfalls(quotas, some, freed) else (least, middle - 1)
    groups = [(group, usage.number) for (group, _), usage in zip(demand.groups, _first(pods, least), strict=False)]
    for_ever = any(item.needed > item.hard for item in shortfalls(quotas, demand.usages))
    return _Admission(groups, _of(demand, _first(pods, least)), [str(item) for item in short], for_ever, short)


def _of(demand: Demand, usages: Iterable[Usage]) -> list[Usage]:
    """Usages that tell their namespace."""
    return [
        usage._replace(
            object={
                **usage.object,
                "metadata": {**(usage.object.get("metadata") or {}), "namespace": demand.namespace},
            }
        )
        for usage in usages
    ]


def _first(pods: Iterable[Usage], number: int) -> list[Usage]:
    """The first so many of several kinds of pods."""
    result = []
    for usage in pods:
        result.append(usage._replace(number=min(usage.number, number)))
        number -= result[-1].number
    return result


def _judge(
    cluster: Cluster, demand: Demand, admission: _Admission, worlds: _Worlds, *, final: bool
) -> tuple[Fit, _Worlds, bool]:
    """The answer, what the next job may find, and whether this one evicts anybody."""
    if _has_room_anyway(demand, admission, worlds):
        found = balance(demand, list(worlds.states[0].seats))
        return Fit(demand, "fits", "", demand.pods, [], False, found, None), _afterwards(admission, worlds, []), False
    groups = [(_shown(group, cluster.shown), number) for group, number in admission.groups]
    outcomes = [settle(state, groups, cluster.budgets, final=final) for state in worlds.states]
    ends = [end for outcome in outcomes for end in outcome.states]
    starts = 0 if demand.doubts else min((sum(end.placed.values()) for end in ends), default=0)
    verdict, reason = _verdict(cluster, demand, admission, worlds, outcomes)
    evicted = {frozenset(end.evicted) for end in ends}
    exhaustive = all(outcome.exhaustive for outcome in outcomes) and not worlds.elsewhere
    alike = len(evicted) == 1 and len({sum(end.placed.values()) for end in ends}) == 1
    # Those that end already are gone at some time that nobody knows.
    leaves = any(pod.deleting for end in ends for pod in end.evicted)
    certain = exhaustive and alike and all(end.certain for end in ends) and not leaves
    victims = _victims(worlds, ends[0]) if ends and not demand.doubts else []
    if victims:
        reason = _with_victims(reason, victims, verdict, starts, demand.pods, certain=certain)
    state = worlds.states[0] if worlds.states else initial(cluster.seats, cluster.names_hosts)
    found = balance(demand, list(state.seats))
    if verdict == "fits-when-empty" and leaves:
        starts = 0
    elif verdict == "fits-when-empty" and not admission.refusals:
        reason = "; ".join(part for part in (shortage(demand, found, starts), reason) if part)
    change = None
    if verdict not in ("fits", "unknown") and len(worlds.states) == 1 and not demand.refusals:
        change = smallest_change(state, demand, found, admission.shortfalls, names_hosts=cluster.names_hosts)
    judged = Fit(demand, verdict, reason, starts, victims, certain, found, change)
    after = _afterwards(admission, worlds, outcomes)
    if demand.doubts and not after.elsewhere:
        # Whether its pods take their room is not known either.
        after = _Worlds([*worlds.states, *after.states] if after.states else [])
    return judged, after, any(end.evicted for end in ends)


def _has_room_anyway(demand: Demand, admission: _Admission, worlds: _Worlds) -> bool:
    """Whether a job of pods alike fits wherever those before it went, so that no state need be followed to tell.

    Only where they are not known to the last one anyway: otherwise the jobs after it would be told less.
    """
    if not (worlds.states and worlds.elsewhere) or worlds.before is None or len(demand.groups) != 1:
        return False
    if demand.refusals or demand.doubts or admission.refusals or not demand.pods:
        return False
    return has_room_in_any_case(worlds.before, *demand.groups[0], worlds.came)


def _verdict(
    cluster: Cluster, demand: Demand, admission: _Admission, worlds: _Worlds, outcomes: list[Placements]
) -> tuple[Verdict, str]:
    if demand.refusals:
        return "never", "; ".join(demand.refusals)
    if demand.doubts:
        return "unknown", "; ".join(demand.doubts)
    if not demand.pods:
        return "fits", "it runs no pods now"
    if not worlds.states or not _is_settled(demand, worlds, outcomes):
        return "unknown", "it depends on where the jobs before it are placed"
    answers = {_answer(end, demand) for outcome in outcomes for end in outcome.states}
    if len(answers) > 1 or not all(outcome.exhaustive or outcome.confluent for outcome in outcomes):
        return "unknown", "it depends on which of several nodes the scheduler takes first"
    answer = answers.pop()
    if answer is not None:
        return answer, "it waits for pods that are terminating" if answer == "fits-when-empty" else ""
    empty, why = _when_empty(cluster, demand)
    if admission.refusals:
        return ("never" if admission.for_ever else empty), "; ".join(admission.refusals)
    return empty, why


def _shown(group: PodGroup, resources: frozenset[str]) -> PodGroup:
    """The group without what no node shows: for whatever hands that out, it may well be placed."""
    pod = group.incoming.pod
    if pod.requests.keys() <= resources:
        return group
    known = {name: amount for name, amount in pod.requests.items() if name in resources}
    return group._replace(incoming=replace(group.incoming, pod=replace(pod, requests=known)))


def _is_settled(demand: Demand, worlds: _Worlds, outcomes: list[Placements]) -> bool:
    """Whether what comes of a job without the pods that are somewhere else comes of it with them, too."""
    if not worlds.elsewhere:
        return True
    ends = [end for outcome in outcomes for end in outcome.states]
    if any(end.evicted for end in ends) or any(not group.is_independent for group, _ in demand.groups):
        return False
    if any(_answer(end, demand) is None for end in ends):
        return True
    return len(demand.groups) == 1 and all(
        has_room_in_any_case(state, *demand.groups[0], worlds.elsewhere) for state in worlds.states
    )


def _answer(end: State, demand: Demand) -> Verdict | None:
    if sum(end.placed.values()) < demand.pods:
        return None
    if not end.evicted:
        return "fits"
    return "fits-when-empty" if all(pod.deleting for pod in end.evicted) else "preempts"


def _when_empty(cluster: Cluster, demand: Demand) -> tuple[Verdict, str]:
    """Whether a job fits when only those pods run that every node has (DaemonSets, static pods)."""
    seats = [Seat(seat.node, tuple(pod for pod in seat.pods if pod.stays)) for seat in cluster.seats]
    outcome = settle(initial(seats, cluster.names_hosts), demand.groups, (), final=True)
    placed = {sum(end.placed.values()) for end in outcome.states}
    if len(placed) > 1 or not (outcome.exhaustive or outcome.confluent):
        return "unknown", "even in the empty cluster it depends on which nodes the scheduler takes first"
    number = placed.pop()
    if number == demand.pods:
        return "fits-when-empty", ""
    if number:
        return "never", f"even the empty cluster has room for {number} of {demand.pods} pods only"
    return "never", exclusions(demand.groups[0][0].incoming, seats)


def _with_victims(
    reason: str, victims: list[Victim], verdict: Verdict, starts: int, pods: int, *, certain: bool
) -> str:
    parts = [reason] if reason else []
    if verdict != "preempts":
        parts.append(f"{starts} of {pods} pods would still start, and evict others")
    if not certain:
        parts.append("the scheduler may evict others of the same rank instead")
    return "; ".join(parts)


def _victims(worlds: _Worlds, end: State) -> list[Victim]:
    places = {id(pod): seat.node.name for state in worlds.states for seat in state.seats for pod in seat.pods}
    return [Victim(pod, places[id(pod)]) for pod in end.evicted if not pod.deleting]


def _afterwards(admission: _Admission, worlds: _Worlds, outcomes: list[Placements]) -> _Worlds:
    """What the next job may find."""
    ends = [end for outcome in outcomes for end in outcome.states]
    plain = all(group.is_independent for group, _ in admission.groups) and not any(end.evicted for end in ends)
    came = (*worlds.came, *admission.groups)
    before = worlds.before if plain else None
    if not worlds.elsewhere and all(outcome.exhaustive for outcome in outcomes) and len(ends) <= LIMIT:
        return _Worlds(ends, before=before, came=came)
    if not plain:
        return _Worlds([])
    return worlds._replace(elsewhere=(*worlds.elsewhere, *admission.groups), before=before, came=came)
