"""``gpuctl drift``: show how a cluster differs from documents, since when, and by which manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuctl.api.drift_answers import DriftAnswer, drift_code
from gpuctl.api.error_meanings import UNDETERMINED
from gpuctl.cli.options.change_runner import Invocation, cluster_change
from gpuctl.cli.options.connection_options import ConnectionOptions, cluster_errors, kubeconfig_cluster_options
from gpuctl.cli.options.document_options import CompileOptions, compile_options, input_options
from gpuctl.cli.options.multi_cluster import chosen_clusters
from gpuctl.cli.options.planning_options import documents_of
from gpuctl.cli.options.revision_errors import revision_errors
from gpuctl.cli.output.drift_lines import drift_markdown, drift_text, summary
from gpuctl.cli.output.printing import show_value
from gpuctl.kube.webhook_request import post
from gpuctl.language.masking import redact
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.revisions.drift_report import documents_at, drift_of

if TYPE_CHECKING:
    from gpuctl.usecases.revisions.drift_report import DriftReport

_GIT = "git:"


@click.command(
    "drift",
    short_help="Show how a cluster differs from documents, and since when.",
    epilog="Examples:\n\n  $ gpuctl drift jobs\n\n  $ gpuctl drift git:HEAD --fail -o markdown",
)
@input_options
@compile_options
@kubeconfig_cluster_options
@click.option("--fail", is_flag=True, help="Exit with 1 if something differs, above 1 if that cannot be determined.")
@click.option(
    "--webhook",
    metavar="URL",
    envvar="GPUCTL_DRIFT_WEBHOOK",
    help="POST drift to this URL, as JSON. Default: $GPUCTL_DRIFT_WEBHOOK.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Format; markdown fits the summary of a CI job.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
def command(
    inputs: list[str],
    compiling: CompileOptions,
    connection: ConnectionOptions,
    fail: bool,
    webhook: str | None,
    output: str,
    as_json: bool,
) -> int:
    """Show how a cluster differs from documents, for example in a scheduled CI job.

    FILE may be git:REF, followed by files or directories of that revision; without these, the current directory. Shown
    are fields that differ, fields that other managers added, missing objects, and objects of the documents' sets that
    no document contains. Each has the field manager that wrote it and the time of its last write. Fields that
    controllers of Kubernetes and Kueue set are listed as expected. Changes nothing.
    """
    output = "json" if as_json else output
    report = _compared(
        documents_of(compiling, inputs),
        Invocation(connection, as_json=output == "json", refusal=UNDETERMINED),
    )
    _show(report, output)
    if webhook and (report.drift.objects or report.drift.problems):
        with cluster_errors():
            post(webhook, _answer(report))
    return drift_code(report.drift, fail=fail)


def _compared(documents: DocumentOptions, invocation: Invocation) -> DriftReport:
    """Return the comparison. If it cannot be made, the command ends with an exit code above 1."""
    inputs = [str(source) for source in documents.sources]
    revision = ""
    if inputs and inputs[0].startswith(_GIT):
        reference, *inputs = inputs
        inputs = inputs or ["."]
        with revision_errors(), cluster_errors(as_json=invocation.as_json, refusal=invocation.refusal, of_plan=False):
            documents, revision = documents_at(reference.removeprefix(_GIT), inputs, documents)
    elif not inputs:
        raise click.UsageError("Name a file, a directory, or git:REF: `gpuctl drift jobs`")
    documents, names = chosen_clusters(documents, invocation)
    if len(names) > 1:
        raise click.UsageError(f"`gpuctl drift` compares one cluster: give --cluster one of {', '.join(names)}")
    with cluster_change(invocation, of_plan=False, cluster=documents.cluster) as (session, callbacks):
        return drift_of(session, documents, callbacks, revision=revision, inputs=inputs)


def _answer(report: DriftReport) -> dict[str, Any]:
    return DriftAnswer.of(report.drift, report.server, report.cluster, report.revision).as_json()


def _show(report: DriftReport, output: str) -> None:
    drift = report.drift
    if output == "json":
        show_value(_answer(report), "json")
    elif output == "markdown":
        for line in drift_markdown(drift, report.server, report.cluster, report.revision):
            click.echo(line)
    else:
        for line in drift_text(drift):
            click.echo(line)
        click.echo(summary(drift), err=True)
    for note in dict.fromkeys(drift.notes):
        click.echo(f"note: {redact(note)}", err=True)
    for problem in dict.fromkeys(drift.problems):
        click.echo(f"error: {redact(problem)}", err=True)
