"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

import pytest

_ON_A_CLUSTER = frozenset({"cluster", "faults"})

# What a test shows is made by the code under test, and no test leaves anything with the user who runs it.
os.environ["GPUCTL_NO_CACHE"] = "1"

# Ctrl-C is what some tests are about. A script that starts pytest in its background has it ignored, and so would
# everything that pytest starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """In CI a test on the control plane gets a second chance, which the summary counts.

    Six servers share that machine's cores with whatever else it does: one of a thousand waits takes longer than anybody
    would wait. What is wrong fails twice.
    """
    if os.environ.get("CI"):
        for item in items:
            if item.path.parent.name in _ON_A_CLUSTER:
                item.add_marker(pytest.mark.flaky(reruns=1))
