"""The resource requests of pods, counted as the scheduler and quota admission do.

Source: Kubernetes 1.36, ``k8s.io/component-helpers/resource/helpers.go`` (PodRequests, PodLimits) on a pod with the
defaults of ``pkg/apis/core/v1/defaults.go`` (SetDefaults_Pod, SetDefaults_ResourceList). For a pod with an in-place
resize, the largest of the desired, allocated and actual amount counts.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import containers_of
from gpuctl.objects.quantities import HUGE_PAGES, quantity

Amounts = dict[str, Fraction]
"""Resource name -> amount: cores for cpu, bytes for memory and storage, pieces for everything else."""

# resourcehelper.IsSupportedPodLevelResource: only these and huge pages count in a pod's own `resources`.
_POD_LEVEL = ("cpu", "memory")
UNSTATED = {"cpu": Fraction(1, 10), "memory": Fraction(200 << 20)}
"""Requests assumed for a container without any when nodes are scored (``pkg/scheduler/util/pod_resources.go``)."""


def amounts(resources: Mapping[str, str | int | float] | None) -> Amounts:
    """Parse a resource list (``requests``, ``limits``, ``hard`` ...)."""
    return {name: quantity(value) for name, value in (resources or {}).items()}


def total_of(found: Mapping[str, Fraction], names: Container[str]) -> Fraction:
    """Return the sum of the amounts of some resources, such as those that are GPUs."""
    return sum((amount for name, amount in found.items() if name in names), Fraction(0))


def container_requests(container: Object) -> Amounts:
    """Return a container's requests; a limit without a request counts as request (SetDefaults_Pod)."""
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def container_limits(container: Object) -> Amounts:
    """Return a container's limits."""
    return amounts((container.get("resources") or {}).get("limits"))


def pod_requests(spec: Object, status: Object | None = None, missing: Mapping[str, Fraction] | None = None) -> Amounts:
    """Return the requests of a pod from its ``spec``. Source: PodRequests.

    Containers and sidecars (restartable init containers) add up. An init container counts, with the sidecars started
    before it, if that is more. The pod's own ``resources`` replace the sum. Overhead is added.

    :param status: the status of an existing pod, which may be in the middle of a resize (UseStatusResources).
    :param missing: amounts for containers that do not request a resource (NonMissingContainerRequests).
    """
    sizes = _sizes(spec, status or {})

    def counted(container: Object) -> Amounts:
        own = _resized(container_requests(container), sizes.get(container.get("name", "main")))
        return {**missing, **own} if missing else own

    total = _sum_or_peak(spec, counted)
    own = _pod_resources(spec)[0]
    total.update(_supported(_resized(own, sizes.get("")) if own else own))
    for name, amount in amounts(spec.get("overhead")).items():
        _add(total, name, amount)
    return total


def scored_requests(spec: Object, status: Object | None = None) -> Amounts:
    """Return a pod's requests as used to score nodes: containers without requests get default amounts.

    Source: ``pkg/scheduler/framework/types.go``, calculateResource; ``util/pod_resources.go``.
    """
    return pod_requests(spec, status, UNSTATED)


class _Size(NamedTuple):
    """The actual and the allocated resources of a container or pod. Not ``wanted``: the resize in its spec is
    infeasible.
    """

    amounts: tuple[Amounts, Amounts]
    wanted: bool


def _sizes(spec: Object, status: Object) -> dict[str, _Size]:
    """Return the sizes by container name; "" is the pod. Ordinary init containers are never resized."""
    conditions = status.get("conditions") or []
    wanted = not any(
        item.get("type") == "PodResizePending" and item.get("reason") == "Infeasible" for item in conditions
    )
    found = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
    once = {item["name"] for item in _list(spec, "initContainers") if item.get("restartPolicy") != "Always"}
    holders = [(item["name"], item) for item in found if item["name"] not in once] + [("", status)]
    return {
        name: _Size((amounts(item["resources"].get("requests")), amounts(item.get("allocatedResources"))), wanted)
        for name, item in holders
        if item.get("resources") is not None
    }


def _resized(own: Amounts, size: _Size | None) -> Amounts:
    """Source: determineEffectiveRequests."""
    if size is None:
        return own
    parts = [*size.amounts, *([own] if size.wanted else [])]
    result: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = max(amount, result.get(name, amount))
    return result


def pod_limits(spec: Object) -> Amounts:
    """Return a pod's limits, counted like requests; overhead is added only to limits that are set and not zero.

    Source: PodLimits.
    """
    total = _sum_or_peak(spec, container_limits)
    total.update(_supported(_pod_resources(spec)[1]))
    for name, amount in amounts(spec.get("overhead")).items():
        if total.get(name):
            _add(total, name, amount)
    return total


def has_pod_resources(spec: Object) -> bool:
    """Return True if the pod itself sets a resource that counts. Source: IsPodLevelResourcesSet."""
    requests, _ = _pod_resources(spec)
    return bool(_supported(requests))


def is_best_effort(spec: Object) -> bool:
    """Return True if the pod's QoS class is BestEffort. Source: ``pkg/apis/core/helper/qos/qos.go`` (ComputePodQOS).

    If the pod has its own ``resources``, even empty ones, only these count.
    """
    if spec.get("resources") is not None:
        lists = list(_pod_resources(spec))
    else:
        lists = [
            amount(container) for container in containers_of(spec) for amount in (container_requests, container_limits)
        ]
    return not any(amount > 0 for resources in lists for name, amount in resources.items() if name in _POD_LEVEL)


def _sum_or_peak(spec: Object, of: Callable[[Object], Amounts]) -> Amounts:
    """Return for each resource the sum of the containers, or the peak during initialization if it is higher.

    Source: AggregateContainerRequests and AggregateContainerLimits.
    """
    total: Amounts = {}
    for container in _list(spec, "containers"):
        for name, amount in of(container).items():
            _add(total, name, amount)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in _list(spec, "initContainers"):
        own = of(container)
        restarts = container.get("restartPolicy") == "Always"
        for name, amount in own.items():
            if restarts:
                _add(total, name, amount)
                _add(sidecars, name, amount)
            else:
                peak[name] = max(peak.get(name, amount), amount + sidecars.get(name, 0))
    for name, amount in peak.items():
        total[name] = max(total.get(name, amount), amount)
    return total


def _pod_resources(spec: Object) -> tuple[Amounts, Amounts]:
    """Return ``spec.resources`` as requests and limits; if limits are set, with the server's default requests.

    Source: ``pkg/apis/core/v1/defaults.go``, defaultPodRequests. Default limits of huge pages change no sum and are
    left out.
    """
    resources = spec.get("resources") or {}
    requests, limits = amounts(resources.get("requests")), amounts(resources.get("limits"))
    if limits:
        for name, amount in _sum_or_peak(spec, container_requests).items():
            if name in _POD_LEVEL:
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    return requests, limits


def _supported(resources: Amounts) -> Amounts:
    return {name: amount for name, amount in resources.items() if name in _POD_LEVEL or name.startswith(HUGE_PAGES)}


def _add(total: Amounts, name: str, amount: Fraction) -> None:
    total[name] = total.get(name, Fraction(0)) + amount


def _list(spec: Object, field: str) -> list[Any]:
    return spec.get(field) or []
