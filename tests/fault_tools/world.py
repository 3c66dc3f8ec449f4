"""Fast looks at a namespace and fast changes in it: HTTPS with the admin's token, no kubectl process.

api = Api(plane)
before = api.snapshot("team-a")
api.delete("Job", "team-a", "train")
api.wait(lambda: ("Job", "train") not in api.snapshot("team-a"), "the job to go")
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from control_plane import ControlPlane
from control_plane.requests import Requests

Object = dict[str, Any]
Value = TypeVar("Value")

DOMAIN = "runwhere.ai"
HASH = f"{DOMAIN}/hash"
JOURNAL = f"{DOMAIN}/journal"
HISTORY = f"{DOMAIN}/history"
FOREIGN = "foreign"
"""Prefix of the names of objects that other tools created."""
# kind -> (path before "namespaces", plural).
PATHS: dict[str, tuple[str, str]] = {
    "Job": ("/apis/batch/v1", "jobs"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "Service": ("/api/v1", "services"),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "Pod": ("/api/v1", "pods"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "LimitRange": ("/api/v1", "limitranges"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
    "LeaderWorkerSet": ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "JobSet": ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets"),
    "HTTPRoute": ("/apis/gateway.networking.k8s.io/v1", "httproutes"),
    "Ingress": ("/apis/networking.k8s.io/v1", "ingresses"),
    "ScaledObject": ("/apis/keda.sh/v1alpha1", "scaledobjects"),
}
WORKLOADS = ("Job", "Deployment", "StatefulSet")
SNAPSHOT = (*WORKLOADS, "Service", "HorizontalPodAutoscaler", "ConfigMap", "Secret", "Lease")
SERVED = ("CronJob", "LeaderWorkerSet", "HTTPRoute", "Ingress", "PodDisruptionBudget", "ScaledObject")
"""Kinds of which only some tests create objects, which some planes do not have."""
# Owners come before the objects that they would create again; claims come after the pods that use them.
_CLEARED = (
    "JobSet",
    "CronJob",
    *WORKLOADS,
    "HorizontalPodAutoscaler",
    "Service",
    "Pod",
    "PodDisruptionBudget",
    "ConfigMap",
)
_CLEARED += ("Secret", "Lease", "ResourceQuota", "LimitRange", "PersistentVolumeClaim", "RoleBinding")
# Fields of a spec that the server allocates: another value after a restore is not a difference.
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


class Live(NamedTuple):
    """An object as it was at the moment of a snapshot. ``spec`` is comparable between namespaces and incarnations."""

    uid: str
    generation: int
    hash: str | None
    spec: str
    object: Object

    @property
    def held(self) -> bool:
        """For a Lease: True if a process holds it."""
        return bool((self.object.get("spec") or {}).get("holderIdentity"))

    @property
    def is_journal(self) -> bool:
        """For a Secret: True if it is a part of a journal."""
        return JOURNAL in (self.object["metadata"].get("labels") or {})


Snapshot = dict[tuple[str, str], Live]
"""(kind, name) -> the object."""


class Api(Requests):
    """The API server, as its admin."""

    def __init__(self, plane: ControlPlane, more: tuple[str, ...] = ()) -> None:
        """Connect to a plane.

        :param more: kinds of which snapshots contain the objects, beyond :data:`SNAPSHOT`.
        """
        self._kinds = (*SNAPSHOT, *more)
        super().__init__(plane.port, plane.tokens["admin"], plane.directory / "certificates" / "apiserver.crt")

    def list_objects(self, kind: str, namespace: str) -> list[Object]:
        """All objects of a kind in a namespace."""
        items = self.call("GET", path_of(kind, namespace)).get("items")
        return list(items or [])

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object, or None."""
        status, value = self.request("GET", path_of(kind, namespace, name))
        if status == 404:
            return None
        if status != 200:
            raise RuntimeError(f"{kind} {namespace}/{name}: {status} {value.get('message')}")
        return value

    def create(self, obj: Object, namespace: str) -> Object:
        """Create an object in a namespace."""
        return self.call("POST", path_of(obj["kind"], namespace), obj)

    def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def patch(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        """JSON merge patch."""
        return self.call("PATCH", path_of(kind, namespace, name), patch)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; its dependents follow in the background. Absent is fine."""
        status, value = self.request(
            "DELETE", path_of(kind, namespace, name), {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        )
        if status not in (200, 202, 404):
            raise RuntimeError(f"delete {kind} {namespace}/{name}: {status} {value.get('message')}")

    def clear(self, namespace: str) -> None:
        """Delete what runs, what holds ports and what other commands could find in a namespace, which itself stays.

        It costs a sixth of what a namespace's deletion costs: that asks twice for each kind there is.
        """
        for kind in _CLEARED:
            # The certificate that is in every namespace would be made again.
            query = "fieldSelector=metadata.name%21%3Dkube-root-ca.crt&" if kind == "ConfigMap" else ""
            path = f"{path_of(kind, namespace)}?{query}gracePeriodSeconds=0&propagationPolicy=Background"
            status, value = self.request("DELETE", path)
            # Not every plane knows JobSets.
            if status != 200 and (status, kind) != (404, "JobSet"):
                raise RuntimeError(f"clear {kind} in {namespace}: {status} {value.get('message', value)}")

    def snapshot(self, namespace: str) -> Snapshot:
        """All objects of the kinds that commands work with, without the history of jobs; empty when there is no such
        namespace."""
        result: Snapshot = {}
        for kind in self._kinds:
            for item in self.list_objects(kind, namespace):
                name = item["metadata"]["name"]
                is_history = HISTORY in (item["metadata"].get("labels") or {})
                if (kind, name) != ("ConfigMap", "kube-root-ca.crt") and not is_history:
                    result[kind, name] = _live(kind, namespace, item)
        return result

    def wait(self, condition: Callable[[], Value], what: str, timeout: float = 120) -> Value:
        """Wait until ``condition`` returns something true, and return it."""
        deadline = time.monotonic() + timeout
        pause = 0.03
        while time.monotonic() < deadline:
            result = condition()
            if result:
                return result
            time.sleep(pause)
            # What takes long takes long because the server has much to do.
            pause = min(pause * 1.5, 0.3)
        raise TimeoutError(f"waited {timeout:.0f} s for {what}")


def path_of(kind: str, namespace: str, name: str | None = None) -> str:
    """An object's path, or its kind's in a namespace."""
    prefix, plural = PATHS[kind]
    path = f"{prefix}/namespaces/{quote(namespace)}/{plural}"
    return path if name is None else f"{path}/{quote(name)}"


def _live(kind: str, namespace: str, obj: Object) -> Live:
    metadata = obj["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    spec = json.loads(json.dumps(obj.get("spec") or obj.get("data") or {}))
    if kind == "Job":
        spec.pop("selector", None)
        for label in _JOB_LABELS:
            (spec["template"]["metadata"].get("labels") or {}).pop(label, None)
    if kind == "Service":
        for key in _ALLOCATED:
            spec.pop(key, None)
        for port in spec.get("ports") or []:
            port.pop("nodePort", None)
    text = json.dumps(spec, sort_keys=True, indent=1).replace(namespace, "NAMESPACE")
    return Live(metadata["uid"], metadata.get("generation", 0), annotations.get(HASH), text, obj)


def lost(now: Snapshot, old: Snapshot, new: Snapshot) -> list[str]:
    """Return the names of objects that are neither the old nor the new one, or are missing although they existed and
    are wanted.
    """
    problems = []
    for key, was in old.items():
        live, wanted = now.get(key), new.get(key)
        title = "/".join(key)
        if is_bookkeeping(key, was) or _is_foreign(key):
            continue
        if live is None:
            if wanted is not None:
                problems.append(f"{title} is absent")
        elif live.object["metadata"].get("deletionTimestamp"):
            problems.append(f"{title} is being deleted")
        elif live.spec not in (was.spec, wanted.spec if wanted is not None else None):
            problems.append(f"{title} is neither the old nor the new one:\n{live.spec}")
        elif live.spec == was.spec != (wanted.spec if wanted is not None else None) and live.hash != was.hash:
            problems.append(f"{title} is the old one with another hash: {live.hash}, not {was.hash}")
    for key in now.keys() - old.keys():
        wanted = new.get(key)
        if not is_bookkeeping(key, now[key]) and (wanted is None or wanted.spec != now[key].spec):
            problems.append(f"{'/'.join(key)} is there and was never asked for:\n{now[key].spec}")
    return problems


def unlike(now: Snapshot, new: Snapshot) -> list[str]:
    """Return the names of objects that differ from the wanted ones."""
    now = {key: live for key, live in now.items() if not is_bookkeeping(key, live)}
    problems = [f"{'/'.join(key)} is absent" for key in new.keys() - now.keys()]
    problems += [f"{'/'.join(key)} should not be there" for key in now.keys() - new.keys()]
    for key in now.keys() & new.keys():
        if now[key].spec != new[key].spec:
            problems.append(f"{'/'.join(key)} is not as wanted:\n{now[key].spec}")
    return problems


def changed(now: Snapshot, before: Snapshot) -> list[str]:
    """Return the names of objects that were replaced, deleted or created."""
    return [
        f"{'/'.join(key)} is not what it was"
        for key in now.keys() | before.keys()
        if key not in now or key not in before or now[key]._replace(object={}) != before[key]._replace(object={})
    ]


def state_of(now: Snapshot, old: Snapshot, hashes: Mapping[tuple[str, str], str]) -> str:
    """Return everything that a command can see of these objects, without the differences between namespaces.

    A command cannot distinguish two namespaces with equal states. An object's hash is represented by its owner, the old
    object or (``hashes``) the new one; a uid by whether it is the old object's; a lease by whether it is held. Other
    uids, versions, times, the path of the applied file and reports of controllers are left out.

    :param old: the objects that existed before, in the same namespace.
    """
    uids = {live.uid: "/".join(key) for key, live in old.items()}
    items: list[object] = []
    for key, live in sorted(now.items()):
        metadata = live.object["metadata"]
        was = old.get(key)
        origins = [was is not None and live.hash == was.hash, live.hash == hashes.get(key)]
        words = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
        for word in (HASH, *_JOB_LABELS):
            words.pop(word, None)
        written = [
            {field: value for field, value in entry.items() if field != "time"}
            for entry in metadata.get("managedFields") or []
            if entry["manager"] == "gpuctl"
        ]
        flags = (uids.get(live.uid), metadata.get("finalizers"), "deletionTimestamp" in metadata)
        if live.is_journal:
            items.append(
                ["journal", *(_decoded(value, uids) for value in live.object["data"].values()), written, flags]
            )
        elif key[0] == "Lease":
            items.append([key, live.held, written, flags])
        else:
            unknown = live.hash if not any(origins) else ""
            items.append([key, live.spec, origins, unknown, words, written, flags])
    text = json.dumps(items, sort_keys=True)
    for namespace in {live.object["metadata"]["namespace"] for live in now.values()}:
        text = text.replace(namespace, "NAMESPACE")
    return _PLACE.sub("", text)


# A set's name for itself follows from its namespace; the file is the one that all applies in a namespace are of.
_PLACE = re.compile(r'applyset-[\w-]+-v1|file://[^"\\]+')
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOMENT = re.compile(r'[0-9a-f]{10,}|\d{4}-\d\d-\d\dT[0-9:.]+Z|"resourceVersion": ?"\d+"')


def _decoded(data: str, uids: Mapping[str, str]) -> str:
    """A part of a journal; digests, times and uids but those of old objects are all alike."""
    raw = base64.b64decode(data)
    text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
    return _MOMENT.sub("", _UID.sub(lambda found: uids.get(found[0], "uid"), text))


class Seen:
    """The states that there have been. Safe to use from several threads."""

    def __init__(self) -> None:
        self._states: set[str] = set()
        self._lock = threading.Lock()

    def is_new(self, state: str) -> bool:
        """Return True the first time that a state is passed."""
        with self._lock:
            is_new = state not in self._states
            self._states.add(state)
            return is_new


def rest(now: Snapshot) -> list[str]:
    """Return the objects that a command must not leave behind."""
    journals = [f"the journal {name} is left" for (_, name), live in now.items() if live.is_journal]
    leases = [f"the lease {name} is held" for (kind, name), live in now.items() if kind == "Lease" and live.held]
    return journals + leases


def touched(now: Snapshot, old: Snapshot) -> list[str]:
    """Return the objects of other tools that have changed."""
    foreign = [key for key in old if _is_foreign(key)]
    return [
        f"{'/'.join(key)}, which is not ours, was touched"
        for key in foreign
        if key not in now or now[key]._replace(object={}) != old[key]._replace(object={})
    ]


def is_bookkeeping(key: tuple[str, str], live: Live) -> bool:
    """Return True for objects that commands create for their own use while they run."""
    return key[0] == "Lease" or live.is_journal


def _is_foreign(key: tuple[str, str]) -> bool:
    return key[1].startswith(FOREIGN)


def foreign_objects() -> list[Object]:
    """Return objects that have our jobs' label `app` and were created by another tool."""
    labels = {"app": "train"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/foreign:v1"}]},
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{FOREIGN}-server", "labels": labels},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{FOREIGN}-service", "labels": {"app": "serve"}},
            "spec": {"selector": {"app": "serve"}, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{FOREIGN}-settings", "labels": {"app": "note"}},
            "data": {"key": "value"},
        },
    ]
