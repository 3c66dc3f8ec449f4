"""The tools of the tests of failures do what they say: a fault that is not injected would let every test pass."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fault_tools.documents import NEW, OLD
from fault_tools.proxy import (
    Proxy,
    after,
    before,
    cut_after,
    cut_before,
    first_of,
    html,
    matching,
    nth,
    on,
    refuse,
)
from fault_tools.site import Base, site
from fault_tools.world import FOREIGN, HASH, Api, Seen, Snapshot, foreign_objects, state_of

MAPS = "/api/v1/namespaces/{}/configmaps"


def _map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}}


class _Client:
    """A client of a proxy that keeps its connection."""

    def __init__(self, proxy: Proxy) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        self.headers = {"Authorization": f"Bearer {proxy.plane.tokens['admin']}"}

    def send(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        data = json.dumps(body) if body is not None else None
        self.connection.request(method, path, data, {**self.headers, "Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, response.read()


def test_proxy_fails_before_or_after_the_server_acts(proxy: Proxy, api: Api, namespace: Callable[[str], str]) -> None:
    space = namespace("tool-moments")
    calls: list[str] = []

    def hook() -> None:
        calls.append("called")

    for action, exists in ((before(hook), False), (after(hook), True), (cut_before, False), (cut_after, True)):
        proxy.reset(on(nth(1, matching("POST")), action))
        with pytest.raises(http.client.RemoteDisconnected):
            _Client(proxy).send("POST", MAPS.format(space), _map("one"))
        assert (("ConfigMap", "one") in api.snapshot(space)) is exists
        assert (len(proxy.writes()) == 1) is exists
        api.delete("ConfigMap", space, "one")
    assert calls == ["called", "called"]


def test_proxy_fails_only_the_chosen_requests(proxy: Proxy) -> None:
    path = MAPS.format("default")
    proxy.policy = first_of(
        on(nth(2, matching("GET", "/configmaps")), refuse(429, "TooManyRequests", "slow down", Retry_After="1")),
        on(nth(2, matching("GET", "/configmaps"), last=3), html(503)),
    )
    client = _Client(proxy)
    assert client.send("GET", "/version")[0] == 200
    assert [client.send("GET", path)[0] for _ in range(5)] == [200, 429, 503, 503, 200]


def _as_written(now: Snapshot) -> dict[tuple[str, str], object]:
    """Return the writers of objects in a namespace and what they wrote, without controllers."""
    return {
        key: (
            live.spec,
            [
                {field: value for field, value in entry.items() if field != "time"}
                for entry in live.object["metadata"]["managedFields"]
                if entry["manager"] == "gpuctl"
            ],
        )
        for key, live in now.items()
    }


@pytest.mark.usefixtures("shared_objects")
def test_prepared_site_equals_an_applied_one(base: Base, tmp_path: Path) -> None:
    """A recording that is written again in another namespace leaves an apply nothing to do there."""
    with site(base, "tool-applied", tmp_path / "applied") as place:
        base.api.create_namespace(place.namespace)
        for obj in foreign_objects():
            base.api.create(obj, place.namespace)
        place.file.write_text(OLD)
        assert place.apply().code == 0
        applied = place.snapshot()
    with site(base, "tool-prepared", tmp_path / "prepared") as place:
        place.prepare(OLD)
        prepared = place.snapshot()
        assert _as_written(prepared) == _as_written(applied)
        assert {key: live.hash for key, live in prepared.items()} != {key: live.hash for key, live in applied.items()}
        assert place.apply().code == 0
        assert place.proxy.writes() == []


@pytest.mark.usefixtures("shared_objects")
def test_equal_states_are_recognized(base: Base, tmp_path: Path) -> None:
    """Journals and leases included: what went the same way is the same, and nothing else is."""
    states = []
    seen = Seen()
    journal = matching("POST", "/secrets", writes=True)
    for name in ("one", "two"):
        with site(base, f"tool-state-{name}", tmp_path / name) as place:
            place.prepare(OLD)
            place.file.write_text(NEW)
            old = place.snapshot()
            hashes = base.recorded(NEW).hashes(place.namespace)
            place.disturb(place.apply_arguments, lambda victim: on(journal, after(lambda: victim().kill())))
            killed = place.snapshot()
            assert any(live.is_journal for live in killed.values())
            states.append(state_of(killed, old, hashes))
            assert seen.is_new(state_of(old, old, hashes)) is (name == "one")
            for change in (
                {"metadata": {"annotations": {HASH: "0" * 32}}},
                {"metadata": {"labels": {"somebody": "else"}}},
                {"metadata": {"finalizers": ["example.com/held"]}},
                {"spec": {"ports": [{"port": 81}]}},
            ):
                base.api.patch("Service", place.namespace, f"{FOREIGN}-service", change)
                assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one"), change
            base.api.patch("Service", place.namespace, f"{FOREIGN}-service", {"metadata": {"finalizers": None}})
            base.api.delete("Job", place.namespace, "train")
            base.api.wait(lambda: base.api.get("Job", place.namespace, "train") is None, "the job to go")
            assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one")
            for write in base.recorded(OLD).writes(place.namespace):
                if write.body["kind"] == "Job":
                    base.api.call(write.method, write.path, write.body, write.content_type)
            assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one")
    assert states[0] == states[1]
