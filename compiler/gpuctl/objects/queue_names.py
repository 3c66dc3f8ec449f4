"""Names in the Kueue objects that quotas become."""

from __future__ import annotations

TYPES = "gpu-types"
"""Name of the annotation with the GPU types of a ClusterQueue."""
ANY_FLAVOR = "gpuctl-any"
"""ResourceFlavor of all nodes, for limits that count every GPU type."""
_PREFIX = "gpuctl-"
_PLAIN = str.maketrans("_.", "--")
UNLIMITED = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi"}
"""Quota of a resource without a limit. Kueue admits no job that requests a resource without quota."""
UNLIMITED_DEVICES = "1M"
"""Quota of an extended resource without a limit."""


def cluster_queue_name(namespace: str) -> str:
    """Return the ClusterQueue of a namespace. It has no part of the quota's name: a LocalQueue cannot change its
    ClusterQueue.
    """
    return _PREFIX + namespace


def flavor_name(gpu_type: str) -> str:
    """Return the ResourceFlavor of a GPU type. Names of objects have neither upper case nor underscores."""
    return _PREFIX + gpu_type.lower().translate(_PLAIN)


def is_unlimited(resource: str, amount: str) -> bool:
    """Return True if the quota of a resource means that it has no limit."""
    return amount == UNLIMITED.get(resource, UNLIMITED_DEVICES)
