"""``gpuctl scale``."""

from __future__ import annotations

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import checkpoint_option
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.reading_options import settings_option
from gpuctl.cli.options.training_changes import (
    TrainingChangeOptions,
    run_training_change,
    training_change_options,
)
from gpuctl.usecases.changes.named_trainings import scale


@click.command(
    "scale",
    short_help="Change the number of nodes of an elastic training.",
    epilog="Example:\n\n  $ gpuctl scale pretrain --nodes 3",
)
@click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job)
@click.option("--nodes", type=click.IntRange(1, 10000), metavar="N", help="The number of nodes.")
@click.option("--replicas", metavar="N", hidden=True)
@job_namespace_option
@settings_option
@checkpoint_option
@training_change_options
def command(names: tuple[str, ...], nodes: int | None, replicas: str | None, options: TrainingChangeOptions) -> int:
    """Change the number of nodes of elastic trainings (`resources.nodes: {min, max}`), within their range.

    torchrun restarts the program on the nodes that there are then, from its last checkpoint; the checkpoint command of
    the document runs before. Fewer nodes end the pods with the greatest indexes. Quotas and room are checked first.

    An apply of the document keeps the number. A training in a Kueue queue can be scaled while it waits or is paused.
    Services are scaled in their documents: `gpuctl set FILE service.replicas=3`.
    """
    if replicas is not None:
        raise click.UsageError(
            "The replicas of a service are in its document: `gpuctl set FILE service.replicas="
            f"{replicas}`, then `gpuctl apply -f FILE`"
        )
    if nodes is None:
        raise click.UsageError("Name the number of nodes: --nodes N")
    return run_training_change(options, scale(nodes), names)
