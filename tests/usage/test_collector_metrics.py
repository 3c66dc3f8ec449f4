"""Metrics and health of a collector: unknown values are omitted, and liveness fails only if a restart helps."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.collector_health import STUCK_AFTER, WRITE_TIMEOUT, CollectorHealth
from gpuctl_usage.collector_metrics import metrics_of
from gpuctl_usage.facts import Capacity, CapacityState, UsageKeys
from gpuctl_usage.health_listener import HealthListener, ListenError
from gpuctl_usage.hour_scheduling import HourRoller
from gpuctl_usage.store.database import Database, open_database
from support.prometheus_server import prometheus_programs
from support.usage_health import BEGIN, busy_health, held


def values(health: CollectorHealth, namespaces: Collection[str] | None = None) -> dict[str, float]:
    """Return series -> value, parsed from the metrics text."""
    lines = metrics_of(health, namespaces).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_metrics_of_a_running_collector() -> None:
    found = values(busy_health())
    assert found['gpuctl_usage_collecting{cluster="lab"}'] == 1
    assert found['gpuctl_usage_known_until_timestamp_seconds{cluster="lab"}'] == BEGIN + 5
    assert found['gpuctl_usage_last_write_timestamp_seconds{cluster="lab"}'] == pytest.approx(time.time(), abs=60)
    assert found['gpuctl_usage_last_hour_timestamp_seconds{cluster="lab"}'] == BEGIN - HOUR, "not the running one"
    assert found['gpuctl_usage_last_hour_coverage_ratio{cluster="lab"}'] == 0.75
    assert found['gpuctl_usage_last_hour_dropped_samples{cluster="lab"}'] == 3
    assert found['gpuctl_usage_open_ledgers{cluster="lab"}'] == 1
    assert found['gpuctl_usage_rollup_lag_seconds{cluster="lab"}'] == pytest.approx(time.time() - BEGIN, abs=60)
    assert found['gpuctl_usage_samples_total{cluster="lab"}'] == 12
    assert found['gpuctl_usage_watch_restarts_total{cluster="lab",kind="Pod"}'] == 3
    assert found['gpuctl_usage_database_bytes{cluster="lab"}'] == 4096
    pod = 'cluster="lab",label_team="%s",model="H100",namespace="a",node="n1",pod="%s",workload="w",workload_kind="Deployment"'
    assert found["gpuctl_usage_pod_gpus{" + pod % ("", "p") + "}"] == 2
    assert found["gpuctl_usage_pod_gpus{" + pod % ("vision", "q") + "}"] == 0.25
    assert found['gpuctl_usage_node_gpus{cluster="lab",model="H100",node="n1",state="cordoned"}'] == 8
    assert not any("pod=" in name or "node=" in name for name in values(busy_health(), ()))
    some = values(busy_health(), {"b"})
    assert any("node=" in name for name in some)
    assert not any("pod=" in name for name in some)


def test_unknown_values_are_omitted() -> None:
    """No lag of 50 years, no coverage of 0."""
    assert values(CollectorHealth()) == {
        'gpuctl_usage_collecting{cluster=""}': 0,
        'gpuctl_usage_open_ledgers{cluster=""}': 0,
        'gpuctl_usage_samples_total{cluster=""}': 0,
        'gpuctl_usage_unanswered_queries_total{cluster=""}': 0,
        'gpuctl_usage_write_failures_total{cluster=""}': 0,
    }


def test_label_values_are_escaped() -> None:
    """No value ends a line or a string, and keys with one label name become one label."""
    health = busy_health()
    odd = 'a"} 1\ngpuctl_usage_collecting 0 # \\ \ud800'
    health.holdings = [held(team=odd, **{"cost-center": "1", "cost_center": "2", "cost.center": "3"})]
    text = metrics_of(health)
    assert text.count(b"\ngpuctl_usage_collecting") == 1
    assert text.count(b"label_cost_center=") == 1
    assert b'label_cost_center="1"' in text
    checked = subprocess.run(
        [prometheus_programs() / "promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_failures_that_end_is_collecting() -> None:
    def collects(**changed: Any) -> bool:
        health = busy_health()
        for name, value in changed.items():
            setattr(health, name, value)
        return health.is_collecting

    assert collects()
    assert not collects(listed=False)
    assert not collects(problem="the disk is full")
    assert not collects(written_at=None)
    assert not collects(written_at=time.time() - WRITE_TIMEOUT - 1)
    assert not collects(_last_loop=time.monotonic() - STUCK_AFTER - 1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = open_database(str(tmp_path / "usage.db"))
    assert found.put_cluster("uid", "lab") == 1
    yield found
    found.close()


def test_open_ledgers_are_restored_after_a_restart(database: Database) -> None:
    """Open ledgers (a node holds more GPUs than it has), and the end of the complete hours, are restored."""
    database.put_changes(
        1,
        BEGIN + 9.0 * HOUR,
        capacities=[Capacity("n1", "H100", 1, CapacityState.READY, BEGIN, None)],
        holdings=[held(gpus=4)],
    )
    now = BEGIN + 2 * HOUR + 120.0

    def begun(moment: float) -> tuple[HourRoller, CollectorHealth]:
        health = CollectorHealth()
        roller = HourRoller(database, 1, None, 15, UsageKeys((), ()), health)
        roller.begin(moment)
        return roller, health

    roller, health = begun(BEGIN + 60.0)
    assert health.rolled_until is None
    for hour in (BEGIN, BEGIN + HOUR):
        roller.roll(hour, now)
    assert [hour.open > 0 for hour in health.hours.values()] == [True, True]
    assert health.rolled_until == BEGIN + 2 * HOUR
    assert begun(now)[1].hours == health.hours
    assert begun(now + HOUR)[1].rolled_until == BEGIN + 2 * HOUR, "an hour is missing"
    assert set(begun(now + DAY - HOUR)[1].hours) == {BEGIN + HOUR}, "of the last day"
    database.put_changes(
        1, BEGIN + 9.0 * HOUR, capacities=[Capacity("n1", "H100", 8, CapacityState.READY, BEGIN, None)]
    )
    roller.roll(BEGIN, now)
    assert [hour.open > 0 for hour in health.hours.values()] == [False, True]
    assert database.size() % 4096 == 0
    assert database.size() >= 10 * 4096


def test_health_listener_endpoints() -> None:
    health = CollectorHealth()
    listener = HealthListener("127.0.0.1:0", health)
    try:
        url = f"http://127.0.0.1:{listener.port}"
        assert httpx.get(f"{url}/readyz").status_code == 503
        assert (httpx.get(f"{url}/healthz").status_code, httpx.get(f"{url}/other").status_code) == (200, 404)
        health.listed = True
        health.write_succeeded(time.time())
        ready = httpx.get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["collecting"], ready.json()["problem"]) == (200, True, None)
        health.write_failed("the disk is full")
        assert httpx.get(f"{url}/readyz").json()["problem"] == "the disk is full"
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}, "a restart does not free the disk"
        health._last_loop -= STUCK_AFTER
        assert httpx.get(f"{url}/healthz").status_code == 503
        metrics = httpx.get(f"{url}/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "gpuctl_usage_collecting" in metrics.text
        assert httpx.post(f"{url}/metrics").status_code == 501
        with socket.create_connection(("127.0.0.1", listener.port), timeout=5) as odd:
            odd.sendall(b"\x16\x03\x01\x00 what is this\r\n\r\n")
            assert odd.recv(100)
        assert httpx.get(f"{url}/metrics").status_code == 200
        with pytest.raises(ListenError, match="Address already in use"):
            HealthListener(f"127.0.0.1:{listener.port}", health)
    finally:
        listener.close()


@pytest.mark.parametrize("address", ["9464", "localhost", "127.0.0.1:99999", "::1:80", "a b:80", "http://x:80"])
def test_invalid_listen_addresses_are_rejected(address: str) -> None:
    with pytest.raises(ListenError, match=re.escape(f"`{address}` is not a listen address")):
        HealthListener(address, CollectorHealth())


def test_unresolvable_listen_address_is_reported() -> None:
    with pytest.raises(
        ListenError, match=r"cannot listen on no\.such\.host\.invalid:0: .*; set another address with --metrics"
    ):
        HealthListener("no.such.host.invalid:0", CollectorHealth())
    listener = HealthListener("[::1]:0", CollectorHealth())
    assert json.loads(httpx.get(f"http://[::1]:{listener.port}/healthz").text) == {"status": "ok"}
    listener.close()
