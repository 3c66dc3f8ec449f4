"""Random parts of the worlds that :mod:`fit_worlds` makes: specs of pods, and jobs."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

HOST_NAME = "kubernetes.io/hostname"
WORLD = "example.com/world"
GPU, CARD, MISSING = "nvidia.com/gpu", "example.com/card", "example.com/missing"
CLASSES = {"world-least": -10, "world-low": 0, "world-mid": 100, "world-high": 1000, "world-polite": 1000}
RUNTIME = "heavy"
TAINTS = (
    {"key": "example.com/dedicated", "value": "vision", "effect": "NoSchedule"},
    {"key": GPU, "effect": "NoSchedule"},
    {"key": "example.com/repair", "value": "now", "effect": "NoExecute"},
    {"key": "example.com/full", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
)
FIXED = {"image": "busybox", "imagePullPolicy": "IfNotPresent"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
JOBS = ("alpha", "beta")
_TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "example.com/dedicated", "value": "vision", "effect": "NoSchedule"},
    {"key": "example.com/dedicated", "value": "speech"},
    {"key": "example.com/dedicated", "operator": "Exists", "effect": "NoExecute"},
    {"key": GPU, "operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "example.com/repair", "value": "now", "effect": "NoExecute", "tolerationSeconds": 60},
)
_TOPICS = (
    *("cordon", "taints", "node-selector", "node-affinity", "host-ports", "pods", "topology-spread", "pod-affinity"),
    *("pod-anti-affinity", "existing-anti-affinity", "init-containers", "sidecars", "overhead", "finished", "daemons"),
    *("budgets", "limit-range", "quotas", "jobs", "unknown", "preemption"),
    # Twice, because they can show in part of the worlds that they are drawn for only.
    *("host-ports", "pod-anti-affinity", "existing-anti-affinity", "node-affinity", "daemons"),
)


@dataclass
class World:
    """A cluster and its jobs, the most important first. ``features`` are the rules that have something to decide.

    ``fillers`` are pods that are bound already, with the status that they get; those with a finalizer are being
    deleted. ``waiting`` are pods that the scheduler has tried before.
    """

    seed: int
    nodes: list[Object] = field(default_factory=list)
    fillers: list[tuple[Object, Object]] = field(default_factory=list)
    budgets: list[tuple[Object, Object]] = field(default_factory=list)
    quotas: list[tuple[Object, Object]] = field(default_factory=list)
    limits: list[Object] = field(default_factory=list)
    waiting: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    @property
    def namespace(self) -> str:
        """The namespace of all its objects."""
        return f"world-{self.seed}"


class Parts:
    """Draws parts of a world. ``about`` are the rules that it is about."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(seed)
        self.seconds = iter(self.random.sample(range(40_000), 1000))
        self.taken: dict[int, set[tuple[int, str]]] = defaultdict(set)
        # Of its own, because a rule that honours no node affinity counts the nodes of all worlds.
        self.zone = f"example.com/zone-{seed}"
        # Some worlds are about some rules: where everything is drawn at once, little ever fits.
        self.about = set(self.random.sample(_TOPICS, self.random.choice((5, 5, 6, 6))))

    def chance(self, topic: str, yes: float, no: float = 0.0) -> bool:
        return self.random.random() < (yes if topic in self.about else no)

    def topology(self) -> str:
        return self.random.choice((HOST_NAME, HOST_NAME, self.zone))

    def moment(self) -> str:
        second = next(self.seconds)
        return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"

    def port(self) -> Object:
        port: Object = {"containerPort": 80, "hostPort": self.random.choice((8000, 8001))}
        port["protocol"] = self.random.choice(("TCP", "TCP", "TCP", "UDP"))
        if self.random.random() < 0.4:
            port["hostIP"] = self.random.choice(("10.0.0.1", "10.0.0.2"))
        return port

    def spec(self, requests: Object) -> Object:
        """A pod's spec that asks for so much, and perhaps more by other ways."""
        spec: Object = {"containers": [{"name": "main", **FIXED, "resources": resources_of(requests)}]}
        spec["terminationGracePeriodSeconds"] = 0
        if self.chance("init-containers", 0.5):
            more = {"cpu": f"{self.random.choice((1, 6, 9))}", "memory": f"{self.random.choice((2, 24))}Gi"}
            spec["initContainers"] = [{"name": "prepare", **FIXED, "resources": {"requests": more}}]
            self.world.features.add("init-containers")
        if self.chance("sidecars", 0.5):
            sidecar = {"name": "proxy", **FIXED, "restartPolicy": "Always"}
            sidecar["resources"] = {"requests": {"cpu": f"{self.random.choice((2, 6))}"}}
            spec["initContainers"] = [sidecar, *spec.get("initContainers", [])]
            self.world.features.add("sidecars")
        if self.chance("overhead", 0.5):
            spec["runtimeClassName"] = RUNTIME
            self.world.features.add("overhead")
        return spec

    def toleration(self) -> Object:
        """One that is for a taint of a node, or nearly."""
        taints = [taint for node in self.world.nodes for taint in node["spec"].get("taints", [])]
        if not taints or self.random.random() < 0.4:
            return self.random.choice(_TOLERATIONS)
        taint = self.random.choice(taints)
        other = {"NoSchedule": "NoExecute", "NoExecute": "NoSchedule"}.get(taint["effect"], "NoSchedule")
        return self.random.choice(
            (
                taint,
                {**taint, "value": "another"},
                {**taint, "effect": other},
                {"key": taint["key"], "operator": "Exists"},
                {"key": taint["key"], "operator": "Exists", "effect": other},
            )
        )

    def note(self, spec: Object, pods: int) -> None:
        features = self.world.features
        if pods > 1:
            features.add("gang")
        if "pods" in self.about:
            features.add("pods")
        if spec["priorityClassName"] == "world-polite":
            features.add("polite")
        priority = priority_of(spec)
        ranks = {CLASSES[pod["spec"]["priorityClassName"]] for pod, _ in self.world.fillers}
        if any(rank < priority for rank in ranks):
            features.add("priorities")

    def job(self, number: int) -> Object:
        draw = self.random
        requests: Object = {"cpu": draw.choice(("500m", "1", "2", "4")), "memory": f"{draw.choice((1, 4, 8, 24))}Gi"}
        if draw.random() < 0.75:
            requests[GPU] = str(draw.choice((1, 1, 2, 2, 4)))
        if draw.random() < 0.12:
            requests[CARD] = str(draw.choice((1, 2)))
        if draw.random() < 0.2:
            requests["ephemeral-storage"] = f"{draw.choice((20, 45))}Gi"
        if self.chance("unknown", 0.8, 0.02):
            requests[MISSING] = "1"
            self.world.features.add("unknown-resource")
        if "limit-range" in self.world.features:
            requests.pop("cpu")
        spec = self.spec(requests)
        spec["nodeSelector"] = {WORLD: str(self.world.seed)}
        spec["priorityClassName"] = draw.choice(
            ("world-low", "world-low", "world-mid", "world-high", "world-high", "world-polite")
        )
        if "preemption" in self.about:
            spec["priorityClassName"] = "world-high"
        if self.chance("taints", 0.7, 0.3):
            spec["tolerations"] = [self.toleration()]
        if self.chance("node-selector", 0.8):
            spec["nodeSelector"]["gpu-type"] = draw.choice(("a100", "h100"))
            self.world.features.add("node-selector")
        affinity: Object = {}
        if self.chance("node-affinity", 0.8):
            affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": list(self.node_terms())}}
            self.world.features.add("node-affinity")
        name = JOBS[number]
        for topic, side in (("pod-affinity", "podAffinity"), ("pod-anti-affinity", "podAntiAffinity")):
            if self.chance(topic, 0.8):
                own = draw.random() < 0.5
                term = term_of(self.topology(), name) if own else _colour(self.topology(), draw.choice(("red", "blue")))
                affinity[side] = {REQUIRED: [term]}
                self.world.features.add(topic)
        if affinity:
            spec["affinity"] = affinity
        if self.chance("topology-spread", 0.8):
            spec["topologySpreadConstraints"] = [self.spread(name)]
            self.world.features.add("topology-spread")
        if self.chance("host-ports", 0.8):
            spec["containers"][0]["ports"] = [self.port()]
            self.world.features.add("host-ports")
        spec["restartPolicy"] = "Never"
        pods = draw.choice((1, 1, 1, 2, 2, 3, 3, 4))
        self.note(spec, pods)
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.world.namespace},
            "spec": {"parallelism": pods, "completions": pods, "template": template},
        }

    def node_terms(self) -> Iterator[Object]:
        draw = self.random
        for _ in range(draw.choice((1, 1, 2))):
            kind = draw.randrange(5)
            if kind == 0:
                yield _expression("gpu-type", draw.choice(("In", "NotIn")), "a100")
            elif kind == 1:
                yield _expression("generation", draw.choice(("Gt", "Lt")), str(draw.randint(2, 8)))
            elif kind == 2:
                yield _expression("generation", draw.choice(("Exists", "DoesNotExist")))
            elif kind == 3:
                node = draw.choice(self.world.nodes)["metadata"]["name"]
                operator = draw.choice(("In", "NotIn"))
                yield {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [node]}]}
            else:
                both = [_expression(self.zone, "In", "a"), _expression("generation", "NotIn", "3", "4")]
                yield {"matchExpressions": [item for term in both for item in term["matchExpressions"]]}

    def spread(self, name: str) -> Object:
        draw = self.random
        own = draw.random() < 0.7
        spread: Object = {
            "maxSkew": draw.choice((1, 1, 2)),
            "topologyKey": self.topology(),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name if own else draw.choice(("red", "blue"))}},
        }
        if draw.random() < 0.3:
            spread["minDomains"] = draw.choice((2, 3))
        if draw.random() < 0.4:
            spread["nodeTaintsPolicy"] = "Honor"
        if draw.random() < 0.3:
            spread["nodeAffinityPolicy"], spread["topologyKey"] = "Ignore", self.zone
        return spread


def priority_of(spec: Object) -> int:
    return CLASSES[spec["priorityClassName"]]


def resources_of(requests: Object) -> Object:
    # Extended resources need equal limits; of others a request alone will do.
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _expression(key: str, operator: str, *values: str) -> Object:
    item: Object = {"key": key, "operator": operator}
    if values:
        item["values"] = list(values)
    return {"matchExpressions": [item]}


def term_of(topology: str, app: str) -> Object:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}


def _colour(topology: str, colour: str) -> Object:
    expressions = [{"key": "app", "operator": "In", "values": [colour]}]
    return {"topologyKey": topology, "labelSelector": {"matchExpressions": expressions}}
