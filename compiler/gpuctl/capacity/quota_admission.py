"""What the quotas of its namespace let through of a workload's pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.demand import Demand
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.quota_sum import Shortfall, Usage, shortfalls, unspecified


class Admission(NamedTuple):
    """What quotas let through of a job: pods by group, what that takes of them, and what stands against the rest."""

    groups: list[tuple[PodGroup, int]]
    usages: list[Usage]
    refusals: list[str]
    for_ever: bool
    shortfalls: list[Shortfall]


def given_back(demand: Demand) -> list[Usage]:
    """What a job that is replaced gives back. Its limits are not in a snapshot; gpuctl's are equal to its requests.

    Of a deadline only whether there is one matters, to the scopes Terminating and NotTerminating.
    """
    if not demand.owned:
        return []
    pods = []
    for pod in demand.owned:
        amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in pod.requests.items()}
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}
        if pod.priority_class:
            spec["priorityClassName"] = pod.priority_class
        if pod.has_deadline:
            spec["activeDeadlineSeconds"] = 1
        pods.append(Usage({"kind": "Pod", "metadata": {"labels": dict(pod.labels)}, "spec": spec}))
    return [*(usage for usage in demand.usages if usage.object["kind"] != "Pod"), *pods]


def admission(quotas: Iterable[Object], demand: Demand, added: list[Usage], freed: list[Usage]) -> Admission:
    """What passes of a workload after others (``added``), when some has been given back (``freed``)."""
    quotas = [quota for quota in quotas if quota["metadata"]["namespace"] == demand.namespace]
    refused = [*demand.refusals, *(str(item) for item in unspecified(quotas, demand.usages))]
    if refused:
        return Admission([], [], refused, True, [])
    before = [usage for usage in added if usage.object["metadata"].get("namespace") == demand.namespace]
    short = shortfalls(quotas, [*before, *demand.usages], freed)
    if not short:
        return Admission(demand.groups, _of(demand, demand.usages), [], False, [])
    others = [usage for usage in demand.usages if usage.object["kind"] != "Pod"]
    pods = [usage for usage in demand.usages if usage.object["kind"] == "Pod"]
    least, most = 0, demand.pods
    while least < most:
        middle = (least + most + 1) // 2
        some = [*before, *others, *_first(pods, middle)]
        least, most = (middle, most) if not shortfalls(quotas, some, freed) else (least, middle - 1)
    groups = [(group, usage.number) for (group, _), usage in zip(demand.groups, _first(pods, least), strict=False)]
    for_ever = any(item.needed > item.hard for item in shortfalls(quotas, demand.usages))
    return Admission(groups, _of(demand, _first(pods, least)), [str(item) for item in short], for_ever, short)


def _of(demand: Demand, usages: Iterable[Usage]) -> list[Usage]:
    """Usages that tell their namespace."""
    return [
        usage._replace(
            object={
                **usage.object,
                "metadata": {**(usage.object.get("metadata") or {}), "namespace": demand.namespace},
            }
        )
        for usage in usages
    ]


def _first(pods: Iterable[Usage], number: int) -> list[Usage]:
    """The first so many of several kinds of pods."""
    result = []
    for usage in pods:
        result.append(usage._replace(number=min(usage.number, number)))
        number -= result[-1].number
    return result
