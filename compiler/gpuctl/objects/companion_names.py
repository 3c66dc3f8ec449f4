"""Names of the objects that stand beside a job's workload, and of the ConfigMap that holds a pool's definition."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.hashed_names import HOSTFILE
from gpuctl.objects.ownership_metadata import Records

MAIN_PORT = "main"
"""The name of the first port of a job's Service."""

DATA_KEY = "pool.yaml"
"""The key of a pool's definition in its ConfigMap."""


def service_name(name: str) -> str:
    """The Service of a job: ``svc-{name}``."""
    return f"svc-{name}"


def hostfile_name(name: str) -> str:
    """The ConfigMap with the hostfile."""
    return name + HOSTFILE


def companion_names(kind: str, name: str) -> set[str]:
    """Return the names that objects of a kind may have beside a job, or as the job."""
    names = {"Service": {service_name(name), name}, "ConfigMap": {hostfile_name(name)}}
    return names.get(kind, {name})


def config_map_name(pool: str) -> str:
    """The ConfigMap that holds a pool's definition."""
    return f"pool-{pool}"


def pool_of(obj: Object, keys: Records) -> str | None:
    """Return the pool whose definition an object is; None for every other object."""
    is_definition = obj["kind"] == "ConfigMap" and DATA_KEY in (obj.get("data") or {})
    return labels_of(obj).get(keys.pool) if is_definition else None
