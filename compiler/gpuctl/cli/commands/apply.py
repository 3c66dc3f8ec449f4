"""``gpuctl apply``: apply documents to the cluster."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.apply_runner import run_apply
from gpuctl.cli.options.change_runner import Invocation
from gpuctl.cli.options.connection_options import changing_options, checkpoint_option, cluster_options, secrets_option
from gpuctl.cli.options.document_options import (
    compile_options,
    input_options,
    override_option,
    require_inputs,
)
from gpuctl.cli.options.planning_options import dry_run_option, planning_options
from gpuctl.frontend.document_variant import Variant
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions


@click.command(
    "apply",
    short_help="Apply documents to the cluster.",
    epilog="Examples:\n\n  $ gpuctl apply -f training.yaml\n\n  $ gpuctl apply -f jobs/ --set team-a --prune",
)
@input_options
@override_option
@compile_options
@cluster_options
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
    without_checkpoint: bool,
    force: bool,
    wait: bool,
    rollback: bool,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
    **planning: Any,
) -> int:
    """Apply documents to the cluster.

    Unchanged objects are kept. Changed jobs are deleted and created again: everything is checked before anything is
    deleted, and if the new object cannot be created, the old one is restored. Changes that end running work need
    confirmation.
    """
    if rollback and not wait:
        raise click.UsageError("--rollback needs --wait: it restores jobs that do not run in time")
    inputs = require_inputs(filenames, paths, "gpuctl apply -f training.yaml")
    return run_apply(
        DocumentOptions(inputs, platform, namespace, strict, variant=variant),
        PlanOptions(**planning),
        RunOptions(timeout, force, wait, checkpoint=not without_checkpoint, rollback=rollback),
        Invocation(kubeconfig, context, yes, as_json or output == "json"),
        dry_run,
    )
