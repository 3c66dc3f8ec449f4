"""``gpuctl version``."""

from __future__ import annotations

import json

import click


@click.command("version", short_help="Print the version.", epilog="Example:\n\n  $ gpuctl version -o json")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format.")
def command(output: str) -> int:
    """Print gpuctl's version, the version of the language, and the supported Kubernetes versions."""
    from gpuctl.api.document_answers import VersionAnswer

    answer = VersionAnswer()
    if output == "json":
        click.echo(json.dumps(answer.as_json()))
    else:
        oldest, newest = answer.kubernetes[0], answer.kubernetes[-1]
        click.echo(f"gpuctl {answer.gpuctl} (language {answer.language}, Kubernetes {oldest} to {newest})")
    return 0
