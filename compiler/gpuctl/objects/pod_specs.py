"""Parts of a pod's spec: its containers and images, the claims that it mounts, and its required node affinity."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
"""The affinity field whose terms must hold."""


def containers_of(spec: Object) -> list[Object]:
    """Return the containers of a pod, init containers first."""
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def sidecars_of(spec: Object) -> list[Object]:
    """Return the native sidecars of a pod: init containers that keep running."""
    return [item for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"]


def default_pull_policy(image: str) -> str:
    """Return the ``imagePullPolicy`` that the API server sets for an image."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return "Always" if not digest and (not colon or tag == "latest") else "IfNotPresent"


def mounted_claims(spec: Object) -> list[str]:
    """Return the names of the PersistentVolumeClaims that a pod mounts."""
    sources = (volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or [])
    return [source["claimName"] for source in sources if source]


def required_node_terms(spec: Object) -> list[Object]:
    """Return the node selector terms of which a node must match one; empty for any node."""
    rules = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    return rules.get("nodeSelectorTerms") or []
