"""A hint for options that stand before their command: `gpuctl --kubeconfig F get jobs`."""

from __future__ import annotations

import shlex

import click


class GroupWithOptionHints(click.Group):
    """A group that suggests the right place for an option of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            line = _corrected_line(self, ctx, given, error.option_name)
            if line is None:
                raise
            message = f"`{error.option_name}` goes after the command: `{line}`"
            raise click.UsageError(message, ctx) from None


def _corrected_line(group: click.Group, ctx: click.Context, args: list[str], option: str) -> str | None:
    """Return the command line with the options after the command; None if the command does not have this option."""
    words: list[str] = []
    command: click.Command = group
    first = next((place for place, word in enumerate(args) if group.get_command(ctx, word) is not None), None)
    if first is None:
        return None
    for word in args[first:]:
        found = command.get_command(ctx, word) if isinstance(command, click.Group) else None
        if found is None:
            break
        words.append(word)
        command = found
    if option not in {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}:
        return None
    rest = args[first + len(words) :]
    return f"{ctx.command_path} {shlex.join([*words, *args[:first], *rest])}"
