"""Hints about durations: each suggested value is valid."""

import re

import pytest

import gpuctl

PLATFORM = gpuctl.Source("platform", "kind: platform\nversion: v0.1\n")


def duration_diagnostics(field: str, value: str) -> list[gpuctl.Diagnostic]:
    text = (
        f"kind: training\nversion: v0.1\njob: {{name: a, {field}: {value}}}\n"
        "environment: {image: r/x:1, command: [a]}\nresources: {gpu: 0}\n"
    )
    result = gpuctl.compile(gpuctl.Source("j.yaml", text), platform=PLATFORM)
    return [item for item in result.diagnostics if item.path[:1] == ("job",)]


@pytest.mark.parametrize("field", ["ttl", "max_runtime"])
@pytest.mark.parametrize("value", ["0", "00", "5", "1w", "1.5h", "99999d", "30 minutes", "500ms", "2500 ms"])
def test_values_in_hints_are_valid(field: str, value: str) -> None:
    [said] = duration_diagnostics(field, value)
    for better in re.findall(r"`([^`]+)`", said.hint or ""):
        assert duration_diagnostics(field, better) == [], better


def test_milliseconds_are_no_minutes() -> None:
    [said] = duration_diagnostics("ttl", "2500ms")
    assert said.hint == "did you mean `2s`?"


def test_zero_gets_the_same_message_with_and_without_a_unit() -> None:
    assert [item.message for item in duration_diagnostics("max_runtime", "0")] == [
        item.message for item in duration_diagnostics("max_runtime", "0s")
    ]
