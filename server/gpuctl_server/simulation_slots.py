"""The limit of concurrent plans and fits: others wait for a slot, then get 429."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpuctl.language.sentences import say
from gpuctl_server.http_problems import Problem
from gpuctl_server.service_context import Service

_PATIENCE = 50.0
"""Seconds that a plan waits for other plans."""


@contextmanager
def simulation_slot(service: Service) -> Iterator[None]:
    """Hold one of the few slots for simulations of all pods of the cluster.

    :raises Problem: 429 if no slot became free in time.
    """
    if not service.simulations.acquire(timeout=_PATIENCE):
        raise Problem(429, say("other plans are being computed; try again in a moment"))
    try:
        yield
    finally:
        service.simulations.release()
