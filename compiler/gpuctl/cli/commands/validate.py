"""``gpuctl validate``: every problem of every document, in the format that a person or a CI system reads."""

from __future__ import annotations

import sys

import click

from gpuctl.cli.options.document_options import (
    cache_option,
    chosen_inputs,
    chosen_store,
    input_options,
    offline_compile_options,
    placed_option,
)

FORMATS = ("text", "json", "sarif", "github", "gitlab", "junit")


@click.command(
    "validate",
    short_help="Check documents and report every problem.",
    epilog="Example:\n\n  $ gpuctl validate -o json training.yaml",
)
@input_options
@offline_compile_options
@placed_option
@cache_option
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="Format.")
def command(
    filenames: tuple[str, ...],
    paths: tuple[str, ...],
    platform: str | None,
    namespace: str,
    strict: bool,
    cluster: str | None,
    no_cache: bool,
    output: str,
) -> int:
    """Check documents and report every problem, on standard output.

    The output is compiled and held against the Kubernetes schema too, so that what validates also renders. Exits 1
    when there is an error.
    """
    from importlib import import_module

    from gpuctl.cli.output import text
    from gpuctl.incremental.run import manifests

    inputs = chosen_inputs(filenames, paths, "gpuctl validate training.yaml")
    if output == "junit":
        from gpuctl.cli.output import junit
        from gpuctl.compilation import compile

        compiled = compile(
            inputs, platform=platform, namespace=namespace, strict=strict, nodes=True, namespaces=True, cluster=cluster
        )
        click.echo(junit.render(compiled.diagnostics, compiled.documents), nl=False)
        return 0 if compiled.ok else 1
    result = manifests(
        inputs,
        platform=platform,
        namespace=namespace,
        strict=strict,
        nodes=True,
        namespaces=True,
        form="none",
        cluster=cluster,
        store=chosen_store(no_cache),
    )
    if output == "text":
        text.write(result.diagnostics, result.sources, sys.stdout)
        if result.ok:
            documents, objects = _plural(result.documents, "document"), _plural(result.objects, "object")
            click.echo(f"{documents} ok: {objects} for Kubernetes {result.version}")
    else:
        click.echo(import_module(f"gpuctl.cli.output.{output}").render(result.diagnostics), nl=False)
    return 0 if result.ok else 1


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
