"""Small random clusters with claims that have no volume yet: what is there, what a driver can make, who shares it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
HOST_NAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
MODES = ("static", "static", "made", "made", "measured", "both", "one-pod", "attached")


@dataclass
class VolumeWorld:
    """Nodes, storage and jobs of one namespace. ``reach`` is from where volumes that are made are reached."""

    seed: int
    mode: str
    reach: str = "node"
    nodes: list[Object] = field(default_factory=list)
    fillers: list[Object] = field(default_factory=list)
    shared: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    capacities: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The namespace of all its objects, and the prefix of other names."""
        return f"volumes-{self.seed}"

    @property
    def driver(self) -> str:
        """Its CSI driver."""
        return f"{self.namespace}.example.com"


def volume_world(seed: int) -> VolumeWorld:
    """The world of a seed."""
    draw = random.Random(seed)
    world = VolumeWorld(seed, MODES[seed % len(MODES)])
    world.reach = draw.choice(("node", "zone", "everywhere"))
    _add_nodes(world, draw)
    _add_class(world, draw)
    _add_claims(world, draw)
    if world.mode != "made" and world.mode != "measured":
        _add_volumes(world, draw)
    _add_jobs(world, draw)
    return world


def _add_nodes(world: VolumeWorld, draw: random.Random) -> None:
    for number in range(draw.choice((2, 2, 3))):
        name = f"{world.namespace}-{number}"
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "30", GPU: str(draw.choice((4, 8)))}
        labels = {"example.com/world": world.namespace, HOST_NAME: name, ZONE: draw.choice("ab")}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        world.nodes.append({**node, "status": {"capacity": amounts, "allocatable": amounts}})
        keys = {"node": [HOST_NAME], "zone": [ZONE], "everywhere": []}[world.reach]
        driver: Object = {"name": world.driver, "nodeID": name, "topologyKeys": keys}
        if world.mode == "attached":
            driver["allocatable"] = {"count": draw.choice((0, 1, 1, 2))}
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": "1"}
        metadata = {"name": name, "ownerReferences": [owner]}
        spec = {"drivers": [driver]}
        world.shared.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": spec})
        if draw.random() < 0.6:
            spec = _spec({GPU: str(draw.choice((1, 2, 4)))}, draw.choice(("volumes-low", "volumes-high")))
            metadata = {"name": f"filler-{number}", "namespace": world.namespace, "labels": {"app": "filler"}}
            filler = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "nodeName": name}}
            world.fillers.append(filler)


def _spec(amounts: Object, priority: str) -> Object:
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    return {"containers": [container], "priorityClassName": priority, "terminationGracePeriodSeconds": 0}


def _add_class(world: VolumeWorld, draw: random.Random) -> None:
    static = world.mode in ("static", "one-pod")
    storage: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": world.namespace},
        "provisioner": "kubernetes.io/no-provisioner" if static else world.driver,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    if not static and draw.random() < 0.5:
        expression = {"key": ZONE, "values": [draw.choice("ab")]}
        storage["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    world.shared.append(storage)
    if world.mode == "measured":
        spec = {"storageCapacity": True, "attachRequired": False}
        metadata = {"name": world.driver}
        world.shared.append(
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata, "spec": spec}
        )
        for number in range(draw.choice((0, 1, 2, 2))):
            by = draw.choice((ZONE, HOST_NAME))
            value = draw.choice("ab") if by == ZONE else draw.choice(world.nodes)["metadata"]["name"]
            world.capacities.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSIStorageCapacity",
                    "metadata": {"name": f"offer-{number}", "namespace": world.namespace},
                    "storageClassName": world.namespace,
                    "nodeTopology": {"matchLabels": {by: value}},
                    "capacity": draw.choice(("5Gi", "20Gi", "20Gi")),
                    **({"maximumVolumeSize": "2Gi"} if draw.random() < 0.15 else {}),
                }
            )


def _add_claims(world: VolumeWorld, draw: random.Random) -> None:
    for number in range(draw.choice((1, 1, 2, 2))):
        modes = ["ReadWriteOncePod"] if world.mode == "one-pod" else [draw.choice(("ReadWriteOnce", "ReadWriteMany"))]
        spec: Object = {
            "accessModes": modes,
            "storageClassName": world.namespace,
            "resources": {"requests": {"storage": draw.choice(("1Gi", "10Gi", "10Gi"))}},
        }
        if world.mode == "static" and draw.random() < 0.2:
            spec["selector"] = {"matchLabels": {"tier": draw.choice(("fast", "slow"))}}
        metadata = {"name": f"claim-{number}", "namespace": world.namespace}
        world.claims.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})


def _add_volumes(world: VolumeWorld, draw: random.Random) -> None:
    zonal = draw.random() < 0.25
    for number in range(draw.choice((1, 2, 2, 3, 4))):
        node = draw.choice(world.nodes)["metadata"]
        place = (ZONE, draw.choice("ab")) if zonal or draw.random() < 0.1 else (HOST_NAME, node["name"])
        modes = ["ReadWriteOncePod"] if world.mode == "one-pod" else ["ReadWriteOnce", "ReadWriteMany"]
        metadata = {"name": f"{world.namespace}-{number}", "labels": {"tier": draw.choice(("fast", "slow"))}}
        world.volumes.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": metadata,
                "spec": {
                    "accessModes": modes if draw.random() < 0.9 else ["ReadOnlyMany"],
                    "storageClassName": world.namespace,
                    "capacity": {"storage": draw.choice(("10Gi", "10Gi", "10Gi", "5Gi", "20Gi"))},
                    "csi": {"driver": "files.example.com", "volumeHandle": metadata["name"]},
                    "nodeAffinity": affinity(*place),
                },
            }
        )


def affinity(key: str, value: str) -> Object:
    """Return the node affinity of a volume."""
    return {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}
    }


def _add_jobs(world: VolumeWorld, draw: random.Random) -> None:
    for number in range(draw.choice((1, 1, 1, 2))):
        names = [item["metadata"]["name"] for item in world.claims]
        mounted = draw.sample(names, draw.choice((1, 1, len(names))))
        pods = draw.choice((1, 1, 2, 2, 3))
        spec = _spec({GPU: str(draw.choice((1, 2, 2, 4, 5)))}, draw.choice(("volumes-low", "volumes-mid")))
        spec["nodeSelector"] = {"example.com/world": world.namespace}
        spec["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in mounted]
        if draw.random() < 0.15:
            claim = {key: value for key, value in world.claims[0]["spec"].items() if key != "selector"}
            claim["accessModes"] = ["ReadWriteOnce"]
            spec["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
        name = f"job-{number}"
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        metadata = {"name": name, "namespace": world.namespace}
        body = {"parallelism": pods, "completions": pods, "template": template}
        world.jobs.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body})
