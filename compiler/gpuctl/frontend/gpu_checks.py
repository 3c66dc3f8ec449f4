"""Checks of a job's GPUs: vendor, MIG profile, share of a card, and what a job with GPUs needs besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.mig_profiles import KNOWN_PROFILES, profiles_of
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import nearest
from gpuctl.objects.quantities import parse_quantity

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_PROFILE = ("resources", "gpu-profile")


def check_gpus(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the GPUs of a job."""
    resources = model.resources
    if resources.gpu_vendor is not None and settings.gpu_of(resources) is None:
        close = nearest(resources.gpu_vendor, settings.gpus)
        yield document.diagnostic(
            ERROR,
            "GPU211",
            f"the platform defines no GPU vendor `{resources.gpu_vendor}`",
            ("resources", "gpu-vendor"),
            f"did you mean `{close}`?" if close else f"the vendors are {', '.join(settings.gpus)}",
        )
    yield from _gpu_profile(document, model, settings)
    yield from _gpu_share(document, model, settings)
    if resources.gpu > 0 and (resources.cpu is None or resources.memory is None):
        missing = " and ".join(name for name in ("cpu", "memory") if getattr(resources, name) is None)
        yield document.diagnostic(
            WARNING,
            "GPU408",
            f"the job asks for GPUs and names no {missing}",
            ("resources", "gpu"),
            f"add {missing}: under a quota it would get the default request, a fraction of what a GPU job needs",
            key=True,
        )


def _gpu_profile(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report a MIG profile that cannot be requested, or that no GPU of the wanted types has."""
    resources, profile = model.resources, model.resources.gpu_profile
    if profile is None:
        return
    wrong = None
    if resources.gpu == 0:
        wrong = "`gpu-profile` divides a card, and the job asks for no card", "add `gpu: 1`, or remove `gpu-profile`"
    elif resources.gpu_share is not None:
        wrong = "a MIG slice cannot be shared: `gpu-profile` and `gpu-share` both divide a card", "keep one of them"
    elif (resources.gpu_vendor or settings.default_vendor) != "nvidia":
        vendor = resources.gpu_vendor or settings.default_vendor
        wrong = f"MIG profiles are of NVIDIA cards, and the job asks for {vendor}", "add `gpu-vendor: nvidia`"
    if wrong is not None:
        yield document.diagnostic(ERROR, "GPU213", wrong[0], _PROFILE, wrong[1], key=True)
        return
    known = {*KNOWN_PROFILES, *(name for names in settings.profiles.values() for name in names)}
    if not resources.gpu_types and profile not in known:
        close = nearest(profile, sorted(known))
        message = f"no known GPU can be divided into `{profile}`"
        hint = f"did you mean `{close}`?" if close else "name it in the platform's `gpu.profiles`, below its GPU type"
        yield document.diagnostic(ERROR, "GPU233", message, _PROFILE, hint)
    yield from illegal_profile(document, profile, resources.gpu_types, settings)


def illegal_profile(
    document: Document, profile: str, gpu_types: Iterable[str], settings: Settings
) -> Iterator[Diagnostic]:
    """Report the first of the GPU types that cannot be divided into a profile."""
    for name in gpu_types:
        legal = profiles_of(name, settings.profiles)
        if legal and profile not in legal:
            message = f"a GPU of type `{name}` cannot be divided into `{profile}`"
            hint = f"its profiles are {', '.join(legal)}; the platform can list others in `gpu.profiles`"
            yield document.diagnostic(ERROR, "GPU233", message, _PROFILE, hint)
            return


def check_shared_memory(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report shared memory that is larger than the memory it counts as."""
    resources = model.resources
    memory = parse_quantity(resources.memory) if resources.memory else None
    shm = parse_quantity(resources.shm) if resources.shm else None
    if memory is not None and shm is not None and shm > memory:
        message = f"shm ({resources.shm}) is larger than memory ({resources.memory}); it counts as memory"
        yield document.diagnostic(WARNING, "GPU409", message, ("resources", "shm"), "raise memory, or lower shm")


def _gpu_share(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    share = model.resources.gpu_share
    if share is None or parse_quantity(share) == 1:
        return
    path = ("resources", "gpu-share")
    sharing = settings.sharing
    if model.resources.gpu == 0:
        message = "`gpu-share` asks for part of a card, and the job asks for no card"
        yield document.diagnostic(ERROR, "GPU213", message, path, "add `gpu: 1`, or remove `gpu-share`", key=True)
    elif sharing == "none":
        yield document.diagnostic(
            WARNING,
            "GPU410",
            "gpu-share is not enforced on this platform: the pod gets whole cards",
            path,
            "remove it, or have the platform set `gpu.sharing: hami` or `volcano`",
            key=True,
        )
    elif (model.resources.gpu_vendor or settings.default_vendor) != "nvidia":
        message = f"gpu-share is not enforced: {sharing} shares NVIDIA cards only here"
        yield document.diagnostic(WARNING, "GPU410", message, path, "remove it", key=True)
