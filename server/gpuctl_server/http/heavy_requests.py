"""Limits of concurrent requests that need a CPU or much memory: others wait for a slot, then get 429."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from gpuctl.language.sentences import Template, say
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.service_context import Service

_PATIENCE = 50.0
"""Seconds that a request waits for others."""
_SEARCHES = threading.BoundedSemaphore(1)
_PLANS = Template("other plans are being computed; try again in a moment")
_OTHER_SEARCH = Template("another search for changes is running; try again in a moment")
_LONG_LOGS = Template("other long logs are being read; try again in a moment, or follow the log")


def simulation_slot(service: Service) -> AbstractContextManager[None]:
    """Hold one of the few slots for simulations of all pods of the cluster.

    :raises Problem: 429 if no slot became free in time.
    """
    return _slot(service.simulations, _PLANS)


def search_slot() -> AbstractContextManager[None]:
    """Hold the only slot for searches for changes with which jobs would fit. Two at a time would not be faster.

    :raises Problem: 429 if it did not become free in time.
    """
    return _slot(_SEARCHES, _OTHER_SEARCH)


def long_log_slot(service: Service) -> AbstractContextManager[None]:
    """Hold one of the few slots for long logs in one answer.

    :raises Problem: 429 if no slot became free in time.
    """
    return _slot(service.long_logs, _LONG_LOGS)


@contextmanager
def _slot(slots: threading.BoundedSemaphore, refusal: Template) -> Iterator[None]:
    if not slots.acquire(timeout=_PATIENCE):
        raise Problem(429, say(refusal))
    try:
        yield
    finally:
        slots.release()
