"""The extended resources of a pod's GPUs: whole cards, MIG slices, or shares of HAMi and Volcano."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.backend.lowering_context import Context
from gpuctl.language.gpu_settings import Gpu
from gpuctl.language.kinds import Job
from gpuctl.language.mig_profiles import profile_of, resource_of
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object


def gpu_amounts(context: Context, model: Job, gpu: Gpu) -> dict[str, str]:
    """Return the extended resources: whole cards, MIG slices, or the sharing system's for shares."""
    count = str(model.resources.gpu)
    if model.resources.gpu_profile is not None:
        return {resource_of(model.resources.gpu_profile): count}
    share, part = context.settings.share_of(model.resources), model.resources.share_block
    if share is None or part is None:
        return {gpu.resource: count}
    amounts = {share.number: count} if share.number else {}
    amounts |= {name: str(amount) for name, amount in (share.memory_amount(part.amount) or {}).items()}
    if share.cores and part.core_part is not None:
        amounts[share.cores] = str(share.core_amount(part.core_part))
    return amounts


def gpu_scheduler(context: Context, model: Job, gpu: Gpu) -> str:
    """Return the scheduler that hands out the pod's cards; "" for the cluster's default one."""
    share = context.settings.share_of(model.resources)
    return gpu.card.scheduler if share is None else share.scheduler


def gpu_annotations(context: Context, model: Job) -> dict[str, str]:
    """Return the annotations by which the sharing system recognises what a pod wants."""
    share, part = context.settings.share_of(model.resources), model.resources.share_block
    if share is None or part is None or part.core_part is None or share.core_annotation is None:
        return {}
    return dict([share.core_annotation])


class LiftedGpus(NamedTuple):
    """The vendor and number of a container's GPUs, their MIG profile, and the annotations that gpuctl adds for them."""

    vendor: str | None = None
    number: int = 0
    profile: str | None = None
    annotations: Mapping[str, str] = MappingProxyType({})


def lift_gpus(settings: Settings, container: Object) -> LiftedGpus:
    """Return the GPUs of a container."""
    limits = container.get("resources", {}).get("limits", {})
    for gpu in settings.gpus:
        share = gpu.card.share
        added = {}
        if share is not None and share.core_annotation is not None and share.cores in limits:
            added = dict([share.core_annotation])
        for resource in gpu.card.counted:
            if resource in limits:
                return LiftedGpus(gpu.vendor, int(limits[resource]), annotations=added)
        if share is not None and not share.number and any(part in limits for part in share.parts):
            return LiftedGpus(gpu.vendor, 1)
    for resource, amount in limits.items():
        if (profile := profile_of(resource)) is not None:
            return LiftedGpus("nvidia", int(amount), profile)
    return LiftedGpus()


def lift_share(text: str) -> str | dict[str, str]:
    """Return the share of a card in an annotation, as a document has it."""
    if not text.startswith("{"):
        return text
    try:
        found: dict[str, str] = json.loads(text)
    except ValueError:
        return text
    return found
