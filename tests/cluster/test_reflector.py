"""The reflector (list and watch) with the errors that servers, networks and load balancers cause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fault_tools.proxy import (
    Action,
    Policy,
    Proxy,
    Request,
    cut_before,
    cut_stream,
    first_of,
    matching,
    nth,
    on,
    refuse,
)
from fault_tools.world import path_of
from gpuctl.kube import session as session_module
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.configuration import open_session
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from support.cluster_tools import Place

LIST = matching("GET", "/configmaps", watch=False)
WATCH = matching("GET", "/configmaps", watch=True)


class EventChecker:
    """Follows the ConfigMaps of a namespace; checks that no event comes twice and no unknown object is deleted."""

    def __init__(self, session: Session, namespace: str) -> None:
        self.there: dict[str, str] = {}
        self.events: list[str] = []
        self.errors: list[ClusterError] = []
        self._changed = threading.Condition()
        self._versions: set[str] = set()
        watched = WatchedList("ConfigMap", namespace, "watched=yes")
        self.reflector = Reflector(session, [watched], self._on_event)
        self.reflector.start()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, 60), f"{what}: {self.events} {self.errors}"

    def sees(self, *names: str) -> None:
        """Wait until exactly these objects exist."""
        self.until(lambda: set(self.there) == set(names), f"expected {names}")

    def _on_event(self, event: Event | ClusterError) -> None:
        with self._changed:
            if isinstance(event, Event):
                self._note(event)
            else:
                self.errors.append(event)
            self._changed.notify_all()

    def _note(self, event: Event) -> None:
        name = event.object["metadata"]["name"] if event.object else ""
        self.events.append(f"{event.type} {name}".strip())
        if event.type == "LISTED":
            return
        metadata = event.object["metadata"]
        if event.type == "DELETED":
            assert self.there.pop(name) == metadata["uid"]
            return
        assert metadata["resourceVersion"] not in self._versions, "the same version was reported twice"
        self._versions.add(metadata["resourceVersion"])
        assert (event.type == "MODIFIED") == (self.there.get(name) == metadata["uid"])
        self.there[name] = metadata["uid"]


class NamespaceConfigMaps:
    """Creates, changes and deletes ConfigMaps of a namespace."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def create(self, *names: str) -> None:
        for name in names:
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"watched": "yes"}}}
            self.place.api.call("POST", path_of("ConfigMap", self.place.namespace), obj)

    def change(self, name: str, value: str) -> None:
        path = path_of("ConfigMap", self.place.namespace, name)
        self.place.api.call("PATCH", path, {"data": {"x": value}}, "application/merge-patch+json")

    def delete(self, name: str) -> None:
        self.place.api.call("DELETE", path_of("ConfigMap", self.place.namespace, name))


@pytest.fixture
def config_maps(place: Place) -> NamespaceConfigMaps:
    return NamespaceConfigMaps(place)


@pytest.fixture
def session(proxy: Proxy) -> Iterator[Session]:
    """A session whose requests go through the proxy."""
    made = open_session()
    yield made
    made.close()


@pytest.fixture
def start_checker(session: Session, place: Place) -> Iterator[Callable[[], EventChecker]]:
    """Return a function that starts a checker, which is stopped after the test."""
    begun: list[EventChecker] = []

    def begin() -> EventChecker:
        begun.append(EventChecker(session, place.namespace))
        return begun[-1]

    yield begin
    for one in begun:
        one.reflector.stop()


def matching_requests(proxy: Proxy, wanted: Callable[[Request], bool]) -> list[Request]:
    """Return the recorded requests that match."""
    return [record.request for record in list(proxy.records) if wanted(record.request)]


def test_reflector_reports_changes_in_order(
    config_maps: NamespaceConfigMaps, proxy: Proxy, start_checker: Callable[[], EventChecker]
) -> None:
    config_maps.create("a", "b")
    one = start_checker()
    one.sees("a", "b")
    one.until(lambda: "LISTED" in one.events, "the end of the first list")
    assert one.events[-1] == "LISTED", "LISTED comes after the objects"
    config_maps.create("c")
    config_maps.change("a", "1")
    config_maps.delete("b")
    one.sees("a", "c")
    one.until(lambda: one.events[-3:] == ["ADDED c", "MODIFIED a", "DELETED b"], "events in order")
    assert all(request.query["allowWatchBookmarks"] == "true" for request in matching_requests(proxy, WATCH))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "lists"),
    [
        (cut_before, 1),
        (refuse(429, "TooManyRequests", "not now"), 1),
        (refuse(503, "ServiceUnavailable", "not now"), 1),
        (refuse(410, "Expired", "too old resource version"), 2),
        (refuse(504, "Timeout", "Too large resource version: 9999, current: 1"), 2),
    ],
)
def test_refused_watch_resumes_or_lists_again(
    config_maps: NamespaceConfigMaps,
    proxy: Proxy,
    start_checker: Callable[[], EventChecker],
    trouble: Action,
    lists: int,
) -> None:
    """A retryable error repeats the watch from its version; an expired or unknown version causes a new list."""
    config_maps.create("a")
    proxy.reset(on(nth(1, WATCH), trouble))
    one = start_checker()
    one.sees("a")
    config_maps.create("b")
    one.sees("a", "b")
    assert len(matching_requests(proxy, LIST)) == lists


def test_broken_watch_resumes_from_its_last_version(
    config_maps: NamespaceConfigMaps, proxy: Proxy, start_checker: Callable[[], EventChecker]
) -> None:
    """The stream is cut inside an event several times; the first list remains the only one."""
    config_maps.create("a")
    proxy.reset(on(nth(1, WATCH, last=3), cut_stream(700)))
    one = start_checker()
    one.sees("a")
    for number in range(6):
        config_maps.change("a", str(number))
    config_maps.create("b")
    config_maps.delete("a")
    one.sees("b")
    watches = matching_requests(proxy, WATCH)
    assert len(watches) > 1
    assert len(matching_requests(proxy, LIST)) == 1


@pytest.mark.slow
def test_changes_are_found_by_lists_if_every_watch_fails(
    config_maps: NamespaceConfigMaps, proxy: Proxy, start_checker: Callable[[], EventChecker]
) -> None:
    """Every watch ends before its first event, so changes are found by listing."""
    config_maps.create("a", "b")
    proxy.reset(on(WATCH, cut_before))
    one = start_checker()
    one.sees("a", "b")
    config_maps.change("a", "1")
    config_maps.delete("b")
    config_maps.create("c")
    one.sees("a", "c")
    assert one.events.count("DELETED b") == 1


@pytest.mark.parametrize("times", [1, 2])
def test_expired_list_starts_again(
    config_maps: NamespaceConfigMaps,
    proxy: Proxy,
    start_checker: Callable[[], EventChecker],
    monkeypatch: pytest.MonkeyPatch,
    times: int,
) -> None:
    """The continue token of a page expires: the list starts again, the second time without pages."""
    monkeypatch.setattr(Session, "page_size", 2)
    config_maps.create(*"abcde")

    def is_next_page(request: Request) -> bool:
        return LIST(request) and "continue" in request.query

    proxy.reset(on(nth(2, is_next_page, last=1 + times), refuse(410, "Expired", "the continue parameter is too old")))
    one = start_checker()
    one.sees(*"abcde")
    one.until(lambda: one.events[-1] == "LISTED", "the list's end")
    assert sorted(one.events[:-1]) == [f"ADDED {name}" for name in "abcde"]
    assert ("limit" in matching_requests(proxy, LIST)[-1].query) == (times == 1)


@pytest.mark.slow
def test_reflector_catches_up_after_a_server_restart(
    config_maps: NamespaceConfigMaps, proxy: Proxy, start_checker: Callable[[], EventChecker]
) -> None:
    """The server loses its watch cache: versions that it no longer has (410) cause a new list."""
    config_maps.create("a", "b")
    one = start_checker()
    one.sees("a", "b")
    one.until(lambda: "LISTED" in one.events, "the first list")
    away = threading.Event()

    def cut_watches(request: Request) -> Action | None:
        return None if away.is_set() or not WATCH(request) else cut_before

    # Changes before the watch is open again are not events of that watch.
    proxy.reset(cut_watches)
    config_maps.place.plane.stop_api_server(kill=True)
    config_maps.place.plane.start_api_server()
    config_maps.delete("a")
    config_maps.change("b", "1")
    config_maps.create("c")
    config_maps.place.plane.restart_api_server(kill=True)
    away.set()
    one.sees("b", "c")
    one.until(lambda: "MODIFIED b" in one.events, "the change made during the restart")
    config_maps.create("d")
    one.sees("b", "c", "d")
    assert one.errors == []


@pytest.mark.slow
def test_bookmarks_advance_the_resource_version(
    config_maps: NamespaceConfigMaps,
    proxy: Proxy,
    start_checker: Callable[[], EventChecker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No watched object changes, but the next watch starts at a newer version that the server still has."""
    monkeypatch.setattr(session_module, "WATCH_TIMEOUT", 10)
    monkeypatch.setattr(session_module, "jittered", lambda seconds: 1.0)
    config_maps.create("a")
    one = start_checker()
    one.sees("a")
    one.until(lambda: "LISTED" in one.events, "the first list")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
    config_maps.place.api.call("POST", path_of("ConfigMap", config_maps.place.namespace), other)
    deadline = time.monotonic() + 120
    # The server sends a bookmark shortly before the watch ends, but may miss it.
    while len({request.query["resourceVersion"] for request in matching_requests(proxy, WATCH)}) < 2:
        said = f"every watch starts at the first version: {one.events} {one.errors} {list(map(str, proxy.records))}"
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    versions = [int(request.query["resourceVersion"]) for request in matching_requests(proxy, WATCH)]
    assert versions[-1] > versions[0]
    assert len(matching_requests(proxy, LIST)) == 1


def test_forbidden_watch_raises(config_maps: NamespaceConfigMaps, proxy: Proxy, session: Session, place: Place) -> None:
    config_maps.create("a")
    message = 'configmaps is forbidden: User "x" cannot watch resource "configmaps" in API group ""'
    proxy.reset(on(WATCH, refuse(403, "Forbidden", message)))
    reflector = Reflector(session, [WatchedList("ConfigMap", place.namespace, "watched=yes")])
    reflector.start()
    told: list[str] = []
    with pytest.raises(ApiError, match="may not watch configmaps"):
        told += [event.type for event in reflector.events(30) if event is not None]
    reflector.stop()


@pytest.mark.slow
def test_stop_ends_all_threads_promptly(config_maps: NamespaceConfigMaps, session: Session, place: Place) -> None:
    """The watch is silent and a thread waits for events; both end without waiting for the watch timeout."""
    reflector = Reflector(session, [WatchedList("ConfigMap", place.namespace, "watched=yes")])
    before = set(threading.enumerate())
    reflector.start()
    listed = threading.Event()

    def read() -> None:
        for event in reflector.events():
            if event is not None and event.type == "LISTED":
                listed.set()

    reader = threading.Thread(target=read)
    reader.start()
    threads = [thread for thread in threading.enumerate() if thread not in before]
    assert listed.wait(30)
    # By then the watch is open or about to be opened.
    time.sleep(0.5)
    reflector.stop()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "the thread still runs; a watch would take at least 40 s"


@pytest.mark.slow
def test_reflector_survives_a_mix_of_errors(
    config_maps: NamespaceConfigMaps, proxy: Proxy, start_checker: Callable[[], EventChecker]
) -> None:
    """Several errors in a row while objects are created and deleted; the final state is correct."""
    troubles: list[Policy] = [
        on(nth(2, WATCH), cut_stream(500)),
        on(nth(4, WATCH), refuse(410, "Gone", "too old")),
        on(nth(5, WATCH), refuse(500, "InternalError", "etcdserver: leader changed")),
        on(nth(7, WATCH), cut_before),
        on(nth(2, LIST), refuse(503, "ServiceUnavailable", "not now")),
    ]
    proxy.reset(first_of(*troubles))
    config_maps.create("keep")
    one = start_checker()
    one.sees("keep")
    for number in range(12):
        config_maps.create(f"m-{number}")
        config_maps.change("keep", str(number))
        if number % 3 == 0:
            config_maps.delete(f"m-{number}")
        if number % 4 == 0:
            proxy.drain()
    one.sees("keep", *(f"m-{number}" for number in range(12) if number % 3))


@pytest.mark.slow
def test_field_selector_applies_to_list_and_watch(
    config_maps: NamespaceConfigMaps, proxy: Proxy, session: Session
) -> None:
    """Objects that the field selector excludes are neither listed nor reported."""
    config_maps.create("a", "b")
    told: list[str] = []
    done = threading.Event()

    def on_event(event: Event | ClusterError) -> None:
        assert isinstance(event, Event)
        told.append(f"{event.type} {event.object['metadata']['name']}" if event.object else event.type)
        if told[-1] == "DELETED a":
            done.set()

    watched = WatchedList("ConfigMap", config_maps.place.namespace, fields="metadata.name=a")
    reflector = Reflector(session, [watched], on_event)
    reflector.start()
    config_maps.place.until(lambda: "LISTED" in told, "the list")
    config_maps.change("b", "1")
    config_maps.create("c")
    config_maps.change("a", "1")
    config_maps.delete("b")
    config_maps.delete("a")
    assert done.wait(60), told
    reflector.stop()
    assert told == ["ADDED a", "LISTED", "MODIFIED a", "DELETED a"]
    selectors = {
        request.query.get("fieldSelector")
        for request in [*matching_requests(proxy, LIST), *matching_requests(proxy, WATCH)]
    }
    assert selectors == {"metadata.name=a"}


@pytest.mark.slow
def test_events_contain_only_the_kept_fields(
    config_maps: NamespaceConfigMaps, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for paged lists, watches, and deletions found by a second list; nothing else is stored."""
    monkeypatch.setattr(Session, "page_size", 2)
    config_maps.create(*"abcde")
    told: list[Event] = []

    def keep(obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {key: obj["metadata"][key] for key in ("name", "uid", "resourceVersion")}
        return {"kind": obj["kind"], "metadata": metadata}

    def on_event(event: Event | ClusterError) -> None:
        assert isinstance(event, Event)
        told.append(event)

    reflector = Reflector(
        session, [WatchedList("ConfigMap", config_maps.place.namespace, "watched=yes")], on_event, keep
    )
    reflector.start()
    config_maps.place.until(lambda: any(event.type == "LISTED" for event in told), "the list")
    config_maps.change("a", "1")
    config_maps.delete("b")
    config_maps.place.until(lambda: told[-1].type == "DELETED", "the deletion")
    reflector.stop()
    assert [event.type for event in told] == [*["ADDED"] * 5, "LISTED", "MODIFIED", "DELETED"]
    for event in told:
        assert event.type == "LISTED" or set(event.object["metadata"]) == {"name", "uid", "resourceVersion"}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["list", "watch"])
@pytest.mark.parametrize("status", [401, 403])
def test_refused_list_or_watch_is_retried(
    config_maps: NamespaceConfigMaps, proxy: Proxy, session: Session, when: str, status: int
) -> None:
    """The reflector reports the errors; after the rights are granted again, LISTED and the missed changes."""
    config_maps.create("a", "b")
    wanted = LIST if when == "list" else WATCH
    refused = threading.Event()
    proxy.reset(lambda request: None if refused.is_set() or not wanted(request) else refuse(status, "Forbidden", "no"))
    told: list[str] = []

    def on_event(event: Event | ClusterError) -> None:
        name = event.object["metadata"]["name"] if isinstance(event, Event) and event.object else ""
        told.append(f"{event.type} {name}".strip() if isinstance(event, Event) else f"error {event.status}")  # type: ignore[attr-defined]

    reflector = Reflector(
        session, [WatchedList("ConfigMap", config_maps.place.namespace, "watched=yes")], on_event, retry_after=0.3
    )
    reflector.start()
    config_maps.place.until(lambda: told.count(f"error {status}") > 1, "two attempts")
    config_maps.delete("a")
    config_maps.create("c")
    refused.set()
    config_maps.place.until(lambda: told[-1] == "LISTED", "the list")
    before = told.index(f"error {status}")
    if when == "watch":
        assert told[:before] == ["ADDED a", "ADDED b", "LISTED"]
        later = [item for item in told[before:] if item != "LISTED" and not item.startswith("error")]
        assert sorted(later) == ["ADDED c", "DELETED a"]
    else:
        assert sorted(item for item in told if not item.startswith("error")) == ["ADDED b", "ADDED c", "LISTED"]
    config_maps.create("d")
    config_maps.place.until(lambda: told[-1] == "ADDED d", "the next change")
    reflector.stop()


@pytest.mark.slow
def test_missing_kind_is_listed_as_empty_and_retried(place: Place, proxy: Proxy, session: Session) -> None:
    """The reflector reports an empty list and tries again."""
    missing = refuse(404, "NotFound", "the server could not find the requested resource")
    proxy.reset(on(matching("GET", "/jobsets"), missing))
    told: list[str] = []

    def on_event(event: Event | ClusterError) -> None:
        assert isinstance(event, Event), event
        told.append(f"{event.type} {event.object['metadata']['name']}" if event.object else event.type)

    reflector = Reflector(session, [WatchedList("JobSet", place.namespace)], on_event, retry_after=0.3)
    reflector.start()
    place.until(lambda: len(told) > 2, "several attempts")
    assert set(told) == {"LISTED"}
    reflector.stop()
