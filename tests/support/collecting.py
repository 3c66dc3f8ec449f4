"""A running collector: `gpuctl usage collect` in a process of its own, and its database."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from fault_tools.zygote import Forked, shared
from gpuctl_usage.facts import Capacity, Holding
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.engines import write_transaction

ENDS_IN = 60.0
_MAIN = "import sys; from gpuctl.__main__ import main; sys.exit(main())"


class Collecting:
    """A collector that may be killed and started again, with one database.

    :param address: of the database; "" is a file in the directory.
    :param before: Python that its process runs first: to have another clock, say.
    """

    def __init__(
        self, directory: Path, kubeconfig: Path, *, address: str = "", before: str = "", **settings: str
    ) -> None:
        self.path = directory / "usage.db"
        self.address = address or str(self.path)
        self._program = f"{before}\n{_MAIN}"
        self._directory = directory
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            **{f"GPUCTL_SERVER_{name.upper()}": value for name, value in settings.items()},
        }
        self._process: Forked | None = None
        self._reader: threading.Thread | None = None
        self.log: list[dict[str, Any]] = []
        self._database: Database | None = None

    def start(self) -> None:
        """Start it, and wait until it knows what there is."""
        before = len(self.log)
        self.launch()
        self.until(
            lambda: any(line["message"] == "all kinds are listed" for line in self.log[before:]) or self._ended,
            "it to begin",
        )
        assert not self._ended, self.log

    def launch(self) -> None:
        """Start it."""
        environment = {**self._environment, "GPUCTL_SERVER_USAGE_DATABASE": self.address}
        reading, writing = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            self._process = shared("gpuctl_usage").fork(
                [self._program, "usage", "collect"], [nothing, 1, writing], env=environment, cwd=self._directory
            )
        finally:
            os.close(nothing)
            os.close(writing)
        self._reader = threading.Thread(target=self._read, args=(os.fdopen(reading),), daemon=True)
        self._reader.start()

    def said(self, message: str) -> int:
        """Return the number of times that its log contains a message."""
        return sum(line["message"] == message for line in self.log)

    def pause(self) -> None:
        """Let it stand still, outside of its transactions: other collectors would wait for their locks."""
        assert self._process is not None
        with write_transaction(self.database._engine):
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a machine does that fails."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as Kubernetes does; its exit code."""
        return self._end(signal.SIGTERM)

    @property
    def running(self) -> bool:
        """Return True if it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def database(self) -> Database:
        """Its database."""
        if self._database is None:
            self._database = open_database(self.address)
        return self._database

    def holdings(self, namespace: str = "") -> list[Holding]:
        """All that is written of a namespace, by start."""
        found = [item for item in self.database.holdings(1, 0, 2**40) if namespace in ("", item.namespace)]
        return sorted(found, key=lambda item: (item.start, item.pod))

    def of(self, namespace: str, pod: str) -> list[Holding]:
        """Return the holdings of a pod, in order."""
        return [item for item in self.holdings(namespace) if item.pod == pod]

    def capacities(self, node: str) -> list[Capacity]:
        """Return the capacities of a node, in order."""
        return sorted(
            (item for item in self.database.capacities(1, 0, 2**40) if item.node == node), key=lambda item: item.start
        )

    def until(self, condition: Callable[[], Any], what: str, timeout: float = 60) -> Any:
        """Wait until a condition holds."""
        end = time.monotonic() + timeout
        while not (found := condition()):
            assert not self._failed, f"waiting for {what}: {self.log}"
            assert time.monotonic() < end, f"waiting for {what}: {self.log}"
            time.sleep(0.05)
        return found

    def close(self) -> None:
        """End everything."""
        if self.running:
            self.kill()
        if self._database is not None:
            self._database.close()

    @property
    def _failed(self) -> bool:
        return self._process is not None and self._process.poll() not in (None, 0, -signal.SIGKILL)

    @property
    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        assert self._reader is not None
        self._process.send_signal(number)
        code = self._process.wait(timeout=ENDS_IN)
        self._reader.join(timeout=10)
        return code

    def _read(self, lines: TextIO) -> None:
        with lines:
            for line in lines:
                self.log.append(json.loads(line) if line.startswith("{") else {"message": line})


@contextmanager
def collecting(directory: Path, kubeconfig: Path, **settings: str) -> Iterator[Collecting]:
    """A collector that follows the cluster, for as long as the block lasts."""
    running = Collecting(directory, kubeconfig, **settings)
    try:
        running.start()
        yield running
    finally:
        running.close()
