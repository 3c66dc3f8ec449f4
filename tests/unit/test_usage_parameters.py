"""Times of requests about usage at the ends of the calendar."""

from __future__ import annotations

import pytest

from gpuctl.objects.timestamps import format_timestamp
from gpuctl_server.http_problems import Problem
from gpuctl_server.routes.usage_parameters import hours_between, hours_up_to


def test_default_start_is_not_before_the_first_year() -> None:
    hours = hours_up_to("", "", "0001-01-01T12:00:00Z")
    assert format_timestamp(hours.start) == "0001-01-01T00:00:00Z"
    with pytest.raises(Problem, match="start_time must be before end_time"):
        hours_up_to("", "", "0001-01-01T00:00:00Z")


def test_end_is_not_after_the_last_year() -> None:
    hours = hours_between("", 0.0, 300_000_000_000.0, None)
    assert format_timestamp(hours.end)[:10] == "9999-12-31"
