"""Collectors, databases and Prometheus that are killed at any moment.

One of two collectors collects, whatever their clocks show, and the other takes over when it ends. A collector that is
killed repeatedly records the same as an undisturbed one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.objects.api_resources import Key
from gpuctl_usage.facts import EndReason, GpuQuota, Holding, UsageKeys
from gpuctl_usage.gathering.gpu_samples import GpuSamples
from gpuctl_usage.hour_scheduling import HourRoller, hour_of, hours_between
from gpuctl_usage.prometheus import Prometheus
from gpuctl_usage.rollup.ledger import discrepancies
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.leases import LeaseLost, LeaseState
from gpuctl_usage.sums import Group, Level, RolledUp
from support.cluster_tools import GPU, MERGE_PATCH, POOL, Object, Place, pool_node
from support.collecting import Collecting
from support.postgresql_server import PostgresqlServer, running_postgresql
from support.prometheus_server import Exporter, PrometheusServer, set_up_prometheus

NODE = f"{POOL}-0"
_BEFORE = """
import time
from gpuctl_usage import leader_election
leader_election.LEASE_TIMEOUT, leader_election.RENEW_EVERY, leader_election._POLL_EVERY = 4.0, 1.0, 0.5
real = time.time
time.time = lambda: real() + {skew}
"""
_WAITS, _OVER = "another collector holds the lease; waiting", "another collector has taken over; waiting"
_LISTED = "all kinds are listed"


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    found = open_database(address)
    yield found
    found.close()


# The lease.


def test_only_one_collector_holds_the_lease(database: Database) -> None:
    cluster = database.put_cluster("uid-1", "lab")
    free = database.lease(cluster)
    assert free == LeaseState(0, 0, "")
    first = database.take_lease(cluster, free, "one")
    assert first == (cluster, 1)
    # The lease has changed since it was read.
    assert database.take_lease(cluster, free, "other") is None
    seen = database.lease(cluster)
    assert (seen.term, seen.holder) == (1, "one")
    led = database.with_lease(first)
    led.put_changes(cluster, 5.0)
    assert database.take_lease(cluster, seen, "other") is None, "every write renews the lease"
    assert database.lease(database.put_cluster("uid-2", "prod")) == LeaseState(0, 0, ""), "each cluster has its own"


def test_writes_after_the_lease_was_lost_are_rolled_back(database: Database) -> None:
    """The whole transaction is rolled back."""
    cluster = database.put_cluster("uid-1", "lab")
    first = database.take_lease(cluster, database.lease(cluster), "one")
    assert first is not None
    late = database.with_lease(first)
    late.put_changes(cluster, 5.0)
    second = database.take_lease(cluster, database.lease(cluster), "other")
    assert second == (cluster, 2)
    for write in (
        lambda: late.put_changes(cluster, 9.0),
        lambda: late.put_rolled_up(cluster, RolledUp(0, 3600.0, {}, "d"), False),
        late.keep_lease,
        late.give_lease_back,
    ):
        with pytest.raises(LeaseLost):
            write()
    assert (database.last_seen(cluster), database.hours(cluster, 0, 3600)) == (5.0, {})
    assert database.lease(cluster).holder == "other"
    database.with_lease(second).give_lease_back()
    assert database.lease(cluster).holder == ""


# Two processes.


@pytest.fixture(scope="module")
def node(plane: ControlPlane) -> Iterator[None]:
    with pool_node(plane, NODE):
        yield


def pod(name: str) -> Object:
    amount = {GPU: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "x", "resources": {"limits": amount, "requests": amount}}],
        },
    }


@pytest.mark.slow
def test_one_collector_collects_and_the_other_takes_over(
    plane: ControlPlane, node: None, place: Place, tmp_path: Path, address: str
) -> None:
    """From a collector that is killed, suspended or stopped; a resumed one writes nothing. Their clocks are hours
    apart.
    """

    def collector(skew: int) -> Collecting:
        return Collecting(
            tmp_path, plane.kubeconfig(), address=address, before=_BEFORE.format(skew=skew), usage_cluster="lab"
        )

    one, other = collector(5000), collector(-7000)
    try:
        one.start()
        other.launch()
        other.until(lambda: other.said(_WAITS), "the other to wait")
        place.create(pod("first"))
        [first] = one.until(lambda: [item for item in one.of(place.namespace, "first") if item.started], "its pod")
        one.kill()
        other.until(lambda: other.said(_LISTED), "the other to take over")
        place.create(pod("second"))
        [second] = other.until(
            lambda: [item for item in other.of(place.namespace, "second") if item.started], "the pod of the other"
        )
        assert other.of(place.namespace, "first") == [first], "the holding continues and exists once"
        one.launch()
        one.until(lambda: one.said(_WAITS), "the first to wait")
        other.pause()
        one.until(lambda: one.said(_LISTED) == 2, "the first to take over")
        place.api.call("DELETE", f"{Key('Pod', place.namespace, 'second').path}?gracePeriodSeconds=0")
        [ended] = one.until(lambda: [item for item in one.of(place.namespace, "second") if item.end], "the end")
        assert ended == second._replace(end=ended.end, ending=ended.ending)
        assert ended.ending in (EndReason.DELETED, EndReason.FINISHED)
        before = one.holdings(place.namespace)
        other.resume()
        other.until(lambda: other.said(_OVER), "the other to notice")
        assert one.holdings(place.namespace) == before
        assert one.stop() == 0
        other.until(lambda: other.said(_LISTED) == 2, "the other to take over at once")
        assert other.holdings(place.namespace) == before
        assert other.database.lease(1).term == 4
    finally:
        one.close()
        other.close()


# Repeated kills.


def finishing_pod(name: str, seconds: int) -> Object:
    """A pod whose containers end by themselves, at a time that the API server reports to every collector."""
    made = pod(name)
    made["metadata"]["annotations"] = {"gpuctl.test/outcome": "complete", "gpuctl.test/duration": f"{seconds}s"}
    made["spec"]["restartPolicy"] = "Never"
    return made


class DisturbedCollector:
    """A collector with its PostgreSQL and its Prometheus, which are killed one after another."""

    def __init__(self, collector: Collecting, postgresql: PostgresqlServer, prometheus: PrometheusServer) -> None:
        self.collector = collector
        self.postgresql = postgresql
        self.prometheus = prometheus

    def kill(self, what: str, away: float) -> None:
        """Kill one of them, and start it again after a while."""
        if what == "collector":
            self.collector.kill()
            time.sleep(away)
        elif what == "postgresql":
            self.postgresql.kill()
            time.sleep(away)
            self.postgresql.start()
        else:
            self.until_measured()
            self.prometheus.stop(kill=True)
            time.sleep(away)
            self.prometheus.start()
        self.ensure_running()

    def until_measured(self) -> None:
        """Wait until Prometheus has scraped the exporter a few times: it begins seconds after its start."""
        asking = Prometheus(self.prometheus.url)
        query = "count_over_time(DCGM_FI_DEV_GPU_UTIL[3s]) >= 2"
        self.until(lambda: asking.query_at(query, time.time(), 10), "Prometheus")

    def ensure_running(self) -> None:
        """Start the collector again if it has ended, as Kubernetes does, also if its database was away."""
        if not self.collector.running:
            self.collector.launch()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + 90
        while not condition():
            self.ensure_running()
            assert time.monotonic() < end, f"waiting for {what}: {self.collector.log}"
            time.sleep(0.1)


def to_the_second(holding: Holding) -> Holding:
    """Truncate the times of changes to seconds: only some collectors know the order within a second."""
    begins = float(int(holding.start))
    return holding._replace(start=begins, end=int(holding.end) if holding.ending is EndReason.CHANGED else holding.end)


def comparable(holdings: Iterable[Holding]) -> list[Holding]:
    """Return holdings in an order that does not depend on which collector knows the order within a second."""
    return sorted(map(to_the_second, holdings), key=lambda item: (item.start, item.pod))


def rolled_up(collector: Collecting, url: str, start: float, now: float) -> list[RolledUp]:
    """Return the hours since `start` as of `now`, rolled up from what a collector has recorded."""
    roller = HourRoller(collector.database, 1, GpuSamples(Prometheus(url)), 1.0, UsageKeys(("team",), ()))
    for hour in hours_between(start, now):
        roller.roll(hour, now)
    return collector.database.rolled_up(1, hour_of(start), int(now) + 1)


class ChangingQuota:
    """The ResourceQuota of a separate namespace: it is created, lowered and deleted."""

    STEPS = ("8", "4", None)

    def __init__(self, place: Place, name: str) -> None:
        self.namespace = f"{place.namespace}-{name}"
        self._api = place.api
        self._times: list[tuple[float, float]] = []
        place.plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    @property
    def steps_taken(self) -> int:
        """Number of steps that were taken."""
        return len(self._times)

    def take_step(self, known_until: float) -> None:
        """Take the next step.

        :param known_until: time until which a collector that is killed now knows the quotas.
        """
        begun, amount = float(int(time.time())), self.STEPS[self.steps_taken]
        key = Key("ResourceQuota", self.namespace, "most")
        spec = {"hard": {f"requests.{GPU}": amount}}
        if amount is None:
            self._api.call("DELETE", key.path)
            # No object has the time of its deletion.
            begun = min(begun, known_until)
        elif self.steps_taken:
            self._api.call("PATCH", key.path, {"spec": spec}, MERGE_PATCH)
        else:
            made = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": key.name}, "spec": spec}
            self._api.call("POST", key.path.rpartition("/")[0], made)
        self._times.append((begun, math.inf))

    def kill_ended(self) -> None:
        """Record that the kill is over: what was written before it is not dated later."""
        if self.STEPS[self.steps_taken - 1] is not None:
            self._times[-1] = (self._times[-1][0], time.time())

    def is_known_to(self, one: Collecting) -> bool:
        """Return True if the collector has recorded the steps that were taken."""
        found = self._of(one)
        gpus = [f"{item.gpus:g}" for item in found] + [None for item in found[-1:] if item.end is not None]
        return gpus == list(self.STEPS[: self.steps_taken])

    def check(self, one: Collecting) -> None:
        """Assert that the collector has recorded each step at its time."""
        first, second = self._of(one)
        assert first.end == second.start
        for (earliest, latest), moment in zip(self._times, (first.start, second.start, second.end), strict=True):
            assert moment is not None
            assert earliest <= moment <= min(latest, time.time()), (self._times, first, second)

    def _of(self, one: Collecting) -> list[GpuQuota]:
        return [item for item in one.database.quotas(1, 0, 2**40) if item.namespace == self.namespace]


LIMITS = {0: "a", 3: "b", 4: "a", 5: "ba", 6: "b"}
"""Number of a kill -> names of the limits that change with it."""


@pytest.mark.slow
def test_collector_killed_at_any_moment_records_the_same(
    plane: ControlPlane, node: None, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Intervals and sums equal those of an undisturbed collector, and the quotas are right. While Prometheus is away
    fewer samples are measured, with the same mean.
    """
    random = Random(11)
    directory, other = tmp_path_factory.mktemp("disturbed"), tmp_path_factory.mktemp("calm")
    exporter = Exporter()
    begun = time.time()
    set_up_prometheus(directory, [exporter.address], {"honor_labels": True})
    prometheus = PrometheusServer(directory)
    before = _BEFORE.format(skew=0)
    calm = Collecting(other, plane.kubeconfig(), usage_cluster="lab")
    with running_postgresql() as postgresql:
        url = postgresql.new_database()
        collector = Collecting(directory, plane.kubeconfig(), address=url, before=before, usage_cluster="lab")
        disturbed = DisturbedCollector(collector, postgresql, prometheus)
        try:
            prometheus.start()
            calm.start()
            collector.start()
            # Usage from before collecting began does not count, and pods have whole seconds.
            disturbed.until(lambda: calm.database.began(1) and collector.database.began(1), "both to begin")
            time.sleep(1)
            kills = ["collector", "postgresql"] * 3
            random.shuffle(kills)
            kills.insert(random.randint(2, 4), "prometheus")
            limits = {name: ChangingQuota(place, name) for name in "ab"}
            met = set()
            for number, what in enumerate(kills):
                for name, made in (
                    (f"long-{number}", pod(f"long-{number}")),
                    (f"short-{number}", finishing_pod(f"short-{number}", 2)),
                ):
                    place.create(made)
                    exporter.lines.append(
                        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{len(exporter.lines)}",Hostname="{NODE}",'
                        f'namespace="{place.namespace}",pod="{name}"}} 40'
                    )
                if number >= 2:
                    # A pod whose first labels were never seen would always have had the last ones.
                    known = f"long-{number - 2}"
                    disturbed.until(lambda known=known: collector.of(place.namespace, known), known)
                    place.patch("Pod", known, {"metadata": {"labels": {"team": f"team-{number}"}}})
                changing = [limits[name] for name in LIMITS.get(number, "")]
                for limit in changing:
                    disturbed.until(lambda limit=limit: limit.is_known_to(collector), limit.namespace)
                    met.add((what, limit.steps_taken))
                    limit.take_step(collector.database.quotas_seen(1) or 0.0)
                time.sleep(random.uniform(0.0, 0.8))
                disturbed.kill(what, random.uniform(0.0, 0.6))
                for limit in changing:
                    limit.kill_ended()
            assert met == {
                (what, steps_taken)
                for what in ("collector", "postgresql")
                for steps_taken in range(len(ChangingQuota.STEPS))
            }
            last = [f"short-{number}" for number in range(len(kills))]
            place.until(
                lambda: all(place.get("Pod", name)["status"].get("phase") == "Succeeded" for name in last), "their end"
            )

            def settled(one: Collecting) -> bool:
                found = one.holdings(place.namespace)
                ended = {item.pod for item in found if item.ending is EndReason.FINISHED}
                running = {item.pod for item in found if item.end is None and item.started is not None}
                labelled = sum("team" in item.labels for item in found)
                are_known = all(limit.is_known_to(one) for limit in limits.values())
                return are_known and ended >= set(last) and len(running) == len(kills) and labelled == len(kills) - 2

            disturbed.until(lambda: settled(calm), "the undisturbed collector to record everything")
            disturbed.until(lambda: settled(collector), "the disturbed collector to record everything")
            held, undisturbed = collector.holdings(place.namespace), calm.holdings(place.namespace)
            assert comparable(held) == comparable(undisturbed)
            for limit in limits.values():
                limit.check(calm)
                limit.check(collector)
            disturbed.until_measured()
            now = float(int(time.time()))
            assert calm.stop() == 0
            assert collector.stop() == 0
            mine, theirs = (rolled_up(one, prometheus.url, begun, now) for one in (collector, calm))
            group = Group(Level.NAMESPACE, value=place.namespace)
            assert [hour.sums[group] for hour in mine] == [hour.sums[group] for hour in theirs]
            total = mine[-1].sums[group]
            assert total.util_gpu_s == pytest.approx(40 * total.obs_gpu_s)
            assert 0 < total.obs_gpu_s < total.alloc_gpu_s
            assert discrepancies(mine[-1]) == []
        finally:
            calm.close()
            collector.close()
            prometheus.stop()
            exporter.close()
