"""``gpuctl fit``: check whether the pods of jobs can be placed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial

import click

from gpuctl.api.fit_answers import FitAnswer, FitFailure, FitJob, FitJobs, fit_jobs
from gpuctl.api.json_values import to_json
from gpuctl.capacity.fit.verdicts import LACKING
from gpuctl.cli.options.cluster_choice import stated_cluster
from gpuctl.cli.options.connection_options import (
    ConnectionOptions,
    cluster_errors,
    cluster_options,
    json_option,
    open_cluster,
    selected_service,
)
from gpuctl.cli.options.document_options import CompileOptions, compile_options, input_options, override_option
from gpuctl.cli.options.planning_options import documents_of
from gpuctl.cli.options.snapshot_options import check_snapshot_option, snapshot_option, snapshot_source
from gpuctl.cli.output import json, text
from gpuctl.cli.output.fit_lines import fit_lines, suggestion_lines
from gpuctl.cli.output.terminal import is_coloured
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source
from gpuctl.kube.api_errors import ClusterError
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.fit.fit_documents import FitResult, fit, fit_waiting
from gpuctl.usecases.fit.service_fit import fit_by_service, fit_waiting_by_service


@click.command(
    "fit",
    short_help="Check whether jobs fit, and which jobs they would evict.",
    epilog="Exit code 0: every job fits, possibly by evicting others; 1: a job does not fit; 2 or more: "
    "undetermined.\n\nExamples:\n\n  $ gpuctl fit -f training.yaml --snapshot cluster.json\n\n"
    "  $ gpuctl fit -f training.yaml --snapshot cluster.json --suggest\n\n  $ gpuctl fit",
)
@input_options
@override_option
@compile_options
@cluster_options
@snapshot_option("Use a file of `gpuctl snapshot` (- for standard input) instead of the cluster.")
@click.option("--suggest", is_flag=True, help="Suggest the smallest changes that make jobs fit.")
@json_option
def command(
    inputs: list[str],
    compiling: CompileOptions,
    connection: ConnectionOptions,
    snapshot_file: str | None,
    suggest: bool,
    as_json: bool,
) -> int:
    """Check for each job whether all its pods fit at the same time, by the rules of the Kubernetes scheduler.

    Jobs are placed one after another: the highest priority first, and of equal priority those that run now. Resources
    of a job that runs count as free, because apply replaces it if its document has changed. Without FILE, the pods
    that wait for a node now are checked, grouped by job; -n limits them to a namespace. Changes nothing.

    --suggest searches for changes of a document with which its job fits now without evicting others: less memory or
    cpu, fewer GPUs, another GPU type or pool, more nodes of fewer GPUs. Each suggestion is compiled, and checked
    together with the other documents.
    """
    if suggest and not inputs:
        raise click.UsageError("--suggest changes documents: name them with -f")
    check_snapshot_option(snapshot_file, connection, inputs)
    with cluster_errors():
        try:
            result = (
                _fit(
                    documents_of(compiling, inputs),
                    connection,
                    snapshot_file,
                    as_json=as_json,
                    suggest=suggest,
                )
                if inputs
                else _fit_waiting(compiling.namespace, connection, snapshot_file)
            )
        except ClusterError as error:
            if as_json:
                click.echo(to_json(FitFailure(jobs=[], error=error.message).as_json()), nl=False)
            raise
    if as_json:
        click.echo(to_json(FitJobs(jobs=result.jobs).as_json()), nl=False)
    else:
        nothing = "There is no job in the documents." if inputs else "No pod waits for a node."
        _show(result.jobs, nothing, suggested=suggest)
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    return {True: 0, False: 1, None: 2}[result.fits]


def _fit(
    documents: DocumentOptions,
    connection: ConnectionOptions,
    snapshot_file: str | None,
    *,
    as_json: bool,
    suggest: bool,
) -> FitAnswer:
    """Return the result for documents. Errors in the documents end the command with exit code 2."""

    def diagnosed(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> None:
        text.write(diagnostics, sources, sys.stderr)

    service = selected_service(connection) if snapshot_file is None else None
    session = open_cluster(connection) if snapshot_file is None and service is None else None
    try:
        if service is not None:
            return fit_by_service(service, documents, diagnosed, partial(click.echo, err=True), suggest=suggest)
        found = fit(
            documents.sources,
            cluster=session.connection if session is not None else None,
            snapshot=snapshot_source(snapshot_file),
            cluster_name=stated_cluster() if session is not None else None,
            platform=documents.platform,
            namespace=documents.namespace,
            strict=documents.strict,
            profile=documents.variant.profile,
            overrides=documents.variant.overrides,
            suggest=suggest,
            diagnosed=diagnosed,
        )
        return _answer(found)
    except InvalidDocuments as error:
        text.write(error.diagnostics, error.sources, sys.stderr)
        if as_json:
            click.echo(json.render(error.diagnostics), nl=False)
        raise click.exceptions.Exit(2) from None
    finally:
        for asked in (service, session):
            if asked is not None:
                asked.close()


def _fit_waiting(namespace: str | None, connection: ConnectionOptions, snapshot_file: str | None) -> FitAnswer:
    """Return the result for the pods that wait now."""
    if snapshot_file is not None:
        return _answer(fit_waiting(snapshot=snapshot_source(snapshot_file), namespace=namespace))
    if (service := selected_service(connection)) is not None:
        with closing(service):
            return fit_waiting_by_service(service, namespace)
    with closing(open_cluster(connection)) as session:
        return _answer(fit_waiting(cluster=session.connection, namespace=namespace))


def _answer(result: FitResult) -> FitAnswer:
    return FitAnswer(jobs=fit_jobs(result.jobs, result.suggestions).jobs, notes=result.notes)


def _show(jobs: Sequence[FitJob], nothing: str, *, suggested: bool) -> None:
    if not jobs:
        click.echo(nothing, err=True)
    for job in jobs:
        for line in fit_lines(job, coloured=is_coloured()):
            click.echo(line)
        for line in suggestion_lines(job.suggestions) if suggested and job.verdict in LACKING else ():
            click.echo(line)
