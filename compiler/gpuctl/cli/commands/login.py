"""``gpuctl login``."""

from __future__ import annotations

import os
import sys

import click

from gpuctl.cli.options.connection_options import cluster_errors
from gpuctl.usecases.service.saved_logins import SavedLogin, read_logins, server_url, write_logins
from gpuctl.usecases.service.service_client import ServiceClient

_LONGEST = 64 * 1024


@click.command(
    "login",
    short_help="Use a service instead of a kubeconfig.",
    epilog="Examples:\n\n  $ gpuctl login https://gpuctl.example.com\n\n"
    "  $ gpuctl login https://gpuctl.example.com --token-stdin < token",
)
@click.argument("url", metavar="URL")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input instead of asking for it.")
@click.option(
    "--certificate-authority",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="Trusted certificates of the service (PEM). Default: the system's.",
)
@click.option("--insecure-plain-http", is_flag=True, help="Allow an http:// URL: the token is sent unencrypted.")
def command(url: str, token_stdin: bool, certificate_authority: str | None, insecure_plain_http: bool) -> int:
    """Ask for the token of a service, check it and save it: commands use that service from then on.

    The token is saved for this URL, in $XDG_CONFIG_HOME/gpuctl/servers.json, which only you can read. Commands with
    --context or --kubeconfig still use the cluster.
    """
    with cluster_errors(of_plan=False):
        address = server_url(url, plain=insecure_plain_http)
        kept = read_logins()
        token = _read_token() if token_stdin else _ask_for_token(address)
        authority = os.path.abspath(certificate_authority) if certificate_authority else ""
        server = SavedLogin(address, token, authority, insecure_plain_http)
        client = ServiceClient(server)
        try:
            client.check()
        finally:
            client.close()
        write_logins(kept.with_server(server))
    click.echo(
        f"Logged in to {address}: commands without --context and --kubeconfig use it; `gpuctl logout` removes it.",
        err=True,
    )
    return 0


def _read_token() -> str:
    return _checked(sys.stdin.read(_LONGEST))


def _ask_for_token(address: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError("Cannot ask for the token: standard input is not a terminal. Use --token-stdin.")
    return _checked(click.prompt(f"Token for {address}", hide_input=True, err=True, default="", show_default=False))


def _checked(text: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise click.UsageError("The token is empty or contains invalid characters.")
    return token
