"""How long the command line waits for a service: longer than the service waits itself, whatever is asked for."""

from __future__ import annotations

import pytest

from gpuctl.usecases.change_options import LONGEST_BY_SERVICE, RunOptions
from gpuctl.usecases.service_client import patience_for


@pytest.mark.parametrize(
    ("asked", "waits"),
    [(1.0, 31.0), (RunOptions().timeout, 330.0), (LONGEST_BY_SERVICE, 630.0), (7200.0, 630.0)],
)
def test_a_change(asked: float, waits: float) -> None:
    assert patience_for({"run": RunOptions(timeout=asked)}) == waits


def test_what_says_nothing_of_it() -> None:
    """A pause, or a question: as a change with the options that nobody has set."""
    assert patience_for({"names": ["a"], "pausing": True}) == patience_for({"run": RunOptions()})
