"""The collector beside the service: a process of its own, begun with the service, begun again when it fails, and ended
with the service.

Rolling up an hour of thousands of GPUs takes a processor for seconds, which requests would wait for; and whatever ends
the collector ends no request.
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
"""Seconds without a word after which nothing is said of how it goes: it speaks every second."""
_ENDS_IN = 5.0
"""Seconds that it may take to end in order. It may be killed at any moment: what it has not written is seen again."""
_ANSWERS_IN = 5.0
"""Seconds that an answer may take: Prometheus waits for ten."""
_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)
_LASTED = 600.0
"""Seconds after which one that ends has not failed to begin."""
_COMMAND = (sys.executable, "-m", "gpuctl_server.collector_process")


class CollectorSupervisor:
    """The process, and what it last said. Safe to use from several threads."""

    def __init__(self, settings: ServerSettings) -> None:
        stated = settings.model_dump(mode="json", include=set(UsageSettings.model_fields))
        self._settings = json.dumps(stated)
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, daemon=True, name="gpuctl-usage")
        self._said: dict[str, Any] = {}
        self._said_at = -SILENT
        self._answered = threading.Condition()
        self._answers: dict[int, bytes | None] = {}
        self._number = 0

    def start(self) -> None:
        """Begin to collect."""
        self._thread.start()

    def end(self) -> None:
        """Have it end, without waiting for it."""
        with self._lock:
            self._ending.set()
            process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def stop(self) -> None:
        """Have it end, and wait until it has; it is killed if that takes too long."""
        self.end()
        process = self._process
        if process is not None:
            try:
                process.wait(_ENDS_IN)
            except subprocess.TimeoutExpired:
                LOG.warning("the collector of usage is killed: it does not end")
                process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def state(self) -> dict[str, Any]:
        """Whether it collects, how old what is written may be, and what is wrong; the last two may be None."""
        return dict(self._said) if self._speaks else {"collecting": False, "knownSecondsAgo": None, "problem": None}

    @property
    def _speaks(self) -> bool:
        return time.monotonic() - self._said_at < SILENT

    def metrics(self, namespaces: Collection[str] | None) -> bytes:
        """What it tells Prometheus; where it does not answer, that it does not collect.

        :param namespaces: those whose pods are told of, None for all; without any, nodes are not told of either.
        """
        seen = None if namespaces is None else sorted(namespaces)
        process, end = self._process, time.monotonic() + _ANSWERS_IN
        # Before it has spoken it reads its settings, and a stuck one reads nothing.
        if process is None or process.stdin is None or not self._speaks:
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
                # It has ended.
                pass
            return self._answers.pop(number) or NOT_COLLECTING

    def _keep(self) -> None:
        failures = 0
        while not self._ending.is_set():
            begun = time.monotonic()
            code = self._run()
            self._said_at = -SILENT
            if self._ending.is_set():
                return
            failures = 1 if time.monotonic() - begun > _LASTED else failures + 1
            pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
            LOG.error("the collector of usage has ended; it is started again", extra={"exit": code, "after": pause})
            self._ending.wait(pause)

    def _run(self) -> int | str:
        """Run it once; its exit code, or why it could not be started."""
        try:
            with self._lock:
                if self._ending.is_set():
                    return 0
                process = self._process = subprocess.Popen(
                    _COMMAND,
                    # What stands in the directory where the service happens to run is not its program.
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    # Ctrl-C is for the service, which ends it.
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
                    self._hear(json.loads(line))
        return process.wait()

    def _hear(self, value: dict[str, Any]) -> None:
        if "answer" not in value:
            self._said, self._said_at = value, time.monotonic()
            return
        with self._answered:
            # Whoever has not waited for it is not answered.
            if value["answer"] in self._answers:
                self._answers[value["answer"]] = value["text"].encode()
            self._answered.notify_all()
