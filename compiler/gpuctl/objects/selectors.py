"""Matching of Kubernetes label selectors, and of tolerations with taints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpuctl.objects.api_resources import Object

Labels = Mapping[str, str]
_BLOCKING = ("NoSchedule", "NoExecute")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def selector_matches(selector: Object | None, labels: Labels) -> bool:
    """Return True if a label selector matches. None matches nothing, an empty selector everything.

    Source: ``apimachinery/pkg/apis/meta/v1/helpers.go``, LabelSelectorAsSelector.
    """
    if selector is None:
        return False
    pairs = (selector.get("matchLabels") or {}).items()
    return pairs <= labels.items() and all(
        requirement_matches(item, labels) for item in selector.get("matchExpressions") or []
    )


def requirement_matches(expression: Object, labels: Labels) -> bool:
    """Return True if one requirement matches. Source: ``apimachinery/pkg/labels/selector.go``, Requirement.Matches."""
    operator: str = expression["operator"]
    value, wanted = labels.get(expression["key"]), [str(item) for item in expression.get("values") or []]
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if operator == "In":
        return value in wanted
    if operator == "NotIn":
        return value not in wanted
    if value is None or not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(wanted[0])):
        return False
    return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return True if a toleration tolerates a taint. Source: ``k8s.io/api/core/v1/toleration.go``, ToleratesTaint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (
        operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")
    )


def blocking_taint(taints: Iterable[Object], tolerations: Sequence[Object]) -> Object | None:
    """Return the first taint that keeps a pod with these tolerations off a node; None without one."""
    for taint in taints:
        if taint.get("effect") in _BLOCKING and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None


def taint_text(taint: Mapping[str, str]) -> str:
    """Return ``key=value:NoSchedule``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
