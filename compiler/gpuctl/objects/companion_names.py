"""Names of the objects beside a job's workload, and of the ConfigMap that contains a pool's definition."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.hashed_names import CLAIMS, HOSTFILE, hashed_name, without_suffix
from gpuctl.objects.ownership_metadata import Records

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


def claim_template_name(name: str, digest: str) -> str:
    """Return the name of a ResourceClaimTemplate of a workload.

    :param digest: hash of its spec.
    """
    return hashed_name(name + CLAIMS, digest)


def is_companion_name(kind: str, name: str, job: str) -> bool:
    """Return True if a job's object of a kind may have this name."""
    if kind == "ResourceClaimTemplate":
        return name != job and without_suffix(kind, name) == job
    names = {"Service": {service_name(job), job}, "ConfigMap": {hostfile_name(job)}}
    return name in names.get(kind, {job})


def config_map_name(pool: str) -> str:
    """Return the name of the ConfigMap that contains a pool's definition."""
    return f"pool-{pool}"


def pool_of(obj: Object, keys: Records) -> str | None:
    """Return the pool that an object defines; None for every other object."""
    is_definition = obj["kind"] == "ConfigMap" and DATA_KEY in (obj.get("data") or {})
    return labels_of(obj).get(keys.pool) if is_definition else None
