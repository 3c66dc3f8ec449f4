"""One control plane for all tests of this directory."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from control_plane import BinariesMissing, ControlPlane, find_binaries


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A running control plane; without its programs the tests are skipped, in CI they fail."""
    try:
        binaries = find_binaries()
    except BinariesMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    with ControlPlane(binaries) as running:
        yield running
