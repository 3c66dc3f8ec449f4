"""What only the platform may set in a container, and images that it does not allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuctl.language.images import is_from
from gpuctl.language.job import RESERVED_LABELS, RESERVED_PREFIXES
from gpuctl.language.settings import Settings
from gpuctl.language.wording import shorten

if TYPE_CHECKING:
    pass


# What training pods get from the platform (2-lowering); a user's own value would break the rendezvous or be lost.
RESERVED_ENV = frozenset(
    {
        "GPUCTL_JOB",
        "GPUCTL_KIND",
        "GPUCTL_NODES",
        "GPUCTL_GPUS_PER_NODE",
        "GPUCTL_EPOCHS",
        "GPUCTL_BATCH_SIZE",
        "GPUCTL_GLOBAL_BATCH_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NNODES",
        "NODE_RANK",
        "NPROC_PER_NODE",
        "PET_NNODES",
        "PET_NODE_RANK",
        "PET_NPROC_PER_NODE",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
    }
)
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
# With these values NVIDIA's runtime gives a container no card.
_NO_DEVICES = ("void", "none", "")
MODEL_ENV = {"MODEL_SOURCE": "source", "MODEL_NAME": "name", "MODEL_VERSION": "version", "MODEL_FORMAT": "format"}


def is_reserved_key(key: str, settings: Settings) -> bool:
    """Whether a label or annotation key is written by gpuctl, or by Kubernetes' own controllers."""
    return (
        key in RESERVED_LABELS
        or key.startswith((f"{settings.domain}/", *RESERVED_PREFIXES))
        or (key.startswith("kueue.x-k8s.io/") and key != "kueue.x-k8s.io/priority-class")
    )


def foreign_image(image: str, registries: Sequence[str]) -> tuple[str, str] | None:
    """That an image is from no registry of the platform's allow list, as message and hint; an empty list allows all."""
    if not registries or any(is_from(image, registry) for registry in registries):
        return None
    message = f"the image `{shorten(image)}` is not from a registry that the platform allows ({', '.join(registries)})"
    return message, "push it to one of them"


def visible_devices(name: str, value: str | None, *, has_gpu: bool) -> tuple[str, str] | None:
    """What is wrong with a variable that says which cards of its node a container sees, as message and hint.

    NVIDIA's runtime gives a container the cards that ``NVIDIA_VISIBLE_DEVICES`` names, whoever they were given to.
    ``value`` is None for one that is read from a Secret.
    """
    if name != VISIBLE_DEVICES or (not has_gpu and value in _NO_DEVICES):
        return None
    if has_gpu:
        message = f"{VISIBLE_DEVICES} is set by the device plugin; another value shows the container other pods' cards"
        return message, "remove it; CUDA_VISIBLE_DEVICES chooses among the pod's own cards"
    message = f"{VISIBLE_DEVICES} shows a container that asks for no GPU the cards of its node, which are other pods'"
    return message, "remove it, or ask for the cards with `resources.gpu`"
