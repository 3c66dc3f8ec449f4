"""Running the commands that change trainings by their names: ``rerun``, ``scale`` and ``run``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.change_runner import Invocation, changing_options, cluster_change, service_change
from gpuctl.cli.options.planning_options import queue_option
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.cli.options.reading_options import reject_platform
from gpuctl.cli.output.plan_results import finish
from gpuctl.usecases.changes.named_trainings import TrainingChange, change_trainings
from gpuctl.usecases.changes.service_changes import change_trainings_by_service


class TrainingChangeOptions(NamedTuple):
    """The options of a command that changes trainings. ``platform``: the file of the platform's settings."""

    namespace: str | None
    platform: str | None
    queue: bool
    invocation: Invocation
    without_checkpoint: bool = False


training_change_options = bound("options", TrainingChangeOptions, queue_option, changing_options)
"""Adds the options after those of the names, the namespace and the platform; the command gets
:class:`TrainingChangeOptions`.
"""


def run_training_change(
    options: TrainingChangeOptions,
    change: TrainingChange,
    names: Sequence[str],
    carry_out: Callable[..., Plan] = change_trainings,
) -> int:
    """Change trainings in the cluster, or through the selected service. Print the result and return the exit code.

    :param carry_out: what changes them in a cluster, called as :func:`change_trainings`.
    """
    invocation = options.invocation
    run = RunOptions(invocation.timeout, queue=options.queue, checkpoint=not options.without_checkpoint)
    with service_change(invocation) as by_service:
        if by_service is not None:
            reject_platform(options.platform)
            plan = change_trainings_by_service(
                by_service.service, change, names, options.namespace, run, by_service.callbacks
            )
    if by_service is None:
        with cluster_change(invocation) as (session, callbacks):
            settings = platform_settings(options.platform)
            plan = carry_out(session, change, names, options.namespace, settings, run, callbacks)
    return finish(plan, as_json=invocation.as_json)
