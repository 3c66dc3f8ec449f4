"""Pools and quotas: gpuctl removes only the node labels that it set, and never deletes namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from fault_tools.proxy import Proxy, matching, meanwhile, nth, on
from fault_tools.world import Api
from gpuctl.objects.label_managers import POOLS_MANAGER
from support.cluster_tools import MERGE_PATCH, Document, Place, training

DOMAIN = "runwhere.ai"
POOL_LABEL, TYPE_LABEL = f"{DOMAIN}/pool", f"{DOMAIN}/gpu-type"
SYSTEM = "gpuctl-system"


class Nodes:
    """The nodes of one test, and pools named after the test."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.api = place.api
        self.prefix = re.sub(r"[^a-z0-9]", "", place.namespace)[:30]
        self.made: list[str] = []

    def add(self, number: int = 1) -> Any:
        """Add nodes; return their names, or the name itself if only one is added."""
        names = [f"{self.prefix}-{len(self.made) + index}" for index in range(number)]
        self.place.plane.add_nodes({name: {"gpus": 8} for name in names})
        self.made += names
        return names if number > 1 else names[0]

    def name(self, pool: str) -> str:
        """Return a pool name that no other test uses."""
        return f"{self.prefix}-{pool}"

    def pool(self, pool: str, **nodes: str) -> Document:
        """Return a pool's document; ``nodes`` maps node names to GPU types."""
        entries = {name: {"gpu-type": gpu_type} for name, gpu_type in nodes.items()}
        return {"kind": "pool", "version": "v0.1", "pool": {"name": self.name(pool)}, "nodes": entries}

    def get(self, name: str) -> dict[str, Any]:
        return self.api.call("GET", f"/api/v1/nodes/{name}")

    def labels(self, name: str) -> dict[str, str]:
        """Return a node's labels without those of Kubernetes and kwok."""
        found = self.get(name)["metadata"]["labels"]
        return {key: value for key, value in found.items() if key.startswith((f"{DOMAIN}/", "example.com/"))}

    def pooled(self, name: str, pool: str, gpu_type: str) -> bool:
        """Return True if a node has exactly the labels of a pool."""
        return self.labels(name) == {POOL_LABEL: self.name(pool), TYPE_LABEL: gpu_type}

    def label(self, name: str, manager: str, **values: str | None) -> None:
        """Set labels with a merge patch by a manager, as ``kubectl label`` does; None removes a label."""
        names = {"pool": POOL_LABEL, "gpu_type": TYPE_LABEL}
        patch = {"metadata": {"labels": {names.get(key, f"example.com/{key}"): value for key, value in values.items()}}}
        self.api.call("PATCH", f"/api/v1/nodes/{name}?fieldManager={manager}", patch, MERGE_PATCH)

    def managers(self, name: str, label: str) -> set[str]:
        """Return the field managers of a node's label."""
        entries = self.get(name)["metadata"]["managedFields"]
        return {
            entry["manager"]
            for entry in entries
            if f"f:{label}" in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
        }

    def definition(self, pool: str) -> str | None:
        """Return a pool's definition in the cluster; None if it does not exist."""
        status, found = self.api.request("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-{self.name(pool)}")
        return str(found["data"]["pool.yaml"]) if status == 200 else None


@pytest.fixture
def nodes(place: Place) -> Iterator[Nodes]:
    """Nodes that are deleted after the test, together with their pools."""
    result = Nodes(place)
    yield result
    for name in result.made:
        result.api.request("DELETE", f"/api/v1/nodes/{name}")
    status, found = result.api.request("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps")
    for item in found["items"] if status == 200 else []:
        name = item["metadata"]["name"]
        if name.startswith(f"pool-{result.prefix}-"):
            result.api.call("DELETE", f"/api/v1/namespaces/{SYSTEM}/configmaps/{name}")


def test_apply_pool_writes_labels_and_definition(place: Place, nodes: Nodes, proxy: Proxy) -> None:
    """Labels and definition use server-side apply, labels under their own manager; a second apply writes nothing."""
    one, two = nodes.add(2)
    document = nodes.pool("a", **{one: "a100", two: ""})
    first = place.apply(document)
    assert f"updated   node/{one}  (pool {nodes.name('a')}, gpu-type a100)\n" in first.out
    assert f"created   configmap/pool-{nodes.name('a')} -n {SYSTEM}\n" in first.out
    assert nodes.pooled(one, "a", "a100")
    assert nodes.labels(two) == {POOL_LABEL: nodes.name("a")}
    assert nodes.managers(one, POOL_LABEL) == nodes.managers(one, TYPE_LABEL) == {POOLS_MANAGER}
    assert f"    {one}:\n" in f"    {nodes.definition('a')}".replace("  ", "    ")
    proxy.reset()
    assert place.apply(document).out == f"unchanged configmap/pool-{nodes.name('a')} -n {SYSTEM}\n"
    assert proxy.writes() == []


def test_pods_run_on_nodes_of_their_pool(place: Place, nodes: Nodes) -> None:
    node = nodes.add()
    place.apply(
        nodes.pool("a", **{node: "a100"}), training("a", resources={"pool": nodes.name("a"), "gpu-type": "a100"})
    )
    place.running("a")
    pods = place.api.call("GET", f"/api/v1/namespaces/{place.namespace}/pods")["items"]
    assert [pod["spec"]["nodeName"] for pod in pods] == [node]


def test_node_that_leaves_loses_the_labels(place: Place, nodes: Nodes) -> None:
    one, two = nodes.add(2)
    place.apply(nodes.pool("a", **{one: "a100", two: "a100"}))
    smaller = nodes.pool("a", **{one: "a100"})
    difference = place.gpuctl("diff", "-f", place.file(smaller), code=1).out
    assert f"update    node/{two}  (leaves the pool {nodes.name('a')})\n" in difference
    assert f"-    {POOL_LABEL}: {nodes.name('a')}\n" in difference
    assert nodes.pooled(two, "a", "a100"), "a diff changes nothing"
    done = place.apply(smaller)
    assert f"updated   node/{two}  (leaves the pool {nodes.name('a')})\n" in done.out
    assert nodes.labels(two) == {}
    assert nodes.pooled(one, "a", "a100")
    job = training("b", resources={"pool": nodes.name("a"), "gpu": 0, "cpu": 1, "memory": "1Gi"})
    empty = f"no node has the labels {POOL_LABEL}={nodes.name('a')}, which training/b will wait for"
    assert place.plan(nodes.pool("a"), job).value["notes"] == [empty]


def test_pruned_pool_has_no_room(place: Place, nodes: Nodes) -> None:
    place.apply(nodes.pool("a", **{nodes.add(): "a100"}), flags=("--set", "all"))
    job = training("b", resources={"pool": nodes.name("a")})
    options = ("--set", "all", "--prune", "--allow-source", "--queue", "--dry-run=server")
    refused = place.gpuctl("apply", "-f", place.file(job), *options, code=1).err
    assert f"training/b in {place.namespace} cannot start even in the empty cluster" in refused


@pytest.mark.slow
def test_jobs_on_a_node_that_leaves_or_moves_are_named(place: Place, nodes: Nodes) -> None:
    one, two = nodes.add(2)
    place.apply(
        nodes.pool("a", **{one: "a100"}), training("a", resources={"pool": nodes.name("a"), "gpu-type": "a100"})
    )
    place.running("a")
    note = (
        f"note: node {one} leaves the pool {nodes.name('a')}; jobs on it keep running, but their next pods do not start there: "
        f"training/a in {place.namespace}\n"
    )
    without = place.file(nodes.pool("a", **{two: "a100"}))
    moved = place.file(nodes.pool("a", **{two: "a100"}), nodes.pool("b", **{one: "a100"}))
    for file in (without, moved):
        assert note in place.gpuctl("diff", "-f", file, code=1).err
    assert note in place.gpuctl("apply", "-f", without, "--yes").err
    assert note not in place.gpuctl("apply", "-f", without, "--yes").err


@pytest.mark.slow
def test_shared_pool_label_stays_and_is_reported(place: Place, nodes: Nodes) -> None:
    one, two = nodes.add(2)
    nodes.label(one, "kubectl-label", pool=nodes.name("a"))
    place.apply(nodes.pool("a", **{one: "a100", two: "a100"}))
    assert nodes.managers(one, POOL_LABEL) == {"kubectl-label", POOLS_MANAGER}
    done = place.apply(nodes.pool("a", **{two: "a100"}))
    expected = f"leaves the pool {nodes.name('a')}; label {POOL_LABEL} stays: kubectl-label set it too"
    assert f"updated   node/{one}  ({expected})\n" in done.out
    assert nodes.labels(one) == {POOL_LABEL: nodes.name("a")}
    # gpuctl no longer manages the label.
    again = place.apply(nodes.pool("a", **{two: "a100"}))
    assert again.err == ""
    assert nodes.labels(one) == {POOL_LABEL: nodes.name("a")}


@pytest.mark.slow
def test_pool_label_set_by_kubectl_alone_stays(place: Place, nodes: Nodes) -> None:
    """A label that already has the right value is not taken over, and stays when the node leaves the pool."""
    one, two = nodes.add(2)
    for name in (one, two):
        nodes.label(name, "kubectl-label", pool=nodes.name("a"), gpu_type="a100")
    first = place.apply(nodes.pool("a", **{one: "a100", two: "a100"}))
    assert "node/" not in first.out
    done = place.apply(nodes.pool("a", **{one: "a100"}))
    assert done.err == (
        f"note: node {two} leaves the pool {nodes.name('a')}, but label {POOL_LABEL} stays: kubectl-label set it too\n"
    )
    assert nodes.pooled(two, "a", "a100")


@pytest.mark.slow
def test_absent_node_is_skipped_with_a_note(place: Place, nodes: Nodes) -> None:
    one = nodes.add()
    absent = f"{nodes.prefix}-absent"
    document = nodes.pool("a", **{one: "a100", absent: "a100"})
    done = place.apply(document)
    assert f"skipped   node/{absent}  (not in the cluster)\n" in done.out
    assert done.err == (
        f"note: pool/{nodes.name('a')}: there is no node {absent} in the cluster; apply again when it has joined\n"
    )
    assert place.api.request("GET", f"/api/v1/nodes/{absent}")[0] == 404
    assert nodes.pooled(one, "a", "a100")
    place.plane.add_node(absent, gpus=8)
    nodes.made.append(absent)
    assert f"updated   node/{absent}  " in place.apply(document).out
    assert nodes.pooled(absent, "a", "a100")


@pytest.mark.slow
def test_node_deleted_after_the_plan_is_not_recreated(place: Place, nodes: Nodes, proxy: Proxy) -> None:
    """A server-side apply would create the node again; the uid in the request turns that into a conflict."""
    one = nodes.add()
    labelling = matching("PATCH", f"/nodes/{one}", writes=True)
    gone = nth(1, labelling)
    proxy.reset(on(gone, meanwhile(lambda: nodes.api.call("DELETE", f"/api/v1/nodes/{one}"))))
    failed = place.apply(nodes.pool("a", **{one: "a100"}), code=1)
    assert f"failed    node/{one}  " in failed.out
    assert place.api.request("GET", f"/api/v1/nodes/{one}")[0] == 404


def test_label_conflict_names_the_other_manager(place: Place, nodes: Nodes) -> None:
    one = nodes.add()
    nodes.label(one, "kubectl-label", pool="other", gpu_type="h100")
    before = nodes.labels(one)
    document = nodes.pool("a", **{one: "a100"})
    refused = place.apply(document, code=1)
    assert refused.err == (
        f"error: node/{one}: metadata.labels.{TYPE_LABEL} is held by kubectl-label; metadata.labels.{POOL_LABEL} is held "
        "by kubectl-label; take it over with --adopt, or remove it from the document\n  = nothing was changed\n"
    )
    assert nodes.labels(one) == before
    assert nodes.definition("a") is None
    preview = place.apply(document, flags=("--adopt", "--dry-run=server"))
    line = next(line for line in preview.out.splitlines() if line.startswith(f"update    node/{one}  "))
    assert f"(pool other -> {nodes.name('a')}, gpu-type h100 -> a100" in line
    assert "kubectl-label" in line, "the manager that loses the label"
    assert nodes.labels(one) == before
    place.apply(document, flags=("--adopt",))
    assert nodes.pooled(one, "a", "a100")
    assert nodes.managers(one, POOL_LABEL) == {POOLS_MANAGER}


@pytest.mark.slow
def test_apply_pool_keeps_labels_of_label_node(place: Place, nodes: Nodes) -> None:
    """``label node`` sends a merge patch as ``gpuctl-label``: neither it nor the pool removes labels of the other."""
    one = nodes.add()
    place.apply(nodes.pool("a", **{one: "a100"}))
    nodes.label(one, "gpuctl-label", rack="r7")
    place.apply(nodes.pool("a", **{one: "h100"}))
    assert nodes.labels(one) == {POOL_LABEL: nodes.name("a"), TYPE_LABEL: "h100", "example.com/rack": "r7"}
    place.apply(nodes.pool("a"))
    assert nodes.labels(one) == {"example.com/rack": "r7"}


def test_node_moves_between_pools(place: Place, nodes: Nodes) -> None:
    one, two = nodes.add(2)
    place.apply(nodes.pool("a", **{one: "a100", two: "a100"}), nodes.pool("b"))
    done = place.apply(nodes.pool("a", **{one: "a100"}), nodes.pool("b", **{two: "h100"}))
    said = f"(pool {nodes.name('a')} -> {nodes.name('b')}, gpu-type a100 -> h100)"
    assert f"updated   node/{two}  {said}\n" in done.out
    assert nodes.pooled(two, "b", "h100")


@pytest.mark.parametrize("form", ["join", "leave"])
def test_pool_that_a_node_joins_after_the_plan_keeps_it(place: Place, nodes: Nodes, proxy: Proxy, form: str) -> None:
    """Applies of two pools have the same field manager; their concurrent ``delete pool`` removes no other label."""
    one = nodes.add()
    if form == "leave":
        place.apply(nodes.pool("a", **{one: "a100"}))

    def join() -> None:
        metadata = {"name": one, "labels": {POOL_LABEL: nodes.name("b"), TYPE_LABEL: "h100"}}
        path = f"/api/v1/nodes/{one}?fieldManager={POOLS_MANAGER}&force=true"
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        nodes.api.call("PATCH", path, body, "application/apply-patch+yaml")

    proxy.reset(on(nth(1, matching("PATCH", f"/nodes/{one}", writes=True)), meanwhile(join)))
    if form == "leave":
        failed = place.anywhere("delete", "pool", nodes.name("a"), "--yes", code=1)
    else:
        failed = place.apply(nodes.pool("a", **{one: "a100"}), code=1)
    assert f"failed    node/{one}  " in failed.out
    assert "was changed by another client (check it, and run again)" in failed.out
    assert nodes.pooled(one, "b", "h100")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["taken first", "given up first"])
def test_node_moves_between_separately_applied_pools(place: Place, nodes: Nodes, order: str) -> None:
    """Applying the old pool must not remove the label of the new pool."""
    one = nodes.add()
    place.apply(nodes.pool("a", **{one: "a100"}))
    steps = [nodes.pool("b", **{one: "a100"}), nodes.pool("a")]
    for document in steps if order == "taken first" else reversed(steps):
        place.apply(document)
    assert nodes.pooled(one, "b", "a100")


@pytest.mark.slow
def test_deleted_pool_keeps_the_gpu_type_label(place: Place, nodes: Nodes) -> None:
    one, two = nodes.add(2)
    file = place.file(nodes.pool("a", **{one: "a100", two: "a100"}))
    place.gpuctl("apply", "-f", file)
    nodes.label(two, "kubectl-label", pool=nodes.name("a"), gpu_type="a100")
    place.gpuctl("delete", "-f", file, "--yes")
    assert nodes.labels(one) == {TYPE_LABEL: "a100"}
    assert nodes.definition("a") is None


@pytest.mark.slow
def test_deleted_pool_unlabels_every_member(place: Place, nodes: Nodes) -> None:
    one, two, three = nodes.add(3)
    file = place.file(nodes.pool("a", **{one: "a100"}))
    place.gpuctl("apply", "-f", file)
    place.anywhere("add", "node", two, "--pool", nodes.name("a"))
    nodes.label(three, "kubectl-label", pool=nodes.name("a"))
    done = place.gpuctl("delete", "-f", file, "--yes", "-o", "json").value
    assert {step["name"] for step in done["steps"] if step["kind"] == "Node"} == {one, two, three}
    assert [POOL_LABEL in nodes.labels(node) for node in (one, two, three)] == [False] * 3


@pytest.mark.slow
def test_broken_pool_definition_is_repaired_with_adopt(place: Place, nodes: Nodes) -> None:
    """Another client edited the definition. Apply repairs it; former members are no longer known."""
    one = nodes.add()
    document = nodes.pool("a", **{one: "a100"})
    place.apply(document)
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-{nodes.name('a')}"
    for text in ("{", "[1]", "nodes: 5", "nodes: [a]", ""):
        place.api.call("PATCH", f"{path}?fieldManager=vi", {"data": {"pool.yaml": text}}, MERGE_PATCH)
        refused = place.apply(document, code=1)
        assert "data.pool.yaml is held by vi" in refused.err
        place.apply(document, flags=("--adopt",))
        assert one in (nodes.definition("a") or "")


def quota(name: str, *namespaces: str, gpu: int = 8) -> Document:
    """Return a quota's document."""
    users = {namespace: {"cpu": 100, "memory": "100Gi", "gpu": gpu} for namespace in namespaces}
    return {"kind": "quota", "version": "v0.1", "quota": {"name": name}, "users": users}


@pytest.mark.slow
def test_quota_is_changed_in_place(place: Place, proxy: Proxy) -> None:
    first = place.apply(quota("q", place.namespace))
    assert set(first.out.split()) >= {f"resourcequota/q-{place.namespace}", f"limitrange/q-{place.namespace}"}
    uids = place.uids()
    proxy.reset()
    assert {line.split()[0] for line in place.apply(quota("q", place.namespace)).out.splitlines()} == {"unchanged"}
    assert proxy.writes() == []
    changed = place.apply(quota("q", place.namespace, gpu=4))
    assert (
        f"updated   resourcequota/q-{place.namespace} -n {place.namespace}  (hard.requests.nvidia.com/gpu)"
        in re.sub(r"hard\[(.*?)\]", r"hard.\1", changed.out)
    )
    assert place.uids() == uids
    assert place.get("ResourceQuota", f"q-{place.namespace}")["spec"]["hard"]["requests.nvidia.com/gpu"] == "4"


@pytest.mark.slow
def test_quota_changes_never_delete_namespaces(place: Place, api: Api) -> None:
    """A quota creates the namespaces that it names; neither changing nor deleting it deletes a namespace."""
    made = [f"{place.namespace}-q{number}" for number in range(2)]
    place.apply(quota("q", *made))
    place.apply(training("a", job={"namespace": made[0]}, resources={"gpu": 0, "cpu": 1, "memory": "1Gi"}))
    place.apply(quota("q", made[1]))
    place.gpuctl("delete", "-f", place.file(quota("q", *made)), "--yes")
    for name in made:
        assert api.call("GET", f"/api/v1/namespaces/{name}")["status"]["phase"] == "Active"
        assert api.call("GET", f"/api/v1/namespaces/{name}/resourcequotas")["items"] == []
    assert api.request("GET", f"/apis/batch/v1/namespaces/{made[0]}/jobs/a")[0] == 200
    for name in made:
        api.call("DELETE", f"/api/v1/namespaces/{name}")
