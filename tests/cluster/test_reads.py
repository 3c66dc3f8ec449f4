"""What apply reads does not grow with what other people have in the cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from fault_tools.world import Api
from support.cluster_tools import Document, Place, image, inference, notebook, training

OTHERS = 30


def reads(proxy: Proxy, place: Place, *arguments: str) -> tuple[list[str], int]:
    """The requests of a command, and how many objects their answers held."""
    counted: list[int] = []

    def count(exchange: Any) -> None:
        response = exchange.forward()
        # Of an API group that is not there, such as Kueue's, a page says so.
        value = json.loads(response.body) if response.body.startswith(b"{") else {}
        counted.append(len(value.get("items") or ()) if "items" in value else 1)
        exchange.answer(response)

    proxy.reset(lambda request: count)
    place.anywhere(*arguments)
    return sorted(f"{record.request.method} {record.request.target}" for record in proxy.records), sum(counted)


def crowd(api: Api, namespace: str) -> None:
    """Create what other users have: jobs of gpuctl's, their pods, and nodes of another pool."""
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


def test_apply_reads_what_it_is_about(place: Place, api: Api, proxy: Proxy) -> None:
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
        alone = [reads(proxy, place, *command) for command in commands]
        api.create_namespace(other)
        crowd(api, other)
        crowd(api, place.namespace)
        crowded = [reads(proxy, place, *command) for command in commands]
        assert crowded[:2] == alone[:2]
        # Whom changed jobs would evict is known from everybody's pods alone: as many requests, but longer answers.
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


@pytest.mark.parametrize("document", [training(), inference(), notebook()], ids=lambda document: document["kind"])
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
"""What reads documents, and what changes a cluster."""


@pytest.mark.parametrize("what", ["jobs", "nodes", "pools"])
def test_a_list_loads_neither_the_compiler_nor_what_changes_a_cluster(
    plane: ControlPlane, drill_nodes: None, what: str
) -> None:
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
