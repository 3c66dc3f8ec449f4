"""``gpuctl describe job``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from gpuctl.api.job_answers import job_answer
from gpuctl.api.usage_answers import usage_answer
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.usage.asking import kept_way
from gpuctl.cli.options.completing import complete_job
from gpuctl.cli.options.connecting import secrets_option
from gpuctl.cli.options.reading_options import detail_options, namespace_options, reader, reading_options
from gpuctl.cli.output.paragraphs import fitted, section
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.sparkline import shows_blocks
from gpuctl.cli.output.table import details
from gpuctl.cli.output.terminal import terminal_width
from gpuctl.cli.output.usage_amounts import covered, gpu_hours, percent
from gpuctl.cli.output.usage_lines import use_over_time
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.masking import redact
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.workload_state import age
from gpuctl.reading.describe_job import JobDetail
from gpuctl.reading.job_rows import Row
from gpuctl.reading.timeline import STAGES
from gpuctl.reading.usage_shapes import UsageView
from gpuctl.usecases.job_queries import describe_job
from gpuctl.usecases.job_usage import job_usage
from gpuctl.usecases.looking import Reader

_SHOWN = 20
"""Pods and events that a person gets to see; all are in the JSON."""


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
    as_json: bool,
    namespace: str | None,
    all_namespaces: bool,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """Show a job: status, resources, when its pods came how far, how it is reached, events, and its document.

    JOB is the job's name, KIND/NAME, or the name of one of its pods. When it does not run, the cause is shown as well.
    """
    output = "json" if as_json else output
    with reader(
        kubeconfig, context, platform, namespace, all_namespaces=all_namespaces, as_json=output != "text"
    ) as looking:
        detail = describe_job(looking, job)
        usage = _usage(looking, detail)
        if output == "text":
            _show(detail, usage)
        else:
            show_value({**job_answer(detail), "usage": None if usage is None else _usage_value(usage)}, output)
    return 0


def _usage(looking: Reader, detail: JobDetail) -> UsageView | None:
    """What its GPUs did lately; None where that is not written down, and a note where it could not be read."""
    workload, namespace = detail.job.workload, detail.job.identity.namespace
    uid = str((workload or {}).get("metadata", {}).get("uid") or "")
    try:
        with kept_way(looking) as way:
            if way is None or not uid:
                return None
            return job_usage(way, uid, namespace)
    except (ClusterError, click.ClickException) as error:
        looking.scope.note(f"what its GPUs did is not known: {error.message}")
        return None


def _usage_value(usage: UsageView) -> dict[str, Any]:
    value: dict[str, Any] = usage_answer(usage)["items"][0]
    return value


def _usage_lines(usage: UsageView) -> Iterator[str]:
    use, steps = usage.all_groups, usage.groups[0].steps
    idle = gpu_hours(use.idle if use.mean_use is not None else None) or "-"
    yield from details(
        [
            ("GPU-hours", f"{gpu_hours(use.held)} held, {idle} idle, {gpu_hours(use.unobserved)} not measured"),
            ("Mean use", f"{percent(use.mean_use) or '-'} of what was measured ({covered(use.coverage) or '-'})"),
            ("Last 24 hours", use_over_time(steps, shows_blocks())),
        ]
    )


def _show(detail: JobDetail, usage: UsageView | None) -> None:
    sections.show_facts(_facts(detail))
    sections.show_lines("Why", _why(detail))
    sections.show_section("Pods", ("JOB ID", "STATUS", "READY", "RESTARTS", "NODE", "IP"), _pods(detail), "none")
    if len(detail.pods) > _SHOWN:
        click.echo(f"{sections.INDENT}({len(detail.pods) - _SHOWN} more: -o json)")
    sections.show_section("Timeline", _STAGES, _timeline(detail))
    if usage is not None:
        sections.show_lines("Usage", _usage_lines(usage))
    sections.show_lines("Access", _access(detail))
    headers = ("TYPE", "STATUS", "REASON", "AGE")
    sections.show_section("Conditions", headers, _conditions(detail))
    sections.show_lines("Events", _events(detail))
    if detail.text is not None:
        sections.show_lines("Document", detail.text.splitlines())


_STAGES = ("JOB ID", "CREATED", "SCHEDULED", "PULLED", "STARTED", "READY", "FINISHED")


def _facts(detail: JobDetail) -> list[tuple[str, str]]:
    row, identity, asked = detail.row, detail.job.identity, detail.resources
    gpus = f"{asked['gpu']} x {asked['gpuType']}" if asked["gpuType"] else str(asked["gpu"])
    parts = [f"{gpus} GPU" if asked["gpu"] else "", f"{asked['cpu']} cpu" if asked["cpu"] is not None else ""]
    parts.append(f"{asked['memory']} memory" if asked["memory"] else "")
    each = " per pod" if row.ready.rpartition("/")[2] not in ("0", "1") else ""
    workload = detail.job.workload
    reason = f": {row.status.reason}" if row.status.reason and row.status.phase != "pending" else ""
    facts = [
        ("Name", identity.name),
        ("Namespace", identity.namespace),
        ("Kind", identity.kind + (f" ({workload['kind']})" if workload is not None else "")),
        ("Status", sections.state(row.status.word) + reason),
        ("Ready", row.ready),
        ("Created", sections.when(row.created_at)),
        ("Applied by", row.applied_by or ""),
        ("Started", sections.when(detail.started_at)),
        ("Pool", row.pool or ""),
        ("Priority", row.priority or ""),
        ("Resources", ", ".join(part for part in parts if part) + each),
        ("Image", "\n".join(detail.images)),
    ]
    if detail.description:
        facts.append(("Description", detail.description))
    margin = max(len(name) for name, _ in facts) + 4
    return [(name, fitted(value, margin) if name == "Description" else value) for name, value in facts]


def _why(detail: JobDetail) -> Iterator[str]:
    found, identity = detail.answer.finding, detail.job.identity
    if not detail.has_trouble:
        return
    more = f"`gpuctl why {identity.name} -n {identity.namespace}` tells what speaks for it"
    width = terminal_width()
    fix = [f"fix: {found.fix}"] if found.fix else []
    yield from section("", [redact(found.message), *fix, more], None if width is None else width - 2, indent=0)


def _shown(detail: JobDetail) -> list[Row]:
    """The pods that are shown: of many those first that are neither up nor through."""
    if len(detail.pods) <= _SHOWN:
        return detail.pods
    return sorted(detail.pods, key=lambda row: row.status.phase in ("running", "succeeded"))[:_SHOWN]


def _pods(detail: JobDetail) -> list[list[str]]:
    return [
        [
            row.shown_id,
            row.status.word,
            row.ready,
            str(detail.restarts[row.shown_id]),
            row.node or "",
            row.ip or "",
        ]
        for row in _shown(detail)
    ]


def _timeline(detail: JobDetail) -> list[list[str]]:
    """When a pod was made, then how long each stage took after the one before it."""
    rows = []
    for name in (row.shown_id for row in _shown(detail)):
        stages = detail.timeline[name]
        reached = {stage.name: f"+{rough_duration(stage.seconds)}" for stage in stages}
        if stages:
            reached["created"] = age(stages[0].time)
        rows.append([name, *(reached.get(stage, "") for stage in STAGES)])
    return rows


def _access(detail: JobDetail) -> Iterator[str]:
    found = detail.access
    ways = [
        ("Node", "\n".join(found.nodes)),
        ("Load balancer", "\n".join(found.balancers)),
        ("In the cluster", "\n".join(found.services)),
        ("Pod", "\n".join(found.pods[:_SHOWN])),
        ("Here", found.port_forward or ""),
    ]
    yield from details([(name, value) for name, value in ways if value])


def _conditions(detail: JobDetail) -> list[list[str]]:
    return [
        [
            item.get("type") or "",
            item.get("status") or "",
            item.get("reason") or "",
            age(item.get("lastTransitionTime")),
        ]
        for item in detail.conditions
    ]


def _events(detail: JobDetail) -> Iterator[str]:
    events = detail.events or []
    if len(events) > _SHOWN:
        yield f"({len(events) - _SHOWN} older: -o json)"
    width = terminal_width()
    for event in events[-_SHOWN:]:
        often = f" (x{event.count})" if event.count > 1 else ""
        text = f"{event.reason} {event.about}{often}: {redact(event.message)}"
        # Only some events have fractions of seconds: with them the newest could look older than the one before.
        time = event.time and event.time[:19] + "Z"
        yield from section(age(time), [text], None if width is None else width - 2, indent=6)
