"""GPUs that pods request by ResourceClaimTemplates (DRA): they are known before devices are allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpuctl.capacity.snapshot.device_entries import ADMIN_ACCESS, resource_claim_template_entry
from gpuctl.kube.api_errors import if_allowed
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
    found = if_allowed(lambda: scope.session.list_objects(RESOURCES["ResourceClaimTemplate"], only)[0], [])
    templates = map(resource_claim_template_entry, found)
    counts = {(item["namespace"], item["name"]): _gpus(item["requests"], classes) for item in templates}
    return {key: number for key, number in counts.items() if number is not None}


def requested_gpus(spec: Object, namespace: str, known: Mapping[TemplateKey, int]) -> int:
    """Return the GPUs that the claims of a pod request; templates that are not ``known`` count 0."""
    return sum(known.get((namespace, name), 0) for name in _templates(spec))


def _templates(spec: Object) -> list[str]:
    claims = spec.get("resourceClaims") or []
    return [item["resourceClaimTemplateName"] for item in claims if item.get("resourceClaimTemplateName")]


def _gpus(requests: Iterable[list[Object]], classes: Collection[str]) -> int | None:
    """Return the GPUs of a template's claims; None if their number depends on the devices."""
    total = 0
    for options in filter(None, requests):
        # Of several alternatives, the first is preferred. Admin access holds no device.
        preferred = options[0]
        if preferred["class"] not in classes or preferred.get("uncounted") == ADMIN_ACCESS:
            continue
        if preferred.get("all"):
            return None
        total += preferred["count"]
    return total
