"""``gpuctl get jobs`` and ``get pods``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from gpuctl.cli.commands.get.listing import selector_option
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.completion_callbacks import complete_job, complete_pool
from gpuctl.cli.options.reading_options import (
    ListOptions,
    ReadingOptions,
    list_options,
    namespace_options,
    open_context,
    reading_options,
)
from gpuctl.cli.options.sweep_option import sweep_option
from gpuctl.cli.output.printing import show_rows, show_value, shown_table
from gpuctl.cli.output.table import Table
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.not_found import suggestion
from gpuctl.language.kinds import WORKLOADS
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.job_rows import JobTableRow
from gpuctl.usecases.queries.job_queries import JobQuery, gpu_use, jobs_of_sweep, list_jobs, watch_jobs
from gpuctl.usecases.queries.read_context import ReadContext

Function = TypeVar("Function", bound=Callable[..., Any])
HEADERS = ("JOB ID", "NAME", "NAMESPACE", "KIND", "STATUS", "READY", "NODE", "IP", "AGE")
WIDE = ("POOL", "GPU", "GPU-TYPE", "PRIORITY", "APPLIED BY", "REASON")
_LEFT_OUT_FIRST = ("IP", "NODE")
_LEFT_OUT_THEN = ("PRIORITY", "APPLIED BY", "GPU-TYPE", "POOL", "GPU", "AGE", "READY", "KIND")
"""Columns that are omitted on a narrow terminal, in this order."""


_OF_SWEEP = ("STATUS", "READY", "NODE", "AGE")


class JobTableOptions(NamedTuple):
    """The form of a list of jobs."""

    output: str
    headings: bool
    by_job: bool
    pods_only: bool


def _options(function: Function) -> Function:
    """Add the options of lists of jobs, and pass those that select jobs as ``query``."""
    for decorate in (
        bound("query", _query),
        click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_job),
        click.option("-w", "--watch", is_flag=True, help="Watch: print a row again when it changes."),
        selector_option,
        click.option(
            "--status", default="", metavar="WORD", help="Only this status: pending, running, failed, OOMKilled ..."
        ),
        click.option("--pool", default="", metavar="POOL", help="Only this pool.", shell_complete=complete_pool),
        click.option(
            "--kind", "--type", "kind", type=click.Choice(WORKLOADS), default=None, help="Only this kind of job."
        ),
        sweep_option("Only the jobs of this sweep, with their values."),
        list_options,
        namespace_options,
        reading_options,
    ):
        function = decorate(function)
    return function


def _query(names: tuple[str, ...], pool: str, kind: str | None, status: str, selector: str, sweep: str) -> JobQuery:
    return JobQuery(names, pool, kind or "", status, selector, sweep=sweep)


@click.command(
    "jobs",
    short_help="Jobs, a row for each of their pods.",
    epilog="Examples:\n\n  $ gpuctl get jobs\n\n  $ gpuctl get jobs --pool training-pool --status pending -o wide",
)
@_options
@click.option("--pods", "pods_only", is_flag=True, help="Pods only; no rows for jobs that have none.")
@click.option("--jobs", "by_job", is_flag=True, help="One row per job; READY counts its pods.")
def command(
    query: JobQuery,
    watch: bool,
    output_form: ListOptions,
    namespace: str | None,
    reading: ReadingOptions,
    pods_only: bool,
    by_job: bool,
) -> int:
    """List jobs: a row for each pod, and for each job without pods, with the reason.

    All namespaces that you may read are searched. STATUS is the reason why a pod does not run, in kubectl's words; -o
    wide adds pool, GPUs, priority, the user who applied the job, and the full reason. With --sweep, a row for each job
    with its values.
    """
    if pods_only and by_job:
        raise click.UsageError("--pods shows a row for each pod, --jobs one for each job; not both")
    return _get(query._replace(pods_only=pods_only, by_job=by_job), output_form, namespace, reading, watch=watch)


@click.command("pods", short_help="Pods of jobs.", epilog="Example:\n\n  $ gpuctl get pods --status failed")
@_options
def pods(query: JobQuery, watch: bool, output_form: ListOptions, namespace: str | None, reading: ReadingOptions) -> int:
    """List the pods of jobs: `gpuctl get jobs --pods`."""
    return _get(query._replace(pods_only=True), output_form, namespace, reading, watch=watch)


def _get(
    query: JobQuery, output_form: ListOptions, namespace: str | None, reading: ReadingOptions, *, watch: bool
) -> int:
    output = output_form.output
    if watch and output == "yaml":
        raise click.UsageError("--watch prints rows, names or a JSON value for each change; not YAML")
    table = JobTableOptions(output, output_form.headings, query.by_job, query.pods_only)
    # Not with --watch: these reasons depend on all pods of the cluster, so rows would be printed again all the time.
    query = query._replace(reasons=output == "wide" and not watch)
    with open_context(reading, namespace, as_json=output_form.is_machine) as read_context:
        try:
            return _watch(read_context, query, table) if watch else _list(read_context, query, table)
        except KeyboardInterrupt:
            if watch:
                return 130
            raise


def _list_sweep(read_context: ReadContext, query: JobQuery, output_form: JobTableOptions) -> int:
    """Print the jobs of a sweep with a column for each parameter."""
    rows = jobs_of_sweep(read_context, query)
    if output_form.output in ("json", "yaml"):
        from gpuctl.api.job_list_answers import sweep_rows

        show_value(sweep_rows(query.sweep, rows).as_json(), output_form.output)
        return 0
    if not rows:
        click.echo(_nothing(read_context, query, set()), err=True)
        return 0
    names = list(dict.fromkeys(name for row in rows for name in row.sweep_values or ()))
    headers = ("NAME", "NAMESPACE", *names, *_OF_SWEEP, *(WIDE if output_form.output == "wide" else ()))
    table = shown_table(headers, headings=output_form.headings, droppable=(*_LEFT_OUT_FIRST, *_LEFT_OUT_THEN))
    cells = []
    for row in rows:
        _, name, namespace, _, word, ready, node, _, since, *wide = _cells(read_context, row, output_form)
        values = row.sweep_values or {}
        cells.append([name, namespace, *(values.get(key, "") for key in names), word, ready, node, since, *wide])
    show_rows(table, cells)
    return 0


def _list(read_context: ReadContext, query: JobQuery, output_form: JobTableOptions) -> int:
    if query.sweep and not query.pods_only and output_form.output != "name":
        return _list_sweep(read_context, query, output_form)
    if output_form.output in ("json", "yaml"):
        # Imported here: the models take longer to import than a small cluster to list, and a table does not need them.
        from gpuctl.api.job_list_answers import job_rows

        show_value(job_rows(list_jobs(read_context, query).rows).as_json(), output_form.output)
        return 0
    listing = list_jobs(read_context, query)
    if not _print(read_context, listing.rows, output_form):
        click.echo(_nothing(read_context, query, listing.statuses), err=True)
    elif sys.stdout.isatty() and output_form.output != "name":
        click.echo(_footer(read_context, listing.jobs), err=True)
        if listing.stuck is not None:
            why = JobHint("why", listing.stuck.name, listing.stuck.namespace)
            click.echo(f"{why} shows why it does not run", err=True)
    return 0


def _nothing(read_context: ReadContext, query: JobQuery, statuses: set[str]) -> str:
    searched = read_context.scope.searched
    where = f"in namespace {searched}" if searched else "in any namespace"
    if unknown := _no_such_namespace(read_context) or (query.pool and _no_such_pool(read_context, query.pool)):
        return unknown
    said = f"No {'matching ' if query.is_narrowed else ''}jobs {where}."
    return f"{said} Statuses here: {', '.join(sorted(statuses))}." if query.status and statuses else said


def _no_such_namespace(read_context: ReadContext) -> str:
    """Return the message for a namespace that does not exist; "" if it exists, or if namespaces may not be read."""
    # Only a namespace without jobs needs the module.
    from gpuctl.usecases.queries.quota_queries import namespace_names

    namespace = read_context.scope.namespace
    try:
        known = namespace_names(read_context) if namespace else []
    except ClusterError:
        return ""
    if not known or namespace is None or namespace in known:
        return ""
    return f"There is no namespace {namespace}: {suggestion(namespace, known)}"


def _no_such_pool(read_context: ReadContext, name: str) -> str:
    """Return the message for a pool that does not exist; "" if it exists, or if the pools may not be read."""
    # Only a pool without jobs needs the modules that read nodes.
    from gpuctl.usecases.queries.pool_queries import pool_names

    unseen = len(read_context.scope.notes)
    try:
        pools = pool_names(read_context)
    except ClusterError:
        return ""
    is_known = name in pools or len(read_context.scope.notes) > unseen
    return "" if is_known else f"There is no pool {name}: {suggestion(name, pools)}"


def _print(read_context: ReadContext, rows: Sequence[JobTableRow], output_form: JobTableOptions) -> bool:
    """Print rows. Return False if the list is empty."""
    if output_form.output == "name":
        return _print_names(rows, output_form)
    if rows or not sys.stdout.isatty():
        show_rows(_table(output_form), (_cells(read_context, row, output_form) for row in rows))
    return bool(rows)


def _print_names(rows: Iterable[JobTableRow], output_form: JobTableOptions) -> bool:
    printed: set[str] = set()
    for row in rows:
        name = _name(row, output_form)
        if name not in printed:
            printed.add(name)
            click.echo(name)
    return bool(printed)


def _table(output_form: JobTableOptions) -> Table:
    headers = (*HEADERS, *WIDE) if output_form.output == "wide" else HEADERS
    # In a list of jobs the id often repeats the name, so the column is omitted and not only cut.
    first = ("JOB ID", "JOB ID", *_LEFT_OUT_FIRST) if output_form.by_job else (*_LEFT_OUT_FIRST, "JOB ID")
    return shown_table(headers, headings=output_form.headings, droppable=(*first, *_LEFT_OUT_THEN))


def _name(row: JobTableRow, output_form: JobTableOptions) -> str:
    return f"pod/{row.pod}" if output_form.pods_only else row.identity.title


def _cells(read_context: ReadContext, row: JobTableRow, output_form: JobTableOptions) -> list[str]:
    name, namespace, kind = row.identity.name, row.identity.namespace, row.identity.kind
    node = row.node or ""
    if output_form.by_job and node.count(",") > 0:
        node = f"{node.split(',')[0]}(+{node.count(',')})"
    cells = [row.shown_id, name, namespace, kind, row.state.word, row.ready, node, row.ip or ""]
    cells.append(read_context.age(row.created_at))
    if output_form.output == "wide":
        cells += [
            row.pool or "",
            str(row.gpu),
            row.gpu_type or "",
            row.priority or "",
            row.applied_by or "",
            row.state.reason,
        ]
    return cells


def _footer(read_context: ReadContext, jobs: Iterable[Job]) -> str:
    """Return ``GPUs: 24/32 allocated, 8 waiting``; without the total if nodes may not be listed."""
    use = gpu_use(read_context, jobs)
    total = f"/{use.total}" if use.total is not None else ""
    return f"GPUs: {use.allocated}{total} allocated{f', {use.waiting} waiting' if use.waiting else ''}"


def _watch(read_context: ReadContext, query: JobQuery, output_form: JobTableOptions) -> int:
    """Print all rows, then changed rows until Ctrl-C."""
    table = _table(output_form)
    for rows in watch_jobs(read_context, query):
        if output_form.output == "json":
            for line in _json_lines(rows):
                click.echo(line)
        elif output_form.output == "name":
            _print_names(rows, output_form)
        elif rows:
            # One table for all batches: on a narrow terminal each batch would otherwise choose its own columns.
            show_rows(table, [_cells(read_context, row, output_form) for row in rows])
        sys.stdout.flush()
    return 0


def _json_lines(rows: Iterable[JobTableRow]) -> Iterator[str]:
    from gpuctl.api.job_list_answers import JobRow

    return (json.dumps(JobRow.model_validate(row).as_json(), ensure_ascii=False) for row in rows)
