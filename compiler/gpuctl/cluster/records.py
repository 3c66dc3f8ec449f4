"""What gpuctl writes on objects when it applies them, so that the next apply can tell what happened since."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from gpuctl import __version__
from gpuctl.backend.metadata import MANAGED_BY
from gpuctl.cluster.resources import Object, annotations_of, key_of, labels_of
from gpuctl.language.fields import visible
from gpuctl.language.settings import Settings

PART_OF = "applyset.kubernetes.io/part-of"
# Flux' labels, by the kind of object that they name.
_FLUX = {"kustomize.toolkit.fluxcd.io": "Kustomization", "helm.toolkit.fluxcd.io": "HelmRelease"}
_ARGO_ID = "argocd.argoproj.io/tracking-id"
_ARGO_LABEL = "app.kubernetes.io/instance"
_ARGO_MANAGERS = "argocd-"


class Records(NamedTuple):
    """The keys of our records under the platform's domain."""

    hash: str
    lowered_by: str
    document: str
    paused: str
    shared: str
    strategy: str
    job_type: str
    pool: str
    journal: str

    def is_record(self, key: str) -> bool:
        """Whether an annotation or label is written by commands, not by lowering."""
        return key in (self.hash, self.lowered_by, self.paused, PART_OF)


def records(settings: Settings) -> Records:
    """The record keys of a platform."""
    names = ("hash", "lowered-by", "document", "paused", "shared", "strategy", "job-type", "pool", "journal")
    return Records(*(settings.label(name) for name in names))


def stamp(obj: Object, keys: Records, part_of: str | None) -> Object:
    """The object as it is sent: with its own hash, the version that lowered it, and the set it belongs to.

    The hash is of the object as lowered; it says nothing about the set.
    """
    text = json.dumps(obj, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    metadata = dict(obj["metadata"])
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        keys.hash: digest,
        keys.lowered_by: __version__,
    }
    if part_of is not None:
        metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF: part_of}
    return {**obj, "metadata": metadata}


def is_ours(obj: Object) -> bool:
    """Whether an object says that gpuctl manages it."""
    return labels_of(obj).get(MANAGED_BY) == "gpuctl"


def tracked_by(obj: Object) -> str | None:
    """The GitOps controller that keeps an object as its repository has it, None where there is none.

    Argo CD marks what it tracks by an annotation that names the object itself (a copy's names another, and Argo CD
    passes it over too), or, as it is set up, by a label that others use as well: then its field manager tells. Flux
    labels what it applies. Sources: Argo CD, User Guide, Resource Tracking; Flux, Kustomization and HelmRelease.
    """
    labels, annotations = labels_of(obj), annotations_of(obj)
    for group, kind in _FLUX.items():
        if f"{group}/name" in labels:
            name = f"{labels.get(f'{group}/namespace', '')}/{labels[f'{group}/name']}".removeprefix("/")
            return f"Flux ({kind} {visible(name)})"
    if _ARGO_ID in annotations:
        application, _, tracked = annotations[_ARGO_ID].partition(":")
        key = key_of(obj)
        own = f"{key.resource.group}/{key.kind}:{key.namespace}/{key.name}"
        return f"Argo CD (application {visible(application)})" if tracked == own else None
    managers = [str(entry.get("manager", "")) for entry in obj["metadata"].get("managedFields") or []]
    if _ARGO_LABEL in labels and any(manager.startswith(_ARGO_MANAGERS) for manager in managers):
        return f"Argo CD (application {visible(labels[_ARGO_LABEL])})"
    return None


def tracking_marks(obj: Object) -> dict[str, list[str]]:
    """``labels`` and ``annotations`` by which a GitOps controller tracks an object; empty where none does."""
    if tracked_by(obj) is None:
        return {}
    flux = [f"{group}/{part}" for group in _FLUX for part in ("name", "namespace")]
    is_flux, has_id = any(key in labels_of(obj) for key in flux), _ARGO_ID in annotations_of(obj)
    marks = {"labels": flux if is_flux or has_id else [_ARGO_LABEL], "annotations": [_ARGO_ID]}
    found = {part: [key for key in keys if key in (obj["metadata"].get(part) or {})] for part, keys in marks.items()}
    return {part: keys for part, keys in found.items() if keys}


def is_shared(obj: Object, keys: Records) -> bool:
    """Whether an object is shared by jobs: never pruned, never deleted with one."""
    return annotations_of(obj).get(keys.shared) == "true"


def is_controlled(obj: Object) -> bool:
    """Whether a controller made the object: it is that controller's to delete."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or [])
