"""Lists that Kubernetes merges by key (``x-kubernetes-list-map-keys`` in its OpenAPI document)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuctl.objects.api_resources import Object

LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "replicatedJobs": ("name",),
}
"""Field of a pod or JobSet -> the keys of its items. The first one is required, others have defaults."""


def key_values(item: Object, keys: Iterable[str]) -> tuple[Any, ...]:
    """Return the values of an item's keys; ``protocol`` is TCP if the item does not state it."""
    return tuple(item.get(key) or ("TCP" if key == "protocol" else item.get(key)) for key in keys)
