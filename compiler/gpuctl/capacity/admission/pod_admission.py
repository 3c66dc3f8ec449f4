"""API server admission of a workload's pods: what it adds, and why pods are rejected or never placed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping

from gpuctl.capacity.admission.limit_ranges import add_defaults, limit_violations
from gpuctl.capacity.admission.pod_security_admission import forbidden, level_of
from gpuctl.capacity.scheduler.pod_claims import find_claim
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import mounted_claims

_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admitted(spec: Object, namespace: str, snapshot: Snapshot, classes: Mapping[str, Object]) -> Object:
    """Return the spec after admission: defaults of LimitRanges, the default PriorityClass, overhead, node selector and
    tolerations of the RuntimeClass.

    Source: ``plugin/pkg/admission``: ``limitranger``, ``priority``, ``runtimeclass``, ``defaulttolerationseconds``.
    """
    spec = copy.deepcopy(spec)
    add_defaults(spec, _ranges(namespace, snapshot))
    default = default_class(classes)
    if default is not None and not spec.get("priorityClassName"):
        spec["priorityClassName"] = default
    runtime = runtime_of(spec, snapshot)
    if runtime is not None:
        if runtime.get("overhead"):
            spec["overhead"] = runtime["overhead"]
        spec["nodeSelector"] = {**(runtime.get("nodeSelector") or {}), **(spec.get("nodeSelector") or {})}
        spec["tolerations"] = [*(spec.get("tolerations") or []), *(runtime.get("tolerations") or [])]
    tolerations = spec.get("tolerations") or []
    spec["tolerations"] = [*tolerations, *_default_tolerations(tolerations)]
    return spec


def runtime_of(spec: Object, snapshot: Snapshot) -> Object | None:
    """Return the RuntimeClass that a pod names, or None if the snapshot does not have it."""
    wanted = spec.get("runtimeClassName")
    return next((item for item in snapshot.runtime_classes if item["name"] == wanted), None)


def default_class(classes: Mapping[str, Object]) -> str | None:
    """Return the PriorityClass of pods that name none. Source: ``plugin/pkg/admission/priority``,
    getDefaultPriorityClass.
    """
    names = [name for name, item in classes.items() if item.get("globalDefault")]
    return min(names, key=lambda name: int(classes[name].get("value") or 0), default=None)


def refusals(template: Object, namespace: str, labels: Mapping[str, str], snapshot: Snapshot) -> Iterator[str]:
    """Yield why a pod (``metadata`` and ``spec`` after admission) would not be created, or never be placed.

    :param labels: the labels of the namespace.
    """
    spec = template["spec"]
    if any(item["name"] == namespace and item.get("deleting") for item in snapshot.namespaces):
        yield say("namespace {namespace} is being deleted and accepts no new pods", namespace=namespace)
    yield from limit_violations(spec, _ranges(namespace, snapshot))
    violations = forbidden(template, labels)
    if violations:
        yield say(
            "namespace {namespace} ({level}) forbids: {violations:;}",
            namespace=namespace,
            level=level_of(labels),
            violations=violations,
        )
    for name in mounted_claims(spec):
        claim = find_claim(name, namespace, snapshot)
        if claim is not None and claim.get("deleting"):
            # Source: volumebinding/volume_binding.go, podHasPVCs.
            yield say("claim {claim} is being deleted", claim=name)
        elif claim is not None and claim.get("phase") == "Lost":
            yield say(
                "claim {claim} has lost its volume ({volume} no longer exists)",
                claim=name,
                volume=claim.get("volume", "unknown"),
            )


def _ranges(namespace: str, snapshot: Snapshot) -> list[Object]:
    return [entry for entry in snapshot.limit_ranges if entry["namespace"] == namespace]


def _default_tolerations(tolerations: Iterable[Object]) -> Iterator[Object]:
    """Yield the tolerations for not-ready and unreachable nodes, unless the pod tolerates those taints itself.

    Source: ``plugin/pkg/admission/defaulttolerationseconds/admission.go``.
    """
    said = {item.get("key", "") for item in tolerations if item.get("effect", "NoExecute") in ("NoExecute", "")}
    for key in _LOST:
        if not said & {key, ""}:
            yield {"key": key, "operator": "Exists", "effect": "NoExecute"}
