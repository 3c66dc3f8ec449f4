"""Printing lists of nodes, pools, quotas and other resources."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from gpuctl.cli.options.reading_options import ListOptions
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.kube.selector_parsing import InvalidSelector, LabelSelector

Function = TypeVar("Function", bound=Callable[..., Any])


class ListEntry(NamedTuple):
    """One row. ``title``: its text with -o name. ``wide``: further cells with -o wide."""

    title: str
    cells: Sequence[str]
    wide: Sequence[str] = ()


def show_list(
    output_form: ListOptions,
    answer: Callable[[], dict[str, Any]],
    headers: Sequence[str],
    wide: Sequence[str],
    entries: Iterable[ListEntry],
    nothing: str,
) -> None:
    """Print the answer as JSON or YAML, or the entries as a table; ``nothing`` is printed for an empty list."""
    if output_form.is_machine:
        show_value(answer(), output_form.output)
        return
    entries = list(entries)
    if output_form.output == "name":
        for entry in entries:
            click.echo(entry.title)
    elif entries or not sys.stdout.isatty():
        is_wide = output_form.output == "wide"
        rows = ([*entry.cells, *(entry.wide if is_wide else ())] for entry in entries)
        show_table([*headers, *(wide if is_wide else ())], rows, headings=output_form.headings)
    if not entries:
        click.echo(nothing, err=True)


def selector_option(function: Function) -> Function:
    """Add ``-l``."""
    return click.option(
        "-l",
        "--selector",
        default="",
        metavar="LABELS",
        callback=check_selector,
        help="Label selector as in kubectl: a=b,c!=d.",
    )(function)


def check_selector(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check the syntax of a label selector."""
    try:
        LabelSelector(value)
    except InvalidSelector as error:
        raise click.BadParameter(str(error), context, parameter, param_hint=parameter.opts[0]) from None
    return value


def strip_kinds(names: Iterable[str]) -> list[str]:
    """Return names without their kind (``node/node-1``, as ``-o name`` prints them), without repetitions."""
    return list(dict.fromkeys(name.rpartition("/")[2] for name in names))
