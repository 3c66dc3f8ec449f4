"""Measure `diff` on a remote cluster: each request has an additional round trip of 300 ms."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import yaml

from cluster import NAMESPACE, files
from timing import seconds, timed

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane

DOCUMENTS = 50
"""Each becomes a Deployment and a Service."""
ROUND_TRIP = 0.3
_CHUNK = 1 << 16

Report = Callable[[str, str, str, "bool | None"], None]


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """Report `diff` against `kubectl diff`."""
    new = files(directory, "far", DOCUMENTS, "v1", 0)
    changed = files(directory, "far-changed", DOCUMENTS, "v2", 0)
    with ControlPlane(binaries) as plane:
        near = ["--kubeconfig", str(plane.kubeconfig())]
        timed([sys.executable, "-m", "gpuctl", "apply", "-f", new.documents, "--yes", *near])
        with far_away(plane, directory) as config:
            far = ["--kubeconfig", config]
            # Exit code 1 means that there are differences.
            ours = timed([sys.executable, "-m", "gpuctl", "diff", "-f", changed.documents, *far], (1,))
            kubectl = [str(plane.binaries / "kubectl"), "diff", "-f", changed.objects, "-n", NAMESPACE, *far]
            theirs = timed(kubectl, (1,))
    what = f"diff of {2 * DOCUMENTS} objects at round trips of {ROUND_TRIP * 1000:g} ms / kubectl diff"
    value = f"{theirs.wall / ours.wall:.1f}x faster {seconds(ours, theirs)}"
    report(what, value, ">= 8x faster", theirs.wall >= 8 * ours.wall)


@contextmanager
def far_away(plane: ControlPlane, directory: Path) -> Iterator[str]:
    """Yield a kubeconfig whose server is a proxy that delays every byte by half a round trip."""
    config = yaml.safe_load(Path(plane.kubeconfig()).read_text())
    cluster = config["clusters"][0]["cluster"]
    port = int(cluster["server"].rpartition(":")[2].rstrip("/"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cluster["server"] = f"https://127.0.0.1:{listener.getsockname()[1]}"
        path = directory / "far.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield str(path)


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", port))
        for source, target in ((client, server), (server, client)):
            held: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            threading.Thread(target=_receive, args=(source, held), daemon=True).start()
            threading.Thread(target=_send, args=(held, target), daemon=True).start()


def _receive(source: socket.socket, held: SimpleQueue[tuple[float, bytes]]) -> None:
    data = b"-"
    while data:
        try:
            data = source.recv(_CHUNK)
        except OSError:
            data = b""
        held.put((time.monotonic() + ROUND_TRIP / 2, data))


def _send(held: SimpleQueue[tuple[float, bytes]], target: socket.socket) -> None:
    while True:
        due, data = held.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
        except OSError:
            return
