"""One control plane, with room for what runs, for all tests of this directory; fast processes, and proxies before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from control_plane import ControlPlane
from fault_tools.documents import NEW, OLD
from fault_tools.proxy import Proxy, Upstream
from fault_tools.site import Base, numbered, site
from fault_tools.world import SERVED, Api, Snapshot
from fault_tools.zygote import Zygote, shared
from support.cluster_tools import other_definitions
from support.real_parts import control_plane_binaries

NODES = 6


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """A running control plane; without its programs the tests are skipped, in CI they fail."""
    with ControlPlane(control_plane_binaries()) as running:
        for number in range(NODES):
            running.add_node(f"gpu-{number}", gpus=64, cpu="512", memory="4Ti")
        yield running


@pytest.fixture(scope="session")
def zygote() -> Zygote:
    """A process that forks commands."""
    return shared()


@pytest.fixture(scope="package")
def api(plane: ControlPlane) -> Api:
    """The API server, as its admin."""
    return Api(plane)


@pytest.fixture(scope="package")
def upstream(plane: ControlPlane) -> Iterator[Upstream]:
    """The connections of all proxies to the API server."""
    connections = Upstream(plane.port, plane.directory / "certificates" / "apiserver.crt")
    yield connections
    connections.close()


@pytest.fixture(scope="package")
def base(plane: ControlPlane, upstream: Upstream, zygote: Zygote, api: Api) -> Base:
    """Return the parts that every site needs."""
    return Base(plane, upstream, zygote, api)


@pytest.fixture(scope="package")
def wanted(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Return the objects that the new documents create without failures."""
    with site(base, "wanted", tmp_path_factory.mktemp("wanted")) as made:
        made.prepare(OLD)
        made.file.write_text(NEW)
        assert made.apply().code == 0
        return made.snapshot()


@pytest.fixture(scope="package")
def service_base(plane: ControlPlane, upstream: Upstream, zygote: Zygote) -> Base:
    """Return the parts of sites with CronJobs, LeaderWorkerSets, routes, budgets and ScaledObjects.

    No controller of LeaderWorkerSet runs, so that only the Deployment has pods.
    """
    plane.install_job_kinds(*other_definitions())
    return Base(plane, upstream, zygote, Api(plane, SERVED), frozenset({"serve"}))


@pytest.fixture(scope="package")
def shared_objects(base: Base, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Create the objects that jobs of all namespaces share; otherwise the first apply would differ from later ones."""
    with site(base, "shared", tmp_path_factory.mktemp("shared")) as place:
        base.api.create_namespace(place.namespace)
        place.file.write_text(OLD)
        result = place.apply()
        assert result.code == 0, result.stderr


@pytest.fixture
def proxy(plane: ControlPlane, upstream: Upstream) -> Iterator[Proxy]:
    """A proxy that passes everything on until a test gives it a policy."""
    with Proxy(plane, upstream) as running:
        yield running


@pytest.fixture
def config(proxy: Proxy, tmp_path: Path) -> str:
    """The path of a kubeconfig whose server is the proxy."""
    return str(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))


@pytest.fixture
def namespace(api: Api) -> Iterator[Callable[[str], str]]:
    """Makes namespaces, by how their names begin; what runs in them ends with the test."""
    with ExitStack() as stack:

        def make(name: str) -> str:
            name = numbered(name)
            api.create_namespace(name)
            stack.callback(api.clear, name)
            return name

        yield make
