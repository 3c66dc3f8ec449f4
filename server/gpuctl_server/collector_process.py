"""``python -m gpuctl_server.collector_process``: the usage collector as a child process of the service.

The first line of standard input has the settings, as JSON. Each further line requests the metrics, and is answered by a
line on standard output. Another line reports the state every second. The process exits when standard input is closed,
so it never outlives the service.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from typing import Any, TextIO

from gpuctl_server.request_log import LOG, set_up
from gpuctl_usage.collector import collect
from gpuctl_usage.collector_context import CannotCollect
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.collector_metrics import metrics_of
from gpuctl_usage.usage_settings import UsageSettings

_INTERVAL = 1.0
"""Interval of the state lines, seconds."""
_WRITING = threading.Lock()


def main() -> int:
    """Collect until standard input ends. Return 3 if collecting is impossible."""
    set_up()
    settings = UsageSettings.made(json.loads(sys.stdin.readline()))
    stopping, health = threading.Event(), CollectorHealth()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=_answer_requests, args=(sys.stdin, health, stopping), daemon=True).start()
    threading.Thread(target=_report_state, args=(health, stopping), daemon=True).start()
    try:
        collect(settings, stopping, health)
    except CannotCollect as error:
        LOG.error("usage cannot be collected", extra={"problem": str(error)})
        return 3
    return 0


def _answer_requests(lines: TextIO, health: CollectorHealth, stopping: threading.Event) -> None:
    for line in lines:
        asked = json.loads(line)
        seen = asked["namespaces"]
        text = metrics_of(health, None if seen is None else frozenset(seen)).decode()
        _write_line({"answer": asked["number"], "text": text})
    stopping.set()


def _report_state(health: CollectorHealth, stopping: threading.Event) -> None:
    while not stopping.wait(_INTERVAL):
        if not health.is_alive:
            LOG.error("the usage collector hangs; its process exits")
            os._exit(4)
        _write_line(health.state())


def _write_line(value: dict[str, Any]) -> None:
    # The service may have been killed. Then standard input ends as well.
    with _WRITING, contextlib.suppress(OSError):
        print(json.dumps(value), flush=True)


if __name__ == "__main__":
    sys.exit(main())
