"""A kube-scheduler that repeats its attempts after one second, and says whether it has anything left to try."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from control_plane import ControlPlane
from control_plane.processes import Process
from support.real_parts import control_plane_binaries

_PENDING = re.compile(rb'^scheduler_pending_pods\{queue="(?:active|backoff)"\} (\S+)$', re.MULTILINE)
"""A metric of kube-scheduler, stable: the pods that it will try without anything that happens. Others are
``unschedulable`` until an event helps them, or ``gated``."""


@contextmanager
def scheduler_alone() -> Iterator[ControlPlane]:
    """A control plane of which nothing but the scheduler acts: who else would change statuses, taints and quotas."""
    with ControlPlane(control_plane_binaries()) as plane:
        plane.stop_program("kwok")
        plane.stop_program("kube-controller-manager")
        hasten(plane)
        yield plane


def hasten(plane: ControlPlane) -> None:
    """Let the scheduler repeat its attempts after one second, not after up to ten, and serve its metrics."""
    plane.stop_program("kube-scheduler")
    path = plane.directory / "scheduler.yaml"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig("controller")), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
    }
    path.write_text(json.dumps(config))
    command = [
        str(plane.binaries / "kube-scheduler"),
        f"--config={path}",
        "--bind-address=127.0.0.1",
        f"--secure-port={plane.scheduler_port}",
        "--authorization-always-allow-paths=/metrics",
    ]
    plane.processes["kube-scheduler"] = Process(command, plane.directory / "scheduler.log", plane.directory)


def has_tried_all(plane: ControlPlane) -> bool:
    """Return True if a scheduler with short intervals waits for an event.

    A few seconds without a change are not enough: on a busy machine a round over a thousand pending pods takes longer,
    and each of them may be schedulable.
    """
    # It has made its certificate itself, for this process only.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", plane.scheduler_port, timeout=60, context=context)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    assert answer.status == http.client.OK, text
    pending = _PENDING.findall(text)
    assert len(pending) == 2, "kube-scheduler does not say how many pods wait"
    return not any(float(number) for number in pending)
