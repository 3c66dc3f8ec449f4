"""Why it cannot be known from a snapshot where pods would go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.pod_requests import pod_requests
from gpuctl.capacity.projections import SCHEDULER
from gpuctl.capacity.seats import units
from gpuctl.capacity.snapshot import Snapshot

# Labels of volumes that VolumeZone compares, which nothing newer than Kubernetes 1.17 sets.
_ZONES = tuple(
    f"{prefix}/{place}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for place in ("zone", "region")
)


def runtime_of(spec: Object, snapshot: Snapshot) -> Object | None:
    """The RuntimeClass that a pod names, as far as the snapshot has it."""
    wanted = spec.get("runtimeClassName")
    return next((item for item in snapshot.runtime_classes if item["name"] == wanted), None)


def claims_of(spec: Object) -> list[str]:
    """The names of the claims that a pod mounts."""
    sources = (volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or [])
    return [source["claimName"] for source in sources if source]


def doubts(
    spec: Object, namespace: str, snapshot: Snapshot, classes: Mapping[str, Object], shown: frozenset[str]
) -> Iterator[str]:
    """Why it cannot be known from a snapshot where such pods would go."""
    for resource in units(pod_requests(spec)):
        if resource not in shown:
            yield f"no node reports {resource} as allocatable"
    scheduler = spec.get("schedulerName") or SCHEDULER
    if scheduler != SCHEDULER:
        yield f"its pods are placed by the scheduler {scheduler}, whose rules are its own"
    if spec.get("resourceClaims"):
        yield "its pods claim devices (resourceClaims), which are not part of a snapshot"
    if spec.get("schedulingGates"):
        yield "its pods have scheduling gates, which have to be removed first"
    if spec.get("schedulingGroup"):
        yield "its pods are scheduled as a group (schedulingGroup)"
    name = spec.get("priorityClassName")
    if name and name not in classes and not name.startswith("system-"):
        yield f"PriorityClass {name} was not found"
    if spec.get("runtimeClassName") and runtime_of(spec, snapshot) is None:
        yield f"RuntimeClass {spec['runtimeClassName']} was not found"
    if any(volume.get("ephemeral") for volume in spec.get("volumes") or []):
        yield "an ephemeral volume is provisioned for each pod, and on which nodes is not known before"
    for claim in claims_of(spec):
        yield from _doubts_of_claim(claim, namespace, snapshot)


def find_claim(name: str, namespace: str, snapshot: Snapshot) -> Object | None:
    """A claim of the snapshot."""
    return snapshot.claims_by_name.get((namespace, name))


def volume_of(claim: Object, snapshot: Snapshot) -> Object | None:
    """The volume that a claim is bound to."""
    return snapshot.volumes_by_name.get(claim.get("volume", ""))


def attachable(names: Iterable[str], namespace: str, snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """The volumes of CSI drivers behind claims: driver and handle.

    Source: ``nodevolumelimits/csi.go``, getCSIDriverInfo. Volumes that were made by a driver inside Kubernetes and are
    served by its CSI successor are not counted.
    """
    claims = (find_claim(name, namespace, snapshot) for name in names)
    volumes = (volume_of(claim, snapshot) for claim in claims if claim is not None)
    return frozenset((volume["driver"], volume["handle"]) for volume in volumes if volume and "driver" in volume)


def _doubts_of_claim(name: str, namespace: str, snapshot: Snapshot) -> Iterator[str]:
    claim = find_claim(name, namespace, snapshot)
    if claim is None:
        yield f"claim {name} was not found in {namespace}"
        return
    volume = volume_of(claim, snapshot)
    if volume is None:
        yield _unbound(claim, snapshot)
    elif any(zone in (volume.get("labels") or {}) for zone in _ZONES):
        yield f"the volume of claim {name} is limited to zones by its labels"
    if "ReadWriteOncePod" in (claim.get("accessModes") or ()):
        yield f"claim {name} can be used by one pod at a time (ReadWriteOncePod)"


def _unbound(claim: Object, snapshot: Snapshot) -> str:
    name, named = claim["name"], claim.get("storageClass")
    storage = next((item for item in snapshot.storage_classes if item["name"] == named), None)
    if claim.get("phase") != "Pending" or storage is None:
        return f"claim {name} is not bound to a volume that was found"
    if storage.get("bindingMode") == "WaitForFirstConsumer":
        return f"claim {name} gets its volume with the first pod that uses it (storage class {named})"
    return f"claim {name} is not bound to a volume yet (storage class {named})"
