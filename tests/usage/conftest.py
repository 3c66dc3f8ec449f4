"""One control plane for the tests of usage collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane import ControlPlane
from support.cluster_tools import api, place
from support.postgresql_server import PostgresqlServer, running_postgresql
from support.real_parts import control_plane_binaries

__all__ = ["api", "place"]

ENGINES = ["sqlite", "postgresql"]


def new_address(request: pytest.FixtureRequest, directory: Path) -> str:
    """Return the address of a database of the requested engine."""
    if request.param == "sqlite":
        return str(directory / "usage.db")
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """A running control plane without nodes, with an audit log of the requests of service accounts.

    Without its binaries the tests are skipped; in CI they fail.
    """
    with ControlPlane(control_plane_binaries(), audit=True) as running:
        yield running


@pytest.fixture(scope="package")
def postgresql() -> Iterator[PostgresqlServer]:
    """A running PostgreSQL. Without its binaries the tests are skipped; in CI they fail."""
    with running_postgresql() as running:
        yield running


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that does not exist yet, for each engine."""
    return new_address(request, tmp_path)


@pytest.fixture(scope="module", params=ENGINES)
def shared_address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An :func:`address` for all tests of a file."""
    return new_address(request, tmp_path_factory.mktemp("shared"))
