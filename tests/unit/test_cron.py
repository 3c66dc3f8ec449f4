"""Cron expressions: what the API server accepts, and when they match."""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pytest

from gpuctl.language.cron import CronProblem, parse_cron
from gpuctl.reading.jobs.cron_times import next_time


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        ("0 2 * * *", "UTC", "2026-11-27T20:00", "2026-11-28T02:00"),
        ("0 2 * * *", "Asia/Shanghai", "2026-11-27T17:59", "2026-11-27T18:00"),
        ("0 2 * * *", "UTC", "2026-11-27T02:00", "2026-11-28T02:00"),
        ("0 2 * * *", "UTC", "2026-11-27T01:59:59.5", "2026-11-27T02:00"),
        ("0 2 * * *", "UTC", "2026-11-27T02:00:00.5", "2026-11-28T02:00"),
        ("*/5 * * * *", "UTC", "2026-11-27T23:58", "2026-11-28T00:00"),
        ("*/15 9-17 * * MON-FRI", "UTC", "2026-11-27T17:50", "2026-11-30T09:00"),
        ("@weekly", "UTC", "2026-11-27T00:00", "2026-11-29T00:00"),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00", "2104-02-29T00:00"),
        # Both restrict the day: one of them is enough.
        ("0 0 13 * FRI", "UTC", "2026-11-27T01:00", "2026-12-04T00:00"),
        # A step restricts the day only if it is above 1.
        ("0 0 */1 * FRI", "UTC", "2026-11-27T01:00", "2026-12-04T00:00"),
        ("0 0 */30 * SAT", "UTC", "2026-11-28T01:00", "2026-12-01T00:00"),
        ("5/20 0 * * ?", "UTC", "2026-11-27T00:06", "2026-11-27T00:25"),
        # 02:30 does not exist on the day on which daylight saving begins.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-30T00:30"),
    ],
)
def test_next_time(text: str, zone: str, after: str, expected: str) -> None:
    found = next_time(text, ZoneInfo(zone), datetime.fromisoformat(f"{after}+00:00"))
    assert found == datetime.fromisoformat(f"{expected}+00:00").astimezone(timezone.utc)


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 7", "*/0 * * * *"),
        *("1-2-3 * * * *", "0 0 31 2 *", "0 0 30 FEB ?", "-1 * * * *", "1/2/3 * * * *", "a * * * *", "0,, * * * *"),
        *("@reboot", "@every 1h", "TZ=UTC * * * * *", "0 0 * * FRI-MON", "+1 * * * *", "0 0 * JANUARY *"),
    ],
)
def test_problem_of_expression(text: str) -> None:
    with pytest.raises(CronProblem):
        parse_cron(text)


@pytest.mark.parametrize("month", range(1, 13))
def test_day_after_the_last_of_a_month_does_not_exist(month: int) -> None:
    """A February has 29 days."""
    last = monthrange(2024, month)[1]
    assert parse_cron(f"0 0 {last} {month} *").days == {last}
    with pytest.raises(CronProblem):
        parse_cron(f"0 0 {last + 1} {month} *")


@pytest.mark.parametrize("text", ["0 0 31 2 MON", "0 0 29 2 *", "0\t0 * jan-Mar sun", "59 23 31 12 6", "@annually"])
def test_legal_expression(text: str) -> None:
    assert parse_cron(text).minutes
