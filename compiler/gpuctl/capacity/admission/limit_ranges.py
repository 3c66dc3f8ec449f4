"""LimitRanges of a namespace: the defaults that they add to pods, and the pods that they reject.

Source: Kubernetes 1.36, ``plugin/pkg/admission/limitranger/admission.go``. The API server has stored the defaults
implied by ``max``, ``min`` and ``default`` in the LimitRange, so a snapshot contains them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from gpuctl.capacity.snapshot.pod_requests import (
    Amounts,
    amounts,
    container_limits,
    container_requests,
    pod_limits,
    pod_requests,
)
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import format_amount


def add_defaults(spec: Object, ranges: Iterable[Object]) -> None:
    """Add the defaults of LimitRanges to a pod's containers, in place. Source: mergePodResourceRequirements."""
    limits = [item for entry in ranges for item in entry["limits"] if item["type"] == "Container"]
    for limit in limits:
        for container in _containers(spec):
            resources = container.setdefault("resources", {})
            own = resources.get("limits") or {}
            stated = {**own, **(resources.get("requests") or {})}
            resources["requests"] = {**(limit.get("defaultRequest") or {}), **stated}
            resources["limits"] = {**(limit.get("default") or {}), **own}


def limit_violations(spec: Object, ranges: Iterable[Object]) -> Iterator[str]:
    """Yield why LimitRanges reject a pod that already has their defaults. Source: PodValidateLimitFunc."""
    ranges = list(ranges)
    for container in _containers(spec) if ranges else ():
        requests, limits = container_requests(container), container_limits(container)
        for name in requests.keys() & limits.keys():
            if requests[name] > limits[name]:
                # The default makes the container invalid: ValidateContainerResourceRequirements in core/validation.
                low = format_amount(name, limits[name])
                yield say(
                    "the LimitRanges of the namespace set the {resource} limit of container {name} to {limit}, below "
                    "its request of {request}",
                    resource=name,
                    name=container["name"],
                    limit=low,
                    request=format_amount(name, requests[name]),
                )
    for entry in ranges:
        name = (
            say("LimitRange {name}", name=entry["name"])
            if "name" in entry
            else say("a LimitRange of {namespace}", namespace=entry["namespace"])
        )
        for limit in entry["limits"]:
            for whose, requests, limits in _counted(spec, limit["type"]):
                for text in _beyond(limit, requests, limits):
                    yield say("{name} requires {text} ({whose})", name=name, text=text, whose=whose)


def is_rejected_by_kueue(spec: Object, ranges: Iterable[Object]) -> bool:
    """Return True if Kueue never admits a pod that already has the defaults of LimitRanges.

    Kueue compares only stated amounts; the API server checks missing amounts and ratios when the pod is created.
    Source: Kueue 0.19, ``pkg/workload/resources.go`` (ValidateResources), ``pkg/util/limitrange`` (ValidatePodSpec).
    """
    for container in _containers(spec):
        requests, limits = container_requests(container), container_limits(container)
        if any(requests[name] > limits[name] for name in requests.keys() & limits.keys()):
            return True
    for limit in (item for entry in ranges for item in entry["limits"]):
        most, least = amounts(limit.get("max")), amounts(limit.get("min"))
        for _, requests, limits in _counted(spec, limit["type"]):
            stated = [requests] if limit["type"] == "Pod" else [requests, limits]
            if any(have[name] > most[name] for have in stated for name in have.keys() & most.keys()):
                return True
            if any(have[name] < least[name] for have in stated for name in have.keys() & least.keys()):
                return True
    return False


def _counted(spec: Object, kind: str) -> Iterator[tuple[str, Amounts, Amounts]]:
    """Yield what a limit of a type applies to, with requests and limits. RuntimeClass overhead is not counted."""
    if kind == "Container":
        for container in _containers(spec):
            yield (
                say("container {name}", name=container["name"]),
                container_requests(container),
                container_limits(container),
            )
    elif kind == "Pod":
        own = {**spec, "overhead": None}
        yield say("all containers together"), pod_requests(own), pod_limits(own)


def _beyond(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit["type"]
    for name, least in amounts(limit.get("min")).items():
        found = [(word, have[name]) for word, have in (("request", requests), ("limit", limits)) if name in have]
        low = next((item for item in found if item[1] < least), None)
        if name not in requests or low is not None:
            yield say(
                "at least {amount} per {kind}, and {actual}",
                amount=_told(name, least),
                kind=kind,
                actual=_is("request", name, low),
            )
    for name, most in amounts(limit.get("max")).items():
        found = [(word, have[name]) for word, have in (("limit", limits), ("request", requests)) if name in have]
        high = next((item for item in found if item[1] > most), None)
        if name not in limits or high is not None:
            yield say(
                "at most {amount} per {kind}, and {actual}",
                amount=_told(name, most),
                kind=kind,
                actual=_is("limit", name, high),
            )
    for name, ratio in amounts(limit.get("maxLimitRequestRatio")).items():
        if not requests.get(name) or not limits.get(name):
            missing = "limit" if requests.get(name) else "request"
            yield say(
                "a limit of at most {ratio} times the request of {resource}, and no {missing} is set",
                ratio=_plain(ratio),
                resource=name,
                missing=missing,
            )
        elif limits[name] > ratio * requests[name]:
            actual = _plain(limits[name] / requests[name])
            yield say(
                "a limit of at most {ratio} times the request of {resource} per {kind}, and it is {actual} times",
                ratio=_plain(ratio),
                resource=name,
                kind=kind,
                actual=actual,
            )


def _is(word: str, name: str, found: tuple[str, Fraction] | None) -> str:
    if found is None:
        return say("no {word} of {resource} is set", word=word, resource=name)
    return say("the {word} is {amount}", word=found[0], amount=format_amount(name, found[1]))


def _told(name: str, amount: Fraction) -> str:
    return f"{format_amount(name, amount)} {name}"


def _plain(number: Fraction) -> str:
    return f"{float(number):.4g}"


def _containers(spec: Object) -> list[Object]:
    return [*spec["containers"], *(spec.get("initContainers") or [])]
