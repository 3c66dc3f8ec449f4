"""``gpuctl render``: compile documents to manifests."""

from __future__ import annotations

import sys
from typing import Any

import click

from gpuctl.backend.emitter import emit_json, iter_stream
from gpuctl.cli.options.document_options import (
    CompileOptions,
    check_delivery_options,
    delivery_options,
    input_options,
    offline_compile_options,
    override_option,
    placement_option,
    require_inputs,
)
from gpuctl.cli.output import text
from gpuctl.compilation import compile


@click.command(
    "render",
    short_help="Compile documents to Kubernetes manifests.",
    epilog="Example:\n\n  $ gpuctl render -f training.yaml",
)
@input_options
@override_option
@offline_compile_options
@placement_option
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format.")
@click.option("--nodes", is_flag=True, help="Include the pools' Node labels. Never `kubectl delete` them.")
@click.option("--no-shared", is_flag=True, help="Omit the objects that jobs share: PriorityClasses and Namespaces.")
@click.option(
    "--namespaces",
    is_flag=True,
    help="Include the Namespaces of jobs, as --gitops does. Never `kubectl delete` them, which deletes all in them.",
)
@delivery_options("none")
@click.option(
    "--policy",
    is_flag=True,
    help="Print only the platform's `policy`, as a ValidatingAdmissionPolicy for the API server (Kubernetes 1.30).",
)
@click.option("--embed", is_flag=True, help="Add each source document to its object as an annotation.")
def command(
    inputs: list[str],
    compiling: CompileOptions,
    cluster: str | None,
    output: str,
    nodes: bool,
    no_shared: bool,
    namespaces: bool,
    gitops: str | None,
    job_names: str | None,
    policy: bool,
    embed: bool,
) -> int:
    """Compile documents to Kubernetes manifests, on standard output.

    Everything is checked first: if there is an error, no manifest is printed. Warnings go to standard error.
    """
    check_delivery_options(gitops, job_names)
    require_inputs(inputs, "gpuctl render -f training.yaml")
    controller: Any = None if gitops == "none" else gitops
    result = compile(
        inputs,
        **compiling.for_compile(),
        nodes=nodes,
        shared=not no_shared,
        gitops=controller,
        embed=embed,
        namespaces=namespaces,
        job_names=job_names,  # type: ignore[arg-type]
        cluster=cluster,
    )
    text.write(result.diagnostics, result.sources, sys.stderr)
    if not result.ok:
        if output == "json":
            from gpuctl.cli.output import json

            click.echo(json.render(result.diagnostics), nl=False)
        return 1
    objects = result.objects
    if policy:
        from gpuctl.backend.policy_export import policy_objects

        objects = policy_objects(result.settings)
        if not objects:
            raise click.UsageError("the platform has no `policy`: write one into platform.yaml")
    sys.stdout.writelines([emit_json(objects)] if output == "json" else iter_stream(objects))
    return 0
