"""``gpuctl fmt``: rewrite documents in canonical spelling."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from io import StringIO
from pathlib import Path

import click

from gpuctl.cli.options.document_options import input_options, require_inputs
from gpuctl.cli.output import text
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
def command(filenames: tuple[str, ...], paths: tuple[str, ...], check: bool, show_diff: bool) -> int:
    """Rewrite documents in canonical spelling. Comments, order and layout stay.

    Files are rewritten in place; standard input (-) is formatted to standard output.
    """
    found = collect(require_inputs(filenames, paths, "gpuctl fmt training.yaml"))
    diagnostics = list(found.diagnostics)
    changed = False
    for source in found.sources:
        formatted = format_source(source)
        diagnostics += formatted.diagnostics
        original = source.text
        if source.name == STDIN and not check and not show_diff:
            sys.stdout.write(formatted.text)
        elif formatted.text != original or _has_mark(source.path):
            changed = True
            if show_diff:
                _print_diff(source.name, original, formatted.text)
            if check:
                click.echo(f"{source.name}: would be rewritten")
            elif not show_diff:
                _write(Path(source.path or source.name), formatted.text)
                click.echo(f"{source.name}: rewritten", err=True)
    # Notes, for example on files that are not documents, do not concern the format.
    diagnostics = [item for item in diagnostics if item.severity is not Severity.NOTE]
    text.write(diagnostics, {source.name: source for source in found.sources}, sys.stderr)
    return 1 if diagnostics or (changed and (check or show_diff)) else 0


def _has_mark(path: str | None) -> bool:
    """Return True if the file starts with a byte-order mark, which reading drops."""
    try:
        with open(path or "", "rb") as stream:
            return stream.read(3) == b"\xef\xbb\xbf"
    except OSError:
        return False


def _print_diff(name: str, before: str, after: str) -> None:
    # Lines end at a line feed only, as in tools that apply a diff, and not at U+2028 or a form feed.
    now, formatted = (list(StringIO(text, newline="\n")) for text in (before, after))
    lines = difflib.unified_diff(now, formatted, f"{name} (now)", f"{name} (formatted)")
    for line in lines:
        click.echo(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n", nl=False)


def _write(path: Path, text: str) -> None:
    """Replace a file atomically and keep its permissions; on failure the old file stays."""
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
            temporary.chmod(target.stat().st_mode & 0o7777)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise click.ClickException(f"cannot write `{path}`: {reason}; the file is unchanged") from None
