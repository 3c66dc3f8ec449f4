"""When the pods of jobs are made that are created together.

``apply`` creates jobs that may be in each other's way one after another, and the pods of each are made before the next
job comes. Other tools create them otherwise, and controllers may be slow: in some of the orders tried these make the
pods of several jobs side by side. The orders are the same wherever they are asked for, so that what a quota lets
through and what the scheduler finds in its queue belong together.
"""

from __future__ import annotations

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.draws import Draws

RUNS = 64
"""How many orders and choices are tried."""
_DISORDER = 8
"""In one of so many orders pods are made side by side."""
_SIDE_BY_SIDE = 16
"""So many jobs are created at once then: these come in any order."""
_STEPS = (8, 24, 64)
"""How long a controller takes to make an object, run by run: the time of so many jobs that are created."""
_PACES = (None, 0.5, 2, 8)
"""How long the scheduler takes for a pod, run by run, by the same measure; None: all are there before it begins."""
_BETWEEN = frozenset(("Deployment", "StatefulSet", "JobSet"))
"""Kinds whose controllers make another object before any pod: a ReplicaSet, a ControllerRevision, a Job."""


def pace(run: int) -> float | None:
    """How long the scheduler takes for a pod in one run, in the time that ``apply`` takes for one job; None: for ever,
    so that all of them are in its queue, and sorted by priority."""
    return _PACES[run % len(_PACES)]


def is_in_turn(run: int) -> bool:
    """Whether one job's pods are made before the next one's. Where not, every pace and step there is has its run."""
    return run % _DISORDER != run // _DISORDER


def made_at(demand: Demand, run: int) -> list[float]:
    """When each pod of a job is made in one run, group by group, in the time that ``apply`` takes for one job.

    Nothing for a job of which nobody knows whether its pods come to the scheduler, in every other run or so.
    """
    in_turn = demand.in_turn or is_in_turn(run)
    if in_turn and not demand.doubts:
        return _in_turn(demand)
    draws = Draws(f"{run} {demand.kind} {demand.namespace} {demand.name}")
    if demand.doubts and draws.below(2):
        return []
    return _in_turn(demand) if in_turn else _side_by_side(demand, run, draws)


def _in_turn(demand: Demand) -> list[float]:
    """When each pod is made before the next job comes."""
    pods = demand.pods
    return [demand.created + number / pods for number in range(pods)]


def _side_by_side(demand: Demand, run: int, draws: Draws) -> list[float]:
    """When each pod is made while controllers work on several jobs.

    Source: ``pkg/controller/controller_utils.go``, SlowStartInitialBatchSize: one pod, then two at once, then four.
    """
    step = _STEPS[run % len(_STEPS)]
    begin = demand.created + draws.share() * _SIDE_BY_SIDE
    if demand.kind in _BETWEEN:
        begin += step * (0.5 + draws.share())
    result: list[float] = []
    for _, count in demand.groups:
        when, size, left = begin, 1, count
        while left:
            when += step * (0.5 + draws.share())
            result += [when] * min(size, left)
            left -= min(size, left)
            size *= 2
    return result
