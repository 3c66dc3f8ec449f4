"""Two collectors over one database: one collects, whatever their clocks say, and takes over when the other has gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane import ControlPlane
from gpuctl.backend.api_resources import Key
from gpuctl_usage import leading
from gpuctl_usage.facts import Ending
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.leases import LeaseLost, LeaseState
from gpuctl_usage.sums import RolledUp
from support.cluster_tools import GPU, POOL, Object, Place
from support.collecting import Collecting

NODE = f"{POOL}-0"
_BEFORE = """
import time
from gpuctl_usage import leading
leading.SILENT, leading.BEATS, leading._LOOKS = 4.0, 1.0, 0.5
real = time.time
time.time = lambda: real() + {skew}
"""
_WAITS, _OVER = "another collector collects; this one waits", "another collector has taken over; this one waits"
_LISTED = "all is listed"


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
    led = database.under(first)
    led.seen(cluster, 5.0)
    assert database.take_lease(cluster, seen, "other") is None, "every write is a sign of life"
    assert database.lease(database.cluster("uid-2", "prod")) == LeaseState(0, 0, ""), "each cluster has its own"


def test_what_comes_late_is_not_written(database: Database) -> None:
    """Not a part of it: what was written in the same transaction is taken back."""
    cluster = database.cluster("uid-1", "lab")
    first = database.take_lease(cluster, database.lease(cluster), "one")
    assert first is not None
    late = database.under(first)
    late.seen(cluster, 5.0)
    second = database.take_lease(cluster, database.lease(cluster), "other")
    assert second == (cluster, 2)
    for write in (
        lambda: late.seen(cluster, 9.0),
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
    database.under(second).give_lease_back()
    assert database.lease(cluster).holder == ""


def test_a_process_is_known_to_have_ended() -> None:
    """Of this machine alone, and by when it began: numbers are used again."""
    ours = leading._ourselves()
    assert str(leading._Holder.of(str(ours))) == str(ours)
    assert not leading._has_ended(str(ours), ours)
    assert leading._has_ended(str(ours._replace(began="1")), ours)
    assert leading._has_ended(str(ours._replace(process=2**22 + 1)), ours)
    for other in (ours._replace(place="elsewhere", began="1"), ours._replace(place="", began="1")):
        assert not leading._has_ended(str(other), ours)
    assert not leading._has_ended("somebody", ours)
    assert ours.process == os.getpid()


# Two processes.


@pytest.fixture(scope="module")
def node(plane: ControlPlane) -> None:
    plane.add_node(NODE, labels={"runwhere.ai/pool": POOL}, gpus=64, cpu="512", memory="4Ti")
    plane.wait_for_nodes()


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
        assert ended.ending in (Ending.DELETED, Ending.FINISHED)
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
