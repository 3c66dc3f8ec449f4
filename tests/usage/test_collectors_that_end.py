"""Collectors, databases and Prometheus that end at any moment. Of two collectors one collects, whatever their clocks
say, and takes over when the other has gone; what one that is disturbed has written is what another has that is not."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.objects.api_resources import Key
from gpuctl_usage import leader_election
from gpuctl_usage.facts import EndReason, GpuQuota, Holding
from gpuctl_usage.gathering.gpu_samples import GpuSamples
from gpuctl_usage.hour_rollup import ConfiguredKeys, HourRoller, hour_of, hours_between
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


def test_one_of_two_has_it(database: Database) -> None:
    cluster = database.cluster("uid-1", "lab")
    free = database.lease(cluster)
    assert free == LeaseState(0, 0, "")
    first = database.take_lease(cluster, free, "one")
    assert first == (cluster, 1)
    # As it was seen it is no more.
    assert database.take_lease(cluster, free, "other") is None
    seen = database.lease(cluster)
    assert (seen.term, seen.holder) == (1, "one")
    led = database.with_lease(first)
    led.mark_seen(cluster, 5.0)
    assert database.take_lease(cluster, seen, "other") is None, "every write is a sign of life"
    assert database.lease(database.cluster("uid-2", "prod")) == LeaseState(0, 0, ""), "each cluster has its own"


def test_what_comes_late_is_not_written(database: Database) -> None:
    """Not a part of it: what was written in the same transaction is taken back."""
    cluster = database.cluster("uid-1", "lab")
    first = database.take_lease(cluster, database.lease(cluster), "one")
    assert first is not None
    late = database.with_lease(first)
    late.mark_seen(cluster, 5.0)
    second = database.take_lease(cluster, database.lease(cluster), "other")
    assert second == (cluster, 2)
    for write in (
        lambda: late.mark_seen(cluster, 9.0),
        lambda: late.put_holdings(cluster, [], 9.0),
        lambda: late.put_capacities(cluster, [], 9.0),
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


def test_a_process_is_known_to_have_ended() -> None:
    """Of this machine alone, and by when it began: numbers are used again."""
    ours = leader_election._ourselves()
    assert str(leader_election._Holder.of(str(ours))) == str(ours)
    assert not leader_election._has_ended(str(ours), ours)
    assert leader_election._has_ended(str(ours._replace(began="1")), ours)
    assert leader_election._has_ended(str(ours._replace(process=2**22 + 1)), ours)
    for other in (ours._replace(place="elsewhere", began="1"), ours._replace(place="", began="1")):
        assert not leader_election._has_ended(str(other), ours)
    assert not leader_election._has_ended("somebody", ours)
    assert ours.process == os.getpid()


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
def test_one_collects_and_the_other_takes_over(
    plane: ControlPlane, node: None, place: Place, tmp_path: Path, address: str
) -> None:
    """From one that is killed, from one that stands still, and from one that ends in order; and whoever wakes up late
    writes nothing. Their clocks are hours apart."""

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
        assert other.of(place.namespace, "first") == [first], "it goes on, and is there once"
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


# What is killed again and again.


def finishing(name: str, seconds: int) -> Object:
    """A pod whose containers end by themselves: when, the API server tells everybody alike."""
    made = pod(name)
    made["metadata"]["annotations"] = {"gpuctl.test/outcome": "complete", "gpuctl.test/duration": f"{seconds}s"}
    made["spec"]["restartPolicy"] = "Never"
    return made


class Disturbed:
    """A collector, its PostgreSQL and Prometheus, which are killed in turn."""

    def __init__(self, collector: Collecting, postgresql: PostgresqlServer, prometheus: PrometheusServer) -> None:
        self.collector = collector
        self.postgresql = postgresql
        self.prometheus = prometheus

    def kill(self, what: str, away: float) -> None:
        """Kill one of them; it is away for a while."""
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
        self.see_to_it()

    def until_measured(self) -> None:
        """Wait until Prometheus has asked the exporter a few times: it begins seconds after its start."""
        asking = Prometheus(self.prometheus.url)
        query = "count_over_time(DCGM_FI_DEV_GPU_UTIL[3s]) >= 2"
        self.until(lambda: asking.query_at(query, time.time(), 10), "Prometheus")

    def see_to_it(self) -> None:
        """Start the collector again if it has ended: as Kubernetes would, also where its database was away."""
        if not self.collector.running:
            self.collector.launch()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + 90
        while not condition():
            self.see_to_it()
            assert time.monotonic() < end, f"waiting for {what}: {self.collector.log}"
            time.sleep(0.1)


def to_the_second(holding: Holding) -> Holding:
    """Times of changes are told in whole seconds: one that knows that it came later in that second says so."""
    begins = float(int(holding.start))
    return holding._replace(start=begins, end=int(holding.end) if holding.ending is EndReason.CHANGED else holding.end)


def told(holdings: Iterable[Holding]) -> list[Holding]:
    """By what is told: of two that begin within a second, the order differs with who knows which came later."""
    return sorted(map(to_the_second, holdings), key=lambda item: (item.start, item.pod))


def rolled_up(collector: Collecting, url: str, start: float, now: float) -> list[RolledUp]:
    """The hours since a time, as they are at another, made of what a collector has written."""
    roller = HourRoller(collector.database, 1, GpuSamples(Prometheus(url)), 1.0, ConfiguredKeys(("team",), ()))
    for hour in hours_between(start, now):
        roller.roll(hour, now)
    return collector.database.rolled_up(1, hour_of(start), int(now) + 1)


class Limit:
    """The ResourceQuota of a namespace of its own: it comes, is lowered, and goes."""

    STEPS = ("8", "4", None)

    def __init__(self, place: Place, name: str) -> None:
        self.namespace = f"{place.namespace}-{name}"
        self._api = place.api
        self._times: list[tuple[float, float]] = []
        place.plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    @property
    def turn(self) -> int:
        """How many of its steps were taken."""
        return len(self._times)

    def go_on(self, known_until: float) -> None:
        """Take the next step.

        :param known_until: until when a collector that is killed now was sure of what quotas allow.
        """
        begun, amount = float(int(time.time())), self.STEPS[self.turn]
        key = Key("ResourceQuota", self.namespace, "most")
        spec = {"hard": {f"requests.{GPU}": amount}}
        if amount is None:
            self._api.call("DELETE", key.path)
            # No object says when it went.
            begun = min(begun, known_until)
        elif self.turn:
            self._api.call("PATCH", key.path, {"spec": spec}, MERGE_PATCH)
        else:
            made = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": key.name}, "spec": spec}
            self._api.call("POST", key.path.rpartition("/")[0], made)
        self._times.append((begun, math.inf))

    def is_over(self) -> None:
        """Whoever was killed in the last step has been: what was written before is not dated later than that."""
        if self.STEPS[self.turn - 1] is not None:
            self._times[-1] = (self._times[-1][0], time.time())

    def is_known_to(self, one: Collecting) -> bool:
        """Whether a collector has written what was done."""
        found = self._of(one)
        gpus = [f"{item.gpus:g}" for item in found] + [None for item in found[-1:] if item.end is not None]
        return gpus == list(self.STEPS[: self.turn])

    def check(self, one: Collecting) -> None:
        """What a collector has written is what was done, when it was done."""
        first, second = self._of(one)
        assert first.end == second.start
        for (earliest, latest), moment in zip(self._times, (first.start, second.start, second.end), strict=True):
            assert moment is not None
            assert earliest <= moment <= min(latest, time.time()), (self._times, first, second)

    def _of(self, one: Collecting) -> list[GpuQuota]:
        return [item for item in one.database.quotas(1, 0, 2**40) if item.namespace == self.namespace]


LIMITS = {0: "a", 3: "b", 4: "a", 5: "ba", 6: "b"}
"""By the number of a kill: whose quotas come, change or go with it."""


@pytest.mark.slow
def test_killed_at_any_moment(
    plane: ControlPlane, node: None, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is killed: the same intervals and sums as of a collector beside it that nobody disturbs, and the quotas
    that there were. Where Prometheus was away less is measured, and the mean is what it was."""
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
        disturbed = Disturbed(collector, postgresql, prometheus)
        try:
            prometheus.start()
            calm.start()
            collector.start()
            # What was before collecting began does not count, and pods have whole seconds.
            disturbed.until(lambda: calm.database.began(1) and collector.database.began(1), "both to begin")
            time.sleep(1)
            kills = ["collector", "postgresql"] * 3
            random.shuffle(kills)
            kills.insert(random.randint(2, 4), "prometheus")
            limits = {name: Limit(place, name) for name in "ab"}
            met = set()
            for number, what in enumerate(kills):
                for name, made in (
                    (f"long-{number}", pod(f"long-{number}")),
                    (f"short-{number}", finishing(f"short-{number}", 2)),
                ):
                    place.create(made)
                    exporter.lines.append(
                        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{len(exporter.lines)}",Hostname="{NODE}",'
                        f'namespace="{place.namespace}",pod="{name}"}} 40'
                    )
                if number >= 2:
                    # What was never seen with its first labels always had the last ones.
                    known = f"long-{number - 2}"
                    disturbed.until(lambda known=known: collector.of(place.namespace, known), known)
                    place.patch("Pod", known, {"metadata": {"labels": {"team": f"team-{number}"}}})
                changing = [limits[name] for name in LIMITS.get(number, "")]
                for limit in changing:
                    disturbed.until(lambda limit=limit: limit.is_known_to(collector), limit.namespace)
                    met.add((what, limit.turn))
                    limit.go_on(collector.database.quotas_seen(1) or 0.0)
                time.sleep(random.uniform(0.0, 0.8))
                disturbed.kill(what, random.uniform(0.0, 0.6))
                for limit in changing:
                    limit.is_over()
            assert met == {(what, turn) for what in ("collector", "postgresql") for turn in range(len(Limit.STEPS))}
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

            disturbed.until(lambda: settled(calm), "what is undisturbed to be written")
            disturbed.until(lambda: settled(collector), "what is disturbed to be written")
            held, undisturbed = collector.holdings(place.namespace), calm.holdings(place.namespace)
            assert told(held) == told(undisturbed)
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
