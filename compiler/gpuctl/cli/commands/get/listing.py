"""How the lists of nodes, pools, quotas and the like are printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click

from gpuctl.cli.output.printing import show_table, show_value


class ListOptions(NamedTuple):
    """How a list is wanted: one of the formats of ``list_options``, with the line of headings or without."""

    output: str
    headings: bool

    @classmethod
    def of(cls, output: str, *, as_json: bool, no_headers: bool) -> ListOptions:
        """From the options."""
        return cls("json" if as_json else output, not no_headers)

    @property
    def is_machine(self) -> bool:
        """Whether the output is one value for programs."""
        return self.output in ("json", "yaml")


class ListEntry(NamedTuple):
    """One thing: ``title`` as -o name prints it, its cells, and those of -o wide alone."""

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
    """Print the answer for programs, or the entries for people; ``nothing`` is said on standard error without any."""
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


def strip_kinds(names: Iterable[str]) -> list[str]:
    """Names as ``-o name`` prints them, ``node/node-1``, without the kind; each once."""
    return list(dict.fromkeys(name.rpartition("/")[2] for name in names))
