"""``gpuctl create``: submit what is not there yet."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.apply.run.options import RunOptions
from gpuctl.cli.options.bringing_about import apply_or_show
from gpuctl.cli.options.changing import ChangeManner
from gpuctl.cli.options.connecting import changing_options, cluster_options, secrets_option
from gpuctl.cli.options.document_options import (
    chosen_inputs,
    compile_options,
    input_options,
)
from gpuctl.cli.options.planning_options import checking_options, dry_run_option
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions


@click.command(
    "create",
    short_help="Submit documents; refuses what exists already.",
    epilog="Example:\n\n  $ gpuctl create -f training.yaml -f service.yaml",
)
@input_options
@compile_options
@cluster_options
@dry_run_option("Print the plan and change nothing; `server` is also meant without a value.")
@checking_options
@click.option("--wait", is_flag=True, help="Wait until what was created runs, or is finished.")
@secrets_option
@changing_options
def command(
    filenames: tuple[str, ...],
    paths: tuple[str, ...],
    platform: str | None,
    namespace: str | None,
    strict: bool,
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

    When an object exists already, nothing is created; what jobs share (namespaces, priority classes) may exist.
    """
    inputs = chosen_inputs(filenames, paths, "gpuctl create -f training.yaml")
    return apply_or_show(
        DocumentOptions(inputs, platform, namespace, strict),
        PlanOptions(**planning, create_only=True),
        RunOptions(timeout, wait=wait),
        ChangeManner(kubeconfig, context, yes, as_json or output == "json"),
        dry_run,
    )
