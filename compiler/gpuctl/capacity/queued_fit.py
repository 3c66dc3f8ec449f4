"""The answers for jobs of which some wait in Kueue's queues first: admitted, then placed, or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.queue_configuration import ASSUMED, CONFIGURATION
from gpuctl.capacity.queue_cycles import QueueRun
from gpuctl.capacity.queue_stage import QueueStage, Standing
from gpuctl.capacity.queue_words import rooms, waits
from gpuctl.capacity.seats import PlacedPod
from gpuctl.capacity.snapshot import Snapshot
from gpuctl.capacity.snapshot_cluster import Cluster
from gpuctl.capacity.verdicts import STARTS, Fit, Verdict, Victim
from gpuctl.objects.api_resources import Object

Placed = Callable[[Cluster, Sequence[Demand], Mapping[int, str]], list[Fit]]
"""Judges where pods go; no pod comes of the jobs whose numbers are among the keys, for the reasons given."""
_CASES = 6
"""Of so many outcomes of the queues it is looked where pods go: the most frequent."""
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"


class _Case(NamedTuple):
    """One outcome of all queues: a run for each of their roots, and the share of the runs that end like this."""

    runs: dict[str, QueueRun]
    share: float


def queued(cluster: Cluster, demands: Sequence[Demand], stage: QueueStage, placed: Placed) -> list[Fit]:
    """The answers, in the order of the demands."""
    cases, is_all = _cases(stage)
    told: list[tuple[_Case, list[Fit]]] = []
    for case in cases:
        withheld: dict[int, str] = {}
        mine = list(demands)
        for number, standing in stage.standings.items():
            mine[number], reason = _in_case(demands[number], standing, stage, case)
            if reason:
                withheld[number] = reason
        lost = [stage.workloads[key] for run in case.runs.values() for key in run.preempted if key in stage.workloads]
        answers = placed(_without(cluster, lost), mine, withheld)
        mixed = [_as_queued(cluster, stage, case, *item) for item in enumerate(answers)]
        told.append((case, _after_pods(stage, case, mixed) if stage.configuration.blocks else mixed))
    return [_merged(number, demands[number], told, stage, is_all=is_all) for number in range(len(demands))]


def assumed(snapshot: Snapshot, answers: Iterable[Fit]) -> list[str]:
    """What the answers for jobs in queues rest on that could not be seen, as sentences."""
    known = snapshot.kueue is None or CONFIGURATION in snapshot.kueue
    return [] if known or all(answer.admitted is None for answer in answers) else [ASSUMED]


def without_pods(demand: Demand) -> Demand:
    """A job that is created, and whose pods are not."""
    return demand._replace(groups=[], usages=demand.usages[:1])


def _cases(stage: QueueStage) -> tuple[list[_Case], bool]:
    """The most frequent outcomes, and whether there are no others."""
    number = max((len(item.runs) for item in stage.outcomes.values()), default=1)
    found: dict[object, dict[str, QueueRun]] = {}
    counts: Counter[object] = Counter()
    for index in range(number):
        runs = {root: item.runs[index % len(item.runs)] for root, item in stage.outcomes.items()}
        key = tuple(run.end for run in runs.values())
        found.setdefault(key, runs)
        counts[key] += 1
    most = counts.most_common(_CASES)
    total = sum(count for _, count in most)
    is_all = all(item.is_all for item in stage.outcomes.values())
    return [_Case(found[key], count / total) for key, count in most], is_all


def _run_of(standing: Standing, stage: QueueStage, case: _Case) -> QueueRun | None:
    return None if standing.job is None else case.runs[stage.world.roots[standing.job.queue]]


def _in_case(demand: Demand, standing: Standing, stage: QueueStage, case: _Case) -> tuple[Demand, str]:
    """A job as the scheduler gets it, and why it gets none of its pods."""
    if standing.doubt:
        return demand._replace(doubts=[*demand.doubts, standing.doubt]), ""
    run = _run_of(standing, stage, case)
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
        if pod.owner == f"{owner['kind']}/{owner['name']}" or (owner["kind"] == "JobSet" and jobset == owner["name"]):
            return True
    return False


def _as_queued(cluster: Cluster, stage: QueueStage, case: _Case, number: int, answer: Fit) -> Fit:
    """The answer for a job with what its queue has to do with it."""
    standing = stage.standings.get(number)
    run = None if standing is None else _run_of(standing, stage, case)
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


def _after_pods(stage: QueueStage, case: _Case, answers: Sequence[Fit]) -> list[Fit]:
    """The answers where Kueue admits nobody while pods of those admitted before are not ready: what those become that
    have no room is not known."""
    runs = {number: _run_of(standing, stage, case) for number, standing in stage.standings.items()}
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


def _merged(
    number: int, demand: Demand, told: Sequence[tuple[_Case, list[Fit]]], stage: QueueStage, *, is_all: bool
) -> Fit:
    """What most runs give."""
    shares: dict[Verdict, float] = {}
    answers = [(case, fits[number]) for case, fits in told]
    weights = _weights(number, [case for case, _ in answers], stage)
    waiting = 0.0
    for weight, (_, answer) in zip(weights, answers, strict=True):
        shares[answer.verdict] = shares.get(answer.verdict, 0) + weight * answer.likelihood
        waiting += weight * answer.waits
    chosen = max(shares, key=lambda verdict: shares[verdict])
    alike = [answer for _, answer in answers if answer.verdict == chosen]
    found = replace(alike[0], demand=demand)
    taken = {frozenset(victim.pod.name for victim in answer.victims) for answer in alike}
    agreed = len(alike) == len(answers) and len(taken) == 1 and all(answer.certain for answer in alike)
    certain = agreed and chosen != "unknown" and (is_all or _is_settled(number, stage))
    likelihood = min(1.0, shares[chosen])
    percent = round(100 * likelihood)
    if len(answers) > 1 and percent < 100:
        found = replace(found, reason=f"{found.reason}; so in {percent} % of the orders tried")
    return replace(found, certain=certain, likelihood=likelihood, waiting=None if certain else min(1.0, waiting))


def _weights(number: int, cases: Sequence[_Case], stage: QueueStage) -> list[float]:
    """What each case counts for a job: whether it is admitted is known of all runs, not of these alone."""
    standing = stage.standings.get(number)
    if standing is None or standing.job is None or standing.refusal:
        return [case.share for case in cases]
    root = stage.world.roots[standing.job.queue]
    runs = stage.outcomes[root].runs
    share = sum(run.is_admitted(number) for run in runs) / len(runs)
    enters = [case.runs[root].is_admitted(number) for case in cases]
    totals = {
        which: sum(case.share for case, own in zip(cases, enters, strict=True) if own == which)
        for which in (True, False)
    }
    wanted = {True: share if totals[False] else 1.0, False: 1 - share if totals[True] else 1.0}
    return [case.share / totals[own] * wanted[own] for case, own in zip(cases, enters, strict=True)]


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
    return found.is_all and not found.runs[0].is_admitted(number)
