"""Names with a hash of the object's content: a changed training is a new object, an unchanged one keeps its name.

A Job cannot be changed in place. A GitOps controller that is configured to replace Jobs may also replace unchanged
ones: gitops-engine applies every object of a sync unless ``ApplyOutOfSyncOnly`` is set. With the hash in the name, a
controller creates what changed, prunes what it replaces, and leaves everything else alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuctl.objects.api_resources import QUEUE_LABEL, QUEUE_PRIORITY_LABEL, Object, labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.elastic_jobs import SIZE_FIELDS, node_bounds
from gpuctl.objects.json_digest import json_digest

LOWERED_FROM = "lowered-from"
"""Annotation, under the platform's domain, of a Job or JobSet with a hash in its name: digest of its lowering input.
With it a build recognises objects that another version of gpuctl lowered from the same document.
"""
HOSTFILE = "-hostfile"
"""Suffix of the ConfigMap with a training's hostfile."""
CLAIMS = "-gpu"
"""Part of the name of a ResourceClaimTemplate between the workload's name and the hash of the template."""
_DIGITS = 6
SUFFIX = _DIGITS + 1
"""Characters that the hash and its hyphen add to a name."""
_GENERATION = r"(.+)-[0-9a-f]{6}"

# kind -> fields of the spec that can change while the job runs. Sources: k8s.io/kubernetes pkg/apis/batch/validation,
# ValidateJobUpdate; JobSet's types (failurePolicy is immutable) and its webhook.
CHANGEABLE: dict[str, tuple[str, ...]] = {
    "Job": ("backoffLimit", "ttlSecondsAfterFinished", "suspend"),
    "JobSet": ("ttlSecondsAfterFinished", "suspend"),
}

# ValidateJobUpdate allows these for every Job; only an array's pods are independent of their number.
_OF_ARRAYS = ("parallelism", "maxFailedIndexes")


def changeable_fields(workload: Object) -> tuple[str, ...]:
    """Return the fields of a workload's spec that can change without a restart of its pods; () for a service.

    Kueue stops a job whose number of pods changes, so that of an array in a queue cannot change.
    """
    fields = CHANGEABLE.get(workload["kind"], ())
    if QUEUE_LABEL in labels_of(workload):
        return fields
    if is_array(workload):
        return (*fields, *_OF_ARRAYS)
    return (*fields, *SIZE_FIELDS) if node_bounds(workload) is not None else fields


def fixed_labels(workload: Object) -> dict[str, str]:
    """Return the labels of a Job or JobSet that Kueue's webhook does not let change while it runs.

    The queue stays; a WorkloadPriorityClass can be neither added nor removed, but replaced by another, so its value is
    left out. Source: Kueue 0.19, ``pkg/controller/jobframework/validation.go`` (ValidateJobOnUpdate).
    """
    labels = labels_of(workload)
    fixed = {QUEUE_LABEL: labels[QUEUE_LABEL]} if QUEUE_LABEL in labels else {}
    return fixed | ({QUEUE_PRIORITY_LABEL: ""} if QUEUE_PRIORITY_LABEL in labels else {})


def spec_digest(objects: Iterable[Object], *, in_git: bool = True) -> str:
    """Return a hash of the fields of a training that cannot change while it runs.

    It is made of the workload's spec, the data of ConfigMaps, and the :func:`fixed_labels`. Other labels, annotations,
    the :func:`changeable_fields` and the Service are left out, because they can change without a restart of pods.

    :param in_git: True if a controller applies exactly the objects in git. False for ``apply``, which leaves a
        running training in its queue.
    """
    parts = []
    for obj in objects:
        if obj["kind"] in CHANGEABLE:
            kept = changeable_fields(obj)
            part = [obj["kind"], {key: value for key, value in obj["spec"].items() if key not in kept}]
            labels = fixed_labels(obj) if in_git else {}
            parts.append([*part, labels] if labels else part)
        elif obj["kind"] == "ConfigMap":
            parts.append([obj["kind"], obj["data"]])
    parts.sort(key=lambda part: str(part[0]))
    return json_digest(parts)[:_DIGITS]


def hashed_name(job: str, digest: str) -> str:
    """Return the name of a training's objects with this hash."""
    return f"{job}-{digest[:_DIGITS]}"


def without_suffix(kind: str, name: str) -> str:
    """Return the name of a companion without what a kind adds to the name of its workload."""
    if kind == "ResourceClaimTemplate":
        whole = job_of_hashed_name(name) or ""
        return whole.removesuffix(CLAIMS) if whole.endswith(CLAIMS) else name
    return name.removesuffix(HOSTFILE) if kind == "ConfigMap" else name


def is_hashed_name(name: str, job: str) -> bool:
    """Return True if the name is the job's name plus a hash."""
    return job_of_hashed_name(name) == job


def unhashed_name(obj: Object) -> str:
    """Return the name of a job's object without the hash, if it has one. For a main object that is the job's name."""
    name: str = obj["metadata"]["name"]
    job = (obj["metadata"].get("labels") or {}).get("app")
    own = without_suffix(obj.get("kind", ""), name)
    return job + name[len(own) :] if isinstance(job, str) and is_hashed_name(own, job) else name


def hashed_name_of(obj: Object) -> str:
    """Return the hashed name under which a job's object was built; "" for an object without a hash."""
    name: str = obj["metadata"]["name"]
    return "" if unhashed_name(obj) == name else without_suffix(obj.get("kind", ""), name)


def job_of_hashed_name(name: str) -> str | None:
    """Return the job whose hashed name this could be; None if the name does not end in a hash."""
    match = re.fullmatch(_GENERATION, name)
    return match[1] if match else None
