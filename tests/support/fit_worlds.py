"""Small random clusters, each in a namespace and on nodes of its own, with jobs that may or may not fit in them."""

from __future__ import annotations

from support.fit_parts import (
    CARD,
    CLASSES,
    GPU,
    HOST_NAME,
    JOBS,
    REQUIRED,
    RUNTIME,
    TAINTS,
    WORLD,
    Object,
    Parts,
    World,
    priority_of,
    resources_of,
    term_of,
)


def shared_objects() -> list[Object]:
    """Return the objects that all worlds need."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "world-polite" else "PreemptLowerPriority",
        }
        for name, value in CLASSES.items()
    ]
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": RUNTIME,
        "overhead": {"podFixed": {"cpu": "3", "memory": "8Gi"}},
    }
    return [*classes, runtime]


def world(seed: int) -> World:
    """The world of a seed."""
    return Maker(seed).make()


class Maker(Parts):
    """Draws worlds."""

    def make(self) -> World:
        if self.world.seed % 5 == 0:
            self._make_duel()
        elif self.world.seed % 5 == 1:
            self._make_zones()
        else:
            self._make_medley()
        return self.world

    def _make_duel(self) -> None:
        """Add equal nodes full of pods that one job may evict: only the choice of victims matters."""
        self.about = set()
        gpus = {"cpu": "64", "memory": "256Gi", "pods": "30", GPU: "8", CARD: "8", "ephemeral-storage": "1Ti"}
        ranks = self.random.sample(("world-least", "world-low", "world-mid"), self.random.choice((1, 2, 3, 3)))
        contest = self.random.choice((*_CONTESTS, None, None, None, None, None))
        schemes = self.random.choice((((4,),), ((2,),), ((2, 4),), ((1, 2, 3),), ((4,), (2,), (8,)), ((8,), (2, 4))))
        for index in range(self.random.choice((2, 3))):
            self.world.nodes.append(
                {**self._node(index), "spec": {}, "status": {"allocatable": gpus, "capacity": gpus}}
            )
            sizes = self.random.choice(schemes)
            drawn = [(self.random.choice(sizes), tuple(ranks)) for _ in range(8)]
            fillers = contest[min(index, 1)] if contest else drawn
            free = 8
            for number, (size, classes) in enumerate(fillers):
                if size > free:
                    break
                free -= size
                self._filler(index, number)
                filler = self.world.fillers[-1][0]["spec"]
                filler["containers"][0]["resources"] = resources_of({GPU: str(size)})
                filler["priorityClassName"] = self.random.choice(classes)
        if not contest and self.random.random() < 0.4:
            self._budgets()
        job = self.job(0)
        spec = job["spec"]["template"]["spec"]
        spec["containers"][0]["resources"] = resources_of({GPU: str(self.random.choice((2, 4, 5, 8, 8, 8)))})
        spec["priorityClassName"] = self.random.choice(("world-low", "world-mid", "world-high", "world-high"))
        pods = self.random.choice((1, 1, 1, 2))
        if contest:
            spec["containers"][0]["resources"] = resources_of({GPU: "8"})
            spec["priorityClassName"] = "world-high"
        job["spec"].update(parallelism=pods, completions=pods)
        self.note(spec, pods)
        self.world.jobs.append(job)

    def _make_zones(self) -> None:
        """Zones of which one may be closed by taints or a label: does a spread count it?"""
        self.about = (
            {"topology-spread", "node-selector"} if self.random.random() < 0.5 else {"topology-spread", "taints"}
        )
        closed = {"labels": {"gpu-type": "h100"}} if "node-selector" in self.about else {"taints": [TAINTS[0]]}
        for index in range(self.random.choice((3, 4))):
            node = self._node(index)
            node["spec"] = {}
            node["metadata"]["labels"].update({self.zone: "ab"[index % 2], "gpu-type": "a100"})
            if index % 2 and self.random.random() < 0.7:
                node["metadata"]["labels"].update(closed.get("labels", {}))
                node["spec"]["taints"] = closed.get("taints", [])
            self.world.nodes.append(node)
        job = self.job(0)
        spec = job["spec"]["template"]["spec"]
        spec.pop("tolerations", None)
        spec["containers"][0]["resources"] = resources_of({"cpu": "500m"})
        spread = {**self.spread("alpha"), "topologyKey": self.zone}
        spread["nodeAffinityPolicy"] = self.random.choice(("Honor", "Ignore"))
        spec["topologySpreadConstraints"] = [spread]
        pods = self.random.randint(1, 4)
        job["spec"].update(parallelism=pods, completions=pods)
        if "node-selector" in self.about:
            spec["nodeSelector"]["gpu-type"] = "a100"
        self.world.features |= self.about
        self.world.jobs.append(job)

    def _make_medley(self) -> None:
        """A bit of everything."""
        for number in range(self.random.choice((2, 3, 3, 4))):
            self.world.nodes.append(self._node(number))
        for index in range(len(self.world.nodes)):
            for number in range(self.random.choice((1, 2, 2, 3, 3))):
                self._filler(index, number)
        if self.chance("budgets", 1.0):
            self._budgets()
        if self.chance("limit-range", 1.0):
            self._limit_range()
        jobs = 2 if self.chance("jobs", 1.0) else 1
        for number in range(jobs):
            self.world.jobs.append(self.job(number))
        self.world.jobs.sort(key=lambda job: -priority_of(job["spec"]["template"]["spec"]))
        if jobs > 1:
            self.world.features.add("several-jobs")
        if self.chance("quotas", 1.0):
            self._quota()

    def _node(self, number: int) -> Object:
        draw = self.random
        name = f"{self.world.namespace}-{number}"
        labels = {WORLD: str(self.world.seed), HOST_NAME: name, self.zone: draw.choice("ab")}
        labels["gpu-type"] = draw.choice(("a100", "h100"))
        if draw.random() < 0.8:
            labels["generation"] = str(draw.randint(1, 9))
        allocatable = {
            "cpu": str(draw.choice((8, 16, 16, 32))),
            "memory": f"{draw.choice((32, 64, 64, 128))}Gi",
            "ephemeral-storage": f"{draw.choice((50, 100))}Gi",
            "pods": str(draw.randint(1, 5) if self.chance("pods", 0.8) else 30),
        }
        if number == 0 or draw.random() < 0.8:
            allocatable[GPU] = str(draw.choice((2, 4, 4, 8)))
        if draw.random() < 0.5:
            allocatable[CARD] = str(draw.randint(1, 4))
        spec: Object = {}
        if self.chance("taints", 0.6):
            spec["taints"] = draw.sample(TAINTS, draw.choice((1, 1, 2)))
            self.world.features.add("taints")
        if self.chance("cordon", 0.6):
            spec["unschedulable"] = True
            self.world.features.add("cordon")
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }

    def _filler(self, index: int, number: int) -> None:
        draw = self.random
        node = self.world.nodes[index]
        labels = {"app": draw.choice(("red", "blue")), "number": str(number)}
        requests = {"cpu": f"{draw.choice((500, 1000, 2000, 4000))}m", "memory": f"{draw.choice((1, 4, 8, 16))}Gi"}
        if GPU in node["status"]["allocatable"] and draw.random() < 0.85:
            requests[GPU] = str(draw.choice((1, 2, 2, 4)))
        if CARD in node["status"]["allocatable"] and draw.random() < 0.3:
            requests[CARD] = "1"
        if draw.random() < 0.3:
            requests["ephemeral-storage"] = f"{draw.choice((10, 30))}Gi"
        spec = self.spec(requests)
        spec["nodeName"] = node["metadata"]["name"]
        spec["priorityClassName"] = draw.choice(("world-least", "world-low", "world-mid", "world-high", "world-high"))
        spec["tolerations"] = [{"operator": "Exists"}]
        if self.chance("existing-anti-affinity", 0.35):
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term_of(self.topology(), draw.choice(JOBS))]}}
            self.world.features.add("existing-anti-affinity")
        if self.chance("host-ports", 0.5):
            port = self.port()
            if (port["hostPort"], port["protocol"]) not in self.taken[index]:
                # No scheduler lets two pods of a node have one port.
                self.taken[index].add((port["hostPort"], port["protocol"]))
                spec["containers"][0]["ports"] = [port]
        status: Object = {"phase": "Running", "startTime": self.moment()}
        if self.chance("finished", 0.4):
            status["phase"] = draw.choice(("Succeeded", "Failed"))
            self.world.features.add("finished")
        metadata: Object = {"name": f"filler-{index}-{number}", "labels": labels}
        if self.chance("daemons", 0.35):
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
            metadata["ownerReferences"] = [owner]
            self.world.features.add("daemons")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.world.fillers.append((pod, {"status": status}))

    def _budgets(self) -> None:
        for colour in ("red", "blue"):
            if self.random.random() < 0.7:
                budget = {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": colour},
                    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": colour}}},
                }
                allowed = self.random.choice((0, 0, 1))
                status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
                self.world.budgets.append((budget, {"status": {**status, "observedGeneration": 1}}))
                self.world.features.add("budgets")

    def _limit_range(self) -> None:
        request = {"cpu": self.random.choice(("1", "5", "7"))}
        spec = {"limits": [{"type": "Container", "default": {"cpu": "16"}, "defaultRequest": request}]}
        limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": spec}
        self.world.limits.append(limits)
        self.world.features.add("limit-range")

    def _quota(self) -> None:
        key = self.random.choice(("pods", f"requests.{GPU}", "requests.memory"))
        unit = "Gi" if key == "requests.memory" else ""
        hard, used = self.random.randint(1, 30), self.random.randint(0, 6)
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team"},
            "spec": {"hard": {key: f"{hard}{unit}"}},
        }
        status = {"hard": {key: f"{hard}{unit}"}, "used": {key: f"{min(hard, used)}{unit}"}}
        self.world.quotas.append((quota, {"status": status}))
        self.world.features.add("quota")


# Fillers of the first node and of the others, with their sizes and classes: by the sum of priorities, by the highest.
_OF_TWO = ((4, ("world-mid",)), (4, ("world-low", "world-least")))
_CONTESTS = ((_OF_TWO, _OF_TWO), (((8, ("world-mid",)),), ((4, ("world-low",)), (4, ("world-low",)))))
