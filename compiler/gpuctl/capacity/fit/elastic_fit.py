"""Answers for elastic trainings, which run as soon as the least number of their nodes has room.

Without a queue all pods are created, and those without room wait. In a queue, Kueue admits all pods if it can; if it
cannot, the largest number for which there is quota.
Source: Kueue's ``pkg/scheduler/scheduler.go`` (getInitialAssignments), ``flavorassigner/podset_reducer.go`` (Search).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuctl.capacity.fit.verdicts import LACKING, STARTS, Fit, Verdict
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object, annotations_of, key_of
from gpuctl.objects.elastic_jobs import MIN_PARALLELISM, NodeBounds, node_bounds, node_count, with_nodes

Judge = Callable[[Sequence[Object]], list[Fit]]
"""Returns the answers for objects, as if their numbers of pods were fixed."""


def fit_elastic(objects: Sequence[Object], judge: Judge) -> list[Fit]:
    """Return the answers for workloads of which some may be elastic."""
    # Up to the number that the object has: `gpuctl scale` asks for fewer than the greatest.
    ranges = {
        key_of(obj): found._replace(most=node_count(obj))
        for obj in objects
        if obj["kind"] == "Job" and (found := node_bounds(obj)) is not None
    }
    if not ranges:
        return judge(objects)
    numbers = {key: found.most for key, found in ranges.items()}
    full = judge(_with_numbers(objects, numbers))
    lacking = [answer for answer in full if answer.demand.key in ranges and not _starts(answer, ranges)]
    short = [answer.demand.key for answer in lacking if answer.admitted is False]
    if len(short) > 1:
        # What one of them leaves to the others depends on the order of admission.
        return judge(objects)
    numbers |= {answer.demand.key: ranges[answer.demand.key].least for answer in lacking}
    answers = judge(_with_numbers(objects, numbers)) if lacking else full
    if short:
        numbers, answers = _most_admitted(objects, judge, numbers, ranges[short[0]], short[0], answers)
    demands = {answer.demand.key: answer.demand for answer in full}
    told = [_told(answer, ranges, numbers) for answer in answers]
    return [replace(answer, demand=demands[answer.demand.key]) for answer in told]


def _with_numbers(objects: Sequence[Object], numbers: Mapping[Key, int]) -> list[Object]:
    """Return objects with fixed numbers of nodes for the elastic trainings among them."""
    return [_fixed(obj, numbers[key_of(obj)]) if key_of(obj) in numbers else obj for obj in objects]


def _fixed(job: Object, nodes: int) -> Object:
    annotations = {key: value for key, value in annotations_of(job).items() if key != MIN_PARALLELISM}
    return {**with_nodes(job, nodes), "metadata": {**job["metadata"], "annotations": annotations}}


def _starts(answer: Fit, ranges: Mapping[Key, NodeBounds]) -> bool:
    """Return True unless a training is known to start with fewer nodes than it needs."""
    if answer.verdict not in LACKING:
        return True
    return answer.admitted is not False and answer.starts >= ranges[answer.demand.key].least


def _most_admitted(
    objects: Sequence[Object],
    judge: Judge,
    numbers: dict[Key, int],
    bounds: NodeBounds,
    key: Key,
    answers: list[Fit],
) -> tuple[dict[Key, int], list[Fit]]:
    """Return the numbers and the answers with the largest number of nodes that a queue admits for a training.

    :param answers: those for its least number.
    """
    if _is_refused(answers, key):
        return numbers, answers
    low, high = bounds.least, bounds.most
    while high - low > 1:
        middle = (low + high) // 2
        tried = {**numbers, key: middle}
        found = judge(_with_numbers(objects, tried))
        if _is_refused(found, key):
            high = middle
        else:
            low, numbers, answers = middle, tried, found
    return numbers, answers


def _is_refused(answers: Sequence[Fit], key: Key) -> bool:
    return any(answer.demand.key == key and answer.admitted is False for answer in answers)


def _told(answer: Fit, ranges: Mapping[Key, NodeBounds], numbers: Mapping[Key, int]) -> Fit:
    """Return the answer for an elastic training from that for a fixed number; other answers are returned unchanged."""
    key = answer.demand.key
    if key not in ranges:
        return answer
    bounds, number = ranges[key], numbers[key]
    starts = number if answer.verdict in STARTS else answer.starts
    if answer.verdict in LACKING and (starts < bounds.least or answer.admitted is False):
        return answer
    if answer.verdict == "unknown" or starts == bounds.most:
        return answer
    # Kueue admits no further nodes once the training runs.
    later = "" if answer.admitted and number < bounds.most else say("; the others join when there is room")
    admission = say("; {reason}", reason=answer.reason) if answer.admitted and answer.reason else ""
    reason = say(
        "with {starts} of {bounds} nodes{later}{more}", starts=starts, bounds=bounds, later=later, more=admission
    )
    certain = answer.certain and number == bounds.most
    verdict: Verdict = "preempts" if answer.victims else "fits"
    return replace(answer, verdict=verdict, reason=reason, starts=starts, certain=certain, change=None, opening=None)
