"""Answers for jobs of which some wait in Kueue queues: first admission, then placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gpuctl.capacity.fit.exhaustive_search import DEPENDS
from gpuctl.capacity.fit.verdicts import STARTS, Fit, Verdict, Victim
from gpuctl.capacity.kueue.admission_cycles import AdmissionRun
from gpuctl.capacity.kueue.kueue_configuration import ASSUMED_DEFAULTS, CONFIGURATION
from gpuctl.capacity.kueue.queue_admission import QueueAdmission, QueuedJobStatus
from gpuctl.capacity.kueue.queue_messages import QueueWait, flavor_headroom, queue_wait
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.scheduler_model import PlacedPod
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import prefixed
from gpuctl.objects.role_jobs import JOBSET_LABEL

PlacementJudge = Callable[[ClusterModel, Sequence[Demand], Mapping[int, QueueWait]], list[Fit]]
"""Judges the placement of pods. Jobs whose numbers are keys of the mapping create no pods, for the reason given."""


def fit_queued_jobs(
    cluster: ClusterModel, demands: Sequence[Demand], admission: QueueAdmission, placed: PlacementJudge
) -> list[Fit]:
    """Return the answers in the order of the demands."""
    withheld: dict[int, QueueWait] = {}
    mine = list(demands)
    for number, status in admission.statuses.items():
        mine[number], reason = _as_admitted(demands[number], status, admission)
        if reason is not None:
            withheld[number] = reason
    runs = [found.run for found in admission.outcomes.values()]
    lost = [admission.workloads[key] for run in runs for key in run.preempted if key in admission.workloads]
    answers = placed(_without(cluster, lost), mine, withheld)
    told = [_as_queued(cluster, admission, *item) for item in enumerate(answers)]
    if admission.configuration.blocks_admission:
        told = _with_blocked_admission(admission, told)
    in_turn = all(demands[number].in_turn for number in admission.statuses)
    holds_in_every_order = all(found.holds_in_every_order for found in admission.outcomes.values())
    return [
        _ordered(
            replace(answer, demand=demand),
            holds_in_every_order=holds_in_every_order or _is_settled(number, admission),
            in_turn=in_turn,
        )
        for number, (demand, answer) in enumerate(zip(demands, told, strict=True))
    ]


def _ordered(answer: Fit, *, holds_in_every_order: bool, in_turn: bool) -> Fit:
    """Return the answer with a remark if it depends on the order of jobs in their queues."""
    if answer.verdict == "unknown" or holds_in_every_order or not answer.certain:
        return replace(answer, certain=answer.certain and answer.verdict != "unknown")
    if in_turn:
        return replace(answer, certain=False)
    return replace(answer.with_clauses(say(DEPENDS)), certain=False, depends=True)


def assumed_defaults(snapshot: Snapshot, answers: Iterable[Fit]) -> list[str]:
    """Return the assumptions behind the answers for queued jobs, as sentences."""
    known = snapshot.kueue is None or CONFIGURATION in snapshot.kueue
    return [] if known or all(answer.admitted is None for answer in answers) else [say(ASSUMED_DEFAULTS)]


def without_pods(demand: Demand) -> Demand:
    """Return the demand of a job that is created without its pods."""
    return demand._replace(groups=[], usages=demand.usages[:1])


def _run_of(status: QueuedJobStatus, admission: QueueAdmission) -> AdmissionRun | None:
    return None if status.job is None else admission.outcomes[admission.state.roots[status.job.queue]].run


def _as_admitted(demand: Demand, status: QueuedJobStatus, admission: QueueAdmission) -> tuple[Demand, QueueWait | None]:
    """Return a job as the scheduler gets it, and why it gets no pods now; None if it gets them."""
    if status.unknown_reason:
        return demand._replace(unknown_reasons=[*demand.unknown_reasons, status.unknown_reason]), None
    run = _run_of(status, admission)
    if status.refusal or run is None or status.job is None:
        refused = QueueWait(status.refusal, "") if status.refusal else None
        return demand._replace(refusals=[*demand.refusals, status.refusal]), refused
    if not run.is_admitted(status.job.number):
        rules, node = admission.state.rules[status.job.queue], run.nodes[status.job.queue]
        return demand, queue_wait(status.path, flavor_headroom(status.job, rules, node), run.jobs_ahead_of(status.job))
    flavors = run.admitted[status.job.number]
    groups = [
        (_with_flavors(group, [admission.flavors[name] for name in dict.fromkeys(given.values())]), count)
        for (group, count), given in zip(demand.groups, flavors, strict=True)
    ]
    later = [status.unknown_after_admission] if status.unknown_after_admission else []
    return demand._replace(groups=groups, unknown_reasons=[*demand.unknown_reasons, *later]), None


def _with_flavors(group: PodGroup, flavors: Iterable[Object]) -> PodGroup:
    """Return the pods with what their flavors add. Source: Kueue's ``pkg/podset/podset.go``, FromAssignment, Merge."""
    incoming = group.incoming
    labels, tolerations = dict(incoming.node_selector), list(incoming.tolerations)
    for flavor in flavors:
        labels.update(flavor.get("labels") or {})
        tolerations += flavor.get("tolerations") or ()
    return group._replace(incoming=replace(incoming, node_selector=labels, tolerations=tolerations))


def _without(cluster: ClusterModel, lost: Sequence[Object]) -> ClusterModel:
    """Return the cluster without the pods of jobs that Kueue preempts."""
    if not lost:
        return cluster
    gone = [pod for node_info in cluster.node_infos for pod in node_info.pods if _is_of(pod, lost)]
    return cluster._replace(
        node_infos=[node_info.without(gone) for node_info in cluster.node_infos],
        nominated=[item for item in cluster.nominated if not _is_of(item[1], lost)],
        waiting=[item for item in cluster.waiting if not _is_of(item.pod, lost)],
    )


def _is_of(pod: PlacedPod, workloads: Iterable[Object]) -> bool:
    for item in workloads:
        owner = item.get("owner") or {}
        if pod.namespace != item["namespace"] or not owner:
            continue
        # A pod of a Deployment has a Workload of its own.
        names = {"JobSet": pod.labels.get(JOBSET_LABEL), "Pod": pod.name}
        if pod.owner == prefixed(f"{owner['kind']}/", owner["name"]) or names.get(owner["kind"]) == owner["name"]:
            return True
    return False


def _as_queued(cluster: ClusterModel, admission: QueueAdmission, number: int, answer: Fit) -> Fit:
    """Return the answer for a job with the decision of its queue."""
    status = admission.statuses.get(number)
    run = None if status is None else _run_of(status, admission)
    if status is None or status.unknown_reason:
        return answer
    if run is None:
        return replace(answer, admitted=False)
    lost = [admission.workloads[other] for other in run.preempted_by(number) if other in admission.workloads]
    stops = say("preempts {jobs:job} for it", jobs=len(lost))
    taken = [
        Victim(pod, node_info.node.name)
        for node_info in cluster.node_infos
        for pod in node_info.pods
        if _is_of(pod, lost)
    ]
    if not run.is_admitted(number):
        said = say("Kueue {stops}, but other jobs get that quota", stops=stops) if lost else ""
        return replace(answer.with_clauses(said), admitted=False, victims=taken)
    answer = replace(answer, admitted=True)
    if answer.verdict == "unknown":
        return answer
    names = list(dict.fromkeys(name for given in run.admitted[number] for name in given.values()))
    given = say(" with flavor {flavors}", flavors=names) if names else ""
    preempts = say(" and {stops}", stops=stops) if lost else ""
    said = say("{queue} admits it{flavors}{preempts}", queue=status.path, flavors=given, preempts=preempts)
    verdict: Verdict = "preempts" if lost and answer.verdict == "fits" else answer.verdict
    reason = clauses(said, answer.reason)
    return replace(answer, verdict=verdict, reason=reason, victims=[*taken, *answer.victims])


def _with_blocked_admission(admission: QueueAdmission, answers: Sequence[Fit]) -> list[Fit]:
    """Return the answers if Kueue admits no job while pods of admitted jobs are not ready.

    It is unknown how jobs without room end, and so when Kueue admits the next ones.
    """
    runs = {number: _run_of(status, admission) for number, status in admission.statuses.items()}
    admitted = {number for number, run in runs.items() if run is not None and run.is_admitted(number)}
    stuck = {number for number in admitted if answers[number].verdict not in STARTS} | admission.unready
    result = list(answers)
    for number in admitted:
        before = len(stuck - {number})
        if before:
            reason = say(
                "Kueue first waits until the pods of {jobs:admitted job} are ready (waitForPodsReady.blockAdmission)",
                jobs=before,
            )
            result[number] = replace(answers[number], verdict="unknown", reason=reason, admitted=None)
    return result


def _is_settled(number: int, admission: QueueAdmission) -> bool:
    """Return True if it is known in every order that a queued job has to wait or is never admitted."""
    status = admission.statuses.get(number)
    if status is None or status.unknown_reason:
        return False
    if status.job is None:
        return True
    found = admission.outcomes[admission.state.roots[status.job.queue]]
    if found.decided.get(number) is False:
        return True
    return found.holds_in_every_order and not found.run.is_admitted(number)
