"""Into the pods of a job: the pod that a command is run in, and a port of it carried to this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gpuctl.kube.api_errors import ClusterError, NotPossible
from gpuctl.kube.port_forwarding import forward_connection
from gpuctl.objects.api_resources import RESOURCES, Key, Object
from gpuctl.reading.job_lookup import find_job
from gpuctl.reading.job_rows import Job
from gpuctl.reading.log_streams import select_container
from gpuctl.reading.running_pod import running_pod
from gpuctl.usecases.read_context import ReadContext

_QUEUED = 128


@dataclass(frozen=True)
class PodChoice:
    """A pod that runs: the one that was ``named``, or the first of ``number`` that do."""

    job: Job
    pod: Object
    number: int
    named: bool

    @property
    def key(self) -> Key:
        """Which pod it is."""
        return Key("Pod", self.pod["metadata"]["namespace"], self.pod["metadata"]["name"])

    @property
    def served_port(self) -> int | None:
        """The first port that it says it serves on."""
        for container in self.pod["spec"]["containers"]:
            for port in container.get("ports") or []:
                return int(port["containerPort"])
        return None

    def container(self, name: str | None) -> str:
        """The container of a name; default: the job's own.

        :raises NotThere: there is none of the name.
        """
        return select_container(self.pod, name)


def choose_pod(reader: ReadContext, name: str, pod: str | None = None, *, ready: bool = False) -> PodChoice:
    """The pod of a job that commands go into. With ``ready`` one that serves is preferred.

    :param name: of the job, ``KIND/NAME``, or of a pod.
    :param pod: the pod's name, its index in the job, or the end of its name.
    :raises NotThere: there is no such job or pod, or none runs.
    """
    job, named = find_job(reader.scope, name, reader.keys)
    wanted = pod or named
    found, number = running_pod(job, wanted, reader.keys, ready=ready)
    return PodChoice(job, found, number, bool(wanted))


def listen(address: str, port: int, *, free: bool) -> socket.socket:
    """A listening socket; with ``free`` on any port when this one is taken.

    :raises NotPossible: the port is taken, or the address is none of this machine.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for wanted in (port, 0) if free and port else (port,):
        try:
            return socket.create_server((address, wanted), family=family, backlog=_QUEUED)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            if not free or wanted == 0:
                hint = "`LOCAL:REMOTE` names another port, `:REMOTE` takes a free one"
                raise NotPossible(f"cannot listen on {address}, port {wanted}: {problem}", hint) from None
    raise AssertionError("the last try either listens or raises")


class PortForward:
    """Takes connections and carries each, in a thread of its own, to a pod that serves at that moment.

    A pod that was named is the only one. ``report`` hears of connections that failed.
    """

    def __init__(self, reader: ReadContext, choice: PodChoice, port: int, report: Callable[[str], None]) -> None:
        self._reader = reader
        self._choice = choice
        self._port = port
        self._report = report

    def serve(self, listener: socket.socket) -> None:
        """Until an exception, such as that of Ctrl-C or of a listener that is closed."""
        while True:
            client, _ = listener.accept()
            threading.Thread(target=self._carry, args=(client,), daemon=True, name="gpuctl-forward").start()

    def _carry(self, client: socket.socket) -> None:
        with client:
            try:
                forward_connection(self._reader.scope.session, self._pod(), self._port, client)
            except ClusterError as error:
                self._report(error.message)
            except OSError as error:
                with contextlib.suppress(OSError):
                    self._report((error.strerror or str(error)).lower())

    def _pod(self) -> Key:
        """The pod for a connection, as things are then."""
        if self._choice.named:
            return self._choice.key
        identity, keys = self._choice.job.identity, self._reader.keys
        labels = f"{keys.job_type}={identity.kind},app={identity.name}"
        pods, _ = self._reader.scope.session.list_objects(RESOURCES["Pod"], identity.namespace, labels=labels)
        found, _ = running_pod(Job(identity, self._choice.job.workload, pods), None, keys, ready=True)
        return Key("Pod", identity.namespace, found["metadata"]["name"])
