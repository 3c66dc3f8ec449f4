"""Fixtures of the cluster tests: one control plane for all tests of this directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Upstream
from fault_tools.world import Api
from support import node_world
from support.cluster_tools import Document, Place, add_drill_nodes, api, namespace_for, other_definitions, places
from support.command import Command, Start
from support.queues import Queues, queues_of
from support.real_parts import control_plane_binaries

__all__ = ["api"]

Judge = Callable[..., bool]


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """A running control plane. Without its binaries the tests are skipped; in CI they fail."""
    with ControlPlane(control_plane_binaries()) as running:
        yield running


@pytest.fixture(scope="package")
def world() -> Iterator[ControlPlane]:
    """A control plane for tests that list all nodes and pools."""
    yield from node_world.running()


@pytest.fixture(scope="package")
def jobset(plane: ControlPlane) -> None:
    """Install the CRDs of JobSet and others, and restart the garbage collector, which finds new kinds only every 30 s."""
    plane.install_job_kinds(*other_definitions())
    plane.stop_program("kube-controller-manager", kill=True)
    plane.start_program("kube-controller-manager")


@pytest.fixture(scope="package")
def drill_nodes(plane: ControlPlane, jobset: None) -> None:
    """Nodes with room for everything that runs in a :func:`place`."""
    add_drill_nodes(plane)


@pytest.fixture
def place(
    plane: ControlPlane,
    api: Api,
    drill_nodes: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Place]:
    """A namespace per test, on nodes with room for its pods."""
    yield from places(plane, api, tmp_path, capsys, monkeypatch, namespace_for(request))


@pytest.fixture(scope="package")
def queue_plane() -> Iterator[ControlPlane]:
    """A second control plane, on which Kueue and JobSet run."""
    with ControlPlane(control_plane_binaries(queues=True), queues=True) as running:
        add_drill_nodes(running)
        yield running


@pytest.fixture
def queue_place(
    queue_plane: ControlPlane,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Place]:
    """A :func:`place` where Kueue and JobSet run."""
    yield from places(queue_plane, Api(queue_plane), tmp_path, capsys, monkeypatch, namespace_for(request))


@pytest.fixture
def queue_proxy(queue_plane: ControlPlane, queue_place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A :func:`proxy` where Kueue and JobSet run."""
    yield from _proxy_of(queue_plane, queue_place, monkeypatch)


@pytest.fixture
def writes_nothing(queue_place: Place, queue_proxy: Proxy) -> Judge:
    """Return a function that checks that applying documents again, and a diff, write nothing."""

    def judge(*documents: Document) -> bool:
        queue_proxy.reset()
        assert set(queue_place.plan(*documents).actions.values()) == {"unchanged"}
        queue_place.apply(*documents)
        queue_place.gpuctl("diff", "-f", queue_place.file(*documents))
        return queue_proxy.writes() == []

    return judge


@pytest.fixture
def queues(queue_place: Place) -> Iterator[Queues]:
    """Kueue queues for a :func:`queue_place`."""
    yield from queues_of(queue_place)


@pytest.fixture
def away(place: Place, api: Api) -> Iterator[str]:
    """Another namespace."""
    # The end of a place's name is the part that differs between tests.
    name = f"{place.namespace[-50:].strip('-')}-away"
    api.create_namespace(name)
    yield name
    api.clear(name)


@pytest.fixture
def proxy(plane: ControlPlane, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that receives all requests of the test's commands."""
    yield from _proxy_of(plane, place, monkeypatch)


def _proxy_of(plane: ControlPlane, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    upstream = Upstream(plane.port, plane.directory / "certificates" / "apiserver.crt")
    with Proxy(plane, upstream) as running:
        monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig(place.directory / "through-proxy")))
        yield running
    upstream.close()


@pytest.fixture
def start(place: Place) -> Iterator[Start]:
    """Return a function that starts a command in a process, which is stopped after the test."""
    commands: list[Command] = []

    def begin(*arguments: str) -> Command:
        commands.append(Command(*arguments))
        return commands[-1]

    yield begin
    for command in commands:
        command.stop()
