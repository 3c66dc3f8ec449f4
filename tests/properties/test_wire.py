"""What the service and its client tell each other comes back as it was."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.reading.job_rows import Row
from gpuctl.reading.loglines import LogLine
from gpuctl.reading.node_rows import PodOnNode
from gpuctl.reading.quota_rows import Limit
from gpuctl.usecases.job_queries import GpuUse, JobQuery
from gpuctl.usecases.wire import NotOfThisForm, decode, encode

KINDS: tuple[Any, ...] = (Row, GpuUse, JobQuery, PodOnNode, Limit, LogLine, Diagnostic)


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_values_come_back(kind: Any, data: st.DataObject) -> None:
    # What the first draw of a type costs is the reading of its annotations.
    value = data.draw(st.from_type(kind))
    assert decode(kind, json.loads(json.dumps(encode(value)))) == value


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_whatever_comes_is_a_value_or_refused(value: Any) -> None:
    for kind in KINDS:
        # A query that says nothing is one for everything.
        if kind is not JobQuery or not isinstance(value, dict):
            with pytest.raises(NotOfThisForm):
                decode(kind, value)


class Older(NamedTuple):
    """A form."""

    name: str
    rows: list[GpuUse]


class Inner(NamedTuple):
    """A part of a form, later."""

    allocated: int
    total: int | None
    waiting: int
    cost: float = 0.0


class Newer(NamedTuple):
    """The same form, later."""

    name: str
    rows: list[Inner]
    note: str | None
    tags: list[str] = []  # noqa: RUF012


@given(st.from_type(Newer))
def test_an_older_reader_ignores_what_it_does_not_know(value: Newer) -> None:
    rows = [GpuUse(*row[:3]) for row in value.rows]
    assert decode(Older, json.loads(json.dumps(encode(value)))) == Older(value.name, rows)


@given(st.from_type(Older))
def test_a_newer_reader_has_defaults(value: Older) -> None:
    rows = [Inner(*row) for row in value.rows]
    assert decode(Newer, json.loads(json.dumps(encode(value)))) == Newer(value.name, rows, None)


def test_what_is_necessary_has_no_default() -> None:
    with pytest.raises(NotOfThisForm, match="`rows` is missing"):
        decode(Newer, {"name": "a"})


def test_what_is_asked_is_obeyed_or_refused() -> None:
    """An option that an older service does not know is not left out in silence."""
    assert decode(JobQuery, {"names": ["a"], "owner": ""}, asks=True) == JobQuery(("a",))
    with pytest.raises(NotOfThisForm, match="`owner` is not known"):
        decode(JobQuery, {"names": ["a"], "owner": "anna"}, asks=True)
    with pytest.raises(NotOfThisForm, match="`cost` is not known"):
        decode(list[GpuUse], [encode(Inner(1, 2, 3, 4.0))], asks=True)


def test_amounts_are_exact() -> None:
    assert decode(Fraction, encode(Fraction(1, 3))) == Fraction(1, 3)
