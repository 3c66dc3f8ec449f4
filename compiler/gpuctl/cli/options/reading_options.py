"""Options of commands that only read, and the context manager that connects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from gpuctl.cli.options.connection_options import cluster_errors, cluster_options, open_cluster, selected_service
from gpuctl.cli.options.document_options import namespace_option
from gpuctl.cli.options.planning_options import platform_settings
from gpuctl.cli.options.platform_option import platform_option
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.usecases.read_context import ReadContext, context_of, service_context
from gpuctl.usecases.service_client import ServiceClient

Function = TypeVar("Function", bound=Callable[..., Any])
FORMATS = ("table", "wide", "json", "yaml", "name")


def reading_options(function: Function) -> Function:
    """Add the connection options and ``--platform``, whose label domain is used."""
    function = cluster_options(function)
    return platform_option("The platform's settings. Default: platform.yaml here or above, up to the git root.")(
        function
    )


def namespace_options(function: Function) -> Function:
    """Add ``-n`` and ``-A``; :func:`open_context` takes both."""
    for decorate in (
        click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces; the default."),
        namespace_option("Only this namespace. Default: all."),
    ):
        function = decorate(function)
    return function


def list_options(function: Function) -> Function:
    """Add ``-o``, ``--json`` and ``--no-headers`` of lists."""
    for decorate in (
        click.option("--no-headers", is_flag=True, help="Omit the header line."),
        click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
        click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format."),
    ):
        function = decorate(function)
    return function


def detail_options(function: Function) -> Function:
    """Add ``-o text|json|yaml`` and ``--json`` of commands that show one object."""
    function = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")(function)
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="Format."
    )(function)


@contextmanager
def open_context(
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
    namespace: str | None = None,
    *,
    all_namespaces: bool = False,
    as_json: bool = False,
    changes: bool = False,
) -> Iterator[ReadContext]:
    """Connect to the cluster or the service. At the end, print notes on what could not be read to standard error.

    Failures become messages and exit codes; with ``as_json`` also ``{"error": ...}`` on standard output.

    :param changes: the command also writes; a cluster that the platform does not define is refused.
    """
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n names one namespace, -A means all; not both")
    with cluster_errors(as_json=as_json, of_plan=False):
        service = selected_service(kubeconfig, context)
        if service is not None:
            reject_platform(platform)
            asked: Session | ServiceClient = service
            read_context = service_context(service, Settings(), namespace)
        else:
            settings = platform_settings(platform)
            asked = session = open_cluster(kubeconfig, context, changes=changes, settings=settings)
            read_context = context_of(session, settings, namespace)
        try:
            yield read_context
        finally:
            asked.close()
    for note in read_context.scope.notes:
        click.echo(f"note: {note}", err=True)


def reject_platform(platform: str | None) -> None:
    """Reject ``--platform`` for a command that asks a service.

    :raises click.UsageError: it was given.
    """
    if platform is not None:
        raise click.UsageError(
            "--platform does not apply to a service, which uses the platform that it was started with"
        )
