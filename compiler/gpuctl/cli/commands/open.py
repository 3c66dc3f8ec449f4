"""``gpuctl open``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gpuctl.api.change_answers import paused_job
from gpuctl.cli.options.change_runner import Invocation, callbacks_of
from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import Progress
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.local_port import forward_port
from gpuctl.cli.options.reading_options import ReadingOptions, kubeconfig_reading_options, open_context
from gpuctl.cli.output.change_results import show_paused
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import NotPossible
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.reading.jobs.job_lookup import find_job
from gpuctl.usecases.changes.pause_and_resume import resume_jobs
from gpuctl.usecases.queries.job_queries import wait_for_jobs
from gpuctl.usecases.queries.pod_access import choose_pod


@click.command(
    "open",
    short_help="Resume a notebook or service, and reach its port.",
    epilog="Examples:\n\n  $ gpuctl open lab\n\n  $ gpuctl open lab -n nlp --yes",
)
@click.argument("name", shell_complete=complete_job)
@click.option("-y", "--yes", is_flag=True, help="Confirm evictions.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@job_namespace_option
@kubeconfig_reading_options
def command(
    name: str,
    yes: bool,
    address: str,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """Resume a job if it is paused, wait until it is ready, and forward a local port to it until Ctrl-C.

    Evictions need confirmation. The job keeps running after Ctrl-C: `gpuctl pause` frees its GPUs.
    """
    progress = Progress()
    try:
        with open_context(reading, namespace, changes=True) as read_context:
            job, _ = find_job(read_context.scope, name, read_context.keys)
            if job.workload is not None and read_context.keys.paused in annotations_of(job.workload):
                callbacks = callbacks_of(Invocation(reading.connection, yes), progress)
                resumed = resume_jobs(read_context.scope.session, [job], read_context.settings, callbacks)
                show_paused((paused_job(*one) for one in resumed), as_json=False)
            for outcome in wait_for_jobs(read_context, [name], "ready", None, progress.wait):
                progress.clear()
                if not outcome.met:
                    why = JobHint("why", job.identity.name, job.identity.namespace)
                    raise NotPossible(outcome.message, f"{why} shows the cause")
            choice = choose_pod(read_context, name, ready=True)
            for line in _tokens(choice.pod, job.identity.namespace):
                click.echo(line, err=True)
            return forward_port(read_context, choice, None, None, address)
    except KeyboardInterrupt:
        progress.clear()
        return 130


def _tokens(pod: Object, namespace: str) -> Iterator[str]:
    """Yield for each variable with a token from a Secret the command that prints it."""
    for container in pod["spec"]["containers"]:
        for variable in container.get("env") or []:
            source = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if source and "TOKEN" in variable["name"].upper():
                path = source["key"].replace(".", "\\.")
                read = f"kubectl get secret {source['name']} -n {namespace} -o jsonpath='{{.data.{path}}}' | base64 -d"
                yield f"{variable['name']}: `{read}` prints it"
