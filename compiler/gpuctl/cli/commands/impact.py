"""``gpuctl impact``: show the impact of a change in git."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Literal

import click

from gpuctl.api.difference_answers import ImpactAnswer, impact_code
from gpuctl.api.json_values import to_json
from gpuctl.cli.command_target import is_server_stated
from gpuctl.cli.options.cluster_choice import stated_cluster
from gpuctl.cli.options.connection_options import ConnectionOptions, cluster_errors, kubeconfig_cluster_options
from gpuctl.cli.options.document_options import CONTROLLERS, CompileOptions, input_options, offline_compile_options
from gpuctl.cli.options.planning_options import documents_of
from gpuctl.cli.options.revision_errors import revision_errors
from gpuctl.cli.options.snapshot_options import check_snapshot_option, chosen_snapshot, snapshot_option
from gpuctl.cli.output.live_impact_lines import live_lists
from gpuctl.gitops.impact_report import markdown, text
from gpuctl.usecases.documents.snapshot_files import snapshot_limits
from gpuctl.usecases.revisions.change_impact import change_between, impact_of


@click.command(
    "impact",
    short_help="Show the impact of a change in git.",
    epilog="Exit code 0: the change makes nothing worse (with --fail-on any: everything fits); 1: something does not "
    "fit; 2: undetermined.\n\nExample:\n\n"
    "  $ gpuctl impact --from HEAD -f training.yaml",
)
@input_options
@offline_compile_options
@click.option("--from", "before", required=True, metavar="REF", help="The revision before, such as origin/main.")
@click.option("--to", "after", metavar="REF", help="The revision after. Default: the current files.")
@click.option(
    "--gitops",
    type=click.Choice(CONTROLLERS),
    help="Judge the change as this controller applies it: it creates a changed training while the old one still runs. "
    "Default: that of platform.yaml, else none.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["new", "any"]),
    default="new",
    show_default=True,
    help="Exit 1 for what the change causes or makes worse, or for anything that does not fit.",
)
@kubeconfig_cluster_options
@snapshot_option("Also show the impact on the cluster in this file of `gpuctl snapshot` (- for standard input).")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Format; markdown fits a comment on a pull request.",
)
def command(
    inputs: list[str],
    compiling: CompileOptions,
    before: str,
    after: str | None,
    gitops: str | None,
    fail_on: Literal["new", "any"],
    connection: ConnectionOptions,
    snapshot_file: str | None,
    output: str,
) -> int:
    """Show the impact of a change in git on jobs, GPUs and quotas.

    Lists objects added, changed and removed; GPUs by pool and type, quotas and capacities before and after; and what no
    longer fits. Without FILE, the current directory is compared. With --snapshot, --context or --kubeconfig the running
    jobs that the change ends, and evictions by new jobs, are listed too, and GPUs are counted on the nodes.
    """
    inputs = inputs or ["."]
    if is_server_stated():
        raise click.UsageError(
            "`gpuctl impact` does not use a service: leave --server out; `gpuctl diff` and `gpuctl fit` ask it"
        )
    check_snapshot_option(snapshot_file, connection, inputs)
    with revision_errors():
        documents = replace(documents_of(compiling, inputs), cluster=stated_cluster())
        change = change_between(before, after, documents)
    with cluster_errors():
        snapshot = chosen_snapshot(snapshot_file, connection)
    impact, live = impact_of(change, snapshot, gitops)  # type: ignore[arg-type]
    for note in snapshot_limits(snapshot) if snapshot is not None else ():
        click.echo(f"note: {note}", err=True)
    if output == "json":
        sys.stdout.write(to_json(ImpactAnswer.of(impact, live).as_json()))
    else:
        render = markdown if output == "markdown" else text
        sys.stdout.write(render(impact, live_lists(live) if live is not None else ()))
    return impact_code(impact, fail_on)
