"""Volume binding of claims with ``WaitForFirstConsumer``: the nodes with a matching volume, or where one can be
provisioned.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins/volumebinding/binder.go`` (findMatchingVolumes,
checkVolumeProvisions, hasEnoughCapacity), ``component-helpers/storage/volume/pv_helpers.go`` (FindMatchingVolume).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from gpuctl.capacity.scheduler.scheduler_model import HOST_NAME, DelayedClaim, SchedulableNode
from gpuctl.capacity.scheduler.scheduling import matches_node_term
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.capacity.snapshot.snapshot_entries import volume_request
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import quantity
from gpuctl.objects.selectors import selector_matches

_LATE = "WaitForFirstConsumer"
_STATIC = "kubernetes.io/no-provisioner"
NEEDED_LISTS = ("volumes", "storageClasses", "csiDrivers", "storageCapacities")
"""The lists of a snapshot that volume binding needs."""


NodeVolumes = Mapping[str, str | None]
"""The volumes that a pod's claims get on a node: claim name -> volume name, None for a new one."""


def storage_class_of(claim: Object, snapshot: Snapshot) -> Object | None:
    """Return the StorageClass of a claim. Without a name, the default class counts if there is exactly one."""
    named = claim.get("storageClass")
    if named is None:
        defaults = [item for item in snapshot.storage_classes if item.get("default")]
        return defaults[0] if len(defaults) == 1 else None
    return next((item for item in snapshot.storage_classes if item["name"] == named), None)


def is_binding_delayed(claim: Object, snapshot: Snapshot) -> bool:
    """Return True if the scheduler chooses a claim's volume. Source: GetPodVolumeClaims, IsDelayBindingMode."""
    if claim.get("phase") != "Pending" or claim.get("named"):
        return False
    storage = storage_class_of(claim, snapshot)
    return storage is not None and storage.get("bindingMode") == _LATE


def delayed_claims(spec: Object, namespace: str, snapshot: Snapshot) -> Iterator[DelayedClaim]:
    """Yield the claims of a pod that are bound when it is scheduled."""
    for volume in spec.get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = snapshot.claims_by_name.get((namespace, name))
            if claim is not None and is_binding_delayed(claim, snapshot):
                yield DelayedClaim(_with_class(claim, snapshot), False)
        elif volume.get("ephemeral"):
            claim = ephemeral_claim(volume, namespace)
            if is_binding_delayed(claim, snapshot):
                yield DelayedClaim(_with_class(claim, snapshot), True)


def ephemeral_claim(volume: Object, namespace: str) -> Object:
    """Return the claim that is created for a pod's ephemeral volume."""
    spec = (volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {}
    named = {"storageClass": spec["storageClassName"]} if spec.get("storageClassName") is not None else {}
    modes = {"accessModes": spec.get("accessModes") or []}
    own = {"namespace": namespace, "name": volume["name"], "phase": "Pending"}
    return {**own, **named, **modes, **volume_request(spec)}


def _with_class(claim: Object, snapshot: Snapshot) -> Object:
    storage = storage_class_of(claim, snapshot)
    return claim if storage is None else {**claim, "storageClass": storage["name"]}


class VolumeBinder:
    """Available volumes, and where new ones can be provisioned."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._classes = {item["name"]: item for item in snapshot.storage_classes}
        self._by_class: dict[str, list[Object]] = {}
        for item in sorted(snapshot.volumes, key=_size):
            if "phase" in item and not item.get("deleting"):
                self._by_class.setdefault(item.get("storageClass", ""), []).append(item)
        self._measured = {item["name"] for item in snapshot.csi_drivers if item.get("storageCapacity")}
        self._capacities: dict[str, list[Object]] = {}
        for item in snapshot.storage_capacities:
            self._capacities.setdefault(item["storageClass"], []).append(item)
        self._matching: dict[str, _MatchingVolumes] = {}

    def volumes_on(self, claims: Sequence[DelayedClaim], node: SchedulableNode) -> NodeVolumes | None:
        """Return the volumes of all claims on a node, or None if one of them gets none there."""
        found: dict[str, str | None] = {}
        for late in sorted(claims, key=lambda item: _size(item.claim)):
            claim = late.claim
            selected = claim.get("selectedNode")
            if selected is not None and selected != node.name:
                return None
            volume = None if selected else self._smallest(claim, node, set(found.values()))
            if volume is None and not self.can_provision(claim, node):
                return None
            found[claim["name"]] = None if volume is None else volume["name"]
        return found

    def _smallest(self, claim: Object, node: SchedulableNode, taken: set[str | None]) -> Object | None:
        known = self.open_to(claim)
        if known.kept is not None:
            return known.kept if is_volume_reachable(known.kept, node) else None
        near = (item for item in known.on(node) if item["name"] not in taken)
        return next((item for item in near if is_volume_reachable(item, node)), None)

    def open_to(self, claim: Object) -> _MatchingVolumes:
        """Return the volumes that match a claim, on any node, the smallest first."""
        key = str(sorted(claim.items(), key=str))
        if key not in self._matching:
            fitting = [item for item in self._by_class.get(claim["storageClass"], ()) if _suits(item, claim)]
            self._matching[key] = _MatchingVolumes(fitting, claim)
        return self._matching[key]

    def can_provision(self, claim: Object, node: SchedulableNode) -> bool:
        """Return True if the class's driver can provision a volume for a node, as far as the scheduler checks it."""
        storage = self._classes[claim["storageClass"]]
        if storage["provisioner"] in ("", _STATIC):
            return False
        terms = storage.get("topologies") or []
        if terms and not any(_in_topology(term, node.labels) for term in terms):
            return False
        if "size" not in claim or storage["provisioner"] not in self._measured:
            return True
        wanted = quantity(claim["size"])
        return any(
            quantity(item.get("size", 0)) >= wanted and selector_matches(item["topology"], node.labels)
            for item in self._capacities.get(storage["name"], ())
            if "topology" in item and "size" in item
        )

    def provisioner(self, claim: Object) -> str:
        """Return the driver that provisions a claim's volume."""
        return str(self._classes[claim["storageClass"]]["provisioner"])


class _MatchingVolumes:
    """Volumes that match a claim. ``kept``: the volume reserved for the claim, which is then the only candidate."""

    def __init__(self, volumes: Sequence[Object], claim: Object) -> None:
        own = claim["namespace"], claim["name"]
        self.kept = next((item for item in volumes if _kept_for(item) == own), None)
        self.volumes = [item for item in volumes if "claim" not in item]
        self._by_host: dict[str, list[tuple[int, Object]]] = {}
        self._anywhere: list[tuple[int, Object]] = []
        for place, item in enumerate(self.volumes):
            hosts = _hosts(item)
            for host in hosts or ():
                self._by_host.setdefault(host, []).append((place, item))
            if hosts is None:
                self._anywhere.append((place, item))

    def on(self, node: SchedulableNode) -> Iterator[Object]:
        """Yield the volumes that may be reachable from a node, the smallest first."""
        here = self._by_host.get(node.labels.get(HOST_NAME, ""), [])
        return (item for _, item in sorted([*here, *self._anywhere], key=lambda found: found[0]))


def is_volume_reachable(volume: Object, node: SchedulableNode) -> bool:
    """Return True if a volume can be used on a node."""
    terms = volume.get("nodeTerms")
    return terms is None or any(matches_node_term(term, node) for term in terms)


def _suits(volume: Object, claim: Object) -> bool:
    if _size(volume) < _size(claim) or volume.get("block", False) != claim.get("block", False):
        return False
    if volume.get("attributesClass", "") != claim.get("attributesClass", ""):
        return False
    if "claim" in volume:
        return _kept_for(volume) == (claim["namespace"], claim["name"])
    if volume["phase"] != "Available" or not {*claim.get("accessModes", ())} <= {*volume.get("accessModes", ())}:
        return False
    return "selector" not in claim or selector_matches(claim["selector"], volume.get("labels") or {})


def _kept_for(volume: Object) -> tuple[str | None, str | None]:
    claim = volume.get("claim") or {}
    return claim.get("namespace"), claim.get("name")


def _size(item: Object) -> Fraction:
    return quantity(item.get("size", 0))


def _hosts(volume: Object) -> list[str] | None:
    """Return the host names in a volume's node terms, or None if a term uses other labels."""
    terms: Iterable[Object] = volume.get("nodeTerms") or ()
    found: list[str] = []
    for term in terms:
        named = [
            item["values"]
            for item in term.get("matchExpressions") or []
            if item["key"] == HOST_NAME and item["operator"] == "In"
        ]
        if not named:
            return None
        found += named[0]
    return list(dict.fromkeys(found)) if found else None


def _in_topology(term: Sequence[Object], labels: Mapping[str, str]) -> bool:
    """Source: ``pkg/apis/core/v1/helper/helpers.go``, MatchTopologySelectorTerms: an empty term matches no node."""
    return bool(term) and all(labels.get(item["key"]) in item["values"] for item in term)
