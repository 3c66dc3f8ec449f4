"""Limits of quotas that are Kueue queues, with the use that Kueue counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from gpuctl.capacity.kueue.cohorts import FlavorResource, cohort_of, flavor_quotas, reserved_quota
from gpuctl.capacity.scheduler.scheduler_model import amount_of, format_units
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.quantities import quantity
from gpuctl.objects.queue_names import flavor_name, is_unlimited

Amounts = tuple[str, str | None, Fraction, Fraction | None]
"""Resource, GPU type or None, limit, and use (None: not counted yet)."""


def queue_amounts(queue: Object, types_key: str) -> Iterator[Amounts]:
    """Yield the limits of a ClusterQueue. A use above the limit is borrowed.

    :param types_key: the annotation with the GPU types.
    """
    types = {flavor_name(name): name for name in annotations_of(queue).get(types_key, "").split(",") if name}
    is_counted = (queue.get("status") or {}).get("flavorsReservation") is not None
    used = reserved_quota(queue)
    for group in (queue.get("spec") or {}).get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for limit in flavor["resources"]:
                resource, amount = limit["name"], str(limit["nominalQuota"])
                if is_unlimited(resource, amount):
                    continue
                use = amount_of(resource, used.get(FlavorResource(flavor["name"], resource), 0))
                yield resource, types.get(flavor["name"]), quantity(amount), use if is_counted else None


def changed_limits(before: Object, after: Object, used: Mapping[FlavorResource, int]) -> Iterator[str]:
    """Yield what a changed ClusterQueue means for the jobs that hold its quota: Kueue stops none of them.

    :param used: what they hold, in the scheduler's units.
    """
    name, old, new = after["metadata"]["name"], flavor_quotas(before), flavor_quotas(after)
    for place, amount in used.items():
        if not amount or place not in old or old[place] == new.get(place):
            continue
        held = say("ClusterQueue {name}: jobs hold {amount}", name=name, amount=format_units(place.resource, amount))
        if place not in new:
            yield (
                say(
                    "{held} of flavor {flavor}, which the new quota does not have: Kueue does not count them, so "
                    "that the namespace can use more until they end",
                    held=held,
                    flavor=place.flavor,
                )
            )
        elif new[place].nominal < amount:
            most = format_units(place.resource, new[place].nominal).split()[0]
            lent = say("; other users of the quota can take back the rest") if cohort_of(after) else ""
            yield say(
                "{held}, and the limit becomes {most}: they keep running, and others wait until they end{lent}",
                held=held,
                most=most,
                lent=lent,
            )
