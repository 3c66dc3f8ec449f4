"""``gpuctl version``."""

from __future__ import annotations

import click


@click.command("version", short_help="Print the version.", epilog="Example:\n\n  $ gpuctl version -o json")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format.")
def command(output: str) -> int:
    """Print gpuctl's version, the language's, and the Kubernetes versions that output can be validated for."""
    import json

    from gpuctl.about import __version__
    from gpuctl.backend.validation import VERSIONS
    from gpuctl.language.kinds import VERSION

    if output == "json":
        click.echo(json.dumps({"gpuctl": __version__, "language": VERSION, "kubernetes": list(VERSIONS)}))
    else:
        click.echo(f"gpuctl {__version__} (language {VERSION}, Kubernetes {VERSIONS[0]} to {VERSIONS[-1]})")
    return 0
