"""The ResourceClaimTemplates by which pods claim GPUs of a driver (DRA), and their lift.

The spec of a template cannot change, so its name has a hash of it: a changed request is another template, and changes
the pod template that names it. Pods that run keep their claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata
from gpuctl.frontend.document import Document
from gpuctl.frontend.role_views import pod_documents
from gpuctl.language.amount_fields import least_memory_of
from gpuctl.language.device_drivers import least_memory, products_in, profile_in
from gpuctl.language.kinds import Job
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.companion_names import claim_template_name
from gpuctl.objects.json_digest import json_digest

GPU_CLAIM = "gpu"
"""Name of the claim in a pod and its container, and of its request."""


class LiftedClaim(NamedTuple):
    """The GPUs of a claim in terms of a document."""

    vendor: str
    gpus: int
    types: Sequence[str] = ()
    memory: str | None = None
    profile: str | None = None


def selects_products(settings: Settings, gpu_types: Iterable[str]) -> bool:
    """Return True if claims select these GPU types by product name, and not nodes by their labels."""
    types = list(gpu_types)
    return bool(types) and all(name in settings.products for name in types)


def claim_templates(context: Context, document: Document, model: Job, name: str) -> Iterator[Object]:
    """Yield the templates of a job's claims: one, or one for each different request of its roles.

    :param name: the name of the workload.
    """
    specs = (_spec(context, view, part) for view, part in pod_documents(document, model))
    yield from {
        template["metadata"]["name"]: template
        for template in (_template(context, document, model, name, spec) for spec in specs if spec is not None)
    }.values()


def _template(context: Context, document: Document, model: Job, name: str, spec: Object) -> Object:
    resource = RESOURCES["ResourceClaimTemplate"]
    labels = identity_labels(context, document, model)
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata(claim_template_name(name, json_digest(spec)), document.namespace, labels),
        "spec": {"spec": spec},
    }


def pod_claims(context: Context, document: Document, model: Job, name: str) -> list[Object]:
    """Return the claims of a pod, which its container names; empty if it gets its GPUs otherwise, or none.

    :param name: the name of the workload.
    """
    spec = _spec(context, document, model)
    if spec is None:
        return []
    return [{"name": GPU_CLAIM, "resourceClaimTemplateName": claim_template_name(name, json_digest(spec))}]


def _spec(context: Context, document: Document, model: Job) -> Object | None:
    """Return the spec of a pod's claim; None without one."""
    resources = model.resources
    device_class = context.settings.device_class_of(resources)
    if device_class is None:
        return None
    driver = context.settings.driver_of(resources)
    common: list[str] = []
    if resources.gpu_profile is not None and driver is not None:
        common.append(driver.has_profile(resources.gpu_profile))
    if resources.gpu_memory is not None and driver is not None:
        common.append(driver.has_memory(least_memory_of(resources.gpu_memory)))
    request: Object = {"deviceClassName": device_class}
    amount = {"allocationMode": "ExactCount", "count": resources.gpu}
    types = document.gpu_types if selects_products(context.settings, document.gpu_types) else ()
    if driver is None or not types:
        return _request({"exactly": {**request, **_selectors(common), **amount}})
    options = [
        {**request, **_selectors([driver.is_product(context.settings.products[name]), *common]), **amount}
        for name in types
    ]
    if len(options) == 1:
        return _request({"exactly": options[0]})
    return _request({"firstAvailable": [{"name": f"type-{place}", **one} for place, one in enumerate(options, 1)]})


def _request(form: Object) -> Object:
    return {"devices": {"requests": [{"name": GPU_CLAIM, **form}]}}


def _selectors(expressions: Sequence[str]) -> Object:
    return {"selectors": [{"cel": {"expression": text}} for text in expressions]} if expressions else {}


def lift_claim(settings: Settings, pod: Object, templates: Iterable[Object]) -> LiftedClaim | None:
    """Return the GPUs that a pod claims by one of gpuctl's templates; None without one."""
    names = {
        claim.get("resourceClaimTemplateName")
        for claim in pod.get("resourceClaims") or []
        if claim["name"] == GPU_CLAIM
    }
    template = next((item for item in templates if item["metadata"]["name"] in names), None)
    requests = template["spec"]["spec"]["devices"]["requests"] if template is not None else []
    if len(requests) != 1:
        return None
    options = requests[0].get("firstAvailable") or [requests[0].get("exactly") or {}]
    found = [_lift_option(settings, option) for option in options]
    whole = [option for option in found if option is not None]
    if len(whole) != len(options):
        return None
    return whole[0]._replace(types=[name for option in whole for name in option.types])


def _lift_option(settings: Settings, option: Object) -> LiftedClaim | None:
    classes = {device_class: vendor for vendor, device_class in reversed(settings.device_classes.items())}
    vendor = classes.get(option.get("deviceClassName", ""))
    if option.get("deviceClassName") == settings.profile_class:
        vendor = "nvidia"
    if vendor is None:
        return None
    result = LiftedClaim(vendor, option.get("count", 1))
    for selector in option.get("selectors") or []:
        expression = selector["cel"]["expression"]
        memory, products = least_memory(expression), products_in(expression)
        if memory is not None:
            result = result._replace(memory=f">={memory}")
        elif (profile := profile_in(expression)) is not None:
            result = result._replace(profile=profile)
        elif products is not None:
            types = [name for name, own in settings.products.items() if list(own) == products]
            result = result._replace(types=types[:1])
    return result
