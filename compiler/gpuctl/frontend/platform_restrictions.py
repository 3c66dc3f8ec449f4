"""Restrictions of the platform: reserved keys and variables, disallowed images, and protected paths of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from gpuctl.language.display_text import shorten
from gpuctl.language.images import is_from
from gpuctl.language.kinds import Job
from gpuctl.language.path_fields import normal_path
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.settings import Settings
from gpuctl.language.workload import RESERVED_LABELS, RESERVED_PREFIXES

# Variables that gpuctl sets in training pods. A user's value would break the rendezvous or be lost.
RESERVED_ENV = frozenset(
    {
        "GPUCTL_JOB",
        "GPUCTL_JOB_NAME",
        "GPUCTL_KIND",
        "GPUCTL_NODES",
        "GPUCTL_GPUS_PER_NODE",
        "GPUCTL_ARRAY_INDEX",
        "GPUCTL_ARRAY_SIZE",
        "GPUCTL_ROLE",
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
ELASTIC_ENV = frozenset({"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_MAX_RESTARTS"})
"""Variables that gpuctl sets in the pods of an elastic training only."""
GROUP_ENV = frozenset({"MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK"})
"""Variables that gpuctl sets in the pods of an inference whose replicas span nodes."""
LWS_ENV = frozenset({"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"})
"""Variables that LeaderWorkerSet's webhook sets there, in place of others of these names."""


def reserved_variables(model: Job) -> frozenset[str]:
    """Return the variables that gpuctl sets in the pods of a training; empty for other kinds."""
    if model.kind != "training":
        return frozenset()
    elastic = ELASTIC_ENV if model.resources.node_range is not None else frozenset()
    return RESERVED_ENV.union(elastic, *(role.variable_names for role in model.roles))


VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
# With these values NVIDIA's runtime gives a container no card.
NO_DEVICES = ("void", "none", "")
MODEL_ENV = {"MODEL_SOURCE": "source", "MODEL_NAME": "name", "MODEL_VERSION": "version", "MODEL_FORMAT": "format"}


def is_reserved_key(key: str, settings: Settings) -> bool:
    """Return True if gpuctl or a Kubernetes controller writes this label or annotation key."""
    return (
        key in RESERVED_LABELS
        or key.startswith((f"{settings.domain}/", *RESERVED_PREFIXES))
        or (key.startswith("kueue.x-k8s.io/") and key != "kueue.x-k8s.io/priority-class")
    )


def disallowed_image(image: str, registries: Sequence[str]) -> tuple[Sentence, Sentence] | None:
    """Return message and hint if an image is not from an allowed registry, else None. An empty list allows all."""
    if not registries or any(is_from(image, registry) for registry in registries):
        return None
    message = say(
        "the image `{image}` is not from a registry that the platform allows ({registries})",
        image=shorten(image),
        registries=list(registries),
    )
    return message, say("push it to one of them")


# Paths that let a pod read or change what runs on its node. Each stands for everything below it, and every directory
# that contains it is protected too.
SYSTEM_TREES = (
    *("/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/rancher"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/cni", "/etc/kubernetes", "/etc/cni"),
    *("/etc/ssh", "/etc/shadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/systemd", "/etc/cron.d", "/etc/crontab"),
    *("/etc/ld.so.preload", "/etc/docker", "/etc/containerd", "/root/.ssh", "/root/.kube"),
)
# Protected directories whose subdirectories may hold data.
SYSTEM_DIRECTORIES = frozenset(
    {"/", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/root", "/usr/bin", "/usr/lib"}
)
DATA_DEVICES = ("/dev/shm", "/dev/hugepages", "/dev/infiniband")  # noqa: S108 - paths of nodes
_BELOW_TREES = tuple(f"{tree}/" for tree in SYSTEM_TREES)
_ABOVE_TREES = frozenset(str(parent) for tree in SYSTEM_TREES for parent in PurePosixPath(tree).parents)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def is_device(path: str) -> bool:
    """Return True if a normalised path is shared memory or a data device, which jobs may use."""
    return any(_is_within(path, device) for device in DATA_DEVICES)


def is_system_path(path: str) -> bool:
    """Return True if a normalised path of a node is part of its system, or contains such a path."""
    if path in SYSTEM_DIRECTORIES or path.endswith(".sock"):
        return True
    return path in _ABOVE_TREES or (not is_device(path) and f"{path}/".startswith(_BELOW_TREES))


_SOCKET = Template("`{path}` is a socket of the node: a pod that has it controls the node")
_SYSTEM = Template("`{path}` belongs to the node's system: a pod that has it controls the node")


def forbidden_host_path(path: str, settings: Settings) -> tuple[Sentence, Sentence] | None:
    """Return message and hint for a path of the node that the platform does not allow, else None.

    Without `policy.hostPaths`, all but the node's system is allowed.
    """
    path, allowed = normal_path(path), settings.platform.policy.hostPaths
    if any(_is_within(path, normal_path(directory)) for directory in (*(allowed or ()), *own_host_paths(settings))):
        return None
    if allowed:
        message = say(
            "`{path}` is not a path of the node that the platform allows ({allowed})",
            path=shorten(path),
            allowed=list(allowed),
        )
        return message, say("use one of them, `pvc` or `nfs`, or have the platform add the path to `policy.hostPaths`")
    if allowed is not None:
        message = say("`{path}` is a path of the node, and the platform allows none", path=shorten(path))
        return message, say("use `pvc` or `nfs`, or have the platform add the path to `policy.hostPaths`")
    if not is_system_path(path):
        return None
    template = _SOCKET if path.endswith(".sock") else _SYSTEM
    message = say(template, path=shorten(path))
    return message, say("mount a directory of data, or have the platform allow the path with `policy.hostPaths`")


def own_host_paths(settings: Settings) -> list[str]:
    """Return the paths of nodes that the platform's own defaults and patches mount, sorted. They are always allowed.

    For a path with a template, it is the directory before the template.
    """
    if settings.is_default:
        return []
    partials = [settings.defaults_of(kind) for kind in ("training", "inference", "notebook", "compute")]
    patches = [partial.get("podPatch") for partial in partials]
    patches += [pool.podPatch for pool in settings.external_pools.values()]
    found = [
        path
        for partial in partials
        for workdir in _items(partial, "storage", "workdirs")
        if isinstance(path := workdir.get("path"), str) and not {"pvc", "nfs", "emptyDir"} & workdir.keys()
    ]
    found += [
        path
        for patch in patches
        for volume in _items(patch, "volumes")
        if isinstance(path := (volume.get("hostPath") or {}).get("path"), str)
    ]
    paths = {normal_path(path.partition("{{")[0].rpartition("/")[0] if "{{" in path else path) for path in found}
    return sorted(paths - {"/"})


def _items(value: Any, *fields: str) -> list[dict[str, Any]]:
    """Return the mappings in the list at a path; empty if the path does not exist."""
    for field in fields:
        value = value.get(field) if isinstance(value, dict) else None
    return [item for item in value or () if isinstance(item, dict)]


def visible_devices_problem(name: str, value: str | None, *, has_gpu: bool) -> tuple[Sentence, Sentence] | None:
    """Return message and hint for a variable that selects the cards a container sees, else None.

    NVIDIA's runtime gives a container the cards named by ``NVIDIA_VISIBLE_DEVICES``, even if they are allocated to
    other pods.

    :param value: None if the variable is read from a Secret.
    """
    if name != VISIBLE_DEVICES or (not has_gpu and value in NO_DEVICES):
        return None
    if has_gpu:
        message = say(
            "{name} is set by the device plugin; another value shows the container other pods' cards", name=name
        )
        return message, say("remove it; CUDA_VISIBLE_DEVICES chooses among the pod's own cards")
    message = say(
        "{name} shows a container that asks for no GPU the cards of its node, which are other pods'", name=name
    )
    return message, say("remove it, or ask for the cards with `resources.gpu`")
