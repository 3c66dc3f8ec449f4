"""The ``storage:`` block: volumes mounted into the container."""

import re
from typing import Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Memory, PositiveQuantity
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import REMOVE_IT, Exclusion, one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Boolean, DataKey, Image, ObjectName, Server, empty_list
from gpuctl.language.path_fields import AbsolutePath, FileMode, RelativePath, normal_path
from gpuctl.language.sentences import Template, say
from gpuctl.language.spelling import suggest_name
from gpuctl.objects.quantities import MEBIBYTE, parse_quantity

HostPathType = Literal["Directory", "DirectoryOrCreate", "File", "FileOrCreate"]

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"]
DEFAULT_ACCESS: AccessMode = "ReadWriteOnce"
ONE_NODE_ACCESS = ("ReadWriteOnce", "ReadWriteOncePod")
"""Access modes with which pods on one node can mount a claim at a time."""


class NewClaim(Block):
    """The PersistentVolumeClaim to create if it does not exist. gpuctl never changes or deletes it."""

    size: PositiveQuantity = Field(description="Requested size.", examples=["100Gi"])
    storage_class: ObjectName | None = Field(
        None,
        alias="class",
        description="Name of the StorageClass. Default: the cluster's default class.",
        examples=["shared-nfs"],
    )
    access: AccessMode = Field(
        DEFAULT_ACCESS,
        description="Access mode. `ReadWriteMany` is for pods on several nodes; the class must support it.",
        examples=["ReadWriteMany"],
    )

    @model_validator(mode="after")
    def _is_volume(self) -> "NewClaim":
        amount = parse_quantity(self.size)
        if amount is not None and amount < MEBIBYTE:
            digits = re.match(r"\d+", self.size)
            raise field_error(
                "GPU208",
                say("`{size}` is less than 1Mi, the smallest volume of most storage systems", size=self.size),
                suggest_name(f"{digits[0]}Gi") if digits else None,
                ("size",),
            )
        return self


class ClaimSource(Block):
    """A PersistentVolumeClaim in the job's namespace."""

    claim: ObjectName = Field(description="Name of the PersistentVolumeClaim.", examples=["datasets"])
    subPath: RelativePath | None = Field(  # noqa: N815
        None, description="Directory inside the volume.", examples=["qwen2"]
    )


class WorkdirClaim(ClaimSource):
    """A PersistentVolumeClaim in the job's namespace, which may be created."""

    create: NewClaim | None = Field(
        None,
        description="Create the claim if it does not exist. Default: the claim must exist.",
        examples=[{"size": "100Gi"}],
    )


class NfsSource(Block):
    """A directory of an NFS server."""

    server: Server = Field(description="Host name or address of the server.", examples=["nfs.example.com"])
    path: AbsolutePath = Field(description="Directory exported by the server.", examples=["/exports/models"])


class EmptyDirSource(Block):
    """Scratch space with the lifetime of the pod."""

    size: Memory | None = Field(None, description="Maximum size.", examples=["100Gi"])
    medium: Literal["", "Memory"] = Field(
        "", description="`Memory` for a RAM disk (counts as the pod's memory).", examples=["Memory"]
    )


_WORKDIR_SOURCES = ("pvc", "nfs", "emptyDir")
_OF_NODE = Template("`type` describes a path on the node, and this workdir is {first}")


class Workdir(Block):
    """One mount: by default a directory of the node, at the same path in the container."""

    exclusions = (
        *one_of(*_WORKDIR_SOURCES, message=Template("a workdir has both {first} and {second}")),
        *(Exclusion(source, ("type",), _OF_NODE, REMOVE_IT) for source in _WORKDIR_SOURCES),
    )

    path: AbsolutePath = Field(
        description="Path on the node, and inside the container unless `mountPath` is set.",
        examples=["/data/models"],
    )
    mountPath: AbsolutePath | None = Field(  # noqa: N815
        None, description="Path inside the container. Default: `path`.", examples=["/models"]
    )
    type: HostPathType | None = Field(
        None,
        description="Type of `path` on the node. Default: `File` when the last segment ends in a well-known file "
        "extension (.json, .yaml, .csv, .safetensors ...); otherwise `Directory` with `readOnly`, which must "
        "exist, and `DirectoryOrCreate` without.",
        examples=["Directory"],
    )
    readOnly: Boolean = Field(  # noqa: N815
        False, description="Mount read-only. A directory of the node is then never created.", examples=[True]
    )
    pvc: WorkdirClaim | None = Field(
        None, description="Mount a PersistentVolumeClaim instead of the node's disk.", examples=[{"claim": "datasets"}]
    )
    nfs: NfsSource | None = Field(
        None,
        description="Mount an NFS directory instead of the node's disk.",
        examples=[{"server": "nfs.example.com", "path": "/exports/models"}],
    )
    emptyDir: EmptyDirSource | None = Field(  # noqa: N815
        None, description="Mount scratch space instead of the node's disk.", examples=[{"size": "100Gi"}]
    )

    @model_validator(mode="after")
    def _one_source(self) -> "Workdir":
        refuse_exclusions(self)
        return self

    @property
    def target(self) -> str:
        """Mount path in the container, normalised."""
        return normal_path(self.mountPath or self.path)


class MountItem(Block):
    """One key of a ConfigMap or Secret, as a file."""

    key: DataKey = Field(description="Key of the ConfigMap or Secret.", examples=["train.yaml"])
    path: RelativePath | None = Field(
        None, description="Path of the file below the mount's `path`. Default: `key`.", examples=["conf/train.yaml"]
    )
    mode: FileMode | None = Field(None, description="Mode of the file. Default: the mount's `mode`.", examples=["0400"])

    @model_validator(mode="after")
    def _visible(self) -> "MountItem":
        if self.path is not None and self.path.startswith(".."):
            # The kubelet keeps its own files there (validateLocalNonReservedPath).
            raise field_error(
                "GPU210", say("`{path}` begins with `..`", path=self.path), say("give the file another name"), ("path",)
            )
        return self

    @property
    def target(self) -> str:
        """Path of the file in the volume."""
        return self.path if self.path is not None else self.key


MOUNT_SOURCES = ("configMap", "secret", "emptyDir")
_OF_FILES = Template("`{second}` is about the files of a ConfigMap or Secret, and this mount is emptyDir")


class VolumeMount(Block):
    """Files of a ConfigMap or Secret, or scratch space."""

    exclusions = (
        *one_of(*MOUNT_SOURCES, message=Template("a mount has both {first} and {second}")),
        Exclusion("emptyDir", ("items", "mode"), _OF_FILES, REMOVE_IT),
    )

    path: AbsolutePath = Field(description="Directory inside the container.", examples=["/etc/train"])
    configMap: ObjectName | None = Field(  # noqa: N815
        None, description="Name of a ConfigMap in the job's namespace: a read-only file per key.", examples=["settings"]
    )
    secret: ObjectName | None = Field(
        None, description="Name of a Secret in the job's namespace: a read-only file per key.", examples=["ssh-key"]
    )
    emptyDir: EmptyDirSource | None = Field(  # noqa: N815
        None, description="Scratch space with the lifetime of the pod.", examples=[{"medium": "Memory", "size": "8Gi"}]
    )
    items: list[MountItem] = Field(
        default_factory=empty_list,
        description="The keys to mount. Default: all. The pod does not start while one is missing.",
        examples=[[{"key": "train.yaml"}]],
    )
    mode: FileMode | None = Field(
        None, description="Mode of the files, octal. Default: Kubernetes' `0644`.", examples=["0400"]
    )

    @model_validator(mode="after")
    def _one_source(self) -> "VolumeMount":
        refuse_exclusions(self)
        if all(getattr(self, name) is None for name in MOUNT_SOURCES):
            hint = say("add `configMap: NAME`, `secret: NAME` or `emptyDir: {{}}`")
            raise field_error("GPU201", say("the mount at `{path}` has no source", path=self.path), hint)
        return self

    @model_validator(mode="after")
    def _unique_files(self) -> "VolumeMount":
        seen: set[str] = set()
        for index, item in enumerate(self.items):
            if item.target in seen:
                message = say("two items have the path `{target}`", target=item.target)
                raise field_error("GPU218", message, say("remove one, or give it another `path`"), ("items", index))
            seen.add(item.target)
        return self

    @property
    def target(self) -> str:
        """Mount path in the container, normalised."""
        return normal_path(self.path)


class ModelVolume(Block):
    """Model files from an OCI artifact or image, mounted read-only."""

    image: Image = Field(description="Reference of the artifact.", examples=["registry.example.com/models/qwen2-7b:v1"])
    path: AbsolutePath = Field(description="Directory inside the container.", examples=["/models/qwen2-7b"])

    @property
    def target(self) -> str:
        """Mount path in the container, normalised."""
        return normal_path(self.path)


class Storage(Block):
    """Volumes mounted into the container."""

    workdirs: list[Workdir] = Field(
        default_factory=empty_list,
        description="Directories and files to mount.",
        examples=[[{"path": "/data/models"}]],
    )
    mounts: list[VolumeMount] = Field(
        default_factory=empty_list,
        description="ConfigMaps, Secrets and scratch space to mount.",
        examples=[[{"path": "/etc/train", "configMap": "settings"}]],
    )

    models: list[ModelVolume] = Field(
        default_factory=empty_list,
        description="Model files from a registry, pulled and cached by the nodes like images, with the job's pull "
        "secrets. Needs Kubernetes 1.35 or newer.",
        examples=[[{"image": "registry.example.com/models/qwen2-7b:v1", "path": "/models/qwen2-7b"}]],
    )

    @model_validator(mode="after")
    def _unique_targets(self) -> "Storage":
        seen: dict[str, int] = {}
        for index, workdir in enumerate(self.workdirs):
            if workdir.target in seen:
                raise field_error(
                    "GPU218",
                    say("two workdirs are mounted at `{target}`", target=workdir.target),
                    say("remove one, or give it another `mountPath`"),
                    ("workdirs", index, "path" if workdir.mountPath is None else "mountPath"),
                )
            seen[workdir.target] = index
        self._check_new_claims()
        taken = dict.fromkeys(seen, say("a workdir"))
        for index, mount in enumerate(self.mounts):
            if mount.target in taken:
                message = say(
                    "{other} and this mount are both at `{target}`", other=taken[mount.target], target=mount.target
                )
                raise field_error(
                    "GPU218", message, say("remove one, or give it another `path`"), ("mounts", index, "path")
                )
            taken[mount.target] = say("another mount")
        for index, model in enumerate(self.models):
            if model.target in taken:
                message = say(
                    "{other} and this model are both at `{target}`", other=taken[model.target], target=model.target
                )
                raise field_error(
                    "GPU218", message, say("remove one, or give it another `path`"), ("models", index, "path")
                )
            taken[model.target] = say("another model")
        return self

    def _check_new_claims(self) -> None:
        """Raise the error for a claim that two workdirs create differently."""
        known: dict[str, NewClaim] = {}
        for index, workdir in enumerate(self.workdirs):
            source = workdir.pvc
            if source is None or source.create is None:
                continue
            if known.setdefault(source.claim, source.create) != source.create:
                message = say("two workdirs create the claim `{claim}` with different settings", claim=source.claim)
                place = ("workdirs", index, "pvc", "create")
                raise field_error("GPU213", message, say("keep one `create` of the claim"), place)

    @property
    def new_claims(self) -> dict[str, tuple[NewClaim, int]]:
        """Claim -> its settings, and the workdir that creates it, by index."""
        found: dict[str, tuple[NewClaim, int]] = {}
        for index, workdir in enumerate(self.workdirs):
            if workdir.pvc is not None and workdir.pvc.create is not None:
                found.setdefault(workdir.pvc.claim, (workdir.pvc.create, index))
        return found

    @property
    def creates_claim_of_one_node(self) -> bool:
        """True if a created claim can be mounted on one node at a time."""
        return any(create.access in ONE_NODE_ACCESS for create, _ in self.new_claims.values())

    @property
    def targets(self) -> list[tuple[str, str, tuple[str, int]]]:
        """Path in the container, noun for messages, and place in the block of everything that is mounted."""
        workdirs = [(workdir.target, "workdir", ("workdirs", index)) for index, workdir in enumerate(self.workdirs)]
        mounts = [(mount.target, "mount", ("mounts", index)) for index, mount in enumerate(self.mounts)]
        models = [(model.target, "model", ("models", index)) for index, model in enumerate(self.models)]
        return [*workdirs, *mounts, *models]
