"""One control plane and one service in front of it, shared by all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, in_front_of
from support import node_world
from support.browser import Profile, Visit, chromium
from support.cluster_tools import POOL, Place, add_drill_nodes, api, place
from support.oidc_provider import OidcProvider
from support.real_parts import control_plane_binaries
from support.remote import Remote
from support.seed_world import documents, populated
from support.served import Served, serving

__all__ = ["api", "place"]

TEAM = "team-a"
OTHER = "team-b"


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """A running control plane with nodes. Without its binaries the tests are skipped, and fail in CI."""
    with ControlPlane(control_plane_binaries()) as running:
        running.install_job_kinds()
        add_drill_nodes(running)
        yield running


@pytest.fixture(scope="package")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service with users of every role, limited to namespaces, to pools or not at all."""
    users = {
        "admin": ("admin", None, None),
        "anna": ("user", (TEAM,), None),
        "otto": ("user", (OTHER,), (POOL,)),
        "vera": ("viewer", None, None),
        "nora": ("user", ("not-there",), None),
        "viktor": ("viewer", (TEAM,), None),
        "paula": ("admin", None, (POOL,)),
        "prometheus": ("metrics", None, None),
    }
    # The product's example documents mount host paths, also for users.
    directory = tmp_path_factory.mktemp("service")
    config = plane.kubeconfig()
    with serving(directory, config, users, host_paths='["/"]') as running:  # type: ignore[arg-type]
        yield running


@pytest.fixture(scope="module")
def seed_world(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane populated with the objects of the seed documents."""
    with populated(plane):
        yield plane


@pytest.fixture
def seed_place(
    seed_world: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    """The command line in the seed cluster, with its pools defined."""
    found = node_world.place(seed_world, tmp_path, capsys, monkeypatch)
    if found.api.get("ConfigMap", node_world.SYSTEM, "pool-training-pool") is None:
        found.anywhere("apply", "-f", found.file(*documents()))
    return found


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    """An OpenID Connect provider."""
    running = OidcProvider()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy between the API server and a service that the test starts itself."""
    with in_front_of(plane) as running:
        yield running


@pytest.fixture
def remote(place: Place, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    """A command line without a kubeconfig, not logged in."""
    made = Remote(place, served, tmp_path / "config", monkeypatch)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the pages of the console. While it runs, its thread has an event loop: asyncio cannot start one."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def profile(browser: Any, served: Served) -> Iterator[Profile]:
    """A profile of the browser."""
    made = Profile(browser, served)
    yield made
    made.close()


@pytest.fixture
def visit(profile: Profile) -> Iterator[Visit]:
    """A page of the console, not logged in."""
    with profile.visiting() as made:
        yield made
