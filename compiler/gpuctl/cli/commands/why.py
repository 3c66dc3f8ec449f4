"""``gpuctl why``: show the cause of a job's state, and a fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import secrets_option
from gpuctl.cli.options.reading_options import (
    ReadingOptions,
    detail_options,
    namespace_options,
    open_context,
    reading_options,
)
from gpuctl.cli.output.paragraphs import section
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import is_coloured, terminal_width
from gpuctl.language.display_text import visible
from gpuctl.language.masking import redact
from gpuctl.usecases.queries.one_job import job_cause

if TYPE_CHECKING:
    from gpuctl.api.job_cause_answers import JobCause, WhyEvidence

_WAITING = frozenset(
    {
        "waiting-for-jobs",
        "paused",
        "suspended",
        "queued",
        "terminating",
        "starting",
        "image-slow",
        "preempting",
        "rollout-paused",
    }
)


@click.command(
    "why",
    short_help="Show why a job is pending, failed or slow to start.",
    epilog="Exit code 0: a cause was printed; 1: the job does not exist.\n\nExamples:\n\n  $ gpuctl why qwen-sft"
    "\n\n  $ gpuctl why qwen-sft -o json",
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
    """Show the cause of a job's state with its numbers, the evidence, the causes that were ruled out, and a fix.

    JOB is the job's name, KIND/NAME, or the name of one of its pods. The command reads the job's pods, events, quotas
    and nodes, and the last log lines of crashed containers. Changes nothing.
    """
    machine = output in ("json", "yaml")
    with open_context(reading, namespace, as_json=machine) as read_context:
        answer = job_cause(read_context, job)
        if machine:
            show_value(answer.as_json(), output)
        else:
            for line in lines(answer, width=terminal_width(), coloured=is_coloured()):
                click.echo(line)
    return 0


def lines(answer: JobCause, *, width: int | None = None, coloured: bool = False) -> Iterator[str]:
    """Yield the lines of the output."""
    colour = "green" if answer.is_well else "yellow" if answer.cause in _WAITING else "red"

    def bold(text: str) -> str:
        return click.style(text, bold=True) if coloured else text

    # The API server allows only harmless characters in names, but a service may send any.
    head = visible(f"{answer.kind}/{answer.job} in {answer.namespace}")
    cause = click.style(visible(answer.cause), fg=colour) if coloured else visible(answer.cause)
    yield f"{bold(head)}: {cause}"
    yield from section("", [redact(answer.message)], width, indent=2)
    yield ""
    if answer.evidence:
        yield from section("Because", [_evidence_text(item) for item in answer.evidence], width, style=bold)
    if answer.ruled_out:
        yield from section("Ruled out", answer.ruled_out, width, style=bold)
    if answer.fix:
        yield from section("Fix", [answer.fix], width, style=bold)
    for item in answer.also:
        yield from section("Also", [f"{item.cause}: {redact(item.message)}"], width, style=bold)


def _evidence_text(evidence: WhyEvidence) -> str:
    # The scheduler's text about preemption repeats the number of nodes; it stays in the JSON.
    text = re.split(r"\.? (?:no new claims to deallocate|preemption: 0/)", evidence.text)[0]
    return redact(f"{evidence.source} of {evidence.object}: {text}")
