"""Rejection of blank option values, which usually come from an unset shell variable."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.cli.options.command_help import help_of

_PATTERNS = frozenset({"grep"})
"""Options whose value is a pattern, which may be blank."""


class BlankRejectingContext(click.Context):
    """Rejects blank values before the command runs: an empty file name would mean the current directory.

    Allowed are blank values of options whose default is empty, and arguments that are passed to a program.
    """

    def invoke(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        for parameter in self.command.params:
            is_free = parameter.default == "" or parameter.type is click.UNPROCESSED or parameter.name in _PATTERNS
            if not is_free and _holds_blank(self.params.get(parameter.name or "")):
                raise click.BadParameter("the value is empty; is a shell variable not set?", self, parameter)
        return super().invoke(callback, *args, **kwargs)

    def get_help(self) -> str:
        return super().get_help() if isinstance(self.command, click.Group) else help_of(self)


def reject_blanks(command: click.Command) -> click.Command:
    """Make a command reject blank values."""
    command.context_class = BlankRejectingContext
    return command


def _holds_blank(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_blank, value))
    return isinstance(value, str) and not value.strip()
