"""Commands for nodes, their labels and GPU types, with their documented output."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Upstream
from gpuctl.acts.node_labels import LabelTerms
from gpuctl.kube.configuration import session_of
from gpuctl.usecases.changes.label_nodes import label_nodes
from gpuctl.usecases.documents.compiling import read_platform
from support import node_world
from support.cluster_tools import Place
from support.node_world import POOL, SYSTEM, TYPE, labels_of, managers, spare_nodes
from support.tables import column, facts, section, table

HEADERS = ["NODE NAME", "STATUS", "GPU TOTAL", "GPU USED", "GPU FREE", "GPU TYPE", "POOL"]


@pytest.fixture
def place(
    world: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    return node_world.place(world, tmp_path, capsys, monkeypatch)


def test_get_nodes(place: Place) -> None:
    found = table(place.anywhere("get", "nodes").out)
    assert [list(row.values()) for row in found] == [
        ["cpu-1", "active", "0", "0", "0", "-", "default"],
        ["node-1", "active", "8", "5", "3", "A100-80G", "training-pool"],
        ["node-2", "active", "8", "1", "7", "a100-80g", "training-pool"],
        ["node-3", "faulty", "4", "0", "4", "Tesla-T4", "inference-pool"],
        ["node-4", "maintaining", "4", "0", "4", "a100-40g", "default"],
        ["npu-1", "active", "8", "2", "6", "Ascend910B", "npu-pool"],
    ]
    assert list(found[0]) == HEADERS


def test_wide_nodes_round_cpu_and_memory(place: Place) -> None:
    found = {row["NODE NAME"]: row for row in table(place.anywhere("get", "nodes", "-o", "wide").out)}
    assert (found["node-2"]["CPU"], found["node-2"]["MEMORY"]) == ("63.92", "503.5Gi")
    assert (found["node-1"]["CPU"], found["node-1"]["MEMORY"]) == ("64", "512Gi")
    assert found["node-3"]["KUBERNETES"] == "NotReady"
    assert found["node-4"]["KUBERNETES"] == "Ready,SchedulingDisabled"


FILTERS: dict[str, list[str]] = {
    "--pool training-pool": ["node-1", "node-2"],
    "--pool default": ["cpu-1", "node-4"],
    "--gpu-type a100-80g": ["node-1", "node-2"],
    "--gpu-type A100-80G": ["node-1", "node-2"],
    "--gpu-type nvidia.com/a100-80g": ["node-1", "node-2"],
    "--gpu-type huawei.com/ascend910b": ["npu-1"],
    "--gpu-type nvidia.com/ascend910b": [],
    "--gpu-type company.com/gpu-model=a100-40g": ["node-4"],
    "--gpu-type tesla-t4": ["node-3"],
    "--status active": ["cpu-1", "node-1", "node-2", "npu-1"],
    "--status maintaining": ["node-4"],
    "--status FAULTY": ["node-3"],
    "--pool training-pool --gpu-type a100-80g --status active": ["node-1", "node-2"],
    "--label company.com/gpu-model=a100-40g": ["node-4"],
    f"-l {POOL}=training-pool": ["node-1", "node-2"],
    "node-2 node/node-1": ["node-1", "node-2"],
}


def test_node_filters(place: Place) -> None:
    for words, names in FILTERS.items():
        assert column(place.anywhere("get", "nodes", *words.split()).out, "NODE NAME") == names, words
    query = place.anywhere("query", "nodes", "--pool", "training-pool").out
    assert column(query, "NODE NAME") == ["node-1", "node-2"]
    named = place.anywhere("get", "nodes", "--pool", "training-pool", "-o", "name").out
    assert named.split() == ["node/node-1", "node/node-2"]


@pytest.mark.parametrize("option", ["--gpu-type", "--label"])
def test_a_key_alone_prints_the_label_of_each_node(option: str, place: Place) -> None:
    found = place.anywhere("get", "nodes", option, "nvidia.com/gpu-type")
    assert table(found.out) == [{"NODE NAME": "node-2", "LABEL KEY": "nvidia.com/gpu-type", "LABEL VALUE": "a100-80g"}]
    assert "cpu-1, node-1, node-3, node-4, npu-1: no label nvidia.com/gpu-type" in found.err
    value = place.anywhere("get", "nodes", option, TYPE, "-o", "json").value
    assert value == {
        "items": [
            {"nodeName": "node-1", "labelKey": TYPE, "labelValue": "A100-80G"},
            {"nodeName": "npu-1", "labelKey": TYPE, "labelValue": "Ascend910B"},
        ],
        "total": 2,
    }


def test_empty_result_lists_existing_values(place: Place) -> None:
    assert (
        "Nodes have default, inference-pool, npu-pool, training-pool."
        in place.anywhere("get", "nodes", "--pool", "trainig-pool").err
    )
    assert "Nodes have A100-80G, Ascend910B" in place.anywhere("get", "nodes", "--gpu-type", "h100").err
    for gpu_type in ("ascend910b", "huawei.com/ascend910b"):
        other = place.anywhere("get", "nodes", "--pool", "training-pool", "--gpu-type", gpu_type)
        assert other.err == "No node matches.\n", "npu-1 of another pool has it"
    labelled = place.anywhere("get", "nodes", "-l", f"{TYPE}=A100-80G", "--gpu-type", "ascend910b").err
    assert labelled == f"No node with the labels {TYPE}=A100-80G has the GPU type ascend910b. These have A100-80G.\n"
    assert "did you mean `npu-1`?" in place.anywhere("get", "nodes", "npu1", code=1).err
    assert "Invalid value for -l" in place.anywhere("get", "nodes", "-l", "!!", code=2).err
    assert place.anywhere("get", "nodes", "--gpu-type", "h100", "-o", "json").value == {"items": [], "total": 0}


def test_get_nodes_gpu_detail(place: Place) -> None:
    shown = place.anywhere("get", "nodes", "--gpu-detail")
    assert "GPU ID is a number, not a device" in shown.err
    found = [row for row in table(shown.out) if row["NODE NAME"] == "node-1"]
    assert [row["GPU ID"] for row in found] == [f"gpu-{index}" for index in range(8)]
    assert [row["COUNTED AS"] for row in found] == ["used"] * 5 + ["free"] * 3
    assert {row["GPU TYPE"] for row in found} == {"A100-80G"}
    value = place.anywhere("get", "nodes", "--gpu-detail", "--json").value
    assert [(item["nodeName"], item["gpuCount"]) for item in value["items"]] == [
        ("node-1", 8),
        ("node-2", 8),
        ("node-3", 4),
        ("node-4", 4),
        ("npu-1", 8),
    ]
    gpu = {"gpuId": "gpu-0", "type": "A100-80G", "status": "used", "utilization": None, "memoryUsage": None}
    assert value["items"][0]["gpus"][0] == gpu


def test_json_of_nodes(place: Place) -> None:
    value = place.anywhere("get", "nodes", "node-2", "-o", "json").value
    created = value["items"][0].pop("createdAt")
    assert created.endswith("Z")
    assert value == {
        "items": [
            {
                "nodeName": "node-2",
                "status": "active",
                "gpuTotal": 8,
                "gpuUsed": 1,
                "gpuFree": 7,
                "boundPools": ["training-pool"],
                "cpu": "63920m",
                "memory": "527966564Ki",
                "gpuType": "a100-80g",
                "address": "127.0.0.1",
                "k8sState": "Ready",
            }
        ],
        "total": 1,
    }
    assert yaml.safe_load(place.anywhere("get", "nodes", "-o", "yaml").out)["total"] == 6


def test_describe_node(place: Place) -> None:
    printed = place.anywhere("describe", "node", "node-1").out
    said = facts(printed)
    assert said["Status"] == "active (Ready)"
    assert said["Pool"] == "training-pool"
    assert said["GPU type"] == f"A100-80G (label {TYPE})"
    assert said["GPUs"] == "8 nvidia; 5 used, 3 free"
    assert said["Kubelet"].startswith("kwok")
    assert [tuple(row.values()) for row in section(printed, "Resources")] == [
        ("gpu", "8", "5", "3", "62%"),
        ("cpu", "64", "8", "56", "12%"),
        ("memory", "512Gi", "16Gi", "496Gi", "3%"),
    ]
    assert section(printed, "Jobs") == [
        {"JOB ID": "sft-abcde", "NAME": "sft", "NAMESPACE": "team-a", "KIND": "training", "GPU": "5"}
    ]
    assert f"\n  {TYPE}=A100-80G\n" in printed
    assert section(printed, "Conditions")[0]["TYPE"] == "Ready"
    assert "node.kubernetes.io/unschedulable:NoSchedule" in place.anywhere("describe", "node", "node-4").out


def test_describe_node_as_json(place: Place) -> None:
    value = place.anywhere("describe", "node", "node-1", "--json").value
    assert value["resources"] == {
        "cpuTotal": 64,
        "cpuUsed": 8,
        "cpuFree": 56,
        "memoryTotal": "512Gi",
        "memoryUsed": "16Gi",
        "memoryFree": "496Gi",
        "gpuTotal": 8,
        "gpuUsed": 5,
        "gpuFree": 3,
        "gpuUnhealthy": 0,
    }
    assert value["runningJobs"][0] == {
        "pod": "sft-abcde",
        "name": "sft",
        "namespace": "team-a",
        "kind": "training",
        "gpu": 5,
        "nodeName": "node-1",
    }
    assert {"key": POOL, "value": "training-pool"} in value["labels"]
    assert value["k8sStatus"]["conditions"][0]["type"] == "Ready"
    assert (value["nodeName"], value["boundPools"], len(value["gpuDetail"])) == ("node-1", ["training-pool"], 8)
    failed = place.anywhere("describe", "node", "nod-1", "-o", "json", code=1)
    assert failed.value["error"] == "there is no node nod-1"
    assert place.anywhere("describe", "node", "node-1,node-2", code=1).err.startswith(
        "error: there is no node node-1,node-2\n"
    )


def test_describe_node_lists_foreign_pods(place: Place) -> None:
    held = section(place.anywhere("describe", "node", "node-2").out, "Jobs")
    assert held == [{"JOB ID": "foreign", "NAME": "foreign", "NAMESPACE": "team-a", "KIND": "-", "GPU": "1"}]


@pytest.mark.parametrize("noun", ["label", "labels", "node-labels"])
def test_get_label_of_a_node(noun: str, place: Place) -> None:
    one = place.anywhere("get", noun, "node-2", "--key=nvidia.com/gpu-type")
    assert table(one.out) == [{"NODE NAME": "node-2", "LABEL KEY": "nvidia.com/gpu-type", "LABEL VALUE": "a100-80g"}]
    assert place.anywhere("get", noun, "node-2", "--key=nvidia.com/gpu-type", "-o", "name").out == "a100-80g\n"
    value = place.anywhere("get", noun, "node-2", "--key=nvidia.com/gpu-type", "--json").value
    assert value["nodeName"] == "node-2"
    assert (value["label"]["key"], value["label"]["value"]) == ("nvidia.com/gpu-type", "a100-80g")
    assert value["label"]["createdAt"].endswith("Z")
    assert value["label"]["createdAt"] == value["label"]["lastUpdatedAt"], "the label was set once"
    everything = place.anywhere("get", noun, "node-1").out
    assert (TYPE, "A100-80G") in column(everything, "LABEL KEY", "LABEL VALUE")


def test_missing_label_suggests_a_similar_key(place: Place) -> None:
    failed = place.anywhere("get", "label", "node-1", "--key=runwhere.ai/gpu-tpe", code=1)
    assert failed.err == f"error: node node-1: no label runwhere.ai/gpu-tpe\n  = did you mean `{TYPE}`?\n"


@pytest.mark.parametrize("words", ["gpu-type --all", "node-labels --all", "labels"])
def test_gpu_labels_of_all_nodes(words: str, place: Place) -> None:
    printed = place.anywhere("get", *words.split()).out
    assert [tuple(row.values()) for row in table(printed)] == [
        ("cpu-1", "-", "default", "-"),
        ("node-1", "A100-80G", "training-pool", f"{TYPE}=A100-80G"),
        ("node-2", "a100-80g", "training-pool", "nvidia.com/gpu-type=a100-80g"),
        ("node-3", "Tesla-T4", "inference-pool", "nvidia.com/gpu.product=Tesla-T4"),
        ("node-4", "a100-40g", "default", "company.com/gpu-model=a100-40g"),
        ("npu-1", "Ascend910B", "npu-pool", f"{TYPE}=Ascend910B"),
    ]
    value = place.anywhere("get", *words.split(), "-o", "json").value
    assert value["total"] == 6
    assert value["items"][4] == {
        "nodeName": "node-4",
        "gpuLabels": [{"key": "company.com/gpu-model", "value": "a100-40g"}],
        "gpuType": "a100-40g",
        "boundPools": ["default"],
    }


def test_gpu_types(place: Place) -> None:
    found = place.anywhere("get", "gpu-types").out
    assert column(found, "GPU TYPE", "GPU TOTAL", "GPU USED", "GPU FREE", "NODE COUNT", "POOLS") == [
        ("A100-80G", "8", "5", "3", "1", "training-pool"),
        ("Ascend910B", "8", "2", "6", "1", "npu-pool"),
        ("Tesla-T4", "4", "0", "4", "1", "inference-pool"),
        ("a100-40g", "4", "0", "4", "1", "default"),
        ("a100-80g", "8", "1", "7", "1", "training-pool"),
    ]
    assert column(place.anywhere("get", "gpu-types", "ascend910b", "-o", "wide").out, "VENDOR") == ["ascend"]
    assert "there are A100-80G, Ascend910B, Tesla-T4" in place.anywhere("get", "gpu-types", "h100", code=1).err


# Changing labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["{} nvidia.com/gpu-type=a100-80g", "nvidia.com/gpu-type=a100-80g {}"])
def test_label_node_in_either_order(words: str, place: Place) -> None:
    with spare_nodes(place.plane, "spare-1"):
        found = place.anywhere("label", "node", *words.format("spare-1").split())
        assert found.out == "node/spare-1  nvidia.com/gpu-type=a100-80g\n"
        assert f"jobs select GPU types by {TYPE}, not by nvidia.com/gpu-type" in found.err
        assert labels_of(place, "spare-1")["nvidia.com/gpu-type"] == "a100-80g"
        assert managers(place, "spare-1", "nvidia.com/gpu-type") == {"gpuctl-label"}
        again = place.anywhere("label", "node", *words.format("spare-1").split())
        assert again.out == "node/spare-1  nvidia.com/gpu-type=a100-80g (unchanged)\n"


def test_label_node_needs_overwrite_to_change_a_value(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", labels={TYPE: "t4"}):
        kept = place.anywhere("label", "node", "spare-1", f"{TYPE}=A100-100G", code=1)
        assert kept.err == f"error: node spare-1 has {TYPE}=t4 already; --overwrite replaces it\n"
        assert labels_of(place, "spare-1")[TYPE] == "t4"
        done = place.anywhere("label", "node", "spare-1", f"{TYPE}=A100-100G", "--overwrite")
        assert (done.out, done.err) == (f"node/spare-1  {TYPE}=A100-100G (was t4)\n", "")
        assert labels_of(place, "spare-1")[TYPE] == "A100-100G"


def test_label_node_labels_the_existing_nodes_of_several(place: Place) -> None:
    words = ("label", "node", "spare-1", "spare-3", "spare-2", "company.com/gpu-model=a100-40g", "--overwrite")
    with spare_nodes(place.plane, "spare-1", "spare-2"):
        value = place.anywhere(*words, "-o", "json", code=1).value
        assert value["success"] == ["spare-1", "spare-2"]
        (failed,) = value["failed"]
        assert (failed["nodeName"], failed["error"]) == ("spare-3", "NodeNotFound")
        assert failed["message"].startswith("there is no node spare-3; ")
        assert value["message"] == "2 of 3 nodes labelled; see `failed`"
        assert labels_of(place, "spare-2")["company.com/gpu-model"] == "a100-40g"


def test_path_like_names_of_nodes_are_rejected(place: Place) -> None:
    """In a URL path these names would address another resource: the node list or a parent path."""
    for name in ("..", ".", "", "a/b", "%2e%2e"):
        failed = place.anywhere("label", "node", f"node/{name}", "a=b", "--json", code=1)
        assert [item["error"] for item in failed.value["failed"]] == ["NodeNotFound"], name
    with spare_nodes(place.plane, "spare-1"):
        document = {"kind": "pool", "version": "v0.1", "pool": {"name": "spares"}, "nodes": {"spare-1": {}}}
        place.anywhere("apply", "-f", place.file(document))
        for name in ("..", ".", "%2e%2e"):
            failed = place.anywhere("add", "node", name, "--pool", "spares", "--json", code=1)
            assert [item["error"] for item in failed.value["failed"]] == ["NodeNotFound"], name


@pytest.mark.slow
def test_concurrent_label_writers_lose_nothing(place: Place) -> None:
    """All of 20 concurrent writers succeed, including the one that loses every conflict but the last."""
    with spare_nodes(place.plane, "spare-1"), session_of(None) as session:
        terms, settings = LabelTerms(), read_platform(None).settings
        with ThreadPoolExecutor(20) as threads:
            reports = threads.map(
                lambda number: label_nodes(session, ["spare-1"], {f"many/{number}": "x"}, settings, terms), range(20)
            )
            assert [report.failed for report in reports] == [[]] * 20
        assert {f"many/{number}" for number in range(20)} <= set(labels_of(place, "spare-1"))


def test_label_node_deletes_a_label(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", labels={"nvidia.com/gpu-type": "t4", "plain": "1"}):
        done = place.anywhere("label", "node", "spare-1", "nvidia.com/gpu-type", "--delete")
        assert done.out == "node/spare-1  nvidia.com/gpu-type deleted (was t4)\n"
        absent = place.anywhere("label", "node", "spare-1", "nvidia.com/gpu-type", "--delete", code=1)
        assert absent.err == "error: node spare-1 has no label nvidia.com/gpu-type\n"
        place.anywhere("label", "node", "spare-1", "plain", "--delete")
        assert {"plain", "nvidia.com/gpu-type"}.isdisjoint(labels_of(place, "spare-1"))


@pytest.mark.slow
def test_pool_label_updates_the_pool_definition(place: Place) -> None:
    with spare_nodes(place.plane, "spare-1", "spare-2", labels={TYPE: "t4"}):
        document = {"kind": "pool", "version": "v0.1", "pool": {"name": "spares"}, "nodes": {"spare-1": {}}}
        place.anywhere("apply", "-f", place.file(document))
        place.anywhere("label", "node", "spare-2", f"{POOL}=spares")
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-spares"
        definition = yaml.safe_load(place.api.call("GET", path)["data"]["pool.yaml"])
        assert definition["nodes"] == {"spare-1": {"gpu-type": ""}, "spare-2": {"gpu-type": "t4"}}
        place.anywhere("label", "node", "spare-2", POOL, "--delete")
        assert list(yaml.safe_load(place.api.call("GET", path)["data"]["pool.yaml"])["nodes"]) == ["spare-1"]
        assert place.anywhere("diff", "-f", place.file(document)).code == 0, "the definition equals the document again"


REFUSED = {
    "node-1 a/b/c=1": "`a/b/c` is not a legal label key",
    "node-1 gpu-type=a@b": "`a@b` is not a legal label value: at most 63 letters, digits, `-`, `_` and `.`",
    "node-1 -x=1": "No such option",
    "node-1": "name a label",
    "a=b": "name a node",
    "node-1 company.com/gpu": "no value for company.com/gpu:",
    "node-1 a=b --delete": "--delete takes the key alone",
}


def test_invalid_labels_are_refused_before_any_request(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    for words, said in REFUSED.items():
        assert said in place.anywhere("label", "node", *words.split(), code=2).err, words


# Rights, pipes, number of requests ---------------------------------------------------------------------------


def test_node_commands_need_the_right_to_list_nodes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("alice", "reader"):
        monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig(user)))
        for words in ("get nodes", "get gpu-types", "describe node node-1", "get labels node-1"):
            refused = place.anywhere(*words.split(), code=3)
            assert refused.out == ""
            assert refused.err.startswith(f"error: user {user} may not list nodes in the whole cluster\n")
        refused = place.anywhere("label", "node", "node-1", "a=b", code=3)
        assert "may not get nodes" in refused.err


def test_gpu_usage_is_unknown_without_the_right_to_list_pods(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.plane.grant("bob", None, [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}])
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("bob")))
    place.until(lambda: place.anywhere("get", "nodes", code=None).code == 0, "the right to be known")
    found = place.anywhere("get", "nodes", "node-1")
    assert column(found.out, "GPU TOTAL", "GPU USED", "GPU FREE") == [("8", "-", "-")]
    assert "user bob may not list pods in the whole cluster: used and free resources of nodes are unknown" in found.err
    assert place.anywhere("get", "nodes", "node-1", "--json").value["items"][0]["gpuUsed"] is None
    described = place.anywhere("describe", "node", "node-1").out
    assert "Jobs: not known: pods may not be listed\n" in described
    assert place.anywhere("get", "pools", "training-pool").err.count("may not list") == 3
    refused = place.anywhere("label", "node", "node-1", "a=b", "--json", code=3)
    assert refused.value["failed"][0]["error"] == "Forbidden"
    assert "user bob may not patch nodes" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "most"),
    [("get nodes", 3), ("get pools", 4), ("describe pool training-pool", 4), ("describe node node-1", 3)],
)
def test_number_of_requests_does_not_grow_with_nodes(
    words: str, most: int, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    upstream = Upstream(place.plane.port, place.plane.directory / "certificates" / "apiserver.crt")
    with Proxy(place.plane, upstream) as proxy:
        monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig(tmp_path / "through-proxy")))
        place.anywhere(*words.split())
        assert proxy.count() == most
    upstream.close()


def test_piped_output_is_plain_columns(place: Place) -> None:
    """Piped output is names and plain columns; every row has the same number of words."""

    def piped(*words: str) -> Any:
        command = [sys.executable, "-m", "gpuctl", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert piped("get", "nodes", "-o", "name").splitlines()[0] == "node/cpu-1"
    for words in ("nodes", "nodes -o wide", "pools", "gpu-types", "labels", "nodes --gpu-detail"):
        lines = piped("get", *words.split(), "--no-headers").splitlines()
        assert len({len(line.split()) for line in lines}) == 1, words
        assert "\x1b" not in "".join(lines)
