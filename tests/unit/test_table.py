"""Tables: cells align under their headings for any content and terminal width."""

from __future__ import annotations

from fractions import Fraction

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.api.job_detail_answers import JobResources
from gpuctl.cli.commands.describe.job import _amounts
from gpuctl.cli.commands.describe.sections import show_amounts
from gpuctl.cli.output.table import Table, cut_cell, detail_lines, state_colour, table, width_of

HEADERS = ("JOB ID", "NAME", "STATUS", "REASON")
ROWS = [
    ("qwen-sft-x7k2p", "qwen-sft", "Running", ""),
    ("chat-0", "chat", "Partially Running", "1 of 2 pods run"),
    ("训练-1", "训练", "OOMKilled", "exit code 137"),
]


def lines(**options: object) -> list[str]:
    """Return the lines of a table of ROWS."""
    return list(table(HEADERS, ROWS, **options))  # type: ignore[arg-type]


def test_pods_without_requests_have_none_per_pod() -> None:
    """An object of another tool."""
    asked = JobResources(gpu=0, gpu_type=None, cpu=2, memory=None, memory_bytes=None)
    assert _amounts(asked, several=True) == "2 cpu per pod"
    assert _amounts(asked.model_copy(update={"cpu": None}), several=True) == ""


def test_rest_is_not_rounded_to_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    show_amounts("Quota", [("memory", Fraction(4 << 40), Fraction(16 << 30)), ("cpu", Fraction(8), Fraction(0))])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert rows == [["memory", "4Ti", "16Gi", "4080Gi", "0%"], ["cpu", "8", "0", "8", "0%"]]


def test_columns_are_aligned_and_every_cell_is_one_word() -> None:
    assert lines() == [
        "JOB ID           NAME       STATUS             REASON",
        "qwen-sft-x7k2p   qwen-sft   Running            -",
        "chat-0           chat       PartiallyRunning   1 of 2 pods run",
        "训练-1           训练       OOMKilled          exit code 137",
    ]
    assert [line.split()[2] for line in lines(headings=False)] == ["Running", "PartiallyRunning", "OOMKilled"]


def test_later_rows_have_the_columns_of_the_first() -> None:
    """A watch in a narrow terminal: a separate table per batch would drop, cut and align differently."""
    printed = Table(HEADERS, width=49, droppable=("NAME",))
    first = list(printed.lines(ROWS))
    later = list(printed.lines([("chat-1", "chat", "Running", "")]))
    assert first == list(table(HEADERS, ROWS, width=49, droppable=("NAME",)))
    assert later == ["chat-1          Running           -"], "the same columns, without headings"


def test_table_without_rows() -> None:
    assert list(table(HEADERS, [])) == ["JOB ID   NAME   STATUS   REASON"]
    assert list(table(HEADERS, [], headings=False)) == []


@pytest.mark.parametrize("width", [20, 41, 42, 43, 44, 45, 48, 49, 52, 60, 200])
def test_narrow_terminal_keeps_id_name_and_status(width: int) -> None:
    """The first column, NAME and STATUS are not cut."""
    found = lines(width=width)
    full = lines()
    if width >= max(map(width_of, full)) or width < 42:
        # If even these columns do not fit, lines are not cut: the terminal wraps them.
        assert found == full
        return
    assert max(map(width_of, found)) <= width
    for line, row in zip(found[1:], ROWS, strict=True):
        assert line.split()[:3] == [row[0], row[1], row[2].replace(" ", "")]


JOBS = ("JOB ID", "NAME", "NAMESPACE", "KIND", "STATUS", "READY", "NODE", "IP", "AGE")
POD_ROWS = [
    ("pretrain-7b-node-0-0-x7k2p", "pretrain-7b", "nlp", "training", "Running", "1/1", "gpu-1", "10.0.0.1", "3h"),
    ("pretrain-7b-node-0-1-lq9wd", "pretrain-7b", "nlp", "training", "Running", "1/1", "gpu-2", "10.0.0.2", "3h"),
    (
        "dashboard-5d8f9c7b6d-m4n8s",
        "dashboard",
        "nlp",
        "inference",
        "CrashLoopBackOff",
        "0/1",
        "gpu-2",
        "10.0.0.3",
        "9d",
    ),
]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (130, ["pretrain-7b-node-0-0-x7k2p", *POD_ROWS[0][1:]]),
        (100, ["pretrain-7b-node-0-0-x7k2p", "pretrain-7b", "nlp", "training", "Running", "1/1", "gpu-1", "3h"]),
        (80, ["…node-0-0-x7k2p", "pretrain-7b", "nlp", "training", "Running", "1/1", "3h"]),
        (73, ["…0-x7k2p", "pretrain-7b", "nlp", "training", "Running", "1/1", "3h"]),
        (60, ["…0-x7k2p", "pretrain-7b", "nlp", "training", "Running"]),
        (30, ["pretrain-7b", "Running"]),
    ],
)
def test_ids_and_places_are_dropped_before_names_and_states(width: int, shown: list[str]) -> None:
    found = list(table(JOBS, POD_ROWS, width=width, droppable=("IP", "NODE", "JOB ID")))
    assert found[1].split() == shown
    assert max(map(width_of, found)) <= width
    assert all("CrashLoopBackOff" in line for line in found[3:])
    assert len(set(found)) == 4 or width == 30


def test_every_list_keeps_names_and_states_whole() -> None:
    """In lists of nodes, pools, quotas and usage the first column is the name."""
    row = ["ip-10-0-128-33.us-west-2.compute.internal", "maintaining", *["8"] * 5]
    heads = ("NODE NAME", "STATUS", "GPU TOTAL", "GPU USED", "GPU FREE", "GPU TYPE", "POOL")
    for width in (60, 80, 100, 120):
        found = list(table(heads, [row], width=width))
        assert found[1].split()[:2] == row[:2]
        assert max(map(width_of, found)) <= width


def test_id_that_repeats_the_name_is_dropped() -> None:
    rows = [("qwen2-7b-llamafactory-sft", "qwen2-7b-llamafactory-sft", "nlp", "Running", "2/2")]
    found = list(
        table(("JOB ID", "NAME", "NAMESPACE", "STATUS", "READY"), rows, width=55, droppable=("JOB ID", "JOB ID"))
    )
    assert found[1].split() == ["qwen2-7b-llamafactory-sft", "nlp", "Running", "2/2"]


def test_droppable_columns_are_dropped_before_others_are_cut() -> None:
    found = list(table(HEADERS, ROWS, width=49, droppable=("NAME",)))
    assert found == [
        "JOB ID          STATUS            REASON",
        "qwen-sft-x7k2p  Running           -",
        "chat-0          PartiallyRunning  1 of 2 pods run",
        "训练-1          OOMKilled         exit code 137",
    ]


def test_only_statuses_are_coloured_and_widths_stay() -> None:
    plain, coloured = lines(), lines(coloured=True)
    assert [click.unstyle(line) for line in coloured] == plain
    assert click.style("Running", fg="green") in coloured[1]
    assert click.style("OOMKilled", fg="red") in coloured[3]
    assert state_colour("Init:ImagePullBackOff") == "red"
    assert state_colour("Init:0/1") is None


def test_wider_late_row_keeps_its_cells_apart() -> None:
    shown = Table(("A", "B"))
    assert list(shown.lines([("a", "b")])) == ["A   B", "a   b"]
    assert list(shown.lines([("much-wider", "b")])) == ["much-wider b"]


def test_cells_with_line_breaks_and_blanks_stay_one_line() -> None:
    (line,) = table(("A", "B"), [("x\ny", "two\n  lines")], headings=False)
    assert line == "xy   two lines"


@given(st.text(alphabet="ab中文 é", max_size=30), st.integers(1, 20))
def test_shortened_text_fits(text: str, width: int) -> None:
    shown = cut_cell(text, width)
    assert width_of(shown) <= max(width, 1)
    assert shown == text or shown.endswith("…")


def test_details_align_values_and_indent_their_further_lines() -> None:
    assert list(detail_lines([("Name", "qwen"), ("描述", "两\n行"), ("Nothing", "")])) == [
        "Name:      qwen",
        "描述:      两",
        "           行",
        "Nothing:   -",
    ]
