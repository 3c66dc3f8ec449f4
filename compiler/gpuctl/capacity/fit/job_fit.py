"""Judge whether the scheduler would place the pods of jobs in a cluster snapshot, and if not, why.

Jobs that cannot influence each other are judged separately. For the others an answer is certain if it is the same in
every order and for every choice of the scheduler; otherwise it holds for the jobs created one after another.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import replace

from gpuctl.capacity.fit.component_input import ComponentInput, without_unreported
from gpuctl.capacity.fit.components import Component, components
from gpuctl.capacity.fit.earliest_start import with_earliest_start
from gpuctl.capacity.fit.elastic_fit import fit_elastic
from gpuctl.capacity.fit.exhaustive_search import (
    DEPENDS,
    answer_without_placement,
    judge_component,
    verdict_without_room,
)
from gpuctl.capacity.fit.fit_with_queues import fit_queued_jobs, without_pods
from gpuctl.capacity.fit.independent_pods import needs_single_pod, with_independent_pods
from gpuctl.capacity.fit.shortage import eligible_nodes
from gpuctl.capacity.fit.verdicts import STARTS, VERDICTS, Fit, Verdict, Victim, agreeing_answers, with_remarks
from gpuctl.capacity.kueue.job_queues import queue_name
from gpuctl.capacity.kueue.queue_admission import admit_queued_jobs
from gpuctl.capacity.kueue.queue_messages import QueueWait
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand, model_demands
from gpuctl.capacity.pods.job_pods import FailureDomain
from gpuctl.capacity.pods.quota_admission import QuotaAdmission, quota_admissions
from gpuctl.capacity.pods.unbound_claims import model_unbound_claims
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo, PlacedPod
from gpuctl.capacity.scheduler.suitable_nodes import SuitableNodes
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import QUEUE_LABEL, Key, Object, key_of, labels_of

__all__ = ["VERDICTS", "Fit", "Verdict", "Victim", "fit"]


def fit(
    snapshot: Snapshot, objects: Sequence[Object], in_turn: Container[Key] = (), with_running_pods: Container[Key] = ()
) -> list[Fit]:
    """Judge the workloads among ``objects`` (lowered, with namespaces), the most important first.

    :param in_turn: workloads that are created one after another where they compete, as ``apply`` does. For others the
        order is unknown.
    :param with_running_pods: workloads whose new pods start while their old ones still run. The old pods of other
        workloads end first.
    """
    return fit_elastic(objects, lambda given: _fit_fixed(snapshot, given, in_turn, with_running_pods))


def _fit_fixed(
    snapshot: Snapshot, objects: Sequence[Object], in_turn: Container[Key], with_running_pods: Container[Key]
) -> list[Fit]:
    """Judge workloads as if the numbers of nodes of elastic trainings were fixed."""
    cluster, demands = model_demands(snapshot, objects, in_turn, with_running_pods)
    admission_of_queues = admit_queued_jobs(snapshot, demands, objects)

    def placed(cluster: ClusterModel, demands: Sequence[Demand], withheld: Mapping[int, QueueWait]) -> list[Fit]:
        return _placed(cluster, demands, withheld, snapshot)

    answers = (
        placed(cluster, demands, {})
        if admission_of_queues is None
        else fit_queued_jobs(cluster, demands, admission_of_queues, placed)
    )
    answers = [_with_missing_kueue(one, snapshot, objects) for one in _with_ending_pods(answers, cluster)]
    # For jobs in queues Kueue decides when they start.
    in_queues = {key_of(obj) for obj in objects if queue_name(obj, snapshot) or QUEUE_LABEL in labels_of(obj)}
    answers = [replace(one, opening=None) if one.demand.key in in_queues else one for one in answers]
    # Kueue admits all pods of a job together.
    single = {one.demand.key for one in answers if needs_single_pod(one) and one.demand.key not in in_queues}
    if not single:
        return [with_independent_pods(one) for one in answers]
    fewer = [_with_one_pod(obj) if key_of(obj) in single else obj for obj in objects]
    smaller = {one.demand.key: one for one in _fit_fixed(snapshot, fewer, in_turn, with_running_pods)}
    return [with_independent_pods(one, smaller.get(one.demand.key)) for one in answers]


def _with_one_pod(job: Object) -> Object:
    return {**job, "spec": {**job["spec"], "parallelism": 1}}


def _with_missing_kueue(answer: Fit, snapshot: Snapshot, objects: Sequence[Object]) -> Fit:
    """Add a remark if a job names a queue and Kueue is not installed."""
    if snapshot.kueue is not None:
        return answer
    names = (labels_of(obj).get(QUEUE_LABEL) for obj in objects if key_of(obj) == answer.demand.key)
    queue = next(filter(None, names), None)
    if queue is None:
        return answer
    remark = say(
        "Kueue is not installed: queue {queue} has no effect, and the pods are not started together", queue=queue
    )
    return answer.with_clauses(remark)


def _with_ending_pods(answers: list[Fit], cluster: ClusterModel) -> list[Fit]:
    """Add the pods that end together with evicted ones to the victims; each pod is listed once."""
    jobs = cluster.recreated.jobs
    lost = jobs.lost_with(victim.pod for answer in answers for victim in answer.victims)
    if not lost.all:
        return answers
    nodes = {pod: node_info.node.name for node_info in cluster.node_infos for pod in node_info.pods}
    missing: dict[FailureDomain | None, list[PlacedPod]] = {}
    for pod in lost.all:
        missing.setdefault(jobs.domain_of(pod), []).append(pod)
    result = []
    for answer in answers:
        more = [
            Victim(other, nodes[other])
            for victim in answer.victims
            for other in missing.pop(jobs.domain_of(victim.pod), ())
        ]
        result.append(replace(answer, victims=[*answer.victims, *more]))
    return result


def _placed(
    cluster: ClusterModel, demands: Sequence[Demand], withheld: Mapping[int, QueueWait], snapshot: Snapshot
) -> list[Fit]:
    """Return the answers for jobs. No pods are created for ``withheld`` ones (number -> reason)."""
    owned = [pod for demand in demands for pod in demand.owned]
    cluster = cluster._replace(node_infos=[node_info.without(owned) for node_info in cluster.node_infos])
    least = model_unbound_claims(cluster, demands, snapshot)
    answers = [with_remarks(answer) for answer in _answers(least.cluster, least.demands, withheld, snapshot.taken_at)]
    if least.drivers:
        most = model_unbound_claims(cluster, demands, snapshot, node_local=False)
        others = _answers(most.cluster, most.demands, withheld, snapshot.taken_at)
        answers = agreeing_answers(answers, others, least.drivers)
    return answers


def _answers(
    cluster: ClusterModel, demands: Sequence[Demand], withheld: Mapping[int, QueueWait], now: str
) -> list[Fit]:
    charged = [without_pods(demand) if number in withheld else demand for number, demand in enumerate(demands)]
    quotas = quota_admissions(cluster.quotas, charged)
    asking = [
        [without_unreported(group, cluster.reported_resources) for group, _ in demand.groups] for demand in charged
    ]
    nodes = SuitableNodes(cluster.node_infos)
    result: dict[int, Fit] = {}
    awaited = {index for pod in cluster.waiting for index in nodes.open_to(pod)}
    for part in components(cluster, asking, nodes):
        first = part.demands[0]
        if first in withheld:
            result[first] = _answer_without_pods(cluster, demands, quotas, first, nodes, withheld[first])
            continue
        component = _component(cluster, demands, quotas, part, nodes)
        answers = judge_component(component)
        if awaited.isdisjoint(part.node_numbers):
            answers = with_earliest_start(component, answers, now)
        result.update(zip(part.demands, (replace(answer, component=first) for answer in answers), strict=True))
    answers = [result[position] for position in range(len(demands))]
    losing = {victim.pod.namespace for answer in answers for victim in answer.victims}
    answers = [_with_contested_quota(answer, quotas[number], losing) for number, answer in enumerate(answers)]
    return [
        _with_uncounted_devices(answer, quotas[number], cluster.node_infos, is_withheld=number in withheld)
        for number, answer in enumerate(_with_unknown_rivals(answers, cluster.node_infos))
    ]


def _with_unknown_rivals(answers: Sequence[Fit], node_infos: Sequence[NodeInfo]) -> list[Fit]:
    """Mark the answers of jobs that request devices as uncertain if it is unknown which devices another job takes."""
    loose = [answer for answer in answers if answer.demand.device_doubts]
    if not loose:
        return list(answers)
    devices = frozenset().union(*(node_info.node.devices for node_info in node_infos))
    return [
        replace(answer.with_clauses(say(DEPENDS)), certain=False, depends=True)
        if answer.certain
        and answer.verdict in STARTS
        and any(other is not answer for other in loose)
        and any(not devices.isdisjoint(group.incoming.pod.requests) for group, _ in answer.demand.groups)
        else answer
        for answer in answers
    ]


def _with_uncounted_devices(
    answer: Fit, admission: QuotaAdmission, node_infos: Sequence[NodeInfo], *, is_withheld: bool
) -> Fit:
    """Return "unknown" instead of an answer that rests on a lack of devices that gpuctl does not count, or on selectors
    of devices that may fail.
    """
    reason = clauses(*answer.demand.device_doubts)
    if answer.verdict in STARTS and (failing := _failing_selector(answer.demand, node_infos)):
        return answer.as_unknown(failing)
    if not reason or answer.demand.refusals or answer.verdict in ("fits", "unknown"):
        return answer
    if answer.verdict == "never" and _lacks_more_than_devices(answer.demand, node_infos):
        return answer
    if answer.verdict == "preempts":
        # The user is asked: pods are evicted unless uncounted devices have room.
        return replace(answer.with_clauses(reason), certain=False)
    waits_anyway = bool(admission.refusals) or is_withheld
    if admission.is_permanent or (answer.verdict == "fits-when-empty" and waits_anyway):
        return answer
    return answer.as_unknown(reason)


def _failing_selector(demand: Demand, node_infos: Sequence[NodeInfo]) -> str:
    """Return why a selector of devices may fail on a node that is open to a job's pods, "" if none does."""
    if not demand.unmatched:
        return ""
    names = {item.node.name for group, _ in demand.groups for item in eligible_nodes(group.incoming, node_infos)}
    return next((why for node, why in demand.unmatched.items() if not node or node in names), "")


def _lacks_more_than_devices(demand: Demand, node_infos: Sequence[NodeInfo]) -> bool:
    """Return True if no node takes a pod of the job even with unlimited devices: because of labels, taints, cpu or
    memory.
    """

    def is_possible(incoming: IncomingPod, node_info: NodeInfo) -> bool:
        own = ((name, amount) for name, amount in incoming.pod.requests.items() if "/" not in name)
        return all(node_info.node.allocatable.get(name, 0) >= amount for name, amount in own)

    return any(
        number
        and not any(is_possible(group.incoming, node_info) for node_info in eligible_nodes(group.incoming, node_infos))
        for group, number in demand.groups
    )


def _with_contested_quota(answer: Fit, admission: QuotaAdmission, losing: Set[str]) -> Fit:
    """Mark an answer as uncertain if evictions in its namespace may free the quota that refuses it.

    Either the job or the recreated pods may then get the freed quota.
    """
    refused = admission.shortfalls and not admission.is_permanent
    if not (answer.certain and refused and answer.demand.namespace in losing):
        return answer
    return replace(answer.with_clauses(say("evictions in its namespace may free the quota")), certain=False)


def _answer_without_pods(
    cluster: ClusterModel,
    demands: Sequence[Demand],
    quotas: Sequence[QuotaAdmission],
    number: int,
    nodes: SuitableNodes,
    wait: QueueWait,
) -> Fit:
    """Return the answer for a job whose pods are not created now: whether they would fit after other work has ended."""
    demand = demands[number]
    node_infos = sorted({index for group, _ in demand.groups for index in nodes.open_to(group.incoming)})
    component = _component(cluster, demands, quotas, Component([number], node_infos, []), nodes)
    plain = answer_without_placement(component, demand)
    if plain is not None:
        return plain
    found = component.balance_before(demand)
    empty, why = verdict_without_room(component, demand, QuotaAdmission([], [], False, []), found, 0)
    if empty == "never":
        return Fit(demand, "never", clauses(why, wait.message), 0, [], True, found, None)
    return Fit(demand, "fits-when-empty", wait.message, 0, [], True, found, None, queue_wait=wait.place)


def _component(
    cluster: ClusterModel,
    demands: Sequence[Demand],
    quotas: Sequence[QuotaAdmission],
    part: Component,
    nodes: SuitableNodes,
) -> ComponentInput:
    node_infos = [cluster.node_infos[index] for index in part.node_numbers]
    places = {index: place for place, index in enumerate(part.node_numbers)}
    nominated = [(places[index], pod) for index, pod in cluster.nominated if index in places]
    waiting = [cluster.waiting[number] for number in part.waiting]
    own = cluster._replace(node_infos=node_infos, nominated=nominated, waiting=waiting)
    mine = [demands[position] for position in part.demands]
    selectable_nodes = set(part.node_numbers)
    for demand in mine:
        selectable_nodes.update(*(nodes.selected_by(group.incoming) for group, _ in demand.groups))
    return ComponentInput(
        own,
        mine,
        [quotas[position] for position in part.demands],
        [cluster.node_infos[index] for index in sorted(selectable_nodes)],
        cluster.node_infos,
    )
