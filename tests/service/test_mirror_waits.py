"""The mirror's wait for a write: over broken watches, and no longer than its timeout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Upstream, cut_before, matching, on
from gpuctl.kube.configuration import connect
from gpuctl.kube.reflector import WatchedList
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key
from gpuctl_server.mirror.mirror import Mirror
from support.cluster_tools import Place

LONG = 60.0
WATCHED = "ConfigMap"


@contextmanager
def mirrored(kubeconfig: Path, namespace: str) -> Iterator[Mirror]:
    """Yield a mirror of a namespace's labelled ConfigMaps, after its first list."""
    connection = connect(kubeconfig=str(kubeconfig))
    mirror = Mirror(Session(connection, threads=1), [WatchedList(WATCHED, namespace, "watched=yes")])
    mirror.start()
    try:
        version = -1
        while not mirror.ready:
            assert mirror.failure is None
            version = mirror.wait_until_changed(version, LONG)
        yield mirror
    finally:
        mirror.stop()
        connection.close()


def write(place: Place, name: str, value: str) -> tuple[Key, str]:
    """Write a ConfigMap with another client; return its key and resource version."""
    path = place.path(WATCHED, name)
    body = {"apiVersion": "v1", "kind": WATCHED, "metadata": {"name": name, "labels": {"watched": "yes"}}}
    obj = place.api.call("PATCH", f"{path}?fieldManager=x&force=true", {**body, "data": {"v": value}}, APPLY)
    return Key(WATCHED, place.namespace, name), obj["metadata"]["resourceVersion"]


APPLY = "application/apply-patch+yaml"


def test_wait_ends_when_the_mirror_has_the_write(plane: ControlPlane, place: Place) -> None:
    with mirrored(plane.kubeconfig(), place.namespace) as mirror:
        for number in range(50):
            key, version = write(place, "one", str(number))
            assert mirror.wait_for(WATCHED, key, version, LONG)
            found = mirror.find(key)
            assert found is not None
            assert found["data"] == {"v": str(number)}
            assert mirror.wait_for(WATCHED, key, version, 0), "the mirror has this version already"


def test_wait_ends_if_the_object_was_deleted_after_the_write(plane: ControlPlane, place: Place) -> None:
    with mirrored(plane.kubeconfig(), place.namespace) as mirror:
        key, version = write(place, "one", "1")
        deleted = place.api.call("DELETE", place.path(WATCHED, "one"))
        assert deleted["status"] == "Success"
        other, later = write(place, "two", "2")
        assert mirror.wait_for(WATCHED, other, later, LONG)
        assert mirror.find(key) is None
        assert mirror.wait_for(WATCHED, key, version, 0)


@pytest.mark.slow
def test_wait_ends_after_its_timeout(plane: ControlPlane, place: Place) -> None:
    with mirrored(plane.kubeconfig(), place.namespace) as mirror:
        key, version = write(place, "one", "1")
        assert not mirror.wait_for(WATCHED, key, str(int(version) + 10**9), 0.05)
        assert not mirror.wait_for("Node", Key("Node", "", "n"), version, LONG), "the mirror does not watch nodes"
        assert not mirror.wait_for(WATCHED, key, "", LONG)
        # An object that the selector excludes never reaches the mirror.
        path = place.path(WATCHED, "unseen")
        body = {"apiVersion": "v1", "kind": WATCHED, "metadata": {"name": "unseen"}}
        unseen = place.api.call("PATCH", f"{path}?fieldManager=x", body, APPLY)["metadata"]["resourceVersion"]
        assert not mirror.wait_for(WATCHED, Key(WATCHED, place.namespace, "unseen"), unseen, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("broken", range(3))
def test_wait_continues_after_broken_watches(broken: int, plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """The mirror continues the watch or lists again: it finds the write either way."""
    upstream = Upstream(plane.port, plane.directory / "certificates" / "apiserver.crt")
    left = [broken]

    def some(request: object) -> bool:
        left[0] -= 1
        return left[0] >= 0

    with Proxy(plane, upstream) as proxy:
        watches = matching("GET", "/configmaps", watch=True)
        proxy.policy = on(lambda request: watches(request) and some(request), cut_before)
        with mirrored(proxy.kubeconfig(tmp_path / "through-proxy"), place.namespace) as mirror:
            key, version = write(place, "one", "1")
            assert mirror.wait_for(WATCHED, key, version, LONG)
            assert mirror.find(key) is not None
    upstream.close()
