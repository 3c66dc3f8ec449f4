"""Time ranges of requests about usage: defaults, and the ends of the calendar."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl.objects.durations import DAY
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.routes.usage_parameters import _hourly_query, hours_between, hours_up_to


def test_default_start_is_not_before_the_first_year() -> None:
    hours = hours_up_to(0.0, "", "", "0001-01-01T12:00:00Z")
    assert format_timestamp(hours.start) == "0001-01-01T00:00:00Z"
    with pytest.raises(Problem, match="start_time must be before end_time"):
        hours_up_to(0.0, "", "", "0001-01-01T00:00:00Z")


def test_default_ranges_end_now_by_the_clock_of_the_api_server() -> None:
    """The records of usage have its times."""
    now = 1_900_000_000.0
    hours = hours_up_to(now, "", "", "")
    assert (hours.start, hours.end) == (now - DAY, now)
    service: Any = SimpleNamespace(server_time=lambda: now)
    query = _hourly_query(service, hours=2)
    assert (format_timestamp(query.hours.start), format_timestamp(query.hours.end)) == (
        "2030-03-17T16:00:00Z",
        "2030-03-17T18:00:00Z",
    )


def test_end_is_not_after_the_last_year() -> None:
    hours = hours_between("", 0.0, 300_000_000_000.0, None)
    assert format_timestamp(hours.end)[:10] == "9999-12-31"
