"""The hints about durations, followed literally."""

import re

import pytest

import gpuctl

PLATFORM = gpuctl.Source("platform", "kind: platform\nversion: v0.1\n")


def about(field: str, value: str) -> list[gpuctl.Diagnostic]:
    text = (
        f"kind: training\nversion: v0.1\njob: {{name: a, {field}: {value}}}\n"
        "environment: {image: r/x:1, command: [a]}\nresources: {gpu: 0}\n"
    )
    result = gpuctl.compile(gpuctl.Source("j.yaml", text), platform=PLATFORM)
    return [item for item in result.diagnostics if item.path[:1] == ("job",)]


@pytest.mark.parametrize("field", ["ttl", "max_runtime"])
@pytest.mark.parametrize("value", ["0", "00", "5", "1w", "1.5h", "99999d", "30 minutes"])
def test_the_values_of_a_hint_are_accepted(field: str, value: str) -> None:
    [said] = about(field, value)
    for better in re.findall(r"`([^`]+)`", said.hint or ""):
        assert about(field, better) == [], better


def test_a_zero_where_none_is_allowed_says_so_with_or_without_its_unit() -> None:
    assert [item.message for item in about("max_runtime", "0")] == [item.message for item in about("max_runtime", "0s")]
