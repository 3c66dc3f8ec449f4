"""Parts of tests that a machine may lack, such as programs: without them tests are skipped, but in CI they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest


def missing(problem: object) -> NoReturn:
    """Skip a test whose part is missing; with ``CI`` set, fail it."""
    if os.environ.get("CI"):
        pytest.fail(str(problem))
    pytest.skip(str(problem))


@contextmanager
def required(problem: type[Exception]) -> Iterator[None]:
    """Call :func:`missing` if a part is missing inside the block, or in a function with this decorator."""
    try:
        yield
    except problem as error:
        missing(error)
