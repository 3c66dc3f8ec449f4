"""Lowers ``storage.workdirs``, /dev/shm and the model cache to volumes and mounts."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gpuctl.backend.code_container import code_volumes
from gpuctl.backend.lowering_context import Context
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.path_fields import normal_path
from gpuctl.language.storage_block import EmptyDirSource, VolumeMount, Workdir
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import GIBIBYTE, MEBIBYTE, format_bytes, parse_quantity

if TYPE_CHECKING:
    # A document without a platform does not load its model, a tenth of a cold start.
    from gpuctl.language.platform_document import StorageDefault

# Extensions of files: the kubelet rejects a file for a directory type and vice versa. Only extensions that directories
# do not have in practice: `/models/llama-3.1` and `run.ckpt` are directories.
FILE_EXTENSIONS = frozenset(
    {
        *(
            ".json",
            ".jsonl",
            ".ndjson",
            ".yaml",
            ".yml",
            ".txt",
            ".csv",
            ".tsv",
            ".parquet",
            ".arrow",
            ".feather",
            ".xml",
        ),
        *(
            ".py",
            ".ipynb",
            ".sh",
            ".toml",
            ".ini",
            ".cfg",
            ".conf",
            ".md",
            ".log",
            ".html",
            ".sql",
            ".pem",
            ".crt",
            ".key",
        ),
        *(".pt", ".pth", ".bin", ".safetensors", ".gguf", ".ggml", ".onnx", ".npy", ".npz", ".pkl", ".h5", ".hdf5"),
        *(".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip", ".7z", ".whl", ".so", ".db", ".sqlite", ".tfrecord"),
        *(".jpg", ".jpeg", ".png", ".mp4", ".wav", ".mp3"),
    }
)

DEFAULT_MODE = "0644"
"""Mode of mounted files without a ``mode`` (SetDefaults_ConfigMapVolumeSource)."""
MODEL_CACHE = "/cache/model"
SHM_PATH = "/dev/shm"  # noqa: S108 - the place where POSIX shared memory lives
LARGEST_SHM = 64 * GIBIBYTE


def volumes_and_mounts(context: Context, document: Document, model: Job) -> tuple[list[Object], list[Object]]:
    """Return the pod's volumes and its container's mounts, in the order of the document."""
    volumes: list[Object] = []
    mounts: list[Object] = []
    for index, workdir in enumerate(model.storage.workdirs):
        name = f"workdir-{index}"
        source, sub_path = _source(workdir, context.settings.platform.storage.default)
        volumes.append({"name": name, **source})
        mount: Object = {"name": name, "mountPath": workdir.target}
        if sub_path:
            mount["subPath"] = sub_path
        if workdir.readOnly:
            mount["readOnly"] = True
        mounts.append(mount)
    for index, entry in enumerate(model.storage.mounts):
        volumes.append({"name": f"mount-{index}", **_mounted(entry)})
        mounts.append({"name": f"mount-{index}", "mountPath": entry.target})
    for index, artifact in enumerate(model.storage.models):
        volumes.append({"name": f"model-{index}", "image": {"reference": artifact.image, "pullPolicy": "IfNotPresent"}})
        mounts.append({"name": f"model-{index}", "mountPath": artifact.target})
    code = code_volumes(context, document, model)
    volumes += code[0]
    mounts += code[1]
    if model.kind == "inference" and model.model is not None and model.model.cache:
        volumes.append({"name": "model-cache", "emptyDir": {}})
        mounts.append({"name": "model-cache", "mountPath": MODEL_CACHE})
    size = shm_size(model)
    if size is not None and all(mount["mountPath"] != SHM_PATH for mount in mounts):
        volumes.append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
        mounts.append({"name": "dshm", "mountPath": SHM_PATH})
    return volumes, mounts


def shm_size(model: Job) -> str | None:
    """Return the size of /dev/shm: as requested; with GPUs half of memory, at most 64Gi; else None (the runtime's 64
    MiB).

    64 MiB is the most reported cause of NCCL failures.
    """
    resources = model.resources
    if resources.shm is not None:
        return resources.shm
    return default_shm(resources.gpu, resources.memory)


@lru_cache(maxsize=1024)
def default_shm(gpu: int, memory: str | None) -> str | None:
    """Return the size of /dev/shm for a job that names no ``shm``."""
    if gpu == 0:
        return None
    total = parse_quantity(memory) if memory is not None else None
    if total is None:
        return format_bytes(LARGEST_SHM)
    half = min(Fraction(LARGEST_SHM), total / 2)
    return format_bytes(max(1, int(half // MEBIBYTE)) * MEBIBYTE)


def host_path_type(path: str, *, read_only: bool) -> str:
    """Return ``File`` if the last segment ends in an extension that only files have, else a directory type.

    A read-only directory must exist: an empty one that the kubelet creates would be mistaken for the data.
    """
    last = path.rstrip("/").rpartition("/")[2].lower()
    dot = last.rfind(".")
    if dot > 0 and last[dot:] in FILE_EXTENSIONS:
        return "File"
    return "Directory" if read_only else "DirectoryOrCreate"


def _source(workdir: Workdir, default: StorageDefault | None) -> tuple[dict[str, Any], str | None]:
    """Return the volume's source, and the directory inside it (None for its root)."""
    path = normal_path(workdir.path)
    if workdir.pvc is not None:
        return {"persistentVolumeClaim": {"claimName": workdir.pvc.claim}}, workdir.pvc.subPath
    if workdir.nfs is not None:
        return {"nfs": {"server": workdir.nfs.server, "path": normal_path(workdir.nfs.path)}}, None
    if workdir.emptyDir is not None:
        return _empty_dir(workdir.emptyDir), None
    if default is not None and workdir.type is None:
        if default.pvc is not None:
            inside = "/".join(part for part in (default.pvc.subPath, path.lstrip("/")) if part)
            return {"persistentVolumeClaim": {"claimName": default.pvc.claim}}, inside
        if default.nfs is not None:
            base = normal_path(default.nfs.path)
            return {"nfs": {"server": default.nfs.server, "path": base + path}}, None
    kind = workdir.type or host_path_type(path, read_only=workdir.readOnly)
    return {"hostPath": {"path": path, "type": kind}}, None


def _empty_dir(source: EmptyDirSource) -> Object:
    empty: Object = {}
    if source.medium:
        empty["medium"] = source.medium
    if source.size is not None:
        empty["sizeLimit"] = source.size
    return {"emptyDir": empty}


def _mounted(mount: VolumeMount) -> Object:
    """Return the source of a mount's volume."""
    if mount.emptyDir is not None:
        return _empty_dir(mount.emptyDir)
    files: Object = {}
    if mount.items:
        files["items"] = [
            {"key": item.key, "path": item.target, **({"mode": int(item.mode, 8)} if item.mode is not None else {})}
            for item in mount.items
        ]
    if mount.mode not in (None, DEFAULT_MODE):
        files["defaultMode"] = int(mount.mode, 8)
    if mount.secret is not None:
        return {"secret": {"secretName": mount.secret, **files}}
    return {"configMap": {"name": mount.configMap, **files}}
