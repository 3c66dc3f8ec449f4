"""Verdicts for the jobs of one component: certain if no order or choice changes them, else for one order.

A job that is alone in its component is followed through every choice of the scheduler. Of several jobs, those that fit
in every case are proven; the others are placed one after another, as ``apply`` creates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuctl.capacity.fit.component_input import ComponentInput
from gpuctl.capacity.fit.room_proofs import RoomProofs
from gpuctl.capacity.fit.shortage import ResourceBalance, describe_exclusions, describe_port_shortage, describe_shortage
from gpuctl.capacity.fit.simulation import SchedulerRun
from gpuctl.capacity.fit.smallest_change import smallest_change
from gpuctl.capacity.fit.unready_nodes import describe_unready, unready_nodes, when_ready
from gpuctl.capacity.fit.verdicts import STARTS, Fit, Verdict, Victim
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.pods.job_pods import EvictionLoss
from gpuctl.capacity.pods.quota_admission import QuotaAdmission
from gpuctl.capacity.scheduler.cluster_state import ClusterState, Placements, initial_state
from gpuctl.capacity.scheduler.placement import place_pods
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo, PlacedPod
from gpuctl.capacity.scheduler.scheduling import NO_NEIGHBOURS, has_node_for, node_rules, nodes_that_pass
from gpuctl.language.sentences import Template, clauses, say

_FOLLOWED = 4096
"""Largest product of nodes and pods of a component whose choices are all followed; larger ones exceed the limit anyway.
"""
FEW_JOBS = 4
"""Components with at most this many jobs are examined more closely, on any number of nodes."""
DEPENDS = Template("depends on order")
"""Remark on verdicts that another order of pods, or another choice of the scheduler, might change."""
_OF_THE_SAME_RANK = Template("the scheduler may evict other pods of equal importance instead")
_OTHERS = Template("other pods may be evicted instead, depending on the chosen node and the order of pods")
_MAY_END = Template("other pods may end with the evicted ones: whether their jobs survive is unknown")
_COME_AGAIN = Template("evicted pods may be recreated and evict others in turn")


def judge_component(component: ComponentInput) -> list[Fit]:
    """Return the answers in the order of the jobs: for every choice if possible, else for the jobs in their order."""
    proofs = RoomProofs(component)
    rivals = [admission for admission in component.admissions if admission.pods]
    size = sum(demand.pods for demand in component.demands) * len(component.cluster.node_infos)
    follows = size <= _FOLLOWED or len(component.demands) <= FEW_JOBS
    # With several jobs the scheduler takes the most important first only if all of their pods are pending.
    is_alone = len(rivals) < 2 and not component.has_room_for_pending
    if follows and is_alone and all(admission.settled for admission in component.admissions):
        found = [
            answer_without_placement(component, demand) or _answer_by_every_choice(component, demand, admission)
            for demand, admission in zip(component.demands, component.admissions, strict=True)
        ]
    else:
        found = [
            answer_without_placement(component, demand) or _proven_answer(component, proofs, position)
            for position, demand in enumerate(component.demands)
        ]
    if None not in found:
        return [answer for answer in found if answer is not None]
    run = _run_in_order(component)
    # If the order is known, only the choice among equal nodes is open.
    other = _run_in_order(component, last=True) if all(demand.in_turn for demand in component.demands) else None
    return [answer or _answer_in_order(component, run, other, position) for position, answer in enumerate(found)]


def _run_in_order(component: ComponentInput, *, last: bool = False) -> SchedulerRun:
    """Create the jobs in their order; jobs with a refusal or an unknown reason create no pods."""
    run = SchedulerRun(
        component.cluster, [group for groups in component.reported_groups for group, _ in groups], last=last
    )
    for position, (demand, admission) in enumerate(zip(component.demands, component.admissions, strict=True)):
        if not (demand.unknown_reasons or demand.refusals):
            run.add_job(position, admission.groups)
    run.recreate_evicted()
    return run


def _verdict_in(run: SchedulerRun, position: int, demand: Demand) -> Verdict | None:
    return verdict_of_placement(run.bound[position], (pod for pod, _ in run.evicted.get(position, ())), demand)


def _answer_in_order(component: ComponentInput, run: SchedulerRun, other: SchedulerRun | None, position: int) -> Fit:
    """Return the answer for a job when jobs are created in their order.

    :param other: the same order with another choice among equal nodes, if the order is known.
    """
    demand, admission = component.demands[position], component.admissions[position]
    starts, evicted = run.bound[position], run.evicted.get(position, [])
    chosen = _verdict_in(run, position, demand)
    free = list(component.start_state(demand.priority).node_infos)
    found = component.balance_before(demand)
    if chosen not in STARTS and run.has_pods_of(position):
        free = run.nodes_without(position)
        found = component.balance(demand, free)
    verdict: Verdict
    if chosen is None:
        verdict, reason = verdict_without_room(component, demand, admission, found, starts)
    else:
        verdict, reason = chosen, say("it waits for pods that are terminating") if chosen == "fits-when-empty" else ""
        starts = 0 if chosen == "fits-when-empty" else starts
    victims = [Victim(pod, component.cluster.node_infos[place].node.name) for pod, place in evicted if not pod.deleting]
    if victims:
        reason = with_victims(reason, verdict, starts, demand.pods, "")
    depends = other is None or _verdict_in(other, position, demand) != chosen
    pending = say("pending pods may be placed first") if component.has_room_for_pending else ""
    reason = clauses(reason, pending, say(DEPENDS) if depends else "")
    change = None
    if verdict not in ("fits", "unknown") and len(component.demands) <= FEW_JOBS:
        change = smallest_change_for(component, demand, admission, free, found)
    return Fit(demand, verdict, reason, starts, victims, False, found, change, depends=depends)


def _proven_answer(component: ComponentInput, proofs: RoomProofs, position: int) -> Fit | None:
    """Return the answer for a job if it is the same wherever the other jobs of its component are placed."""
    demand, admission = component.demands[position], component.admissions[position]
    if proofs.proves_fit(position):
        return Fit(demand, "fits", "", demand.pods, [], True, component.balance_before(demand), None)
    if proofs.proves_no_room(position) or (admission.settled and not admission.pods):
        found = component.balance_before(demand)
        verdict, reason = verdict_without_room(component, demand, admission, found, 0)
        return None if verdict == "unknown" else Fit(demand, verdict, reason, 0, [], True, found, None)
    return None


def answer_without_placement(component: ComponentInput, demand: Demand) -> Fit | None:
    """Return the answer for a job if the nodes do not matter."""
    verdict: Verdict = "never" if demand.refusals else "unknown" if demand.unknown_reasons else "fits"
    if verdict == "fits" and demand.pods:
        return None
    reason = clauses(*(demand.refusals or demand.unknown_reasons)) or say("it runs no pods now")
    return Fit(demand, verdict, reason, 0, [], verdict != "unknown", component.balance_before(demand), None)


def _is_contested(cluster: ClusterModel, demand: Demand, outcome: Placements) -> bool:
    """Return True if a pending pod may take the room that a job frees by evicting.

    The room is reserved, but not against more important pods. Source: ``framework/runtime/framework.go``,
    addGENominatedPods.
    """
    rivals = [rival for rival in cluster.waiting if rival.pod.priority > demand.priority]
    own = [group.incoming.pod for group, _ in demand.groups]
    if rivals and not outcome.exhaustive:
        return True
    return any(
        has_node_for(rival, [node_info.without(own) for node_info in state.node_infos])
        for state in outcome.states
        for rival in rivals
    )


def _answer_by_every_choice(component: ComponentInput, demand: Demand, admission: QuotaAdmission) -> Fit | None:
    """Return the answer for a job that is alone in its component."""
    cluster, start = component.cluster, component.start_state(demand.priority)
    outcome = place_pods(start, admission.groups, cluster.budgets)
    if any(end.evicted for end in outcome.states) and _is_contested(cluster, demand, outcome):
        return None
    found = component.balance(demand, list(start.node_infos))
    ends = outcome.states
    starts = min(sum(end.placed.values()) for end in ends)
    # Pods that are terminating leave at an unknown time.
    leaves = any(pod.deleting for end in ends for pod in end.evicted)
    certain = _is_certain(component, outcome) and not (
        leaves or _may_evict_in_turn(component, ends) or _makes_more_room(component, ends)
    )
    victims = victims_of(start, ends[0])
    answers = {verdict_of_placement(sum(end.placed.values()), end.evicted, demand) for end in ends}
    if len(answers) > 1 or not (outcome.exhaustive or outcome.is_uniform):
        return None
    verdict = answers.pop()
    reason = say("it waits for pods that are terminating") if verdict == "fits-when-empty" else ""
    if verdict is None:
        verdict, reason = verdict_without_room(component, demand, admission, found, starts)
    if verdict == "fits-when-empty" and leaves:
        starts = 0
    if verdict == "unknown":
        return None
    if victims:
        reason = with_victims(reason, verdict, starts, demand.pods, "" if certain else _why_others(component, ends))
    change = (
        None if verdict == "fits" else smallest_change_for(component, demand, admission, list(start.node_infos), found)
    )
    return Fit(demand, verdict, reason, starts, victims, certain, found, change)


def _why_others(component: ComponentInput, ends: Sequence[ClusterState]) -> str:
    """Return why other pods than the listed ones may be evicted."""
    if _may_evict_in_turn(component, ends):
        return say(_COME_AGAIN)
    if any(_lost_with(component, end).may_end for end in ends):
        return say(_MAY_END)
    return others_instead(_lost(component, end) for end in ends)


def _lost_with(component: ComponentInput, end: ClusterState) -> EvictionLoss:
    return component.cluster.recreated.jobs.lost_with(end.evicted)


def _lost(component: ComponentInput, end: ClusterState) -> frozenset[PlacedPod]:
    """Return the evicted pods and all that end, or may end, with them."""
    return frozenset(end.evicted).union(_lost_with(component, end).all)


def others_instead(choices: Iterable[Iterable[PlacedPod]]) -> str:
    """Return the remark that other pods may be evicted instead.

    :param choices: the evicted pods of each possible choice.
    """
    ranks = {tuple(sorted(pod.importance for pod in evicted)) for evicted in choices}
    return say(_OF_THE_SAME_RANK if len(ranks) == 1 else _OTHERS)


def _makes_more_room(component: ComponentInput, ends: Sequence[ClusterState]) -> bool:
    """Return True if pods end together with evicted ones, so that the next pod may fit where they were."""
    several = (_lost_with(component, end) for end in ends if sum(end.placed.values()) > 1)
    return any(lost.all or lost.frees_reserved_room for lost in several)


def _may_evict_in_turn(component: ComponentInput, ends: Sequence[ClusterState]) -> bool:
    """Return True if an evicted pod may be recreated and evict others in turn."""
    lost = ((end, _lost_with(component, end)) for end in ends)
    gone = (pod for end, others in lost for pod in {*end.evicted, *others.all} - others.not_recreated)
    recreated = [pod for pod in gone if pod in component.cluster.recreated]
    if not recreated:
        return False
    boldest = max(pod.priority for pod in recreated)
    return any(pod.priority < boldest for node_info in component.cluster.node_infos for pod in node_info.pods)


def _is_certain(component: ComponentInput, outcome: Placements) -> bool:
    """Return True if every choice starts the same number of pods and evicts the same pods."""
    alike = len({(_lost(component, end), sum(end.placed.values())) for end in outcome.states}) == 1
    known = all(end.certain and not _lost_with(component, end).may_end for end in outcome.states)
    return alike and outcome.exhaustive and known


def verdict_of_placement(placed: int, evicted: Iterable[PlacedPod], demand: Demand) -> Verdict | None:
    """Return the verdict for a number of placed pods and the evicted ones, or None if some pods have no room."""
    if placed < demand.pods:
        return None
    gone = list(evicted)
    if not gone:
        return "fits"
    return "fits-when-empty" if all(pod.deleting for pod in gone) else "preempts"


def verdict_without_room(
    component: ComponentInput, demand: Demand, admission: QuotaAdmission, found: ResourceBalance, starts: int
) -> tuple[Verdict, str]:
    """Return the verdict and reason of a job that does not fit now."""
    empty, why = _verdict_when_empty(component, demand)
    if empty == "never":
        # A full quota is not the reason: raising or freeing it would not help.
        return "never", clauses(why, *(admission.refusals if admission.is_permanent else ()))
    if admission.refusals:
        return ("never" if admission.is_permanent else empty), clauses(*admission.refusals)
    if empty == "fits-when-empty":
        node_infos = list(component.start_state(demand.priority).node_infos)
        why = why or describe_port_shortage(demand, starts, node_infos) or describe_shortage(demand, found, starts)
    return empty, why


def _verdict_when_empty(component: ComponentInput, demand: Demand) -> tuple[Verdict, str]:
    """Return whether a job fits if only pods that stay on their nodes run (DaemonSets, static pods), and why not."""
    number = place_pods(component.daemon_state, demand.groups, ()).number
    if number is None:
        return "unknown", say("even in an empty cluster it depends on which nodes the scheduler chooses first")
    if number == demand.pods:
        return "fits-when-empty", ""
    late = _once_ready(component, demand)
    if late:
        return "fits-when-empty", describe_unready(late)
    if number:
        why = say("even an empty cluster has room for only {number} of {pods} pods", number=number, pods=demand.pods)
        port = describe_port_shortage(demand, number, list(component.daemon_state.node_infos))
        return "never", clauses(why, port)
    empty = [node_info.when_empty() for node_info in component.all_nodes]
    return "never", describe_exclusions(demand.groups[0][0].incoming, empty)


def _once_ready(component: ComponentInput, demand: Demand) -> list[NodeInfo]:
    """Return the unready nodes that a job waits for: once they are ready, and without other work, it fits."""
    tainted = [
        node_info
        for node_info in unready_nodes(component.selectable_nodes)
        if _would_open(when_ready([NodeInfo(node_info.node)])[0], demand)
    ]
    if not tainted:
        return []
    node_infos = [node_info.when_empty() for node_info in when_ready(component.selectable_nodes)]
    outcome = place_pods(initial_state(node_infos, component.cluster.names_hosts), demand.groups, ())
    return tainted if outcome.number == demand.pods else []


def _would_open(node_info: NodeInfo, demand: Demand) -> bool:
    """Return True if an empty node passes the node rules for any of a job's pods."""
    rules = node_rules()
    return any(nodes_that_pass(rules, group.incoming, [node_info], NO_NEIGHBOURS) for group, _ in demand.groups)


def with_victims(reason: str, verdict: Verdict, starts: int, pods: int, others: str) -> str:
    """Append the effect on other pods to a reason.

    :param others: why other pods may be evicted instead; "" if that is impossible.
    """
    still = say("{starts} of {pods} pods would still start, and evict others", starts=starts, pods=pods)
    return clauses(reason, "" if verdict == "preempts" else still, others)


def victims_of(start: ClusterState, end: ClusterState) -> list[Victim]:
    """Return the evicted pods with their nodes, without those that are terminating anyway."""
    places = {id(pod): node_info.node.name for node_info in start.node_infos for pod in node_info.pods}
    return [Victim(pod, places[id(pod)]) for pod in end.evicted if not pod.deleting]


def smallest_change_for(
    component: ComponentInput,
    demand: Demand,
    admission: QuotaAdmission,
    node_infos: Sequence[NodeInfo],
    found: ResourceBalance,
) -> str | None:
    """Return the smallest change with which a job would fit on the current nodes and those that it selects."""
    here = {node_info.node.name: node_info for node_info in node_infos}
    every = [here.get(node_info.node.name, node_info) for node_info in component.selectable_nodes]
    state = initial_state(every, component.cluster.names_hosts)
    names_hosts = component.cluster.names_hosts
    change = smallest_change(state, demand, found, admission.shortfalls, names_hosts=names_hosts)
    return None if change is None else change.text
