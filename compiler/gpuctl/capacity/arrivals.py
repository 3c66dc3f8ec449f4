"""When the pods of jobs are made: of jobs that are created together, controllers make them side by side.

The orders that are tried are the same wherever they are asked for, so that what a quota lets through and what the
scheduler finds in its queue belong together.
"""

from __future__ import annotations

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.draws import Draws

RUNS = 64
"""How many orders and choices are tried."""
_WINDOWS = (0, 2, 6, 6)
"""Within so many jobs' distance pods come in any order, run by run."""
_SIDE_BY_SIDE = 16
"""So many jobs ``apply`` creates at once: in the last of four runs these come in any order."""


def comes_late(run: int) -> bool:
    """Whether pods come so slowly in a run that each is taken as it comes, before more important ones that follow."""
    return run % len(_WINDOWS) == len(_WINDOWS) - 1


def delays(demand: Demand, run: int) -> list[float]:
    """By how many jobs' distance each pod of a job is late in one run, group by group.

    Nothing for a job of which nobody knows whether its pods come to the scheduler, in every other run or so.
    """
    window = _WINDOWS[run % len(_WINDOWS)]
    if not (window or demand.doubts):
        return [0.0] * demand.pods
    draws = Draws(f"{run} {demand.kind} {demand.namespace} {demand.name}")
    if demand.doubts and draws.below(2):
        return []
    start = draws.share() * _SIDE_BY_SIDE if comes_late(run) else 0.0
    return [start + draws.share() * window if window else 0.0 for _ in range(demand.pods)]
