"""A forwarded port in the foreground: prints its address, and serves until Ctrl-C."""

from __future__ import annotations

import sys

import click

from gpuctl.usecases.policies.notebook_use import recorded_use
from gpuctl.usecases.queries.pod_access import PodChoice, PortForward, listen
from gpuctl.usecases.queries.read_context import ReadContext


def forward_port(
    read_context: ReadContext, choice: PodChoice, local: int | None, remote: int | None, address: str
) -> int:
    """Forward a local port to a job, and return the exit code after Ctrl-C.

    :param local: see :func:`~gpuctl.usecases.queries.pod_access.listen`.
    :param remote: None: the port of the job.
    """
    remote = remote or choice.served_port
    if remote is None:
        identity = choice.job.identity
        raise click.UsageError(f"{identity.title} has no port: name one")
    with listen(address, local, remote) as listener:
        shown = f"[{address}]" if ":" in address else address
        click.echo(
            f"http://{shown}:{listener.getsockname()[1]} -> port {remote} of pod {choice.key.name} (Ctrl-C ends it)"
        )
        sys.stdout.flush()
        forward = PortForward(read_context, choice, remote, lambda text: click.echo(f"error: {text}", err=True))
        try:
            with recorded_use(read_context.scope.session, choice.job.workload, read_context.keys):
                forward.serve(listener)
        except KeyboardInterrupt:
            return 130
    return 0
