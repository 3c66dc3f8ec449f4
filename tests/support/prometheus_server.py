"""A real Prometheus: Debian's, from the machine or fetched once into the cache outside the tree."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from control_plane.processes import Process, free_ports
from support.go_programs import ProgramMissing, alone, cache_directory, debian_packages, is_program, named_program
from support.missing_parts import required

PROGRAMS = ("prometheus", "promtool")
STARTS_IN = 120.0


@required(ProgramMissing)
def prometheus_programs() -> Path:
    """The directory with prometheus and promtool; without them a test is skipped, in CI it fails."""
    return find_prometheus()


def find_prometheus() -> Path:
    """Return the directory of Prometheus, for tests that are skipped without it.

    :raises ProgramMissing: it is not installed, and cannot be downloaded.
    """
    named = [named_program(name) for name in PROGRAMS]
    if named[0] is not None and named[1] is not None and named[0].parent == named[1].parent:
        return named[0].parent
    directory = cache_directory() / "prometheus"
    if all(is_program(directory / name) for name in PROGRAMS):
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with alone(directory), tempfile.TemporaryDirectory(dir=directory) as temporary:
        if not all(is_program(directory / name) for name in PROGRAMS):
            unpacked = debian_packages(Path(temporary), "prometheus")
            for name in PROGRAMS:
                # Moved as a whole, so that another process never runs a part of it.
                os.replace(unpacked / "usr" / "bin" / name, directory / name)
    return directory


class Exporter:
    """An exporter of GPU metrics with values that tests set."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = ("\n".join(own.lines) + "\n").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it."""
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def running_prometheus(
    directory: Path,
    *,
    history: str = "",
    targets: Sequence[str] = (),
    how: Mapping[str, Any] | None = None,
    rules: Sequence[Path] = (),
) -> Iterator[str]:
    """The address of a Prometheus, for as long as the block lasts.

    :param history: samples of the past, in OpenMetrics with times.
    :param targets: what it scrapes each second, as ``host:port``.
    :param how: what else it is set to for them.
    :param rules: files of rules, which it evaluates each second.
    """
    programs = prometheus_programs()
    data = directory / "data"
    if history:
        text = directory / "history.txt"
        text.write_text(f"{history.rstrip()}\n# EOF\n")
        subprocess.run(
            [str(programs / "promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)],
            check=True,
            capture_output=True,
        )
    set_up_prometheus(directory, targets, how, rules)
    server = PrometheusServer(directory)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


def set_up_prometheus(
    directory: Path, targets: Sequence[str], how: Mapping[str, Any] | None = None, rules: Sequence[Path] = ()
) -> None:
    """Write what it is set to: to scrape targets, and to evaluate files of rules, each second."""
    scrape = {"job_name": "gpus", **(how or {}), "static_configs": [{"targets": list(targets)}]}
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [scrape],
        "rule_files": list(map(str, rules)),
    }
    (directory / "prometheus.yml").write_text(json.dumps(settings))


class PrometheusServer:
    """A Prometheus that can be killed and started again, with the configuration in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        [self._port] = free_ports(1)
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = Process(
            [
                str(prometheus_programs() / "prometheus"),
                f"--config.file={self._directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._directory / 'data'}",
                "--storage.tsdb.retention.time=10y",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            self._directory / "prometheus.log",
            self._directory,
        )
        _wait_until_ready(self.url, self._process)

    def stop(self, *, kill: bool = False) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop(kill=kill)


def _wait_until_ready(url: str, process: Process) -> None:
    end = time.monotonic() + STARTS_IN
    while True:
        with suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            if answer.status == 200:
                return
        assert time.monotonic() < end, f"Prometheus is not ready:\n{process.tail()}"
        assert not process.ended, process.tail()
        time.sleep(0.05)
