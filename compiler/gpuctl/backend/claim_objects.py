"""Lowers ``pvc.create`` to PersistentVolumeClaims, and lifts it back.

A claim belongs to no job: its data outlives the jobs that mount it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import metadata
from gpuctl.backend.shared_objects import shared_annotations
from gpuctl.language.kinds import Job
from gpuctl.language.storage_block import DEFAULT_ACCESS, NewClaim
from gpuctl.objects.api_resources import CLAIM, RESOURCES, Object
from gpuctl.objects.label_names import managed_labels

Data = dict[str, Any]


def new_claims(context: Context, namespace: str, model: Job) -> Iterator[Object]:
    """Yield the claims that a job creates, each once."""
    for name, (create, _) in model.storage.new_claims.items():
        yield {
            "apiVersion": RESOURCES[CLAIM].api_version,
            "kind": CLAIM,
            "metadata": metadata(name, namespace, managed_labels(), shared_annotations(context)),
            "spec": _spec(create),
        }


def _spec(create: NewClaim) -> Object:
    spec: Object = {"accessModes": [create.access]}
    if create.storage_class is not None:
        spec["storageClassName"] = create.storage_class
    spec["resources"] = {"requests": {"storage": create.size}}
    return spec


def lift_new_claims(storage: Data, objects: Iterable[Object], namespace: str) -> bool:
    """Add ``create`` to the first workdir of each claim that is among the objects. Return True if there is one."""
    found = {
        obj["metadata"]["name"]: obj["spec"]
        for obj in objects
        if obj["kind"] == CLAIM and obj["metadata"].get("namespace", "default") == namespace
    }
    is_found = False
    for workdir in storage.get("workdirs", []):
        spec = found.pop(workdir.get("pvc", {}).get("claim"), None)
        if spec is None:
            continue
        create: Data = {"size": spec["resources"]["requests"]["storage"]}
        if "storageClassName" in spec:
            create["class"] = spec["storageClassName"]
        if spec["accessModes"] != [DEFAULT_ACCESS]:
            create["access"] = spec["accessModes"][0]
        workdir["pvc"]["create"] = create
        is_found = True
    return is_found
