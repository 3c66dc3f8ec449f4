"""Limits of quotas that are Kueue queues, with the use that Kueue counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from gpuctl.capacity.pod_requests import quantity
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.queue_names import flavor_name, is_unlimited

Amounts = tuple[str, str | None, Fraction, Fraction | None]
"""Resource, GPU type or None, limit, and use (None: not counted yet)."""


def queue_amounts(queue: Object, types_key: str) -> Iterator[Amounts]:
    """Yield the limits of a ClusterQueue. A use above the limit is borrowed.

    :param types_key: the annotation with the GPU types.
    """
    types = {flavor_name(name): name for name in annotations_of(queue).get(types_key, "").split(",") if name}
    reserved = (queue.get("status") or {}).get("flavorsReservation")
    used = {} if reserved is None else _used(reserved)
    for group in (queue.get("spec") or {}).get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for limit in flavor["resources"]:
                resource, amount = limit["name"], str(limit["nominalQuota"])
                if is_unlimited(resource, amount):
                    continue
                use = used.get((flavor["name"], resource), Fraction(0)) if reserved is not None else None
                yield resource, types.get(flavor["name"]), quantity(amount), use


def _used(reserved: Iterable[Object]) -> dict[tuple[str, str], Fraction]:
    return {
        (flavor["name"], resource["name"]): quantity(str(resource.get("total", 0)))
        for flavor in reserved
        for resource in flavor.get("resources") or []
    }
