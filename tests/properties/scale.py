"""How much the properties try: ``GPUCTL_PROPERTIES=50`` tries fifty times as much as a normal run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SCALE = max(1, int(os.environ.get("GPUCTL_PROPERTIES") or 1))


def examples(number: int) -> settings:
    """Settings for a number of examples in a normal run."""
    return settings(max_examples=number * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
