"""Parts of tests that a machine may lack, such as programs: without them tests are skipped, but in CI they fail."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(problem: object) -> NoReturn:
    """Skip a test whose part is missing; with ``CI`` set, fail it."""
    if os.environ.get("CI"):
        pytest.fail(str(problem))
    pytest.skip(str(problem))
