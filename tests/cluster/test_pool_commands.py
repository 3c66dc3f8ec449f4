"""Pool commands, their documented output, and pool definitions that follow the labels of nodes."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.proxy import cut_after, in_front_of, matching, meanwhile, nth, on
from gpuctl.acts.pool_membership import add_to_pool
from gpuctl.kube.configuration import open_session
from gpuctl.language.settings import Settings
from gpuctl.objects.label_managers import POOLS_MANAGER
from support import node_world
from support.cluster_tools import Place
from support.command import on_a_terminal
from support.node_world import POOL, SYSTEM, TYPE, labels_of, managers, spare_nodes
from support.tables import column, facts, section, table

HEADERS = ["POOL NAME", "STATUS", "GPU TOTAL", "GPU USED", "GPU FREE", "NODE COUNT"]
DESCRIPTION = "训练任务专用资源池"


@pytest.fixture
def place(
    world: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    return node_world.place(world, tmp_path, capsys, monkeypatch)


def pool(name: str, *nodes: str, **blocks: Any) -> dict[str, Any]:
    """Return a pool's document."""
    header = {"name": name, "description": DESCRIPTION}
    entries = {node: {"gpu-type": ""} for node in nodes}
    return {"kind": "pool", "version": "v0.1", "pool": header, "nodes": entries, **blocks}


def definition(place: Place, name: str) -> dict[str, Any] | None:
    """Return the definition in the pool's ConfigMap; None if it does not exist."""
    status, found = place.api.request("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-{name}")
    return yaml.safe_load(found["data"]["pool.yaml"]) if status == 200 else None


def nodes_of(place: Place, name: str) -> list[str]:
    """Return the nodes that carry a pool's label."""
    found = place.api.call("GET", f"/api/v1/nodes?labelSelector={POOL.replace('/', '%2F')}%3D{name}")["items"]
    return [node["metadata"]["name"] for node in found]


@pytest.mark.parametrize("verb", ["get", "query"])
def test_get_pools(verb: str, place: Place) -> None:
    """The table has the six documented columns and a row for nodes without a pool."""
    found = place.anywhere(verb, "pools")
    assert re.split(r" {2,}", found.out.splitlines()[0]) == HEADERS
    assert [list(row.values()) for row in table(found.out)] == [
        ["inference-pool", "faulty", "4", "0", "4", "1"],
        ["npu-pool", "active", "8", "2", "6", "1"],
        ["training-pool", "active", "16", "6", "10", "2"],
        ["default", "active", "4", "0", "4", "2"],
    ]
    unavailable = "4 of 4 free GPUs are on nodes that take no pods (node-3 faulty)"
    assert f"inference-pool: {unavailable}" in found.err
    described = facts(place.anywhere("describe", "pool", "inference-pool").out)
    assert described["GPUs"] == f"4 in all, 0 used, 4 free; {unavailable}"
    assert "default: 4 of 4 free GPUs are on nodes that take no pods (node-4 maintaining)" in found.err
    assert place.anywhere(verb, "pools", "-o", "name").out.split()[-1] == "pool/default"


def test_json_of_a_pool(place: Place) -> None:
    (found,) = place.anywhere("get", "pools", "training-pool", "-o", "json").value["items"]
    job = {"pod": "sft-abcde", "name": "sft", "namespace": "team-a", "kind": "training", "gpu": 5}
    foreign = {"pod": "foreign", "name": "foreign", "namespace": "team-a", "kind": None, "gpu": 1}
    common = {
        "name": "training-pool",
        "description": None,
        "gpuTotal": 16,
        "gpuUsed": 6,
        "gpuFree": 10,
        "gpuUnavailable": 0,
        "status": "active",
        "nodes": ["node-1", "node-2"],
        "quota": {"maxJobs": None, "maxGpuPerJob": None},
        "jobs": [{**job, "nodeName": "node-1"}, {**foreign, "nodeName": "node-2"}],
    }
    assert found == {**common, "gpuType": ["A100-80G", "a100-80g"]}
    waits = {"pod": "big-abcde", "name": "big", "namespace": "team-a", "kind": "training", "gpu": 8}
    assert place.anywhere("describe", "pool", "training-pool", "--json").value == {
        **common,
        "gpuType": {"A100-80G": 8, "a100-80g": 8},
        "missingNodes": [],
        "waitingJobs": [{**waits, "nodeName": None}],
        "isDefined": False,
    }


def test_describe_pool(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", labels={TYPE: "t4"}):
        document = pool("spares", "spare-1", "spare-9", quota={"maxJobs": 100, "maxGpuPerJob": 8})
        place.anywhere("create", "-f", place.file(document))
        printed = place.anywhere("describe", "pool", "spares").out
        said = facts(printed)
        assert said["Description"] == DESCRIPTION
        assert said["GPUs"] == "2 in all, 0 used, 2 free"
        assert (said["GPU types"], said["Job limit"], said["GPU limit per job"]) == ("t4: 2", "100", "8")
        assert said["Missing nodes"].startswith("spare-9 ")
        assert [tuple(row.values()) for row in section(printed, "Nodes")] == [
            ("spare-1", "active", "2", "0", "2", "t4")
        ]
        wide = {row["POOL NAME"]: row for row in table(place.anywhere("get", "pools", "-o", "wide").out)}["spares"]
        assert wide["DESCRIPTION"] == DESCRIPTION
        assert (wide["GPU TYPE"], wide["MAX JOBS"], wide["MAX GPU PER JOB"]) == ("t4:2", "100", "8")
    training = place.anywhere("describe", "pool", "training-pool").out
    assert column_of(training, "Jobs", "JOB ID") == ["sft-abcde", "foreign"]
    assert column_of(training, "Waiting", "JOB ID") == ["big-abcde"]


def column_of(text: str, title: str, heading: str) -> list[str]:
    """Return one column of a section."""
    return [row[heading] for row in section(text, title)]


@pytest.mark.slow
def test_a_defined_pool_without_nodes_is_empty(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1"):
        place.anywhere("create", "-f", place.file(pool("empty-pool", "spare-9")))
        assert table(place.anywhere("get", "pools", "empty-pool").out)[0]["STATUS"] == "empty"


@pytest.mark.slow
def test_unknown_pool_suggests_a_similar_name(place: Place) -> None:
    for words in ("get pools training-pol", "describe pool training-pol", "delete pool training-pol --yes"):
        failed = place.anywhere(*words.split(), code=1)
        assert failed.err.startswith("error: there is no pool training-pol\n  = did you mean `training-pool`?")
    value = place.anywhere("get", "pools", "training-pol", "--json", code=1).value
    assert value == {"error": "there is no pool training-pol", "hint": "did you mean `training-pool`?"}


# Joining and leaving --------------------------------------------------------------------------------------


def test_add_node_and_remove_node(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", "spare-2", "spare-3", labels={TYPE: "t4"}):
        path = place.file(pool("spares", "spare-1"))
        place.anywhere("create", "-f", path)
        before = place.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-spares")["metadata"]
        added = place.anywhere("add", "node", "spare-2", "spare-3", "--pool", "spares")
        assert added.out == "node/spare-2  joined pool spares\nnode/spare-3  joined pool spares\n"
        assert nodes_of(place, "spares") == ["spare-1", "spare-2", "spare-3"]
        assert managers(place, "spare-2", POOL) == {POOLS_MANAGER}
        (found,) = table(place.anywhere("get", "pools", "spares").out)
        assert (found["GPU TOTAL"], found["NODE COUNT"]) == ("6", "3")
        assert definition(place, "spares") == {
            **pool("spares", "spare-1"),
            "nodes": {"spare-1": {"gpu-type": ""}, "spare-2": {"gpu-type": "t4"}, "spare-3": {"gpu-type": "t4"}},
        }
        same = place.anywhere("add", "node", "spare-2", "--pool", "spares")
        assert same.out == "node/spare-2  is in pool spares already\n"
        removed = place.anywhere("remove", "node", "spare-3", "spare-2", "--pool", "spares")
        assert removed.out == "node/spare-3  left pool spares\nnode/spare-2  left pool spares\n"
        assert nodes_of(place, "spares") == ["spare-1"]
        assert labels_of(place, "spare-2")[TYPE] == "t4", "the type is a fact about the node"
        # Definition, hash and field managers are the same as before the two commands.
        after = place.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-spares")["metadata"]
        assert (after["annotations"], after["labels"]) == (before["annotations"], before["labels"])
        assert {entry["manager"] for entry in after["managedFields"]} == {"gpuctl"}
        assert place.anywhere("diff", "-f", path).code == 0


@pytest.mark.slow
def test_apply_removes_added_nodes_missing_from_the_document(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", "spare-2"):
        path = place.file(pool("spares", "spare-1"))
        place.anywhere("create", "-f", path)
        place.anywhere("add", "node", "spare-2", "--pool", "spares")
        place.anywhere("apply", "-f", path)
        assert nodes_of(place, "spares") == ["spare-1"]


@pytest.mark.slow
def test_add_node_moves_between_pools_only_with_overwrite(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", "spare-2"):
        place.anywhere("create", "-f", place.file(pool("spares", "spare-1"), pool("others", "spare-2")))
        kept = place.anywhere("add", "node", "spare-1", "--pool", "others", code=1)
        assert kept.err == "error: node spare-1 is in pool spares; --overwrite moves it\n"
        assert nodes_of(place, "spares") == ["spare-1"]
        moved = place.anywhere("add", "node", "spare-1", "--pool", "others", "--overwrite")
        assert moved.out == "node/spare-1  joined pool others, left spares\n"
        assert list((definition(place, "others") or {})["nodes"]) == ["spare-2", "spare-1"]
        assert (definition(place, "spares") or {})["nodes"] == {}
        wrong = place.anywhere("remove", "node", "spare-1", "--pool", "spares", "--json", code=1).value
        (failed,) = wrong["failed"]
        assert failed["error"] == "NodeNotInPool"
        assert failed["message"] == "node spare-1 is not in pool spares but in others"


@pytest.mark.slow
def test_add_node_adds_the_existing_nodes_of_several(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1"):
        value = place.anywhere("add", "node", "nobody", "spare-1", "--pool", "npu-pool", "--json", code=1).value
        assert value["success"] == ["spare-1"]
        assert [item["error"] for item in value["failed"]] == ["NodeNotFound"]
        place.anywhere("remove", "node", "spare-1", "--pool", "npu-pool")
        none = place.anywhere("remove", "node", "spare-1", "--pool", "npu-pool", code=1)
        assert none.err == "error: node spare-1 is in no pool\n"


@pytest.mark.slow
def test_concurrent_joins_are_all_in_the_definition(place: Place) -> None:
    names = [f"spare-{number}" for number in range(8)]
    with spare_nodes(place.plane, *names):
        place.anywhere("create", "-f", place.file(pool("spares", "spare-0")))

        def join(name: str) -> list[str]:
            session = open_session(kubeconfig=str(place.plane.kubeconfig()))
            try:
                return add_to_pool(session, [name], "spares", Settings()).notes
            finally:
                session.close()

        with ThreadPoolExecutor(len(names)) as threads:
            assert list(threads.map(join, names)) == [[]] * len(names)
        assert sorted((definition(place, "spares") or {})["nodes"]) == names


def test_concurrent_joins_of_two_pools_do_not_overwrite_each_other(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def join_others() -> None:
        with contextlib.closing(open_session(kubeconfig=str(place.plane.kubeconfig()))) as session:
            assert add_to_pool(session, ["spare-1"], "others", Settings()).failed == []

    with spare_nodes(place.plane, "spare-1"), in_front_of(place.plane) as proxy:
        place.anywhere("create", "-f", place.file(pool("spares"), pool("others")))
        monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig(tmp_path / "through-proxy")))
        proxy.reset(on(nth(1, matching("PATCH", "/nodes/spare-1")), meanwhile(join_others)))
        late = place.anywhere("add", "node", "spare-1", "--pool", "spares", code=1)
        assert late.err == "error: node spare-1 is in pool others; --overwrite moves it\n"
        assert nodes_of(place, "others") == ["spare-1"]
        proxy.reset(on(nth(1, matching("PATCH", "/nodes/spare-1")), cut_after))
        moved = place.anywhere("add", "node", "spare-1", "--pool", "spares", "--overwrite")
        assert moved.out == "node/spare-1  joined pool spares, left others\n"
        assert (nodes_of(place, "spares"), nodes_of(place, "others")) == (["spare-1"], [])
        found = [list((definition(place, name) or {})["nodes"]) for name in ("spares", "others")]
        assert found == [["spare-1"], []]


@pytest.mark.slow
def test_add_node_to_an_unknown_pool_fails(place: Place) -> None:
    failed = place.anywhere("add", "node", "cpu-1", "--pool", "trainig-pool", code=1)
    assert failed.err == (
        "error: there is no pool trainig-pool\n"
        "  = did you mean `training-pool`? `gpuctl create -f pool.yaml` makes one\n"
    )
    assert (
        "default has the nodes that are in no other pool"
        in place.anywhere("add", "node", "cpu-1", "--pool", "default", code=1).err
    )
    assert POOL not in labels_of(place, "cpu-1")


@pytest.mark.slow
def test_definition_held_by_another_manager_is_kept(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", "spare-2"):
        rendered = place.anywhere("render", "-f", place.file(pool("spares", "spare-1")), "--nodes").out
        place.plane.kubectl("apply", "--server-side", "--field-manager=argocd", "-f", "-", input=rendered)
        found = place.anywhere("add", "node", "spare-2", "--pool", "spares")
        assert nodes_of(place, "spares") == ["spare-1", "spare-2"]
        assert "the labels are correct, but the definition of pool spares" in found.err
        assert "is held by argocd" in found.err


@pytest.mark.slow
def test_remove_node_removes_a_label_set_by_kubectl(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1"):
        place.plane.kubectl("label", "node", "spare-1", f"{POOL}=by-hand")
        place.anywhere("remove", "node", "spare-1", "--pool", "by-hand")
        assert POOL not in labels_of(place, "spare-1")


# Deleting -------------------------------------------------------------------------------------------------


def test_delete_pool_names_its_jobs_and_keeps_them_running(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", labels={TYPE: "t4"}):
        job = {
            "kind": "training",
            "version": "v0.1",
            "job": {"name": "sits", "namespace": "team-b"},
            "environment": {"image": "registry.example.com/x:v1", "command": ["run"]},
            "resources": {"pool": "spares", "gpu": 1, "cpu": 1, "memory": "1Gi"},
        }
        place.anywhere("apply", "-f", place.file(pool("spares", "spare-1")))
        place.anywhere("apply", "-f", place.file(job))
        unasked = place.anywhere("delete", "pool", "spares", code=2)
        assert "jobs that select it keep running but cannot start again: training/sits in team-b" in unasked.err
        assert nodes_of(place, "spares") == ["spare-1"]
        code, shown = on_a_terminal("delete", "pool", "spares", answer="n")
        assert code == 1
        assert "training/sits in team-b" in shown
        assert "Continue? [y/N]" in shown
        assert nodes_of(place, "spares") == ["spare-1"]
        done = place.anywhere("delete", "pool", "spares", "--yes")
        assert f"deleted   configmap/pool-spares -n {SYSTEM}\n" in done.out
        assert "updated   node/spare-1  (leaves the pool spares)\n" in done.out
        assert POOL not in labels_of(place, "spare-1")
        assert labels_of(place, "spare-1")[TYPE] == "t4"
        assert place.plane.get("job", "sits", "-n", "team-b")["metadata"]["name"] == "sits"
        place.plane.kubectl("delete", "job", "sits", "-n", "team-b", "--wait=false")


@pytest.mark.slow
def test_delete_pool_can_keep_the_labels(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1"):
        place.anywhere("create", "-f", place.file(pool("spares", "spare-1")))
        value = place.anywhere("delete", "pool", "spares", "--keep-labels", "-o", "json").value
        assert [(step["kind"], step["result"]) for step in value["steps"]] == [("ConfigMap", "done")]
        assert nodes_of(place, "spares") == ["spare-1"]
        # The pool exists only as a node label now, and can still be deleted by name.
        assert column(place.anywhere("get", "pools", "spares").out, "NODE COUNT") == ["1"]
        place.anywhere("delete", "pool", "spares")
        assert nodes_of(place, "spares") == []


@pytest.mark.slow
def test_delete_pool_refuses_default_and_wrong_options(place: Place) -> None:
    assert "there is nothing to delete" in place.anywhere("delete", "pool", "default", code=1).err
    assert "Name the pool" in place.anywhere("delete", "pool", code=2).err
    assert "goes with `gpuctl delete quota" in place.anywhere("delete", "pool", "x", "--namespace-too", code=2).err


@pytest.mark.slow
def test_delete_pool_by_file(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1"):
        path = place.file(pool("spares", "spare-1"))
        place.anywhere("create", "-f", path)
        place.anywhere("delete", "-f", path)
        assert definition(place, "spares") is None
        assert POOL not in labels_of(place, "spare-1")
