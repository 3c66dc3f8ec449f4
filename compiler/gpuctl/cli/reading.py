"""Options and manners of the commands that only look: where, as what, and with which notes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from gpuctl.cli.connecting import cluster_errors, cluster_options, connected
from gpuctl.cli.inputs import checked_namespace
from gpuctl.cli.printers.table import Table

if TYPE_CHECKING:
    from gpuctl.cluster.records import Records
    from gpuctl.language.settings import Settings
    from gpuctl.reading.scope import Scope

Function = TypeVar("Function", bound=Callable[..., Any])
FORMATS = ("table", "wide", "json", "yaml", "name")


def reading_options(function: Function) -> Function:
    """Which cluster, and the platform whose labels count."""
    function = cluster_options(function)
    return click.option(
        "--platform",
        type=click.Path(),
        metavar="FILE",
        help="The platform's settings. Default: platform.yaml here or above, up to the git root.",
    )(function)


def namespace_options(function: Function) -> Function:
    """``-n`` and ``-A``; :func:`reader` takes both."""
    for decorate in (
        click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces; the default."),
        click.option(
            "-n", "--namespace", metavar="NAME", callback=checked_namespace, help="Only this namespace. Default: all."
        ),
    ):
        function = decorate(function)
    return function


def list_options(function: Function) -> Function:
    """``-o``, ``--json`` and ``--no-headers`` of lists."""
    for decorate in (
        click.option("--no-headers", is_flag=True, help="Leave out the line of headings."),
        click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
        click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format."),
    ):
        function = decorate(function)
    return function


def detail_options(function: Function) -> Function:
    """``-o text|json|yaml`` and ``--json`` of what is about one thing."""
    function = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")(function)
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="Format."
    )(function)


class Reader(NamedTuple):
    """A command that looks: where, and by which platform."""

    scope: Scope
    settings: Settings
    keys: Records


@contextmanager
def reader(
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
    namespace: str | None = None,
    *,
    all_namespaces: bool = False,
    as_json: bool = False,
) -> Iterator[Reader]:
    """Connect, and afterwards say on standard error what could not be looked at.

    Failures become messages and exit codes; with ``as_json`` also ``{"error": ...}`` on standard output.
    """
    from gpuctl.cli.requests import platform_settings
    from gpuctl.cluster.records import records
    from gpuctl.reading.scope import Scope

    if namespace is not None and all_namespaces:
        raise click.UsageError("-n names one namespace, -A means all; not both")
    settings = platform_settings(platform)
    with cluster_errors(as_json=as_json, of_plan=False):
        connection = connected(kubeconfig, context)
        scope = Scope(connection, namespace)
        try:
            yield Reader(scope, settings, records(settings))
        finally:
            connection.close()
    for note in scope.notes:
        click.echo(f"note: {note}", err=True)


def is_coloured(stream: Any = None) -> bool:
    """Whether a stream (standard output unless another is given) is a terminal that wants colours."""
    stream = stream if stream is not None else sys.stdout
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is, None in a pipe."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def show_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, headings: bool = True, droppable: Sequence[str] = ()
) -> None:
    """Print a table, line by line; ``droppable`` columns go first where the terminal is too narrow."""
    show_rows(shown_table(headers, headings=headings, droppable=droppable), rows)


def shown_table(headers: Sequence[str], *, headings: bool = True, droppable: Sequence[str] = ()) -> Table:
    """A table as this terminal shows it, for :func:`show_rows`."""
    return Table(headers, headings=headings, width=terminal_width(), coloured=is_coloured(), droppable=droppable)


def show_rows(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Print rows of a table, line by line; the first time with its headings."""
    for line in table.lines(rows):
        click.echo(line)


def show_value(value: Any, output: str) -> None:
    """Print a value as one JSON or YAML document."""
    if output == "yaml":
        from gpuctl.backend.emitter import emit_object

        click.echo(emit_object(value), nl=False)
    else:
        import json

        click.echo(json.dumps(value, ensure_ascii=False, indent=2))
