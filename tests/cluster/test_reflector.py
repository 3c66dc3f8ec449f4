"""Lists that are followed, over whatever servers, networks and load balancers do to a watch."""

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


class Witness:
    """Follows the ConfigMaps of a namespace, and holds that nothing comes twice and nothing leaves that never came."""

    def __init__(self, session: Session, namespace: str) -> None:
        self.there: dict[str, str] = {}
        self.events: list[str] = []
        self.errors: list[ClusterError] = []
        self._changed = threading.Condition()
        self._versions: set[str] = set()
        watched = WatchedList("ConfigMap", namespace, "watched=yes")
        self.reflector = Reflector(session, [watched], self._hear)
        self.reflector.start()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, 60), f"{what}: {self.events} {self.errors}"

    def sees(self, *names: str) -> None:
        """Wait until these are there, and no others."""
        self.until(lambda: set(self.there) == set(names), f"{names} are to be there")

    def _hear(self, event: Event | ClusterError) -> None:
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
        assert metadata["resourceVersion"] not in self._versions, "it came twice"
        self._versions.add(metadata["resourceVersion"])
        assert (event.type == "MODIFIED") == (self.there.get(name) == metadata["uid"])
        self.there[name] = metadata["uid"]


class Site:
    """A namespace's ConfigMaps."""

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
def site(place: Place) -> Site:
    return Site(place)


@pytest.fixture
def session(proxy: Proxy) -> Iterator[Session]:
    """A session through the proxy."""
    made = open_session()
    yield made
    made.close()


@pytest.fixture
def witness(session: Session, place: Place) -> Iterator[Callable[[], Witness]]:
    """Starts a witness, which ends with the test."""
    begun: list[Witness] = []

    def begin() -> Witness:
        begun.append(Witness(session, place.namespace))
        return begun[-1]

    yield begin
    for one in begun:
        one.reflector.stop()


def seen(proxy: Proxy, wanted: Callable[[Request], bool]) -> list[Request]:
    """The requests so far that are of a kind."""
    return [record.request for record in list(proxy.records) if wanted(record.request)]


def test_what_comes_and_goes(site: Site, proxy: Proxy, witness: Callable[[], Witness]) -> None:
    site.create("a", "b")
    one = witness()
    one.sees("a", "b")
    one.until(lambda: "LISTED" in one.events, "the end of the first list")
    assert one.events[-1] == "LISTED", "the objects come before it"
    site.create("c")
    site.change("a", "1")
    site.delete("b")
    one.sees("a", "c")
    one.until(lambda: one.events[-3:] == ["ADDED c", "MODIFIED a", "DELETED b"], "events in order")
    assert all(request.query["allowWatchBookmarks"] == "true" for request in seen(proxy, WATCH))


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
def test_a_watch_that_is_not_taken(
    site: Site, proxy: Proxy, witness: Callable[[], Witness], trouble: Action, lists: int
) -> None:
    """What the server will know again is watched from where it was; the rest is listed again."""
    site.create("a")
    proxy.reset(on(nth(1, WATCH), trouble))
    one = witness()
    one.sees("a")
    site.create("b")
    one.sees("a", "b")
    assert len(seen(proxy, LIST)) == lists


def test_a_watch_that_breaks_goes_on_where_it_was(site: Site, proxy: Proxy, witness: Callable[[], Witness]) -> None:
    """In the middle of an event, again and again; one list is enough."""
    site.create("a")
    proxy.reset(on(nth(1, WATCH, last=3), cut_stream(700)))
    one = witness()
    one.sees("a")
    for number in range(6):
        site.change("a", str(number))
    site.create("b")
    site.delete("a")
    one.sees("b")
    watches = seen(proxy, WATCH)
    assert len(watches) > 1
    assert len(seen(proxy, LIST)) == 1


@pytest.mark.slow
def test_a_network_that_lets_no_stream_through(site: Site, proxy: Proxy, witness: Callable[[], Witness]) -> None:
    """Every watch ends before its first word: what changes is seen in lists."""
    site.create("a", "b")
    proxy.reset(on(WATCH, cut_before))
    one = witness()
    one.sees("a", "b")
    site.change("a", "1")
    site.delete("b")
    site.create("c")
    one.sees("a", "c")
    assert one.events.count("DELETED b") == 1


@pytest.mark.parametrize("times", [1, 2])
def test_a_list_that_expires_under_itself(
    site: Site, proxy: Proxy, witness: Callable[[], Witness], monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Its next page is gone: it begins again, the second time without pages."""
    monkeypatch.setattr(session_module, "PAGE", 2)
    site.create(*"abcde")

    def is_next_page(request: Request) -> bool:
        return LIST(request) and "continue" in request.query

    proxy.reset(on(nth(2, is_next_page, last=1 + times), refuse(410, "Expired", "the continue parameter is too old")))
    one = witness()
    one.sees(*"abcde")
    one.until(lambda: one.events[-1] == "LISTED", "the list's end")
    assert sorted(one.events[:-1]) == [f"ADDED {name}" for name in "abcde"]
    assert ("limit" in seen(proxy, LIST)[-1].query) == (times == 1)


def test_the_server_is_killed_and_comes_back(site: Site, proxy: Proxy, witness: Callable[[], Witness]) -> None:
    """Its memory of old versions is gone with it: what it does not know any more (410) is listed again."""
    site.create("a", "b")
    one = witness()
    one.sees("a", "b")
    one.until(lambda: "LISTED" in one.events, "the first list")
    away = threading.Event()

    def meanwhile(request: Request) -> Action | None:
        return None if away.is_set() or not WATCH(request) else cut_before

    # What happens before the server knows of the watch again is in no event of it.
    proxy.reset(meanwhile)
    site.place.plane.stop_api_server(kill=True)
    site.place.plane.start_api_server()
    site.delete("a")
    site.change("b", "1")
    site.create("c")
    site.place.plane.restart_api_server(kill=True)
    away.set()
    one.sees("b", "c")
    one.until(lambda: "MODIFIED b" in one.events, "what changed meanwhile")
    site.create("d")
    one.sees("b", "c", "d")
    assert one.errors == []


@pytest.mark.slow
def test_bookmarks_say_how_far_a_watch_is(
    site: Site, proxy: Proxy, witness: Callable[[], Witness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of ours happens, and yet the next watch begins later: at a version that the server still knows."""
    monkeypatch.setattr(session_module, "WATCH_TIMEOUT", 10)
    monkeypatch.setattr(session_module, "jittered", lambda seconds: 1.0)
    site.create("a")
    one = witness()
    one.sees("a")
    one.until(lambda: "LISTED" in one.events, "the first list")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
    site.place.api.call("POST", path_of("ConfigMap", site.place.namespace), other)
    deadline = time.monotonic() + 120
    # The server tells how far it is shortly before the end, which it may miss.
    while len({request.query["resourceVersion"] for request in seen(proxy, WATCH)}) < 2:
        said = f"every watch begins where the first one did: {one.events} {one.errors} {list(map(str, proxy.records))}"
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    versions = [int(request.query["resourceVersion"]) for request in seen(proxy, WATCH)]
    assert versions[-1] > versions[0]
    assert len(seen(proxy, LIST)) == 1


def test_what_may_no_longer_be_read(site: Site, proxy: Proxy, session: Session, place: Place) -> None:
    site.create("a")
    message = 'configmaps is forbidden: User "x" cannot watch resource "configmaps" in API group ""'
    proxy.reset(on(WATCH, refuse(403, "Forbidden", message)))
    reflector = Reflector(session, [WatchedList("ConfigMap", place.namespace, "watched=yes")])
    reflector.start()
    told: list[str] = []
    with pytest.raises(ApiError, match="may not watch configmaps"):
        told += [event.type for event in reflector.events(30) if event is not None]
    reflector.stop()


@pytest.mark.slow
def test_the_end_comes_at_once(site: Site, session: Session, place: Place) -> None:
    """However long the watch would have been silent, and whoever waits for events."""
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
    # Its watch is under way by then, or will be.
    time.sleep(0.5)
    reflector.stop()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a watch takes 40 s at least"


@pytest.mark.slow
def test_all_of_it_at_once(site: Site, proxy: Proxy, witness: Callable[[], Witness]) -> None:
    """Troubles one after another while objects come and go: in the end it knows what is there."""
    troubles: list[Policy] = [
        on(nth(2, WATCH), cut_stream(500)),
        on(nth(4, WATCH), refuse(410, "Gone", "too old")),
        on(nth(5, WATCH), refuse(500, "InternalError", "etcdserver: leader changed")),
        on(nth(7, WATCH), cut_before),
        on(nth(2, LIST), refuse(503, "ServiceUnavailable", "not now")),
    ]
    proxy.reset(first_of(*troubles))
    site.create("keep")
    one = witness()
    one.sees("keep")
    for number in range(12):
        site.create(f"m-{number}")
        site.change("keep", str(number))
        if number % 3 == 0:
            site.delete(f"m-{number}")
        if number % 4 == 0:
            proxy.drain()
    one.sees("keep", *(f"m-{number}" for number in range(12) if number % 3))


@pytest.mark.slow
def test_fields_narrow_a_list_and_its_watch(site: Site, proxy: Proxy, session: Session) -> None:
    """What has another value is neither listed nor told of later."""
    site.create("a", "b")
    told: list[str] = []
    done = threading.Event()

    def hear(event: Event | ClusterError) -> None:
        assert isinstance(event, Event)
        told.append(f"{event.type} {event.object['metadata']['name']}" if event.object else event.type)
        if told[-1] == "DELETED a":
            done.set()

    watched = WatchedList("ConfigMap", site.place.namespace, fields="metadata.name=a")
    reflector = Reflector(session, [watched], hear)
    reflector.start()
    site.place.until(lambda: "LISTED" in told, "the list")
    site.change("b", "1")
    site.create("c")
    site.change("a", "1")
    site.delete("b")
    site.delete("a")
    assert done.wait(60), told
    reflector.stop()
    assert told == ["ADDED a", "LISTED", "MODIFIED a", "DELETED a"]
    selectors = {request.query.get("fieldSelector") for request in [*seen(proxy, LIST), *seen(proxy, WATCH)]}
    assert selectors == {"metadata.name=a"}


@pytest.mark.slow
def test_what_is_kept_of_objects_is_what_is_told(site: Site, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list that comes in pages, of a watch, and of what a second list finds gone: nothing else is remembered."""
    monkeypatch.setattr(session_module, "PAGE", 2)
    site.create(*"abcde")
    told: list[Event] = []

    def keep(obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {key: obj["metadata"][key] for key in ("name", "uid", "resourceVersion")}
        return {"kind": obj["kind"], "metadata": metadata}

    def hear(event: Event | ClusterError) -> None:
        assert isinstance(event, Event)
        told.append(event)

    reflector = Reflector(session, [WatchedList("ConfigMap", site.place.namespace, "watched=yes")], hear, keep)
    reflector.start()
    site.place.until(lambda: any(event.type == "LISTED" for event in told), "the list")
    site.change("a", "1")
    site.delete("b")
    site.place.until(lambda: told[-1].type == "DELETED", "the deletion")
    reflector.stop()
    assert [event.type for event in told] == [*["ADDED"] * 5, "LISTED", "MODIFIED", "DELETED"]
    for event in told:
        assert event.type == "LISTED" or set(event.object["metadata"]) == {"name", "uid", "resourceVersion"}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["list", "watch"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_list_that_ended_is_tried_again(site: Site, proxy: Proxy, session: Session, when: str, status: int) -> None:
    """Rights that were taken away come back: the error is told, then LISTED, and what changed meanwhile."""
    site.create("a", "b")
    wanted = LIST if when == "list" else WATCH
    refused = threading.Event()
    proxy.reset(lambda request: None if refused.is_set() or not wanted(request) else refuse(status, "Forbidden", "no"))
    told: list[str] = []

    def hear(event: Event | ClusterError) -> None:
        name = event.object["metadata"]["name"] if isinstance(event, Event) and event.object else ""
        told.append(f"{event.type} {name}".strip() if isinstance(event, Event) else f"error {event.status}")  # type: ignore[attr-defined]

    reflector = Reflector(
        session, [WatchedList("ConfigMap", site.place.namespace, "watched=yes")], hear, retry_after=0.3
    )
    reflector.start()
    site.place.until(lambda: told.count(f"error {status}") > 1, "two attempts")
    site.delete("a")
    site.create("c")
    refused.set()
    site.place.until(lambda: told[-1] == "LISTED", "the list")
    before = told.index(f"error {status}")
    if when == "watch":
        assert told[:before] == ["ADDED a", "ADDED b", "LISTED"]
        later = [item for item in told[before:] if item != "LISTED" and not item.startswith("error")]
        assert sorted(later) == ["ADDED c", "DELETED a"]
    else:
        assert sorted(item for item in told if not item.startswith("error")) == ["ADDED b", "ADDED c", "LISTED"]
    site.create("d")
    site.place.until(lambda: told[-1] == "ADDED d", "what comes then")
    reflector.stop()


@pytest.mark.slow
def test_a_kind_that_is_not_installed(place: Place, proxy: Proxy, session: Session) -> None:
    """It has no objects, and is looked for again."""
    missing = refuse(404, "NotFound", "the server could not find the requested resource")
    proxy.reset(on(matching("GET", "/jobsets"), missing))
    told: list[str] = []

    def hear(event: Event | ClusterError) -> None:
        assert isinstance(event, Event), event
        told.append(f"{event.type} {event.object['metadata']['name']}" if event.object else event.type)

    reflector = Reflector(session, [WatchedList("JobSet", place.namespace)], hear, retry_after=0.3)
    reflector.start()
    place.until(lambda: len(told) > 2, "several attempts")
    assert set(told) == {"LISTED"}
    reflector.stop()
