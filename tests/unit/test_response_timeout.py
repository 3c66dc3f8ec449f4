"""Time that the command line waits for a response: longer than the service itself may wait."""

from __future__ import annotations

import pytest

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.usecases.changes.service_requests import response_timeout
from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE


@pytest.mark.parametrize(
    ("asked", "waits"),
    [(1.0, 31.0), (RunOptions().timeout, 330.0), (LONGEST_BY_SERVICE, 630.0), (7200.0, 630.0)],
)
def test_response_timeout_exceeds_that_of_the_service(asked: float, waits: float) -> None:
    assert response_timeout(RunOptions(timeout=asked, checkpoint=False)) == waits
    assert response_timeout(RunOptions(timeout=asked)) == waits + LONGEST_BY_SERVICE
    assert response_timeout(RunOptions(timeout=asked), checkpoints=3) == waits + 3 * LONGEST_BY_SERVICE
