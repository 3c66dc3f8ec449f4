"""Quota intervals from ResourceQuota and Node objects, without an API server."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from gpuctl.language.platform_document import PlatformDocument
from gpuctl.language.settings import Settings
from gpuctl_usage.facts import GpuQuota, UsageKeys
from gpuctl_usage.gathering.cluster_events import ClusterEvent
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import FactMaker, Facts
from gpuctl_usage.gathering.open_quotas import OpenQuotas

Object = dict[str, Any]
T0 = 1_717_236_000.0
GPU = "requests.nvidia.com/gpu"


def at(offset: float) -> str:
    """Return T0 + offset as an API timestamp."""
    return datetime.fromtimestamp(T0 + offset, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def quota(hard: Object, name: str = "q", *, namespace: str = "a", written: float | None = 0, **more: Any) -> Object:
    """Return a ResourceQuota whose limits were written `written` seconds after T0, and whose usage long after that."""
    fields = [{"manager": "kube-controller-manager", "subresource": "status", "time": at(5000)}]
    if written is not None:
        fields.append({"manager": "kubectl", "time": at(written)})
    metadata = {"uid": f"{namespace}/{name}", "name": name, "namespace": namespace, "managedFields": fields}
    spec = {"hard": {"requests.nvidia.com/gpu": "99"}, **more}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": {"hard": hard}}


def node(name: str, *resources: str, turns: int = 0) -> Object:
    labels = {f"{resource}.replicas": str(turns) for resource in resources if turns}
    metadata = {"uid": name, "name": name, "creationTimestamp": at(0), "labels": labels}
    return {
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"capacity": dict.fromkeys(resources, "8"), "allocatable": dict.fromkeys(resources, "8")},
    }


class QuotaEvents:
    """Open quotas fed with cluster events at given seconds after T0."""

    def __init__(
        self,
        sharing: str = "none",
        known_until: float | None = None,
        *before: GpuQuota,
        kinds: tuple[str, ...] = ("ResourceQuota",),
    ) -> None:
        weights = GpuWeights(
            Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": sharing}}))
        )
        self._maker = FactMaker(UsageKeys((), ()), weights)
        self.quotas = OpenQuotas(weights, None if known_until is None else T0 + known_until, kinds)
        self.quotas.restore(before)

    def find(self, obj: Object) -> Facts | None:
        return self._maker.of(obj)

    def facts(self, obj: Object) -> Facts:
        found = self.find(obj)
        assert found is not None
        return found

    def put(self, obj: Object, heard: float) -> None:
        self.quotas.handle(ClusterEvent("PUT", obj["kind"], T0 + heard, self.facts(obj)))

    def gone(self, obj: Object, heard: float, missed: float | None = None) -> None:
        since = None if missed is None else T0 + missed
        self.quotas.handle(ClusterEvent("GONE", obj["kind"], T0 + heard, self.facts(obj), since))

    def listed(self, heard: float, *kinds: str) -> None:
        for kind in kinds or ("Pod", "ResourceQuota", "Namespace", "Node"):
            self.quotas.handle(ClusterEvent("LISTED", kind, T0 + heard))

    def take(self) -> list[tuple[str, float, float, float | None]]:
        """Return the new or changed intervals: namespace, GPUs, start and end in seconds after T0."""
        changed = sorted(self.quotas.take(), key=lambda item: (item.namespace, item.start))
        return [
            (item.namespace, item.gpus, item.start - T0, None if item.end is None else item.end - T0)
            for item in changed
        ]


def gpu_limit(told: QuotaEvents, *quotas: Object) -> float | None:
    """Return the number of GPUs that the namespace of these quotas may hold."""
    for obj in quotas:
        told.put(obj, 10)
    told.listed(10)
    found = told.take()
    return found[0][1] if found else None


MIG = "requests.nvidia.com/mig-3g.40gb"
CASES: dict[str, tuple[list[Object], float | None]] = {
    "one": ([quota({GPU: "8", "requests.cpu": "10"})], 8),
    "none of GPUs": ([quota({"requests.cpu": "10", "pods": "4"})], None),
    "nothing at all": ([quota({GPU: "0"})], 0),
    "not counted yet": ([quota({})], None),
    "another form is no limit": ([quota({"nvidia.com/gpu": "8", "limits.nvidia.com/gpu": "4"})], None),
    "the smallest of several": ([quota({GPU: "8"}), quota({GPU: "3"}, "b"), quota({GPU: "5"}, "c")], 3),
    "the smallest of each": ([quota({GPU: "8", MIG: "7"}), quota({GPU: "3", MIG: "14"}, "b")], 6),
    "two vendors": ([quota({GPU: "8", "requests.amd.com/gpu": "2"})], 10),
    "scopes": ([quota({GPU: "8"}), quota({GPU: "1"}, "b", scopes=["NotTerminating"])], 8),
    "a selector of scopes": ([quota({GPU: "1"}, scopeSelector={"matchExpressions": [{}]})], None),
}


@pytest.mark.parametrize("case", CASES)
def test_namespace_limit_of_quotas(case: str) -> None:
    quotas, expected = CASES[case]
    assert gpu_limit(QuotaEvents(), *quotas) == expected


def queue(*groups: dict[str, Any], namespace: str = "a", written: float = 0, **more: Any) -> Object:
    """Return the ClusterQueue of a namespace's quota; each group has flavors with amounts of resources."""
    resource_groups = [
        {
            "flavors": [
                {"name": name, "resources": [{"name": key, "nominalQuota": value} for key, value in amounts.items()]}
                for name, amounts in group.items()
            ]
        }
        for group in groups
    ]
    metadata = {
        "uid": f"queue/{namespace}",
        "name": f"gpuctl-{namespace}",
        "labels": {"runwhere.ai/namespace": namespace},
        "annotations": {"runwhere.ai/gpu-types": "H100,A100"},
        "managedFields": [{"manager": "gpuctl", "time": at(written)}],
        **more,
    }
    return {"kind": "ClusterQueue", "metadata": metadata, "spec": {"resourceGroups": resource_groups}}


CARDS, AMD = "nvidia.com/gpu", "amd.com/gpu"
QUEUES: dict[str, tuple[Object, float | None]] = {
    "all nodes": (queue({"gpuctl-any": {"cpu": "8", CARDS: "4"}}), 4),
    "no limit": (queue({"gpuctl-any": {"cpu": "8", CARDS: "1M"}}), None),
    "no GPUs": (queue({"gpuctl-any": {"cpu": "8", CARDS: "0"}}), 0),
    "GPU types": (
        queue({"gpuctl-h100": {CARDS: "4"}, "gpuctl-a100": {CARDS: "8"}}, {"gpuctl-any": {"cpu": "1M"}}),
        12,
    ),
    "GPU types of two vendors": (
        queue({"gpuctl-h100": {AMD: "4", CARDS: "4"}, "gpuctl-a100": {AMD: "8", CARDS: "8"}}),
        12,
    ),
    "slices": (queue({"gpuctl-any": {CARDS: "1", "nvidia.com/mig-1g.10gb": "14"}}), 3),
    "foreign": (queue({"gpuctl-any": {CARDS: "4"}}, labels={}), None),
    "another name": (queue({"gpuctl-any": {CARDS: "4"}}, name="other"), None),
}


@pytest.mark.parametrize("case", QUEUES)
def test_namespace_limit_of_a_queue(case: str) -> None:
    obj, expected = QUEUES[case]
    told = QuotaEvents(kinds=("ResourceQuota", "ClusterQueue"))
    if told.find(obj) is not None:
        told.put(obj, 10)
    told.listed(10)
    assert told.take() == [], "ClusterQueues are not listed yet"
    told.listed(10, "ClusterQueue")
    assert told.take() == ([] if expected is None else [("a", expected, 0, None)])


def test_only_the_chips_of_nodes_count() -> None:
    """A quota of a vendor limits each of its chips to the same number."""
    told = QuotaEvents("hami")
    told.put(node("n1", "huawei.com/Ascend910B3"), 1)
    chips = {f"requests.huawei.com/Ascend{chip}": "8" for chip in ("910B3", "910B4", "310P")}
    assert gpu_limit(told, quota(chips)) == 8


def test_malformed_queues_are_rejected() -> None:
    maker = FactMaker(UsageKeys((), ()), GpuWeights(Settings()))
    for flavors in ({"gpuctl-any": {CARDS: "many"}}, {"gpuctl-any": {CARDS: None}}):
        with pytest.raises(ValueError, match=r"."):
            maker.of(queue(flavors))
    for spec in (3, {"resourceGroups": [3]}, {"resourceGroups": [{}]}):
        with pytest.raises(ValueError, match=r"."):
            maker.of({**queue(), "spec": spec})


def test_limit_with_hami_shares() -> None:
    """The limit is the smaller of the number of shares and the number of cards that their cores add up to."""
    cores = "requests.nvidia.com/gpucores"
    assert gpu_limit(QuotaEvents("hami"), quota({GPU: "8"})) == 8
    assert gpu_limit(QuotaEvents("hami"), quota({GPU: "8", cores: "250"})) == 2.5
    assert gpu_limit(QuotaEvents("hami"), quota({GPU: "2", cores: "250"})) == 2
    assert gpu_limit(QuotaEvents("hami"), quota({cores: "250"})) == 2.5
    assert gpu_limit(QuotaEvents(), quota({cores: "250"})) is None


def test_limit_with_time_sliced_cards() -> None:
    """The limit uses the smallest number of pods per card of any node. Without shared nodes, the last number is kept."""
    told = QuotaEvents()
    told.put(node("n1", "nvidia.com/gpu", turns=4), 1)
    told.put(node("n2", "nvidia.com/gpu", turns=2), 1)
    told.put(node("n3", "amd.com/gpu"), 1)
    assert gpu_limit(told, quota({GPU: "8", "requests.nvidia.com/gpu.shared": "8"})) == 8 / 2 + 8
    told.put(node("n4", "nvidia.com/gpu"), 20)
    assert told.take() == [("a", 12, 0, 20), ("a", 16, 20, None)]
    for name in ("n4", "n2", "n1"):
        told.gone(node(name), 30)
    assert told.take()[-1] == ("a", 10, 30, None)


def test_intervals_of_a_changing_quota() -> None:
    """An interval starts when the limits were written, not when the usage changed. A deletion is dated when received."""
    told = QuotaEvents()
    told.put(quota({GPU: "8"}, written=-500), 1)
    told.put(quota({GPU: "1"}, namespace="b", written=-90), 1)
    assert told.take() == []
    told.listed(1)
    assert told.take() == [("a", 8, -500, None), ("b", 1, -90, None)]
    told.put(quota({GPU: "8"}, written=-500), 50)
    told.put(quota({"pods": "1"}, "other", written=55), 55)
    assert told.take() == []
    told.put(quota({GPU: "4"}, written=60), 61.5)
    assert told.take() == [("a", 8, -500, 60), ("a", 4, 60, None)]
    told.put(quota({GPU: "2"}, "small", written=70), 71.5)
    told.gone(quota({GPU: "2"}, "small"), 80.5)
    assert told.take() == [("a", 4, 60, 70), ("a", 2, 70, 80.5), ("a", 4, 80.5, None)]
    # The writer's clock is ahead, or the write has no time.
    told.put(quota({GPU: "5"}, written=900), 90)
    told.put(quota({GPU: "6"}, written=None), 95)
    assert told.take() == [("a", 4, 80.5, 90), ("a", 5, 90, 95), ("a", 6, 95, None)]
    # Created again in the second of the deletion.
    told.gone(quota({GPU: "6"}), 99.75)
    told.put(quota({GPU: "7"}, "again", written=99), 99.9)
    assert told.take() == [("a", 6, 95, 99.75), ("a", 7, 99.75, None)]
    told.put(quota({}, "again", written=100), 100)
    told.gone(quota({GPU: "1"}, namespace="b"), 200, missed=150)
    assert told.take() == [("a", 7, 99.75, 100), ("b", 1, -90, 150)]


def test_changes_during_an_outage_are_dated() -> None:
    names = ("same", "lowered", "long-ago", "gone", "less", "undated")
    told = QuotaEvents("none", 100, *(GpuQuota(name, 8, T0 - 1000, None) for name in names))
    for name, gpus, written in (("same", 8, 150), ("lowered", 4, 150), ("long-ago", 4, 50), ("new", 3, 160),
                                ("old", 3, -50), ("less", 9, 20), ("undated", 4, None), ("new-undated", 4, None)):  # fmt: skip
        told.put(quota({GPU: str(gpus)}, namespace=name, written=written), 200)
    told.listed(200, "ResourceQuota")
    assert told.take() == [], "nodes are not known yet"
    told.listed(200, "Node")
    found: dict[str, list[tuple[float, float, float | None]]] = {}
    for name, *rest in told.take():
        found.setdefault(name, []).append((rest[0], rest[1], rest[2]))
    assert found == {
        "lowered": [(8, -1000, 150), (4, 150, None)],
        # The old value was seen at 100, so the new one cannot be older.
        "long-ago": [(8, -1000, 100), (4, 100, None)],
        "gone": [(8, -1000, 100)],
        # A smaller quota of the namespace was deleted.
        "less": [(8, -1000, 100), (9, 100, None)],
        "undated": [(8, -1000, 100), (4, 100, None)],
        "new": [(3, 160, None)],
        "old": [(3, 100, None)],
        "new-undated": [(4, 200, None)],
    }


def test_unlisted_quotas_keep_their_intervals() -> None:
    """Restored quotas stay unchanged until quotas can be listed."""
    told = QuotaEvents("none", 100, GpuQuota("a", 8, T0, None))
    told.listed(200, "Node", "Pod", "Namespace")
    told.put(node("n1", "nvidia.com/gpu", turns=4), 210)
    assert told.take() == []
    told.listed(300, "ResourceQuota")
    assert told.take() == [("a", 8, 0, 100)]


def test_malformed_quotas_are_rejected() -> None:
    maker = FactMaker(UsageKeys((), ()), GpuWeights(Settings()))
    for hard in ({GPU: "many"}, {GPU: None}, {GPU: "1e999"}, [GPU], "8"):
        with pytest.raises(ValueError, match=r"."):
            maker.of(quota(hard))  # type: ignore[arg-type]
    for spoiled in ({"kind": "ResourceQuota"}, quota({}) | {"metadata": {}}, quota({}) | {"status": 3}):
        with pytest.raises(ValueError, match=r"."):
            maker.of(spoiled)
    assert gpu_limit(QuotaEvents(), quota({GPU: "-3"})) == 0
    assert gpu_limit(QuotaEvents(), {key: value for key, value in quota({}).items() if key != "status"}) is None
