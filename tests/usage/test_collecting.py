"""Usage collected from pods and nodes of a real control plane, and by a collector that is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.objects.api_resources import Key
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import format_timestamp, seconds_of
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, Holding, WorkloadKey
from gpuctl_usage.prometheus import Prometheus
from gpuctl_usage.store.database import open_database
from gpuctl_usage.sums import Group, Level
from support.cluster_tools import GPU, POOL, Object, Place, inference, outcome, pool_node, training
from support.collecting import Collecting, collecting
from support.prometheus_server import Exporter, running_prometheus

NODE = f"{POOL}-0"
MERGE_PATCH = "application/merge-patch+json"
_CHANGE_INTERVAL = 3.0
"""Seconds between changes: the API server's times are whole seconds, and a change without a time is dated when
received.
"""
_NUMBERS = count()
_SCRAPED = "count_over_time(DCGM_FI_DEV_GPU_UTIL[1m])"


@pytest.fixture(scope="module", autouse=True)
def node(plane: ControlPlane) -> Iterator[None]:
    """A node with GPUs that exists before collecting begins."""
    with pool_node(plane, NODE, **{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}):
        yield


@pytest.fixture(scope="module")
def collector(plane: ControlPlane, node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    with collecting(tmp_path_factory.mktemp("usage"), plane.kubeconfig()) as running:
        yield running


def pod(name: str, gpus: int = 1, *, labels: dict[str, str] | None = None, **annotations: str) -> Object:
    """A pod without an owner, for the node."""
    amount = {GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels or {},
            "annotations": {f"gpuctl.test/{key.replace('_', '-')}": value for key, value in annotations.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "x", "resources": {"limits": amount, "requests": amount}}],
        },
    }


def delete(place: Place, kind: str, name: str) -> None:
    place.api.call("DELETE", Key(kind, place.namespace, name).path)
    place.until(lambda: not place.exists(kind, name), f"{name} to be deleted")


def bound_at(obj: Object) -> float | None:
    """Return the time at which the pod was bound, as the API server has it."""
    [found] = [item for item in obj["status"]["conditions"] if item["type"] == "PodScheduled"]
    return seconds_of(found["lastTransitionTime"])


def container_times(obj: Object) -> tuple[float | None, float | None]:
    """Return the times at which the pod's container started and ended."""
    [status] = obj["status"]["containerStatuses"]
    state: dict[str, Any] = status["state"].get("terminated") or status["state"]["running"]
    return seconds_of(state["startedAt"]), seconds_of(state.get("finishedAt"))


def test_finished_job_has_the_times_of_the_api_server(place: Place, collector: Collecting) -> None:
    """Two pods of a training, from binding until their containers end, as the API server has them."""
    document = training(resources={"nodes": 2, "gpu": 4}, job={"labels": {"team": "vision"}, **outcome("complete")})
    place.apply(document)
    place.until(lambda: (place.get("Job", "train").get("status") or {}).get("succeeded") == 2, "the job")
    collector.until(
        lambda: [item.end is not None for item in collector.holdings(place.namespace)] == [True, True], "both holdings"
    )
    pods = {item["metadata"]["name"]: item for item in place.objects(("Pod",)).values()}
    found = collector.holdings(place.namespace)
    assert {item.pod for item in found} == set(pods)
    for item in found:
        obj = pods[item.pod]
        assert item.pod_uid == obj["metadata"]["uid"]
        assert item.workload == (place.namespace, "Job", "train", place.uid("Job", "train"))
        assert (item.node, item.gpus, item.model) == (NODE, 4, "NVIDIA-H100-80GB-HBM3")
        assert item.labels == {"app": "train", "team": "vision"}
        assert item.start == bound_at(obj)
        assert (item.started, item.end) == container_times(obj)
        assert item.ending is EndReason.FINISHED


def test_deleted_deployment_ends_its_holding(place: Place, collector: Collecting) -> None:
    place.apply(inference(resources={"gpu": 2}))
    [name] = place.running("serve")
    [held] = collector.until(
        lambda: [item for item in collector.of(place.namespace, name) if item.started], "the holding"
    )
    assert held.workload == (place.namespace, "Deployment", "serve", place.uid("Deployment", "serve"))
    assert (held.gpus, held.end) == (2, None)
    before = time.time()
    delete(place, "Deployment", "serve")
    place.until(lambda: not place.exists("Pod", name), "its pod to be deleted")
    [held] = collector.until(
        lambda: [item for item in collector.of(place.namespace, name) if item.end is not None], "the end"
    )
    assert held.ending is EndReason.FINISHED, "the kubelet reports it before the pod is deleted"
    assert int(before) <= (held.end or 0) <= time.time()


def test_force_deleted_pod_ends_when_it_is_deleted(place: Place, collector: Collecting) -> None:
    """No status has the end of its containers: the time of its deletion event counts."""
    place.create(pod("forced"))
    collector.until(
        lambda: collector.of(place.namespace, "forced") and collector.of(place.namespace, "forced")[0].started,
        "the holding",
    )
    before = time.time()
    place.api.call("DELETE", f"{Key('Pod', place.namespace, 'forced').path}?gracePeriodSeconds=0")
    after = time.time()
    [held] = collector.until(
        lambda: [item for item in collector.of(place.namespace, "forced") if item.end is not None], "the end"
    )
    assert held.ending is EndReason.DELETED
    assert before <= (held.end or 0) <= after + 5


def test_changed_labels_begin_a_new_interval(place: Place, collector: Collecting) -> None:
    """At the time at which the API server wrote them."""
    place.create(pod("alone", labels={"team": "a", "secret": "x"}))
    [first] = collector.until(
        lambda: [item for item in collector.of(place.namespace, "alone") if item.started], "the holding"
    )
    assert first.workload == (place.namespace, "Pod", "alone", first.pod_uid)
    assert first.labels == {"team": "a"}
    time.sleep(1.1)
    changed = place.patch("Pod", "alone", {"metadata": {"labels": {"team": "b"}, "annotations": {"cost-center": "7"}}})
    collector.until(lambda: len(collector.of(place.namespace, "alone")) == 2, "another interval")
    one, two = collector.of(place.namespace, "alone")
    assert one == first._replace(end=two.start, ending=EndReason.CHANGED)
    written = max(seconds_of(item["time"]) or 0 for item in changed["metadata"]["managedFields"])
    assert two == first._replace(start=written, labels={"team": "b"}, annotations={"cost-center": "7"})
    # Labels that the pod does not have are taken from its namespace.
    time.sleep(1.1)
    path = Key("Namespace", "", place.namespace).path
    place.api.call("PATCH", path, {"metadata": {"labels": {"env": "lab", "team": "c"}}}, MERGE_PATCH)
    collector.until(lambda: len(collector.of(place.namespace, "alone")) == 3, "a third interval")
    assert collector.of(place.namespace, "alone")[2].labels == {"team": "b", "env": "lab"}


def test_forged_owner_references_are_not_trusted(place: Place, plane: ControlPlane, collector: Collecting) -> None:
    """A user who may create a pod may write any owner reference."""
    place.apply(training("theirs", resources={"gpu": 1}))
    uid = place.uid("Job", "theirs")
    other = f"{place.namespace}-b"
    place.api.create_namespace(other)

    def owned(own: str, namespace: str = place.namespace, **reference: str) -> None:
        obj = pod(own)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": uid, "controller": True}
        obj["metadata"]["ownerReferences"] = [{**owner, **reference}]
        # The garbage collector may be faster than the scheduler and the collector.
        obj["metadata"]["finalizers"] = ["gpuctl.test/kept"]
        obj["spec"]["nodeName"] = NODE
        place.api.call("POST", f"/api/v1/namespaces/{namespace}/pods", obj)

    node = place.api.call("GET", Key("Node", "", NODE).path)["metadata"]["uid"]
    owned("wrong-uid", uid="12345678-0000-0000-0000-000000000000")
    owned("far", other)
    owned("of-a-node", apiVersion="v1", kind="Node", name=NODE, uid=node)
    owned("of-nothing", apiVersion="example.com/v1", kind="Robot", name="r2", uid="r2")
    owned("of-a-path", name="../../../x")
    found = {}
    for name in ("wrong-uid", "far", "of-a-node", "of-nothing", "of-a-path"):
        namespace = other if name == "far" else place.namespace
        [held] = collector.until(lambda at=(namespace, name): collector.of(*at), name)
        found[name] = held.workload
    assert {found[name].kind for name in ("wrong-uid", "of-a-node")} == {"Pod"}
    # An owner that does not exist is known by its reference, in the pod's own namespace.
    assert found["far"] == (other, "Job", "theirs", uid)
    assert found["of-nothing"] == (place.namespace, "Robot", "r2", "r2")
    assert found["of-a-path"] == (place.namespace, "Job", "../../../x", uid)
    for name, namespace in [(name, other if name == "far" else place.namespace) for name in found]:
        path = Key("Pod", namespace, name).path
        place.api.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)


def test_state_changes_of_a_node_are_recorded(plane: ControlPlane, api: Any, collector: Collecting) -> None:
    """The node joins, is cordoned, fails, and is deleted."""
    [there] = collector.until(lambda: collector.capacities(NODE), "the node")
    created = seconds_of(api.call("GET", Key("Node", "", NODE).path)["metadata"]["creationTimestamp"])
    assert there == Capacity(NODE, "NVIDIA-H100-80GB-HBM3", 64, CapacityState.READY, created or 0, None)
    # The collector knows the node of a first attempt: a rerun needs another name.
    name = f"late-node-{next(_NUMBERS)}"
    before = int(time.time())
    plane.add_node(name, gpus=8)

    def last(state: CapacityState, gpus: float = 8) -> bool:
        found = collector.capacities(name)
        return bool(found) and (found[-1].state, found[-1].gpus, found[-1].end) == (state, gpus, None)

    collector.until(lambda: last(CapacityState.READY), "the node")
    time.sleep(_CHANGE_INTERVAL)
    plane.kubectl("cordon", name)
    collector.until(lambda: last(CapacityState.CORDONED), "the cordon")
    time.sleep(_CHANGE_INTERVAL)
    plane.kubectl("uncordon", name)
    collector.until(lambda: last(CapacityState.READY), "its end")
    time.sleep(_CHANGE_INTERVAL)
    plane.kubectl("annotate", "node", name, "gpuctl.test/ready=false")
    collector.until(lambda: last(CapacityState.NOT_READY), "the failure")
    time.sleep(_CHANGE_INTERVAL)
    plane.kubectl("delete", "node", name)
    collector.until(lambda: collector.capacities(name)[-1].end, "its deletion")
    after = time.time() + 1
    found = [item for item in collector.capacities(name) if item.end is None or item.end - item.start >= 1]
    assert [item.state for item in found][-4:] == [
        CapacityState.READY,
        CapacityState.CORDONED,
        CapacityState.READY,
        CapacityState.NOT_READY,
    ]
    whole = collector.capacities(name)
    assert [one.end for one in whole[:-1]] == [two.start for two in whole[1:]]
    assert before <= whole[0].start <= (whole[-1].end or 0) <= after


@pytest.mark.slow
def test_killed_collector_loses_nothing_after_a_restart(
    plane: ControlPlane, place: Place, collector: Collecting
) -> None:
    """Nothing is lost or counted twice; a pod deleted during the downtime ended when it was last seen."""
    for name in ("stays", "goes", "other"):
        place.create(pod(name, 2, labels={"team": "a"}))
    place.create(pod("ends", 2, outcome="complete", duration="3s"))
    collector.until(
        lambda: all(
            collector.of(place.namespace, name) and collector.of(place.namespace, name)[0].started
            for name in ("stays", "goes", "other", "ends")
        ),
        "the pods",
    )
    before = {name: collector.of(place.namespace, name)[0] for name in ("stays", "goes", "other", "ends")}
    known = collector.database.last_seen(1)
    collector.kill()
    delete(place, "Pod", "goes")
    place.create(pod("new", 1))
    place.create(pod("short", 1, outcome="complete"))
    time.sleep(1.1)
    changed = place.patch("Pod", "other", {"metadata": {"labels": {"team": "b"}}})
    place.until(
        lambda: (
            [place.get("Pod", name)["status"].get("phase") for name in ("ends", "short", "new")]
            == ["Succeeded", "Succeeded", "Running"]
        ),
        "the end of two pods",
    )
    collector.start()
    collector.until(lambda: collector.of(place.namespace, "goes")[0].end, "the end of the deleted pod")
    collector.until(
        lambda: collector.of(place.namespace, "new") and collector.of(place.namespace, "new")[0].started, "the new pod"
    )
    [goes] = collector.of(place.namespace, "goes")
    assert goes == before["goes"]._replace(end=goes.end, ending=EndReason.LAST_SEEN)
    assert (known or 0) <= (goes.end or 0) <= time.time()
    assert collector.of(place.namespace, "stays") == [before["stays"]]
    [ends], [short], [new] = (collector.of(place.namespace, name) for name in ("ends", "short", "new"))
    assert ends == before["ends"]._replace(end=container_times(place.get("Pod", "ends"))[1], ending=EndReason.FINISHED)
    obj = place.get("Pod", "short")
    assert (short.start, short.end) == (bound_at(obj), container_times(obj)[1])
    assert (new.start, new.end) == (bound_at(place.get("Pod", "new")), None)
    one, two = collector.of(place.namespace, "other")
    written = max(seconds_of(item["time"]) or 0 for item in changed["metadata"]["managedFields"])
    assert (one.start, one.end, two.start, two.end) == (before["other"].start, written, written, None)
    assert (one.labels, two.labels) == ({"team": "a"}, {"team": "b"})
    # Restart again, without a change in between: the same.
    everything = collector.holdings(place.namespace)
    collector.kill()
    collector.start()
    delete(place, "Pod", "new")
    collector.until(lambda: collector.of(place.namespace, "new")[0].end, "its end")
    assert [item for item in collector.holdings(place.namespace) if item.pod != "new"] == [
        item for item in everything if item.pod != "new"
    ]


def test_running_hour_has_the_samples_of_prometheus(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """A snapshot and the running hour have the values of Prometheus; a signal ends the collector in order."""
    uid = place.api.call("GET", Key("Namespace", "", "kube-system").path)["metadata"]["uid"]
    with closing(open_database(str(tmp_path / "usage.db"))) as database:
        # Record an earlier collection: measurements from before the collector's first list would not count.
        database.put_changes(database.put_cluster(uid, "lab"), time.time() - 1)
    place.create(pod("busy", 2))
    place.until(lambda: place.get("Pod", "busy")["status"].get("phase") == "Running", "the pod")
    exporter = Exporter()
    exporter.lines += [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",Hostname="{NODE}",namespace="{place.namespace}",pod="busy"}} {value}'
        for gpu, value in ((0, 30), (1, 50))
    ]
    with running_prometheus(tmp_path, targets=[exporter.address], how={"honor_labels": True}) as url:
        prometheus = Prometheus(url)
        place.until(
            lambda: sum(sample.samples[0].value for sample in prometheus.query_at(_SCRAPED, time.time(), 10)) >= 10,
            "the exporter to be asked a few times",
        )
        settings = {"prometheus": url, "usage_scrape_interval": "1"}
        with collecting(tmp_path, plane.kubeconfig(), **settings) as own:
            found = own.until(lambda: own.database.rolled_up(1, 0, 2**40), "the hour")
            assert own.stop() == 0
            assert own.log[-1]["message"] == "stopped collecting usage"
            [hour] = found[-1:]
            sums = hour.sums[Group(Level.NAMESPACE, value=place.namespace)]
            assert (hour.start % HOUR, hour.seconds < HOUR) == (0, True)
            assert sums.samples >= 8
            assert sums.util_gpu_s / sums.obs_gpu_s == pytest.approx(40, abs=5)
            assert 0 < sums.obs_gpu_s <= sums.alloc_gpu_s
            [state] = own.database.hours(1, hour.start, hour.start + 1).values()
            assert state.provisional
    exporter.close()


@pytest.mark.slow
def test_rollup_command_recomputes_hours(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """Rolled up by the command, for a time whose intervals are recorded."""
    before = int(time.time()) // HOUR * HOUR - 2 * HOUR
    uid = place.api.call("GET", Key("Namespace", "", "kube-system").path)["metadata"]["uid"]
    database = open_database(str(tmp_path / "usage.db"))
    number = database.put_cluster(uid, "lab")
    workload = WorkloadKey("a", "Pod", "p", "u1")
    held = Holding("u1", "a", "p", workload, "n1", 2, "m", {}, {}, before + 600.0, before + 600.0, before + 4200.0)
    database.put_changes(
        number,
        before + 9000.0,
        capacities=[Capacity("n1", "m", 8, CapacityState.READY, before - 100.0, None)],
        holdings=[held],
    )
    times = ["--from", format_timestamp(before), "--to", format_timestamp(before + 2 * HOUR)]
    command = ["usage", "rollup", *times, "--database", str(tmp_path / "usage.db")]
    assert place.anywhere(*command).out == "2 hours rolled up, 2 changed\n"
    assert place.anywhere(*command).out == "2 hours rolled up, 0 changed\n"
    assert database.cluster_name(number) == "lab", "the name of the collector, not of the local context"
    one, two = database.rolled_up(number, before, before + 2 * HOUR)
    assert [hour.sums[Group(Level.CLUSTER)].alloc_gpu_s for hour in (one, two)] == [6000, 1200]
    database.close()
    nothing = place.anywhere("usage", "rollup", *times, "--database", str(tmp_path / "new.db"))
    assert nothing.out == "0 hours rolled up, 0 changed\n", "no hours without recorded intervals"
    missing = place.anywhere("usage", "rollup", *times, "--database", "/dev/null/usage.db", code=3)
    assert missing.err.startswith("error: the usage database /dev/null/usage.db")
