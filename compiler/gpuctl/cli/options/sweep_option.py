"""``--sweep NAME``: select the jobs of a sweep instead of naming them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.cli.options.reading_options import open_context
from gpuctl.language.names import is_dns_1035_label
from gpuctl.reading.job_lookup import JobNotFound
from gpuctl.usecases.job_queries import JobQuery, jobs_of_sweep
from gpuctl.usecases.read_context import ReadContext

Function = TypeVar("Function", bound=Callable[..., Any])


def _checked(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value and not is_dns_1035_label(value):
        raise click.BadParameter(f"`{value}` is not the name of a sweep", context, parameter)
    return value


def sweep_option(text: str = "All jobs of this sweep, instead of names.") -> Callable[[Function], Function]:
    """Return a decorator that adds ``--sweep``."""
    return click.option("--sweep", default="", metavar="NAME", callback=_checked, help=text)


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
        where = f"in namespace {reader.scope.namespace}" if reader.scope.namespace else "in any namespace"
        raise JobNotFound(f"there are no {status + ' ' if status else ''}jobs of a sweep {sweep} {where}")
    return ids


def read_named_jobs(
    names: tuple[str, ...],
    sweep: str,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
    namespace: str | None,
    *,
    as_json: bool,
    status: str = "",
) -> tuple[str, ...]:
    """Return the names, or the ids of the jobs of the sweep, for commands that connect to change something."""
    require_names(names, sweep)
    if names:
        return names
    with open_context(kubeconfig, context, platform, namespace, as_json=as_json) as reader:
        return named_jobs(reader, names, sweep, status)
