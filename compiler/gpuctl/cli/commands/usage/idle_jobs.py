"""``gpuctl usage idle``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gpuctl.cli.commands.usage.database_options import database_options, named_database, stated_settings
from gpuctl.cli.options.document_options import only_namespace_option
from gpuctl.cli.options.reading_options import ReadingOptions, kubeconfig_reading_options, open_context
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.kube.api_errors import ClusterError, ConfigurationError
from gpuctl.language.usage_block import UsageIdle
from gpuctl.objects.durations import HOUR, rough_duration
from gpuctl.usecases.policies.idle_policy import act_on, judge_idle_jobs
from gpuctl.usecases.policies.idle_verdicts import IdleJob, IdleJudgement, IdleVerdict, webhook_body
from gpuctl.usecases.queries.read_context import ReadContext

if TYPE_CHECKING:
    from gpuctl_usage.store.database import Database
    from gpuctl_usage.usage_settings import UsageSettings

HEADERS = ("NAME", "NAMESPACE", "KIND", "OWNER", "GPUS", "IDLE-FOR", "ACTION")
FAILED = "failed"
_DONE = {"warn": "warned", "pause": "paused"}


@click.command(
    "idle",
    short_help="Warn owners of idle jobs, or pause them, by the platform's policy.",
    epilog="Examples:\n\n  $ gpuctl usage idle\n\n  $ gpuctl usage idle --yes",
)
@click.option("--yes", is_flag=True, help="Act. Without it, only show what would be done.")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True, help="Format."
)
@database_options
@only_namespace_option
@kubeconfig_reading_options
def command(
    yes: bool,
    output: str,
    database: str | None,
    config: str | None,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """Warn the owners of idle jobs, or pause these jobs, by the platform's policy `usage.idle`. Pause notebooks that
    have reached a limit of their documents (`notebook.stop_after`, `notebook.max_lifetime`).

    A job is idle if the mean use of its GPUs was below `below` in each hour of `after`, and all these hours were
    measured. An owner is warned once until the job is busy again, by an event that `gpuctl describe job` shows. Actions
    are sent to `usage_webhook`, and logged in the file of `audit` or on standard error. Workloads that gpuctl does not
    manage are shown, but not changed.
    """
    settings = stated_settings(config, usage_database=database)
    with open_context(reading, namespace, as_json=output == "json", changes=True) as read_context:
        if read_context.service is not None:
            raise click.UsageError(
                "`gpuctl usage idle` asks no service: name the cluster with --kubeconfig or --context."
            )
        policy = read_context.settings.platform.usage.idle
        if policy is None and settings.usage_database is None:
            return _act(None, read_context, None, settings, yes=yes, as_json=output == "json")
        with _opened(named_database(settings)) as usage:
            return _act(usage, read_context, policy, settings, yes=yes, as_json=output == "json")


@contextmanager
def _opened(address: str) -> Iterator[Database]:
    from gpuctl.usecases.usage.usage_database import open_existing_database
    from gpuctl_usage.store.engines import DatabaseProblem

    database = open_existing_database(address)
    try:
        yield database
    except DatabaseProblem as error:
        raise ConfigurationError(str(error)) from None
    finally:
        database.close()


def _act(
    usage: Database | None,
    read_context: ReadContext,
    policy: UsageIdle | None,
    settings: UsageSettings,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    judged = judge_idle_jobs(usage, read_context, policy)
    if not judged.has_rules:
        raise click.UsageError(
            "The platform has no policy for idle jobs, and no notebook has limits: set "
            "`usage: {idle: {after: 2h, then: warn}}` in its platform.yaml."
        )
    actions = [job.verdict.value for job in judged.jobs]
    to_do = [number for number, job in enumerate(judged.jobs) if job.verdict.is_to_do]
    if yes:
        audit = _audit(settings)
        for number in to_do:
            job = judged.jobs[number]
            try:
                act_on(read_context, job, judged.cluster, settings.usage_webhook, audit)
                actions[number] = _DONE[job.verdict.value]
            except ClusterError as error:
                click.echo(f"error: {job.name} -n {job.namespace}: {error.message}", err=True)
                actions[number] = FAILED
    _show(judged, actions, as_json=as_json)
    for job in judged.jobs:
        if job.cause and job.verdict is IdleVerdict.UNKNOWN:
            click.echo(f"note: {job.name} -n {job.namespace}: {job.cause}", err=True)
    if to_do and not yes:
        click.echo("Nothing has been done: confirm with --yes.", err=True)
    return 1 if FAILED in actions else 0


def _audit(settings: UsageSettings) -> Callable[[IdleJob, str], None]:
    """Return a function that logs actions to the service's audit file, or to standard error."""
    from gpuctl_server.audit import AuditMemory, audit, audit_to
    from gpuctl_server.request_log import set_up

    set_up()
    try:
        audit_to(settings.audit, AuditMemory())
    except OSError as error:
        raise ConfigurationError(f"the audit log cannot be written, so nothing was done: {error}") from None

    def note(job: IdleJob, result: str) -> None:
        audit("usage.idle", job.verdict.value, [f"{job.kind}/{job.namespace}/{job.name}"], result)

    return note


def _show(judged: IdleJudgement, actions: list[str], *, as_json: bool) -> None:
    told = list(zip(judged.jobs, actions, strict=True))
    if as_json:
        show_value({"items": [{**webhook_body(job, judged.cluster), "action": action} for job, action in told]}, "json")
        return
    rows = [
        [job.name, job.namespace, job.kind, job.owner or "", f"{job.gpus:g}", rough_duration(job.hours * HOUR), action]
        for job, action in told
    ]
    show_table(HEADERS, rows, droppable=("KIND", "OWNER"))
    if not told:
        click.echo("No job is idle.", err=True)
