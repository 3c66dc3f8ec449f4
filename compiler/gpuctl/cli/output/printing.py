"""Printing a table or a value, adapted to the terminal or pipe."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from gpuctl.backend.emitter import emit_object
from gpuctl.cli.command_target import command_here, is_service_chosen
from gpuctl.cli.output.table import Table
from gpuctl.cli.output.terminal import is_coloured, terminal_width
from gpuctl.hints import NextStep
from gpuctl.language.display_text import visible_json


def show_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    headings: bool = True,
    droppable: Sequence[str] = (),
    with_blanks: bool = False,
) -> None:
    """Print a table line by line. If the terminal is too narrow, ``droppable`` columns are omitted first."""
    show_rows(shown_table(headers, headings=headings, droppable=droppable, with_blanks=with_blanks), rows)


def shown_table(
    headers: Sequence[str], *, headings: bool = True, droppable: Sequence[str] = (), with_blanks: bool = False
) -> Table:
    """Return a table with the width and colours of the terminal, for :func:`show_rows`."""
    return Table(
        headers,
        headings=headings,
        width=terminal_width(),
        coloured=is_coloured(),
        droppable=droppable,
        with_blanks=with_blanks,
    )


def show_rows(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Print rows of a table line by line; the first call also prints the headings."""
    for line in table.lines(rows):
        click.echo(line)


def show_next_steps(*steps: NextStep) -> None:
    """Print the commands that users often need next, unless the output goes to a pipe or to a program."""
    if not sys.stderr.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        return
    for step in steps:
        if step.needs_kubeconfig and is_service_chosen():
            continue
        output = f" > {step.file}" if step.file else ""
        click.echo(f"`{command_here(*step.words)}{output}` {step.effect}", err=True)


def show_value(value: Any, output: str) -> None:
    """Print a value as one JSON or YAML document."""
    if output == "yaml":
        click.echo(emit_object(value), nl=False)
    else:
        click.echo(visible_json(json.dumps(value, ensure_ascii=False, indent=2)))
