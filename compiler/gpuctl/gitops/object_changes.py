"""Objects of two states side by side: of documents at two revisions, or of documents and a directory of manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpuctl.frontend.source import SUFFIXES
from gpuctl.gitops.build_error import BuildError
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hashed_names import CHANGEABLE, unhashed_name
from gpuctl.objects.label_names import MANAGED_BY, MANAGER

_DELIVERY = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")
_LARGEST = 64 * 2**20


class ObjectKey(NamedTuple):
    """Which object of Kubernetes."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" in {self.namespace}" if self.namespace else "")


class ObjectChange(NamedTuple):
    """An object that differs: ``before`` is None for a new one, ``after`` for one that goes.

    Of a training whose name holds a hash they have different names.
    """

    key: ObjectKey
    before: Object | None
    after: Object | None

    @property
    def action(self) -> str:
        """``create``, ``update``, ``delete``, or ``replace``: by one of another name, or because it is a training whose
        pods cannot change in place.
        """
        if self.before is None or self.after is None:
            return "create" if self.before is None else "delete"
        if key_of(self.before) != key_of(self.after):
            return "replace"
        kept = CHANGEABLE.get(self.key.kind)
        if kept is None:
            return "update"
        one, other = (
            {name: value for name, value in obj.get("spec", {}).items() if name not in kept}
            for obj in (self.before, self.after)
        )
        return "update" if one == other else "replace"


def by_key(objects: Iterable[Object]) -> dict[ObjectKey, Object]:
    """Objects by what they are."""
    return {key_of(obj): obj for obj in objects}


def key_of(obj: Object) -> ObjectKey:
    """The key of an object."""
    metadata = obj["metadata"]
    return ObjectKey(obj["apiVersion"], obj["kind"], metadata.get("namespace") or "", metadata["name"])


def differences(before: dict[ObjectKey, Object], after: dict[ObjectKey, Object]) -> list[ObjectChange]:
    """The objects that differ, by key. What a job has under another name now is one change, not two."""
    replaced = _replaced(before, after)
    keys = sorted({*before, *after} - set(replaced.values()))
    changes = (ObjectChange(key, before.get(replaced.get(key, key)), after.get(key)) for key in keys)
    return [change for change in changes if change.before != change.after]


def _replaced(before: dict[ObjectKey, Object], after: dict[ObjectKey, Object]) -> dict[ObjectKey, ObjectKey]:
    """New key -> old key of the objects of a training that bear another hash, or none, in their names."""
    gone = {_bare(key, before[key]): key for key in before.keys() - after.keys()}
    new = {key: _bare(key, after[key]) for key in after.keys() - before.keys()}
    return {key: gone[bare] for key, bare in new.items() if bare in gone}


def _bare(key: ObjectKey, obj: Object) -> ObjectKey:
    """A key without the hash in its name."""
    return key._replace(name=unhashed_name(obj))


def has_generations(objects: dict[ObjectKey, Object]) -> bool:
    """Whether trainings among objects bear hashes in their names."""
    return any(key.kind in CHANGEABLE and _bare(key, obj) != key for key, obj in objects.items())


def objects_in(directory: Path) -> dict[ObjectKey, Object]:
    """gpuctl's objects in the YAML files of a directory, however they were written there; others are passed over.

    :raises BuildError: the directory or a file in it cannot be read, or a file of ours is damaged.
    """
    if not directory.is_dir():
        raise BuildError(f"`{directory}` is not a directory of manifests")
    found: dict[ObjectKey, Object] = {}
    for path in sorted(directory.rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file() or any(part.startswith(".") for part in path.parts[1:]):
            continue
        for obj in _read(path):
            labels = obj["metadata"].get("labels")
            if obj["kind"] == "Node" or (isinstance(labels, dict) and labels.get(MANAGED_BY) == MANAGER):
                found[key_of(obj)] = obj
    return found


def _read(path: Path) -> Iterator[Object]:
    try:
        if path.stat().st_size > _LARGEST:
            raise BuildError(f"`{path}` is too large to be a manifest")
        documents = list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    except OSError as error:
        raise BuildError(f"cannot read `{path}`: {(error.strerror or str(error)).lower()}") from None
    except (yaml.YAMLError, ValueError) as error:
        # Templates of other tools need not be YAML; what is ours always is.
        if b"gpuctl" not in path.read_bytes():
            return
        raise BuildError(f"`{path}` is not YAML: {str(error).splitlines()[0]}") from None
    yield from (document for document in documents if is_object(document))


def is_object(document: Any) -> bool:
    """Whether a value that YAML holds is an object of Kubernetes."""
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return False
    named = (document.get("apiVersion"), document.get("kind"), document["metadata"].get("name"))
    return all(isinstance(part, str) for part in named)


def without_delivery(obj: Object, keys: Collection[str]) -> Object:
    """Return an object without the annotations that GitOps controllers need, and without those of ``keys``."""
    metadata = dict(obj["metadata"])
    annotations = {
        key: value
        for key, value in (metadata.pop("annotations", None) or {}).items()
        if key not in keys and not key.startswith(_DELIVERY)
    }
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "metadata": metadata}
