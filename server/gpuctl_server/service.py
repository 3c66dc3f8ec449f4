"""What all routes share: the cluster, the platform, the mirror of the cluster, and who may what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpuctl.apply.state.records import Records, records
from gpuctl.backend.api_resources import WORKLOADS
from gpuctl.kube.connection import Connection
from gpuctl.kube.reflector import Watched
from gpuctl.kube.session import Session
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.settings import Settings
from gpuctl.usecases.looking import Reader, reader_of
from gpuctl_server.access.caller import Authenticator, Caller
from gpuctl_server.logs.log_hub import LogHub
from gpuctl_server.measures import Measures
from gpuctl_server.mirror.job_board import JobBoard
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.mirrored_session import MirroredSession
from gpuctl_server.settings import ServerSettings


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
    measures: Measures
    logs: LogHub

    @property
    def namespace(self) -> str:
        """The namespace of jobs that name none."""
        return self.settings.namespace or self.connection.namespace

    @contextmanager
    def looking(self, caller: Caller | None, namespace: str | None = None) -> Iterator[Reader]:
        """A look at what the mirror has, and where it has not at the cluster, narrowed to what somebody may see.

        :param caller: None for a look at everything, of which nothing may get out that is not theirs.
        """
        session = MirroredSession(self.connection, self.mirror, None if caller is None else caller.sees)
        try:
            yield reader_of(session, self.platform, namespace)
        finally:
            session.close()

    @contextmanager
    def asking(self, caller: Caller) -> Iterator[Session]:
        """A session that asks the API server itself, for what is written and for what rests on the very moment."""
        connection = caller.connection(self.connection)
        session = Session(connection, alone=connection is not self.connection)
        try:
            yield session
        finally:
            session.close()

    def start(self) -> None:
        """Begin to follow the cluster."""
        self.mirror.start()
        self.board.start()

    def stop(self) -> None:
        """Let go of everything."""
        self.board.stop()
        self.mirror.stop()
        self.connection.close()


def followed(keys: Records) -> list[Watched]:
    """What the mirror has. Of other people's objects only what takes room: pods, nodes, quotas."""
    ours = (*WORKLOADS, "Service", "HorizontalPodAutoscaler")
    return [
        Watched("Pod", None),
        Watched("Node", None),
        *(Watched(kind, None, keys.job_type) for kind in ours),
        Watched("ResourceQuota", None),
        Watched("LimitRange", None),
        Watched("Namespace", None),
        Watched("ConfigMap", SYSTEM_NAMESPACE, keys.pool),
        Watched("Event", None, fields="reason=FailedCreate"),
    ]


def make_service(
    settings: ServerSettings, connection: Connection, platform: Settings, authenticator: Authenticator
) -> Service:
    """A service that does not yet follow the cluster."""
    keys = records(platform)
    # Each list is followed by a request of its own, for as long as the service lives.
    mirror = Mirror(Session(connection, threads=1), followed(keys))
    board = JobBoard(connection, mirror, platform)
    logs = LogHub(connection, platform, settings)
    return Service(settings, connection, platform, keys, authenticator, mirror, board, Measures(mirror), logs)
