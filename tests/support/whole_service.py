"""Everything that a service does, done once: each operation of its document, over jobs of every kind and state."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

from control_plane import ControlPlane
from fault_tools.world import Api
from fault_tools.zygote import shared
from support.cluster_tools import GPU, POOL, compute, image, inference, merged, notebook, outcome, training
from support.documents_sent import sent, text_of
from support.queues import API, ROOM
from support.served import Served

ROOT = Path(__file__).resolve().parents[2]
TEAM, NEW_TEAM = "team-a", "rights-team"
NODES = ("rights-0", "rights-1")
SLOW = {"annotations": {"gpuctl.test/termination": "slow"}}
STUCK = {"annotations": {"gpuctl.test/termination": "stuck"}}
PATIENCE = 120.0
GPUS_OF_ALL = 100
QUEUED = f"training: {{queue: {{{POOL}: rights}}, backend: jobset}}"
"""The platform settings that send trainings to the queue."""
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "datasets", "namespace": TEAM},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
SECRETS = {"environment": {"env": [{"name": "TOKEN", "secret": "hub", "key": "token"}]}}
SCALED = {"autoscaling": {"enabled": True, "minReplicas": 1, "maxReplicas": 2}}
SEVERAL = {"resources": {"nodes": 2}, "environment": {"command": ["deepspeed", "train.py"]}}
"""A training that needs a Service, by which its pods find each other, and a hostfile."""


def operations() -> dict[tuple[str, str], str]:
    """Method and path of each operation of the document -> its name."""
    document = json.loads((ROOT / "schemas" / "rest" / "openapi.json").read_text())
    return {
        (method.upper(), path): value["operationId"]
        for path, methods in document["paths"].items()
        for method, value in methods.items()
        if "operationId" in value
    }


def _pattern(path: str) -> str:
    """Return the pattern of a path of the document: a label's key contains slashes."""
    return re.sub(r"\\\{(\w+)\\\}", lambda match: ".+" if match[1] == "key" else "[^/]+", re.escape(path)) + "$"


class WholeTour:
    """A member of a team who runs jobs, and a keeper of pools and quotas, at one service; ``done`` has the operations
    that were answered with success."""

    def __init__(self, served: Served, plane: ControlPlane, directory: Path, member: str, keeper: str) -> None:
        self.served = served
        self.plane = plane
        self.directory = directory
        self.member = member
        self.keeper = keeper
        self.done: set[str] = set()
        self._paths = [(method, _pattern(path), name) for (method, path), name in operations().items()]

    def call(self, method: str, path: str, body: Any = None, *, name: str = "", status: int = 0, **query: Any) -> Any:
        """Send a request of the member, or of another user; any success is accepted unless a status is given."""
        client = self.served.client(name or self.member)
        response = client.request(method, path, json=body, params={**query})
        good = response.status_code == status if status else response.status_code < 300
        assert good, f"{method} {path}: {response.status_code}\n{response.text}"
        if response.status_code < 300:
            self._note(method, response.request.url.path)
        return response.json()

    def keep(self, method: str, path: str, body: Any = None, **rest: Any) -> Any:
        """A request of the keeper."""
        return self.call(method, path, body, name=self.keeper, **rest)

    def until(self, path: str, holds: Callable[[Any], bool], **query: Any) -> Any:
        """Return the JSON of a path when it meets a condition."""
        end = time.monotonic() + PATIENCE
        while not holds(value := self.call("GET", path, **query)):
            assert time.monotonic() < end, f"{path} stays {json.dumps(value)[:1500]}"
            time.sleep(0.2)
        return value

    def state(self, job: str, state: str) -> None:
        """Wait until a job is in a state."""
        self.until("/jobs", lambda value: (job, state) in [(item["name"], item["status"]) for item in value["items"]])

    def _note(self, method: str, path: str) -> None:
        # The more of a path is fixed, the earlier it counts.
        found = [
            (pattern.count("+"), name)
            for own, pattern, name in self._paths
            if own == method and re.match(pattern, path)
        ]
        if found:
            self.done.add(min(found)[1])

    def pools(self) -> None:
        """A pool, its nodes and their labels."""
        body = {"name": "rights-pool", "nodes": [NODES[0]], "gpuType": ["t4"]}
        self.keep("POST", "/pools", body)
        self.keep("PUT", "/pools/rights-pool", {**body, "nodes": list(NODES)}, confirm=True)
        self.keep("POST", f"/nodes/{NODES[0]}/labels", {"key": "example.com/rack", "value": "r1"})
        several = {"nodeNames": list(NODES), "key": "example.com/row", "value": "7", "overwrite": True}
        self.keep("POST", "/nodes/labels/batch", several)
        self.keep("DELETE", f"/nodes/{NODES[0]}/labels/example.com/rack")
        for value in ("r2", None):
            changes = {"nodeNames": list(NODES), "labels": {"example.com/rack": value}}
            self.keep("POST", "/nodes/labels/changes", changes)
        for way in ("remove", "add"):
            self.keep("POST", f"/pools/rights-pool/nodes/{way}", {"nodeNames": [NODES[0]]})
        for path in ("/pools", "/pools/rights-pool", "/nodes", f"/nodes/{NODES[0]}", f"/nodes/{NODES[0]}/labels"):
            self.call("GET", path)
        for path in (
            "/nodes/gpu-detail",
            "/gpu-types",
            "/nodes/labels/all",
            f"/nodes/{NODES[0]}/labels/example.com/row",
        ):
            self.call("GET", path)
        self.call("GET", "/nodes/labels", key="example.com/row")

    def quotas(self) -> None:
        """The quota of a team whose namespace is made for it, and is changed."""
        self.keep("POST", "/quotas", {"name": "rights", "users": {NEW_TEAM: {"gpu": 4, "cpu": 10}}}, status=201)
        self.until(
            "/quotas", lambda value: NEW_TEAM in [item["namespace"] for item in value["items"]], name=self.keeper
        )
        self.keep("GET", f"/quotas/{NEW_TEAM}")
        self.keep("DELETE", f"/quotas/{NEW_TEAM}", confirm=True)

    def jobs(self) -> None:
        """A job of each kind: tried, created, looked at, changed, paused, resumed, run again, deleted."""
        documents = (
            training(
                "train",
                job={"ttl": "7d"},
                **SECRETS,
                storage={"workdirs": [{"path": "/data", "pvc": {"claim": "datasets"}}]},
            ),
            inference("serve", **SCALED),
            notebook("note"),
            training("wide", **SEVERAL),
            training("elastic", resources={"nodes": {"min": 1, "max": 2}}),
            training("nightly", schedule={"cron": "0 2 29 2 *", "concurrency": "allow"}),
        )
        self.call("POST", "/plan", sent(*documents, namespace=TEAM))
        self.call("POST", "/fit", sent(*documents, namespace=TEAM))
        self.call("GET", "/fit")
        self.call("GET", "/gpu-use")
        self.call("POST", "/jobs", sent(*documents, namespace=TEAM, dryRun=True))
        for document in documents:
            self.call("POST", "/jobs", sent(document, namespace=TEAM), status=201)
        entries = [text_of(item, namespace=TEAM) for item in (compute("comp"), training("crash", job=outcome("fail")))]
        self.call("POST", "/jobs/batch", {"yamlContents": entries})
        for name in ("serve", "note", "wide", "comp"):
            self.state(name, "running")
            self._look(name)
        self._look("train")
        self.state("crash", "failed")
        self._look("crash")
        self.call("POST", "/jobs/serve/wait", {"condition": "ready", "timeout": 30})
        self.call("GET", "/jobs/train/metrics", status=503)
        self.call("GET", "/namespaces", all=True)
        self.call("GET", f"/namespaces/{TEAM}")
        self.call("POST", "/auth/check", {"resource": "jobs", "action": "get"})
        self._changes()

    def _changes(self) -> None:
        changed = {"environment": image("v2")}
        wide = training("wide", **merged(SEVERAL, {"resources": {"gpu": 2}}))
        for document in (wide, inference("serve", **SCALED, **changed)):
            name = document["job"]["name"]
            self.call("PUT", f"/jobs/{name}", sent(document, namespace=TEAM), confirm=True)
        # Without its autoscaler, and on other terms than a StatefulSet can be changed to.
        self.call("PUT", "/jobs/serve", sent(inference("serve", **changed), namespace=TEAM), confirm=True)
        note = notebook(
            "note", storage={"workdirs": [{"path": "/scratch", "emptyDir": {}}]}, service={"port": 9999}, **changed
        )
        self.call("PUT", "/jobs/note", sent(note, namespace=TEAM), confirm=True)
        for name in ("serve", "note", "comp", "wide"):
            self.state(name, "running")
            self.call("POST", f"/jobs/{name}/pause")
            self.until(f"/jobs/{name}", lambda value: value["status"] == "paused")
            self.call("POST", f"/jobs/{name}/resume")
            self.state(name, "running")
        self.call("POST", "/jobs/crash/rerun", confirm=True)
        self.call("POST", "/jobs/nightly/run", confirm=True)
        self.call("POST", "/jobs/elastic/scale", nodes=1, confirm=True)
        for path in ("history", "history/1"):
            self.call("GET", f"/jobs/wide/{path}")
        self.call("POST", "/jobs/wide/rollback", confirm=True)

    def _look(self, name: str) -> None:
        for path in ("", "/why", "/timeline", "/logs"):
            self.call("GET", f"/jobs/{name}{path}", **({"tail": 5} if path == "/logs" else {}))

    def typed(self, *arguments: str, text: str = "", code: int = 0) -> None:
        """Run a command of a user without a kubeconfig."""
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.directory), "KUBECONFIG": str(self.directory / "none")}
        found = shared().run(arguments, env=environment, cwd=self.directory, stdin=text)
        assert found.code == code, f"gpuctl {' '.join(arguments)}: {found.code}\n{found.stdout}{found.stderr}"

    def commands(self) -> None:
        """Run the commands that use a service, and record their operations from its request log."""
        begun = len(self.served.log)
        file = self.directory / "typed.yaml"
        file.write_text(text_of(inference("typed"), namespace=TEAM))
        self.typed("login", self.served.url, "--token-stdin", text=self.served.tokens[self.member])
        self.typed("diff", "-f", str(file), code=1)
        self.typed("apply", "-f", str(file), "--yes")
        self.typed("wait", "typed", "-n", TEAM, "--for=running", "--timeout", "60s")
        for command in (
            "get jobs",
            "get nodes",
            "get pools",
            "get quotas",
            f"describe node {POOL}-0",
            "describe pool drill",
        ):
            self.typed(*command.split())
        for command in ("describe job", "why", "logs", "delete job"):
            self.typed(*command.split(), "typed", "-n", TEAM, *(["--yes"] if command == "delete job" else []))
        for command in ("pause", "resume"):
            self.typed(command, "comp", "-n", TEAM)
        self.state("crash", "failed")
        self.typed("rerun", "crash", "-n", TEAM, "--yes")
        self.typed("run", "nightly", "-n", TEAM, "--yes")
        self.typed("scale", "elastic", "--nodes", "2", "-n", TEAM, "--yes")
        self.typed("apply", "-f", str(file), "--yes")
        self.typed("delete", "-f", str(file), "--yes")
        self._commands_of_keeper()
        for line in self.served.log[begun:]:
            value = json.loads(line) if line.startswith("{") else {}
            if value.get("message") == "request" and value["status"] < 300:
                self._note(value["method"], value["path"])

    def _commands_of_keeper(self) -> None:
        """Pools and quotas that are deleted by their names."""
        self.keep("POST", "/pools", {"name": "typed-pool", "nodes": [], "gpuType": ["t4"]})
        self.keep("POST", "/quotas", {"name": "typed", "users": {NEW_TEAM: {"gpu": 4, "cpu": 10}}}, status=201)
        self.typed("login", self.served.url, "--token-stdin", text=self.served.tokens[self.keeper])
        self.typed("delete", "pool", "typed-pool", "--yes")
        self.typed("delete", "quota", NEW_TEAM, "--yes")

    def follow(self, name: str) -> None:
        """A line of a log that is followed: by a WebSocket, then as a stream of events."""
        token = {"Authorization": f"Bearer {self.served.tokens[self.member]}"}
        query = f"/api/v1/jobs/{name}/logs?follow=true&tail=1&namespace={TEAM}"
        with connect(self.served.url.replace("http", "ws", 1) + query, additional_headers=token) as socket:
            assert json.loads(socket.recv(PATIENCE))["text"]
        accept = {**token, "Accept": "text/event-stream"}
        with httpx.stream("GET", self.served.url + query, headers=accept, timeout=PATIENCE) as stream:
            assert next(line for line in stream.iter_lines() if line.startswith("data:"))

    def stuck(self) -> None:
        """A pod that does not end by itself is ended by force."""
        self.call("POST", "/jobs", sent(training("stuck", job=STUCK), namespace=TEAM), status=201)
        self.state("stuck", "running")
        self.call("DELETE", "/jobs/stuck", force=True)

    def queued(self) -> None:
        """A JobSet that Kueue holds back until its queue has room."""
        document = training("held", resources={"gpu": 2, "nodes": 2})
        self.call("POST", "/jobs", sent(document, namespace=TEAM), status=201)
        self.until("/jobs/held/why", lambda value: value["cause"] == "queue-unusable")
        self._look("held")
        for path in ("/queues", "/queues/rights"):
            self.call("GET", path)
        changed = training("held", resources={"gpu": 2, "nodes": 2}, environment=image("v2"))
        self.call("PUT", "/jobs/held", sent(changed, namespace=TEAM), confirm=True)
        self.call("POST", "/jobs/held/pause")
        self.call("POST", "/jobs/held/resume")
        room = {"spec": {"resourceGroups": queue(GPUS_OF_ALL)["spec"]["resourceGroups"]}}
        self.plane.kubectl("patch", "clusterqueue", "rights", "--type=merge", "-p", json.dumps(room))
        self.state("held", "running")
        self.call("DELETE", "/jobs/held", force=True)
        self.until("/jobs", lambda value: "held" not in [item["name"] for item in value["items"]])

    def interrupted(self) -> None:
        """A change that the service is killed in, when the old job is going; :meth:`recovered` finishes it."""
        self.call("POST", "/jobs", sent(training("cut", job=SLOW), namespace=TEAM), status=201)
        self.state("cut", "running")
        client, api = self.served.own_client(self.member), Api(self.plane)
        changed = sent(training("cut", job=SLOW, environment=image("v2")), namespace=TEAM)

        def change() -> None:
            with contextlib.suppress(httpx.TransportError):
                client.put("/jobs/cut", json=changed, params={"confirm": "true"})

        def is_going() -> bool:
            job = api.get("Job", TEAM, "cut")
            return job is None or "deletionTimestamp" in job["metadata"]

        thread = threading.Thread(target=change)
        thread.start()
        api.wait(is_going, "the old job to go")
        self.served.process.kill()
        self.served.process.wait()
        thread.join()

    def recovered(self, by: str) -> None:
        """Find and finish an interrupted run, as a user with the right to do so."""
        found = self.call("GET", "/recoveries", name=by, namespace=TEAM)
        assert [step["name"] for step in found["planned"]] == ["cut"], found
        self.call("POST", "/recoveries", name=by, namespace=TEAM, confirm=True)

    def remove(self) -> None:
        """Everything goes again."""
        for item in self.call("GET", "/jobs", namespace=TEAM, pageSize=100)["items"]:
            self.call("DELETE", f"/jobs/{item['jobId']}")
        self.until("/jobs", lambda value: value["total"] == 0, namespace=TEAM)
        self.keep("DELETE", "/pools/rights-pool", confirm=True)


def queue(gpus: int) -> dict[str, Any]:
    """A queue of Kueue's for the whole cluster, with so many GPUs."""
    amounts = {**ROOM, GPU: gpus}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": "rights", "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": "rights"}, "spec": spec}


def prepare(plane: ControlPlane) -> None:
    """Create the objects that the tour needs: nodes, a Secret and a claim of jobs, a queue of Kueue."""
    room = {"labels": {"runwhere.ai/pool": POOL}, "gpus": 64, "cpu": "512", "memory": "4Ti"}
    plane.add_nodes({f"{POOL}-{number}": room for number in range(2)} | {name: {"gpus": 8} for name in NODES})
    plane.wait_for_nodes()
    plane.kubectl("create", "secret", "generic", "hub", "-n", TEAM, "--from-literal=token=x")
    plane.create(
        CLAIM,
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "rights"}, "spec": {}},
        queue(1),
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": "rights", "namespace": TEAM},
            "spec": {"clusterQueue": "rights"},
        },
    )
