"""Timestamps of the API."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from gpuctl.objects.timestamps import format_timestamp, parse_timestamp, seconds_of

NOON = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-06-01T12:00:00Z", NOON),
        ("2024-06-01T12:00:00z", NOON),
        ("2024-06-01T14:00:00+02:00", NOON),
        ("2024-06-01T12:00:00", NOON),
        ("2024-06-01", NOON - timedelta(hours=12)),
        ("2024-06-01T12:00:00.25Z", NOON + timedelta(microseconds=250_000)),
        ("2024-06-01T12:00:00.123456789Z", NOON + timedelta(microseconds=123_456)),
    ],
)
def test_times_with_any_fraction_and_zone_are_parsed(text: str, expected: datetime) -> None:
    assert parse_timestamp(text) == expected


@pytest.mark.parametrize("zone", [timezone.utc, None, timezone(timedelta(hours=14))])
@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "today", "2024-02-30", "Z"])
def test_text_that_is_no_time_is_refused(text: str, zone: timezone | None) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_timestamp(text, zone)


def test_a_time_without_a_zone_is_in_the_stated_one() -> None:
    assert parse_timestamp("2024-06-01T14:00:00", timezone(timedelta(hours=2))) == NOON
    local = NOON.astimezone().replace(tzinfo=None).isoformat()
    assert parse_timestamp(local, None) == NOON


def test_seconds_of_anything_but_a_time_are_none() -> None:
    assert seconds_of("2024-06-01T12:00:00.5Z") == NOON.timestamp() + 0.5
    assert [seconds_of(value) for value in (None, "", "yesterday", 7, "0001-13-01T00:00:00Z")] == [None] * 5


def test_times_are_written_in_utc_and_cut_off() -> None:
    late = (NOON + timedelta(microseconds=999_999)).astimezone(timezone(timedelta(hours=-3)))
    assert format_timestamp(late) == "2024-06-01T12:00:00Z"
    assert format_timestamp(late, "milliseconds") == "2024-06-01T12:00:00.999Z"
    assert format_timestamp(NOON.timestamp()) == "2024-06-01T12:00:00Z"
    assert parse_timestamp(format_timestamp(late, "microseconds")) == late
