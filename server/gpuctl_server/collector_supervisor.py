"""Supervisor of the usage collector: a child process that is restarted when it fails, and ends with the service.

It is a separate process because rolling up an hour of thousands of GPUs needs seconds of CPU time, and because a
failure of the collector must not end requests.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from typing import Any

from gpuctl_server.request_log import LOG
from gpuctl_server.server_settings import ServerSettings
from gpuctl_usage.collector_metrics import NOT_COLLECTING
from gpuctl_usage.usage_settings import UsageSettings

SILENT = 15.0
"""Seconds after the last line of the process until its state is unknown. It writes a line every second."""
_ENDS_IN = 5.0
"""Seconds until the process is killed. It may be killed at any time: what it has not written is collected again."""
_ANSWERS_IN = 5.0
"""Timeout of a request for metrics, seconds. Prometheus waits for ten."""
_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)
_LASTED = 600.0
"""Seconds of running after which an exit counts as the first failure again."""
_COMMAND = (sys.executable, "-m", "gpuctl_server.collector_process")


class CollectorSupervisor:
    """The process and its last output. Safe to use from several threads."""

    def __init__(self, settings: ServerSettings) -> None:
        stated = settings.model_dump(mode="json", include=set(UsageSettings.model_fields))
        self._settings = json.dumps(stated)
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, daemon=True, name="gpuctl-usage")
        self._state: dict[str, Any] = {}
        self._state_at = -SILENT
        self._answered = threading.Condition()
        self._answers: dict[int, bytes | None] = {}
        self._number = 0

    def start(self) -> None:
        """Start collecting."""
        self._thread.start()

    def end(self) -> None:
        """Request the end of the process, without waiting for it."""
        with self._lock:
            self._ending.set()
            process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def stop(self) -> None:
        """End the process and wait for it. Kill it after a timeout."""
        self.end()
        process = self._process
        if process is not None:
            try:
                process.wait(_ENDS_IN)
            except subprocess.TimeoutExpired:
                LOG.warning("the usage collector did not exit in time; it is killed")
                process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def state(self) -> dict[str, Any]:
        """Return the state: if it collects, the age of the newest written data, and the problem; the last two may be
        None.
        """
        return (
            dict(self._state)
            if self._is_responsive
            else {"collecting": False, "knownSecondsAgo": None, "problem": None}
        )

    @property
    def _is_responsive(self) -> bool:
        return time.monotonic() - self._state_at < SILENT

    def metrics(self, namespaces: Collection[str] | None) -> bytes:
        """Return the metrics of the collector for Prometheus; :data:`NOT_COLLECTING` if it does not answer.

        :param namespaces: namespaces whose pods are included; None: all. If empty, nodes are left out as well.
        """
        seen = None if namespaces is None else sorted(namespaces)
        process, end = self._process, time.monotonic() + _ANSWERS_IN
        # Before its first line the process reads its settings, and a hanging process reads nothing.
        if process is None or process.stdin is None or not self._is_responsive:
            return NOT_COLLECTING
        with self._answered:
            self._number += 1
            number = self._number
            self._answers[number] = None
            try:
                process.stdin.write(f"{json.dumps({'number': number, 'namespaces': seen})}\n")
                process.stdin.flush()
                self._answered.wait_for(lambda: self._answers[number] is not None, end - time.monotonic())
            except (OSError, ValueError):
                # The process has exited.
                pass
            return self._answers.pop(number) or NOT_COLLECTING

    def _keep(self) -> None:
        failures = 0
        while not self._ending.is_set():
            begun = time.monotonic()
            code = self._run()
            self._state_at = -SILENT
            if self._ending.is_set():
                return
            failures = 1 if time.monotonic() - begun > _LASTED else failures + 1
            pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
            LOG.error("the usage collector has exited; it is restarted", extra={"exit": code, "after": pause})
            self._ending.wait(pause)

    def _run(self) -> int | str:
        """Run the process once. Return its exit code, or why it could not be started."""
        try:
            with self._lock:
                if self._ending.is_set():
                    return 0
                process = self._process = subprocess.Popen(
                    _COMMAND,
                    # The working directory must not be on the module path: a file there could replace a module.
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    # The process must not get Ctrl-C: the service ends it.
                    start_new_session=True,
                )
        except OSError as error:
            return str(error)
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(f"{self._settings}\n")
            process.stdin.flush()
        with process.stdout as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    self._receive(json.loads(line))
        return process.wait()

    def _receive(self, value: dict[str, Any]) -> None:
        if "answer" not in value:
            self._state, self._state_at = value, time.monotonic()
            return
        with self._answered:
            # The requester may have given up.
            if value["answer"] in self._answers:
                self._answers[value["answer"]] = value["text"].encode()
            self._answered.notify_all()
