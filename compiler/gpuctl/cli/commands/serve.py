"""``gpuctl serve``: run the REST API."""

from __future__ import annotations

import os
from typing import Any

import click

from gpuctl.cli.options.connection_options import ClusterFailure, ConnectionOptions, kubeconfig_options
from gpuctl.cli.options.platform_option import platform_option


@click.command(
    "serve",
    short_help="Serve the REST API.",
    epilog="Everything else is set in the environment or in the file of --config: see docs/service.md.\n\n"
    "Examples:\n\n  $ gpuctl serve\n\n  $ gpuctl serve --port 8080\n\n"
    "  $ gpuctl serve --usage --usage-database usage.db",
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Default: 8000; 0 picks a free one.")
@click.option(
    "--insecure-plain-http",
    is_flag=True,
    default=None,
    help="Allow plain HTTP on other addresses than loopback, if a proxy terminates TLS.",
)
@click.option("--tokens", type=click.Path(), metavar="FILE", help="File of tokens; the first start creates it.")
@platform_option("The platform's settings.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Settings as YAML.")
@kubeconfig_options
@click.option("--usage", is_flag=True, default=None, help="Collect usage as well, as `gpuctl usage collect` does.")
@click.option("--usage-database", metavar="FILE", help="File or URL of the usage database.")
def command(config: str | None, connection: ConnectionOptions, **given: Any) -> int:
    """Serve the REST API for the cluster that kubectl would use.

    The first start creates a token file with the hash of an administrator's token, and writes that token to a file
    beside it. The documentation of the API is at /api/v1/docs.
    """
    try:
        from gpuctl_server.server_settings import ServerSettings
        from gpuctl_server.startup import CannotStart, serve
        from gpuctl_usage.layered_settings import FILE, SettingsProblem
    except ModuleNotFoundError as error:
        raise ClusterFailure(
            f"the packages for the service are not installed ({error.name})\n"
            "  = install them: `pip install 'gpuctl-k8s[server]'`"
        ) from None
    if config is not None:
        os.environ[FILE] = config
    try:
        stated = {**given, **connection._asdict()}
        settings = ServerSettings.made({name: value for name, value in stated.items() if value is not None})
        serve(settings, lambda text: click.echo(text, err=True))
    except SettingsProblem as error:
        raise click.UsageError(str(error)) from None
    except CannotStart as error:
        raise ClusterFailure(str(error)) from None
    return 0
