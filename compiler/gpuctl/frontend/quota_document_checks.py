"""Checks of quota documents that need several fields or the platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.names import KUBERNETES_NAMESPACES
from gpuctl.language.quota_document import QuotaDocument, QuotaEntry
from gpuctl.language.sentences import Template, say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

_LIMITS = ("cpu", "memory", "gpu", "gpu_types", "gpu_profiles", "maxJobs")
_NEED_KUEUE = {
    "gpu_types": ("gpu-types", Template("a ResourceQuota cannot limit the GPUs of a type; Kueue can")),
    "borrow": ("borrow", Template("users of a ResourceQuota cannot borrow; Kueue can")),
    "weight": ("weight", Template("users of a ResourceQuota cannot borrow, so that weights have no effect; Kueue can")),
}
"""Fields that only Kueue serves: the key, and the reason."""


def check_quota(document: Document, model: QuotaDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a quota."""
    yield from _claimed_devices(document, model, settings)
    yield from _several_chips(document, model, settings)
    for name, entry in (model.users or model.namespace or {}).items():
        path: Path = (model.entries_key, name)
        if name in KUBERNETES_NAMESPACES:
            message = say(
                "a quota on the namespace `{name}` limits all users without a namespace of their own", name=name
            )
            yield document.diagnostic(WARNING, "GPU415", message, path, say("name a user or a team"), key=True)
        yield from _entry(document, entry, path, settings)
    if model.default is not None:
        yield from _entry(document, model.default, ("default",), settings)
    for name, filled in model.entries.items():
        path = (model.entries_key, name)
        if all(getattr(filled, field) is None for field in _LIMITS):
            message = say("the quota limits nothing for `{name}`", name=name)
            hint = say("add cpu, memory, gpu or maxJobs")
            yield document.diagnostic(ERROR, "GPU201", message, path, hint, key=True)
        elif filled.borrow is not None and filled.gpu is None and not filled.gpu_types:
            message = say("`borrow` adds to a limit of GPUs, and `{name}` has none", name=name)
            yield document.diagnostic(ERROR, "GPU231", message, path, say("add `gpu` or `gpu-types`"), key=True)


Path = tuple[str | int, ...]


def _written_entries(model: QuotaDocument) -> Iterator[tuple[Path, QuotaEntry]]:
    for name, entry in (model.users or model.namespace or {}).items():
        yield (model.entries_key, name), entry
    if model.default is not None:
        yield ("default",), model.default


def _several_chips(document: Document, model: QuotaDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Note once for each vendor that its limit is one of each of its extended resources: no quota adds resources."""
    seen: set[str] = set()
    for path, entry in _written_entries(model):
        limits = {settings.default_vendor: entry.gpu} if isinstance(entry.gpu, int) else entry.gpu or {}
        for vendor, number in limits.items():
            chips = settings.gpu_chips.get(vendor, {}).values()
            resources = list(dict.fromkeys(name for gpu in chips for name in gpu.card.counted))
            if number and len(resources) > 1 and vendor not in seen:
                seen.add(vendor)
                message = say(
                    "the limit of {vendor} GPUs is {number} of each of {resources}, not of their sum",
                    vendor=vendor,
                    number=number,
                    resources=[f"`{name}`" for name in resources],
                )
                place = (*path, "gpu", vendor) if isinstance(entry.gpu, dict) else (*path, "gpu")
                hint = say("nothing to do if nodes have one of them; `gpu-types` (Kueue) has a limit for each type")
                yield document.diagnostic(NOTE, "GPU436", message, place, hint, key=True)


def _claimed_devices(document: Document, model: QuotaDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Warn once of limits on GPUs that pods claim (DRA): Kueue counts claims by its own table of DeviceClasses."""
    if not settings.claims_devices:
        return
    entries = dict(_written_entries(model))
    if not settings.has_quota_queues:
        yield from _slices_together(document, entries)
        return
    limited = [
        (*path, key)
        for path, entry in entries.items()
        for key, limit in (("gpu", entry.gpu), ("gpu-types", entry.gpu_types), ("gpu-profiles", entry.gpu_profiles))
        if limit is not None
    ]
    if not limited:
        return
    vendor = settings.default_vendor
    device_class = settings.device_classes.get(vendor, "CLASS")
    resource = next(iter(settings.gpu_chips[vendor].values())).resource if vendor in settings.gpu_chips else "RESOURCE"
    whole = say("`{device_class}` to `{resource}`", device_class=device_class, resource=resource)
    slices = say("`{device_class}` to the resource of one profile", device_class=settings.profile_class)
    mapped = dict.fromkeys(slices if path[-1] == "gpu-profiles" else whole for path in limited)
    message = say("Kueue counts the GPUs that pods claim (DRA) only if its configuration lists their DeviceClass")
    hint = say(
        "map {mapped:and} in `resources.deviceClassMappings` of Kueue's configuration; without it Kueue admits no job "
        "that claims GPUs (before 0.18: all of them)",
        mapped=list(mapped),
    )
    yield document.diagnostic(WARNING, "GPU433", message, limited[0], hint, key=True)


def _slices_together(document: Document, entries: Mapping[Path, QuotaEntry]) -> Iterator[Diagnostic]:
    """Warn once of limits on several MIG profiles: a ResourceQuota counts claims by DeviceClass."""
    for path, entry in entries.items():
        if len(entry.gpu_profiles or {}) > 1:
            total = sum((entry.gpu_profiles or {}).values())
            message = say(
                "a ResourceQuota counts claims by DeviceClass: the limit is {total} slices of all profiles together",
                total=total,
            )
            hint = say("limit one profile, or accept the common limit")
            yield document.diagnostic(WARNING, "GPU434", message, (*path, "gpu-profiles"), hint, key=True)
            return


def _entry(document: Document, entry: QuotaEntry, path: Path, settings: Settings) -> Iterator[Diagnostic]:
    for vendor in entry.gpu if isinstance(entry.gpu, dict) else ():
        if vendor not in settings.gpu_chips:
            hint = did_you_mean(vendor, settings.gpu_chips) or say(
                "the vendors are {names}", names=list(settings.gpu_chips)
            )
            message = say("the platform defines no GPU vendor `{vendor}`", vendor=vendor)
            yield document.diagnostic(ERROR, "GPU211", message, (*path, "gpu", vendor), hint, key=True)
    for field, (key, reason) in _NEED_KUEUE.items():
        if getattr(entry, field) is not None and not settings.has_quota_queues:
            hint = say("set `quota: {{backend: kueue}}` in platform.yaml, or remove the line")
            yield document.diagnostic(ERROR, "GPU230", say(reason), (*path, key), hint, key=True)
    for gpu_type in entry.gpu_types or ():
        if any(isinstance(value, list) for value in settings.gpu_types.get(gpu_type, {}).values()):
            message = say(
                "nodes of GPU type `{gpu_type}` have one of several labels, and a limit of Kueue counts one",
                gpu_type=gpu_type,
            )
            hint = say("have the platform's `gpu.types` give the type a label of one value, or use `gpu`")
            yield document.diagnostic(ERROR, "GPU231", message, (*path, "gpu-types", gpu_type), hint, key=True)
        elif gpu_type in settings.products and settings.has_quota_queues:
            message = say(
                "claims select cards of `{gpu_type}` by product name, and a limit of Kueue counts labels of nodes",
                gpu_type=gpu_type,
            )
            hint = say("remove the type from the platform's `gpu.products`, or use `gpu`")
            yield document.diagnostic(ERROR, "GPU231", message, (*path, "gpu-types", gpu_type), hint, key=True)
