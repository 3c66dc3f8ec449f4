"""Checks of a job's GPUs: vendor, MIG profile, share of a card, and what a job with GPUs needs besides.

Claims for devices (DRA): :mod:`.device_claim_checks`. GPU types that a pool does not have: :mod:`.pool_links`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuctl.frontend.device_claim_checks import check_device_claim
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.gpu_cards import TITLES
from gpuctl.language.gpu_settings import Gpu
from gpuctl.language.gpu_share_block import GpuShare
from gpuctl.language.kinds import Job
from gpuctl.language.mig_profiles import KNOWN_PROFILES, profiles_of
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean
from gpuctl.objects.quantities import MEBIBYTE, parse_quantity

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_PROFILE = ("resources", "gpu-profile")


def check_gpus(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the GPUs of a job."""
    resources = model.resources
    if resources.gpu_vendor is not None and resources.gpu_vendor not in settings.gpu_chips:
        yield document.diagnostic(
            ERROR,
            "GPU211",
            say("the platform defines no GPU vendor `{vendor}`", vendor=resources.gpu_vendor),
            ("resources", "gpu-vendor"),
            did_you_mean(resources.gpu_vendor, settings.gpu_chips)
            or say("the vendors are {names}", names=list(settings.gpu_chips)),
        )
    yield from check_device_claim(document, model, settings)
    yield from _gpu_profile(document, model, settings)
    yield from _card(document, model, settings)
    yield from _gpu_share(document, model, settings)
    if resources.gpu > 0 and (resources.cpu is None or resources.memory is None):
        missing = [name for name in ("cpu", "memory") if getattr(resources, name) is None]
        yield document.diagnostic(
            WARNING,
            "GPU408",
            say("the job asks for GPUs and names no {missing:and}", missing=missing),
            ("resources", "gpu"),
            say(
                "add {missing:and}: under a quota it would get the default request, a fraction of what a GPU job needs",
                missing=missing,
            ),
            key=True,
        )


def _gpu_profile(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report a MIG profile that cannot be requested, or that no GPU of the wanted types has."""
    resources, profile = model.resources, model.resources.gpu_profile
    if profile is None:
        return
    wrong = None
    if resources.gpu == 0:
        wrong = (
            say("`gpu-profile` divides a card, and the job asks for no card"),
            say("add `gpu: 1`, or remove `gpu-profile`"),
        )
    elif (resources.gpu_vendor or settings.default_vendor) != "nvidia":
        vendor = resources.gpu_vendor or settings.default_vendor
        wrong = (
            say("MIG profiles are of NVIDIA cards, and the job asks for {vendor}", vendor=vendor),
            say("add `gpu-vendor: nvidia`"),
        )
    elif resources.gpu_memory is not None and settings.claims_devices:
        wrong = (
            say("`gpu-memory` selects whole cards, and `gpu-profile` names the memory of a slice"),
            say("keep one of them"),
        )
    if wrong is not None:
        yield document.diagnostic(ERROR, "GPU213", wrong[0], _PROFILE, wrong[1], key=True)
        return
    known = {*KNOWN_PROFILES, *(name for names in settings.profiles.values() for name in names)}
    if not resources.gpu_types and profile not in known:
        message = say("no known GPU can be divided into `{profile}`", profile=profile)
        hint = did_you_mean(profile, sorted(known)) or say(
            "name it in the platform's `gpu.profiles`, below its GPU type"
        )
        yield document.diagnostic(ERROR, "GPU233", message, _PROFILE, hint)
    yield from illegal_profile(document, profile, resources.gpu_types, settings)


def illegal_profile(
    document: Document, profile: str, gpu_types: Iterable[str], settings: Settings
) -> Iterator[Diagnostic]:
    """Report the first of the GPU types that cannot be divided into a profile."""
    for name in gpu_types:
        legal = profiles_of(name, settings.profiles)
        if legal and profile not in legal:
            message = say("a GPU of type `{name}` cannot be divided into `{profile}`", name=name, profile=profile)
            hint = say("its profiles are {legal}; the platform can list others in `gpu.profiles`", legal=list(legal))
            yield document.diagnostic(ERROR, "GPU233", message, _PROFILE, hint)
            return


def check_shared_memory(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report shared memory and RAM disks that are larger than the memory they count as."""
    resources = model.resources
    memory = parse_quantity(resources.memory) if resources.memory else None
    shm = parse_quantity(resources.shm) if resources.shm else None
    if memory is not None and shm is not None and shm > memory:
        message = say(
            "shm ({shm}) is larger than memory ({memory}); it counts as memory",
            shm=resources.shm,
            memory=resources.memory,
        )
        yield document.diagnostic(WARNING, "GPU409", message, ("resources", "shm"), say("raise memory, or lower shm"))
    for field in ("workdirs", "mounts"):
        for index, mount in enumerate(getattr(model.storage, field)):
            disk = mount.emptyDir
            if disk is None or disk.medium != "Memory" or disk.size is None or memory is None:
                continue
            if (parse_quantity(disk.size) or 0) > memory:
                path: FieldPath = ("storage", field, index, "emptyDir", "size")
                message = say(
                    "the RAM disk ({size}) is larger than memory ({memory}); it counts as memory",
                    size=disk.size,
                    memory=resources.memory,
                )
                yield document.diagnostic(WARNING, "GPU409", message, path, say("raise memory, or lower its size"))


def _card(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report GPU types that do not name one chip, where the resource depends on it, and odd numbers of paired cards."""
    resources = model.resources
    vendor = resources.gpu_vendor or settings.default_vendor
    chips = settings.gpu_chips.get(vendor)
    if resources.gpu == 0 or chips is None or settings.claims_devices:
        return
    gpu = settings.gpu_of(resources)
    system = TITLES.get(settings.sharing, "Kubernetes")
    if gpu is None:
        known = [chip for chip in chips if chip]
        message = say(
            "{system} has a resource for each chip of {vendor}, and the job names no chip", system=system, vendor=vendor
        )
        if len(resources.gpu_types) > 1:
            message = say(
                "{system} has a resource for each chip of {vendor}; {types:and} are not of one chip",
                system=system,
                vendor=vendor,
                types=list(resources.gpu_types),
            )
        elif resources.gpu_types:
            message = say(
                "{system} has a resource for each chip of {vendor}, and `{name}` names no chip",
                system=system,
                vendor=vendor,
                name=resources.gpu_types[0],
            )
        key = "gpu-type" if resources.gpu_type is not None else "gpu"
        hint = say(
            "name one of {known} in `gpu-type`, or the resource in the platform's `gpu.vendors.{vendor}.resource`",
            known=known,
            vendor=vendor,
        )
        yield document.diagnostic(ERROR, "GPU240", message, ("resources", key), hint, key=key == "gpu")
    elif gpu.card.in_pairs and resources.gpu % 2 and settings.share_of(resources) is None:
        message = say(
            "{system} hands out cards of {types:or} in pairs, and the job asks for {number}",
            system=system,
            types=list(resources.gpu_types),
            number=resources.gpu,
        )
        hint = say("write `gpu: {number}`", number=resources.gpu + 1)
        yield document.diagnostic(ERROR, "GPU241", message, ("resources", "gpu"), hint)


def _gpu_share(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report shares of cards that nothing enforces, or that the sharing system does not hand out."""
    part = model.resources.share_block
    if part is None or not part.is_part:
        return
    path: FieldPath = ("resources", "gpu-share")
    if model.resources.gpu == 0:
        message = say("`gpu-share` asks for part of a card, and the job asks for no card")
        yield document.diagnostic(ERROR, "GPU213", message, path, say("add `gpu: 1`, or remove `gpu-share`"), key=True)
    elif settings.claims_devices:
        message = say("`gpu-share` divides cards of a device plugin, and the platform claims whole ones (DRA)")
        hint = say("remove it, or have the platform set `gpu.allocation: device-plugin`")
        yield document.diagnostic(ERROR, "GPU443", message, path, hint, key=True)
    elif settings.sharing == "none":
        yield document.diagnostic(
            WARNING,
            "GPU410",
            say("gpu-share is not enforced on this platform: the pod gets whole cards"),
            path,
            say("remove it, or have the platform set `gpu.sharing: hami` or `volcano`"),
            key=True,
        )
    elif model.resources.gpu_profile is None and (gpu := settings.gpu_of(model.resources)) is not None:
        wrong = _wrong_share(model.resources.gpu, part, gpu, settings)
        if wrong is not None:
            message, hint, field = wrong
            if isinstance(model.resources.gpu_share, GpuShare) and field is not None:
                path = (*path, field)
            yield document.diagnostic(ERROR, "GPU241", message, path, hint, key=True)


def _wrong_share(
    number: int, part: GpuShare, gpu: Gpu, settings: Settings
) -> tuple[Sentence, Sentence, str | None] | None:
    """Return why the sharing system does not hand out a share, what to do, and the field of the share; None if it
    does.
    """
    system, share, vendor = TITLES[settings.sharing], gpu.card.share, gpu.vendor
    if share is None:
        return (
            say("no resources of {system} for shares of {vendor} cards are known", system=system, vendor=vendor),
            say("remove it, or name them in the platform's `gpu.vendors.{vendor}.share`", vendor=vendor),
            None,
        )
    if number > 1 and not share.several:
        return (
            say(
                "{system} hands out a share of one {vendor} card, and the job asks for shares of {number}",
                system=system,
                vendor=vendor,
                number=number,
            ),
            say("write `gpu: 1`, or remove `gpu-share`"),
            None,
        )
    if share.memory_amount(part.amount) is None:
        return (
            say(
                "{system} divides {vendor} cards by an amount of memory, and `{memory}` is a fraction",
                system=system,
                vendor=vendor,
                memory=part.memory,
            ),
            say("write an amount, such as `8Gi`"),
            "memory",
        )
    if share.card and part.amount > share.card * MEBIBYTE:
        return (
            say(
                "`{memory}` is more than the {card}Mi of a card ({resource})",
                memory=part.memory,
                card=share.card,
                resource=gpu.resource,
            ),
            say("write at most that, or remove `gpu-share` for the whole card"),
            "memory",
        )
    if part.cores is not None and not share.cores:
        return (
            say("{system} divides the cores of {vendor} cards by the memory", system=system, vendor=vendor),
            say("remove `cores`"),
            "cores",
        )
    return None
