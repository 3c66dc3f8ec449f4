"""``gpuctl port-forward``."""

from __future__ import annotations

import re

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.local_port import forward_port
from gpuctl.cli.options.reading_options import ReadingOptions, kubeconfig_reading_options, open_context
from gpuctl.usecases.queries.pod_access import choose_pod


def _ports(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int | None, int | None]:
    """Return local and remote port; None: chosen by gpuctl."""
    if value is None:
        return None, None
    match = re.fullmatch(r"(\d{0,5})(:?)(\d{0,5})", value)
    numbers = [int(part) for part in (match[1], match[3]) if part] if match else []
    if match is None or value == ":" or any(not 0 < number < 65536 for number in numbers):
        raise click.BadParameter(f"`{value}` is not PORT, LOCAL:REMOTE, :REMOTE or LOCAL:", context, parameter)
    local = int(match[1]) if match[1] else None
    if not match[2]:
        return local, local
    return local if local is not None else 0, int(match[3]) if match[3] else None


@click.command(
    "port-forward",
    short_help="Reach a job's port on this machine.",
    epilog="Examples:\n\n  $ gpuctl port-forward data-prep\n\n  $ gpuctl port-forward data-prep 6006\n\n"
    "  $ gpuctl port-forward llm 9000:8000",
)
@click.argument("name", shell_complete=complete_job)
@click.argument("ports", required=False, callback=_ports, metavar="[PORT | LOCAL:REMOTE]")
@click.option(
    "--pod", metavar="POD", help="The pod: its name, index, or the end of its name. Default: the first ready one."
)
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@job_namespace_option
@kubeconfig_reading_options
def command(
    name: str,
    ports: tuple[int | None, int | None],
    pod: str | None,
    address: str,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """Forward a local port to a port of a job, until Ctrl-C. NAME is a job, a pod, or KIND/NAME.

    PORT is used on both sides. Without it, the port of the job is used, locally under the same number, or a free one if
    that is taken. `LOCAL:` forwards the job's own port from another number; `:REMOTE` picks a free local port.

    Each connection goes to a pod that is ready at that moment. If the pod is replaced, new connections go to another
    one.
    """
    local, remote = ports
    with open_context(reading, namespace, changes=True) as read_context:
        choice = choose_pod(read_context, name, pod, ready=True)
        return forward_port(read_context, choice, local, remote, address)
