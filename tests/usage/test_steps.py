"""Steps of days, weeks and months: whole hours in a time zone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from gpuctl.objects.durations import HOUR
from gpuctl_usage.answers.steps import StepUnit, UnknownZone, bounds, zone_of


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


def local_bounds(start: str, end: str, step: StepUnit, zone: str) -> list[str]:
    """Return the bounds of the steps as local times of the zone."""
    found = bounds(at(start), at(end), step, zone_of(zone))
    return [datetime.fromtimestamp(time, zone_of(zone)).strftime("%m-%d %H:%M") for time in found]


@pytest.mark.parametrize(
    ("start", "end", "step", "zone", "expected"),
    [
        ("2025-11-05T10:00", "2025-11-07T00:00", StepUnit.DAY, "", ["11-05 10:00", "11-06 00:00", "11-07 00:00"]),
        ("2025-11-05T16:00", "2025-11-06T16:00", StepUnit.DAY, "Asia/Shanghai", ["11-06 00:00", "11-07 00:00"]),
        # The first and the last step are cut at whole hours.
        (
            *("2025-11-05T10:20", "2025-11-05T16:40", StepUnit.DAY, "Asia/Shanghai"),
            ["11-05 19:00", "11-06 00:00", "11-06 01:00"],
        ),
        # In a zone with a half-hour offset, a day begins with its first whole UTC hour, half an hour after midnight.
        (
            *("2025-11-05T00:00", "2025-11-07T00:00", StepUnit.DAY, "Asia/Kolkata"),
            ["11-05 05:30", "11-06 00:30", "11-07 00:30", "11-07 05:30"],
        ),
        # 2025-11-05 is a Wednesday.
        ("2025-11-05T00:00", "2025-11-17T00:00", StepUnit.WEEK, "", ["11-05 00:00", "11-10 00:00", "11-17 00:00"]),
        (
            *("2025-12-15T00:00", "2026-03-01T00:00", StepUnit.MONTH, "UTC"),
            ["12-15 00:00", "01-01 00:00", "02-01 00:00", "03-01 00:00"],
        ),
        ("2025-11-05T10:00", "2027-11-05T11:00", StepUnit.TOTAL, "UTC", ["11-05 10:00", "11-05 11:00"]),
        ("2025-11-05T10:00", "2025-11-05T12:00", StepUnit.HOUR, "", ["11-05 10:00", "11-05 11:00", "11-05 12:00"]),
        ("2025-11-05T10:01", "2025-11-05T10:59", StepUnit.DAY, "", []),
        # Midnight does not exist on this date: the day begins an hour later.
        (
            *("2018-11-03T03:00", "2018-11-05T02:00", StepUnit.DAY, "America/Sao_Paulo"),
            ["11-03 00:00", "11-04 01:00", "11-05 00:00"],
        ),
        # Clocks were set back at 00:01: the next whole UTC hour was still on the day before.
        (
            *("2010-11-06T03:00", "2010-11-08T04:00", StepUnit.DAY, "America/St_Johns"),
            ["11-06 00:30", "11-07 00:30", "11-08 00:30"],
        ),
        # This zone had no 2011-12-30.
        (
            *("2011-12-29T10:00", "2012-01-01T10:00", StepUnit.DAY, "Pacific/Apia"),
            ["12-29 00:00", "12-31 00:00", "01-01 00:00", "01-02 00:00"],
        ),
    ],
)
def test_bounds_of_steps(start: str, end: str, step: StepUnit, zone: str, expected: list[str]) -> None:
    assert local_bounds(start, end, step, zone) == expected


@pytest.mark.parametrize(("day", "hours"), [("2025-03-30", 23), ("2025-10-26", 25), ("2025-06-01", 24)])
def test_length_of_a_day_at_clock_changes(day: str, hours: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    midnight = datetime.fromisoformat(day).replace(tzinfo=zone)
    following = datetime.fromisoformat(day).replace(tzinfo=zone) + timedelta(days=1)
    begin, end = int(midnight.timestamp()), int(following.timestamp())
    assert bounds(begin, end, StepUnit.DAY, zone) == [begin, end]
    assert end - begin == hours * HOUR


@pytest.mark.parametrize(
    "name",
    ["Asia/Nowhere", "../../etc/passwd", "America", "/etc/localtime", "x" * 5000, "Asia/Shanghai\n", "\x00", "+08:00"],
)
def test_unknown_time_zones_are_rejected(name: str) -> None:
    with pytest.raises(UnknownZone, match="time zone"):
        zone_of(name)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
def test_total_of_all_times_has_no_dates(zone: str) -> None:
    first, last = -62_135_596_800, 253_402_300_799
    assert bounds(first, last, StepUnit.TOTAL, zone_of(zone)) == [first, last + 1]
