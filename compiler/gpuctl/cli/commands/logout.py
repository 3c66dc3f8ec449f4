"""``gpuctl logout``."""

from __future__ import annotations

import click

from gpuctl.cli.options.connection_options import cluster_errors
from gpuctl.usecases.service.saved_logins import read_logins, server_url, write_logins


@click.command("logout", short_help="Remove the saved token of a service.", epilog="Example:\n\n  $ gpuctl logout")
@click.argument("url", metavar="[URL]", required=False)
def command(url: str | None) -> int:
    """Remove the saved token of a service, by default of the current one. The token stays valid until it is revoked."""
    with cluster_errors(of_plan=False):
        kept = read_logins()
        address = server_url(url, plain=True) if url else kept.current
        if kept.find(address) is None:
            where = f" to {address}" if address else ""
            raise click.UsageError(f"You are not logged in{where}.")
        write_logins(kept.without(address))
    click.echo(f"The token for {address} is removed.", err=True)
    return 0
