"""All nodes and pools, computed once for all requests, and not more often than a CPU limit allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field

from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings
from gpuctl.reading.nodes.node_rows import NodeDetails
from gpuctl.reading.nodes.pool_rows import PoolState
from gpuctl.usecases.queries.pool_queries import pool_states
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.mirrored_session import mirrored

_SHARE = 0.25
"""Maximum share of one CPU for computing the fleet while pods change all the time."""


@dataclass(frozen=True)
class Fleet:
    """The pools at one time, ``default`` last, and their nodes by name.

    It is not filtered for a caller: not every caller may see the pods on the nodes and their names.
    """

    version: int = -1
    pools: Sequence[PoolState] = ()
    nodes: Mapping[str, NodeDetails] = field(default_factory=dict)


class FleetBoard:
    """Computes the fleet on request, and caches it."""

    def __init__(self, connection: Connection, mirror: Mirror, platform: Settings) -> None:
        self._connection = connection
        self._mirror = mirror
        self._platform = platform
        self._lock = threading.Lock()
        self._fleet = Fleet()
        self._good_until = 0.0
        self._needed = 0

    def require(self, version: int) -> None:
        """Never return a fleet older than a version of the mirror again, so that a client reads its own write."""
        with self._lock:
            self._needed = max(self._needed, version)

    def now(self) -> Fleet:
        """Return the current fleet, or a recent one if computing it again would exceed the CPU limit."""
        if self._is_good():
            return self._fleet
        with self._lock:
            # Another thread may have computed it during the wait for the lock.
            if not self._is_good():
                begun = time.thread_time()
                # In an empty context: other requests, in other languages, get the same fleet.
                self._fleet = Context().run(self._made, self._mirror.version)
                self._good_until = time.monotonic() + (time.thread_time() - begun) * (1 / _SHARE - 1)
            return self._fleet

    def _is_good(self) -> bool:
        version = self._fleet.version
        if version < self._needed:
            return False
        return version == self._mirror.version or time.monotonic() < self._good_until

    def _made(self, version: int) -> Fleet:
        with mirrored(self._connection, self._mirror, self._platform) as reader:
            pools = pool_states(reader)
        nodes = sorted((node for pool in pools for node in pool.members), key=lambda node: node.name)
        return Fleet(version, pools, {node.name: node for node in nodes})
