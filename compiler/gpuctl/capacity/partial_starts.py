"""Jobs whose pods need each other: those that find room hold it while they wait for the rest."""

from __future__ import annotations

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.scheduler_model import Units
from gpuctl.capacity.shortage import format_units

_TOGETHER = ("Job", "JobSet")
_OF_ANY_MACHINE = frozenset({"cpu", "memory", "ephemeral-storage"})


def held_while_waiting(demand: Demand, starts: int) -> Units:
    """What so many pods of a job hold while its others have no room; nothing for a service, or when all start.

    Of pods that differ only what each of them asks for alike is known.
    """
    if demand.kind not in _TOGETHER or not 0 < starts < demand.pods:
        return {}
    first, *others = [group.incoming.pod.requests for group, number in demand.groups if number]
    return {
        name: amount * starts for name, amount in first.items() if all(other.get(name) == amount for other in others)
    }


def describe_partial_start(starts: int, pods: int, held: Units) -> str:
    """How many start, and what they hold: GPUs and the like; where they have none, everything."""
    scarce = {name: amount for name, amount in held.items() if name not in _OF_ANY_MACHINE} or held
    amounts = " and ".join(format_units(name, amount) for name, amount in scarce.items())
    return f"{starts} of {pods} would start and hold {amounts} while they wait for the others"
