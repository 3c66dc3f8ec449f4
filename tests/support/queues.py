"""Kueue's queues for a place: what an administrator makes, by names of the place's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from support.cluster_tools import GPU, Object, Place

API = "kueue.x-k8s.io/v1beta2"
_GROUP = f"/apis/{API}"
ROOM = {"cpu": "1000", "memory": "10Ti"}
"""Amounts that are more than any test uses."""


class Queues:
    """The queues of a place. Names of what belongs to no namespace end with the place's, so that tests do not meet."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._made: list[str] = []

    def name(self, short: str) -> str:
        """The whole name of a cluster's object."""
        return f"{short}-{self.place.namespace}"

    def flavor(self, short: str = "any", labels: Mapping[str, str] | None = None, **spec: Any) -> str:
        """A ResourceFlavor; its name."""
        return self.cluster_object(
            "resourceflavors", "ResourceFlavor", short, {"nodeLabels": dict(labels or {}), **spec}
        )

    def cluster_queue(
        self,
        short: str = "gpus",
        gpus: int = 2,
        *,
        flavor: str | None = None,
        resources: Object | None = None,
        **spec: Any,
    ) -> str:
        """A ClusterQueue of one flavor with so many GPUs, open to every namespace; its name."""
        amounts = {**ROOM, GPU: gpus} if resources is None else resources
        quotas = [
            {"name": name, **(amount if isinstance(amount, dict) else {"nominalQuota": amount})}
            for name, amount in amounts.items()
        ]
        flavors = [{"name": flavor or self.flavor(f"of-{short}"), "resources": quotas}]
        groups = [{"coveredResources": list(amounts), "flavors": flavors}]
        return self.cluster_object(
            "clusterqueues", "ClusterQueue", short, {"namespaceSelector": {}, "resourceGroups": groups, **spec}
        )

    def local_queue(self, name: str, cluster_queue: str) -> str:
        """A LocalQueue of the place; its name."""
        body = {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": name},
            "spec": {"clusterQueue": cluster_queue},
        }
        self.place.api.call("POST", f"{_GROUP}/namespaces/{self.place.namespace}/localqueues", body)
        return name

    def default_queue(self, cluster_queue: str) -> None:
        """The LocalQueue of trainings that name none, once Kueue knows it: others would run at once."""
        path = f"{_GROUP}/namespaces/{self.place.namespace}/localqueues/{self.local_queue('default', cluster_queue)}"
        self.place.until(lambda: (self.place.api.call("GET", path).get("status") or {}).get("conditions"), path)

    def team(self, gpus: int = 2, *, name: str = "team", backend: str = "", **spec: Any) -> str:
        """A LocalQueue in front of a ClusterQueue of its own, which the pool's trainings go to; the latter's name."""
        cluster_queue = self.cluster_queue(name, gpus, **spec)
        self.local_queue(name, cluster_queue)
        self.use(name, backend)
        return cluster_queue

    def active(self, cluster_queue: str) -> None:
        """Wait until Kueue knows all that a ClusterQueue needs."""

        def is_active() -> bool:
            found = self.place.api.call("GET", f"{_GROUP}/clusterqueues/{cluster_queue}")
            conditions = (found.get("status") or {}).get("conditions") or []
            return any(item["type"] == "Active" and item["status"] == "True" for item in conditions)

        self.place.until(is_active, f"{cluster_queue} to be active")

    def use(self, name: str, backend: str = "") -> None:
        """Let the platform send the pool's trainings to a LocalQueue."""
        more = f", backend: {backend}" if backend else ""
        self.place.platform(f"training: {{queue: {{drill: {name}}}{more}}}")

    def workload(self, job: str, kind: str = "Job") -> Object:
        """The Workload that Kueue made for a job, once it is there."""
        return dict(self.place.until(lambda: self._workload(job, kind), f"the Workload of {job}"))

    def has_workload(self, job: str, kind: str = "Job") -> bool:
        """Return True if Kueue has a Workload for a job."""
        return self._workload(job, kind) is not None

    def path(self, workload: Object) -> str:
        """The path of a Workload."""
        return f"{_GROUP}/namespaces/{self.place.namespace}/workloads/{workload['metadata']['name']}"

    def condition(self, job: str, which: str, kind: str = "Job") -> Object:
        """Return a condition of a job's Workload; {} without one."""
        workload = self._workload(job, kind) or {}
        conditions = (workload.get("status") or {}).get("conditions") or []
        return next((item for item in conditions if item["type"] == which), {})

    def waits(self, *jobs: str, kind: str = "Job") -> None:
        """Wait until Kueue has looked at jobs and left them in the queue."""
        for job in jobs:
            self.place.until(
                lambda job=job: self.condition(job, "QuotaReserved", kind).get("status") == "False", f"{job} to wait"
            )

    def admitted(self, *jobs: str, kind: str = "Job") -> None:
        """Wait until Kueue has admitted jobs."""
        for job in jobs:
            self.place.until(lambda job=job: self.condition(job, "Admitted", kind).get("status") == "True", f"{job}")

    def counted(self, local_queue: str, cluster_queue: str, *, waiting: int, admitted: int) -> None:
        """Wait until Kueue has counted the jobs of a LocalQueue and its ClusterQueue: their status comes later than the
        Workloads'.
        """
        for path in (f"namespaces/{self.place.namespace}/localqueues/{local_queue}", f"clusterqueues/{cluster_queue}"):

            def is_counted(path: str = path) -> bool:
                status = self.place.api.call("GET", f"{_GROUP}/{path}").get("status") or {}
                counts = [status.get(f"{name}Workloads") for name in ("pending", "reserving", "admitted")]
                return counts == [waiting, admitted, admitted]

            self.place.until(is_counted, f"the counts of {path}")

    def change(self, cluster_queue: str, patch: Object) -> None:
        """Merge patch a ClusterQueue's spec."""
        path = f"{_GROUP}/clusterqueues/{cluster_queue}"
        self.place.api.call("PATCH", path, {"spec": patch}, "application/merge-patch+json")

    def workloads(self) -> list[Object]:
        """Return the Workloads of the place."""
        return list(self.place.api.call("GET", f"{_GROUP}/namespaces/{self.place.namespace}/workloads")["items"])

    def remove(self) -> None:
        """Delete the cluster-scoped objects; each goes when it is no longer in use."""
        for path in reversed(self._made):
            self.place.api.request("DELETE", path)

    def _workload(self, job: str, kind: str) -> Object | None:
        for item in self.workloads():
            owners = item["metadata"].get("ownerReferences") or []
            if any((owner["kind"], owner["name"]) == (kind, job) for owner in owners):
                return dict(item)
        return None

    def cluster_object(self, plural: str, kind: str, short: str, spec: Object) -> str:
        """Create an object of the cluster; its name."""
        name = self.name(short)
        self.place.api.call(
            "POST", f"{_GROUP}/{plural}", {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        )
        self._made.append(f"{_GROUP}/{plural}/{name}")
        return name


def queues_of(place: Place) -> Iterator[Queues]:
    """The queues of a place, until its test has ended."""
    made = Queues(place)
    yield made
    made.remove()
