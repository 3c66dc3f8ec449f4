"""The volumes of a pod as fields of a document."""

from __future__ import annotations

from typing import Any

from gpuctl.importing.draft import Draft
from gpuctl.importing.slurm.slurm_values import whole_number
from gpuctl.importing.source_tree import Path, SourceTree

_MOUNT_KEYS = {"name", "mountPath", "readOnly", "subPath"}
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


def take_mounts(tree: SourceTree, spec: Path, container: Path, draft: Draft) -> None:
    """Take the mounts of a container, with their volumes."""
    volumes = {tree.text((*spec, "volumes", index, "name")): index for index in range(tree.items((*spec, "volumes")))}
    base = (*container, "volumeMounts")
    for index in range(tree.items(base)):
        mount = {key: tree.text((*base, index, key)) or "" for key in tree.keys((*base, index))}
        place = volumes.get(mount.get("name"))
        if place is None or set(mount) - _MOUNT_KEYS or not mount.get("mountPath", "").startswith("/"):
            continue
        volume: Path = (*spec, "volumes", place)
        if mount["mountPath"] == _SHARED_MEMORY == tree.text((*volume, "hostPath", "path")):
            for path in (volume, (*base, index)):
                tree.changed(path, "resources.shm", "a pod has its own shared memory: `resources.shm` is its size")
            continue
        if mount["mountPath"] == _SHARED_MEMORY and tree.node((*volume, "emptyDir")) is not None:
            size = tree.text((*volume, "emptyDir", "sizeLimit"))
            if size is not None:
                draft.set("resources.shm", size, tree.line((*volume, "emptyDir", "sizeLimit")))
            note = None if size is not None else "its size is that of `resources.shm`: by default half of the memory"
            tree.taken(volume, "resources.shm", note)
            tree.mapped((*base, index), "resources.shm")
            continue
        field = _mount(tree, draft, mount, volume, tree.line((*base, index)))
        if field is not None:
            tree.mapped((*base, index), field)
            tree.mapped(volume, field)


def _mount(tree: SourceTree, draft: Draft, mount: dict[str, str], volume: Path, line: int) -> str | None:
    """Add a mount of a volume. Return its field; None if the language has none."""
    target = mount["mountPath"]
    extra: dict[str, Any] = {"readOnly": True} if mount.get("readOnly") == "true" else {}
    claim = tree.text((*volume, "persistentVolumeClaim", "claimName"))
    host, nfs, scratch = (tree.get((*volume, kind)) for kind in ("hostPath", "nfs", "emptyDir"))
    sub = mount.get("subPath")
    if any(tree.text((*volume, kind, "readOnly")) == "true" for kind in ("persistentVolumeClaim", "nfs")):
        extra = {"readOnly": True}
    if claim is not None:
        entry = {"path": target, "pvc": {"claim": claim, **({"subPath": sub} if sub else {})}, **extra}
    elif sub is not None:
        return None
    elif isinstance(host, dict) and str(host.get("path", "")).strip("/"):
        entry = {"path": host["path"], **({"mountPath": target} if target != host["path"] else {}), **extra}
        if host.get("type") in ("Directory", "DirectoryOrCreate", "File", "FileOrCreate"):
            entry["type"] = host["type"]
    elif isinstance(nfs, dict) and {"server", "path"} <= set(nfs):
        entry = {"path": target, "nfs": {"server": nfs["server"], "path": nfs["path"]}, **extra}
    elif isinstance(scratch, dict):
        size = {"size": scratch["sizeLimit"]} if "sizeLimit" in scratch else {}
        medium = {"medium": "Memory"} if scratch.get("medium") == "Memory" else {}
        entry = {"path": target, "emptyDir": {**size, **medium}}
    else:
        return _file_mount(tree, draft, target, volume, line)
    draft.append("storage.workdirs", entry, line)
    return "storage.workdirs"


def _file_mount(tree: SourceTree, draft: Draft, target: str, volume: Path, line: int) -> str | None:
    for kind, key, field in (("configMap", "name", "configMap"), ("secret", "secretName", "secret")):
        data = tree.get((*volume, kind))
        if isinstance(data, dict) and key in data and set(data) <= {key, "items"}:
            entry = {"path": target, field: data[key], **({"items": data["items"]} if "items" in data else {})}
            draft.append("storage.mounts", entry, line)
            return "storage.mounts"
    return None


def take_claims(tree: SourceTree, container: Path, draft: Draft) -> None:
    """Take the claims of a StatefulSet with one pod."""
    if (whole_number(tree.text(("spec", "replicas"))) or 1) > 1:
        return
    mounts: Path = (*container, "volumeMounts")
    names = [tree.text((*mounts, index, "name")) for index in range(tree.items(mounts))]
    for index in range(tree.items(("spec", "volumeClaimTemplates"))):
        path: Path = ("spec", "volumeClaimTemplates", index)
        name, size = (
            tree.text((*path, *at)) for at in (("metadata", "name"), ("spec", "resources", "requests", "storage"))
        )
        if name not in names or size is None:
            continue
        mount = (*mounts, names.index(name))
        target, sub = (tree.text((*mount, key)) for key in ("mountPath", "subPath"))
        kind, access = (tree.text((*path, "spec", *at)) for at in (("storageClassName",), ("accessModes", 0)))
        settings = {"size": size, **({"class": kind} if kind else {}), **({"access": access} if access else {})}
        claim = {"claim": f"{name}-{tree.text(('metadata', 'name'))}-0", "create": settings}
        source = {"pvc": {**claim, **({"subPath": sub} if sub else {})}}
        draft.append("storage.workdirs", {"path": target, **source}, tree.line(mount))
        for key in ("name", "mountPath", "subPath"):
            tree.mapped((*mount, key), "storage.workdirs")
        note = "the claim of the StatefulSet's pod; it stays when the job is deleted"
        tree.changed((*path, "metadata", "name"), "storage.workdirs", note)
        for at in (("resources", "requests", "storage"), ("storageClassName",), ("accessModes", 0)):
            tree.mapped((*path, "spec", *at), "storage.workdirs")
