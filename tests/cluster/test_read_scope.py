"""The requests of apply and of lists do not grow with the objects of other users."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from fault_tools.world import Api
from properties.scale import part_of
from support.cluster_tools import Document, Place, image, inference, notebook, training

OTHERS = 30


def requests_of(proxy: Proxy, place: Place, *arguments: str) -> tuple[list[str], int]:
    """Return a command's requests, and the number of objects in their responses."""
    counted: list[int] = []

    def count(exchange: Any) -> None:
        response = exchange.forward()
        # The response for an API group that does not exist, such as Kueue's, is not JSON.
        value = json.loads(response.body) if response.body.startswith(b"{") else {}
        counted.append(len(value.get("items") or ()) if "items" in value else 1)
        exchange.answer(response)

    proxy.reset(lambda request: count)
    place.anywhere(*arguments)
    return sorted(f"{record.request.method} {record.request.target}" for record in proxy.records), sum(counted)


def add_foreign_objects(api: Api, namespace: str) -> None:
    """Create objects of other users: gpuctl jobs, their pods, and nodes of another pool."""
    container = {"name": "main", "image": "registry.example.com/x:v1"}
    labels = {"app.kubernetes.io/managed-by": "gpuctl", "app": "theirs"}
    spec = {"containers": [container], "restartPolicy": "Never"}
    for number in range(OTHERS):
        metadata = {"name": f"theirs-{number}", "labels": labels}
        template = {"metadata": {"labels": labels}, "spec": spec}
        job = {"suspend": True, "template": template}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}
        api.call("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "schedulerName": "nobody"}}
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{namespace}-{number}"}}
        api.call("POST", "/api/v1/nodes", node)


def test_apply_reads_only_its_own_jobs(place: Place, api: Api, proxy: Proxy) -> None:
    second, other = f"{place.namespace}-b", f"{place.namespace}-other"
    api.create_namespace(second)
    jobs = (training("a"), training("b", job={"namespace": second}))
    changed = tuple({**document, "environment": {**document["environment"], **image("v2")}} for document in jobs)
    place.apply(*jobs)
    place.running("a")
    path = f"/apis/batch/v1/namespaces/{second}/jobs/b"
    place.until(lambda: (place.api.call("GET", path).get("status") or {}).get("ready"), "the pod of b")
    same, new = place.file(*jobs), place.file(*changed, name="changed.yaml")
    commands = (
        ("apply", "-f", same, "-n", place.namespace),
        ("diff", "-f", same, "-n", place.namespace),
        ("apply", "-f", new, "-n", place.namespace, "--dry-run=server"),
    )
    try:
        alone = [requests_of(proxy, place, *command) for command in commands]
        api.create_namespace(other)
        add_foreign_objects(api, other)
        add_foreign_objects(api, place.namespace)
        crowded = [requests_of(proxy, place, *command) for command in commands]
        assert crowded[:2] == alone[:2]
        # Evictions depend on the pods of all users: the same requests, but longer responses.
        assert crowded[2][0] == alone[2][0]
        unchanged, looked = alone[0][0], alone[1][0]
        assert not [
            line for line in (*unchanged, *looked) if "/pods" in line or "/nodes" in line or not line.startswith("GET")
        ]
    finally:
        for number in range(OTHERS):
            for namespace in (other, place.namespace):
                api.call("DELETE", f"/api/v1/nodes/{namespace}-{number}")
        for namespace in (second, other):
            api.call("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.mark.parametrize(
    "document", part_of([training(), inference(), notebook()], 3), ids=lambda document: document["kind"]
)
def test_a_changed_app_label_does_not_hide_a_job(place: Place, document: Document) -> None:
    """Jobs are listed by this label. Siblings: the label removed, a replacement, a deletion."""
    name, label = document["job"]["name"], {"metadata": {"labels": {"app": "another"}}}
    kind = {"training": "Job", "inference": "Deployment", "notebook": "StatefulSet"}[document["kind"]]
    place.apply(document)
    uid = place.uid(kind, name)
    for labels in (label, {"metadata": {"labels": {"app": None}}}):
        place.patch(kind, name, labels)
        assert place.plan(document).actions[f"{kind}/{name}"] == "update"
    place.apply({**document, "environment": {**document["environment"], **image("v2")}}, flags=("--yes",))
    assert place.uid(kind, name) != uid
    place.patch(kind, name, label)
    deletion = place.gpuctl("delete", "-f", place.file(document), "--yes", "-o", "json")
    assert deletion.actions[f"{kind}/{name}"] == "delete"


NOT_FOR_LISTS = {
    "pydantic",
    "gpuctl.frontend.loading",
    "gpuctl.frontend.yaml_reader",
    "gpuctl.apply.plan",
    "gpuctl.apply.run",
}
"""Modules that read documents, and modules that change a cluster."""


@pytest.mark.parametrize("what", ["jobs", "nodes", "pools"])
def test_lists_import_neither_compiler_nor_apply(plane: ControlPlane, drill_nodes: None, what: str) -> None:
    code = (
        "import sys\nbefore = {*sys.modules}\n"
        f"sys.argv = ['gpuctl', 'get', {what!r}, '--kubeconfig', {str(plane.kubeconfig())!r}]\n"
        "from gpuctl.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end\n"
        "print(*{*sys.modules} - before)"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
    assert f"gpuctl.cli.commands.get.{what}" in found
    assert NOT_FOR_LISTS.intersection(found) == set()
