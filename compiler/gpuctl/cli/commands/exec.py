"""``gpuctl exec``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.reading_options import ReadingOptions, kubeconfig_reading_options, open_context
from gpuctl.cli.output.terminal import is_interactive, raw_terminal, size
from gpuctl.kube.pod_exec import Command, ExecStreams, execute
from gpuctl.objects.api_resources import Key
from gpuctl.usecases.policies.notebook_use import recorded_use
from gpuctl.usecases.queries.pod_access import choose_pod
from gpuctl.usecases.queries.read_context import ReadContext

# Bash if the image has it, else sh.
_SHELL = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash || exec sh")


@click.command(
    "exec",
    short_help="Run a command in a job's pod.",
    epilog="Examples:\n\n  $ gpuctl exec qwen2-sft -- nvidia-smi\n\n  $ gpuctl exec qwen2-sft --pod 3 -it -- bash\n\n"
    "  $ gpuctl exec data-prep -i -- tar x -C /data < data.tar",
)
@click.argument("name", shell_complete=complete_job)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGUMENT]...]")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on to the command.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal: for shells and editors, with -i.")
@click.option(
    "--pod", metavar="POD", help="The pod: its name, index, or the end of its name. Default: the first that runs."
)
@click.option("-c", "--container", metavar="NAME", help="The container. Default: the job's own.")
@job_namespace_option
@kubeconfig_reading_options
def command(
    name: str,
    arguments: tuple[str, ...],
    stdin: bool,
    tty: bool,
    pod: str | None,
    container: str | None,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """Run a command in a pod of a job, and exit with its exit code. NAME is a job, a pod, or KIND/NAME.

    Without a command, on a terminal, a shell is opened. Exit code 3: the command was not started, or the connection
    ended before it did. 1: the job does not exist, or none of its pods runs.
    """
    if not arguments:
        if not is_interactive():
            raise click.UsageError(f"name a command, as in `gpuctl exec {name} -- nvidia-smi`")
        arguments, stdin, tty = _SHELL, True, True
    with open_context(reading, namespace, changes=True) as read_context:
        choice = choose_pod(read_context, name, pod)
        if tty and not (stdin and sys.stdin.isatty()):
            why = "standard input is not one" if stdin else "standard input is not passed on: add -i"
            click.echo(f"note: no terminal for the command: {why}", err=True)
            tty = False
        what = Command(arguments, choice.container(container), stdin, tty)
        if choice.number > 1:
            click.echo(f"note: in pod {choice.key.name}, one of {choice.number}; --pod names another", err=True)
        with recorded_use(read_context.scope.session, choice.job.workload, read_context.keys):
            return _run(read_context, choice.key, what)


def _run(read_context: ReadContext, pod: Key, what: Command) -> int:
    sys.stdout.flush()
    stdin = sys.stdin.fileno() if what.stdin else None
    try:
        if not what.tty:
            return execute(read_context.scope.session, pod, what, ExecStreams(stdin, _to(1), _to(2)))
        with raw_terminal() as resized:
            return execute(read_context.scope.session, pod, what, ExecStreams(stdin, _to(1), _to(2), resized, size))
    except KeyboardInterrupt:
        return 130


def _to(descriptor: int) -> Callable[[bytes], None]:
    """Return a function that writes all bytes to a descriptor."""

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(descriptor, data) :]

    return write
