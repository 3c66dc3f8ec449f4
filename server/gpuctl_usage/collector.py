"""The collector: watches a cluster, stores which pods hold its GPUs, and rolls up hours and days.

It may be killed at any moment. Its state is in the database, each change in one transaction; after a restart it
continues from there. Objects that are gone by then count until they were last seen.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.collector_context import CannotCollect, CollectorContext, cannot_collect, hour_roller, open_context
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import (
    AllocationSnapshot,
    Capacity,
    EndReason,
    GpuQuota,
    GpuSeries,
    Holding,
    RetentionDays,
)
from gpuctl_usage.gathering.claimed_devices import ClaimedDevices
from gpuctl_usage.gathering.cluster_events import ClusterEvent, ClusterEvents, quota_kinds
from gpuctl_usage.gathering.current_allocation import take_snapshot
from gpuctl_usage.gathering.gpu_samples import PodPlace
from gpuctl_usage.gathering.gpu_weights import UNSIZED_DEVICES, GpuWeights
from gpuctl_usage.gathering.object_facts import FactMaker, NamespaceFacts, NodeFacts, PodFacts
from gpuctl_usage.gathering.open_intervals import OpenIntervals
from gpuctl_usage.gathering.open_quotas import OpenQuotas
from gpuctl_usage.gathering.owners import Owners
from gpuctl_usage.gathering.server_clock import ServerClock
from gpuctl_usage.hour_scheduling import LOG, hour_of
from gpuctl_usage.leader_election import hold_leadership
from gpuctl_usage.prometheus import PrometheusProblem
from gpuctl_usage.rollup.hour import reach
from gpuctl_usage.rollup.shared_card_values import mark_process_metrics
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.store.leases import LeaseLost
from gpuctl_usage.usage_settings import UsageSettings

SNAPSHOT_INTERVAL = 300
"""Seconds between snapshots."""
_PRUNE_EVERY = HOUR
"""Seconds between prunings. Each pruning deletes in small pieces, so that events are handled in between."""
_WRITE_EVERY = 1.0
_MARK_SEEN_EVERY = 10.0
"""Seconds after which ``last_seen`` is written although nothing has changed."""
_CHECK_HOURS_EVERY = 2.0
"""Seconds between checks for hours and days that are due."""
_CLOCK_TOLERANCE = 60.0
"""Seconds by which the API server's clock may be set back without a message."""
_MAX_PENDING_SNAPSHOTS = 288
"""Maximum number of snapshots (one day) kept in memory while the database is unavailable. Holdings are kept without a
limit.
"""
_OPTIONAL_KINDS = frozenset({"Namespace", "ResourceQuota", "ClusterQueue"})
"""Kinds that the collector may be unable to read; without them, labels of namespaces or quotas are missing."""


def collect(settings: UsageSettings, stopping: threading.Event, health: CollectorHealth | None = None) -> None:
    """Collect until ``stopping`` is set.

    :param health: updated with the state of the collector.
    :raises CannotCollect: the cluster, the database or a setting cannot be used.
    """
    site = open_context(settings, stopping, health)
    try:
        while not stopping.is_set():
            with hold_leadership(site.database, site.cluster, stopping, site.health.loop_ran) as database:
                if database is not None:
                    _collect(site._replace(database=database), settings, stopping)
    except ClusterError as error:
        raise cannot_collect(error) from None
    except DatabaseProblem as error:
        raise CannotCollect(str(error)) from None
    finally:
        site.session.close()
        site.database.close()


def _collect(site: CollectorContext, settings: UsageSettings, stopping: threading.Event) -> None:
    try:
        Collector(site, settings, stopping).run()
    except LeaseLost:
        LOG.warning("another collector has taken over; waiting")


class Collector:
    """Collects one cluster. All work except watching is done in the thread that calls :meth:`run`."""

    def __init__(self, site: CollectorContext, settings: UsageSettings, stopping: threading.Event) -> None:
        self._site = site
        self._stopping = stopping
        weights = GpuWeights(site.platform)
        maker = FactMaker(settings.usage_keys, weights)
        self._hours, self._days = hour_roller(site, settings), DayRoller(site.database, site.cluster)
        self._clock = ServerClock(site.session)
        quotas = quota_kinds(site.platform)
        self._events = ClusterEvents(site.session, self._clock, maker, quotas)
        self._owners = Owners(site.session, maker)
        self._claims = ClaimedDevices(site.session, weights)
        self._intervals = OpenIntervals(weights, site.database.last_seen(site.cluster))
        self._open_quotas = OpenQuotas(weights, site.database.quotas_seen(site.cluster), quotas)
        self._listed: set[str] = set()
        self._waiting: dict[str, tuple[PodFacts, float]] = {}
        self._holdings: dict[tuple[str, float], Holding] = {}
        self._capacities: dict[tuple[str, float], Capacity] = {}
        self._quotas: dict[tuple[str, float], GpuQuota] = {}
        self._snapshots: deque[AllocationSnapshot] = deque(maxlen=_MAX_PENDING_SNAPSHOTS)
        self._times = dict.fromkeys(("write", "seen", "look", "snapshot", "prune"), 0.0)
        self._kept = RetentionDays(
            settings.usage_kept_details,
            settings.usage_kept_snapshots,
            settings.usage_kept_hours,
            settings.usage_kept_days,
        )
        self._pruning = False
        self._unsized: set[str] = set()
        self._reach = reach(settings.usage_scrape_interval)
        self._late: float | None = None
        self._began: float | None = None
        self._health = site.health
        self._health.now = self._clock.now

    def run(self) -> None:
        """Collect until ``stopping`` is set."""
        database, cluster = self._site.database, self._site.cluster
        self._clock.compare()
        self._hours.begin(self._clock.now())
        self._days.begin(self._clock.now())
        self._intervals.restore(
            database.open_holdings(cluster), database.open_capacities(cluster), database.capacity_ends(cluster)
        )
        self._open_quotas.restore(database.open_quotas(cluster))
        self._read_devices()
        LOG.info("collecting usage", extra={"database": database.name, "server": self._site.session.server})
        self._events.start()
        try:
            while not self._stopping.is_set():
                self._run_once()
        finally:
            self._events.stop()
            self._write()
            LOG.info("stopped collecting usage")

    @property
    def _ready(self) -> bool:
        return self._listed.issuperset(self._events.kinds)

    def _run_once(self) -> None:
        self._health.loop_ran()
        event = self._events.next(0.5)
        if event is not None:
            self._handle(event)
        if self._is_due("write", _WRITE_EVERY):
            self._write()
        if not self._ready or self._stopping.is_set():
            return
        now = self._clock.now()
        if now >= self._times["snapshot"]:
            self._times["snapshot"] = (now // SNAPSHOT_INTERVAL + 1) * SNAPSHOT_INTERVAL
            self._guarded(lambda: self._take_snapshot(now))
        elif self._is_due("look", _CHECK_HOURS_EVERY):
            self._guarded(lambda: self._roll_due(now))
        elif self._pruning or self._is_due("prune", _PRUNE_EVERY):
            self._guarded(lambda: self._prune(now))

    def _is_due(self, what: str, after: float) -> bool:
        now = time.monotonic()
        if now < self._times[what] + after:
            return False
        self._times[what] = now
        return True

    def _roll_due(self, now: float) -> None:
        hour = self._hours.due(now)
        if hour is not None:
            self._roll(hour, now)
        elif (day := self._days.due(now)) is not None:
            self._days.roll(day)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except DatabaseProblem as error:
            self._report_write_failure(str(error))

    def _handle(self, event: ClusterEvent) -> None:
        facts, at = event.facts, event.at
        if event.type in ("REFUSED", "ODD"):
            message = "a kind cannot be listed" if event.type == "REFUSED" else "an invalid object is skipped"
            LOG.error(message, extra={"kind": event.kind, "problem": event.text})
        self._open_quotas.handle(event)
        if event.type == "LISTED" or (event.type == "REFUSED" and event.kind in _OPTIONAL_KINDS):
            self._mark_listed(event.kind, at)
        elif isinstance(facts, NamespaceFacts) and event.type == "PUT":
            self._intervals.put_namespace(facts, at)
        elif isinstance(facts, NodeFacts):
            self._handle_node(facts, event)
        elif isinstance(facts, PodFacts):
            self._handle_pod(facts, event)

    def _handle_node(self, facts: NodeFacts, event: ClusterEvent) -> None:
        if event.type == "PUT":
            self._intervals.put_node(facts, event.at)
        elif event.missed is None:
            self._intervals.drop_node(facts.name, event.at, EndReason.DELETED)
        else:
            self._intervals.drop_node(facts.name, event.missed, EndReason.LAST_SEEN)

    def _handle_pod(self, facts: PodFacts, event: ClusterEvent) -> None:
        if facts.claims:
            facts = self._claims.with_devices(facts)
            if event.type == "GONE":
                self._claims.forget(facts)
        if event.type == "PUT" and not self._ready:
            # Wait until all kinds are listed: the labels of namespaces are unknown before.
            self._waiting[facts.uid] = (facts, event.at)
        elif event.type == "PUT":
            self._intervals.put_pod(facts, self._owners.of(facts), event.at)
        elif self._waiting.pop(facts.uid, None) is None:
            if event.missed is None:
                self._intervals.drop_pod(facts.uid, event.at, EndReason.DELETED, facts)
            else:
                self._intervals.drop_pod(facts.uid, event.missed, EndReason.LAST_SEEN, facts)

    def _mark_listed(self, kind: str, at: float) -> None:
        if kind in self._listed:
            return
        self._listed.add(kind)
        if not self._ready:
            return
        self._intervals.restore_ended(self._site.database.holding_ends(self._site.cluster, list(self._waiting)))
        # In the order in which they began to hold GPUs, as a node's capacity may follow from what its pods hold.
        for facts, heard_at in sorted(self._waiting.values(), key=lambda item: item[0].scheduled or item[0].created):
            self._intervals.put_pod(facts, self._owners.of(facts), heard_at)
        self._waiting.clear()
        self._intervals.all_listed(at)
        # Prometheus accepts times in whole milliseconds.
        self._began = math.ceil(at * 1000) / 1000
        self._health.listed = True
        self._publish_holdings()
        LOG.info("all kinds are listed", extra={"holding": len(self._intervals.open_holdings())})

    def _write(self) -> None:
        """Write all changes, and the time until which they are complete, taken before the queue is emptied."""
        known = self._events.known_until() if self._ready else None
        quotas_known = self._events.quotas_known_until()
        while (event := self._events.next(0)) is not None:
            self._handle(event)
        changes = self._intervals.take()
        self._holdings |= {(item.pod_uid, item.start): item for item in changes.holdings}
        self._capacities |= {(item.node, item.start): item for item in changes.capacities}
        self._quotas |= {(item.namespace, item.start): item for item in self._open_quotas.take()}
        if changes.since is not None:
            now = self._clock.now()
            self._hours.late(changes.since, now)
            if changes.since < hour_of(now):
                # Stored with the late changes, so that the next collector also rolls up these hours again.
                self._late = changes.since if self._late is None else min(self._late, changes.since)
        # Write nothing before all kinds are listed: only complete lists show which restored objects are gone.
        changed = self._holdings or self._capacities or self._quotas
        if known is None or not (changed or self._is_due("seen", _MARK_SEEN_EVERY)):
            return
        try:
            self._write_changes(known, quotas_known)
        except DatabaseProblem as error:
            self._report_write_failure(str(error))
        else:
            self._times["seen"] = time.monotonic()

    def _write_changes(self, known: float, quotas_known: float | None) -> None:
        changed = bool(self._holdings or self._capacities)
        ends = [item.end for item in self._holdings.values() if item.end is not None]
        known = max([known, *ends])
        self._site.database.put_changes(
            self._site.cluster,
            known,
            holdings=list(self._holdings.values()),
            capacities=list(self._capacities.values()),
            quotas=list(self._quotas.values()),
            snapshots=self._snapshots,
            quotas_seen=quotas_known,
            began=self._began,
            late=self._late,
        )
        self._began = self._late = None
        for written in (self._holdings, self._capacities, self._quotas, self._snapshots):
            written.clear()
        self._health.write_succeeded(known)
        self._health.restarts = self._events.restarts()
        if changed:
            self._publish_holdings()

    def _publish_holdings(self) -> None:
        self._health.holdings = self._intervals.open_holdings()
        self._health.capacities = self._intervals.open_capacities()

    def _take_snapshot(self, now: float) -> None:
        """Take a snapshot; also update the clock, the labels of workloads and the running hour."""
        try:
            behind = self._clock.compare()
            if behind > _CLOCK_TOLERANCE:
                text = "the API server's clock was set back: until it has caught up, all is dated to the latest time"
                LOG.warning(text, extra={"seconds": round(behind)})
        except ClusterError as error:
            LOG.warning("the API server's clock cannot be read", extra={"problem": error.message})
        for facts in self._intervals.open_pods():
            self._intervals.put_belonging(facts.uid, self._owners.of(facts), self._clock.now())
        self._read_devices()
        for facts in self._claims.uncertain_pods():
            self._intervals.put_pod(self._claims.with_devices(facts), self._owners.of(facts), self._clock.now())
        self._log_unsized_pods()
        self._write()
        held, there = self._intervals.open_holdings(), self._intervals.open_capacities()
        # Snapshots are dated to full five minutes; the first one, taken at any time, to the current second.
        moment = (
            now // SNAPSHOT_INTERVAL * SNAPSHOT_INTERVAL
            if now % SNAPSHOT_INTERVAL < SNAPSHOT_INTERVAL / 60
            else float(int(now))
        )
        measured = self._measured(moment, held, there)
        self._snapshots.append(take_snapshot(moment, held, there, measured, self._reach))
        self._times["seen"] = 0.0
        self._write()
        self._health.database_bytes = self._site.database.size()
        if now - hour_of(now) >= 1:
            self._roll(hour_of(now), now)

    def _read_devices(self) -> None:
        """Update the number of GPUs that DRA drivers offer."""
        try:
            self._intervals.put_devices(self._claims.offered(), self._clock.now())
        except ClusterError as error:
            LOG.warning(
                "ResourceSlices cannot be read: free DRA GPUs are not counted", extra={"problem": error.message}
            )

    def _log_unsized_pods(self) -> None:
        """Log each pod whose share of a card has an unknown size, once."""
        pods = {facts.uid: facts for facts in self._intervals.unsized_pods()}
        for facts in (pods[uid] for uid in pods.keys() - self._unsized):
            is_claimed = any(name == UNSIZED_DEVICES for name, _ in facts.gpu_requests)
            LOG.warning(
                "the size of a pod's share of a card is unknown: %s",
                "its claim, or a device of it, is shared or divided"
                if is_claimed
                else "label its node with nvidia.com/gpu.memory (MiB)",
                extra={"pod": f"{facts.namespace}/{facts.name}", "node": facts.node, "asked": dict(facts.gpu_requests)},
            )
        self._unsized = set(pods)

    def _measured(self, moment: float, held: Iterable[Holding], there: Iterable[Capacity]) -> list[GpuSeries]:
        if self._site.samples is None:
            return []
        places = {PodPlace(item.node, item.namespace, item.pod) for item in held}
        try:
            begin, nodes = moment - SNAPSHOT_INTERVAL, {item.node for item in there}
            found = self._site.samples.series(begin, moment, nodes, places)
            found = mark_process_metrics(found, begin, moment, self._site.samples.shared)
        except PrometheusProblem as error:
            self._health.unanswered += 1
            LOG.warning(
                "a snapshot has no utilization: the measurements cannot be read",
                extra={"at": format_timestamp(moment), "problem": str(error)},
            )
            return []
        self._health.samples += sum(len(series.times) for series in found)
        return found

    def _roll(self, hour: int, now: float) -> None:
        if not self._stopping.is_set():
            self._hours.roll(hour, now)
            self._days.touch(hour)

    def _prune(self, now: float) -> None:
        # If the database cannot be pruned now, retry at the next interval.
        self._pruning = False
        self._pruning = self._site.database.prune(self._site.cluster, self._kept, now)

    def _report_write_failure(self, text: str) -> None:
        # Writes are retried every second: log the same problem once.
        if text != self._health.problem:
            LOG.error("usage cannot be written", extra={"problem": text})
        self._health.write_failed(text)
