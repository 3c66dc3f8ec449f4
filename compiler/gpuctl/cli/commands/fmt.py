"""``gpuctl fmt``: rewrite documents in canonical spelling."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpuctl.cli.options.document_options import input_options, require_inputs
from gpuctl.cli.output import text
from gpuctl.cli.output.file_changes import print_difference, replace_file
from gpuctl.frontend.diagnostics import Severity
from gpuctl.frontend.formatter import format_source
from gpuctl.frontend.source import STDIN, collect


@click.command(
    "fmt",
    short_help="Rewrite documents in canonical spelling, comments kept.",
    epilog="Example:\n\n  $ gpuctl fmt --check training.yaml",
)
@input_options
@click.option("--check", is_flag=True, help="Change nothing; exit 1 and name the files that would change.")
@click.option("--diff", "show_diff", is_flag=True, help="Change nothing; print what would change.")
def command(inputs: list[str], check: bool, show_diff: bool) -> int:
    """Rewrite documents in canonical spelling. Comments, order and layout stay.

    Files are rewritten in place; standard input (-) is formatted to standard output.
    """
    require_inputs(inputs, "gpuctl fmt training.yaml")
    found = collect(inputs)
    diagnostics = list(found.diagnostics)
    changed = False
    for source in found.sources:
        formatted = format_source(source)
        diagnostics += formatted.diagnostics
        before, after = source.mark + source.text, source.mark + formatted.text
        if source.name == STDIN and not check and not show_diff:
            sys.stdout.write(after)
        elif after != before:
            changed = True
            if show_diff:
                print_difference(before, after, (f"{source.name} (now)", f"{source.name} (formatted)"))
            if check:
                click.echo(f"{source.name}: would be rewritten")
            elif not show_diff:
                replace_file(Path(source.path or source.name), after)
                click.echo(f"{source.name}: rewritten", err=True)
    # Notes, for example on files that are not documents, do not concern the format.
    diagnostics = [item for item in diagnostics if item.severity is not Severity.NOTE]
    text.write(diagnostics, {source.name: source for source in found.sources}, sys.stderr)
    return 1 if diagnostics or (changed and (check or show_diff)) else 0
