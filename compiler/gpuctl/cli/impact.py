"""``gpuctl impact``: what a change in git does to the machines."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gpuctl.cli.inputs import input_options, offline_compile_options
from gpuctl.language.fields import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuctl.compilation import Compilation
    from gpuctl.frontend.source import Source


@click.command(
    "impact",
    short_help="Show what a change in git does to the machines.",
    epilog="Exit code 0: all fits; 1: something would not fit; 2: it could not be told.\n\nExample:\n\n"
    "  $ gpuctl impact --from HEAD -f training.yaml",
)
@input_options
@offline_compile_options
@click.option("--from", "before", required=True, metavar="REF", help="The revision before, such as origin/main.")
@click.option("--to", "after", metavar="REF", help="The revision after. Default: the files as they are.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Format; markdown fits a comment on a pull request.",
)
def command(
    filenames: tuple[str, ...],
    paths: tuple[str, ...],
    platform: str | None,
    namespace: str,
    strict: bool,
    before: str,
    after: str | None,
    output: str,
) -> int:
    """Show what a change in git does to the machines.

    Objects added, changed and removed; GPUs by pool and type, quotas and capacities before and after; and what does not
    fit afterwards. Without FILE, everything in the current directory.
    """
    from gpuctl.cluster.requests import pod_requests
    from gpuctl.gitops.impact import impact, side_of
    from gpuctl.gitops.report import as_json, markdown, text

    inputs = [*filenames, *paths] or ["."]
    old, new = compiled_pair(before, after, inputs, platform, namespace, strict)
    result = impact(side_of(old, pod_requests), side_of(new, pod_requests))
    render = {"text": text, "markdown": markdown, "json": as_json}[output]
    sys.stdout.write(render(result))
    return 1 if result.breakages else 0


def compiled_pair(
    before: str | None,
    after: str | None,
    inputs: Sequence[str],
    platform: str | None,
    namespace: str,
    strict: bool,
) -> tuple[Compilation | None, Compilation | None]:
    """The compilations of inputs at two revisions (None: as they are on disk), each as :func:`compiled_at` has it.

    :raises click.UsageError: an input exists on neither side, so that it is misspelt.
    """
    old, not_before = _compiled(before, inputs, platform, namespace, strict)
    new, not_after = _compiled(after, inputs, platform, namespace, strict)
    for name in inputs:
        if name in not_before and name in not_after:
            raise click.UsageError(f"`{visible(name)}` exists on neither side")
    return old, new


def compiled_at(
    reference: str | None, inputs: Sequence[str], platform: str | None, namespace: str, strict: bool
) -> Compilation | None:
    """The compilation of inputs at a revision, or as they are on disk; None when there is no document.

    An input that is not there, or a directory without YAML, holds no document. What does not compile is reported, and
    ends the command: nothing can be told (2).
    """
    return _compiled(reference, inputs, platform, namespace, strict)[0]


def _compiled(
    reference: str | None, inputs: Sequence[str], platform: str | None, namespace: str, strict: bool
) -> tuple[Compilation | None, list[str]]:
    """The compilation, and the inputs that do not exist."""
    from gpuctl.cli.printers import text
    from gpuctl.cli.revisions import revision
    from gpuctl.compilation import compile
    from gpuctl.frontend.diagnostics import Severity, count

    sources: Sequence[str | Source]
    named: str | Source | None
    if reference is None:
        missing = [name for name in inputs if name != "-" and not os.path.lexists(name)]
        sources = [name for name in inputs if name not in missing and not _is_empty(name)]
        named = platform
    else:
        found = revision(reference, inputs, platform)
        if count(found.problems, Severity.ERROR):
            text.write(found.problems, {}, sys.stderr)
            raise click.exceptions.Exit(2)
        sources, named, missing = found.sources, found.platform, found.missing
    if not sources:
        return None, missing
    result = compile(sources, platform=named, namespace=namespace, strict=strict, nodes=True)
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR}
    if not result.documents and errors == {"GPU009"}:
        return None, missing
    if not result.ok:
        text.write(result.diagnostics, result.sources, sys.stderr)
        side = f"at {visible(reference)}" if reference is not None else "on disk"
        click.echo(f"error: the documents {side} do not compile", err=True)
        raise click.exceptions.Exit(2)
    return result, missing


def _is_empty(name: str) -> bool:
    """Whether this is a directory without YAML."""
    from gpuctl.frontend.source import SUFFIXES

    return os.path.isdir(name) and not any(
        file.endswith(SUFFIXES) for _, _, files in os.walk(name) for file in files if not file.startswith(".")
    )
