"""Random clusters with what :mod:`fit_worlds` does not make: pods that leave, wait or are promised a node, and specs
that few people write."""

from __future__ import annotations

from support.fit_parts import (
    CARD,
    CLASSES,
    GPU,
    HOST_NAME,
    JOBS,
    REQUIRED,
    Object,
    World,
    priority_of,
    resources_of,
    term_of,
)
from support.fit_worlds import Maker

HUGE = "hugepages-2Mi"
_FULL = {"cpu": "64", "memory": "256Gi", "pods": "30", GPU: "8", CARD: "8", HUGE: "1Gi", "ephemeral-storage": "1Ti"}


def oddity(seed: int) -> World:
    """The world of a seed."""
    return _Oddities(seed).make()


class _Oddities(Maker):
    def make(self) -> World:
        self.about = set()
        makers = (self._make_leaving, self._make_waiting, self._make_specs)
        makers[self.world.seed % len(makers)]()
        self.world.jobs.sort(key=lambda job: -priority_of(job["spec"]["template"]["spec"]))
        return self.world

    def _make_leaving(self) -> None:
        """Nodes on which some pods are being deleted, and do not end."""
        self._crowd()
        for pod, _ in self.world.fillers:
            if self.random.random() < 0.4:
                pod["metadata"]["finalizers"] = ["example.com/held"]
                self.world.features.add("leaving")
        self._job(0)

    def _make_waiting(self) -> None:
        """Pods that wait, some of them with the promise of a node; perhaps more important than the job."""
        contest = self.random.random() < 0.5
        self._crowd(full=contest)
        if not contest and self.random.random() < 0.5:
            for pod, _ in self.world.fillers:
                # Pods that nominated the node keep waiting.
                pod["metadata"]["finalizers"] = ["example.com/held"]
        for number in range(self.random.choice((1, 1, 2))):
            pod = self._job(0)["spec"]["template"]
            self.world.jobs.pop()
            pod["spec"]["priorityClassName"] = self.random.choice(
                ("world-low", "world-mid", "world-polite", "world-high")
            )
            size = self.random.choice(("2", "4", "8", "8"))
            if contest:
                # It preempts no pods, and is scheduled before the job that does.
                pod["spec"]["priorityClassName"] = "world-polite"
            pod["spec"]["containers"][0]["resources"] = resources_of({GPU: size})
            if self.random.random() < 0.3:
                pod["spec"]["nodeSelector"]["gpu-type"] = "none"
            metadata = {"name": f"waiting-{number}", "labels": {"app": "green"}}
            self.world.waiting.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})
        spec = self._job(0)["spec"]["template"]["spec"]
        if contest:
            spec["priorityClassName"] = self.random.choice(("world-mid", "world-high"))
            self.world.features.add("contest")

    def _make_specs(self) -> None:
        """Specs that few people write."""
        draw = self.random
        self._crowd()
        for pod, _ in self.world.fillers:
            if draw.random() < 0.3:
                pod["spec"]["hostNetwork"] = True
                pod["spec"]["containers"][0]["ports"] = []
            if draw.random() < 0.2:
                amounts = {"cpu": "2", "memory": "1Gi", HUGE: "512Mi"}
                pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        for node in self.world.nodes:
            if draw.random() < 0.3:
                taint = {"key": "node.kubernetes.io/not-ready", "effect": draw.choice(("NoSchedule", "NoExecute"))}
                node["spec"]["taints"] = [taint]
            if draw.random() < 0.2:
                del node["metadata"]["labels"][HOST_NAME]
        for number in range(draw.choice((1, 1, 2))):
            spec = self._job(number)["spec"]["template"]["spec"]
            self._dress(spec, JOBS[number])

    @property
    def _own_namespace(self) -> Object:
        """Not all namespaces: pods of other worlds are in them."""
        return {"matchLabels": {"kubernetes.io/metadata.name": self.world.namespace}}

    def _dress(self, spec: Object, name: str) -> None:
        draw = self.random
        container = spec["containers"][0]
        kind = draw.randrange(9)
        if kind == 0:
            spec["resources"] = {"requests": {"cpu": draw.choice(("1", "63", "65"))}}
        elif kind == 1:
            amounts = {"cpu": "1", "memory": "1Gi", HUGE: draw.choice(("256Mi", "1Gi", "2Gi"))}
            container["resources"] = {"requests": amounts, "limits": amounts}
        elif kind == 2:
            spec["hostNetwork"] = True
            container["ports"] = [{"containerPort": 8000, "hostPort": 8000}]
        elif kind == 3:
            term = term_of(HOST_NAME, draw.choice((name, "red")))
            term["namespaceSelector"] = draw.choice((self._own_namespace, {"matchLabels": {"nothing": "here"}}))
            spec["affinity"] = {draw.choice(("podAffinity", "podAntiAffinity")): {REQUIRED: [term]}}
        elif kind == 4:
            term = {**term_of(HOST_NAME, name), draw.choice(("matchLabelKeys", "mismatchLabelKeys")): ["shade"]}
            spec["affinity"] = {draw.choice(("podAffinity", "podAntiAffinity")): {REQUIRED: [term]}}
        elif kind == 5:
            first, second = self.spread(name), self.spread(name)
            second["topologyKey"] = self.zone if first["topologyKey"] == HOST_NAME else HOST_NAME
            second["whenUnsatisfiable"] = draw.choice(("DoNotSchedule", "ScheduleAnyway"))
            if second["whenUnsatisfiable"] != "DoNotSchedule":
                second.pop("minDomains", None)
            spec["topologySpreadConstraints"] = [first, second]
        elif kind == 6:
            container["resources"] = {}
        elif kind == 7:
            preference = {"matchExpressions": [{"key": "gpu-type", "operator": "In", "values": ["none"]}]}
            far = {"weight": 100, "podAffinityTerm": term_of(HOST_NAME, "red")}
            spec["affinity"] = {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]
                },
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [far]},
            }
        else:
            # Both of a colour: the scheduler does not try again when a pod goes that only one of several terms names.
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term_of(HOST_NAME, "red"), term_of(self.zone, "red")]}}
        self.world.features.add(f"spec-{kind}")

    def _crowd(self, *, full: bool = False) -> None:
        """Two or three nodes of 8 GPUs, more or less taken, or ``full`` of unimportant pods."""
        draw = self.random
        for index in range(draw.choice((2, 2, 3))):
            node = self._node(index)
            self.world.nodes.append({**node, "spec": {}, "status": {"allocatable": _FULL, "capacity": _FULL}})
            free = 8
            for number in range(draw.choice((1, 2, 3))):
                size = draw.choice((2, 4, 4, 8))
                if size > free:
                    break
                free -= size
                self._filler(index, number)
                spec = self.world.fillers[-1][0]["spec"]
                spec["containers"][0]["resources"] = resources_of({GPU: str(size)})
                spec["priorityClassName"] = draw.choice(("world-least", "world-low", "world-mid", "world-high"))
                if full:
                    spec["containers"][0]["resources"] = resources_of({GPU: str(size + free)})
                    spec["priorityClassName"] = "world-low"
                    break

    def _job(self, number: int) -> Object:
        """A job that asks for GPUs, and nothing strange."""
        job = self.job(number)
        spec = job["spec"]["template"]["spec"]
        spec.pop("tolerations", None)
        spec["containers"][0]["resources"] = resources_of({GPU: self.random.choice(("1", "2", "4", "8"))})
        spec["priorityClassName"] = self.random.choice(sorted(CLASSES))
        job["spec"]["template"]["metadata"]["labels"]["shade"] = "dark"
        pods = self.random.choice((1, 1, 2))
        job["spec"].update(parallelism=pods, completions=pods)
        self.world.jobs.append(job)
        return job
