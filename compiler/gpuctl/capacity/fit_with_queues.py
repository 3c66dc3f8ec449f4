"""The answers for jobs of which some wait in Kueue's queues first: admitted, then placed, or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gpuctl.capacity.admission_cycles import QueueRun
from gpuctl.capacity.cluster_model import Cluster
from gpuctl.capacity.demand import Demand
from gpuctl.capacity.exhaustive_search import DEPENDS
from gpuctl.capacity.kueue_configuration import ASSUMED, CONFIGURATION
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.queue_admission import QueueStage, Standing
from gpuctl.capacity.queue_messages import rooms, waits
from gpuctl.capacity.scheduler_model import PlacedPod
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.capacity.verdicts import STARTS, Fit, Verdict, Victim
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import prefixed

Placed = Callable[[Cluster, Sequence[Demand], Mapping[int, str]], list[Fit]]
"""Judges where pods go; no pod comes of the jobs whose numbers are among the keys, for the reasons given."""
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"


def queued(cluster: Cluster, demands: Sequence[Demand], stage: QueueStage, placed: Placed) -> list[Fit]:
    """The answers, in the order of the demands."""
    withheld: dict[int, str] = {}
    mine = list(demands)
    for number, standing in stage.standings.items():
        mine[number], reason = _as_admitted(demands[number], standing, stage)
        if reason:
            withheld[number] = reason
    runs = [found.run for found in stage.outcomes.values()]
    lost = [stage.workloads[key] for run in runs for key in run.preempted if key in stage.workloads]
    answers = placed(_without(cluster, lost), mine, withheld)
    told = [_as_queued(cluster, stage, *item) for item in enumerate(answers)]
    if stage.configuration.blocks:
        told = _after_pods(stage, told)
    in_turn = all(demands[number].in_turn for number in stage.standings)
    is_all = all(found.is_all for found in stage.outcomes.values())
    return [
        _ordered(replace(answer, demand=demand), is_all=is_all or _is_settled(number, stage), in_turn=in_turn)
        for number, (demand, answer) in enumerate(zip(demands, told, strict=True))
    ]


def _ordered(answer: Fit, *, is_all: bool, in_turn: bool) -> Fit:
    """The answer, with the remark that it depends on the order of jobs in their queues where it does."""
    if answer.verdict == "unknown" or is_all or not answer.certain:
        return replace(answer, certain=answer.certain and answer.verdict != "unknown")
    if in_turn:
        return replace(answer, certain=False)
    return replace(answer, certain=False, depends=True, reason="; ".join(filter(None, (answer.reason, DEPENDS))))


def assumed(snapshot: Snapshot, answers: Iterable[Fit]) -> list[str]:
    """What the answers for jobs in queues rest on that could not be seen, as sentences."""
    known = snapshot.kueue is None or CONFIGURATION in snapshot.kueue
    return [] if known or all(answer.admitted is None for answer in answers) else [ASSUMED]


def without_pods(demand: Demand) -> Demand:
    """A job that is created, and whose pods are not."""
    return demand._replace(groups=[], usages=demand.usages[:1])


def _run_of(standing: Standing, stage: QueueStage) -> QueueRun | None:
    return None if standing.job is None else stage.outcomes[stage.world.roots[standing.job.queue]].run


def _as_admitted(demand: Demand, standing: Standing, stage: QueueStage) -> tuple[Demand, str]:
    """A job as the scheduler gets it, and why it gets none of its pods."""
    if standing.doubt:
        return demand._replace(doubts=[*demand.doubts, standing.doubt]), ""
    run = _run_of(standing, stage)
    if standing.refusal or run is None or standing.job is None:
        return demand._replace(refusals=[*demand.refusals, standing.refusal]), standing.refusal
    if not run.is_admitted(standing.job.number):
        rules, node = stage.world.rules[standing.job.queue], run.nodes[standing.job.queue]
        return demand, waits(standing.spot, rooms(standing.job, rules, node), run.ahead(standing.job))
    flavors = run.admitted[standing.job.number]
    groups = [
        (_with_flavors(group, [stage.flavors[name] for name in dict.fromkeys(given.values())]), count)
        for (group, count), given in zip(demand.groups, flavors, strict=True)
    ]
    later = [standing.later_doubt] if standing.later_doubt else []
    return demand._replace(groups=groups, doubts=[*demand.doubts, *later]), ""


def _with_flavors(group: PodGroup, flavors: Iterable[Object]) -> PodGroup:
    """Pods with what their flavors add. Source: Kueue's ``pkg/podset/podset.go``, FromAssignment, Merge."""
    incoming = group.incoming
    labels, tolerations = dict(incoming.node_selector), list(incoming.tolerations)
    for flavor in flavors:
        labels.update(flavor.get("labels") or {})
        tolerations += flavor.get("tolerations") or ()
    return group._replace(incoming=replace(incoming, node_selector=labels, tolerations=tolerations))


def _without(cluster: Cluster, lost: Sequence[Object]) -> Cluster:
    """The cluster without the pods of jobs that Kueue stops."""
    if not lost:
        return cluster
    gone = [pod for seat in cluster.seats for pod in seat.pods if _is_of(pod, lost)]
    return cluster._replace(
        seats=[seat.without(gone) for seat in cluster.seats],
        nominated=[item for item in cluster.nominated if not _is_of(item[1], lost)],
        waiting=[item for item in cluster.waiting if not _is_of(item.pod, lost)],
    )


def _is_of(pod: PlacedPod, workloads: Iterable[Object]) -> bool:
    for item in workloads:
        owner = item.get("owner") or {}
        if pod.namespace != item["namespace"] or not owner:
            continue
        jobset = pod.labels.get(_JOBSET_LABEL)
        if pod.owner == prefixed(f"{owner['kind']}/", owner["name"]) or (
            owner["kind"] == "JobSet" and jobset == owner["name"]
        ):
            return True
    return False


def _as_queued(cluster: Cluster, stage: QueueStage, number: int, answer: Fit) -> Fit:
    """The answer for a job with what its queue has to do with it."""
    standing = stage.standings.get(number)
    run = None if standing is None else _run_of(standing, stage)
    if standing is None or standing.doubt:
        return answer
    if run is None:
        return replace(answer, admitted=False)
    lost = [stage.workloads[other] for other in run.lost_to(number) if other in stage.workloads]
    stops = f"stops {len(lost)} job{'s' if len(lost) > 1 else ''} for it"
    taken = [Victim(pod, seat.node.name) for seat in cluster.seats for pod in seat.pods if _is_of(pod, lost)]
    if not run.is_admitted(number):
        said = f"Kueue {stops}, and others get that quota" if lost else ""
        reason = "; ".join(part for part in (answer.reason, said) if part)
        return replace(answer, admitted=False, reason=reason, victims=taken)
    answer = replace(answer, admitted=True)
    if answer.verdict == "unknown":
        return answer
    names = ", ".join(dict.fromkeys(name for given in run.admitted[number] for name in given.values()))
    given = f" with flavor {names}" if names else ""
    said = f"{standing.spot} admits it{given}{f' and {stops}' if lost else ''}"
    verdict: Verdict = "preempts" if lost and answer.verdict == "fits" else answer.verdict
    reason = "; ".join(part for part in (said, answer.reason) if part)
    return replace(answer, verdict=verdict, reason=reason, victims=[*taken, *answer.victims])


def _after_pods(stage: QueueStage, answers: Sequence[Fit]) -> list[Fit]:
    """The answers where Kueue admits nobody while pods of those admitted before are not ready: what those become that
    have no room is not known."""
    runs = {number: _run_of(standing, stage) for number, standing in stage.standings.items()}
    admitted = {number for number, run in runs.items() if run is not None and run.is_admitted(number)}
    stuck = {number for number in admitted if answers[number].verdict not in STARTS} | stage.unready
    result = list(answers)
    for number in admitted:
        before = len(stuck - {number})
        if before:
            jobs = "1 job that has its quota" if before == 1 else f"{before} jobs that have their quota"
            reason = f"Kueue waits first for the pods of {jobs} (waitForPodsReady.blockAdmission)"
            result[number] = replace(answers[number], verdict="unknown", reason=reason, admitted=None)
    return result


def _is_settled(number: int, stage: QueueStage) -> bool:
    """Whether it is known of a job in a queue, whatever comes first, that it has to wait or is never admitted."""
    standing = stage.standings.get(number)
    if standing is None or standing.doubt:
        return False
    if standing.job is None:
        return True
    found = stage.outcomes[stage.world.roots[standing.job.queue]]
    if found.sure.get(number) is False:
        return True
    return found.is_all and not found.run.is_admitted(number)
