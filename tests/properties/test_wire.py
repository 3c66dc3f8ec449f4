"""What the service and its client tell each other comes back as it was."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.reading.job_rows import Row
from gpuctl.reading.loglines import LogLine
from gpuctl.reading.node_rows import PodOnNode
from gpuctl.reading.quota_rows import Limit
from gpuctl.usecases.job_queries import GpuUse, JobQuery, ListedRows
from gpuctl.usecases.wire import NotOfThisForm, decode, encode

KINDS: tuple[Any, ...] = (Row, ListedRows, GpuUse, JobQuery, PodOnNode, Limit, LogLine, Diagnostic)


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
        with pytest.raises(NotOfThisForm):
            decode(kind, value)


def test_amounts_are_exact() -> None:
    assert decode(Fraction, encode(Fraction(1, 3))) == Fraction(1, 3)
