"""The extended resources of a pod's GPUs: whole cards, MIG slices, or shares of HAMi and Volcano."""

from __future__ import annotations

import math

from gpuctl.backend.lowering_context import Context
from gpuctl.language.kinds import Job
from gpuctl.language.mig_profiles import profile_of, resource_of
from gpuctl.language.settings import Gpu, Settings
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import MEBIBYTE, parse_quantity


def is_shared(context: Context, model: Job) -> bool:
    """Return True if the pod gets a share of a card and a system enforces it."""
    return context.settings.is_shared(model.resources)


def gpu_amounts(context: Context, model: Job, gpu: Gpu) -> dict[str, str]:
    """Return the extended resources: whole cards, MIG slices, or HAMi's and Volcano's keys for shares."""
    count = str(model.resources.gpu)
    if model.resources.gpu_profile is not None:
        return {resource_of(model.resources.gpu_profile): count}
    share = parse_quantity(model.resources.gpu_share or "1")
    if not is_shared(context, model) or share is None:
        return {gpu.resource: count}
    percent = str(max(1, math.floor(share * 100)))
    mebibytes = str(math.ceil(share / MEBIBYTE))
    if context.settings.sharing == "hami":
        amount = {"nvidia.com/gpumem-percentage": percent} if share < 1 else {"nvidia.com/gpumem": mebibytes}
        return {gpu.resource: count, **amount}
    amount = {"volcano.sh/vgpu-memory-percentage": percent} if share < 1 else {"volcano.sh/vgpu-memory": mebibytes}
    return {"volcano.sh/vgpu-number": count, **amount}


def lift_gpus(settings: Settings, container: Object) -> tuple[str | None, int, str | None]:
    """Return the vendor and number of a container's GPUs, and their MIG profile; (None, 0, None) without GPUs."""
    limits = container.get("resources", {}).get("limits", {})
    if "volcano.sh/vgpu-number" in limits:
        return "nvidia", int(limits["volcano.sh/vgpu-number"]), None
    for gpu in settings.gpus.values():
        if gpu.resource in limits:
            return gpu.vendor, int(limits[gpu.resource]), None
    for resource, amount in limits.items():
        if (profile := profile_of(resource)) is not None:
            return "nvidia", int(amount), profile
    return None, 0, None
