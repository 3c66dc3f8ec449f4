"""Which hours and days a step is made of, as a table of a statement: so that all steps are added up by one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, Integer, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB

STEPS = "steps"
"""The parameter of a statement that has such a table: :func:`packed_steps` makes its value."""


def step_table(connection: Connection) -> CTE:
    """A table with the columns ``period_id`` and ``part``."""
    # As one text: thousands of single parameters take longer than what is read by them.
    given: ColumnElement[Any] = bindparam(STEPS)
    if connection.dialect.name == "postgresql":
        each: Any = func.jsonb_array_elements(cast(given, JSONB)).table_valued(column("value", JSONB))
        numbers = [cast(each.c.value[place].astext, Integer) for place in (0, 1)]
    else:
        each = func.json_each(given).table_valued("value")
        numbers = [cast(func.json_extract(each.c.value, f"$[{place}]"), Integer) for place in (0, 1)]
    period, part = numbers
    return select(period.label("period_id"), part.label("part")).select_from(each).cte("steps")


def packed_steps(pairs: Iterable[tuple[int, int]]) -> str:
    """The value of that parameter: numbers of hours and days, each with that of its step."""
    return json.dumps(list(pairs), separators=(",", ":"))
