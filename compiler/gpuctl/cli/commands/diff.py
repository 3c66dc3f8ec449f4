"""``gpuctl diff``: show what apply would do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from gpuctl.api.cluster_answers import clusters_difference_code
from gpuctl.api.difference_answers import DifferencesAnswer, against_code
from gpuctl.api.error_meanings import UNDETERMINED
from gpuctl.api.json_values import to_json
from gpuctl.api.plan_answers import difference_code
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.command_target import is_server_stated
from gpuctl.cli.options.change_runner import Invocation, cluster_change, service_change
from gpuctl.cli.options.cluster_choice import stated_cluster
from gpuctl.cli.options.connection_options import ConnectionOptions, secrets_option, several_clusters_options
from gpuctl.cli.options.document_options import (
    CompileOptions,
    compile_options,
    input_options,
    override_option,
    require_inputs,
)
from gpuctl.cli.options.multi_cluster import chosen_clusters, multi_cluster_change
from gpuctl.cli.options.planning_options import documents_of, planning_options
from gpuctl.cli.options.revision_errors import revision_errors
from gpuctl.cli.output.cluster_lines import show_cluster_differences
from gpuctl.cli.output.object_differences import markdown_lines, text_lines
from gpuctl.cli.output.plan_results import show_difference
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.usecases.changes.applying import preview_request, request_for
from gpuctl.usecases.changes.service_changes import apply_by_service
from gpuctl.usecases.changes.several_clusters import prepare_apply
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.revisions.changes_against import changes_against


@click.command(
    "diff",
    short_help="Show what apply would do.",
    epilog="Exit code 0: no difference; 1: differences; 2 or more: undetermined.\n\nExample:\n\n"
    "  $ gpuctl diff -f training.yaml",
)
@input_options
@override_option
@compile_options
@several_clusters_options
@click.option(
    "--against",
    default="live",
    show_default=True,
    metavar="live|DIR|git:REF",
    help="Compare with the cluster, with manifests in a directory, or with the documents at a revision.",
)
@secrets_option
@planning_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Format; markdown fits a comment on a pull request.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
def command(
    inputs: list[str],
    compiling: CompileOptions,
    connection: ConnectionOptions,
    against: str,
    output: str,
    as_json: bool,
    planning: PlanOptions,
) -> int:
    """Show what apply would do to the cluster: the same plan, with a diff of each object. Changes nothing.

    With --against DIR or --against git:REF no cluster is needed.
    """
    require_inputs(inputs, "gpuctl diff -f training.yaml")
    output = "json" if as_json else output
    documents = documents_of(compiling, inputs)
    if against != "live":
        if is_server_stated():
            raise click.UsageError("--against compares with files: leave --server out")
        return _against(against, replace(documents, cluster=stated_cluster()), output)
    invocation = Invocation(connection, as_json=output == "json", refusal=UNDETERMINED)
    with service_change(invocation) as by_service:
        if by_service is not None:
            plan = apply_by_service(
                by_service.service, documents, planning, RunOptions(), by_service.callbacks, preview=True
            )
    if by_service is not None:
        # A service's steps carry the objects to show, so the keys are not used.
        show_difference(plan, records(Settings()), output)
        return difference_code(plan)
    documents, names = chosen_clusters(documents, invocation)
    if len(names) > 1:
        return _with_each(names, documents, planning, invocation, output)
    with cluster_change(invocation, cluster=documents.cluster) as (session, callbacks):
        wanted = request_for(session, documents, planning, callbacks)
        plan = preview_request(session, wanted, callbacks)
    show_difference(plan, wanted.request.keys, output)
    return difference_code(plan)


def _with_each(
    names: Sequence[str], documents: DocumentOptions, planning: PlanOptions, invocation: Invocation, output: str
) -> int:
    """Print what apply would do on each of several clusters."""
    with multi_cluster_change(names, invocation) as clusters:
        clusters.plan(
            documents, lambda session, own, callbacks: prepare_apply(session, own, planning, RunOptions(), callbacks)
        )
        show_cluster_differences(clusters.plans, clusters.keys, output)
    return clusters_difference_code(clusters.plans)


def _against(against: str, documents: DocumentOptions, output: str) -> int:
    """Print the differences from manifests or from a revision. Return 1 if there are any."""
    with revision_errors():
        changes = changes_against(against, documents)
    if output == "json":
        click.echo(to_json(DifferencesAnswer.of(changes).as_json()), nl=False)
    else:
        sys.stdout.writelines(markdown_lines(changes, against) if output == "markdown" else text_lines(changes))
    return against_code(changes)
