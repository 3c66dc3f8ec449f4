"""Exec and port-forward of simulated pods: a small program around kubelet's own code, built when first needed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import threading
from pathlib import Path

from control_plane.processes import Process, free_ports

MODULE = Path(__file__).resolve().parents[1] / "binaries" / "kwok"


def program(binaries: Path) -> Path:
    """The program, built beside the others if it is not there; a few seconds, as its parts are kwok's too."""
    source = (MODULE / "streams" / "main.go").read_bytes()
    path = binaries / f"streams-{hashlib.sha256(source).hexdigest()[:12]}"
    if not path.exists():
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(temporary), "./streams"]
        subprocess.run(command, cwd=MODULE, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        temporary.replace(path)
    return path


class Streams:
    """The running program. Ports of pods lead nowhere until :meth:`connect`."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._targets: dict[str, str] = {}
        self._file = directory / "ports.json"
        self._lock = threading.Lock()
        self._write()
        [self.port] = free_ports(1)
        command = [str(program(binaries)), f"-listen=127.0.0.1:{self.port}", f"-targets={self._file}"]
        self.process = Process(command, directory / "streams.log", directory)

    def connect(self, namespace: str, pod: str, port: int, local: int | None) -> None:
        """Let a port of a pod be one of this machine, or (None) be closed."""
        with self._lock:
            self._targets.pop(f"{namespace}/{pod}:{port}", None)
            if local is not None:
                self._targets[f"{namespace}/{pod}:{port}"] = f"127.0.0.1:{local}"
            self._write()

    def equip(self, namespace: str, pod: str, programs: Path) -> None:
        """Let a pod have the programs in a directory, and no others."""
        with self._lock:
            self._targets[f"{namespace}/{pod}:path"] = str(programs)
            self._write()

    def listens(self) -> bool:
        """Return True if it accepts connections."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def _write(self) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(self._targets))
        temporary.replace(self._file)
