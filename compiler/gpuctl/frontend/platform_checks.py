"""Checks of the platform's document."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.frontend.device_claim_checks import check_allocation
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean

ERROR = Severity.ERROR


def check_platform(document: Document, versions: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield the errors of a platform. ``versions``: the Kubernetes versions that output can be validated for."""
    platform = document.model
    assert platform.kind == "platform", "called for a platform document"
    version = platform.kubernetes.version
    if version.removeprefix("v") not in versions:
        shown = ".".join(version.removeprefix("v").split(".")[:2])
        hint = (
            say("write `{text}`", text=shown)
            if shown in versions
            else say("the versions are {first} to {last}", first=versions[0], last=versions[-1])
        )
        message = say("kubernetes.version `{version}` is not a supported minor version", version=version)
        yield document.diagnostic(ERROR, "GPU601", message, ("kubernetes", "version"), hint)
    known = Settings(platform).gpu_chips
    if platform.gpu.default is not None and platform.gpu.default not in known:
        hint = did_you_mean(platform.gpu.default, known) or say("define it in `gpu.vendors`")
        message = say("gpu.default `{name}` is not a known vendor", name=platform.gpu.default)
        yield document.diagnostic(ERROR, "GPU211", message, ("gpu", "default"), hint)
    yield from check_allocation(document, Settings(platform))
    storage = platform.storage.default
    if storage is not None and (storage.pvc is None) == (storage.nfs is None):
        message = say("storage.default needs one of `pvc` and `nfs`")
        hint = say("add one of them") if storage.pvc is None else say("keep one")
        yield document.diagnostic(ERROR, "GPU213", message, ("storage", "default"), hint, key=True)
    seen: dict[tuple[str, str | int], str] = {}
    for level, priority in Settings(platform).priorities.items():
        if priority.class_name.startswith("system-"):
            yield document.diagnostic(
                ERROR,
                "GPU207",
                say(
                    "the PriorityClass name `{name}` is reserved: `system-` belongs to Kubernetes",
                    name=priority.class_name,
                ),
                ("priorities", level, "className"),
                say("choose another prefix"),
            )
        for what, key in (("className", priority.class_name), ("value", priority.value)):
            earlier = seen.setdefault((what, key), level)
            if earlier != level:
                message = say(
                    "the priorities {earlier} and {level} have one {what}, `{key}`",
                    earlier=earlier,
                    level=level,
                    what=what,
                    key=key,
                )
                yield document.diagnostic(ERROR, "GPU218", message, ("priorities", level, what), say("change one"))
    yield from _priority_order(document, Settings(platform))
    names_seen: set[str] = set()
    for index, pool in enumerate(platform.pools):
        if pool.name in names_seen:
            message = say("the pool `{name}` is listed twice", name=pool.name)
            yield document.diagnostic(ERROR, "GPU218", message, ("pools", index, "name"), say("remove one"))
        names_seen.add(pool.name)


def _priority_order(document: Document, settings: Settings) -> Iterator[Diagnostic]:
    """Report priorities that are not in the order high, medium, low: the urgent job would be preempted."""
    for upper, lower in (("high", "medium"), ("medium", "low")):
        above, below = settings.priorities[upper].value, settings.priorities[lower].value
        if above < below:
            level = lower if document.is_written(("priorities", lower, "value")) else upper
            message = say(
                "the priority {lower} ({below}) is above {upper} ({above})",
                lower=lower,
                below=below,
                upper=upper,
                above=above,
            )
            hint = say("give {upper} a greater value than {lower}", upper=upper, lower=lower)
            yield document.diagnostic(ERROR, "GPU221", message, ("priorities", level, "value"), hint)
