"""All nodes and pools, worked out at most once for each state of the mirror, however many ask."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings
from gpuctl.reading.node_rows import NodeState
from gpuctl.reading.pool_rows import PoolState
from gpuctl.usecases.looking import reader_of
from gpuctl.usecases.node_queries import list_pools
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.mirrored_session import MirroredSession


@dataclass(frozen=True)
class Fleet:
    """The pools at one moment, ``default`` last, and their nodes by name.

    It is everybody's: the pods on the nodes, and their names, are not for all who ask.
    """

    version: int = -1
    pools: Sequence[PoolState] = ()
    nodes: Mapping[str, NodeState] = field(default_factory=dict)


class FleetBoard:
    """Has the fleet worked out when somebody asks for it."""

    def __init__(self, connection: Connection, mirror: Mirror, platform: Settings) -> None:
        self._connection = connection
        self._mirror = mirror
        self._platform = platform
        self._lock = threading.Lock()
        self._fleet = Fleet()

    def now(self) -> Fleet:
        """The fleet, not older than the question."""
        asked = self._mirror.version
        if self._fleet.version >= asked:
            return self._fleet
        with self._lock:
            # Whoever waited for another's takes it, if that one began after the question.
            if self._fleet.version < asked:
                self._fleet = self._made(self._mirror.version)
            return self._fleet

    def _made(self, version: int) -> Fleet:
        session = MirroredSession(self._connection, self._mirror)
        try:
            pools = list_pools(reader_of(session, self._platform))
        finally:
            session.close()
        nodes = sorted((node for pool in pools for node in pool.nodes), key=lambda node: node.name)
        return Fleet(version, pools, {node.name: node for node in nodes})
