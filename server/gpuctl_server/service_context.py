"""What all routes share: the cluster, the platform, the mirror of the cluster, and who may what."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from anyio import CapacityLimiter

from gpuctl.frontend.source import Source
from gpuctl.kube.connection import Connection
from gpuctl.kube.reflector import WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import DEVICE_KINDS, WORKLOADS, Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.reading.node_rows import pool_name
from gpuctl.usecases.compiling import platform_source
from gpuctl.usecases.looking import Reader, reader_of
from gpuctl_server.access.caller import Authenticator, Caller
from gpuctl_server.access.label_keys import LabelKeys
from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.audit import AuditMemory
from gpuctl_server.change_slots import ChangeSlots
from gpuctl_server.collector_supervisor import CollectorSupervisor
from gpuctl_server.compile_limits import CompileLocks
from gpuctl_server.logs.log_hub import LogHub
from gpuctl_server.mirror.fleet_board import FleetBoard
from gpuctl_server.mirror.job_board import JobBoard
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.mirrored_session import mirrored
from gpuctl_server.mirror.progress import ProgressBook
from gpuctl_server.mirror.redacting_session import RedactingSession, ScopedSession
from gpuctl_server.mirror.selector_matching import FieldSelector, LabelSelector
from gpuctl_server.mirror.shared_lists import ListSharingSession, MaxListAge, SharedLists
from gpuctl_server.mirror.visibility import Visibility
from gpuctl_server.response_cache import ResponseCache
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.service_metrics import ServiceMetrics
from gpuctl_server.usage_connection import UsageConnection
from gpuctl_usage.prometheus import Prometheus

SEEN_WITHIN = 2.0
"""Seconds: how long the answer to a write waits for the watches to tell of it."""
GLANCE = 5.0
"""Seconds after which an answer out of memory is made again."""
READS = 16
"""Threads for what is answered out of memory. Requests that ask the cluster have others, and may hold all of those for
as long as an API server is slow."""
SIMULATIONS = 2
"""Plans and fits that are worked out at a time: each holds the cluster's pods as the scheduler sees them, and
they compute, so that more would not be done sooner."""
WAITS = 16
"""Requests that may wait for jobs at a time: each follows lists of its own, and holds a thread."""


@dataclass(frozen=True)
class Service:
    """One service for one cluster. ``platform`` and ``keys`` are the platform's."""

    settings: ServerSettings
    connection: Connection
    platform: Settings
    keys: Records
    authenticator: Authenticator
    mirror: Mirror
    board: JobBoard
    metrics: ServiceMetrics
    fleet: FleetBoard
    progress: ProgressBook
    logs: LogHub
    prometheus: Prometheus | None
    usage: UsageConnection
    collector: CollectorSupervisor | None
    shared_lists: SharedLists = field(default_factory=SharedLists)
    simulations: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(SIMULATIONS))
    compile_locks: CompileLocks = field(default_factory=CompileLocks)
    change_slots: ChangeSlots = field(default_factory=ChangeSlots)
    audit: AuditMemory = field(default_factory=AuditMemory)
    response_cache: ResponseCache = field(default_factory=ResponseCache)
    reads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(READS))
    waits: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(WAITS))

    @property
    def namespace(self) -> str:
        """The namespace of jobs that name none."""
        return self.settings.namespace or self.connection.namespace

    @cached_property
    def label_keys(self) -> LabelKeys:
        """Which labels of nodes may be set."""
        return LabelKeys(self.platform, self.settings.kubernetes_labels, self.settings.label_keys)

    @cached_property
    def platform_source(self) -> Source:
        """The platform as a document: what is compiled has the one that the service was started with, and no other."""
        return platform_source(self.platform)

    def cache_version(self) -> tuple[float, ...]:
        """What every answer out of memory rests on: as long as it is the same, so are they.

        Also what is asked elsewhere is asked again from time to time, though nothing of the cluster has changed.
        """
        beside = self.mirror.changes_of("Service", "HorizontalPodAutoscaler")
        return self.board.now().version, beside, self.progress.version, time.monotonic() // GLANCE

    def read_context(
        self, caller: Caller | None, namespace: str | None = None
    ) -> contextlib.AbstractContextManager[Reader]:
        """A look at what the mirror has, and where it has not at the cluster, narrowed to what somebody may see.

        :param caller: None for a look at everything, of which nothing may get out that is not theirs.
        """
        visibility = None if caller is None else self.visibility(caller)
        return mirrored(self.connection, self.mirror, self.platform, visibility, namespace)

    def visibility(self, caller: Caller) -> Visibility:
        """What a caller may see."""
        return Visibility(caller.sees, caller.pools, self.keys.pool)

    def hidden_nodes(self, caller: Caller) -> frozenset[str]:
        """The nodes whose pools a caller may not see."""
        if caller.pools is None:
            return frozenset()
        everything = LabelSelector(""), FieldSelector("")
        if not self.mirror.covers("Node", None, *everything):
            return frozenset(node.name for node in self.fleet.now().nodes.values() if node.pool not in caller.pools)
        # The fleet counts GPUs, for which it may have to ask for DeviceClasses.
        nodes = self.mirror.select("Node", None, *everything)
        return frozenset(node["metadata"]["name"] for node in nodes if pool_name(node, self.keys) not in caller.pools)

    @contextlib.contextmanager
    def simulation_context(
        self, caller: Caller, namespace: str | None = None, max_age: MaxListAge | None = None
    ) -> Iterator[Reader]:
        """A look at the cluster itself, in which what somebody may not see counts, but has no name.

        :param max_age: how old lists of all pods and nodes may be.
        """
        connection = caller.connection(self.connection)
        hidden = self.hidden_nodes(caller)
        alone = connection is not self.connection
        session = RedactingSession(connection, self.visibility(caller), hidden, alone=alone)
        if not alone:
            session.share(self.shared_lists, max_age)
        try:
            yield reader_of(session, self.platform, namespace)
        finally:
            session.close()

    @contextlib.contextmanager
    def live_session(
        self, caller: Caller, max_age: MaxListAge | None = None, *, dry_run: bool = False
    ) -> Iterator[Session]:
        """A session that asks the API server itself, for what is written and for what rests on the very moment.

        Jobs and nodes of pools that are not the caller's are not there.

        :param max_age: how old lists of all pods and nodes may be.
        :param dry_run: the API server checks what is written, and stores nothing.
        """
        connection = caller.connection(self.connection)
        alone = connection is not self.connection
        session: ListSharingSession
        if caller.pools is None:
            session = ListSharingSession(connection, alone=alone, dry_run=dry_run)
        else:
            hidden = self.hidden_nodes(caller)
            # What is done in which namespace is decided by the documents and names of a request; a change reads more,
            # such as definitions of pools.
            visibility = Visibility(lambda namespace: True, caller.pools, self.keys.pool)
            session = ScopedSession(connection, visibility, hidden, alone=alone, dry_run=dry_run)
        session.caller = caller.name
        if not alone:
            session.share(self.shared_lists, max_age)
        try:
            yield session
        finally:
            session.close()

    def wait_until_seen(
        self, written: Iterable[Object], gone: Iterable[Key] = (), timeout: float = SEEN_WITHIN
    ) -> None:
        """Wait until the mirror has what was written, so that whoever wrote it reads it; no longer than a timeout.

        :param written: the objects as the API server returned them.
        :param gone: what was deleted.
        """
        end = time.monotonic() + timeout
        for obj in written:
            key, left = key_of(obj), max(0.0, end - time.monotonic())
            self.mirror.wait_for(key.kind, key, str(obj["metadata"].get("resourceVersion") or ""), left)
        kinds, version = dict(self.mirror.kinds()), self.mirror.version
        absent = [key for key in gone if key.kind in kinds]
        while any(self.mirror.find(key) for key in absent) and time.monotonic() < end:
            version = self.mirror.wait_until_changed(version, end - time.monotonic())
        self.fleet.require(self.mirror.version)

    def start(self) -> None:
        """Begin to follow the cluster."""
        self.mirror.start()
        self.board.start()
        if self.collector is not None:
            self.collector.start()

    def stop(self) -> None:
        """Let go of everything."""
        if self.collector is not None:
            self.collector.stop()
        self.board.stop()
        self.mirror.stop()
        self.progress.stop()
        self.usage.close()
        self.connection.close()


def followed(keys: Records) -> list[WatchedList]:
    """What the mirror has. Of other people's objects only what takes room: pods, nodes, quotas, devices."""
    ours = (*WORKLOADS, "Service", "HorizontalPodAutoscaler")
    return [
        WatchedList("Pod", None),
        WatchedList("Node", None),
        *(WatchedList(kind, None, keys.job_type) for kind in ours),
        WatchedList("ResourceQuota", None),
        WatchedList("LimitRange", None),
        WatchedList("Namespace", None),
        WatchedList("ConfigMap", SYSTEM_NAMESPACE, keys.pool),
        WatchedList("Event", None, fields="reason=FailedCreate"),
        *(WatchedList(kind, None, is_needed=False) for kind in DEVICE_KINDS),
    ]


def make_service(
    settings: ServerSettings, connection: Connection, platform: Settings, authenticator: Authenticator
) -> Service:
    """A service that does not yet follow the cluster."""
    keys = records(platform)
    # Each list is followed by a request of its own, for as long as the service lives.
    mirror = Mirror(Session(connection, threads=1), followed(keys), again=settings.mirror_again)
    board = JobBoard(connection, mirror, platform)
    fleet = FleetBoard(connection, mirror, platform)
    return Service(
        settings,
        connection,
        platform,
        keys,
        authenticator,
        mirror,
        board,
        ServiceMetrics(mirror, authenticator if isinstance(authenticator, ServiceTokenFile) else None),
        fleet,
        ProgressBook(connection),
        LogHub(connection, platform, settings),
        Prometheus(settings.prometheus, settings.prometheus_token) if settings.prometheus else None,
        UsageConnection(settings.usage_database),
        CollectorSupervisor(settings) if settings.usage else None,
    )
