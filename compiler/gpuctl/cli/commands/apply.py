"""``gpuctl apply``: apply documents to the cluster."""

from __future__ import annotations

import click

from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.apply_runner import run_apply
from gpuctl.cli.options.change_runner import Invocation, several_clusters_changing_options
from gpuctl.cli.options.connection_options import checkpoint_option, secrets_option
from gpuctl.cli.options.document_options import (
    CompileOptions,
    compile_options,
    input_options,
    override_option,
    require_inputs,
)
from gpuctl.cli.options.planning_options import documents_of, dry_run_option, planning_options


@click.command(
    "apply",
    short_help="Apply documents to the cluster.",
    epilog="Examples:\n\n  $ gpuctl apply -f training.yaml\n\n  $ gpuctl apply -f jobs/ --set team-a --prune",
)
@input_options
@override_option
@compile_options
@dry_run_option(
    "Print the plan and change nothing. server (default): checked by the API server; client: compared locally."
)
@secrets_option
@planning_options
@checkpoint_option
@click.option("--force", is_flag=True, help="Delete the pods of replaced jobs without their grace period.")
@click.option("--wait", is_flag=True, help="Wait until the applied jobs run or have finished.")
@click.option(
    "--rollback", is_flag=True, help="With --wait: restore the previous version of jobs that do not run in time."
)
@several_clusters_changing_options
def command(
    inputs: list[str],
    compiling: CompileOptions,
    dry_run: str | None,
    without_checkpoint: bool,
    force: bool,
    wait: bool,
    rollback: bool,
    invocation: Invocation,
    planning: PlanOptions,
) -> int:
    """Apply documents to the cluster.

    Unchanged objects are kept. Changed jobs are deleted and created again: everything is checked before anything is
    deleted, and if the new object cannot be created, the old one is restored. Changes that end running work need
    confirmation.
    """
    if rollback and not wait:
        raise click.UsageError("--rollback needs --wait: it restores jobs that do not run in time")
    require_inputs(inputs, "gpuctl apply -f training.yaml")
    return run_apply(
        documents_of(compiling, inputs),
        planning,
        RunOptions(invocation.timeout, force, wait, checkpoint=not without_checkpoint, rollback=rollback),
        invocation,
        dry_run,
    )
