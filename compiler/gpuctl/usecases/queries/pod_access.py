"""Access to the pods of a job: the pod for a command, and port forwarding."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gpuctl.kube.api_errors import ClusterError, NotPossible
from gpuctl.kube.port_forwarding import forward_connection
from gpuctl.objects.api_resources import RESOURCES, Key, Object
from gpuctl.reading.jobs.job_lookup import find_job
from gpuctl.reading.jobs.job_objects import Job, identity_of, selector_of
from gpuctl.reading.jobs.pod_selection import running_pod, select_container
from gpuctl.usecases.queries.read_context import ReadContext

_QUEUED = 128


@dataclass(frozen=True)
class PodChoice:
    """A running pod: the ``named`` one, or the first of ``number`` running pods."""

    job: Job
    pod: Object
    number: int
    named: bool

    @property
    def key(self) -> Key:
        """Return the key of the pod."""
        return Key("Pod", self.pod["metadata"]["namespace"], self.pod["metadata"]["name"])

    @property
    def served_port(self) -> int | None:
        """Return the first container port of the pod; None without one."""
        for container in self.pod["spec"]["containers"]:
            for port in container.get("ports") or []:
                return int(port["containerPort"])
        return None

    def container(self, name: str | None) -> str:
        """Return the container with a name; None: the job's own.

        :raises NotThere: the pod has no such container.
        """
        return select_container(self.pod, name)


def choose_pod(reader: ReadContext, name: str, pod: str | None = None, *, ready: bool = False) -> PodChoice:
    """Return the pod of a job for a command or a forwarded port.

    :param name: name of the job, ``KIND/NAME``, or name of a pod.
    :param pod: the pod's name, its index in the job, or the end of its name.
    :param ready: prefer a pod that is ready.
    :raises NotThere: no job or pod matches, or none runs.
    """
    job, named = find_job(reader.scope, name, reader.keys)
    wanted = pod or named
    found, number = running_pod(job, wanted, reader.keys, ready=ready)
    return PodChoice(job, found, number, bool(wanted))


def listen(address: str, local: int | None, remote: int) -> socket.socket:
    """Return a socket that listens for connections to forward.

    :param local: its port; 0: a free one; None: the number of the remote port, or a free one if that is taken.
    :raises NotPossible: the port is taken, or the address does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for wanted in (remote, 0) if local is None else (local,):
        try:
            return socket.create_server((address, wanted), family=family, backlog=_QUEUED)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            if wanted in (local, 0):
                hint = "`LOCAL:REMOTE` names another port, `:REMOTE` takes a free one"
                raise NotPossible(f"cannot listen on {address}, port {wanted}: {problem}", hint) from None
    raise AssertionError("the last try either listens or raises")


class PortForward:
    """Accepts connections and forwards each, in a thread of its own, to a pod that is ready at that time.

    A named pod is always used. ``report`` is called with the error of a failed connection.
    """

    def __init__(self, reader: ReadContext, choice: PodChoice, port: int, report: Callable[[str], None]) -> None:
        self._reader = reader
        self._choice = choice
        self._port = port
        self._report = report

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until an exception, such as KeyboardInterrupt or a closed listener."""
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
        """Return the pod for a new connection."""
        if self._choice.named:
            return self._choice.key
        job, keys = self._choice.job, self._reader.keys
        namespace, labels = job.identity.namespace, selector_of(job, keys)
        listed, _ = self._reader.scope.session.list_objects(RESOURCES["Pod"], namespace, labels=labels)
        pods = [pod for pod in listed if (found := identity_of(pod, keys)) and found.name == job.identity.name]
        pod, _ = running_pod(Job(job.identity, job.workload, pods), None, keys, ready=True)
        return Key("Pod", namespace, pod["metadata"]["name"])
