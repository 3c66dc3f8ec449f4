"""``gpuctl recover``: finish an interrupted apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from gpuctl.api.recovery_answers import Recoveries, recovery_code
from gpuctl.apply.plan.plan import ConfirmationMissing, Plan
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.change_runner import Invocation, changing_options, cluster_change, confirm_plan, service_change
from gpuctl.cli.options.connection_options import UndeterminedFailure
from gpuctl.cli.options.document_options import only_namespace_option
from gpuctl.cli.options.platform_option import platform_option, platform_settings
from gpuctl.cli.options.reading_options import reject_platform
from gpuctl.cli.output.recovery_lines import show_planned_recovery, show_recovery, show_recovery_value
from gpuctl.usecases.changes.run_recovery import read_unfinished, recover
from gpuctl.usecases.changes.service_recovery import recover_by_service, unfinished_of_service


@click.command(
    "recover",
    short_help="Finish an apply that was killed.",
    epilog="Examples:\n\n  $ gpuctl recover --dry-run\n\n  $ gpuctl recover -n team-a",
)
@only_namespace_option
@platform_option("The platform's settings, for its label domain.")
@click.option("--dry-run", is_flag=True, help="Print the objects that would be created, and change nothing.")
@changing_options
def command(
    namespace: str | None,
    platform: str | None,
    dry_run: bool,
    invocation: Invocation,
) -> int:
    """Finish an apply that was killed.

    An apply writes a journal before its first delete. This command completes each unfinished replacement, or creates
    the old object again if the new one is refused. It shows what it will create and asks first, because any user who
    may create Secrets in a namespace can write a journal. Each namespace is recovered separately.
    """
    with service_change(invocation, of_plan=False) as by_service:
        if by_service is not None:
            reject_platform(platform)
            left = unfinished_of_service(by_service.service, namespace)
            if not dry_run:
                callbacks = replace(by_service.callbacks, confirm=_confirming(left, invocation))
                left = recover_by_service(
                    by_service.service, namespace, RunOptions(invocation.timeout), callbacks, left
                )
    if by_service is not None:
        show_recovery(left, dry_run=dry_run, as_json=invocation.as_json)
        return recovery_code(left)
    with cluster_change(invocation, of_plan=False) as (session, callbacks):
        settings = platform_settings(platform)
        with session.within(invocation.timeout):
            found = read_unfinished(session, namespace, settings)
        if not dry_run:
            callbacks = replace(callbacks, confirm=_confirming(found.answer, invocation))
            found = recover(session, namespace, settings, RunOptions(invocation.timeout), callbacks, found)
    show_recovery(found.answer, dry_run=dry_run, as_json=invocation.as_json)
    return recovery_code(found.answer)


def _confirming(found: Recoveries, invocation: Invocation) -> Callable[[Plan], bool]:
    """Return a callback that shows the objects in full and asks for confirmation."""

    def confirm(plan: Plan) -> bool:
        if not invocation.yes and not invocation.as_json:
            show_planned_recovery(found, err=True)
        try:
            return confirm_plan(plan, yes=invocation.yes)
        except ConfirmationMissing as error:
            if invocation.as_json:
                show_recovery_value(found, error.message)
                raise UndeterminedFailure(error.message) from None
            raise

    return confirm
