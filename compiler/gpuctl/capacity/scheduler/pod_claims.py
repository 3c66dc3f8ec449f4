"""The claims that pods mount, and the effect of the volumes behind them on scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from gpuctl.capacity.scheduler.scheduler_model import Volume
from gpuctl.capacity.scheduler.volume_binding import is_binding_delayed, storage_class_of
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.capacity.snapshot.snapshot_entries import MIGRATED_DRIVERS, claim_entry
from gpuctl.objects.api_resources import Object

_ZONES = tuple(
    f"{prefix}/{place}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for place in ("zone", "region")
)
_GENERAL = dict(zip(_ZONES[2:], _ZONES[:2], strict=True))
_ONE_POD = "ReadWriteOncePod"


def with_planned_claims(snapshot: Snapshot, objects: Iterable[Object]) -> Snapshot:
    """Return the snapshot with the claims among ``objects`` that the cluster does not have yet."""
    planned = [
        {**claim_entry(obj), "phase": "Pending"}
        for obj in objects
        if obj["kind"] == "PersistentVolumeClaim"
        and find_claim(obj["metadata"]["name"], obj["metadata"]["namespace"], snapshot) is None
    ]
    return replace(snapshot, claims=[*snapshot.claims, *planned]) if planned else snapshot


def find_claim(name: str, namespace: str, snapshot: Snapshot) -> Object | None:
    """Return a claim of the snapshot, or None if it does not exist."""
    return snapshot.claims_by_name.get((namespace, name))


def volume_of(claim: Object, snapshot: Snapshot) -> Object | None:
    """Return the volume that a claim is bound to."""
    return snapshot.volumes_by_name.get(claim.get("volume", ""))


def single_pod_claims(names: Iterable[str], namespace: str, snapshot: Snapshot) -> list[str]:
    """Return a label for each ``ReadWriteOncePod`` claim; it marks the pods that use the claim. No real label has such
    a name.
    """
    claims = (find_claim(name, namespace, snapshot) for name in names)
    return [f"(claim) {item['name']}" for item in claims if item and _ONE_POD in (item.get("accessModes") or ())]


def csi_volumes(names: Iterable[str], namespace: str, snapshot: Snapshot) -> frozenset[Volume]:
    """Return the CSI volumes behind claims. A claim without a volume gets an invented handle.

    Source: ``nodevolumelimits/csi.go``, getCSIDriverInfo, getCSIDriverInfoFromSC.
    """
    return frozenset(_attachable(names, namespace, snapshot))


def _attachable(names: Iterable[str], namespace: str, snapshot: Snapshot) -> Iterator[Volume]:
    for name in names:
        claim = find_claim(name, namespace, snapshot)
        volume = None if claim is None else volume_of(claim, snapshot)
        if volume is not None:
            if "driver" in volume:
                yield volume["driver"], volume["handle"]
        elif claim is not None and is_binding_delayed(claim, snapshot):
            storage = storage_class_of(claim, snapshot)
            provisioner = storage["provisioner"] if storage is not None else ""
            driver = MIGRATED_DRIVERS.get(provisioner, provisioner)
            if driver and not driver.startswith("kubernetes.io/"):
                yield driver, f"(claim) {namespace}/{name}"


def volume_terms(names: Iterable[str], namespace: str, snapshot: Snapshot) -> list[list[Object]]:
    """Return where the volumes of bound claims are reachable: lists of node terms, all of which must match.

    Source: ``volumebinding/binder.go``, checkBoundClaims; ``volumezone/volume_zone.go``, Filter.
    """
    result: list[list[Object]] = []
    for name in names:
        claim = find_claim(name, namespace, snapshot)
        volume = None if claim is None else volume_of(claim, snapshot)
        if volume is not None and "nodeTerms" in volume:
            result.append(volume["nodeTerms"])
        labels: Mapping[str, str] = (volume or {}).get("labels") or {}
        zones = {key: labels[key].split("__") for key in _ZONES if labels.get(key)}
        if zones:
            result.append(_zone_terms(zones))
    return result


def _zone_terms(zones: Mapping[str, list[str]]) -> list[Object]:
    """Return terms for nodes in a volume's zones, or without zone labels. A node may have the GA label instead of the
    beta one.
    """
    ways: list[list[list[Object]]] = []
    for key, values in zones.items():
        here: Object = {"key": key, "operator": "In", "values": values}
        ways.append([[here]])
        if key in _GENERAL:
            absent = {"key": key, "operator": "DoesNotExist"}
            ways[-1].append([absent, {**here, "key": _GENERAL[key]}])
    nowhere: Object = {"matchExpressions": [{"key": key, "operator": "DoesNotExist"} for key in _ZONES]}
    return [nowhere, *({"matchExpressions": [item for part in parts for item in part]} for parts in product(*ways))]
