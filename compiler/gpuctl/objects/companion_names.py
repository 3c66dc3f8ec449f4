"""Names of the objects beside a job's workload, and of the ConfigMap that contains a pool's definition."""

from __future__ import annotations

import re
from typing import Any

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.hashed_names import CLAIMS, HOSTFILE, hashed_name, without_suffix
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.yaml_text import parsed_or_none

MAIN_PORT = "main"
"""Name of the first port of a job's Service."""

DATA_KEY = "pool.yaml"
"""Key of a pool's definition in its ConfigMap."""


def service_name(name: str) -> str:
    """Return the name of a job's Service: ``svc-{name}``."""
    return f"svc-{name}"


def hostfile_name(name: str) -> str:
    """Return the name of the ConfigMap that contains the hostfile."""
    return name + HOSTFILE


ARCHIVE_KEY = "code.tar.gz"
"""Key of the packed files in the ConfigMap with a job's code."""
FILES_KEY = "files"
"""Key of the list of these files, each with the start of its SHA-256."""
ARCHIVE_VOLUME = "code-archive"
"""Name of the volume with that ConfigMap."""
_DIGITS = 10


def code_name(name: str, digest: str) -> str:
    """Return the name of the ConfigMap with a job's code. It has more digits than a name of a training with a hash."""
    return f"{name}-code-{digest[:_DIGITS]}"


def is_code_name(name: str, job: str) -> bool:
    """Return True if a ConfigMap with a job's code may have this name."""
    return re.fullmatch(f"{re.escape(job)}-code-[0-9a-f]{{{_DIGITS}}}", name) is not None


def is_code_archive(obj: Object) -> bool:
    """Return True for the ConfigMap with a job's code."""
    return obj["kind"] == "ConfigMap" and is_code_name(obj["metadata"]["name"], labels_of(obj).get("app") or "")


def without_archive(obj: Object) -> Object:
    """Return an object for output, with the size of binary data in place of the data."""
    data = obj.get("binaryData")
    if not data:
        return obj
    return {**obj, "binaryData": {name: f"{len(text) * 3 // 4:,} bytes" for name, text in data.items()}}


def claim_template_name(name: str, digest: str) -> str:
    """Return the name of a ResourceClaimTemplate of a workload.

    :param digest: hash of its spec.
    """
    return hashed_name(name + CLAIMS, digest)


def is_companion_name(kind: str, name: str, job: str) -> bool:
    """Return True if a job's object of a kind may have this name."""
    if kind == "ResourceClaimTemplate":
        return name != job and without_suffix(kind, name) == job
    if kind == "ConfigMap" and is_code_name(name, job):
        return True
    names = {"Service": {service_name(job), job}, "ConfigMap": {hostfile_name(job)}}
    return name in names.get(kind, {job})


def config_map_name(pool: str) -> str:
    """Return the name of the ConfigMap that contains a pool's definition."""
    return f"pool-{pool}"


def pool_of(obj: Object, keys: Records) -> str | None:
    """Return the pool that an object defines; None for every other object."""
    is_definition = obj["kind"] == "ConfigMap" and DATA_KEY in (obj.get("data") or {})
    return labels_of(obj).get(keys.pool) if is_definition else None


def pool_definition(config_map: Object) -> dict[str, Any]:
    """Return the pool's document in a ConfigMap; {} if it is damaged: any user of the ConfigMap may have written it."""
    definition = parsed_or_none(str((config_map.get("data") or {}).get(DATA_KEY) or ""))
    return definition if isinstance(definition, dict) else {}


def pool_limits(definition: dict[str, Any]) -> dict[str, int]:
    """Return the limits in a pool's document: ``maxJobs``, ``maxGpuPerJob``. A value that is not a number limits
    nothing.
    """
    quota = definition.get("quota")
    stated = quota if isinstance(quota, dict) else {}
    return {key: value for key, value in stated.items() if isinstance(value, int) and not isinstance(value, bool)}
