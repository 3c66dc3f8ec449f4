"""Groups of subcommands with aliases: ``get pods``, ``get pod``, ``get po``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from gpuctl.cli.options.blank_values import reject_blanks
from gpuctl.cli.options.option_hints import GroupWithOptionHints
from gpuctl.language.spelling import nearest


class Subcommand(NamedTuple):
    """A subcommand: its module, its name there (``attribute``), its help, and its aliases (``names``)."""

    module: str
    help: str
    names: tuple[str, ...] = ()
    attribute: str = "command"


class SubcommandGroup(GroupWithOptionHints):
    """A group that imports a subcommand's module when it is called."""

    def __init__(self, *args: Any, subcommands: Mapping[str, Subcommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.subcommands = subcommands
        self._named = {alias: name for name, entry in subcommands.items() for alias in (name, *entry.names)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self._named.get(cmd_name.lower())
        if name is None:
            return None
        entry = self.subcommands[name]
        return reject_blanks(getattr(import_module(entry.module), entry.attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name.lower() not in self._named and not name.startswith("-"):
            close = nearest(name, self._named)
            hint = f" Did you mean `{ctx.command_path} {close}`?" if close else self._job_hint(ctx, name)
            raise click.UsageError(
                f"`{ctx.command_path}` has no subcommand `{name}`, but {', '.join(self.subcommands)}.{hint}", ctx
            )
        return super().resolve_command(ctx, args)

    def _job_hint(self, ctx: click.Context, name: str) -> str:
        """Return a hint for a job's name in place of the subcommand, the most frequent mistake."""
        subcommand = next((one for one in ("job", "jobs") if one in self.subcommands), None)
        return f" If `{name}` is a job: `{ctx.command_path} {subcommand} {name}`." if subcommand else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.subcommands.items()])


def node_group(name: str, help: str, epilog: str) -> SubcommandGroup:
    """Return a group with the subcommand ``node``, which is in the command's module of the same name."""
    node = Subcommand(f"gpuctl.cli.commands.{name}", help, ("nodes", "no"), "node")
    return SubcommandGroup(name, subcommands={"node": node}, help=help, short_help=help, epilog=epilog)
