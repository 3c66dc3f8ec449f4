"""Conditions that hold after any failure, for the documents of the tests of failing servers."""

from __future__ import annotations

from fault_tools.site import Site
from fault_tools.world import Snapshot, lost, rest, touched
from fault_tools.zygote import Result

CLUSTER = 3
"""The exit code when the cluster, or the way to it, fails."""


def assert_clear(result: Result, code: int, *words: str) -> None:
    """The exit code, and a message that people can read which says all of ``words``."""
    assert result.code == code, result
    output = result.stderr + result.stdout
    for noise in ("Traceback", "internal error", '{"kind"', '"apiVersion"', "<html", "HTTPConnectionPool", "0x7f"):
        assert noise not in output
    assert result.stderr.strip()
    for word in words:
        assert word in output
    # Progress apart, a message is a few lines, not a page.
    assert len(result.stderr.splitlines()) <= 12


def assert_unchanged(place: Site, old: Snapshot) -> None:
    """Nothing was written, not even a record."""
    now = place.snapshot()
    assert {key: live.uid for key, live in now.items()} == {key: live.uid for key, live in old.items()}
    assert {key: live.spec for key, live in now.items()} == {key: live.spec for key, live in old.items()}


def assert_recoverable(place: Site, old: Snapshot, wanted: Snapshot) -> None:
    """After `recover` nothing is lost or left behind, and the next apply brings about what is wanted."""
    recovered = place.recover(place.direct)
    assert recovered.code == 0, recovered.stderr
    now = place.snapshot()
    assert [*lost(now, old, wanted), *rest(now), *touched(now, old)] == []
    assert_converges(place, old, wanted)


def assert_converges(place: Site, old: Snapshot, wanted: Snapshot) -> None:
    """An apply brings about what is wanted, and another one writes nothing."""
    assert place.apply(place.direct).code == 0
    assert_wanted(place, old, wanted)
    place.proxy.reset()
    assert place.apply().code == 0
    assert place.proxy.writes() == []


def assert_wanted(place: Site, old: Snapshot, wanted: Snapshot) -> None:
    """All is as the documents say, and nothing is left behind."""
    now = place.snapshot()
    assert [*lost(now, wanted, wanted), *rest(now), *touched(now, old)] == []
