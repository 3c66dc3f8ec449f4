"""The state that all routes share: connection, platform, mirror, caches and limits."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from anyio import CapacityLimiter

from gpuctl.frontend.source import Source
from gpuctl.kube.connection import Connection
from gpuctl.kube.reflector import WatchedList
from gpuctl.kube.selector_parsing import LabelSelector
from gpuctl.kube.session import Session
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import DEVICE_KINDS, QUEUE_KINDS, WORKLOADS, Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.reading.nodes.node_rows import pool_name
from gpuctl.usecases.documents.compiling import platform_source
from gpuctl.usecases.queries.read_context import ReadContext, context_of
from gpuctl_server.access.caller import Authenticator, Caller
from gpuctl_server.access.label_keys import LabelKeys
from gpuctl_server.access.oidc_login import CodeFlow
from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.audit import AuditMemory
from gpuctl_server.cluster_name import cluster_name
from gpuctl_server.collector_supervisor import CollectorSupervisor
from gpuctl_server.console.sessions import CALLBACK, Sessions
from gpuctl_server.limits.change_slots import ChangeSlots
from gpuctl_server.limits.compile_limits import CompileLocks
from gpuctl_server.limits.response_cache import ResponseCache
from gpuctl_server.limits.shared_answers import SharedAnswers
from gpuctl_server.logs.log_hub import LogHub
from gpuctl_server.mirror.field_selectors import FieldSelector
from gpuctl_server.mirror.fleet_board import FleetBoard
from gpuctl_server.mirror.job_board import JobBoard
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.mirrored_session import mirrored
from gpuctl_server.mirror.object_redaction import ObjectRedactor
from gpuctl_server.mirror.progress import ProgressReader
from gpuctl_server.mirror.redacting_session import RedactingSession, ScopedSession
from gpuctl_server.mirror.shared_lists import ListSharingSession, MaxListAge, SharedLists
from gpuctl_server.mirror.visibility import Visibility
from gpuctl_server.notifications.notifier import Notifier
from gpuctl_server.notifications.webhooks import Webhooks
from gpuctl_server.prerequisite_loop import PrerequisiteLoop
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.service_metrics import ServiceMetrics
from gpuctl_server.usage_connection import UsageConnection
from gpuctl_usage.prometheus import Prometheus

MIRROR_TIMEOUT = 2.0
"""Maximum wait of a write for the mirror, seconds."""
ANSWER_AGE = 5.0
"""Maximum age of an answer from memory, seconds."""
READS = 16
"""Threads for answers from memory. Requests to the API server use other threads, and may block all of these while the
API server is slow.
"""
SIMULATIONS = 2
"""Maximum number of concurrent simulations (plans and fits). Each holds all pods of the cluster and uses a CPU, so more
of them would not be faster.
"""
LONG_LOGS = 8
"""Maximum number of concurrent answers with long logs. Each needs up to 45 MB while it is made."""
WAITS = 16
"""Maximum number of requests that wait for jobs. Each has its own watches and a thread."""


@dataclass(frozen=True)
class Service:
    """The service of one cluster. ``platform`` are the settings of the platform, ``keys`` its labels and
    annotations."""

    settings: ServerSettings
    connection: Connection
    platform: Settings
    keys: Records
    authenticator: Authenticator
    mirror: Mirror
    board: JobBoard
    metrics: ServiceMetrics
    fleet: FleetBoard
    progress: ProgressReader
    logs: LogHub
    prometheus: Prometheus | None
    usage: UsageConnection
    collector: CollectorSupervisor | None
    sessions: Sessions
    prerequisites: PrerequisiteLoop
    notifier: Notifier
    code_flow: CodeFlow | None
    shared_lists: SharedLists
    simulations: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(SIMULATIONS))
    long_logs: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(LONG_LOGS))
    compile_locks: CompileLocks = field(default_factory=CompileLocks)
    change_slots: ChangeSlots = field(default_factory=ChangeSlots)
    audit: AuditMemory = field(default_factory=AuditMemory)
    response_cache: ResponseCache = field(default_factory=ResponseCache)
    shared_answers: SharedAnswers = field(default_factory=SharedAnswers)
    reads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(READS))
    waits: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(WAITS))

    @property
    def namespace(self) -> str:
        """Namespace of jobs that name none."""
        return self.settings.namespace or self.connection.namespace

    @property
    def clock_ahead(self) -> float:
        """The seconds by which the clock of the API server, which sets the times of objects, is ahead of the local one;
        0 before its first response. No request is sent."""
        return self.connection.transport.clock_ahead() or 0.0

    def server_time(self) -> float:
        """Return the time by the clock of the API server, seconds since 1970. See :attr:`clock_ahead`."""
        return time.time() + self.clock_ahead

    @cached_property
    def label_keys(self) -> LabelKeys:
        """The node labels that may be set."""
        return LabelKeys(self.platform, self.settings.kubernetes_labels, self.settings.label_keys)

    @cached_property
    def platform_source(self) -> Source:
        """The platform as a document. All documents are compiled with the platform that the service was started
        with."""
        return platform_source(self.platform)

    def cache_version(self) -> tuple[float, ...]:
        """Return a value that changes whenever an answer from memory may change.

        It also changes at intervals, because progress and metrics come from other sources than the mirror.
        """
        beside = self.mirror.changes_of("Service", "HorizontalPodAutoscaler")
        return self.board.now().version, beside, self.progress.version, time.monotonic() // ANSWER_AGE

    def read_context(
        self, caller: Caller | None, namespace: str | None = None
    ) -> contextlib.AbstractContextManager[ReadContext]:
        """Open a context that reads from the mirror, or from the API server if the mirror does not have a list.

        :param caller: limits the objects to those that the caller may see; None: all, for internal use.
        """
        visibility = None if caller is None else self.visibility(caller)
        return mirrored(self.connection, self.mirror, self.platform, visibility, namespace)

    def queue_context(self, caller: Caller) -> contextlib.AbstractContextManager[ReadContext]:
        """Open a context like :meth:`read_context` for queues, in which all jobs count.

        Jobs that the caller of a token may not see have hidden names. A user of the cluster could not count them with
        Kubernetes' API either: they are left out.
        """
        visibility = self.visibility(caller)
        if caller.connection(self.connection) is not self.connection:
            return mirrored(self.connection, self.mirror, self.platform, visibility)
        redactor = ObjectRedactor(visibility, self.hidden_nodes(caller))
        return mirrored(self.connection, self.mirror, self.platform, visibility, redactor=redactor)

    def visibility(self, caller: Caller) -> Visibility:
        """Return what a caller may see."""
        return Visibility(caller.sees, caller.pools, self.keys.pool)

    def hidden_nodes(self, caller: Caller) -> frozenset[str]:
        """Return the nodes of pools that a caller may not see."""
        if caller.pools is None:
            return frozenset()
        everything = LabelSelector(""), FieldSelector("")
        if not self.mirror.covers("Node", None, *everything):
            return frozenset(node.name for node in self.fleet.now().nodes.values() if node.pool not in caller.pools)
        # Not from the fleet: counting GPUs may need a request for DeviceClasses.
        nodes = self.mirror.select("Node", None, *everything)
        return frozenset(node["metadata"]["name"] for node in nodes if pool_name(node, self.keys) not in caller.pools)

    @contextlib.contextmanager
    def simulation_context(
        self, caller: Caller, namespace: str | None = None, max_age: MaxListAge | None = None
    ) -> Iterator[ReadContext]:
        """Open a context that reads all objects from the API server, with hidden names for those that the caller may
        not see.

        :param max_age: maximum age of the lists of all pods and nodes.
        """
        connection = caller.connection(self.connection)
        hidden = self.hidden_nodes(caller)
        alone = connection is not self.connection
        session = RedactingSession(connection, self.visibility(caller), hidden, alone=alone)
        if not alone:
            session.share(self.shared_lists, max_age)
        with contextlib.closing(session):
            yield context_of(session, self.platform, namespace)

    @contextlib.contextmanager
    def live_session(
        self, caller: Caller, max_age: MaxListAge | None = None, *, dry_run: bool = False
    ) -> Iterator[Session]:
        """Open a session with the API server, for writes and for reads that must be current.

        Jobs and nodes of pools that the caller may not use are left out.

        :param max_age: maximum age of the lists of all pods and nodes.
        :param dry_run: let the API server check writes, and store nothing.
        """
        connection = caller.connection(self.connection)
        alone = connection is not self.connection
        session: ListSharingSession
        if caller.pools is None:
            session = ListSharingSession(connection, alone=alone, dry_run=dry_run)
        else:
            hidden = self.hidden_nodes(caller)
            # Namespaces are not limited here: rights in namespaces are checked by the documents and names of a request.
            # A change also reads objects of other namespaces, such as definitions of pools.
            visibility = Visibility(lambda namespace: True, caller.pools, self.keys.pool)
            session = ScopedSession(connection, visibility, hidden, alone=alone, dry_run=dry_run)
        session.caller = caller.name
        if not alone:
            session.share(self.shared_lists, max_age)
        with contextlib.closing(session):
            yield session

    def wait_until_seen(self, written: Iterable[Object], gone: Iterable[Key] = ()) -> None:
        """Wait until the mirror has the written objects, so that a client reads its own write, but not too long.

        :param written: the objects as the API server returned them.
        :param gone: the deleted objects.
        """
        end = time.monotonic() + MIRROR_TIMEOUT
        for obj in written:
            key, left = key_of(obj), max(0.0, end - time.monotonic())
            self.mirror.wait_for(key.kind, key, str(obj["metadata"].get("resourceVersion") or ""), left)
        kinds, version = dict(self.mirror.kinds()), self.mirror.version
        absent = [key for key in gone if key.kind in kinds]
        while any(self.mirror.find(key) for key in absent) and time.monotonic() < end:
            version = self.mirror.wait_until_changed(version, end - time.monotonic())
        self.fleet.require(self.mirror.version)

    def start(self) -> None:
        """Start watching the cluster."""
        self.mirror.start()
        self.board.start()
        self.prerequisites.start()
        self.notifier.start()
        if self.collector is not None:
            self.collector.start()

    def stop(self) -> None:
        """Stop all threads and close all connections."""
        if self.collector is not None:
            self.collector.stop()
        self.notifier.stop()
        self.prerequisites.stop()
        self.board.stop()
        self.mirror.stop()
        self.progress.stop()
        self.usage.close()
        self.connection.close()


def watched_lists(keys: Records) -> list[WatchedList]:
    """Return the lists that the mirror watches: gpuctl's objects, and other pods, nodes, quotas, devices and queues."""
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
        *(WatchedList(kind, None, is_needed=False) for kind in (*DEVICE_KINDS, *QUEUE_KINDS)),
    ]


def make_service(
    settings: ServerSettings, connection: Connection, platform: Settings, authenticator: Authenticator
) -> Service:
    """Return a service that has not been started."""
    keys = records(platform)
    # One thread: each list is watched by its own request for the lifetime of the service.
    mirror = Mirror(ListSharingSession(connection, threads=1), watched_lists(keys), again=settings.mirror_again)
    board = JobBoard(connection, mirror, platform)
    fleet = FleetBoard(connection, mirror, platform)
    metrics = ServiceMetrics(mirror, authenticator if isinstance(authenticator, ServiceTokenFile) else None)
    webhooks, lists = Webhooks(platform.notify.channels, settings.notify_secrets), SharedLists()
    return Service(
        settings,
        connection,
        platform,
        keys,
        authenticator,
        mirror,
        board,
        metrics,
        fleet,
        ProgressReader(connection),
        LogHub(connection, platform, settings),
        Prometheus(settings.prometheus, settings.prometheus_token) if settings.prometheus else None,
        UsageConnection(settings.usage_database),
        CollectorSupervisor(settings) if settings.usage else None,
        # With `insecure_plain_http`, TLS ends in front of the service: browsers use HTTPS then, too.
        Sessions(secure=settings.tls_certificate is not None or settings.insecure_plain_http),
        PrerequisiteLoop(connection, mirror, keys),
        Notifier(
            connection,
            board,
            platform,
            webhooks,
            lists,
            metrics.notifications,
            partial(cluster_name, platform, settings.cluster, connection, mirror),
            settings.console_url,
        ),
        _code_flow(settings),
        lists,
    )


def _code_flow(settings: ServerSettings) -> CodeFlow | None:
    """Return the client of the provider that logs users of the console in; None if they enter tokens."""
    if settings.auth != "oidc" or settings.console_url is None:
        return None
    redirect = f"{settings.console_url.rstrip('/')}{CALLBACK}"
    issuer, client = str(settings.oidc_issuer), str(settings.oidc_audience)
    return CodeFlow(issuer, client, redirect, settings.oidc_scopes, settings.oidc_client_secret)
