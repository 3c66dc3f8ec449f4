"""Values of a command line that hold nothing: what is left of a shell's variable that is not set."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.cli.options.command_help import help_of

_PATTERNS = frozenset({"grep"})
"""Options whose value is a pattern, which a blank may be."""


class BlankRejectingContext(click.Context):
    """Refuses blank values before the command runs: an empty file name would be the current directory.

    An option that is empty unless it is given may be given empty, and what is passed on to a program may be anything.
    """

    def invoke(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        for parameter in self.command.params:
            is_free = parameter.default == "" or parameter.type is click.UNPROCESSED or parameter.name in _PATTERNS
            if not is_free and _holds_blank(self.params.get(parameter.name or "")):
                raise click.BadParameter("it is empty; is a variable of the shell not set?", self, parameter)
        return super().invoke(callback, *args, **kwargs)

    def get_help(self) -> str:
        return super().get_help() if isinstance(self.command, click.Group) else help_of(self)


def reject_blanks(command: click.Command) -> click.Command:
    """The command, refusing blank values from now on."""
    command.context_class = BlankRejectingContext
    return command


def _holds_blank(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_blank, value))
    return isinstance(value, str) and not value.strip()
