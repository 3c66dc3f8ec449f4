"""``gpuctl validate``: report every problem of documents, as text or in the format of a CI system."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from gpuctl.cli.options.document_options import (
    CompileOptions,
    input_options,
    offline_compile_options,
    override_option,
    placement_option,
    require_inputs,
)
from gpuctl.cli.output import junit, text
from gpuctl.compilation import compile
from gpuctl.language.display_text import count_text

FORMATS = ("text", "json", "sarif", "github", "gitlab", "junit")


@click.command(
    "validate",
    short_help="Check documents and report every problem.",
    epilog="Example:\n\n  $ gpuctl validate -o json training.yaml",
)
@input_options
@override_option
@offline_compile_options
@placement_option
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="Format.")
def command(
    inputs: list[str],
    compiling: CompileOptions,
    cluster: str | None,
    output: str,
) -> int:
    """Check documents and report every problem, on standard output.

    The documents are compiled and the output is checked against the Kubernetes schema, so that valid documents also
    render. The exit code is 1 if there is an error.
    """
    require_inputs(inputs, "gpuctl validate training.yaml")
    result = compile(
        inputs,
        **compiling.for_compile(),
        nodes=True,
        namespaces=True,
        cluster=cluster,
    )
    if output == "junit":
        click.echo(junit.render(result.diagnostics, result.documents), nl=False)
    elif output == "text":
        text.write(result.diagnostics, result.sources, sys.stdout)
        if result.ok:
            written = sum(document.is_first for document in result.documents)
            documents, objects = count_text(written, "document"), count_text(len(result.objects), "object")
            click.echo(f"{documents} ok: {objects} for Kubernetes {result.settings.kubernetes_version}")
    else:
        click.echo(import_module(f"gpuctl.cli.output.{output}").render(result.diagnostics), nl=False)
    return 0 if result.ok else 1
