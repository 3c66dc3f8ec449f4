"""``gpuctl port-forward``."""

from __future__ import annotations

import contextlib
import re
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from gpuctl.cli.options.completing import complete_job
from gpuctl.cli.options.document_options import checked_namespace
from gpuctl.cli.options.reading_options import reader, reading_options

if TYPE_CHECKING:
    from gpuctl.backend.api_resources import Key, Object
    from gpuctl.cli.options.reading_options import Reader
    from gpuctl.kube.session import Session
    from gpuctl.reading.job_rows import Job

_QUEUED = 128


def _ports(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int | None, int | None]:
    """Local and remote port; None is for us to choose."""
    if value is None:
        return None, None
    match = re.fullmatch(r"(\d{0,5})(:?)(\d{0,5})", value)
    numbers = [int(part) for part in (match[1], match[3]) if part] if match else []
    if match is None or value == ":" or any(not 0 < number < 65536 for number in numbers):
        raise click.BadParameter(f"`{value}` is no PORT, LOCAL:REMOTE, :REMOTE or LOCAL:", context, parameter)
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
@click.option("--pod", metavar="POD", help="To this pod, by its name or the end of it. Default: the first that serves.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("-n", "--namespace", metavar="NAME", callback=checked_namespace, help="Where it is. Default: search.")
@reading_options
def command(
    name: str,
    ports: tuple[int | None, int | None],
    pod: str | None,
    address: str,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """Reach a port of a job on this machine, until Ctrl-C: NAME is the job's, a pod's, or KIND/NAME.

    PORT is the same on both sides; without it, the port that the job serves on, here under the same number, or under
    a free one when that is taken. `LOCAL:` is the job's own port under another number, `:REMOTE` chooses a free one.

    Each connection goes to a pod that serves at that moment: when another takes its place, the next goes there.
    """
    from gpuctl.reading.find import find_job
    from gpuctl.reading.running import running_pod

    local, remote = ports
    with reader(kubeconfig, context, platform, namespace) as looking:
        job, named = find_job(looking.scope, name, looking.keys)
        found, _ = running_pod(job, pod or named, looking.keys, ready=True)
        remote = remote or _served(found)
        if remote is None:
            raise click.UsageError(f"{job.identity.kind}/{job.identity.name} serves on no port: say which one")
        listener = _listen(address, remote if local is None else local, free=ports[0] is None)
        with listener:
            shown = f"[{address}]" if ":" in address else address
            click.echo(
                f"http://{shown}:{listener.getsockname()[1]} -> port {remote} of pod {found['metadata']['name']}"
                " (Ctrl-C ends it)"
            )
            sys.stdout.flush()
            forward = Forward(looking, job, found["metadata"]["name"] if pod or named else None, remote)
            try:
                forward.serve(listener)
            except KeyboardInterrupt:
                return 130
    return 0


def _served(pod: Object) -> int | None:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            return int(port["containerPort"])
    return None


def _listen(address: str, port: int, *, free: bool) -> socket.socket:
    """A listening socket; with ``free`` on any port when this one is taken."""
    from gpuctl.cli.options.connecting import RefusedByPlan

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for wanted in (port, 0) if free and port else (port,):
        try:
            return socket.create_server((address, wanted), family=family, backlog=_QUEUED)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            if not free or wanted == 0:
                hint = "`LOCAL:REMOTE` names another port, `:REMOTE` takes a free one"
                raise RefusedByPlan(f"cannot listen on {address}, port {wanted}: {problem}\n  = {hint}") from None
    raise AssertionError("the last try either listens or raises")


class Forward:
    """Takes connections and carries each to a pod in a thread of its own."""

    def __init__(self, looking: Reader, job: Job, pod: str | None, port: int) -> None:
        self._session: Session = looking.scope.session
        self._pick: Callable[[], Key] = _picker(looking, job, pod)
        self._port = port

    def serve(self, listener: socket.socket) -> None:
        """Until an exception, such as Ctrl-C's."""
        while True:
            client, _ = listener.accept()
            threading.Thread(target=self._carry, args=(client,), daemon=True, name="gpuctl-forward").start()

    def _carry(self, client: socket.socket) -> None:
        from gpuctl.kube.api_errors import ClusterError
        from gpuctl.kube.port_forwarding import carry

        with client:
            try:
                carry(self._session, self._pick(), self._port, client)
            except ClusterError as error:
                click.echo(f"error: {error.message}", err=True)
            except OSError as error:
                with contextlib.suppress(OSError):
                    click.echo(f"error: {(error.strerror or str(error)).lower()}", err=True)


def _picker(looking: Reader, job: Job, name: str | None) -> Callable[[], Key]:
    """Finds the pod for a connection, as things are then."""
    from gpuctl.backend.api_resources import RESOURCES, Key
    from gpuctl.reading.job_rows import Job
    from gpuctl.reading.running import running_pod

    namespace = job.identity.namespace
    labels = f"{looking.keys.job_type}={job.identity.kind},app={job.identity.name}"

    def pick() -> Key:
        if name is not None:
            return Key("Pod", namespace, name)
        pods, _ = looking.scope.session.list_objects(RESOURCES["Pod"], namespace, labels=labels)
        found, _ = running_pod(Job(job.identity, job.workload, pods), None, looking.keys, ready=True)
        return Key("Pod", namespace, found["metadata"]["name"])

    return pick
