"""The text of ``--help``: common options first, connection options last."""

from __future__ import annotations

import click

_FIRST = ("--filename", "--namespace", "--dry-run", "--wait", "--yes")
"""Options that are listed first, in this order; the others follow as the command declares them."""


class ConnectionOption(click.Option):
    """An option that selects the cluster, the service, or the user to act as."""


def help_of(context: click.Context) -> str:
    """Return the help text of a command, with the connection options in a section of their own."""
    command = context.command
    formatter = context.make_formatter()
    command.format_usage(context, formatter)
    command.format_help_text(context, formatter)
    sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection options": []}
    for parameter in sorted(command.get_params(context), key=_place):
        row = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if row is not None:
            sections["Connection options" if isinstance(parameter, ConnectionOption) else "Options"].append(row)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    command.format_epilog(context, formatter)
    return formatter.getvalue().rstrip("\n")


def _place(parameter: click.Parameter) -> int:
    return next((number for number, name in enumerate(_FIRST) if name in parameter.opts), len(_FIRST))
