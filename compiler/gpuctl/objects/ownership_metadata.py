"""Metadata that gpuctl writes on objects when it applies them, so that the next apply can detect changes since then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from gpuctl.objects.api_resources import Object, annotations_of, controller_of, labels_of
from gpuctl.objects.hashed_names import LOWERED_FROM, unhashed_name
from gpuctl.objects.hidden_names import prefixed
from gpuctl.objects.json_digest import json_digest
from gpuctl.objects.label_names import (
    AFTER,
    CHECKPOINT,
    ENDED_BEFORE,
    MANAGED_BY,
    MAX_LIFETIME,
    NOTIFY,
    RELEASED,
    SCALES_TO_ZERO,
    STOP_AFTER,
    SWEEP,
    SWEEP_SIZE,
    URL,
)
from gpuctl.release import __version__

PART_OF = "applyset.kubernetes.io/part-of"
_TOOLS = ("kubectl.kubernetes.io/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "meta.helm.sh/")
HELD_QUEUE = "gpuctl/held-queue"
"""Annotation with the full queue name of a held job, if the queue label is too short for it."""

FINISHED_INDEXES = "gpuctl/finished-indexes"
"""Annotation of an array that is about to run again: the indexes that do not run, such as ``0-2,5``."""


class Domain(Protocol):
    """Names the labels of a platform: ``label("hash")`` is ``runwhere.ai/hash``."""

    def label(self, name: str) -> str: ...


class Records(NamedTuple):
    """The keys of gpuctl's records, under the platform's domain."""

    hash: str
    lowered_by: str
    document: str
    paused: str
    shared: str
    strategy: str
    job_type: str
    pool: str
    journal: str
    request: str
    idle: str
    checkpoint: str
    history: str
    applied_by: str
    lowered_from: str
    scales_to_zero: str
    stop_after: str
    max_lifetime: str
    pause_reason: str
    last_used: str
    url: str
    sweep: str
    after: str
    ended_before: str
    released: str
    sweep_size: str
    notify: str

    def is_record(self, key: str) -> bool:
        """Return True for an annotation or label about how the object was created, which no document contains."""
        own = (self.hash, self.lowered_by, self.lowered_from, self.applied_by, self.paused, self.request, self.idle)
        later = (self.pause_reason, self.last_used, self.ended_before, self.released, self.sweep_size)
        return key in (*own, *later, PART_OF, HELD_QUEUE, FINISHED_INDEXES)

    def is_lasting(self, key: str) -> bool:
        """Return True if a label or annotation is never removed: a record of gpuctl or of a tool that delivered the
        object.
        """
        return self.is_record(key) or key.startswith(_TOOLS)


def records(settings: Domain) -> Records:
    """Return the record keys of a platform."""
    names = ("hash", "lowered-by", "document", "paused", "shared", "strategy", "job-type", "pool", "journal", "request")
    more = ("idle-warned", CHECKPOINT, "history", "applied-by", LOWERED_FROM, SCALES_TO_ZERO)
    of_notebooks = (STOP_AFTER, MAX_LIFETIME, "pause-reason", "last-used")
    of_prerequisites = (SWEEP, AFTER, ENDED_BEFORE, RELEASED, SWEEP_SIZE)
    return Records(*map(settings.label, (*names, *more, *of_notebooks, URL, *of_prerequisites, NOTIFY)))


def stamp(obj: Object, keys: Records, part_of: str | None, known: str | None = None) -> Object:
    """Return the object to send: with its hash, the gpuctl version that lowered it, and its set.

    :param known: its hash, if already computed.
    """
    metadata = dict(obj["metadata"])
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        keys.hash: known or json_digest(obj),
        keys.lowered_by: __version__,
    }
    if part_of is not None:
        metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF: part_of}
    return {**obj, "metadata": metadata}


def marked(obj: Object, keys: Records, mark: str) -> Object:
    """Return the object with the mark of the request that creates it, by which a repeated request recognises it."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**annotations_of(obj), keys.request: mark}}}


def is_ours(obj: Object) -> bool:
    """Return True if an object is labelled as managed by gpuctl."""
    return labels_of(obj).get(MANAGED_BY) == "gpuctl"


def job_title(labels: Mapping[str, str], keys: Records) -> str:
    """Return the job of a pod with these labels, as ``training/x``; "" if the pod is not gpuctl's."""
    kind, name = labels.get(keys.job_type), labels.get("app")
    return prefixed(f"{kind}/", name) if kind and name else ""


def main_title(obj: Object, keys: Records) -> str:
    """Return the title of an object of a job: ``training/x``, also if its name has a hash; ``job/x`` without a label of
    gpuctl.
    """
    kind = labels_of(obj).get(keys.job_type) or obj["kind"].lower()
    return f"{kind}/{unhashed_name(obj)}"


def is_shared(obj: Object, keys: Records) -> bool:
    """Return True if jobs share the object: it is never pruned and never deleted with a job."""
    return annotations_of(obj).get(keys.shared) == "true"


def is_controlled(obj: Object) -> bool:
    """Return True if a controller created the object, which also deletes it."""
    return controller_of(obj) is not None


def set_lease(name: str) -> str:
    """Return the name of a set's Lease."""
    return f"gpuctl-set-{name}"
