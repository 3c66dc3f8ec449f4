"""A running service: a real uvicorn in a process of its own, before a control plane."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO, Union
from urllib.parse import urlsplit

import httpx

from fault_tools.zygote import Forked, shared
from gpuctl_server.access.rights import Role
from gpuctl_server.access.tokens import TokenEntry, new_token, write_tokens
from support.cluster_tools import Place

STARTS_IN = 180.0
READY_IN = 120.0
PATIENCE = 120.0
"""Seconds until a change in the cluster is visible, on a busy machine."""


class Untidied(NamedTuple):
    """An answer."""

    status: int
    value: Any


class Served:
    """A service and its tokens: ``client`` returns the client of a user."""

    def __init__(
        self,
        process: ServiceProcess,
        url: str,
        tokens: Mapping[str, str],
        log: list[str],
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self.process = process
        self.url = url
        self.tokens = tokens
        self.log = log
        self.verify = verify
        self._clients: dict[str, httpx.Client] = {}

    def client(self, name: str = "admin") -> httpx.Client:
        """Return the client of a user; "" has no token."""
        if name not in self._clients:
            headers = {"Authorization": f"Bearer {self.tokens[name]}"} if name else {}
            self._clients[name] = httpx.Client(
                base_url=f"{self.url}/api/v1", headers=headers, timeout=60, verify=self.verify
            )
        return self._clients[name]

    def own_client(self, name: str = "admin") -> httpx.Client:
        """Return a client of a user for another thread; it ends with the process."""
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=self.client(name).headers, timeout=120)

    def get(self, path: str, name: str = "admin", *, status: int = 200, **query: Any) -> Any:
        """Return the JSON of a path."""
        return self.call("GET", path, name, status=status, params=query)

    def call(self, method: str, path: str, name: str = "admin", *, status: int = 200, **rest: Any) -> Any:
        """Send a request and return the JSON of its response."""
        response = self.client(name).request(method, path, **rest)
        assert response.status_code == status, f"{method} {path}: {response.status_code}\n{response.text}"
        return response.json()

    def untidied(self, method: str, path: str, name: str = "admin", body: Any = None) -> Untidied:
        """Send a path unchanged and return the response: httpx would normalize ``..`` and similar parts."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.netloc, timeout=60)
        headers = {"Authorization": f"Bearer {self.tokens[name]}", "Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return Untidied(answer.status, json.loads(answer.read()))
        finally:
            connection.close()

    def until(self, path: str, condition: Any, name: str = "admin", **query: Any) -> Any:
        """Return the JSON of a path when it exists and meets a condition."""
        end = time.monotonic() + PATIENCE
        while True:
            response = self.client(name).get(path, params=query)
            if response.status_code == 200 and condition(response.json()):
                return response.json()
            assert time.monotonic() < end, f"{path} stays {response.status_code} {response.text[:2000]}"
            time.sleep(0.1)

    def until_running(self, name: str, namespace: str, pods: int = 1) -> Any:
        """Return a job when it is running with a number of pods."""

        def runs(value: Any) -> bool:
            running = [pod for pod in value["pods"] if pod["status"] == "Running"]
            return value["status"] == "running" and len(running) >= pods

        return self.until(f"/jobs/{name}", runs, namespace=namespace)

    def pods_of(self, place: Place, name: str, pods: int = 1) -> list[str]:
        """Return the pods of a job once the service lists them as running."""
        found = sorted(place.running(name, pods=pods))
        self.until_running(name, place.namespace, pods)
        return found

    def until_gone(self, path: str, name: str = "admin", **query: Any) -> None:
        """Wait until a path returns 404."""
        end = time.monotonic() + PATIENCE
        while (response := self.client(name).get(path, params=query)).status_code != 404:
            assert time.monotonic() < end, f"{path} stays {response.status_code} {response.text[:2000]}"
            time.sleep(0.1)

    def until_told(self, *words: str, count: int = 1) -> list[str]:
        """The lines of the log that have some words, once there are so many: they are read by a thread."""
        end = time.monotonic() + PATIENCE
        while len(found := [line for line in list(self.log) if all(word in line for word in words)]) < count:
            assert time.monotonic() < end, f"no {count} lines with {words} in\n{''.join(self.log)[-4000:]}"
            time.sleep(0.05)
        return found

    def stop(self) -> int:
        """End it as Kubernetes does; its exit code."""
        for client in self._clients.values():
            client.close()
        self.process.terminate()
        return self.process.wait(timeout=60)


ServiceProcess = Union["subprocess.Popen[bytes]", Forked]

Rights = tuple[Role, "tuple[str, ...] | None", "tuple[str, ...] | None"]
"""Role, namespaces, pools."""


@contextmanager
def serving(
    directory: Path,
    kubeconfig: Path,
    users: Mapping[str, Rights],
    verify: ssl.SSLContext | bool = True,
    ready: bool = True,
    fresh: bool = False,
    **settings: str,
) -> Iterator[Served]:
    """Yield a service that is ready, until the end of the block.

    :param users: name -> rights; each user has a token.
    :param verify: trusted certificates.
    :param ready: False: it only listens.
    :param fresh: start a new Python process as a user does, not a fork of one that has imported everything.
    :param settings: of the service, as environment variables without the prefix.
    """
    made: dict[str, tuple[str, TokenEntry]] = {
        name: new_token(name, role, namespaces=namespaces, pools=pools)
        for name, (role, namespaces, pools) in users.items()
    }
    path = directory / "tokens.json"
    write_tokens(path, [entry for _, entry in made.values()])
    own = {"KUBECONFIG": str(kubeconfig), "tokens": str(path), "port": "0", **settings}
    environment = {name if name.isupper() else f"GPUCTL_SERVER_{name.upper()}": value for name, value in own.items()}
    process, lines = _started(directory, {**os.environ, **environment}, fresh)
    log: list[str] = []
    heard = threading.Event()
    url: list[str] = []

    def read() -> None:
        for line in lines:
            log.append(line)
            match = re.match(r"gpuctl serves (\S+)/api/v1$", line)
            if match:
                url.append(match[1])
                heard.set()
        heard.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        heard.wait(STARTS_IN)
        assert url, f"the service did not start:\n{''.join(log)}"
        if ready:
            _wait_until_ready(url[0], log, verify)
        served = Served(process, url[0], {name: token for name, (token, _) in made.items()}, log, verify)
        yield served
        served.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(timeout=10)
        lines.close()


def _started(directory: Path, environment: Mapping[str, str], fresh: bool) -> tuple[ServiceProcess, TextIO]:
    """A service, and what it writes to standard error."""
    reading, writing = os.pipe()
    lines = os.fdopen(reading)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        if fresh:
            command = [sys.executable, "-m", "gpuctl_server"]
            return subprocess.Popen(command, env=environment, cwd=directory, stdin=nothing, stderr=writing), lines
        return shared("gpuctl_server").fork([], [nothing, 1, writing], env=environment, cwd=directory), lines
    finally:
        os.close(nothing)
        os.close(writing)


def refused_start(directory: Path, kubeconfig: Path, fresh: bool = False, /, **settings: str) -> tuple[int, str]:
    """The exit code of a service that does not start, and what it says."""
    own = {"KUBECONFIG": str(kubeconfig), "tokens": str(directory / "tokens.json"), "port": "0", **settings}
    environment = {name if name.isupper() else f"GPUCTL_SERVER_{name.upper()}": value for name, value in own.items()}
    process, lines = _started(directory, {**os.environ, **environment}, fresh)
    with lines:
        try:
            return process.wait(STARTS_IN), lines.read()
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def _wait_until_ready(url: str, log: list[str], verify: ssl.SSLContext | bool) -> None:
    end = time.monotonic() + READY_IN
    while not _is_ready(url, verify):
        assert time.monotonic() < end, f"the service is not ready:\n{''.join(log)}"
        time.sleep(0.05)


def _is_ready(url: str, verify: ssl.SSLContext | bool) -> bool:
    """Return True if the service says so. On a busy machine an answer may take long."""
    try:
        return httpx.get(f"{url}/readyz", timeout=30, verify=verify).status_code == 200
    except httpx.ReadTimeout:
        return False
