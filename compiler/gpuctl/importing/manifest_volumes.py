"""The volumes of a pod as fields of a document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpuctl.importing.carried_fields import PodPatch
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.source_tree import Path

VOLUME_FIELDS = ("volumeMounts", "volumeDevices")
"""Fields of a container that name volumes."""
_MOUNT_KEYS = {"name", "mountPath", "readOnly", "subPath"}
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_SHM = "resources.shm"
_FILE = r"\.[a-z]{1,4}\Z|/(?:localtime|timezone|hosts|hostname|machine-id|passwd|group)\Z"
"""End of the path of a file: manifests need no type for one."""
_HOST_TYPES = ("Directory", "DirectoryOrCreate", "File", "FileOrCreate")


class PodVolumes:
    """The volumes of a pod, and the mounts of its containers.

    A volume without a field in the language, or with mounts that have none, is carried in `podPatch`.

    :param program: the path of the container with the program.
    :param others: the paths of the other containers.
    """

    def __init__(self, tree: ConvertedTree, spec: Path, program: Path, others: Sequence[Path]) -> None:
        self.tree = tree
        self.draft = tree.draft
        self.program = program
        self.patch = PodPatch(tree)
        volumes: Path = (*spec, "volumes")
        paths: list[Path] = [(*volumes, index) for index in range(tree.items(volumes))]
        self.volumes = {tree.text((*path, "name")): path for path in paths}
        self.used = [mount for container in (program, *others) for mount in self._mounts(container)]

    def take(self) -> None:
        """Take the mounts of the program, with their volumes."""
        for path in self._mounts(self.program):
            volume = self.volumes.get(self.tree.text((*path, "name")))
            if volume is None:
                continue
            field = self._shared_memory(path, volume) or self._field(path, volume)
            if field is not None:
                self.tree.mapped(path, field)
                self.tree.mapped(volume, field)
            elif self.tree.node(path) is not None:
                self.carry(path, volume, "main")

    def take_further(self, container: Path, name: str) -> None:
        """Take the mounts of another container, which gpuctl gives those of the program."""
        tree = self.tree
        for path in self._mounts(container):
            volume = self.volumes.get(tree.text((*path, "name")))
            if volume is None:
                continue
            of_program = self._same_mount(path)
            if tree.text((*path, "mountPath")) == _SHARED_MEMORY:
                tree.dropped(path, "the program alone has the memory of `resources.shm`")
            elif of_program is None or self._is_carried(volume):
                self.carry(path, volume, name)
            else:
                is_wider = tree.get(path) != tree.get(of_program)
                note = "it has the mounts of the program, which can write here" if is_wider else None
                tree.taken(path, "storage", note)

    def _same_mount(self, path: Path) -> Path | None:
        """Return the program's mount of the same volume at the same path. None: it has none, or cannot write there."""
        tree = self.tree
        mount = tree.get(path)
        for other in self._mounts(self.program):
            found = tree.get(other)
            if not isinstance(mount, dict) or not isinstance(found, dict):
                continue
            if {**found, "readOnly": ""} == {**mount, "readOnly": ""}:
                is_narrower = tree.flag((*other, "readOnly")) and not tree.flag((*path, "readOnly"))
                return None if is_narrower else other
        return None

    def take_unused(self) -> None:
        """Take the volumes that no container mounts."""
        names = {self.tree.text((*path, "name")) for path in self.used}
        for name, path in self.volumes.items():
            if name not in names:
                self.tree.mapped(path, None, "no container mounts it")

    def carry(self, mount: Path, volume: Path, name: str) -> None:
        """Carry a mount of a container, and its volume."""
        self.patch.volume(volume)
        self.patch.of_container(mount, str(mount[-2]), [self.tree.typed(mount)], name)

    def _mounts(self, container: Path) -> list[Path]:
        bases: list[Path] = [(*container, field) for field in VOLUME_FIELDS]
        return [(*base, index) for base in bases for index in range(self.tree.items(base))]

    def _is_carried(self, volume: Path) -> bool:
        return self.tree.typed(volume) in (self.draft.get("podPatch.volumes") or [])

    def _shared_memory(self, path: Path, volume: Path) -> str | None:
        """Take a mount of shared memory. Return its field; None if it is another mount."""
        tree = self.tree
        if tree.text((*path, "mountPath")) != _SHARED_MEMORY:
            return None
        if tree.text((*volume, "hostPath", "path")) == _SHARED_MEMORY:
            for part in (volume, path):
                tree.changed(part, _SHM, "a pod has its own shared memory: `resources.shm` is its size")
            return _SHM
        if tree.node((*volume, "emptyDir")) is None:
            return None
        size = tree.text((*volume, "emptyDir", "sizeLimit"))
        if size is None and not self.draft.get("resources.gpu"):
            # Only pods with GPUs get shared memory by default.
            return None
        if size is not None:
            self.draft.set(_SHM, size, tree.line((*volume, "emptyDir", "sizeLimit")))
        note = None if size is not None else "its size is that of `resources.shm`: by default half of the memory"
        tree.taken(volume, _SHM, note)
        return _SHM

    def _field(self, path: Path, volume: Path) -> str | None:
        """Add a mount to the document. Return its field; None if the language has none."""
        tree = self.tree
        mount: dict[str, Any] = {key: tree.text((*path, key)) or "" for key in tree.keys(path)}
        mount["readOnly"] = tree.flag((*path, "readOnly")) or False
        if set(mount) - _MOUNT_KEYS or not mount.get("mountPath", "").startswith("/"):
            return None
        if tree.node((*volume, "emptyDir")) is not None and not self._is_one_directory(mount["name"]):
            return None
        return _mount(tree, mount, volume, tree.line(path))

    def _is_one_directory(self, name: str) -> bool:
        """Return True if all containers mount a volume at one path: in documents each path is another directory."""
        mounts = [path for path in self.used if self.tree.text((*path, "name")) == name]
        places = {self.tree.text((*path, "mountPath")) for path in mounts}
        return len(places) == 1 and all(set(self.tree.keys(path)) <= {"name", "mountPath"} for path in mounts)


def _mount(tree: ConvertedTree, mount: dict[str, Any], volume: Path, line: int) -> str | None:
    """Add a mount of a volume. Return its field; None if the language has none."""
    target = mount["mountPath"]
    extra: dict[str, Any] = {"readOnly": True} if mount.get("readOnly") else {}
    claim = tree.text((*volume, "persistentVolumeClaim", "claimName"))
    host, nfs, scratch = (tree.get((*volume, kind)) for kind in ("hostPath", "nfs", "emptyDir"))
    sub = mount.get("subPath")
    if any(tree.flag((*volume, kind, "readOnly")) for kind in ("persistentVolumeClaim", "nfs")):
        extra = {"readOnly": True}
    if claim is not None:
        entry = {"path": target, "pvc": {"claim": claim, **({"subPath": sub} if sub else {})}, **extra}
    elif sub is not None:
        return None
    elif isinstance(host, dict) and str(host.get("path", "")).strip("/") and host.get("type", "") in ("", *_HOST_TYPES):
        entry = {"path": host["path"], **({"mountPath": target} if target != host["path"] else {}), **extra}
        if host.get("type"):
            entry["type"] = host["type"]
        elif re.search(_FILE, host["path"]) is not None:
            entry["type"] = "File"
            tree.changed(volume, "storage.workdirs", "its name is that of a file, and without a type it is a directory")
    elif isinstance(nfs, dict) and {"server", "path"} <= set(nfs):
        entry = {"path": target, "nfs": {"server": nfs["server"], "path": nfs["path"]}, **extra}
    elif isinstance(scratch, dict) and scratch.get("medium", "") in ("", "Memory"):
        size = {"size": scratch["sizeLimit"]} if "sizeLimit" in scratch else {}
        medium = {"medium": "Memory"} if scratch.get("medium") == "Memory" else {}
        entry = {"path": target, "emptyDir": {**size, **medium}}
    else:
        return _file_mount(tree, target, volume, line)
    tree.draft.append("storage.workdirs", entry, line)
    return "storage.workdirs"


def _file_mount(tree: ConvertedTree, target: str, volume: Path, line: int) -> str | None:
    for kind, key, field in (("configMap", "name", "configMap"), ("secret", "secretName", "secret")):
        data = tree.get((*volume, kind))
        if isinstance(data, dict) and key in data and set(data) <= {key, "items"}:
            entry = {"path": target, field: data[key], **({"items": data["items"]} if "items" in data else {})}
            tree.draft.append("storage.mounts", entry, line)
            return "storage.mounts"
    return None


def take_claims(tree: ConvertedTree, container: Path) -> None:
    """Take the claims of a StatefulSet with one pod."""
    if (tree.number(("spec", "replicas")) or 1) > 1:
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
        tree.draft.append("storage.workdirs", {"path": target, **source}, tree.line(mount))
        for key in ("name", "mountPath", "subPath"):
            tree.mapped((*mount, key), "storage.workdirs")
        note = "the claim of the StatefulSet's pod; it stays when the job is deleted"
        tree.changed((*path, "metadata", "name"), "storage.workdirs", note)
        for at in (("resources", "requests", "storage"), ("storageClassName",), ("accessModes", 0)):
            tree.mapped((*path, "spec", *at), "storage.workdirs")
