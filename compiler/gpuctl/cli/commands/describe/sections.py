"""Printing the sections of ``gpuctl describe``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import click

from gpuctl.api.node_answers import HoldingPod
from gpuctl.cli.output.amounts import format_share, rounded_amount
from gpuctl.cli.output.table import detail_lines, state_colour, table
from gpuctl.cli.output.terminal import is_coloured, terminal_width
from gpuctl.language.display_text import visible
from gpuctl.objects.quantities import amount_text
from gpuctl.reading.nodes.node_rows import PodOnNode
from gpuctl.usecases.queries.read_context import ReadContext

INDENT = "  "


def show_facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print ``Name:  value`` lines."""
    for line in detail_lines(pairs, style=heading):
        click.echo(line)


def show_section(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]], nothing: str | None = None) -> None:
    """Print a table below a title. Without rows, print ``nothing`` beside the title; without both, print nothing."""
    rows = list(rows)
    if not rows and nothing is None:
        return
    click.echo(f"\n{heading(f'{title}:')}" + ("" if rows else f" {nothing}"))
    if rows:
        width = terminal_width()
        for line in table(headers, rows, width=None if width is None else width - len(INDENT), coloured=is_coloured()):
            click.echo(INDENT + line)


def show_lines(title: str, lines: Iterable[str]) -> None:
    """Print lines below a title; without lines, print nothing."""
    lines = list(lines)
    if lines:
        click.echo(f"\n{heading(f'{title}:')}")
        for line in lines:
            click.echo(INDENT + visible(line))


def show_amounts(title: str, rows: Iterable[tuple[str, Fraction, Fraction | None]]) -> None:
    """Print resources with total, use, rest and percentage; a use of None is unknown."""
    cells = []
    for name, total, used in rows:
        free = None if used is None else max(Fraction(0), total - used)
        whole, taken, rest = (rounded_amount(name, value) for value in (total, used, free))
        if used and free and rest == whole:
            # Rounded it would look as if nothing was used.
            rest = amount_text(name, free)
        cells.append((name, whole, taken, rest, format_share(used, total)))
    show_section(title, ("RESOURCE", "TOTAL", "USED", "FREE", "USE"), cells, "none")


def show_holders(title: str, holders: Iterable[PodOnNode | HoldingPod] | None, *, where: bool = True) -> None:
    """Print pods that run or wait; ``where`` adds their nodes."""
    if holders is None:
        show_section(title, (), (), "not known: pods may not be listed")
        return
    headers = ("JOB ID", "NAME", "NAMESPACE", "KIND", "GPU")
    rows = [
        [item.pod, item.name, item.namespace, item.kind or "", str(item.gpu), *([item.node or ""] if where else [])]
        for item in holders
    ]
    show_section(title, (*headers, "NODE") if where else headers, rows, "none")


def heading(text: str) -> str:
    """Return a text, bold on a terminal."""
    return click.style(text, bold=True) if is_coloured() else text


def state(word: str) -> str:
    """Return a status in its colour."""
    return click.style(word, fg=state_colour(word)) if is_coloured() and state_colour(word) else word


def when(read_context: ReadContext, timestamp: str | None) -> str:
    """Return a time and its age."""
    return f"{timestamp} ({read_context.age(timestamp)} ago)" if timestamp else ""
