"""Quotas of a real control plane as the collector records them: how many GPUs a namespace may hold, and when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from control_plane import ControlPlane
from control_plane.users import grants
from gpuctl.objects.api_resources import Key
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import seconds_of
from gpuctl_usage.answers.hourly_answers import HoursQuery, namespace_hours
from gpuctl_usage.facts import GpuQuota
from gpuctl_usage.sums import Group, Level, RolledUp
from support.cluster_tools import GPU, POOL, Object, Place, pool_node
from support.collecting import Collecting, collecting

NODE = f"{POOL}-quotas"
LIMITED = f"requests.{GPU}"
QUOTAS, OTHERS = "resourcequotas", ("pods", "nodes", "namespaces")


@pytest.fixture(scope="module", autouse=True)
def node(plane: ControlPlane) -> Iterator[None]:
    with pool_node(plane, NODE):
        yield


@pytest.fixture(scope="module")
def collector(plane: ControlPlane, node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    with collecting(tmp_path_factory.mktemp("usage"), plane.kubeconfig()) as running:
        yield running


def recorded_quotas(collector: Collecting, place: Place) -> list[GpuQuota]:
    """Return all recorded quotas of the namespace."""
    return [item for item in collector.database.quotas(1, 0, 2**40) if item.namespace == place.namespace]


def until(collector: Collecting, place: Place, gpus: float | None) -> float:
    """Wait until the namespace has a quota of so many GPUs (None: no quota); return the time since when."""

    def last() -> float | None:
        found = recorded_quotas(collector, place)
        if not found:
            return None
        if gpus is None:
            return found[-1].end
        return found[-1].start if (found[-1].gpus, found[-1].end) == (gpus, None) else None

    return float(collector.until(last, f"a quota of {gpus}"))


def limits_written_at(obj: Object) -> float | None:
    """Return the time of the last change of a quota's limits, as the API server has it."""
    [found] = [item["time"] for item in obj["metadata"]["managedFields"] if not item.get("subresource")]
    return seconds_of(found)


def delete(place: Place, name: str) -> None:
    place.api.call("DELETE", Key("ResourceQuota", place.namespace, name).path)
    place.until(lambda: not place.exists("ResourceQuota", name), f"{name} to go")


def set_to(place: Place, name: str, gpus: int) -> Object:
    """Change a limit, and wait until the quota's status has it: before that the old limit is in force."""
    changed = place.patch("ResourceQuota", name, {"spec": {"hard": {LIMITED: str(gpus)}}})
    place.until(lambda: place.get("ResourceQuota", name)["status"]["hard"] == changed["spec"]["hard"], f"{gpus} GPUs")
    return changed


def test_quotas_that_are_created_changed_and_deleted(place: Place, collector: Collecting) -> None:
    """The smallest of several quotas applies, a scoped quota never; also across downtime of the collector."""
    place.limit("most", gpu="8", pods="50")
    assert until(collector, place, 8) == seconds_of(place.get("ResourceQuota", "most")["metadata"]["creationTimestamp"])
    scoped: Object = {"hard": {LIMITED: "1"}, "scopeSelector": {"matchExpressions": []}}
    scoped["scopeSelector"]["matchExpressions"] += [{"scopeName": "PriorityClass", "operator": "Exists"}]
    place.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "some"}, "spec": scoped})
    # The API server's times are whole seconds: of two limits within a second only the last counts.
    time.sleep(1.1)
    place.limit("less", gpu="4")
    assert until(collector, place, 4) == seconds_of(place.get("ResourceQuota", "less")["metadata"]["creationTimestamp"])
    time.sleep(1.1)
    changed = set_to(place, "less", 6)
    assert until(collector, place, 6) == limits_written_at(changed)
    before = recorded_quotas(collector, place)
    assert [item.gpus for item in before] == [8, 4, 6]
    collector.kill()
    seen = collector.database.quotas_seen(1) or 0.0
    time.sleep(1.1)
    changed = set_to(place, "less", 3)
    collector.start()
    assert until(collector, place, 3) == max(limits_written_at(changed) or 0.0, seen)
    # A change that was reverted during the downtime is invisible.
    collector.kill()
    set_to(place, "less", 5)
    set_to(place, "less", 3)
    seen = collector.database.quotas_seen(1) or 0.0
    delete(place, "most")
    place.limit("again", gpu="9")
    time.sleep(1.1)
    collector.start()
    set_to(place, "again", 2)
    until(collector, place, 2)
    assert [item.gpus for item in recorded_quotas(collector, place)] == [8, 4, 6, 3, 2]
    moment = time.time()
    delete(place, "again")
    until(collector, place, 3)
    delete(place, "less")
    end = until(collector, place, None)
    assert int(moment) <= end <= time.time() + 5
    found = recorded_quotas(collector, place)
    assert [item.gpus for item in found] == [8, 4, 6, 3, 2, 3]
    assert [one.end for one in found[:-1]] == [other.start for other in found[1:]]
    # A quota deleted during the downtime ended when it was last seen.
    place.limit("more", gpu="7")
    start = until(collector, place, 7)
    collector.kill()
    seen = collector.database.quotas_seen(1) or 0.0
    delete(place, "more")
    collector.start()
    assert until(collector, place, None) == max(seen, start)


def pod(name: str) -> Object:
    """A pod that holds six GPUs."""
    amount = {GPU: "6"}
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"limits": amount, "requests": amount}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_namespace_capacity_follows_a_lowered_quota(place: Place, collector: Collecting) -> None:
    """The running hour of a namespace whose quota is lowered below the GPUs of its pod."""
    place.limit("most", gpu="8")
    since = until(collector, place, 8)
    place.create(pod("holds"))
    collector.until(lambda: collector.of(place.namespace, "holds"), "the holding")
    set_to(place, "most", 4)
    lowered = until(collector, place, 4)
    # The collector rolls up the hour at its start.
    collector.kill()
    collector.start()
    hour = int(lowered) // HOUR * HOUR

    def stable_row() -> tuple[dict[str, float], RolledUp] | None:
        [before] = collector.database.rolled_up(1, hour, hour + HOUR)
        rows = namespace_hours(collector.database, HoursQuery("", hour, hour + HOUR), place.namespace)
        assert isinstance(rows, list)
        unchanged = collector.database.rolled_up(1, hour, hour + HOUR) == [before]
        return (rows[0], before) if rows and unchanged and before.known_until > lowered else None

    row, rolled = collector.until(stable_row, "the hour to be rolled up")
    end, cluster = rolled.known_until, rolled.sums[Group(Level.CLUSTER)].cap_gpu_s / rolled.seconds
    first = hour + rolled.missed
    begin = max(since, first)
    most = cluster * (begin - first) + 8 * (lowered - begin) + 4 * (end - lowered)
    assert row["total_gpu_capacity"] == pytest.approx(most / rolled.seconds, abs=0.0051)
    held = rolled.sums[Group(Level.NAMESPACE, value=place.namespace)].alloc_gpu_s
    assert row["allocation_rate"] == pytest.approx(100 * held / most, abs=0.0051)


@contextmanager
def granted(plane: ControlPlane, *kinds: str) -> Iterator[None]:
    """Allow a user without other rights to read these kinds while the block runs."""
    rule = {"apiGroups": [""], "verbs": ["get", "list", "watch"], "resources": kinds}
    role, binding = grants("nobody", None, [rule])
    plane.create(role, binding)
    try:
        yield
    finally:
        for obj in (binding, role):
            path = f"/apis/{obj['apiVersion']}/{obj['kind'].lower()}s/{obj['metadata']['name']}"
            plane.requests.call("DELETE", path)


def test_collector_without_access_to_quotas(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """Usage is collected, and the refusal is logged; quotas count once they can be read."""
    place.limit("most", gpu="8")
    with granted(plane, *OTHERS), collecting(tmp_path, plane.kubeconfig("nobody")) as own:
        place.create(pod("holds"))
        own.until(lambda: own.of(place.namespace, "holds"), "the holding")
        [refused] = [line for line in own.log if line["message"] == "a kind cannot be listed"][:1]
        assert refused["kind"] == "ResourceQuota"
        assert recorded_quotas(own, place) == []
        assert own.database.quotas_seen(1) is None
        with granted(plane, QUOTAS):
            until(own, place, 8)


@pytest.mark.slow
def test_quota_changed_without_access_is_dated_by_the_object(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """Pods were followed all the time, by two collectors in turn: the object has the time of the lower limit."""
    place.limit("most", gpu="8")
    with granted(plane, *OTHERS), collecting(tmp_path, plane.kubeconfig("nobody")) as own:
        with granted(plane, QUOTAS):
            until(own, place, 8)
            own.until(lambda: own.database.quotas_seen(1), "the time until which quotas are recorded")
            own.kill()
        followed = own.database.quotas_seen(1) or 0.0
        time.sleep(1.1)
        changed = limits_written_at(set_to(place, "most", 4)) or 0.0
        assert changed > followed
        # Its first list of pods is later than the change; after that a watch reports progress once a minute.
        time.sleep(1.1)
        own.start()
        own.until(lambda: (own.database.last_seen(1) or 0.0) > changed, "pods to be followed for longer")
        assert own.database.quotas_seen(1) == followed
        own.kill()
        with granted(plane, QUOTAS):
            own.start()
            assert until(own, place, 4) == changed
