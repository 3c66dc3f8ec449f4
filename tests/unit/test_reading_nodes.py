"""Nodes, pools, GPU types and quotas read from API objects: counts, statuses and unknown values."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
import yaml

from gpuctl.acts.node_labels import label_key_error, label_value_error
from gpuctl.acts.pool_membership import with_nodes
from gpuctl.api.node_answers import NodeItem, NodeReport
from gpuctl.api.quota_answers import quota_answer
from gpuctl.cli.commands.describe.quota import show_quota
from gpuctl.cli.commands.label import parse
from gpuctl.cli.output.amounts import format_share, rounded_amount, rounded_bytes
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.not_found import no_such, suggestion
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.platform_document import PlatformDocument
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.nodes.gpu_type_rows import gpu_types
from gpuctl.reading.nodes.inventory import Inventory
from gpuctl.reading.nodes.label_rows import labels_with
from gpuctl.reading.nodes.node_devices import count_gpu_devices
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import NodeDetails, read_nodes, status_of
from gpuctl.reading.nodes.pool_rows import read_pools
from gpuctl.reading.nodes.registered_cards import registered_cards
from gpuctl.reading.queues.quota_rows import read_quotas, select_quotas
from gpuctl.usecases.queries.job_queries import JobGpuUsage, gpu_use
from gpuctl.usecases.queries.pool_queries import pool_states
from gpuctl.usecases.queries.quota_queries import list_namespaces, quota_holders
from gpuctl.usecases.queries.read_context import ReadContext
from support.device_nodes import claimed_devices, divisible_slices

SETTINGS = Settings()
KEYS = records(SETTINGS)
GPUS = PlatformGpus(SETTINGS)
POOL, TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"
Object = dict[str, Any]


def node(name: str = "n", labels: dict[str, str] | None = None, gpus: int = 8, **more: Any) -> Object:
    """A ready node; ``more`` may set ``capacity``, ``unschedulable``, ``ready`` or ``resource``."""
    allocatable = {"cpu": "64", "memory": "256Gi", more.get("resource", "nvidia.com/gpu"): str(gpus)}
    capacity = {**allocatable, "nvidia.com/gpu": str(more["capacity"])} if "capacity" in more else allocatable
    conditions = [{"type": "Ready", "status": more.get("ready", "True")}]
    return {
        "metadata": {"name": name, "labels": labels or {}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"unschedulable": True} if more.get("unschedulable") else {},
        "status": {"allocatable": allocatable, "capacity": capacity, "conditions": conditions},
    }


def container(gpus: int, **more: Any) -> Object:
    """A container with a GPU limit, which is also its request."""
    return {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}, **more}


def pod(name: str, place: str | None, *containers: Object, phase: str = "Running", **labels: str) -> Object:
    """A pod; with the label ``app`` it belongs to the training of that name."""
    if "app" in labels:
        labels["runwhere.ai/job-type"] = "training"
    spec = {"containers": list(containers or [container(1)]), **({"nodeName": place} if place else {})}
    return {"metadata": {"name": name, "namespace": "a", "labels": labels}, "spec": spec, "status": {"phase": phase}}


def one(obj: Object, *pods: Object) -> NodeDetails:
    """Return the details of a node with these pods."""
    return read_nodes([obj], pods, KEYS, GPUS)[0]


# Nodes ----------------------------------------------------------------------------------------------------


def test_used_gpus_are_those_that_the_scheduler_counts() -> None:
    staged = pod("staged", "n", container(2))
    staged["spec"]["initContainers"] = [container(1, restartPolicy="Always"), container(4)]
    found = one(node(), staged, pod("over", "n", phase="Succeeded"), pod("waits", None), pod("else", "m"))
    assert (found.gpu_total, found.gpu_used, found.gpu_free) == (8, 5, 3)
    assert [holder.pod for holder in found.holders or ()] == ["staged"]


def test_mig_slices_are_counted_one_by_one() -> None:
    slices = node(gpus=14, resource="nvidia.com/mig-2g.20gb")
    holder = pod("holder", "n", {"name": "c", "resources": {"limits": {"nvidia.com/mig-2g.20gb": "3"}}})
    found = one(slices, holder)
    assert (found.gpu_total, found.gpu_used, found.gpu_free) == (14, 3, 11)


def test_shares_of_registered_cards_are_counted() -> None:
    """HAMi's nodes report only the number of shares; a pod requests the memory and cores of each of its cards."""
    platform = {"kind": "platform", "gpu": {"sharing": "hami"}}
    gpus = PlatformGpus(Settings(PlatformDocument.model_validate(platform)))
    obj = node(gpus=20)
    obj["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "GPU-a,10,40960,100,A:GPU-b,10,40960,100,A:"}
    amounts = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "30"}
    shares = pod("holder", "n", {"name": "c", "resources": {"limits": amounts}})
    (found,) = read_nodes([obj], [shares], KEYS, gpus)
    rows = {row["resource"]: (row["total"], row["used"]) for row in NodeReport.of(found, gpus).as_json()["amounts"]}
    assert rows["nvidia.com/gpu"] == (20, 2)
    assert rows["nvidia.com/gpumem"] == (81920, 16384)
    assert rows["nvidia.com/gpucores"] == (200, 60)
    assert "nvidia.com/gpumem-percentage" not in rows


HAMI_CARDS = "GPU-a,10,40960,100,A,0,true:GPU-b,10,40960,100,A,0,true:"


def card_counts(
    sharing: str, resource: str, register: str, given: dict[str, list[str]], **of_node: Any
) -> tuple[int, int | None, int | None, int]:
    """Return the counts of a node with two registered cards and pods that each request a share of one card."""
    gpus = PlatformGpus(Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": sharing}})))
    obj = node(resource=resource, **of_node)
    obj["metadata"]["annotations"] = {register: HAMI_CARDS}
    pods = []
    for key, values in given.items():
        for index, value in enumerate(values):
            number = str(value.count(":") or 1)
            holder = pod(f"p{index}", "n", {"name": "c", "resources": {"limits": {resource: number}}})
            holder["metadata"]["annotations"] = {key: value}
            pods.append(holder)
    (found,) = read_nodes([obj], pods, KEYS, gpus)
    return found.gpu_total, found.gpu_used, found.gpu_free, found.broken_gpus


def test_nodes_with_shares_count_cards() -> None:
    """A card that several pods share is used once; a pod may name only cards of the node, and as many as it requests."""
    hami = ("hami", "nvidia.com/gpu", "hami.io/node-nvidia-register")
    key = "hami.io/vgpu-devices-allocated"
    assert card_counts(*hami, {}, gpus=20) == (2, 0, 2, 0)
    assert card_counts(*hami, {key: ["GPU-a,NVIDIA,3000,30:;", "GPU-a,NVIDIA,8000,30:;"]}, gpus=20) == (2, 1, 1, 0)
    assert card_counts(*hami, {key: ["GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,1,0:;"]}, gpus=20) == (2, 2, 0, 0)
    assert card_counts(*hami, {key: ["GPU-b[0-1],NVIDIA,1,0:;", "GPU-b[1-1],NVIDIA,1,0:;"]}, gpus=20) == (2, 1, 1, 0)
    # Not placed by HAMi yet, another node's card, and text.
    assert card_counts(*hami, {"other": ["", "", ""]}, gpus=20) == (2, 2, 0, 0)
    assert card_counts(*hami, {key: ["GPU-x,NVIDIA,1,0:;"]}, gpus=20) == (2, 1, 1, 0)
    assert card_counts(*hami, {key: [";;::,"]}, gpus=20) == (2, 2, 0, 0)
    # A container with two shares has two cards, whatever users write.
    assert card_counts(*hami, {key: ["GPU-a,NVIDIA,1,0:GPU-a,NVIDIA,1,0:;"]}, gpus=20) == (2, 2, 0, 0)
    # One card is unhealthy; cards that are not divided.
    assert card_counts(*hami, {}, gpus=10, capacity=20) == (1, 0, 1, 1)
    assert card_counts(*hami, {key: ["GPU-a,NVIDIA,1,0:;"]}, gpus=2) == (2, 1, 1, 0)
    volcano = ("volcano", "volcano.sh/vgpu-number", "volcano.sh/node-vgpu-register")
    given = {"volcano.sh/vgpu-ids-new": ["GPU-a,NVIDIA,3000,30:"] * 2}
    assert card_counts(*volcano, given, gpus=20) == (2, 1, 1, 0)


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("[" * 100_000, []),
        (f'[{{"id": "a", "devmem": 1{"0" * 400}}}, 1, null]', [("a", 0)]),
        ("a,10,99999999999999,100,A:", [("a", 0)]),
        ("5", []),
    ],
    ids=["nesting", "json", "text", "number"],
)
def test_invalid_annotations_of_cards_are_not_counted(text: str, cards: list[tuple[str, int]]) -> None:
    obj = node()
    obj["metadata"]["annotations"] = {"hami.io/node-nvidia-register": text}
    assert registered_cards(obj, "nvidia") == cards


def test_gpu_use_is_unknown_without_access_to_pods() -> None:
    found = read_nodes([node()], None, KEYS, GPUS)[0]
    assert (found.gpu_used, found.gpu_free, found.holders) == (None, None, None)
    value = NodeReport.of(found, GPUS).as_json()
    assert value["resources"]["cpuUsed"] is None
    assert value["runningJobs"] is None
    assert {gpu["status"] for gpu in value["gpuDetail"]} == {"unknown"}


def test_count_devices_per_node_without_partitions() -> None:
    """A ResourceSlice may name a node per device. Partitions are listed beside their GPU and are not counted."""
    own = {"driver": "gpu.nvidia.com", "pool": {"name": "p", "generation": 1}, "perDeviceNodeSelection": True}
    part = [{"counterSet": "gpu-1", "counters": {}}]
    kinds: list[Object] = [
        {"name": "gpu-0", "nodeName": "a"},
        {"name": "gpu-1", "nodeName": "b", "attributes": {"type": {"string": "gpu"}}, "consumesCounters": part},
        {"name": "gpu-2", "nodeName": "b", "attributes": {"gpu.nvidia.com/type": {"string": "GPU"}}},
        {"name": "part-1", "nodeName": "b", "attributes": {"gpu.nvidia.com/type": {"string": "mig"}}},
        {"name": "part-2", "nodeName": "b", "consumesCounters": part},
    ]
    found = count_gpu_devices([], [{"spec": {**own, "devices": kinds}}], [], frozenset({"nvidia.com/gpu"}))
    assert found.offered == {"a": {"nvidia.com/gpu": 1}, "b": {"nvidia.com/gpu": 2}}


def test_device_that_claims_share_is_counted_once() -> None:
    """A device with allowMultipleAllocations has a share for each claim. The first claim is of no pod any more."""
    spec = {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": {"name": "a"}, "devices": [{"name": "gpu-0"}]}

    def claim(*uids: str) -> Object:
        results = [{"driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0", "shareID": f"share-{uids}"}]
        users = [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]
        return {"metadata": {}, "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users}}

    claims = [claim(), claim("u"), claim("v")]
    found = count_gpu_devices([], [{"spec": spec}], claims, frozenset({"nvidia.com/gpu"}))
    assert found.offered == {"a": {"nvidia.com/gpu": 1}}
    assert found.by_pod == {"u": {"nvidia.com/gpu": 1}}


def test_extended_resource_that_is_a_part_of_a_card() -> None:
    """The scheduler may meet requests for one GPU with shares of a device, or with a partition of a card."""
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n"}}
    part = {"name": "part", "attributes": {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}}
    devices = [{"name": "gpu-0", "allowMultipleAllocations": True}, part]

    def claim(uid: str, device: str, **share: str) -> Object:
        results = [{"driver": "gpu.nvidia.com", "pool": "n", "device": device, **share}]
        users = [{"resource": "pods", "name": uid, "uid": uid}]
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
        return {"metadata": {"annotations": annotations}, "status": status}

    claims = [claim("u", "gpu-0", shareID="1"), claim("v", "gpu-0", shareID="2"), claim("w", "part")]
    resources = GPUS.vendors.keys()
    found = count_gpu_devices([], [{"spec": {**spec, "devices": devices}}], claims, frozenset(resources))
    pods = [pod(uid, "n", container(1)) for uid in "uvw"]
    for uid, one_pod in zip("uvw", pods, strict=True):
        one_pod["metadata"]["uid"] = uid
    assert found.gpus_of(pods, resources) == {}
    (row,) = read_nodes([node(gpus=0)], pods, KEYS, GPUS, found)
    assert (row.gpu_total, row.gpu_used, row.gpu_free) == (2, 2, 0)
    assert row.used is not None
    assert (row.used["nvidia.com/gpu"], row.used["nvidia.com/mig-1g.10gb"]) == (1, 1)


def test_slices_created_on_demand_count_in_place_of_their_card() -> None:
    """Cards 0 and 1 list a possible slice each; that of card 1 is allocated."""
    spec = {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": {"name": "a", "generation": 1}}

    def device(card: int, kind: str, name: str) -> Object:
        attributes = {"type": {"string": kind}, "profile": {"string": "1g.10gb"}}
        return {"name": name, "attributes": attributes, "consumesCounters": [{"counterSet": f"c{card}"}]}

    devices = [device(card, kind, f"{kind}-{card}") for card in (0, 1) for kind in ("gpu", "mig")]
    results = [{"driver": "gpu.nvidia.com", "pool": "a", "device": "mig-1"}]
    users = [{"resource": "pods", "name": "p", "uid": "u"}]
    claim = {"metadata": {}, "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users}}
    resources = frozenset({"nvidia.com/gpu", "nvidia.com/mig-1g.10gb"})
    found = count_gpu_devices([], [{"spec": {**spec, "devices": devices}}], [claim], resources)
    assert found.offered == {"a": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}}
    assert found.by_pod == {"u": {"nvidia.com/mig-1g.10gb": 1}}
    assert count_gpu_devices([], [{"spec": {**spec, "devices": devices}}], [], resources).offered == {
        "a": {"nvidia.com/gpu": 2}
    }


@pytest.mark.parametrize(
    ("held", "free"),
    [
        ((), {"1g.10gb": 14, "3g.40gb": 4, "7g.80gb": 2}),
        (("gpu-0-mig-3g40gb-4",), {"1g.10gb": 11, "3g.40gb": 3, "7g.80gb": 1}),
        (("gpu-0",), {"1g.10gb": 7, "3g.40gb": 2, "7g.80gb": 1}),
        (("gpu-0", "gpu-1-mig-7g80gb-0"), None),
    ],
    ids=["none", "half-of-a-card", "card", "both"],
)
def test_free_slices_of_cards_that_are_divided_on_demand(held: tuple[str, ...], free: dict[str, int] | None) -> None:
    specs = [{"spec": item} for item in divisible_slices("a", 2)]
    results = [{"driver": "gpu.nvidia.com", "pool": "a", "device": name} for name in held]
    claim = {"metadata": {}, "status": {"allocation": {"devices": {"results": results}}}}
    found = count_gpu_devices([], specs, [claim], frozenset({"nvidia.com/gpu"}))
    assert found.free_slices.get("a") == free


def test_faulty_gpus_are_not_free() -> None:
    found = one(node(gpus=7, capacity=8), pod("p", "n", container(7)))
    assert (found.gpu_total, found.gpu_free, found.broken_gpus) == (7, 0, 1)
    assert [gpu.status for gpu in found.gpus] == ["used"] * 7 + ["faulty"]


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        (node(), "active"),
        (node(unschedulable=True), "maintaining"),
        (node(ready="False"), "faulty"),
        (node(ready="Unknown"), "faulty"),
        (node(ready="False", unschedulable=True), "maintaining"),
        ({"metadata": {"name": "new"}, "spec": {}}, "faulty"),
    ],
)
def test_node_status(obj: Object, status: str) -> None:
    assert status_of(obj) == status


def test_amounts_are_exact_in_json() -> None:
    obj = node()
    obj["status"]["allocatable"] |= {"cpu": "63920m", "memory": "527966564Ki"}
    value = NodeItem.model_validate(one(obj)).as_json()
    assert (value["cpu"], value["memory"]) == ("63920m", "527966564Ki")
    assert NodeReport.of(one(obj), GPUS).as_json()["resources"]["cpuTotal"] == 63.92


# Types ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, None),
        ({TYPE: ""}, None),
        ({TYPE: "A100", "nvidia.com/gpu.product": "NVIDIA-A100"}, "A100"),
        ({"g8s.host/gpu-type": "a10", "nvidia.com/gpu.product": "NVIDIA-A10"}, "a10"),
        ({"runwhere.ai/gpuType": "t4", "company.com/gpu-model": "tesla"}, "t4"),
        ({"nvidia.com/gpu.product": "NVIDIA-A10"}, "NVIDIA-A10"),
        ({"node.kubernetes.io/npu.chip.name": "910B"}, "910B"),
        ({"example.com/model": "x"}, None),
    ],
)
def test_gpu_type_of_a_node(labels: dict[str, str], expected: str | None) -> None:
    assert GPUS.type_of(node(labels=labels)) == expected


def test_platform_maps_gpu_types_to_labels() -> None:
    platform = PlatformDocument.model_validate(
        {"gpu": {"types": {"A100-80G": {"nvidia.com/gpu.product": ["SXM4", "PCIE"]}}}}
    )
    gpus = PlatformGpus(Settings(platform))
    obj = node(labels={"nvidia.com/gpu.product": "PCIE"})
    assert gpus.type_of(obj) == "A100-80G"
    assert gpus.matches(obj, {}, "a100-80g")
    assert gpus.matches(obj, {}, "pcie")
    assert gpus.selects("nvidia.com/gpu.product")
    assert not GPUS.selects("nvidia.com/gpu.product")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("A100-80g", True),
        ("nvidia.com/a100-80g", True),
        ("company.com/A100-80G", True),
        ("other.com/a100-80g", False),
        ("company.com/gpu-model=a100-80g", True),
        ("company.com/gpu-model=a100", False),
        ("a100", False),
        ("", False),
    ],
)
def test_node_matches_a_gpu_type(wanted: str, found: bool) -> None:
    obj = node(labels={"company.com/gpu-model": "a100-80g"})
    assert GPUS.matches(obj, one(obj).total, wanted) is found


def test_is_key_distinguishes_label_keys_from_prefixed_types() -> None:
    assert GPUS.is_key("nvidia.com/gpu-type", [])
    assert GPUS.is_key("example.com/whatever", [node(labels={"example.com/whatever": "1"})])
    assert not GPUS.is_key("nvidia.com/a100-80g", [node()])
    assert not GPUS.is_key("a100-80g", [node()])


def test_gpu_types_sum_the_gpus_of_their_nodes() -> None:
    nodes = [node("a", {TYPE: "t4"}), node("b", {TYPE: "t4", POOL: "p"}), node("c"), node("d", gpus=0)]
    found = gpu_types(read_nodes(nodes, [pod("x", "a")], KEYS, GPUS), GPUS)
    assert [(item.name, item.total, item.used, item.free, item.nodes, item.pools) for item in found] == [
        ("t4", 16, 1, 15, ("a", "b"), ("default", "p")),
        ("unknown", 8, 0, 8, ("c",), ("default",)),
    ]


def test_labels_with_lists_the_value_on_each_node() -> None:
    found = labels_with([node("b", {"x/y": "2"}), node("a", {"x/y": ""}), node("c")], "x/y")
    assert [(label.node, label.value) for label in found] == [("a", ""), ("b", "2")]


# Pools ----------------------------------------------------------------------------------------------------


def definition(name: str, text: str) -> Object:
    """A pool's ConfigMap."""
    metadata = {"name": f"pool-{name}", "labels": {POOL: name}, "annotations": {"runwhere.ai/description": "说明"}}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"pool.yaml": text}}


def test_pools_come_from_definitions_and_labels() -> None:
    text = "nodes:\n  a: {gpu-type: t4}\n  gone: {}\nquota:\n  maxJobs: 3\n"
    nodes = [node("a", {POOL: "defined"}), node("b", {POOL: "labelled"}), node("c"), node("d", {POOL: "default"})]
    waits = pod("waits", None, container(8), app="big", **{POOL: "defined"})
    found = read_pools(Inventory(nodes, [waits], [definition("defined", text)]), SETTINGS, KEYS)
    assert [(pool.name, pool.nodes, pool.is_defined) for pool in found] == [
        ("defined", ["a"], True),
        ("labelled", ["b"], False),
        ("default", ["c", "d"], False),
    ]
    assert (found[0].missing, *found[0].quota) == (("gone",), 3, None)
    assert found[0].description == "说明"
    assert [item.name for item in found[0].waiting or ()] == ["big"]


def test_damaged_pool_definition_is_still_listed() -> None:
    broken = ("{", "nodes: 2024-13-45", "nodes: " + "[" * 3000, "nodes: !!int ''", "nodes: !!timestamp x")
    for text in (
        *broken,
        "[]",
        "nodes: 3",
        "quota: x",
        "quota: {maxJobs: many, maxGpuPerJob: 1.5}",
        "quota: {maxJobs: on}",
    ):
        (found, _) = read_pools(Inventory([], [], [definition("p", text)]), SETTINGS, KEYS)
        assert (found.name, found.missing, found.quota.max_jobs, found.status) == ("p", (), None, "empty")


def test_pool_status_and_unavailable_gpus() -> None:
    nodes = [node("a", {POOL: "p"}), node("b", {POOL: "p"}, unschedulable=True), node("c", {POOL: "q"}, ready="False")]
    p, q, default = read_pools(Inventory(nodes, [], []), SETTINGS, KEYS)
    assert (p.status, p.gpu_free, p.gpu_unavailable) == ("active", 16, 8)
    assert (q.status, q.gpu_unavailable) == ("faulty", 8)
    assert (default.status, default.gpu_total) == ("active", 0)
    unknown = read_pools(Inventory(nodes, None, None), SETTINGS, KEYS)[0]
    assert (unknown.gpu_used, unknown.gpu_free, unknown.gpu_unavailable, unknown.jobs) == (None, None, None, None)


def test_with_nodes_keeps_the_rest_of_the_definition() -> None:
    live = definition("p", "kind: pool\nnodes:\n  a: {gpu-type: t4, gpu-count: 2}\nquota: {maxJobs: 3}\n")
    fields = {"f:labels": {f"f:{POOL}": {}}, "f:annotations": {"f:runwhere.ai/description": {}}}
    entry = {"manager": "gpuctl", "operation": "Apply", "fieldsV1": {"f:metadata": fields}}
    live["metadata"] |= {"managedFields": [entry], "resourceVersion": "7"}
    live["metadata"]["annotations"]["team"] = "another client's"
    changed = with_nodes(live, {"b": "", "a": "t4"}, {"c"}, KEYS)
    assert changed is not None
    assert yaml.safe_load(changed["data"]["pool.yaml"]) == {
        "kind": "pool",
        "nodes": {"a": {"gpu-type": "t4", "gpu-count": 2}, "b": {"gpu-type": ""}},
        "quota": {"maxJobs": 3},
    }
    assert set(changed["metadata"]["annotations"]) == {"runwhere.ai/description", KEYS.hash, KEYS.lowered_by}
    assert (changed["metadata"]["labels"], changed["metadata"]["resourceVersion"]) == ({POOL: "p"}, "7")
    assert with_nodes(live, {"a": "other"}, {"c"}, KEYS) is None, "the entry of a node stays"
    for text in ("{", "nodes: 2024-13-45", "nodes: [a]"):
        with pytest.raises(ClusterError, match="damaged"):
            with_nodes(definition("p", text), {"a": ""}, set(), KEYS)


# Quotas ---------------------------------------------------------------------------------------------------


def resource_quota(hard: dict[str, str], used: dict[str, str] | None, name: str = "q", **labels: str) -> Object:
    """A ResourceQuota of gpuctl, or of another client with ``foreign``."""
    own = {} if "foreign" in labels else {"runwhere.ai/quota": name}
    metadata = {"name": f"{name}-ada", "namespace": "ada", "labels": own}
    status = {} if used is None else {"status": {"hard": hard, "used": used}}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, **status}


def test_quota_limits_are_read_from_resource_quota_keys() -> None:
    hard = {"requests.nvidia.com/gpu": "4", "requests.cpu": "10", "limits.memory": "64Gi", "count/jobs.batch": "3"}
    used = {"requests.nvidia.com/gpu": "4", "requests.cpu": "2500m", "limits.memory": "16Gi", "count/jobs.batch": "0"}
    (found,) = read_quotas([resource_quota(hard, used)], [], SETTINGS)
    assert [(limit.name, limit.vendor, limit.percent) for limit in found.limits] == [
        ("cpu", None, 25.0),
        ("gpu", "nvidia", 100.0),
        ("jobs", None, 0.0),
        ("limits.memory", None, 25.0),
    ]
    assert found.status == "full"
    assert found.amount("cpu") == (10, Fraction(5, 2))
    assert quota_answer([found]).as_json()["cpuUsed"] == 2.5


def test_two_keys_for_one_resource_are_two_limits_and_not_a_sum() -> None:
    hard = {"cpu": "4", "requests.cpu": "6", "pods": "5", "count/pods": "9"}
    used = {"cpu": "3", "requests.cpu": "3", "pods": "1", "count/pods": "8"}
    (found,) = read_quotas([resource_quota(hard, used)], [], SETTINGS)
    assert (found.amount("cpu"), found.amount("pods")) == ((4, 3), (9, 8))
    value = quota_answer([found]).as_json()
    assert (value["cpuTotal"], value["cpuUsed"], len(value["resources"]), value["scopes"]) == (4, 3, 4, [])


def test_quota_names_the_scopes_of_the_pods_that_it_limits(capsys: pytest.CaptureFixture[str]) -> None:
    terms = [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]},
        {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"},
    ]
    obj = resource_quota({"cpu": "4", "requests.cpu": "6"}, {})
    obj["spec"] |= {"scopes": ["NotTerminating"], "scopeSelector": {"matchExpressions": terms}}
    (found,) = read_quotas([obj], [], SETTINGS)
    scopes = ["NotTerminating", "PriorityClass in (high,low)", "CrossNamespacePodAffinity"]
    assert quota_answer([found]).as_json()["scopes"] == scopes
    context: Any = SimpleNamespace(age=lambda _: "")
    show_quota(context, found)
    printed = capsys.readouterr().out
    assert f"Only pods in scope:   {', '.join(scopes)}\n" in printed
    assert [line.split()[0] for line in printed.splitlines()[-2:]] == ["cpu", "requests.cpu"]


def test_quota_of_mig_slices_is_a_limit_of_its_own() -> None:
    hard = {"requests.nvidia.com/gpu": "4", "requests.nvidia.com/mig-1g.10gb": "14"}
    (found,) = read_quotas([resource_quota(hard, dict.fromkeys(hard, "2"))], [], SETTINGS)
    assert found.amount("gpu") == (4, 2)
    assert found.amount("requests.nvidia.com/mig-1g.10gb") == (14, 2)


def test_quota_shows_the_chips_in_use() -> None:
    chips = ("Ascend310", "Ascend310P", "Ascend910")
    hard = {f"requests.huawei.com/{chip}": "8" for chip in chips}

    def shown(*used: str) -> list[tuple[str, str | None]]:
        status = dict(zip(hard, used, strict=True))
        (found,) = read_quotas([resource_quota(hard, status)], [], SETTINGS)
        return [(limit.resource.rpartition("/")[2], limit.gpu_type) for limit in found.limits]

    assert shown("0", "0", "0") == [("Ascend910", None)]
    assert shown("0", "2", "0") == [("Ascend310P", None)]
    assert shown("0", "2", "8") == [("Ascend310P", "Ascend310P"), ("Ascend910", "Ascend910")]


def test_queue_shows_a_number_of_several_resources_once() -> None:
    chips = [f"huawei.com/Ascend{chip}" for chip in ("310", "310P", "910")]

    def queue(flavors: dict[str, int], *resources: str) -> Any:
        labels = {SETTINGS.label("quota"): "teams", SETTINGS.label("namespace"): "nlp"}
        limits = [
            {"name": name, "resources": [{"name": resource, "nominalQuota": number} for resource in resources]}
            for name, number in flavors.items()
        ]
        annotations = {SETTINGS.label("gpu-types"): "H100,910B"}
        metadata = {"name": "gpuctl-nlp", "labels": labels, "annotations": annotations}
        return {"metadata": metadata, "spec": {"resourceGroups": [{"flavors": limits}]}}

    (found,) = read_quotas([], [], SETTINGS, queues=[queue({"gpuctl-any": 4}, "nvidia.com/gpu", *chips)])
    assert found.amount("gpu")[0] == 8
    both = queue({"gpuctl-h100": 4, "gpuctl-910b": 2}, "nvidia.com/gpu", *chips)
    used = [{"name": "gpuctl-910b", "resources": [{"name": chips[2], "total": "1"}]}]
    (found,) = read_quotas([], [], SETTINGS, queues=[both | {"status": {"flavorsReservation": used}}])
    assert found.amount("gpu") == (6, 1)
    assert [(limit.gpu_type, limit.vendor) for limit in found.limits] == [("910B", "ascend"), ("H100", "nvidia")]


def test_quota_without_a_status_has_unknown_use() -> None:
    (found,) = read_quotas([resource_quota({"requests.cpu": "10"}, None)], [], SETTINGS)
    assert found.amount("cpu") == (10, None)
    assert (found.limits[0].percent, found.limits[0].free, found.status) == (None, None, "ok")


def test_quota_of_zero_is_not_full() -> None:
    hard = {"requests.nvidia.com/gpu": "4", "requests.huawei.com/Ascend910": "0"}
    (found,) = read_quotas([resource_quota(hard, dict.fromkeys(hard, "0"))], [], SETTINGS)
    assert found.status == "ok"
    assert found.amount("gpu") == (4, 0)


def test_foreign_quotas_are_listed_only_on_request() -> None:
    quotas = [resource_quota({"pods": "1"}, None, "theirs", foreign="1"), resource_quota({"cpu": "1"}, None)]
    assert [quota.name for quota in read_quotas(quotas, [], SETTINGS)] == ["q"]
    both = read_quotas(quotas, [], SETTINGS, foreign=True)
    assert [(quota.name, quota.is_ours) for quota in both] == [("q", True), ("theirs-ada", False)]
    assert select_quotas(both, "ada") == both
    assert [quota.name for quota in select_quotas(both, "q")] == ["q"]


# Words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (512, "512"), (1 << 30, "1Gi"), (527966564 << 10, "503.5Gi"), (3 << 39, "1.5Ti"), (5 << 60, "5120Pi")],
)
def test_format_bytes(value: int, text: str) -> None:
    assert rounded_bytes(Fraction(value)) == text


def test_format_amount_and_share() -> None:
    assert rounded_amount("cpu", Fraction(1, 2)) == "0.5"
    assert rounded_amount("requests.memory", Fraction(1 << 30)) == "1Gi"
    assert rounded_amount("gpu", None) == ""
    assert (
        format_share(Fraction(1), Fraction(3)),
        format_share(None, Fraction(3)),
        format_share(Fraction(0), Fraction(0)),
    ) == (
        "33%",
        "",
        "",
    )


def test_suggestion_for_a_missing_name() -> None:
    assert suggestion("nod-1", ["node-1", "master"]) == "did you mean `node-1`?"
    assert suggestion("node-9", ["node-1", "node-2", "x"]) == "there are node-1, node-2 and 1 more"
    assert suggestion("zzz", ["a"]) == "there is a"
    assert suggestion("zzz", []) == "there are none"
    assert suggestion("zzz", map(str, range(20))).endswith("and 12 more")
    error = no_such("pool", "trainig\x1b[31m", ["training"], "`x` makes one")
    assert "\x1b" not in error.message
    assert error.hint == "did you mean `training`? `x` makes one"


@pytest.mark.parametrize("key", ["a", "a.b/c", "nvidia.com/gpu.product", "A_b-c.d"])
def test_valid_label_keys(key: str) -> None:
    assert label_key_error(key) is None


@pytest.mark.parametrize("key", ["", "/", "a/", "/a", "a/b/c", "A.com/x", "-a", "a" * 64, "键", "a b"])
def test_invalid_label_keys(key: str) -> None:
    assert label_key_error(key) is not None


def test_label_value_errors() -> None:
    assert label_value_error("") is None
    assert label_value_error("A100-80G") is None
    assert "did you mean `A100-80G`?" in (label_value_error("A100 80G") or "")
    assert label_value_error("a" * 64) is not None


LABEL_ARGUMENTS = {
    "n1 k=v": (["n1"], {"k": "v"}),
    "k=v n1": (["n1"], {"k": "v"}),
    "n1 n2 x.com/k=v": (["n1", "n2"], {"x.com/k": "v"}),
    "node/n1 k=": (["n1"], {"k": ""}),
    "n1 x.com/k-": (["n1"], {"x.com/k": None}),
    "n1 k- j=v": (["n1"], {"k": None, "j": "v"}),
}


@pytest.mark.parametrize("words", LABEL_ARGUMENTS)
def test_nodes_and_labels_in_any_order(words: str) -> None:
    order = parse(words.split(), delete=False)
    assert (order.nodes, order.labels) == LABEL_ARGUMENTS[words]


def test_parse_label_keys_to_delete() -> None:
    assert parse(["n1", "x.com/k"], delete=True) == (["n1"], {"x.com/k": None})
    assert parse(["x.com/k", "n1", "n2"], delete=True) == (["n1", "n2"], {"x.com/k": None})
    assert parse(["n1", "n2", "plain"], delete=True) == (["n1", "n2"], {"plain": None})


@pytest.mark.parametrize(
    "words",
    [
        *("n1", "k=v", "", "n1 k=v k=w", "n1 k=v k-", "n1 k- k=v"),
        *("n1 a/b=c=d", "n1 a=b@c", "n1 x.com/k", "n1 k.com/=v", "n1 k=v -"),
    ],
)
def test_invalid_label_arguments_are_usage_errors(words: str) -> None:
    with pytest.raises(click.UsageError):
        parse(words.split(), delete=False)


class Lists:
    """A session that lists these objects, by kind."""

    def __init__(self, **objects: list[Object]) -> None:
        self.objects = objects

    def list_objects(self, resource: Any, *_: Any, **__: Any) -> tuple[list[Object], str]:
        return self.objects.get(resource.kind, []), ""

    def each(self, task: Any, items: Any) -> list[Any]:
        return list(map(task, items))


@pytest.mark.parametrize(
    ("namespace", "use"), [(None, JobGpuUsage(2, 2, 1)), ("a", JobGpuUsage(2, None, 1))], ids=["cluster", "namespace"]
)
def test_shares_of_one_card_use_one_gpu(namespace: str | None, use: JobGpuUsage) -> None:
    """The node reports ten shares for each of its two cards. A pod on a node that may not be seen counts, too."""

    settings = Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": "hami"}}))
    obj = node(gpus=20)
    obj["metadata"]["annotations"] = {"hami.io/node-nvidia-register": HAMI_CARDS}
    shares = [pod(f"p{index}", "n", app="train") for index in range(3)] + [pod("p3", None, app="train")]
    shares.append(pod("p4", "other", app="train"))
    for index, share in enumerate(shares):
        share["metadata"].update(uid=str(index), annotations={"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,1,0:;"})
    reader = ReadContext(Scope(cast(Session, Lists(Node=[obj])), namespace), settings, KEYS)
    assert gpu_use(reader, [Job(Identity("a", "train", "training"), None, shares)]) == use


def test_gpus_of_claims_count_in_namespaces_and_pools() -> None:
    """A pod on a node holds devices (DRA); one that waits requests those of its template."""
    pods = [pod(name, place, {"name": "c"}, app="train") for name, place in (("p", "n"), ("q", None))]
    for one_pod in pods:
        claim = {"name": "cards", "resourceClaimTemplateName": "cards"}
        one_pod["metadata"].update(uid=one_pod["metadata"]["name"], namespace="team")
        one_pod["spec"]["resourceClaims"] = [claim]
    objects = {"Namespace": [{"metadata": {"name": "team"}}], "Pod": pods, **claimed_devices("gpu.nvidia.com", 4)}
    reader = ReadContext(Scope(cast(Session, Lists(**objects)), None), SETTINGS, KEYS)
    assert [row.gpu_used for row in list_namespaces(reader, everything=True)] == [4]
    assert [(holder.pod, holder.gpu) for holder in quota_holders(reader, "team") or ()] == [("p", 4), ("q", 4)]
    (default,) = pool_states(reader)
    assert [(holder.pod, holder.gpu) for holder in default.waiting or ()] == [("q", 4)]
