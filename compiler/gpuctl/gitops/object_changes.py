"""Objects of two states compared: documents at two revisions, or documents and a directory of manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpuctl.frontend.source import SUFFIXES
from gpuctl.gitops.build_error import BuildError
from gpuctl.gitops.document_changes import DocumentChange
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hashed_names import CHANGEABLE, changeable_fields, unhashed_name
from gpuctl.objects.label_names import MANAGED_BY, MANAGER

_DELIVERY = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")
_LARGEST = 64 * 2**20
_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""PyYAML raises built-in errors for values that do not fit their type, such as `2024-13-45` or `!!int ''`."""


class ObjectKey(NamedTuple):
    """The identity of a Kubernetes object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" in {self.namespace}" if self.namespace else "")


class ObjectChange(NamedTuple):
    """An object that differs. ``before`` is None for a new object, ``after`` for a removed one.

    A training with a hash in its name has another name before and after.
    """

    key: ObjectKey
    before: Object | None
    after: Object | None

    @property
    def action(self) -> str:
        """``create``, ``update``, ``delete`` or ``replace``.

        ``replace``: the object gets another name, or it is a training whose pods cannot change in place.
        """
        if self.before is None or self.after is None:
            return "create" if self.before is None else "delete"
        if key_of(self.before) != key_of(self.after):
            return "replace"
        if self.key.kind not in CHANGEABLE:
            return "update"
        kept = changeable_fields(self.after)
        one, other = (
            {name: value for name, value in obj.get("spec", {}).items() if name not in kept}
            for obj in (self.before, self.after)
        )
        return "update" if one == other else "replace"


class StateChanges(NamedTuple):
    """The differences between two states: documents that differ, if both states have documents, and objects."""

    documents: list[DocumentChange]
    objects: list[ObjectChange]


def by_key(objects: Iterable[Object]) -> dict[ObjectKey, Object]:
    """Return objects by key."""
    return {key_of(obj): obj for obj in objects}


def key_of(obj: Object) -> ObjectKey:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return ObjectKey(obj["apiVersion"], obj["kind"], metadata.get("namespace") or "", metadata["name"])


def differences(before: dict[ObjectKey, Object], after: dict[ObjectKey, Object]) -> list[ObjectChange]:
    """Return the objects that differ, sorted by key. A training's object whose name has a new hash is one change."""
    replaced = _replaced(before, after)
    keys = sorted({*before, *after} - set(replaced.values()))
    changes = (ObjectChange(key, before.get(replaced.get(key, key)), after.get(key)) for key in keys)
    return [change for change in changes if change.before != change.after]


def _replaced(before: dict[ObjectKey, Object], after: dict[ObjectKey, Object]) -> dict[ObjectKey, ObjectKey]:
    """Return new key -> old key for objects of trainings whose hash in the name differs."""
    gone = {_bare(key, before[key]): key for key in before.keys() - after.keys()}
    new = {key: _bare(key, after[key]) for key in after.keys() - before.keys()}
    return {key: gone[bare] for key, bare in new.items() if bare in gone}


def _bare(key: ObjectKey, obj: Object) -> ObjectKey:
    """Return a key without the hash in its name."""
    return key._replace(name=unhashed_name(obj))


def has_generations(objects: dict[ObjectKey, Object]) -> bool:
    """Return True if any training among objects has a hash in its name."""
    return any(key.kind in CHANGEABLE and _bare(key, obj) != key for key, obj in objects.items())


def objects_in(directory: Path) -> dict[ObjectKey, Object]:
    """Return gpuctl's objects in the YAML files of a directory, whichever tool wrote them; other objects are skipped.

    :raises BuildError: the directory or a file cannot be read, or a file that mentions gpuctl is not YAML.
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
    except _YAML_ERRORS as error:
        # Templates of other tools need not be YAML; files of gpuctl always are.
        if b"gpuctl" not in path.read_bytes():
            return
        is_syntax = isinstance(error, yaml.YAMLError)
        problem = str(error).splitlines()[0] if is_syntax else "a value does not fit its type"
        raise BuildError(f"`{path}` is not YAML: {problem}") from None
    yield from (document for document in documents if is_object(document))


def read_object(data: bytes) -> Object | None:
    """Return the object in a manifest; None if it has none, or is not YAML."""
    try:
        value = yaml.load(data, Loader=yaml.CSafeLoader)
    except _YAML_ERRORS:
        return None
    return value if is_object(value) else None


def is_object(document: Any) -> bool:
    """Return True if a parsed YAML value is a Kubernetes object."""
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return False
    named = (document.get("apiVersion"), document.get("kind"), document["metadata"].get("name"))
    return all(isinstance(part, str) for part in named)


def without_delivery(obj: Object, keys: Collection[str]) -> Object:
    """Return an object without annotations for GitOps controllers and without those in ``keys``."""
    metadata = dict(obj["metadata"])
    annotations = {
        key: value
        for key, value in (metadata.pop("annotations", None) or {}).items()
        if key not in keys and not key.startswith(_DELIVERY)
    }
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "metadata": metadata}
