"""``gpuctl create``: submit new documents."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.apply_runner import run_apply
from gpuctl.cli.options.change_runner import Invocation
from gpuctl.cli.options.connection_options import changing_options, cluster_options, secrets_option
from gpuctl.cli.options.document_options import (
    compile_options,
    input_options,
    override_option,
    require_inputs,
)
from gpuctl.cli.options.planning_options import checking_options, dry_run_option
from gpuctl.frontend.document_variant import Variant
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions


@click.command(
    "create",
    short_help="Submit documents; fails if an object exists.",
    epilog="Example:\n\n  $ gpuctl create -f training.yaml -f service.yaml",
)
@input_options
@override_option
@compile_options
@cluster_options
@dry_run_option("Print the plan and change nothing. server (default) or client, see `gpuctl apply`.")
@checking_options
@click.option("--wait", is_flag=True, help="Wait until the created jobs run or have finished.")
@secrets_option
@changing_options
def command(
    filenames: tuple[str, ...],
    paths: tuple[str, ...],
    platform: str | None,
    namespace: str | None,
    strict: bool,
    variant: Variant,
    kubeconfig: str | None,
    context: str | None,
    dry_run: str | None,
    wait: bool,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
    **planning: Any,
) -> int:
    """Submit documents.

    If an object exists already, nothing is created; shared objects (namespaces, priority classes) may exist.
    """
    inputs = require_inputs(filenames, paths, "gpuctl create -f training.yaml")
    return run_apply(
        DocumentOptions(inputs, platform, namespace, strict, variant=variant),
        PlanOptions(**planning, create_only=True),
        RunOptions(timeout, wait=wait),
        Invocation(kubeconfig, context, yes, as_json or output == "json"),
        dry_run,
    )
