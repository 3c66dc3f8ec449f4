"""Scopes of ResourceQuotas: the objects that a quota counts."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.capacity.snapshot.pod_requests import is_best_effort
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import REQUIRED


def applies_to(quota: Object, obj: Object) -> bool:
    """Return True if an object is in all scopes of a quota (only pods have scopes). Source: generic/evaluator.go."""
    scopes = list(_scopes(quota))
    return not scopes or (obj["kind"] == "Pod" and all(_in_scope(obj, scope) for scope in scopes))


def scope_texts(quota: Object) -> tuple[str, ...]:
    """Return the scopes of a quota in the form of label selectors: `BestEffort`, `PriorityClass in (high)`."""
    return tuple(map(_scope_text, _scopes(quota)))


def _scope_text(scope: Object) -> str:
    name, operator = scope["scopeName"], scope["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return name if operator == "Exists" else f"!{name}"
    return f"{name} {operator.lower()} ({','.join(scope['values'])})"


def _scopes(quota: Object) -> Iterator[Object]:
    spec = quota.get("spec") or {}
    for name in spec.get("scopes") or []:
        yield {"scopeName": name, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or []


def _in_scope(pod: Object, scope: Object) -> bool:
    """Source: core/pods.go, podMatchesScopeFunc."""
    spec: Object = pod["spec"]
    name: str = scope["scopeName"]
    if name in ("Terminating", "NotTerminating"):
        return (spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        quality = (pod.get("status") or {}).get("qosClass")
        best_effort = quality == "BestEffort" if quality else is_best_effort(spec)
        return bool(best_effort) == (name == "BestEffort")
    if name == "PriorityClass":
        return _selects(scope, spec.get("priorityClassName"))
    return name == "CrossNamespacePodAffinity" and any(_reaches_out(term) for term in _affinity_terms(spec))


def _selects(scope: Object, value: str | None) -> bool:
    """Evaluate a scope like a label selector with one label. A pod without a class has no label: NotIn matches."""
    operator: str = scope["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return bool(value) == (operator == "Exists")
    return (value in scope["values"]) == (operator == "In")


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        yield from rules.get(REQUIRED) or []
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield weighted["podAffinityTerm"]


def _reaches_out(term: Object) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
