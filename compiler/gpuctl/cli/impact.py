"""``gpuctl impact``: what a change in git does to the machines."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gpuctl.cli.connecting import cluster_options
from gpuctl.cli.inputs import input_options, offline_compile_options
from gpuctl.cli.snapshots import check_choice, loaded, snapshot_option, taken, tell_unreadable
from gpuctl.language.fields import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuctl.backend.context import JobNames
    from gpuctl.cluster.snapshot import Snapshot
    from gpuctl.compilation import Compilation
    from gpuctl.frontend.source import Source


@click.command(
    "impact",
    short_help="Show what a change in git does to the machines.",
    epilog="Exit code 0: all fits; 1: something would not fit; 2: it could not be determined.\n\nExample:\n\n"
    "  $ gpuctl impact --from HEAD -f training.yaml",
)
@input_options
@offline_compile_options
@click.option("--from", "before", required=True, metavar="REF", help="The revision before, such as origin/main.")
@click.option("--to", "after", metavar="REF", help="The revision after. Default: the files as they are.")
@cluster_options
@snapshot_option("Tell also what it does to the cluster that `gpuctl snapshot` wrote here (- for standard input).")
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
    kubeconfig: str | None,
    context: str | None,
    snapshot_file: str | None,
    output: str,
) -> int:
    """Show what a change in git does to the machines.

    Objects added, changed and removed; GPUs by pool and type, quotas and capacities before and after; and what does not
    fit afterwards. Without FILE, everything in the current directory. With --snapshot, --context or --kubeconfig also
    the running jobs that it ends, and whom the new ones evict; GPUs are counted on the nodes then.
    """
    from gpuctl.cli.revisions import rendered_at
    from gpuctl.cluster.requests import pod_requests
    from gpuctl.gitops.effects import impact
    from gpuctl.gitops.report import as_json, markdown, text
    from gpuctl.gitops.sides import DOES_NOT_FIT, side_of

    inputs = [*filenames, *paths] or ["."]
    check_choice(snapshot_file, kubeconfig, context, inputs)
    pair = compiled_pair(before, after, inputs, platform, namespace, strict, tolerated=DOES_NOT_FIT)
    sides = side_of(pair[0], pod_requests), side_of(pair[1], pod_requests)
    rendered = rendered_at(before, inputs) if before is not None else frozenset()
    snapshot = _snapshot(snapshot_file, kubeconfig, context)
    live = None
    if snapshot is None:
        result = impact(*sides, rendered)
    else:
        from gpuctl.cli.live import look, with_machines

        live, never = look(*pair, snapshot)
        result = impact(*with_machines(*sides, *pair, snapshot), rendered)
        result.breakages.extend(never)
        tell_unreadable(snapshot)
    render = {"text": text, "markdown": markdown, "json": as_json}[output]
    sys.stdout.write(render(result, live))
    return 1 if result.breakages else 0


def _snapshot(snapshot_file: str | None, kubeconfig: str | None, context: str | None) -> Snapshot | None:
    """The cluster that the options name, None when they name none."""
    from gpuctl.cli.connecting import cluster_errors

    with cluster_errors():
        if snapshot_file is not None:
            return loaded(snapshot_file)
        return taken(kubeconfig, context) if (kubeconfig, context) != (None, None) else None


def compiled_pair(
    before: str | None,
    after: str | None,
    inputs: Sequence[str],
    platform: str | None,
    namespace: str,
    strict: bool,
    *,
    tolerated: frozenset[str] = frozenset(),
) -> tuple[Compilation | None, Compilation | None]:
    """The compilations of inputs at two revisions (None: as they are on disk), each as :func:`compiled_at` has it.

    :param tolerated: codes of errors that are no obstacle.
    :raises click.UsageError: an input exists on neither side, so that it is misspelt.
    """
    old, not_before = _compiled(before, inputs, platform, namespace, strict, tolerated)
    new, not_after = _compiled(after, inputs, platform, namespace, strict, tolerated)
    for name in inputs:
        if name in not_before and name in not_after:
            raise click.UsageError(f"`{visible(name)}` exists on neither side")
    return old, new


def compiled_at(
    reference: str | None,
    inputs: Sequence[str],
    platform: str | None,
    namespace: str,
    strict: bool,
    job_names: JobNames = "plain",
) -> Compilation | None:
    """The compilation of inputs at a revision, or as they are on disk; None when there is no document.

    An input that is not there, or a directory without YAML, holds no document. What does not compile is reported, and
    ends the command: nothing can be determined (2).
    """
    return _compiled(reference, inputs, platform, namespace, strict, frozenset(), job_names)[0]


def _compiled(
    reference: str | None,
    inputs: Sequence[str],
    platform: str | None,
    namespace: str,
    strict: bool,
    tolerated: frozenset[str],
    job_names: JobNames = "plain",
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
    result = compile(
        sources,
        platform=named,
        namespace=namespace,
        strict=strict,
        nodes=True,
        namespaces=True,
        job_names=job_names,
        tolerated=tolerated,
    )
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR} - tolerated
    if not result.documents and errors and errors <= {"GPU009", "GPU013"}:
        return None, missing
    if errors:
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
