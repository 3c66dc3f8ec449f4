"""``gpuctl create``: submit new documents."""

from __future__ import annotations

from dataclasses import replace

import click

from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.apply_runner import run_apply
from gpuctl.cli.options.change_runner import Invocation, several_clusters_changing_options
from gpuctl.cli.options.connection_options import secrets_option
from gpuctl.cli.options.document_options import (
    CompileOptions,
    compile_options,
    input_options,
    override_option,
    require_inputs,
)
from gpuctl.cli.options.planning_options import checking_options, documents_of, dry_run_option


@click.command(
    "create",
    short_help="Submit documents; fails if an object exists.",
    epilog="Example:\n\n  $ gpuctl create -f training.yaml -f service.yaml",
)
@input_options
@override_option
@compile_options
@dry_run_option("Print the plan and change nothing. server (default) or client, see `gpuctl apply`.")
@checking_options
@click.option("--wait", is_flag=True, help="Wait until the created jobs run or have finished.")
@secrets_option
@several_clusters_changing_options
def command(
    inputs: list[str],
    compiling: CompileOptions,
    dry_run: str | None,
    wait: bool,
    invocation: Invocation,
    planning: PlanOptions,
) -> int:
    """Submit documents.

    If an object exists already, nothing is created; shared objects (namespaces, priority classes) may exist.
    """
    require_inputs(inputs, "gpuctl create -f training.yaml")
    return run_apply(
        documents_of(compiling, inputs),
        replace(planning, create_only=True),
        RunOptions(invocation.timeout, wait=wait),
        invocation,
        dry_run,
    )
