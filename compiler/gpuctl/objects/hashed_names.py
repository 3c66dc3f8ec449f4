"""Names that carry a hash of what they name: a training that changed is another object, one that did not is the same.

A Job cannot be changed in place, and a GitOps controller that is told to replace Jobs may replace those that did not
change too: gitops-engine applies every object of a sync unless ``ApplyOutOfSyncOnly`` is set. With the hash in the
name a controller creates what changed, prunes what it replaces, and finds everything else as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from gpuctl.objects.api_resources import Object

LOWERED_FROM = "lowered-from"
"""The annotation, under the platform's domain, of a Job or JobSet with a hash in its name: the digest of what it was
lowered from. By it a build recognises what another version of gpuctl lowered from the same document."""
HOSTFILE = "-hostfile"
"""What stands behind a training's name in that of the ConfigMap with its hostfile."""
_DIGITS = 6
SUFFIX = _DIGITS + 1
"""Characters that the hash and its hyphen add to a name."""
_GENERATION = r"(.+)-[0-9a-f]{6}"

# kind -> fields of the spec that can be changed without touching what runs. Sources: k8s.io/kubernetes
# pkg/apis/batch/validation, ValidateJobUpdate; JobSet's types (failurePolicy is immutable) and its webhook.
CHANGEABLE: dict[str, tuple[str, ...]] = {
    "Job": ("backoffLimit", "ttlSecondsAfterFinished", "suspend"),
    "JobSet": ("ttlSecondsAfterFinished", "suspend"),
}


def spec_digest(objects: Iterable[Object]) -> str:
    """The hash of what cannot change in place while a training runs: its spec and its mounted files.

    Metadata of the objects and what :data:`CHANGEABLE` lists stay out, so that changing them restarts nothing; so does
    the Service, which holds nothing that a pod has read.
    """
    parts = []
    for obj in objects:
        kept = CHANGEABLE.get(obj["kind"])
        if kept is not None:
            parts.append([obj["kind"], {key: value for key, value in obj["spec"].items() if key not in kept}])
        elif obj["kind"] == "ConfigMap":
            parts.append([obj["kind"], obj["data"]])
    parts.sort(key=lambda part: str(part[0]))
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def hashed_name(job: str, digest: str) -> str:
    """What the objects of a training are called that has this hash."""
    return f"{job}-{digest}"


def is_hashed_name(name: str, job: str) -> bool:
    """Whether an object of a job is called after the job and a hash."""
    return job_of_hashed_name(name) == job


def unhashed_name(obj: Object) -> str:
    """The name of a job's object without the hash that it may have: that of a main object is the job's then."""
    name: str = obj["metadata"]["name"]
    job = (obj["metadata"].get("labels") or {}).get("app")
    own = name.removesuffix(HOSTFILE) if obj.get("kind") == "ConfigMap" else name
    return job + name[len(own) :] if isinstance(job, str) and is_hashed_name(own, job) else name


def hashed_name_of(obj: Object) -> str:
    """The name with a hash that a job's object was built under; "" of one without."""
    name: str = obj["metadata"]["name"]
    return "" if unhashed_name(obj) == name else name.removesuffix(HOSTFILE)


def job_of_hashed_name(name: str) -> str | None:
    """The job that a name with a hash would be of; None for a name that ends in none."""
    match = re.fullmatch(_GENERATION, name)
    return match[1] if match else None
