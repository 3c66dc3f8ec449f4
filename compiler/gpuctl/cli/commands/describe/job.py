"""``gpuctl describe job``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gpuctl.api.job_detail_answers import DescribedJob, JobPod, JobResources, JobSchedule
from gpuctl.api.usage_answers import usage_answer
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.usage.usage_options import configured_backend
from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import secrets_option
from gpuctl.cli.options.reading_options import (
    ReadingOptions,
    detail_options,
    namespace_options,
    open_context,
    reading_options,
)
from gpuctl.cli.output.paragraphs import fit_terminal, section
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.sparkline import shows_blocks
from gpuctl.cli.output.table import detail_lines
from gpuctl.cli.output.terminal import terminal_width
from gpuctl.cli.output.usage_amounts import coverage_percent, gpu_hours, percent
from gpuctl.cli.output.usage_lines import use_over_time
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.masking import redact
from gpuctl.objects.durations import rough_duration
from gpuctl.reading.jobs.timeline import STAGES
from gpuctl.reading.usage.usage_records import UsageView
from gpuctl.usecases.queries.one_job import FoundJob, look_up_job
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.usage.job_usage import job_usage

_SHOWN = 20
"""Maximum number of pods and events in the text output; JSON has all."""


@click.command(
    "job",
    short_help="Status, timeline, access, document and events.",
    epilog="Examples:\n\n  $ gpuctl describe job qwen-sft\n\n  $ gpuctl describe job qwen-sft -o json",
)
@click.argument("job", metavar="JOB", shell_complete=complete_job)
@secrets_option
@detail_options
@namespace_options
@reading_options
def command(
    job: str,
    output: str,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """Show a job's status, resources, pod timeline, addresses, events and document.

    JOB is the job's name, KIND/NAME, or the name of one of its pods. If the job does not run, the cause is shown too.
    """
    with open_context(reading, namespace, as_json=output != "text") as read_context:
        found = look_up_job(read_context, job)
        usage = _usage(read_context, found)
        if output == "text":
            _show(read_context, found.job, usage)
        else:
            used = None if usage is None else usage_answer(usage).items[0].as_json()
            show_value({**found.job.as_json(), "usage": used}, output)
    return 0


def _usage(read_context: ReadContext, found: FoundJob) -> UsageView | None:
    """Return the recent usage of the job's GPUs; None if no usage is collected. Add a note if it cannot be read."""
    try:
        with configured_backend(read_context) as backend:
            if backend is None or not found.uid:
                return None
            return job_usage(backend, found.uid, found.job.namespace, read_context.now())
    except (ClusterError, click.ClickException) as error:
        read_context.scope.note(f"its GPU usage is unknown: {error.message}")
        return None


def _usage_lines(usage: UsageView) -> Iterator[str]:
    use, steps = usage.all_groups, usage.groups[0].steps
    idle = gpu_hours(use.idle if use.mean_use is not None else None) or "-"
    yield from detail_lines(
        [
            ("GPU-hours", f"{gpu_hours(use.held)} held, {idle} idle, {gpu_hours(use.unobserved)} not measured"),
            (
                "Mean use",
                f"{percent(use.mean_use) or '-'} of what was measured ({coverage_percent(use.coverage) or '-'})",
            ),
            ("Last 24 hours", use_over_time(steps, shows_blocks())),
        ]
    )


def _show(read_context: ReadContext, job: DescribedJob, usage: UsageView | None) -> None:
    sections.show_facts(_facts(read_context, job))
    sections.show_lines("Why", _why(job))
    if job.schedule is not None:
        sections.show_section("Runs", ("NAME", "STATUS", "AGE", "ENDED"), _runs(read_context, job.schedule), "none")
    sections.show_section("Pods", ("JOB ID", "STATUS", "READY", "RESTARTS", "NODE", "IP"), _pods(job), "none")
    if len(job.pods) > _SHOWN:
        click.echo(f"{sections.INDENT}({len(job.pods) - _SHOWN} more: -o json)")
    sections.show_section("Timeline", _STAGES, _timeline(read_context, job))
    if usage is not None:
        sections.show_lines("Usage", _usage_lines(usage))
    sections.show_lines("Access", _access(job))
    headers = ("TYPE", "STATUS", "REASON", "AGE")
    sections.show_section("Conditions", headers, _conditions(read_context, job))
    sections.show_lines("Events", _events(read_context, job))
    if job.yaml_content is not None:
        sections.show_lines("Document", job.yaml_content.splitlines())


_STAGES = ("JOB ID", "CREATED", "SCHEDULED", "PULLED", "STARTED", "READY", "FINISHED")


def _facts(read_context: ReadContext, job: DescribedJob) -> list[tuple[str, str]]:
    kind = job.k8s_resources.kind
    reason = f": {job.reason}" if job.reason and job.phase != "pending" else ""
    facts = [
        ("Name", job.name),
        ("Namespace", job.namespace),
        ("Kind", job.kind + (f" ({kind})" if kind is not None else "")),
        ("Status", sections.state(job.status) + reason),
        ("Ready", job.ready),
        ("Created", sections.when(read_context, job.created_at)),
        ("Applied by", job.applied_by or ""),
        ("Started", sections.when(read_context, job.started_at)),
        ("Pool", job.pool or ""),
        ("Priority", job.priority or ""),
        ("Resources", _requests(job)),
        ("Image", "\n".join(job.images)),
    ]
    if job.nodes is not None:
        facts.insert(5, ("Nodes", f"{job.nodes.current} of {job.nodes.min}-{job.nodes.max}"))
    if job.schedule is not None:
        zone = f" ({job.schedule.timezone})" if job.schedule.timezone else ""
        facts.insert(4, ("Schedule", job.schedule.cron + zone))
        facts.insert(5, ("Last run", sections.when(read_context, job.schedule.last_run_at)))
        facts.insert(6, ("Next run", job.schedule.next_run_at or ""))
    if job.notify is not None:
        channels = ", ".join(job.notify.channels) or "the default channels"
        facts.append(("Notify", f"{', '.join(job.notify.events)} to {channels}"))
    if job.description:
        facts.append(("Description", job.description))
    margin = max(len(name) for name, _ in facts) + 4
    return [(name, fit_terminal(value, margin) if name == "Description" else value) for name, value in facts]


def _requests(job: DescribedJob) -> str:
    """Return the requests of a pod, or those of each role's pods in a line."""
    if job.roles:
        several = len({role.pool for role in job.roles}) > 1
        lines = [f"{role.name}: {_amounts(role.resources, several=role.pods > 1)}" for role in job.roles]
        wheres = [f", in {role.pool}" if several and role.pool else "" for role in job.roles]
        return "\n".join(line + where for line, where in zip(lines, wheres, strict=True))
    return _amounts(job.resources, several=job.ready.rpartition("/")[2] not in ("0", "1"))


def _amounts(asked: JobResources, *, several: bool) -> str:
    gpus = f"{asked.gpu} x {asked.gpu_type}" if asked.gpu_type else str(asked.gpu)
    parts = [f"{gpus} GPU" if asked.gpu else "", f"{asked.cpu} cpu" if asked.cpu is not None else ""]
    parts.append(f"{asked.memory} memory" if asked.memory else "")
    text = ", ".join(part for part in parts if part)
    return f"{text} per pod" if text and several else text


def _runs(read_context: ReadContext, schedule: JobSchedule) -> list[list[str]]:
    since = read_context.age
    return [
        [
            run.name,
            sections.state(run.phase),
            since(run.created_at),
            f"{since(run.ended_at)} ago" if run.ended_at else "",
        ]
        for run in schedule.runs
    ]


def _why(job: DescribedJob) -> Iterator[str]:
    if job.why is None:
        return
    more = f"{JobHint('why', job.name, job.namespace)} shows the evidence"
    width = terminal_width()
    fix = [f"fix: {job.why.fix}"] if job.why.fix else []
    yield from section("", [redact(job.why.message), *fix, more], None if width is None else width - 2, indent=0)


def _shown(job: DescribedJob) -> list[JobPod]:
    """Return the pods to show; if there are too many, first those that neither run nor have succeeded."""
    if len(job.pods) <= _SHOWN:
        return job.pods
    return sorted(job.pods, key=lambda pod: pod.phase in ("running", "succeeded"))[:_SHOWN]


def _pods(job: DescribedJob) -> list[list[str]]:
    return [[pod.pod, pod.status, pod.ready, str(pod.restarts), pod.node or "", pod.ip or ""] for pod in _shown(job)]


def _timeline(read_context: ReadContext, job: DescribedJob) -> list[list[str]]:
    """Return for each pod its creation time, then the duration of each stage."""
    rows, by_pod = [], {item.pod: item.stages for item in job.timeline}
    for name in (pod.pod for pod in _shown(job)):
        stages = by_pod.get(name, [])
        reached = {item.stage: f"+{rough_duration(item.seconds)}" for item in stages}
        if stages:
            reached["created"] = read_context.age(stages[0].time)
        rows.append([name, *(reached.get(stage, "") for stage in STAGES)])
    return rows


def _access(job: DescribedJob) -> Iterator[str]:
    found = job.access
    ways = [
        ("Route", found.route or ""),
        ("Node", "\n".join(found.node_ports)),
        ("Load balancer", "\n".join(found.load_balancers)),
        ("In the cluster", "\n".join(found.cluster_dns)),
        ("Pod", "\n".join(found.pod_ips[:_SHOWN])),
        ("Here", found.port_forward or ""),
    ]
    yield from detail_lines([(name, value) for name, value in ways if value])


def _conditions(read_context: ReadContext, job: DescribedJob) -> list[list[str]]:
    return [
        [item.type or "", item.status or "", item.reason or "", read_context.age(item.last_transition_time)]
        for item in job.conditions
    ]


def _events(read_context: ReadContext, job: DescribedJob) -> Iterator[str]:
    events = job.events or []
    if len(events) > _SHOWN:
        yield f"({len(events) - _SHOWN} older: -o json)"
    width = terminal_width()
    for event in events[-_SHOWN:]:
        often = f" (x{event.count})" if event.count > 1 else ""
        text = f"{event.reason} {event.object}{often}: {redact(event.message)}"
        # Only some events have fractions of seconds; with them, the newest could look older than the one before.
        time = event.time and event.time[:19] + "Z"
        yield from section(read_context.age(time), [text], None if width is None else width - 2, indent=6)
