"""The jobs that a command line names, one by one or as a sweep."""

from __future__ import annotations

import click

from gpuctl.cli.options.reading_options import ReadingOptions, open_context
from gpuctl.reading.jobs.job_lookup import JobNotFound
from gpuctl.usecases.queries.job_queries import JobQuery, jobs_of_sweep
from gpuctl.usecases.queries.read_context import ReadContext


def require_names(names: tuple[str, ...], sweep: str) -> None:
    """Check that the command line names either jobs or a sweep.

    :raises click.UsageError: neither, or both.
    """
    if names and sweep:
        raise click.UsageError("Name jobs, or a sweep with --sweep; not both")
    if not names and not sweep:
        raise click.UsageError("Name the jobs, or a sweep with --sweep")


def named_jobs(reader: ReadContext, names: tuple[str, ...], sweep: str, status: str = "") -> tuple[str, ...]:
    """Return the names, or the ids of the jobs of the sweep.

    :param status: only jobs of the sweep in this phase.
    :raises JobNotFound: the sweep has no jobs.
    """
    require_names(names, sweep)
    if names:
        return names
    ids = tuple(row.job_id for row in jobs_of_sweep(reader, JobQuery(sweep=sweep, status=status)))
    if not ids:
        where = f"in namespace {reader.scope.searched}" if reader.scope.searched else "in any namespace"
        raise JobNotFound(f"there are no {status + ' ' if status else ''}jobs of a sweep {sweep} {where}")
    return ids


def read_named_jobs(
    names: tuple[str, ...],
    sweep: str,
    options: ReadingOptions,
    namespace: str | None,
    *,
    as_json: bool,
    status: str = "",
) -> tuple[str, ...]:
    """Return the names, or the ids of the jobs of the sweep, for commands that connect to change something."""
    require_names(names, sweep)
    if names:
        return names
    with open_context(options, namespace, as_json=as_json) as reader:
        return named_jobs(reader, names, sweep, status)
