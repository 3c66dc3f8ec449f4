"""CSV cells that are safe to open in a spreadsheet, whatever the names contain."""

from __future__ import annotations

import csv
import io

import pytest

from gpuctl_usage.answers.rows_as_csv import as_csv


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('=HYPERLINK("https://example.com","x")', '\'=HYPERLINK("https://example.com","x")'),
        ("+1", "'+1"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\uff1d1", "'\uff1d1"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("a=b", "a=b"),
        ('say "hi", twice\nand on', 'say "hi", twice\nand on'),
        ("研究", "研究"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (-1.5, "-1.5"),
        (0, "0"),
        ({"b": "=1", "a": "研"}, '{"a": "研", "b": "=1"}'),
    ],
)
def test_cells_are_escaped_for_spreadsheets(value: object, cell: str) -> None:
    text = as_csv(["name", "other"], [{"name": value, "more": "x"}])
    assert text.startswith("name,other\r\n")
    [_, row] = csv.reader(io.StringIO(text, newline=""))
    assert row == [cell, ""]
