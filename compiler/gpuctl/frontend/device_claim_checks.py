"""Checks of GPUs that pods claim from a driver (DRA)."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.amount_fields import least_memory_of
from gpuctl.language.device_drivers import FIRST_VERSION, MOST_ALTERNATIVES, MOST_DEVICES
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.quantities import parse_quantity

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_MEMORY = ("resources", "gpu-memory")
_NOMINAL = (16, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 256, 288)
"""Sizes of cards by name, GB."""


def check_device_claim(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report fields that need claims for devices (DRA) which the platform does not use, or that no claim can have."""
    resources = model.resources
    if resources.gpu_memory is not None and resources.gpu == 0:
        message = say("`gpu-memory` selects cards, and the job asks for no card")
        yield document.diagnostic(
            ERROR, "GPU213", message, _MEMORY, say("add `gpu: 1`, or remove `gpu-memory`"), key=True
        )
        return
    if resources.gpu_memory is not None and not settings.claims_devices:
        message = say("`gpu-memory` needs claims for devices (DRA), which the platform does not use")
        hint = say("write `gpu: {{allocation: dra}}` in the platform file, or select cards by `gpu-type`")
        yield document.diagnostic(ERROR, "GPU443", message, _MEMORY, hint, key=True)
        return
    if resources.gpu_memory is not None:
        yield from _nominal_memory(document, resources.gpu_memory)
    if resources.gpu == 0 or not settings.claims_devices:
        return
    vendor = resources.gpu_vendor or settings.default_vendor
    if vendor in settings.gpu_chips:
        yield from _unknown_driver(document, model, settings, vendor)
    if settings.queue_of_job(model) is not None:
        yield from alternatives_in_queue(document, model, settings)
    if resources.gpu > MOST_DEVICES:
        message = say(
            "a claim has at most {most} devices, and each pod asks for {gpu} GPUs",
            most=MOST_DEVICES,
            gpu=resources.gpu,
        )
        yield document.diagnostic(ERROR, "GPU425", message, ("resources", "gpu"), say("use several `nodes`"))


def check_allocation(document: Document, settings: Settings) -> Iterator[Diagnostic]:
    """Report a platform that claims devices on a Kubernetes without their API, and vendors with one class."""
    seen: dict[str, str] = {}
    if settings.claims_devices and settings.profile_class in settings.device_classes.values():
        message = say(
            "`{name}` is the DeviceClass of MIG slices and of whole cards",
            name=settings.profile_class,
        )
        hint = say("name the class of the slices, such as `mig.nvidia.com`, in `profileClass`")
        field = "profileClass" if document.is_written(("gpu", "profileClass")) else "classes"
        yield document.diagnostic(ERROR, "GPU218", message, ("gpu", field), hint)
    for vendor, device_class in settings.device_classes.items() if settings.claims_devices else ():
        earlier = seen.setdefault(device_class, vendor)
        if earlier != vendor:
            message = say(
                "{earlier} and {vendor} have one DeviceClass, `{device_class}`: a quota cannot tell them apart",
                earlier=earlier,
                vendor=vendor,
                device_class=device_class,
            )
            path = ("gpu", "classes", vendor if document.is_written(("gpu", "classes", vendor)) else earlier)
            yield document.diagnostic(ERROR, "GPU218", message, path, say("name another class for one of them"))
    if settings.claims_devices and not settings.serves_device_claims:
        version = settings.kubernetes_version
        message = say(
            "`allocation: dra` needs Kubernetes {first}, and `kubernetes.version` is {version}",
            first=FIRST_VERSION,
            version=version,
        )
        hint = say('write `kubernetes: {{version: "{first}"}}` if the cluster has it', first=FIRST_VERSION)
        yield document.diagnostic(ERROR, "GPU443", message, ("gpu", "allocation"), hint)


def alternatives_in_queue(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Warn of a job in a Kueue queue whose claim has alternatives of GPU types.

    Source: Kueue 0.19, ``pkg/dra/claims.go``, countDevicesPerClass.
    """
    known = {name.casefold() for name in settings.products}
    types = [name for name in model.resources.gpu_types if name.casefold() in known]
    if model.resources.gpu and len(types) > 1:
        message = say("Kueue 0.19 admits no job whose claim has alternatives, and `gpu-type` lists several types")
        hint = say("name one type, such as `{name}`", name=types[0])
        yield document.diagnostic(WARNING, "GPU435", message, ("resources", "gpu-type"), hint, key=True)


def _unknown_driver(document: Document, model: Job, settings: Settings, vendor: str) -> Iterator[Diagnostic]:
    """Report GPUs without a DeviceClass, and selectors for cards whose attributes are unknown."""
    resources = model.resources
    if vendor not in settings.device_classes:
        message = say("the platform names no DeviceClass for the GPUs of {vendor}", vendor=vendor)
        hint = say(
            "write the class of its driver in the platform file: `gpu: {{classes: {{{vendor}: CLASS}}}}`", vendor=vendor
        )
        yield document.diagnostic(ERROR, "GPU443", message, ("resources", "gpu"), hint)
        return
    known = {name.casefold() for name in settings.products}
    listed = [name for name in resources.gpu_types if name.casefold() in known]
    if settings.driver_of(resources) is None and (resources.gpu_memory is not None or listed):
        field = "gpu-memory" if resources.gpu_memory is not None else "gpu-type"
        message = say(
            "`{field}` selects cards by attributes of their driver, and gpuctl knows none of {vendor}",
            field=field,
            vendor=vendor,
        )
        hint = say("select cards by a DeviceClass of your own in the platform's `gpu.classes`, and remove the field")
        yield document.diagnostic(ERROR, "GPU443", message, ("resources", field), hint, key=True)
    elif listed and len(listed) < len(resources.gpu_types):
        other = next(name for name in resources.gpu_types if name not in listed)
        message = say(
            "the platform lists product names of `{first}` and none of `{other}`: a claim cannot select both",
            first=listed[0],
            other=other,
        )
        hint = say("add `{other}` to the platform's `gpu.products`", other=other)
        yield document.diagnostic(ERROR, "GPU443", message, ("resources", "gpu-type"), hint, key=True)
    elif len(listed) > MOST_ALTERNATIVES:
        message = say(
            "a claim has at most {most} alternatives, and `gpu-type` lists {number}",
            most=MOST_ALTERNATIVES,
            number=len(listed),
        )
        yield document.diagnostic(
            ERROR, "GPU425", message, ("resources", "gpu-type"), say("list fewer types"), key=True
        )


def _nominal_memory(document: Document, condition: str) -> Iterator[Diagnostic]:
    """Warn about a size that cards have by name and not in full, such as 80Gi of cards of 80 GB."""
    least = parse_quantity(least_memory_of(condition))
    size = least / 2**30 if least is not None else None
    if size in _NOMINAL:
        message = say(
            "cards of {size} GB may report less than {size}Gi, so that `{condition}` selects none of them",
            size=size,
            condition=condition,
        )
        hint = say("write `>={size}G`, or the amount that the driver reports", size=size)
        yield document.diagnostic(WARNING, "GPU424", message, _MEMORY, hint)
