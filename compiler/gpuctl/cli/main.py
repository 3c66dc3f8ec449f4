"""The command group of ``gpuctl``. A command's module is imported when it is called; misspelt commands get a
suggestion.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from gpuctl.cli.command_target import is_server_stated
from gpuctl.cli.commands.completion import COMPLETION, PROGRAM
from gpuctl.cli.options.blank_values import reject_blanks
from gpuctl.cli.options.option_hints import GroupWithOptionHints
from gpuctl.cli.options.server_option import server_option
from gpuctl.cli.overview import COMMANDS, OVERVIEW
from gpuctl.cli.unknown_commands import COMMAND_HINTS
from gpuctl.hints import set_target_options
from gpuctl.release import __version__

SUCCESS, FAILURE = 0, 1


class CommandGroup(GroupWithOptionHints):
    """Imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return reject_blanks(import_module(f"gpuctl.cli.commands.{cmd_name.replace('-', '_')}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"There is no command `{name}`. {_suggestion(name)}", ctx)
        found = super().resolve_command(ctx, args)
        if is_server_stated(ctx) and found[1] is not None and not _asks_services(found[1]):
            raise click.UsageError(f"`{PROGRAM} {name}` does not use a service: leave --server out.", ctx)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by topic, on one screen of 24 lines."""
        listed = [(heading, line) for heading, lines in OVERVIEW.items() for line in lines]
        width = max(len(", ".join(line.commands)) for _, line in listed)
        formatter.write_paragraph()
        last = ""
        for heading, line in listed:
            shown = "" if heading == last else heading
            formatter.write(f"  {shown:<9}{', '.join(line.commands):<{width}}  {line.text}\n")
            last = heading
        formatter.write_paragraph()
        formatter.write("  --version   --debug (shows a traceback)   -h, --help (of every command)\n")


def _asks_services(command: click.Command) -> bool:
    return isinstance(command, click.Group) or any("--server" in parameter.opts for parameter in command.params)


def _suggestion(name: str) -> str:
    """Return a suggestion for a command that does not exist."""
    if name.lower() in COMMAND_HINTS:
        return COMMAND_HINTS[name.lower()]
    from gpuctl.language.spelling import nearest

    # `migrate` is not `create`: a command that is suggested may change a cluster.
    close = nearest(name, COMMANDS, cutoff=0.65)
    return f"Did you mean `{PROGRAM} {close}`?" if close else f"`{PROGRAM} --help` lists the commands."


@click.group(
    cls=CommandGroup,
    name=PROGRAM,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start: `gpuctl init training > job.yaml`, `gpuctl render -f job.yaml`",
)
@server_option
@click.option("--debug", is_flag=True, help="Show a traceback when gpuctl itself fails.")
@click.version_option(__version__, "--version", message="%(version)s", help="Print the version.")
def cli(debug: bool) -> None:
    """Short YAML about a GPU job, compiled to reviewable Kubernetes manifests."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line. Return its exit code: 0 success, 1 a negative result, 2 usage, 3 the cluster, 70 a bug,
    130 and 141 interrupted by Ctrl-C or a closed pipe.
    """
    # A compile builds large trees that live until the end of the process: collecting them takes a tenth of its time.
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)
    gc.enable()
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        # Python has no stream for a descriptor that is closed when it starts.
        click.echo(f"{PROGRAM}: a standard stream is closed; redirect it to /dev/null instead", err=True)
        return FAILURE
    debug = "--debug" in arguments
    for name, errors in (("stdout", "strict"), ("stderr", "backslashreplace")):
        # Files and pipes are UTF-8, whatever the locale; a terminal replaces characters that it cannot show.
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                terminal = _terminal(stream)
                setattr(sys, name, terminal)
                # Click reads the width of the terminal from sys.__stdout__, whose original buffer is detached.
                setattr(sys, f"__{name}__", terminal)
            else:
                stream.reconfigure(encoding="utf-8", errors=errors)
    try:
        result = _invoke(list(arguments))
        sys.stdout.flush()
        return result if isinstance(result, int) else SUCCESS
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo("Interrupted.", err=True)
        if (advice := getattr(error, "advice", None)) is not None:
            click.echo(f"note: {advice}", err=True)
        return 130
    except BrokenPipeError:
        # The reading end of the pipe is closed, as with `| head`.
        _close_output()
        return 141
    except OSError as error:
        if debug:
            raise
        if error.filename is not None:
            return _report_bug(error)
        _close_output()
        reason = (error.strerror or str(error)).lower()
        click.echo(f"{PROGRAM}: cannot write the output: {reason}", err=True)
        return FAILURE
    except Exception as error:
        if debug:
            raise
        return _report_bug(error)
    finally:
        set_target_options("")


def _terminal(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    from gpuctl.cli.output.terminal import Terminal

    encoding = stream.encoding
    return Terminal(stream.detach(), encoding=encoding, errors="replace", line_buffering=True)


def _invoke(arguments: list[str]) -> Any:
    if COMPLETION in os.environ:
        # Error messages, and prompts of credential plugins, would appear in the line that the user types.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 2):
            os.dup2(nothing, descriptor)
        with contextlib.suppress(click.ClickException):
            cli.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
        return SUCCESS
    # Not click's own `main`: on a closed pipe it exits with 1, which means a negative result here.
    with cli.make_context(PROGRAM, arguments) as context:
        return cli.invoke(context)


def _show(error: click.ClickException) -> None:
    """Print an error. All errors have the same prefix, whether click or gpuctl raises them."""
    from gpuctl.cli.options.connection_options import ClusterFailure, error_prefix

    if isinstance(error, (ClusterFailure, click.exceptions.NoArgsIsHelpError)):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        click.echo(context.get_usage(), err=True)
        click.echo(f"Try '{context.command_path} --help' for help.\n", err=True)
    click.echo(f"{error_prefix()}: {error.format_message()}", err=True)


def _close_output() -> None:
    """Redirect stdout to /dev/null: Python flushes it at exit, which would fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug(error: Exception) -> int:
    message = f"{PROGRAM}: internal error: {type(error).__name__}: {error}".splitlines()[0]
    click.echo(f"{message}\nThis is a bug. Run again with `{PROGRAM} --debug ...` and report what it prints.", err=True)
    return 70
