"""Jobs of which only some pods find room: those pods hold their resources while they wait for the others."""

from __future__ import annotations

from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.scheduler_model import Units, format_units
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAININGS

_OF_ANY_MACHINE = frozenset({"cpu", "memory", "ephemeral-storage"})


def held_while_waiting(demand: Demand, starts: int) -> Units:
    """Return what the started pods of a job hold while its other pods have no room.

    Empty for independent pods (a service's, an array's), or if all or none start. If pods differ, only amounts that
    all of them request are returned.
    """
    if not _starts_as_a_whole(demand) or not 0 < starts < demand.pods:
        return {}
    first, *others = [group.incoming.pod.requests for group, number in demand.groups if number]
    return {
        name: amount * starts for name, amount in first.items() if all(other.get(name) == amount for other in others)
    }


def _starts_as_a_whole(demand: Demand) -> bool:
    """Return True if no pod works before all have started. The replicas of a LeaderWorkerSet are independent."""
    if demand.kind == "LeaderWorkerSet":
        return demand.groups[0][1] == 1
    return demand.kind in TRAININGS and not demand.independent


def describe_partial_start(starts: int, pods: int, held: Units) -> str:
    """Return how many pods start and what they hold: devices such as GPUs, or all resources if they hold no devices."""
    scarce = {name: amount for name, amount in held.items() if name not in _OF_ANY_MACHINE} or held
    amounts = [format_units(name, amount) for name, amount in scarce.items()]
    return say(
        "{starts} of {pods} would start and hold {amounts:and} while they wait for the others",
        starts=starts,
        pods=pods,
        amounts=amounts,
    )
