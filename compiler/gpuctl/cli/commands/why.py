"""``gpuctl why``: the one cause that keeps a job from running, and what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from gpuctl.api.why_answers import why_answer
from gpuctl.cli.options.completing import complete_job
from gpuctl.cli.options.connecting import secrets_option
from gpuctl.cli.options.reading_options import detail_options, namespace_options, reader, reading_options
from gpuctl.cli.output.paragraphs import section
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import is_coloured, terminal_width
from gpuctl.language.masking import redact
from gpuctl.language.wording import visible
from gpuctl.reading.why.answer import Answer
from gpuctl.reading.why.finding import Proof
from gpuctl.usecases.job_queries import explain_job

_WAITING = frozenset(
    {"paused", "suspended", "queued", "terminating", "starting", "image-slow", "preempting", "rollout-paused"}
)


@click.command(
    "why",
    short_help="Tell why a job is pending, failed or slow to start.",
    epilog="Exit code 0: told, whatever the cause; 1: there is no such job.\n\nExamples:\n\n  $ gpuctl why qwen-sft"
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
    as_json: bool,
    namespace: str | None,
    all_namespaces: bool,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """Tell why a job is as it is: one cause with its numbers, what speaks for it, what was ruled out, what helps.

    JOB is the job's name, KIND/NAME, or the name of one of its pods. Looks at the job's pods, events, quotas and nodes,
    and at the last lines that crashed containers wrote. Changes nothing.
    """
    output = "json" if as_json else output
    machine = output in ("json", "yaml")
    with reader(kubeconfig, context, platform, namespace, all_namespaces=all_namespaces, as_json=machine) as looking:
        answer = explain_job(looking, job)
        for note in answer.notes:
            looking.scope.note(note)
        if machine:
            show_value(why_answer(answer), output)
        else:
            for line in lines(answer, width=terminal_width(), coloured=is_coloured()):
                click.echo(line)
    return 0


def lines(answer: Answer, *, width: int | None = None, coloured: bool = False) -> Iterator[str]:
    """An answer for people."""
    found, identity = answer.finding, answer.job.identity
    colour = "green" if answer.is_well else "yellow" if found.cause in _WAITING else "red"

    def bold(text: str) -> str:
        return click.style(text, bold=True) if coloured else text

    # Names of the cluster are letters; a service may send anything.
    head = visible(f"{identity.kind}/{identity.name} in {identity.namespace}")
    cause = click.style(visible(found.cause), fg=colour) if coloured else visible(found.cause)
    yield f"{bold(head)}: {cause}"
    yield from section("", [redact(found.message)], width, indent=2)
    yield ""
    if found.sources:
        yield from section("Because", [told(item) for item in found.sources], width, style=bold)
    if answer.ruled_out:
        yield from section("Ruled out", answer.ruled_out, width, style=bold)
    if found.fix:
        yield from section("Fix", [found.fix], width, style=bold)
    for item in answer.also:
        yield from section("Also", [f"{item.cause}: {redact(item.message)}"], width, style=bold)


def told(source: Proof) -> str:
    """A piece of evidence: where it stands, and what it says."""
    # What the scheduler adds about preemption repeats the number of nodes; the JSON has it.
    text = re.split(r"\.? (?:no new claims to deallocate|preemption: 0/)", source.text)[0]
    return redact(f"{source.kind} of {source.about}: {text}")
