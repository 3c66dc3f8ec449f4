"""The API server's rules for a container's requests and limits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from gpuctl.backend.pod_problems import PodProblem
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.language import names
from gpuctl.language.sentences import say
from gpuctl.language.spelling import suggest_name
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import parse_quantity, suggest_cores, suggest_quantity

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE_DOMAIN = "kubernetes.io/"


def check_amounts(container: Object, claims: set[str]) -> Iterator[PodProblem]:
    """Yield all problems of a container's ``resources``."""
    resources = container.get("resources", {})
    amounts: dict[str, dict[str, Fraction]] = {"limits": {}, "requests": {}}
    for field, found in amounts.items():
        for name, value in resources.get(field, {}).items():
            place: FieldPath = ("resources", field, name)
            amount = parse_quantity(str(value))
            hint: str | None
            if not _is_resource(name):
                hint = say("write cpu, memory, ephemeral-storage, hugepages-2Mi, or a name such as `rdma/hca`")
                yield PodProblem(place, say("`{name}` is not a resource of containers", name=name), hint)
            if amount is None:
                better = (suggest_cores(str(value)) if name == "cpu" else None) or suggest_quantity(str(value))
                message = say("`{value}` is not a quantity such as `500m` or `16Gi`", value=value)
                yield PodProblem(place, message, suggest_name(better))
                continue
            found[name] = amount
            if amount < 0:
                yield PodProblem(place, say("`{value}` is negative", value=value))
            elif _is_whole(name) and amount.denominator != 1:
                yield PodProblem(place, say("`{name}` must be a whole number, got `{value}`", name=name, value=value))
    yield from _compared(amounts["requests"], amounts["limits"])
    for index, claim in enumerate(resources.get("claims", [])):
        name = claim.get("name", "")
        if name not in claims:
            message = say("the pod has no resource claim called `{name}`", name=name)
            yield PodProblem(("resources", "claims", index), message)


def _compared(requests: dict[str, Fraction], limits: dict[str, Fraction]) -> Iterator[PodProblem]:
    for name, amount in requests.items():
        place: FieldPath = ("resources", "requests", name)
        causes: tuple[FieldPath, ...] = (("resources", "limits", name),)
        limit = limits.get(name)
        if limit is None:
            if not _may_overcommit(name):
                yield PodProblem(
                    place,
                    say("a request of `{name}` needs an equal limit", name=name),
                    say("add it to `limits`"),
                    causes,
                )
        elif amount > limit:
            message = say("the request of `{name}` is greater than its limit", name=name)
            yield PodProblem(place, message, say("requests are at most limits; patch both"), causes)
        elif amount != limit and not _may_overcommit(name):
            message = say("the request and the limit of `{name}` differ", name=name)
            yield PodProblem(place, message, say("they must be equal; patch both"), causes)


def _is_resource(name: str) -> bool:
    if "/" not in name:
        return name in _STANDARD or name.startswith("hugepages-")
    return names.is_qualified_name(name) and not name.startswith("requests.")


def _may_overcommit(name: str) -> bool:
    return (name in _STANDARD or _NATIVE_DOMAIN in name) and not name.startswith("hugepages-")


def _is_whole(name: str) -> bool:
    """Return True for extended resources, which are counted in whole numbers; Kubernetes' own resources are not."""
    return "/" in name and _NATIVE_DOMAIN not in name
