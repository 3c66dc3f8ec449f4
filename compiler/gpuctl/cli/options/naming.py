"""Commands that do something to jobs named on the command line, one after another."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuctl.cli.options.completing import complete_job
from gpuctl.cli.options.connecting import json_option
from gpuctl.cli.options.document_options import checked_namespace
from gpuctl.cli.options.reading_options import reader, reading_options
from gpuctl.cli.output.terminal import is_coloured

if TYPE_CHECKING:
    from gpuctl.acts.pausing import Paused
    from gpuctl.apply.state.records import Records
    from gpuctl.backend.api_resources import Object
    from gpuctl.kube.connection import Connection
    from gpuctl.reading.job_rows import Job
    from gpuctl.usecases.looking import Reader

Function = TypeVar("Function", bound=Callable[..., Any])


def naming_options(function: Function) -> Function:
    """Which jobs, where."""
    for decorate in (
        json_option,
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            callback=checked_namespace,
            help="Where the jobs are. Default: any namespace, where the name is the only one.",
        ),
        click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job),
        reading_options,
    ):
        function = decorate(function)
    return function


def found_jobs(looking: Reader, names: Sequence[str]) -> Iterator[Job]:
    """The jobs of names, each once; all are looked up before the first comes."""
    from gpuctl.reading.find import find_job

    jobs = [find_job(looking.scope, name, looking.keys)[0] for name in names]
    yield from {job.identity: job for job in jobs}.values()


def pausing(
    act: Callable[[Connection, Object, Records], Paused],
    names: Sequence[str],
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
    *,
    as_json: bool,
) -> int:
    """``pause`` and ``resume``: do it to each job, and say what became of it."""
    from gpuctl.reading.find import workload_of

    with reader(kubeconfig, context, platform, namespace, as_json=as_json) as looking:
        items = []
        for job in found_jobs(looking, names):
            result = act(looking.scope.connection, workload_of(job), looking.keys)
            items.append(
                {
                    "jobId": result.key.name,
                    "name": job.identity.name,
                    "namespace": result.key.namespace,
                    "kind": job.identity.kind,
                    "status": result.status,
                    "changed": result.changed,
                    "message": result.message,
                }
            )
            if not as_json:
                word = click.style(result.status, fg="yellow" if result.status == "paused" else "green")
                shown = f"{job.identity.kind}/{job.identity.name} -n {result.key.namespace}"
                lead = word if is_coloured() else result.status
                click.echo(f"{lead}{' ' * (9 - len(result.status))} {shown}  ({result.message})")
                sys.stdout.flush()
        if as_json:
            click.echo(json.dumps({"items": items}, ensure_ascii=False, indent=2))
    return 0
