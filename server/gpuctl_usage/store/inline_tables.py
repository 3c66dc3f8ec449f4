"""Tables passed to a statement as one JSON parameter, to look up or aggregate thousands of rows at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, Text, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

_KEEPS_TABLES = (3, 35)
"""First SQLite version that supports the MATERIALIZED hint."""


def inline_table(connection: Connection, name: str, columns: Mapping[str, type[TypeEngine[Any]]]) -> CTE:
    """Return a table whose rows are the value of the parameter ``name``, as written by :func:`packed_rows`."""
    # One JSON text: thousands of single parameters would take longer than the query itself.
    given: ColumnElement[Any] = bindparam(name)
    is_list = len(columns) == 1
    if connection.dialect.name == "postgresql":
        elements = func.jsonb_array_elements_text if is_list else func.jsonb_array_elements
        each: Any = elements(cast(given, JSONB)).table_valued(column("value", Text if is_list else JSONB))
        values = [each.c.value] if is_list else [each.c.value[place].astext for place in range(len(columns))]
    else:
        each = func.json_each(given).table_valued("value")
        places = range(len(columns))
        values = [each.c.value] if is_list else [func.json_extract(each.c.value, f"$[{place}]") for place in places]
    typed = (cast(value, kind).label(name) for value, (name, kind) in zip(values, columns.items(), strict=True))
    table = select(*typed).select_from(each).cte(name)
    if connection.dialect.name == "sqlite" and sqlite3.sqlite_version_info >= _KEEPS_TABLES:
        # Without it, SQLite parses the text again for every joined row.
        table = table.prefix_with("MATERIALIZED")
    return table


def packed_rows(rows: Iterable[tuple[int | float | str, ...]] | Iterable[int] | Iterable[str]) -> str:
    """Return the parameter value for rows of an inline table; for a table of one column, its values."""
    return json.dumps(list(rows), separators=(",", ":"), ensure_ascii=False)
