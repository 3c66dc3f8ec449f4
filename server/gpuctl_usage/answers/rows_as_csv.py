"""CSV (RFC 4180) that is safe to open in spreadsheets: no text is interpreted as a formula."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""First characters of a cell that spreadsheets interpret as a formula, also after a line break. Those of Chinese and
Japanese systems accept full-width signs, too."""
_NUMBERS = frozenset({int, float})
_AS_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def as_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]], end: str = "\r\n") -> str:
    """Return rows as CSV with a header. None is an empty cell; labels and lists are JSON.

    Texts that a spreadsheet would interpret as a formula get an apostrophe in front; numbers stay unchanged.

    :param end: line ending; Unix programs expect it without the carriage return.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    writer.writerow(names)
    every = ((row.get(name) for name in names) for row in rows)
    # Most cells are numbers: skip the conversion.
    writer.writerows([value if type(value) in _NUMBERS else _cell(value) for value in values] for values in every)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULAS) else value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return value
    # JSON of an object or list does not begin like a formula.
    return _AS_JSON(value) if isinstance(value, (dict, list)) else value
