"""GPUs that pods request by ResourceClaimTemplates (DRA): they are known before devices are allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.scope import Scope
from gpuctl.objects.api_resources import RESOURCES, Object

TemplateKey = tuple[str, str]
"""Namespace and name of a ResourceClaimTemplate."""


def read_requested_gpus(
    scope: Scope, specs: Iterable[tuple[str, Object]], classes: Collection[str]
) -> dict[TemplateKey, int]:
    """Return template -> GPUs that a claim requests. Nothing is read if no pod names a template.

    :param specs: namespaces and specs of pods.
    :param classes: the DeviceClasses of GPUs.
    """
    namespaces = {namespace for namespace, spec in specs if _templates(spec)}
    if not namespaces:
        return {}
    only = namespaces.pop() if len(namespaces) == 1 else scope.namespace
    try:
        found = scope.session.list_objects(RESOURCES["ResourceClaimTemplate"], only)[0]
    except ApiError as error:
        if not (error.is_missing or error.lacks_permission):
            raise
        return {}
    counts = {(item["metadata"]["namespace"], item["metadata"]["name"]): _gpus(item, classes) for item in found}
    return {key: number for key, number in counts.items() if number is not None}


def requested_gpus(spec: Object, namespace: str, known: Mapping[TemplateKey, int]) -> int:
    """Return the GPUs that the claims of a pod request; templates that are not ``known`` count 0."""
    return sum(known.get((namespace, name), 0) for name in _templates(spec))


def _templates(spec: Object) -> list[str]:
    claims = spec.get("resourceClaims") or []
    return [item["resourceClaimTemplateName"] for item in claims if item.get("resourceClaimTemplateName")]


def _gpus(template: Object, classes: Collection[str]) -> int | None:
    """Return the GPUs of a template's claims; None if their number depends on the devices."""
    total = 0
    for request in template["spec"]["spec"].get("devices", {}).get("requests") or []:
        # Of several alternatives, the first is preferred.
        option = (request.get("firstAvailable") or [request.get("exactly") or {}])[0]
        if option.get("deviceClassName") not in classes or option.get("adminAccess"):
            continue
        if option.get("allocationMode") == "All":
            return None
        total += option.get("count") or 1
    return total
