"""Lowers ``kind: quota`` to a ResourceQuota or queues of Kueue, and a LimitRange, for each user's namespace."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import metadata, placement_annotation
from gpuctl.backend.quota_queues import queues
from gpuctl.language.device_drivers import class_limit
from gpuctl.language.mig_profiles import resource_of
from gpuctl.language.quota_document import QuotaDocument, QuotaEntry
from gpuctl.objects.api_resources import Object
from gpuctl.objects.label_names import managed_labels

_JOBS = "count/jobs.batch"


def lower_quota(context: Context, model: QuotaDocument) -> Iterator[tuple[str, list[Object]]]:
    """Yield for each namespace, in the order written, its ResourceQuota and LimitRange.

    With Kueue, its queues limit the requests, and a ResourceQuota only the number of Jobs.
    """
    quota = model.header.name
    annotations = placement_annotation(context, model)
    if model.header.description is not None:
        annotations[context.label("description")] = model.header.description
    for namespace, entry in model.entries.items():
        labels = {**managed_labels(), context.label("quota"): quota}
        name = f"{quota}-{namespace}"
        hard = job_limit(entry) if context.settings.has_quota_queues else hard_limits(context, entry)
        resource_quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata(name, namespace, labels, annotations),
            "spec": {"hard": hard},
        }
        limit_range = {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata(name, namespace, labels, annotations),
            "spec": {"limits": [_default_request(context)]},
        }
        if not context.settings.has_quota_queues:
            yield namespace, [resource_quota, limit_range]
            continue
        yield namespace, [*queues(context, model, namespace, entry), *([resource_quota] if hard else []), limit_range]


def hard_limits(context: Context, entry: QuotaEntry) -> dict[str, str]:
    """Return ``spec.hard``. Only the ``requests.`` form of a GPU key is enforced; the bare key is accepted and ignored.

    ``limits.*`` is not set: it would make limits mandatory for every pod.
    """
    hard: dict[str, str] = {}
    if entry.cpu is not None:
        hard["requests.cpu"] = entry.cpu
    if entry.memory is not None:
        hard["requests.memory"] = entry.memory
    if entry.gpu is not None:
        numbers = entry.gpu if isinstance(entry.gpu, dict) else {context.settings.default_vendor: entry.gpu}
        # Vendors that the entry does not name are set to 0, because a quota does not limit resources it omits.
        for vendor in dict.fromkeys([*numbers, *context.settings.used_vendors]):
            for gpu in context.settings.gpu_chips.get(vendor, {}).values():
                hard |= {f"requests.{name}": str(numbers.get(vendor, 0)) for name in gpu.card.counted}
            # Extended resources do not count claims, unless their DeviceClass offers the resource, too.
            if context.settings.claims_devices and vendor in context.settings.device_classes:
                hard[class_limit(context.settings.device_classes[vendor])] = str(numbers.get(vendor, 0))
    if entry.gpu is not None or entry.gpu_profiles is not None:
        named = entry.gpu_profiles or {}
        listed = (profile for profiles in context.settings.profiles.values() for profile in profiles)
        for profile in dict.fromkeys([*named, *listed]):
            hard[f"requests.{resource_of(profile)}"] = str(named.get(profile, 0))
        if context.settings.claims_slices or (named and context.settings.claims_devices):
            hard[class_limit(context.settings.profile_class)] = str(sum(named.values()))
    return hard | job_limit(entry)


def job_limit(entry: QuotaEntry) -> dict[str, str]:
    """Return the part of ``spec.hard`` that counts Jobs."""
    return {} if entry.maxJobs is None else {_JOBS: str(entry.maxJobs)}


def _default_request(context: Context) -> Object:
    """Return the requests for containers that name none, which a quota would reject.

    Only ``defaultRequest``: a ``default`` limit would reject pods that request more.
    """
    default = context.settings.platform.quota.defaultRequest
    return {"type": "Container", "defaultRequest": {"cpu": default.cpu, "memory": default.memory}}
