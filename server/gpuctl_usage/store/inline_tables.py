"""What a statement is given as a table: so that thousands of rows are looked up, or added up, by one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

_KEEPS_TABLES = (3, 35)
"""Since when SQLite can be told to read such a table once."""


def inline_table(connection: Connection, name: str, columns: Mapping[str, type[TypeEngine[Any]]]) -> CTE:
    """A table whose rows are the value of a parameter of its name: :func:`packed_rows` makes it."""
    # As one text: thousands of single parameters take longer than what is read by them.
    given: ColumnElement[Any] = bindparam(name)
    if connection.dialect.name == "postgresql":
        each: Any = func.jsonb_array_elements(cast(given, JSONB)).table_valued(column("value", JSONB))
        values = [each.c.value[place].astext for place in range(len(columns))]
    else:
        each = func.json_each(given).table_valued("value")
        values = [func.json_extract(each.c.value, f"$[{place}]") for place in range(len(columns))]
    typed = (cast(value, kind).label(name) for value, (name, kind) in zip(values, columns.items(), strict=True))
    table = select(*typed).select_from(each).cte(name)
    if connection.dialect.name == "sqlite" and sqlite3.sqlite_version_info >= _KEEPS_TABLES:
        # Otherwise it takes each value out of the text again for every row that is found by it.
        table = table.prefix_with("MATERIALIZED")
    return table


def packed_rows(rows: Iterable[tuple[int | str, ...]]) -> str:
    """The value of that parameter."""
    return json.dumps(list(rows), separators=(",", ":"), ensure_ascii=False)
