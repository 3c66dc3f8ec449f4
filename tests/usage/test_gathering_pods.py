"""Holdings from pod objects as the API returns them, without a server."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from gpuctl.language.settings import Settings
from gpuctl_usage.facts import CapacityState, EndReason, Holding, UsageKeys, WorkloadKey
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import LONGEST, FactMaker, NamespaceFacts, NodeFacts, OwnerReference, PodFacts
from gpuctl_usage.gathering.open_intervals import OpenIntervals
from gpuctl_usage.gathering.tracked_objects import Belonging
from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import discrepancies

Object = dict[str, Any]
WEIGHTS = GpuWeights(Settings())
MAKER = FactMaker(UsageKeys(("team", "app"), ("cost-center",)), WEIGHTS)
T0 = 1_717_236_000.0


def at(offset: float) -> str:
    """Return a timestamp as the API has it."""
    from datetime import datetime, timezone

    return datetime.fromtimestamp(T0 + offset, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(gpus: int = 1, name: str = "main", resource: str = "nvidia.com/gpu", **more: Any) -> Object:
    return {"name": name, "image": "x", "resources": {"limits": {resource: str(gpus)}}, **more}


def pod(*containers: Object, phase: str = "Running", node: str = "n1", written: float = 0, **status: Any) -> Object:
    """A pod that was created at T0 and bound 2 seconds later."""
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}] if node else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "uid": "u1",
            "name": "p",
            "namespace": "a",
            "resourceVersion": "1",
            "creationTimestamp": at(0),
            "managedFields": [{"manager": "kubelet", "time": at(written)}],
        },
        "spec": {"containers": list(containers) or [container()], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "conditions": conditions, **status},
    }


def runs(since: float, name: str = "main", **more: Any) -> Object:
    return {"name": name, "state": {"running": {"startedAt": at(since)}}, **more}


def ended(since: float, until: float, name: str = "main") -> Object:
    return {"name": name, "state": {"terminated": {"startedAt": at(since), "finishedAt": at(until), "exitCode": 0}}}


def node(name: str = "n1", gpus: float = 8, *, labels: Object | None = None, **more: Any) -> NodeFacts:
    amount = {"nvidia.com/gpu": str(gpus)}
    found = MAKER.of(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"uid": name, "name": name, "creationTimestamp": at(-1000), "labels": labels or {}},
            "spec": more.get("spec", {}),
            "status": {
                "capacity": more.get("capacity", amount),
                "allocatable": more.get("allocatable", amount),
                "conditions": [{"type": "Ready", "status": more.get("ready", "True"), "lastTransitionTime": at(-900)}],
            },
        }
    )
    assert isinstance(found, NodeFacts)
    return found._replace(written=more.get("written"))


def facts(obj: Object) -> PodFacts:
    found = MAKER.of(obj)
    assert isinstance(found, PodFacts)
    return found


def bare(obj: PodFacts) -> Belonging:
    return Belonging(WorkloadKey(obj.namespace, "Pod", obj.name, obj.uid))


def intervals_of_one_node(known_until: float | None = None) -> OpenIntervals:
    """Return the intervals of a cluster with one node, after its lists were read."""
    found = OpenIntervals(WEIGHTS, known_until)
    found.put_node(node(), T0)
    found.all_listed(T0)
    found.take()
    return found


def changed_holdings(intervals: OpenIntervals, obj: Object, heard: float) -> list[Holding]:
    """Return the holdings that change if a pod is received `heard` seconds after T0."""
    own = facts(obj)
    intervals.put_pod(own, bare(own), T0 + heard)
    return intervals.take().holdings


LONG_AGO = {"name": "main", "lastState": {"terminated": {"startedAt": at(3), "finishedAt": at(50)}}}

CASES: dict[str, tuple[Object, tuple[float, float, float | None, float | None, EndReason | None] | None]] = {
    # name -> pod, (GPUs, start, started, end, ending), received at 100
    "it waits for a node": (pod(phase="Pending", node=""), None),
    "its image is pulled": (pod(phase="Pending"), (1, 2, None, None, None)),
    "it runs": (pod(containerStatuses=[runs(5)]), (1, 2, 5, None, None)),
    "two containers": (
        pod(container(2), container(1, "b"), containerStatuses=[runs(7), runs(5, "b")]),
        (3, 2, 5, None, None),
    ),
    "it restarted": (
        pod(containerStatuses=[{**LONG_AGO, "state": {"running": {"startedAt": at(60)}}}]),
        (1, 2, 3, None, None),
    ),
    "it waits to restart": (
        pod(containerStatuses=[{**LONG_AGO, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]),
        (1, 2, 3, None, None),
    ),
    "it has finished": (
        pod(phase="Succeeded", containerStatuses=[ended(5, 92)]),
        (1, 2, 5, 92, EndReason.FINISHED),
    ),
    "the last of two": (
        pod(container(), container(1, "b"), phase="Failed", containerStatuses=[ended(5, 92), ended(5, 60, "b")]),
        (2, 2, 5, 92, EndReason.FINISHED),
    ),
    "its node's clock is ahead": (
        pod(phase="Succeeded", containerStatuses=[ended(5, 500)]),
        (1, 2, 5, 100, EndReason.FINISHED),
    ),
    "its node's clock is behind": (
        pod(phase="Succeeded", containerStatuses=[ended(-50, -20)]),
        (1, 2, -50, 2, EndReason.FINISHED),
    ),
    "one ends, one runs": (
        pod(container(), container(1, "b"), containerStatuses=[ended(5, 60), runs(5, "b")]),
        (2, 2, 5, None, None),
    ),
    "evicted before it began": (pod(phase="Failed", reason="Evicted", written=70), (1, 2, None, 70, EndReason.DELETED)),
    "its node was lost": (
        pod(phase="Failed", containerStatuses=[runs(5)], written=80),
        (1, 2, 5, 80, EndReason.DELETED),
    ),
    "init containers take the most": (
        {
            **pod(containerStatuses=[runs(5)]),
            "spec": {
                "nodeName": "n1",
                "initContainers": [
                    container(1, "side", restartPolicy="Always"),
                    container(4, "init"),
                ],
                "containers": [container(2)],
            },
        },
        (5, 2, 5, None, None),
    ),
    "no condition has the time of binding": (
        pod(phase="Running", conditions=[], containerStatuses=[runs(5)]),
        (1, 0, 5, None, None),
    ),
    "another vendor": (pod(container(2, resource="amd.com/gpu")), (2, 2, None, None, None)),
    "instances of a divided card": (
        pod(container(2, resource="nvidia.com/mig-3g.40gb")),
        (6 / 7, 2, None, None, None),
    ),
    "other extended resource": (
        pod(container(3, resource="example.com/fpga"), container(1, "b")),
        (1, 2, None, None, None),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_holding_of_a_pod(name: str) -> None:
    obj, expected = CASES[name]
    found = changed_holdings(intervals_of_one_node(), obj, 100)
    if expected is None:
        assert found == []
        return
    gpus, start, started, end, ending = expected
    [held] = found
    assert held.gpus == pytest.approx(gpus)
    assert (held.start, held.started, held.end, held.ending) == (
        T0 + start,
        None if started is None else T0 + started,
        None if end is None else T0 + end,
        ending,
    )
    # If it is received again, nothing is recorded twice.
    assert changed_holdings(intervals_of_one_node(), obj, 100) == found


def test_pod_without_gpus_is_ignored() -> None:
    assert MAKER.of(pod(container(1, resource="cpu"))) is None


def test_finished_pod_ends_once() -> None:
    intervals = intervals_of_one_node()
    changed_holdings(intervals, pod(containerStatuses=[runs(5)]), 10)
    over = pod(phase="Succeeded", containerStatuses=[ended(5, 92)])
    [held] = changed_holdings(intervals, over, 100)
    assert (held.end, held.ending) == (T0 + 92, EndReason.FINISHED)
    over["metadata"]["labels"] = {"team": "late"}
    assert changed_holdings(intervals, over, 200) == []
    intervals.drop_pod("u1", T0 + 300)
    assert intervals.take().holdings == []


def test_end_before_a_restart_is_not_recorded_again() -> None:
    """The end was recorded by the collector that ran before; a later end was not."""
    over = pod(phase="Succeeded", containerStatuses=[ended(5, 92)], written=92)
    for known_until, expected in ((T0 + 92, 0), (T0 + 91, 1), (None, 1)):
        intervals = OpenIntervals(WEIGHTS, known_until)
        intervals.put_node(node(), T0 + 200)
        assert len(changed_holdings(intervals, over, 200)) == expected, known_until


@pytest.mark.parametrize(
    "obj",
    [
        # Evicted without the states of its containers, and written again, for example by a change of a label.
        pod(phase="Failed", written=300),
        # By the clock of its node it ended after the earlier collector.
        pod(phase="Succeeded", containerStatuses=[ended(5, 130)], written=131),
        pod(containerStatuses=[runs(5)]),
    ],
)
def test_recorded_holdings_are_not_changed_after_a_restart(obj: Object) -> None:
    """A pod that still runs was on a missing node: it holds GPUs again since the node has them."""
    facts = MAKER.of(obj)
    assert isinstance(facts, PodFacts)
    again = OpenIntervals(WEIGHTS, known_until=T0 + 120)
    again.restore([], [])
    again.restore_ended({"u1": T0 + 100.0})
    again.put_node(node(written=T0 + 300), T0 + 400)
    again.put_pod(facts, Belonging(WorkloadKey("a", "Pod", "p", "u1")), T0 + 400)
    again.all_listed(T0 + 401)
    assert [item.start for item in again.take().holdings] == ([] if facts.over else [T0 + 300])


def test_pod_deleted_in_an_outage_ends_when_last_seen() -> None:
    intervals = OpenIntervals(WEIGHTS, T0 + 50)
    held = Holding("u1", "a", "p", WorkloadKey("a", "Pod", "p", "u1"), "n1", 1, "unknown", {}, {}, T0, T0, None)
    intervals.restore([held, held._replace(pod_uid="late", pod="late", start=T0 + 60)], [])
    intervals.put_node(node(), T0 + 200)
    intervals.all_listed(T0 + 200)
    found = {item.pod: item for item in intervals.take().holdings}
    assert (found["p"].end, found["p"].ending) == (T0 + 50, EndReason.LAST_SEEN)
    # Never before its own start.
    assert (found["late"].end, found["late"].ending) == (T0 + 60, EndReason.LAST_SEEN)


def test_pod_and_node_deleted_in_an_outage_are_both_removed() -> None:
    """The node's deletion is received before all is listed, and ends the holding; nothing else is heard of the pod."""
    intervals = OpenIntervals(WEIGHTS, T0 + 50)
    held = Holding("u1", "a", "p", WorkloadKey("a", "Pod", "p", "u1"), "n1", 1, "unknown", {}, {}, T0, T0, None)
    intervals.restore([held], [])
    intervals.put_node(node(), T0 + 200)
    intervals.drop_node("n1", T0 + 210)
    intervals.all_listed(T0 + 220)
    [found] = intervals.take().holdings
    assert (found.end, found.ending) == (T0 + 210, EndReason.DELETED)
    # A node of this name that comes later has none of its pods.
    intervals.put_node(node(), T0 + 300)
    assert intervals.open_pods() == []
    assert intervals.take().holdings == []


def test_node_has_one_open_capacity_after_an_older_change() -> None:
    """The device plugin fails while 6 of 8 GPUs are held; then the deletion of a pod is received late, by a relist."""
    intervals = OpenIntervals(WEIGHTS)
    intervals.put_node(node(), T0)
    for number in range(6):
        obj = pod()
        obj["metadata"] |= {"uid": f"u{number}", "name": f"p{number}"}
        own = facts(obj)
        intervals.put_pod(own, bare(own), T0 + 10)
    intervals.all_listed(T0 + 20)
    rows = {(one.node, one.start): one for one in intervals.take().capacities}
    intervals.put_node(node(allocatable={"nvidia.com/gpu": "0"}), T0 + 600)
    intervals.drop_pod("u0", T0 + 550, EndReason.LAST_SEEN)
    rows |= {(one.node, one.start): one for one in intervals.take().capacities}
    assert [one.gpus for one in rows.values() if one.end is None] == [5]
    for number in range(1, 6):
        intervals.drop_pod(f"u{number}", T0 + 700)
    intervals.drop_node("n1", T0 + 800)
    rows |= {(one.node, one.start): one for one in intervals.take().capacities}
    assert [one for one in rows.values() if one.end is None] == []


def test_labels_of_workload_then_pod_then_namespace() -> None:
    intervals = intervals_of_one_node()
    intervals.put_namespace(
        NamespaceFacts("ns", "a", (("app", "of-ns"), ("team", "of-ns")), (("cost-center", "of-ns"),), None), T0
    )
    obj = pod()
    obj["metadata"]["labels"] = {"team": "of-pod", "other": "x", "app": ""}
    own = facts(obj)
    intervals.put_pod(own, bare(own), T0 + 10)
    [held] = intervals.take().holdings
    assert held.labels == {"team": "of-pod", "app": "of-ns"}
    assert held.annotations == {"cost-center": "of-ns"}
    workload = Belonging(WorkloadKey("a", "Job", "j", "ju"), (("team", "of-job"),), (), T0 + 20)
    intervals.put_belonging("u1", workload, T0 + 30)
    one, two = sorted(intervals.take().holdings, key=lambda item: item.start)
    assert (one.end, one.ending, two.start) == (T0 + 20, EndReason.CHANGED, T0 + 20)
    assert (two.labels["team"], two.workload.kind) == ("of-job", "Job")


def test_removed_label_is_dated_when_received() -> None:
    """Managed fields have the times of writes, not of removals: the time at which it was received counts."""
    intervals = intervals_of_one_node()
    obj = pod(written=2)
    obj["metadata"]["labels"] = {"team": "a"}
    changed_holdings(intervals, obj, 10)
    [one, two] = sorted(changed_holdings(intervals, pod(written=2), 60), key=lambda item: item.start)
    assert (one.end, two.start, two.labels) == (T0 + 60, T0 + 60, {})


@pytest.mark.parametrize(("ran", "started", "since"), [(5, T0 + 5, T0 + 5), (1, T0 + 1, T0 + 2), (30, None, T0 + 30)])
def test_start_and_label_change_received_at_once(ran: int, started: float | None, since: float) -> None:
    """Both are received at once."""
    intervals = intervals_of_one_node()
    [waits] = changed_holdings(intervals, pod(phase="Pending"), 4)
    changed = pod(containerStatuses=[runs(ran)], written=30)
    changed["metadata"]["labels"] = {"team": "a"}
    own = facts(changed)
    intervals.put_pod(own, bare(own), T0 + 60)
    changes = intervals.take()
    one, two = sorted(changes.holdings, key=lambda item: item.start)
    assert one == waits._replace(started=started, end=T0 + 30, ending=EndReason.CHANGED)
    assert (two.start, two.started, changes.since) == (T0 + 30, T0 + ran, since)


def test_uncertain_owner_does_not_replace_a_known_one() -> None:
    intervals = intervals_of_one_node()
    own = facts(pod())
    job = Belonging(WorkloadKey("a", "Job", "j", "ju"), (("team", "a"),))
    intervals.put_pod(own, job, T0 + 10)
    intervals.take()
    intervals.put_pod(own, Belonging(WorkloadKey("a", "Job", "other", "x"), certain=False), T0 + 20)
    assert intervals.take().holdings == []


def test_long_values_are_cut() -> None:
    obj = pod()
    obj["metadata"]["annotations"] = {"cost-center": "x" * 100_000}
    obj["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "K" * 9999, "name": "n" * 9999, "uid": "u" * 9999, "controller": True}
    ]
    found = facts(obj)
    assert found.annotations == (("cost-center", "x" * LONGEST),)
    assert found.owner == OwnerReference("v1", "K" * LONGEST, "n" * LONGEST, "u" * LONGEST)


@pytest.mark.parametrize(
    "broken",
    [
        {"spec": None},
        {"spec": {"containers": "x"}},
        {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "lots"}}}]}},
        {"spec": {"containers": [container()]}, "status": {"phase": "Running", "containerStatuses": [None]}},
        {"metadata": {"uid": "u", "name": "p", "namespace": "a", "labels": ["x"]}},
    ],
)
def test_malformed_pods_are_rejected(broken: Object) -> None:
    with pytest.raises(ValueError, match=r"Error: |is not a quantity"):
        MAKER.of({**pod(), **broken})


def test_time_sliced_pod_holds_a_share_of_a_card() -> None:
    """Time slicing: the node's labels say how many pods share a card."""
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "T4"}
    found = node(gpus=8, labels=labels)
    assert (found.allocatable, found.model) == (2, "T4")
    intervals = OpenIntervals(WEIGHTS)
    intervals.put_node(found, T0)
    assert [item.gpus for item in changed_holdings(intervals, pod(), 10)] == [0.25]
    assert node(gpus=8, labels={"nvidia.com/gpu.replicas": "lots"}).allocatable == 8


@pytest.mark.parametrize(
    ("sharing", "asked", "expected"),
    [
        ("hami", {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 25}, 0.25),
        ("hami", {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 50}, 1.0),
        ("hami", {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 25, "nvidia.com/gpumem-percentage": 50}, 0.25),
        ("hami", {"nvidia.com/gpu": 1}, 1.0),
        ("hami", {"nvidia.com/gpucores": 25}, 0.0),
        ("volcano", {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory-percentage": 10}, 0.2),
        ("none", {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 25}, 1.0),
    ],
)
def test_share_of_cores_or_of_memory_percentage(sharing: str, asked: dict[str, int], expected: float) -> None:
    from gpuctl.capacity.snapshot.pod_requests import amounts
    from gpuctl.language.platform_document import PlatformDocument

    weights = GpuWeights(Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": sharing}})))
    assert weights.held_gpus(weights.gpu_requests(amounts(asked)), {}) == pytest.approx(expected)


HAMI = "GPU-a,10,40960,100,NVIDIA-A100,0,true:GPU-b,10,40960,100,NVIDIA-A100,0,true:"
HAMI_JSON = '[{"id":"GPU-a","count":10,"devmem":40960,"devcore":100,"type":"A100","health":true}]'


@pytest.mark.parametrize(
    ("sharing", "vendor", "asked", "node_says", "expected"),
    [
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, {"nvidia.com/gpu.memory": "81920"}, 0.1),
        ("hami", "", {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8192}, {"nvidia.com/gpu.memory": "81920"}, 0.2),
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, {}, None),
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 90000}, {"nvidia.com/gpu.memory": "81920"}, None),
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, {"nvidia.com/gpu.memory": "lots"}, None),
        # HAMi divides the memory that it has registered, which may be more than the card has.
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, {"hami.io/node-nvidia-register": HAMI}, 0.2),
        (
            "hami",
            "",
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192},
            {"hami.io/node-nvidia-register": HAMI_JSON},
            0.2,
        ),
        (
            *("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}),
            *({"hami.io/node-nvidia-register": HAMI.replace("40960", "81920", 1)}, None),
        ),
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 25}, {}, 0.25),
        ("hami", "", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192, "nvidia.com/gpumem-percentage": 30}, {}, 0.3),
        (
            "volcano",
            "",
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 20480},
            {"nvidia.com/gpu.memory": "81920"},
            0.25,
        ),
        (
            "volcano",
            "",
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 20480},
            {"volcano.sh/node-vgpu-register": HAMI},
            0.5,
        ),
        ("volcano", "", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 20480}, {}, None),
        (
            "hami",
            "hygon.com/dcunum",
            {"hygon.com/dcunum": 1, "hygon.com/dcumem": 4096},
            {"hami.io/node-dcu-register": HAMI},
            0.1,
        ),
        (
            "hami",
            "hygon.com/dcunum",
            {"hygon.com/dcunum": 1, "hygon.com/dcumem": 4096},
            {"nvidia.com/gpu.memory": "81920"},
            None,
        ),
        (
            "hami",
            "huawei.com/Ascend910B3",
            {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 4096},
            {},
            0.0625,
        ),
        (
            *("hami", "huawei.com/Ascend910B3", {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 4096}),
            *({"hami.io/node-register-Ascend910B3": HAMI}, 0.1),
        ),
        ("hami", "", {"enflame.com/gcu-memory": 4096, "enflame.com/gcu-core": 40}, {}, 0.4),
        ("hami", "", {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 32, "mthreads.com/sgpu-core": 4}, {}, 0.25),
        ("hami", "", {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}, {}, 0.25),
        ("hami", "", {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 16}, {}, None),
        (
            *("hami", "", {"iluvatar.ai/BI-V150-vgpu": 1, "iluvatar.ai/BI-V150.vMem": 16}),
            *({"hami.io/node-BI-V150-register": HAMI}, 0.1),
        ),
        (
            "hami",
            "metax-tech.com/sgpu",
            {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4},
            {"hami.io/node-metax-register": HAMI},
            0.1,
        ),
    ],
)
def test_share_of_memory_in_mebibytes(
    sharing: str, vendor: str, asked: dict[str, int], node_says: dict[str, str], expected: float | None
) -> None:
    """HAMi, Volcano and other vendors, by label or annotation; without one it is unknown, and never a whole card."""
    weights = sharing_weights(sharing, vendor)
    obj: Object = {"metadata": {"name": "n", "labels": node_says, "annotations": node_says}, "status": {}}
    found = weights.held_gpus(
        weights.gpu_requests({name: Fraction(amount) for name, amount in asked.items()}), weights.units_per_card(obj)
    )
    assert found == (None if expected is None else pytest.approx(expected))


def sharing_weights(sharing: str, vendor: str = "") -> GpuWeights:
    from gpuctl.language.platform_document import PlatformDocument

    vendors = {"vendors": {"other": {"resource": vendor}}} if vendor else {}
    return GpuWeights(
        Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": sharing, **vendors}}))
    )


class HamiNode:
    """A node with one card that HAMi divides, and its intervals."""

    def __init__(self, memory: str = "") -> None:
        weights = sharing_weights("hami")
        self.maker = FactMaker(UsageKeys((), ()), weights)
        self.intervals = OpenIntervals(weights)
        self.put_node(memory, 0)
        self.intervals.all_listed(T0)

    def put_node(self, memory: str, moment: float) -> None:
        labels = {"nvidia.com/gpu.count": "1", **({"nvidia.com/gpu.memory": memory} if memory else {})}
        amount = {"nvidia.com/gpu": "10"}
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": at(-900)}]
        metadata = {"uid": "n1", "name": "n1", "creationTimestamp": at(-1000), "labels": labels}
        status = {"allocatable": amount, "capacity": amount, "conditions": ready}
        facts = self.maker.of({"kind": "Node", "metadata": metadata, "spec": {}, "status": status})
        assert isinstance(facts, NodeFacts)
        self.intervals.put_node(facts, T0 + moment)

    def put_pod(self, number: int, mebibytes: int, moment: float, phase: str = "Running") -> None:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mebibytes)}
        made = pod({"name": "main", "image": "x", "resources": {"limits": limits}}, phase=phase)
        made["metadata"] |= {"uid": f"u{number}", "name": f"p{number}"}
        made["status"]["conditions"][0]["lastTransitionTime"] = at(moment)
        facts = self.maker.of(made)
        assert isinstance(facts, PodFacts)
        self.intervals.put_pod(facts, Belonging(WorkloadKey("a", "Pod", facts.name, facts.uid)), T0 + moment)

    def ledger(self, seconds: float) -> tuple[float, float, float]:
        """Return the held, free and unsized GPU-seconds of the first `seconds` seconds; the ledger must balance."""
        changes = self.intervals.take()
        rolled = roll_up(int(T0), seconds, changes.holdings, changes.capacities, [], 15)
        assert discrepancies(rolled) == []
        sums = rolled.sums[CLUSTER]
        assert sums.cap_gpu_s == seconds
        return sums.alloc_gpu_s, sums.free_gpu_s, sums.unsized_gpu_s


def test_ten_shares_are_one_card() -> None:
    node = HamiNode("81920")
    for number in range(10):
        node.put_pod(number, 8192, 10)
    assert node.ledger(100) == pytest.approx((90, 10, 0))


def test_share_of_unknown_size_is_neither_held_nor_free() -> None:
    """Until the node reports the memory of its cards, or the pod ends."""
    node = HamiNode()
    node.put_pod(1, 8192, 10)
    assert [facts.name for facts in node.intervals.unsized_pods()] == ["p1"]
    assert [item.state for item in node.intervals.open_capacities()] == [CapacityState.UNSIZED]
    node.intervals.drop_pod("u1", T0 + 40)
    assert node.ledger(100) == pytest.approx((0, 70, 30))
    ended, labelled = HamiNode(), HamiNode()
    for one in (ended, labelled):
        one.put_pod(1, 8192, 10)
    ended.put_pod(1, 8192, 40, phase="Succeeded")
    assert ended.ledger(100) == pytest.approx((0, 70, 30))
    labelled.put_node("81920", 40)
    held, free, unsized = labelled.ledger(100)
    assert (held, free, unsized) == pytest.approx((9, 10 + 54, 27)), "its earlier holding gets a size, too"


def test_share_beyond_the_card_has_an_unknown_size() -> None:
    node = HamiNode("81920")
    node.put_pod(1, 49152, 10)
    node.put_pod(2, 49152, 20)
    assert [facts.name for facts in node.intervals.unsized_pods()] == ["p2"]
    node.intervals.drop_pod("u1", T0 + 60)
    assert node.intervals.unsized_pods() == []
    held, _, unsized = node.ledger(100)
    assert held == pytest.approx(0.6 * 50 + 0.6 * 40)
    assert unsized == pytest.approx(0.4 * 40)


def test_unsized_node_is_not_free_after_a_restart() -> None:
    node = HamiNode()
    node.put_pod(1, 8192, 10)
    [capacity] = node.intervals.open_capacities()
    again = HamiNode.__new__(HamiNode)
    again.maker, again.intervals = node.maker, OpenIntervals(sharing_weights("hami"), T0 + 50)
    again.intervals.restore([], [capacity])
    again.put_node("", 90)
    again.put_pod(1, 8192, 10)
    again.intervals.all_listed(T0 + 91)
    assert again.intervals.open_capacities() == [capacity]
    assert again.intervals.take().capacities == []


@pytest.mark.parametrize(
    ("model", "profile", "number", "replicas", "expected"),
    [
        ("NVIDIA-A100-SXM4-80GB", "1g.10gb", 7, 1, 1 / 7),
        ("NVIDIA-A30", "1g.6gb", 4, 1, 1 / 4),
        ("", "4g.24gb", 1, 1, 1),
        ("NVIDIA-A30", "1g.6gb.me", 1, 1, 1 / 4),
        ("NVIDIA-H20", "1g.24gb", 4, 1, 1 / 7),
        ("NVIDIA-RTX-PRO-6000-Blackwell", "1g.24gb", 4, 1, 1 / 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell", "1g.24gb", 8, 2, 1 / 8),
    ],
)
def test_slices_are_parts_of_their_card(model: str, profile: str, number: int, replicas: int, expected: float) -> None:
    resource = f"nvidia.com/mig-{profile}"
    labels = {"nvidia.com/gpu.product": model, f"{resource}.replicas": str(replicas)}
    amounts = {resource: str(number)}
    obj: Object = {
        "metadata": {"name": "n", "labels": labels},
        "status": dict.fromkeys(("capacity", "allocatable"), amounts),
    }
    assert WEIGHTS.held_gpus(((resource, 1.0),), WEIGHTS.units_per_card(obj)) == pytest.approx(expected)
    assert WEIGHTS.node_gpus(obj, "allocatable") == pytest.approx(number * expected)
    assert WEIGHTS.max_gpus({resource: 2.0}, WEIGHTS.resource_turns(obj)) == pytest.approx(2 * expected)


@pytest.mark.parametrize(
    ("product", "number", "replicas", "expected"),
    [
        ("A100-SXM4-40GB-MIG-1g.5gb", 56, 1, 1 / 7),
        ("A100-SXM4-40GB-MIG-3g.20gb", 16, 1, 3 / 7),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me", 8, 1, 1 / 7),
        ("NVIDIA-A30-MIG-2g.12gb", 4, 1, 1 / 2),
        ("A100-SXM4-40GB-MIG-1g.5gb-SHARED", 112, 2, 1 / 14),
        ("A100-SXM4-40GB", 8, 1, 1),
    ],
)
def test_cards_that_are_slices_are_parts_of_a_card(product: str, number: int, replicas: int, expected: float) -> None:
    """With the MIG strategy `single`, all slices of a node are `nvidia.com/gpu`, as cards of other nodes are."""
    labels = {
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(number),
        "nvidia.com/gpu.replicas": str(replicas),
    }
    found = node(gpus=number, labels=labels)
    assert found.allocatable == pytest.approx(number * expected)
    assert WEIGHTS.held_gpus((("nvidia.com/gpu", 2.0),), found.units_per_card) == pytest.approx(2 * expected)


def test_hami_node_counts_its_cards() -> None:
    from gpuctl.language.platform_document import PlatformDocument

    weights = GpuWeights(Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": "hami"}})))
    metadata: Object = {"name": "n", "labels": {"nvidia.com/gpu.count": "8"}}
    obj: Object = {"metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": "80"}}}
    assert weights.node_gpus(obj, "allocatable") == 8
    metadata["labels"] = {}
    metadata["annotations"] = {"hami.io/node-nvidia-register": "GPU-a,10,81920,100,H100,0,true:GPU-b,10,81920,100:"}
    assert weights.node_gpus(obj, "allocatable") == 2
    assert weights.node_gpus({**obj, "status": {"allocatable": {"nvidia.com/gpu": "0"}}}, "allocatable") == 0


def test_failed_card_counts_while_it_is_held() -> None:
    """Otherwise the rate would exceed 100 percent: a device plugin that restarts briefly reports no cards."""
    intervals = intervals_of_one_node()
    changed_holdings(intervals, pod(container(3)), 10)
    intervals.put_node(node(allocatable={"nvidia.com/gpu": "0"}, written=T0 + 20), T0 + 21)
    assert [item.gpus for item in intervals.open_capacities()] == [3]
    intervals.drop_pod("u1", T0 + 40)
    assert intervals.open_capacities() == []
    whole = sorted(intervals.take().capacities, key=lambda item: item.start)
    assert [(item.gpus, item.end) for item in whole] == [(8, T0 + 20), (3, T0 + 40)]


def test_deleted_node_ends_its_holdings() -> None:
    """If it comes back with its pods, they hold GPUs again, never more than the node has."""
    intervals = intervals_of_one_node()
    changed_holdings(intervals, pod(containerStatuses=[runs(5)]), 10)
    intervals.drop_node("n1", T0 + 50)
    changes = intervals.take()
    assert [(item.end, item.ending) for item in changes.holdings] == [(T0 + 50, EndReason.DELETED)]
    assert [item.end for item in changes.capacities] == [T0 + 50]
    intervals.put_node(node(written=T0 + 70), T0 + 71)
    changes = intervals.take()
    assert [(item.start, item.end) for item in changes.holdings] == [(T0 + 70, None)]
    assert [(item.start, item.end) for item in changes.capacities] == [(T0 + 70, None)]


def test_capacities_of_a_returned_node_do_not_overlap() -> None:
    """Its creation has whole seconds, its deletion is dated when it was received."""
    intervals = intervals_of_one_node()
    intervals.drop_node("n1", T0 + 50.7)
    intervals.put_node(node(written=T0 + 50), T0 + 51)
    assert [item.start for item in intervals.open_capacities()] == [T0 + 50.7]
    again = OpenIntervals(WEIGHTS, known_until=T0 + 59)
    again.restore([], [], {"n1": T0 + 60.5})
    again.put_node(node()._replace(created=T0 + 60), T0 + 90)
    assert [item.start for item in again.open_capacities()] == [T0 + 60.5]


def test_node_that_was_created_again_in_an_outage() -> None:
    """The old node counts until it was last seen, the new one from its creation."""
    before = intervals_of_one_node()
    changed_holdings(before, pod(containerStatuses=[runs(5)]), 10)
    again = OpenIntervals(WEIGHTS, known_until=T0 + 60)
    again.restore(before.open_holdings(), before.open_capacities())
    again.put_node(node()._replace(created=T0 + 80, written=T0 + 85), T0 + 90)
    again.all_listed(T0 + 91)
    changes = again.take()
    assert [(item.end, item.ending) for item in changes.holdings] == [(T0 + 60, EndReason.LAST_SEEN)]
    assert [(item.start, item.end) for item in changes.capacities] == [(T0 - 1000, T0 + 60), (T0 + 80, None)]
    # Its pods may have come back with it.
    same = OpenIntervals(WEIGHTS, known_until=T0 + 60)
    same.restore(before.open_holdings(), before.open_capacities())
    same.put_node(node()._replace(created=T0 + 80), T0 + 90)
    changed_holdings(same, pod(containerStatuses=[runs(5)]), 90)
    assert [(item.start, item.end) for item in same.open_holdings()] == [(T0 + 80, None)]
    # A watch of pods without events may be a minute behind that of nodes.
    behind = OpenIntervals(WEIGHTS, known_until=T0 - 1010)
    behind.restore(before.open_holdings(), before.open_capacities())
    behind.put_node(node(), T0 + 90)
    assert behind.take().capacities == []


@pytest.mark.parametrize("before", [0, 4])
@pytest.mark.parametrize(
    ("written", "devices", "pods", "since"),
    [
        (900, 0, {}, 900),
        # A restarted collector may count other resources as GPUs.
        (-50, 0, {}, 1001),
        # The last write of the node says nothing of a driver's devices.
        (900, 4, {}, 1001),
        (900, 0, {"u1": (1, 300)}, {0: 300, 4: 900}),
        (900, 0, {"u1": (4, 300), "u2": (3, 500)}, {0: 300, 4: 500}),
        (900, 4, {"u1": (7, 70)}, 70),
        (200, 0, {"u1": (7, 300)}, 200),
    ],
)
def test_growth_of_a_node_in_an_outage(
    before: int, written: float, devices: int, pods: dict[str, tuple[int, float]], since: Any
) -> None:
    """GPUs that no pod held count only since they are seen: they may not have existed."""
    earlier = OpenIntervals(WEIGHTS)
    earlier.put_node(node(gpus=before), T0)
    earlier.all_listed(T0)
    again = OpenIntervals(WEIGHTS, known_until=T0 + 60)
    again.restore([], earlier.open_capacities())
    again.put_devices({"n1": float(devices)} if devices else {}, T0 + 990)
    again.put_node(node(gpus=8 - devices, written=T0 + written), T0 + 1000)
    for uid, (gpus, start) in pods.items():
        held = facts(pod(container(gpus), containerStatuses=[runs(start)]))._replace(uid=uid, scheduled=T0 + start)
        # One that has ended counts for the time in which it held its GPUs.
        held = held._replace(over=True, finished=T0 + 600) if uid == "u1" else held
        again.put_pod(held, bare(held), T0 + 1000)
    again.all_listed(T0 + 1001)
    changes = again.take()
    since = since if isinstance(since, int) else since[before]
    old = [(4.0, T0 - 1000, T0 + since)] if before else []
    assert [(item.gpus, item.start, item.end) for item in changes.capacities] == [*old, (8.0, T0 + since, None)]
    found = roll_up(int(T0), 1800, changes.holdings, changes.capacities, [], 15)
    assert discrepancies(found) == []


@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.parametrize(("gpus", "until"), [(0, 60), (4, {0: 600, 4: 60}), (8, 600)])
def test_loss_of_gpus_in_an_outage(after: int, gpus: int, until: Any) -> None:
    """GPUs that are gone counted last when a pod held them, else when the earlier collector saw them."""
    earlier = intervals_of_one_node()
    again = OpenIntervals(WEIGHTS, known_until=T0 + 60)
    again.restore([], earlier.open_capacities())
    again.put_node(node(gpus=after, written=T0 + 900), T0 + 1000)
    if gpus:
        held = facts(pod(container(gpus), containerStatuses=[runs(300)]))._replace(scheduled=T0 + 300)
        held = held._replace(over=True, finished=T0 + 600)
        again.put_pod(held, bare(held), T0 + 1000)
    again.all_listed(T0 + 1001)
    changes = again.take()
    moment = T0 + (until if isinstance(until, int) else until[after])
    new = [(4.0, moment, None)] if after else []
    assert [(item.gpus, item.start, item.end) for item in changes.capacities] == [(8.0, T0 - 1000, moment), *new]
    assert discrepancies(roll_up(int(T0), 1800, changes.holdings, changes.capacities, [], 15)) == []


def test_capacity_states_of_a_node() -> None:
    cases = {
        CapacityState.READY: node(),
        CapacityState.CORDONED: node(spec={"unschedulable": True}, ready="False"),
        CapacityState.NOT_READY: node(ready="Unknown"),
    }
    assert {state: item.state for state, item in cases.items()} == {state: state for state in cases}
