"""Connections of a collector: the cluster, the database and Prometheus, as configured."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import NamedTuple

from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.cluster_identity import read_cluster_uid
from gpuctl.kube.configuration import connect
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.usecases.documents.compiling import read_platform
from gpuctl_usage.answers.name_answers import cluster_of
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.facts import SharedGpuMetrics
from gpuctl_usage.gathering.gpu_samples import GpuSamples
from gpuctl_usage.hour_scheduling import HourRoller
from gpuctl_usage.prometheus import Prometheus
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.usage_settings import UsageSettings

LOG = logging.getLogger("gpuctl_usage")
_LARGEST = 16 * 2**20
"""Maximum size of a Prometheus response, in bytes. Its values take six times as much memory."""


class CannotCollect(Exception):
    """The collector cannot start with this configuration; ``str()`` is the message for the user."""


class CollectorContext(NamedTuple):
    """Connections of a collector.

    :param samples: None if no Prometheus is configured.
    """

    session: Session
    platform: Settings
    database: Database
    cluster: int
    samples: GpuSamples | None
    health: CollectorHealth


def open_context(
    settings: UsageSettings,
    stopping: threading.Event,
    health: CollectorHealth | None = None,
    *,
    renames: bool = True,
) -> CollectorContext:
    """Connect to the cluster, the database and Prometheus.

    :param renames: the context gives the cluster its name, even if it has another one in the database.
    :raises CannotCollect: a setting is missing, or the cluster or the database cannot be used.
    """
    if settings.usage_database is None:
        raise CannotCollect(
            "no database is set: set `usage_database` (GPUCTL_SERVER_USAGE_DATABASE) to a file, or use --database"
        )
    try:
        platform = read_platform(settings.platform).settings
        connection = connect(kubeconfig=settings.kubeconfig, context=settings.context)
        session = Session(connection, alone=True)
        uid = read_cluster_uid(session)
    except InvalidDocuments as error:
        raise CannotCollect(f"the platform's settings have errors:\n{error}") from None
    except ClusterError as error:
        raise cannot_collect(error) from None
    if not uid:
        raise CannotCollect("the cluster has no namespace kube-system, whose uid identifies it")
    try:
        database = open_database(settings.usage_database)
        collected = None if renames else cluster_of(database, uid)
        name = settings.usage_cluster or (collected and collected.name) or connection.context or "default"
        cluster = database.put_cluster(uid, name)
        known_as = database.cluster_name(cluster)
    except DatabaseProblem as error:
        raise CannotCollect(str(error)) from None
    health = health or CollectorHealth()
    health.cluster = known_as
    if known_as != name:
        said = "another cluster has this name; set `usage_cluster` to a unique name"
        LOG.warning(said, extra={"cluster": name, "calledInstead": known_as})
    samples = None
    if settings.prometheus is not None:
        prometheus = Prometheus(settings.prometheus, settings.prometheus_token, largest=_LARGEST)
        # HAMi and Volcano divide cards by size, not by time: the size of a share is known, so the card's utilization
        # applies.
        shared = (
            SharedGpuMetrics(settings.usage_shared_cards) if platform.sharing == "none" else SharedGpuMetrics.COPIES
        )
        samples = GpuSamples(prometheus, partial(_continue_collecting, stopping, health), shared)
    return CollectorContext(session, platform, database, cluster, samples, health)


def _continue_collecting(stopping: threading.Event, health: CollectorHealth) -> bool:
    # An hour of a large cluster takes many queries of up to a minute each.
    health.loop_ran()
    return not stopping.is_set()


def hour_roller(site: CollectorContext, settings: UsageSettings) -> HourRoller:
    """Return the rollup of the cluster's hours."""
    interval, keys = settings.usage_scrape_interval, settings.usage_keys
    return HourRoller(site.database, site.cluster, site.samples, interval, keys, site.health)


def cannot_collect(error: ClusterError) -> CannotCollect:
    """Return the error of the cluster as a CannotCollect."""
    return CannotCollect(error.message + (f"\n  = {error.hint}" if error.hint else ""))
