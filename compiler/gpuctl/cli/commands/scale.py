"""``gpuctl scale``."""

from __future__ import annotations

import click

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.change_runner import Invocation, changing_options, cluster_change, service_change
from gpuctl.cli.options.cluster_completion import complete_job
from gpuctl.cli.options.connection_options import checkpoint_option
from gpuctl.cli.options.document_options import namespace_option
from gpuctl.cli.options.planning_options import queue_option
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.cli.options.reading_options import reject_platform, settings_option
from gpuctl.cli.output.plan_results import finish
from gpuctl.usecases.changes.named_trainings import change_trainings, scale
from gpuctl.usecases.changes.service_changes import change_trainings_by_service


@click.command(
    "scale",
    short_help="Change the number of nodes of an elastic training.",
    epilog="Example:\n\n  $ gpuctl scale pretrain --nodes 3",
)
@click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job)
@click.option("--nodes", type=click.IntRange(1, 10000), metavar="N", help="The number of nodes.")
@click.option("--replicas", metavar="N", hidden=True)
@namespace_option("Namespace of the jobs.")
@settings_option
@checkpoint_option
@queue_option
@changing_options
def command(
    names: tuple[str, ...],
    nodes: int | None,
    replicas: str | None,
    namespace: str | None,
    platform: str | None,
    without_checkpoint: bool,
    queue: bool,
    invocation: Invocation,
) -> int:
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
    run = RunOptions(invocation.timeout, queue=queue, checkpoint=not without_checkpoint)
    with service_change(invocation) as by_service:
        if by_service is not None:
            reject_platform(platform)
            plan = change_trainings_by_service(
                by_service.service, scale(nodes), names, namespace, run, by_service.callbacks
            )
    if by_service is None:
        with cluster_change(invocation) as (session, callbacks):
            settings = platform_settings(platform)
            plan = change_trainings(session, scale(nodes), names, namespace, settings, run, callbacks)
    return finish(plan, as_json=invocation.as_json)
