"""A namespace to try commands in: documents in, what is in the cluster out."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes_schemas
import pytest

from control_plane import ControlPlane
from control_plane.users import Rule
from fault_tools.world import Api
from gpuctl.cli.main import run
from gpuctl.objects.api_resources import RESOURCES, Key

Object = dict[str, Any]
Document = dict[str, Any]

DOMAIN = "runwhere.ai"
HASH, LOWERED_BY, PAUSED, STRATEGY = (f"{DOMAIN}/{name}" for name in ("hash", "lowered-by", "paused", "strategy"))
JOB_TYPE = f"{DOMAIN}/job-type"
GPU = "nvidia.com/gpu"
POOL = "drill"
"""The pool of the documents below; its nodes are there for the whole session."""
KINDS = (
    "CronJob",
    "Job",
    "Deployment",
    "StatefulSet",
    "Service",
    "ConfigMap",
    "HorizontalPodAutoscaler",
    "ResourceQuota",
)
KINDS += ("LimitRange",)
MERGE_PATCH = "application/merge-patch+json"
_NAMESPACES = itertools.count(1)


class Outcome(NamedTuple):
    """The output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Standard output as the one JSON value that it is."""
        return json.loads(self.out)

    @property
    def actions(self) -> dict[str, str]:
        """``kind/name`` -> action, of the JSON of a plan, without what jobs share."""
        shared = ("Namespace", "PriorityClass", "Node")
        return {
            f"{step['kind']}/{step['name']}": step["action"]
            for step in self.value["steps"]
            if step["kind"] not in shared
        }


class Place:
    """A namespace, files for it, and the command line. ``transcript`` is everything that was run."""

    def __init__(self, plane: ControlPlane, api: Api, namespace: str, directory: Path, capsys: Any) -> None:
        self.plane = plane
        self.api = api
        self.namespace = namespace
        self.directory = directory
        self.transcript: list[str] = []
        self._capsys = capsys

    def gpuctl(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Run a command in the namespace; ``code`` is the exit code that is expected (None: any)."""
        return self.anywhere(*arguments, "-n", self.namespace, code=code)

    def anywhere(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Run a command that names no namespace."""
        self._capsys.readouterr()
        result = run(arguments)
        outcome = Outcome(result, *self._capsys.readouterr())
        self.transcript.append(f"$ gpuctl {' '.join(arguments)}\n{outcome.out}{outcome.err}-> {result}\n")
        assert code is None or result == code, f"exit code {result}\n{outcome.out}{outcome.err}"
        return outcome

    def file(self, *documents: Document, name: str = "jobs.yaml") -> str:
        """Write documents to a file; its path."""
        path = self.directory / name
        path.write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n")
        return str(path)

    def platform(self, text: str) -> None:
        """Write the platform's settings."""
        (self.directory / "platform.yaml").write_text(f"kind: platform\nversion: v0.1\n{text}\n")

    def apply(self, *documents: Document, flags: tuple[str, ...] = (), code: int | None = 0) -> Outcome:
        """Apply documents."""
        return self.gpuctl("apply", "-f", self.file(*documents), *flags, code=code)

    def plan(self, *documents: Document, flags: tuple[str, ...] = (), code: int | None = 0) -> Outcome:
        """The preview of an apply, as JSON."""
        return self.gpuctl("apply", "-f", self.file(*documents), "--dry-run=server", "-o", "json", *flags, code=code)

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:
        """Run kubectl in the namespace."""
        return self.plane.kubectl(*arguments, "-n", self.namespace, input=input, check=check)

    def path(self, kind: str, name: str) -> str:
        """The path of an object."""
        return Key(kind, self.namespace, name).path

    def get(self, kind: str, name: str) -> Object:
        """An object that is there."""
        return self.api.call("GET", Key(kind, self.namespace, name).path)

    def uid(self, kind: str, name: str) -> str:
        """The identity of an object."""
        return str(self.get(kind, name)["metadata"]["uid"])

    def exists(self, kind: str, name: str) -> bool:
        """Return True if the object exists."""
        return self.api.request("GET", Key(kind, self.namespace, name).path)[0] == 200

    def patch(self, kind: str, name: str, patch: Object, *, manager: str = "somebody", subresource: str = "") -> Object:
        """Merge patch by a manager."""
        path = self.path(kind, name) + (f"/{subresource}" if subresource else "")
        return self.api.call("PATCH", f"{path}?fieldManager={manager}", patch, MERGE_PATCH)

    def create(self, obj: Object, *, manager: str = "somebody") -> Object:
        """Create an object that is not gpuctl's."""
        path = RESOURCES[obj["kind"]].path(self.namespace)
        return self.api.call("POST", f"{path}?fieldManager={manager}", obj)

    def objects(self, kinds: tuple[str, ...] = KINDS) -> dict[str, Object]:
        """``kind/name`` -> object, of everything in the namespace but the history of jobs."""
        result = {}
        for kind in kinds:
            for item in self.api.call("GET", RESOURCES[kind].path(self.namespace))["items"] or []:
                if item["metadata"]["name"] != "kube-root-ca.crt" and not is_history(item):
                    result[f"{kind}/{item['metadata']['name']}"] = item
        return result

    def names(self) -> set[str]:
        """``kind/name`` of everything in the namespace."""
        return set(self.objects())

    def uids(self) -> dict[str, str]:
        """``kind/name`` -> uid of everything in the namespace."""
        return {name: obj["metadata"]["uid"] for name, obj in self.objects().items()}

    def records(self) -> dict[str, Any]:
        """``kind/name`` -> what every write changes, but for controllers' writes of status."""
        return {name: unstatused(obj) for name, obj in self.objects((*KINDS, "Secret", "Lease")).items()}

    def pods(self, name: str) -> dict[str, str]:
        """Name -> uid of the pods of a job that are not leaving."""
        items = self.api.call("GET", f"{RESOURCES['Pod'].path(self.namespace)}?labelSelector=app%3D{name}")["items"]
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in items
            if "deletionTimestamp" not in item["metadata"]
        }

    def running(self, *names: str, pods: int = 1) -> dict[str, str]:
        """Wait until the pods of jobs run and their workloads know it; name -> uid of all these pods."""
        found: dict[str, str] = {}
        for name in names:
            self.until(lambda name=name: self._runs(name, pods), f"the pods of {name}")
            found |= self.pods(name)
        return found

    def until(self, condition: Callable[[], Any], what: str, timeout: float = 120) -> Any:
        """Wait until a condition holds; a failure lists the objects in the namespace and on the nodes."""
        try:
            return self.plane.wait_for(condition, what, timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.state()}") from None

    def ended(self, *names: str) -> None:
        """Wait until Jobs have come to their end: their pods are counted before that."""
        for name in names:
            self.until(lambda name=name: self._has_ended(name), f"the end of {name}")

    def end(self, job: str, how: str = "complete") -> None:
        """Let the pod of a job end, and wait for the end of the job."""
        self.running(job)
        (pod,) = self.pods(job)
        self.patch("Pod", pod, {"metadata": {"annotations": {"gpuctl.test/outcome": how}}})
        self.ended(job)

    def _has_ended(self, name: str) -> bool:
        conditions = (self.get("Job", name).get("status") or {}).get("conditions") or []
        return any(item["type"] in ("Complete", "Failed") and item["status"] == "True" for item in conditions)

    def limit(self, name: str = "few", **hard: str) -> None:
        """Create a ResourceQuota that is not gpuctl's, and wait until it is counted: until then it limits nothing.

        :param hard: the limits; ``gpu`` is that of the requests of GPUs.
        """
        limits = {f"requests.{GPU}" if key == "gpu" else key: value for key, value in hard.items()}
        self.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": limits}})
        self.until(
            lambda: (self.get("ResourceQuota", name).get("status") or {}).get("used", {}).keys() == limits.keys(),
            f"the quota {name} to count",
        )

    def grant(self, user: str, rules: Sequence[Rule] | str) -> None:
        """Allow a user more in the namespace, and wait until the API server knows it."""
        self.plane.grant(user, self.namespace, rules)
        rule = {"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]} if isinstance(rules, str) else rules[0]
        verb, resource = rule["verbs"][0], f"{rule['resources'][0]}.{rule['apiGroups'][0]}"
        self.until(lambda: self.plane.may(user, verb, resource, self.namespace), f"the right of {user}")

    def node_port(self) -> int:
        """A port of the place's own: of those that no Service gets that names none, and not that of an earlier attempt."""
        # Those before are test_quota_agreement.py's.
        return 30_066 + int(self.namespace.rpartition("-")[2]) % 20

    def state(self) -> str:
        """Return what may keep pods from running: pods, events, nodes, and other pods on them."""
        events = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"] or []
        events.sort(key=lambda event: event["metadata"]["creationTimestamp"])
        return "\n".join(
            [
                *map(_pod_state, self.api.list_objects("Pod", self.namespace)),
                *(
                    f"event: {event['involvedObject']['kind']}/{event['involvedObject'].get('name')} "
                    f"{event.get('reason')}: {event.get('message')}"
                    for event in events[-15:]
                ),
                *self._nodes(),
                *(f"{name}: {process.tail(3)}" for name, process in self.plane.processes.items()),
            ]
        )

    def _nodes(self) -> list[str]:
        """Each node of the pool: whether it takes pods, and what is on it."""
        pods = self.api.call("GET", "/api/v1/pods")["items"] or []
        lines = []
        for node in self.api.call("GET", f"/api/v1/nodes?labelSelector={DOMAIN}/pool%3D{POOL}")["items"] or []:
            name, room = node["metadata"]["name"], node["status"].get("allocatable") or {}
            taints = [taint["key"] for taint in node["spec"].get("taints") or []]
            ready = [item["status"] for item in node["status"].get("conditions") or [] if item["type"] == "Ready"]
            here = [pod for pod in pods if pod["spec"].get("nodeName") == name and not _is_over(pod)]
            spaces = Counter(pod["metadata"]["namespace"] for pod in here)
            lines.append(
                f"node {name}: ready {ready}, taints {taints}, {sum(map(_gpus, here))} of {room.get(GPU)} GPUs and "
                f"{len(here)} of {room.get('pods')} pods: {dict(spaces)}"
            )
        return lines

    def _runs(self, name: str, pods: int) -> bool:
        for kind, count in (
            ("Job", "ready"),
            ("Deployment", "availableReplicas"),
            ("StatefulSet", "availableReplicas"),
        ):
            status, obj = self.api.request("GET", Key(kind, self.namespace, name).path)
            if status == 200:
                return (obj.get("status") or {}).get(count, 0) >= pods
        return False


def _pod_state(pod: Object) -> str:
    """A pod in a line: its phase, node, conditions, and what its containers wait for."""
    status, metadata = pod["status"], pod["metadata"]
    unmet = [
        f"{item['type']}={item['status']} {item.get('reason', '')} {item.get('message', '')}".strip()
        for item in status.get("conditions") or []
        if item["status"] != "True"
    ]
    waits = [item.get("state") for item in status.get("containerStatuses") or []]
    leaving = f", deleted at {metadata['deletionTimestamp']}" if "deletionTimestamp" in metadata else ""
    return (
        f"pod {metadata['name']}, made at {metadata['creationTimestamp']}{leaving}: {status.get('phase')} on "
        f"{pod['spec'].get('nodeName')}, {unmet}, {waits}"
    )


def _is_over(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _gpus(pod: Object) -> int:
    return sum(int((part.get("resources") or {}).get("limits", {}).get(GPU, 0)) for part in pod["spec"]["containers"])


def is_history(obj: Object) -> bool:
    """Return True if an object is a Secret with an earlier document of a job."""
    return f"{DOMAIN}/history" in (obj["metadata"].get("labels") or {})


def unstatused(obj: Object) -> Object:
    """An object without status, and without what a write of status changes."""
    metadata = dict(obj["metadata"])
    metadata.pop("resourceVersion")
    metadata["managedFields"] = [
        entry for entry in metadata.get("managedFields") or [] if entry.get("subresource") != "status"
    ]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != "deployment.kubernetes.io/revision"
    }
    return {**obj, "metadata": {**metadata, "annotations": annotations}, "status": None}


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Document:
    """``base`` with ``changes`` merged in, map by map; None takes a field away."""
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def _document(kind: str, name: str, changes: Mapping[str, Any], **blocks: Any) -> Document:
    base = {
        "kind": kind,
        "version": "v0.1",
        "job": {"name": name},
        "environment": {"image": f"registry.example.com/{kind}:v1", "command": ["run"]},
        "resources": {"pool": POOL, "gpu": 1, "cpu": 2, "memory": "4Gi"},
        **blocks,
    }
    return merged(base, changes)


def training(name: str = "train", **changes: Any) -> Document:
    """A training of one node."""
    return _document("training", name, changes)


def inference(name: str = "serve", **changes: Any) -> Document:
    """A model server of one replica, without an autoscaler."""
    return _document("inference", name, changes, service={"replicas": 1, "port": 8000})


def notebook(name: str = "note", **changes: Any) -> Document:
    """A notebook."""
    return _document("notebook", name, changes, service={"port": 8888})


def compute(name: str = "comp", **changes: Any) -> Document:
    """A service without GPUs."""
    return _document(
        "compute", name, changes, resources={"pool": POOL, "cpu": 1, "memory": "1Gi"}, service={"port": 9000}
    )


def outcome(name: str, **others: str) -> dict[str, Any]:
    """The `job` block whose pods end like this."""
    values = {f"gpuctl.test/{key.replace('_', '-')}": value for key, value in others.items()}
    return {"annotations": {"gpuctl.test/outcome": name, **values}}


def image(tag: str) -> dict[str, str]:
    """An ``environment`` block with another image."""
    return {"image": f"registry.example.com/app:{tag}"}


def other_definitions() -> list[tuple[dict[str, Any], str]]:
    """Return the CustomResourceDefinitions of other projects' kinds, with the version that is used.

    Without Kueue's: a cluster with one of its kinds has all of them, with its controller.
    """
    sources = [source for source in kubernetes_schemas.DEFINITIONS if source.pin != "kueue"]
    return [(kubernetes_schemas.definition_of(source), source.version) for source in sources]


def add_drill_nodes(plane: ControlPlane) -> None:
    """The nodes of :data:`POOL`: room for everything that runs in a place."""
    node = {"labels": {f"{DOMAIN}/pool": POOL}, "gpus": 64, "cpu": "512", "memory": "4Ti"}
    plane.add_nodes({f"{POOL}-{number}": node for number in range(4)})


@contextmanager
def pool_node(plane: ControlPlane, name: str, **labels: str) -> Iterator[None]:
    """A node of :data:`POOL` that is gone afterwards: pods of other files of the same plane would go there, too."""
    plane.add_node(name, labels={f"{DOMAIN}/pool": POOL, **labels}, gpus=64, cpu="512", memory="4Ti")
    try:
        plane.wait_for_nodes()
        yield
    finally:
        plane.requests.call("DELETE", f"/api/v1/nodes/{name}")


@contextmanager
def nodes_in_no_pool(plane: ControlPlane, names: Sequence[str], **room: Any) -> Iterator[None]:
    """Nodes of a test, which are gone afterwards: pods of other tests would go there, too."""
    plane.add_nodes({name: {"gpus": 8, **room} for name in names})
    try:
        yield
    finally:
        for name in names:
            plane.requests.call("DELETE", f"/api/v1/nodes/{name}")


def fresh_namespaces(plane: ControlPlane, *names: str) -> None:
    """Create namespaces whose names are fixed. A first attempt may have left them, or they are just going."""
    paths = [f"/api/v1/namespaces/{name}" for name in names]
    for path in paths:
        plane.requests.request("DELETE", path)
    plane.wait_for(lambda: all(plane.requests.request("GET", path)[0] == 404 for path in paths), "namespaces to go")
    plane.create(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))


def namespace_for(request: pytest.FixtureRequest) -> str:
    """The name of a namespace for a test: a second attempt finds that of the first one still there."""
    title = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:50].strip("-")
    return f"{title}-{next(_NAMESPACES)}"


def image_tag(place: Place, name: str = "serve", kind: str = "Deployment") -> str:
    """Return the tag of a job's image."""
    found = place.get(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"]
    return str(found).rpartition(":")[2]


def revision_causes(place: Place, name: str = "serve") -> list[tuple[int, str, int | None]]:
    """Return revision, cause and target revision of each history entry."""
    items = place.gpuctl("history", name, "-o", "json").value["items"]
    return [(item["revision"], item["cause"], item["to"]) for item in items]


def places(
    plane: ControlPlane, api: Api, directory: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> Iterator[Place]:
    """A place in a namespace of its own, which is empty afterwards; the transcript is shown when a test fails."""
    api.create_namespace(name)
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig()))
    monkeypatch.chdir(directory)
    place = Place(plane, api, name, directory, capsys)
    yield place
    capsys.readouterr()
    print("\n".join(place.transcript))
    api.clear(name)


@pytest.fixture(scope="package")
def api(plane: ControlPlane) -> Api:
    """The API server, accessed as its admin."""
    return Api(plane)


@pytest.fixture
def place(
    plane: ControlPlane,
    api: Api,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Place]:
    """The command line in a namespace of the test's own."""
    yield from places(plane, api, tmp_path, capsys, monkeypatch, namespace_for(request))
