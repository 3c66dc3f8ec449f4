"""Options of commands that only read, and the context manager that connects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click

from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.connection_options import (
    ConnectionOptions,
    cluster_errors,
    cluster_options,
    json_flag,
    kubeconfig_cluster_options,
    named_format,
    open_cluster,
    selected_service,
)
from gpuctl.cli.options.document_options import only_namespace_option
from gpuctl.cli.options.platform_option import platform_option, platform_settings
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.usecases.queries.read_context import ReadContext, context_of, service_context
from gpuctl.usecases.service.service_client import ServiceClient

Function = TypeVar("Function", bound=Callable[..., Any])
FORMATS = ("table", "wide", "json", "yaml", "name")


class ReadingOptions(NamedTuple):
    """The cluster that a command reads, and the file of the platform, whose label domain is used."""

    connection: ConnectionOptions
    platform: str | None


settings_option = platform_option("The platform's settings. Default: platform.yaml here or above, up to the git root.")
reading_options = bound("reading", ReadingOptions, settings_option, cluster_options)
"""Adds the connection options and ``--platform``; the command gets :class:`ReadingOptions`."""
kubeconfig_reading_options = bound("reading", ReadingOptions, settings_option, kubeconfig_cluster_options)
"""The same for a command that no service offers."""


def _one_namespace(namespace: str | None, all_namespaces: bool) -> str | None:
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n names one namespace, -A means all; not both")
    return namespace


namespace_options = bound(
    "namespace",
    _one_namespace,
    only_namespace_option,
    click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces; the default."),
)
"""Adds ``-n`` and ``-A``; the command gets the namespace, None for all."""


class ListOptions(NamedTuple):
    """The form of a list: one of :data:`FORMATS`, with or without headings."""

    output: str
    headings: bool

    @property
    def is_machine(self) -> bool:
        """Return True if the output is one JSON or YAML value."""
        return self.output in ("json", "yaml")


list_options = bound(
    "output_form",
    lambda output, as_json, no_headers: ListOptions(named_format(output, as_json), not no_headers),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format."),
    json_flag,
    click.option("--no-headers", is_flag=True, help="Omit the header line."),
)
"""Adds ``-o``, ``--json`` and ``--no-headers`` of lists; the command gets :class:`ListOptions`."""
detail_options = bound(
    "output",
    named_format,
    click.option(
        "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="Format."
    ),
    json_flag,
)
"""Adds ``-o text|json|yaml`` and ``--json`` of commands that show one object; the command gets the format."""


@contextmanager
def open_context(
    options: ReadingOptions,
    namespace: str | None = None,
    *,
    as_json: bool = False,
    changes: bool = False,
) -> Iterator[ReadContext]:
    """Connect to the cluster or the service. At the end, print notes on what could not be read to standard error.

    Failures become messages and exit codes; with ``as_json`` also ``{"error": ...}`` on standard output.

    :param changes: the command also writes; a cluster that the platform does not define is refused.
    """
    connection, platform = options
    with cluster_errors(as_json=as_json, of_plan=False):
        service = selected_service(connection)
        if service is not None:
            reject_platform(platform)
            asked: Session | ServiceClient = service
            read_context = service_context(service, Settings(), namespace)
        else:
            settings = platform_settings(platform)
            asked = session = open_cluster(connection, changes=changes, settings=settings)
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
