"""Random clusters of a few pools, and many jobs that are submitted to them at once."""

from __future__ import annotations

import random

from support.fit_parts import FIXED, GPU, HOST_NAME, REQUIRED, WORLD, Object, World, priority_of, resources_of

POOL = "example.com/pool"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KINDS = ("shared", "separate", "several", "preempting", "wishful", "apart")
YIELDING = "yielding"
"""The kind of worlds whose jobs find room in shared pools by evicting some of what others run, and leaving the rest."""
_EACH = ("separate", "apart")
_FULL = ("preempting", "apart", YIELDING)


def submission(seed: int, kind: str | None = None) -> World:
    """Return the world of a seed: all jobs in one pool, each in its own, in several, or with a higher priority than
    running jobs; with pod affinity; or each with a higher priority than the jobs of its own pool. Or the world of a
    given kind.
    """
    return _Maker(seed, kind or KINDS[seed % len(KINDS)]).make()


class _Maker:
    def __init__(self, seed: int, kind: str) -> None:
        self.random = random.Random(seed)
        self.world = World(seed)
        self.kind = kind
        self.world.features.add(self.kind)
        self.seconds = iter(self.random.sample(range(80_000), 2000))

    def make(self) -> World:
        draw = self.random
        few = self.kind == YIELDING
        jobs = draw.choice((60, 120)) if self.kind in _EACH else draw.choice((6, 10) if few else (20, 30, 40, 60))
        several = draw.choice((3, 6))
        pools = {"shared": 1, "several": several, "preempting": 2, "wishful": 2, YIELDING: 2}.get(self.kind, jobs)
        for pool in range(pools):
            self._pool(pool, draw.choice((1, 2)) if self.kind in _EACH else draw.choice((8,) if few else (3, 5, 8)))
        for number in range(jobs):
            self.world.jobs.append(self._job(number, number % pools if self.kind in _EACH else draw.randrange(pools)))
        self.world.jobs.sort(key=lambda job: -priority_of(job["spec"]["template"]["spec"]))
        return self.world

    def _pool(self, pool: int, nodes: int) -> None:
        draw = self.random
        size = draw.choice((4, 8))
        for number in range(nodes):
            name = f"{self.world.namespace}-{pool}-{number}"
            allocatable = {
                "cpu": str(draw.choice((32, 64))),
                "memory": f"{draw.choice((128, 256))}Gi",
                "pods": "60",
                GPU: str(size if draw.random() < 0.8 else 4),
            }
            labels = {WORLD: str(self.world.seed), HOST_NAME: name, POOL: f"pool-{pool}"}
            labels[f"example.com/zone-{self.world.seed}"] = "ab"[number % 2]
            node: Object = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {},
                "status": {"capacity": allocatable, "allocatable": allocatable},
            }
            if draw.random() < 0.1:
                node["spec"]["taints"] = [{"key": "example.com/old", "effect": "PreferNoSchedule"}]
            self.world.nodes.append(node)
            self._residents(node, len(self.world.nodes) - 1)

    def _residents(self, node: Object, index: int) -> None:
        draw = self.random
        free = int(node["status"]["allocatable"][GPU])
        full = self.kind in _FULL
        for number in range(4):
            size = draw.choice((1, 2, 4))
            if size > free or (not full and draw.random() < 0.6):
                continue
            free -= size
            second = next(self.seconds)
            moment = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
            spec = self._spec({GPU: str(size), "cpu": str(draw.choice((1, 4))), "memory": "8Gi"})
            spec["priorityClassName"] = draw.choice(("world-least", "world-low")) if full else "world-high"
            spec["nodeName"] = node["metadata"]["name"]
            metadata = {"name": f"filler-{index}-{number}", "labels": {"app": f"owner-{draw.randrange(40)}"}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            self.world.fillers.append((pod, {"status": {"phase": "Running", "startTime": moment}}))

    def _spec(self, requests: Object) -> Object:
        container = {"name": "main", **FIXED, "resources": resources_of(requests)}
        return {"containers": [container], "terminationGracePeriodSeconds": 0, "restartPolicy": "Never"}

    def _job(self, number: int, pool: int) -> Object:
        draw = self.random
        gpus, pods = draw.choice((0, 1, 1, 2, 2, 4, 8)), draw.choice((1, 1, 1, 2, 3, 4))
        requests: Object = {GPU: str(gpus)} if gpus else {}
        if draw.random() < 0.8:
            requests.update({"cpu": draw.choice(("500m", "2", "8")), "memory": f"{draw.choice((1, 8, 32))}Gi"})
        spec = self._spec(requests)
        spec["nodeSelector"] = {WORLD: str(self.world.seed), POOL: f"pool-{pool}"}
        spec["priorityClassName"] = "world-mid"
        if draw.random() < (0.5 if self.kind == "preempting" else 0.15):
            spec["priorityClassName"] = "world-high"
        if draw.random() < 0.15:
            prefer = {"preference": {"matchExpressions": [{"key": HOST_NAME, "operator": "Exists"}]}, "weight": 5}
            spec["affinity"] = {"nodeAffinity": {PREFERRED: [prefer]}}
        if self.kind == "wishful":
            self._wish(spec, number)
        template = {"metadata": {"labels": {"app": f"job-{number}", "team": f"team-{number % 3}"}}, "spec": spec}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"job-{number}", "namespace": self.world.namespace},
            "spec": {"parallelism": pods, "completions": pods, "template": template},
        }

    def _wish(self, spec: Object, number: int) -> None:
        """Set the affinity of pods, required or preferred: to their own job, to those of a team, or to existing
        pods.
        """
        draw = self.random
        label = draw.choice(({"app": f"job-{number}"}, {"team": f"team-{draw.randrange(3)}"}, {"app": "owner-1"}))
        topology = draw.choice((HOST_NAME, HOST_NAME, f"example.com/zone-{self.world.seed}"))
        term = {"topologyKey": topology, "labelSelector": {"matchLabels": label}}
        affinity = spec.setdefault("affinity", {})
        kind = draw.randrange(6)
        if kind == 0:
            own = {**term, "topologyKey": HOST_NAME, "labelSelector": {"matchLabels": {"app": f"job-{number}"}}}
            affinity["podAntiAffinity"] = {REQUIRED: [own]}
        elif kind in (1, 2):
            side = ("podAffinity", "podAntiAffinity")[kind - 1]
            affinity[side] = {PREFERRED: [{"weight": draw.choice((5, 50, 100)), "podAffinityTerm": term}]}
        elif kind in (3, 4):
            rule: Object = {
                "maxSkew": draw.choice((1, 2)),
                "topologyKey": topology,
                "labelSelector": {"matchLabels": label},
            }
            rule["whenUnsatisfiable"] = ("ScheduleAnyway", "DoNotSchedule")[kind - 3]
            spec["topologySpreadConstraints"] = [rule]
