"""Prometheus metrics of a collector: its own state, and the current holdings and capacities.

Joined with the holdings, exporters' metrics of pods can be shown by workload, team and namespace without
kube-state-metrics.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuctl_usage.collector_health import CollectorHealth

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOT_COLLECTING = (
    b"# HELP gpuctl_usage_collecting 1 if all events are received and written.\n"
    b"# TYPE gpuctl_usage_collecting gauge\ngpuctl_usage_collecting 0.0\n"
)
"""Metrics to serve when no collector is running."""
_POD = ("cluster", "node", "model", "namespace", "pod", "workload_kind", "workload")
_NODE = ("cluster", "node", "model", "state")
_UNNAMED = re.compile(r"[^a-zA-Z0-9_]")


def metrics_of(health: CollectorHealth, namespaces: Collection[str] | None = None) -> bytes:
    """Return the metrics in Prometheus' text format 0.0.4.

    :param namespaces: namespaces whose pods are included; None for all. If empty, nodes are left out as well.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_CollectorMetrics(health))
    if namespaces is None or namespaces:
        registry.register(_HoldingMetrics(health, namespaces))
    return generate_latest(registry)


class _CollectorMetrics(Collector):
    """Metrics of the collector's state. Unknown values are left out."""

    def __init__(self, health: CollectorHealth) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        health, last = self._health, self._health.last_hour
        until = health.rolled_until
        gauges: dict[str, tuple[str, float | None]] = {
            "collecting": ("1 if all events are received and written.", float(health.is_collecting)),
            "known_until_timestamp_seconds": ("Time until which the stored holdings are complete.", health.known_until),
            "last_write_timestamp_seconds": ("Time of the last write.", health.written_at),
            "database_bytes": ("Size of the database.", health.database_bytes),
            "rolled_up_until_timestamp_seconds": ("End of the last hour before which no hour is missing.", until),
            "rollup_lag_seconds": (
                "Seconds since rolled_up_until_timestamp_seconds; up to an hour and a half minute are normal.",
                None if until is None else max(0.0, health.now() - until),
            ),
            "open_ledgers": (
                "Hours of the last day with contradicting sums.",
                sum(1 for hour in health.hours.values() if hour.open),
            ),
        }
        if last is not None:
            gauges |= {
                "last_hour_timestamp_seconds": ("Start of the last complete hour that was rolled up.", last.start),
                "last_hour_coverage_ratio": ("Measured part of the held GPU time in that hour, 0 to 1.", last.coverage),
                "last_hour_samples": ("Measurements in that hour.", last.samples),
                "last_hour_dropped_samples": (
                    "Measurements left out in that hour because their pod held no GPU on the node.",
                    last.dropped,
                ),
            }
        for name, (text, value) in gauges.items():
            if value is not None:
                yield self._told(GaugeMetricFamily(f"gpuctl_usage_{name}", text, labels=["cluster"]), value)
        counters = {
            "samples": ("Measurements read for snapshots.", health.samples),
            "unanswered_queries": ("Prometheus queries that failed.", health.unanswered),
            "write_failures": ("Failed writes to the database.", health.write_failures),
        }
        for name, (text, count) in counters.items():
            yield self._told(CounterMetricFamily(f"gpuctl_usage_{name}", text, labels=["cluster"]), count)
        restarts = CounterMetricFamily(
            "gpuctl_usage_watch_restarts", "Watches that were restarted.", labels=["cluster", "kind"]
        )
        for kind, count in health.restarts.items():
            restarts.add_metric([_text(health.cluster), kind], count)
        yield restarts

    def _told(self, family: GaugeMetricFamily | CounterMetricFamily, value: float) -> Metric:
        family.add_metric([_text(self._health.cluster)], value)
        return family


class _HoldingMetrics(Collector):
    """Metrics of holdings and capacities."""

    def __init__(self, health: CollectorHealth, namespaces: Collection[str] | None) -> None:
        self._health = health
        self._namespaces = namespaces

    def collect(self) -> Iterator[Metric]:
        cluster, seen = _text(self._health.cluster), self._namespaces
        holdings = [item for item in self._health.holdings if seen is None or item.namespace in seen]
        # Two label keys may have the same metric label name: the first key wins.
        keys = {label_name(key): key for key in sorted({key for item in holdings for key in item.labels}, reverse=True)}
        pods = GaugeMetricFamily("gpuctl_usage_pod_gpus", "GPUs that a pod holds.", labels=[*_POD, *sorted(keys)])
        for item in holdings:
            workload = item.workload
            own = (item.node, item.model, item.namespace, item.pod, workload.kind, workload.name)
            values = (*own, *(item.labels.get(keys[name], "") for name in sorted(keys)))
            pods.add_metric([cluster, *map(_text, values)], item.gpus)
        yield pods
        nodes = GaugeMetricFamily("gpuctl_usage_node_gpus", "GPUs of a node, by its state.", labels=_NODE)
        for there in self._health.capacities:
            nodes.add_metric([cluster, *map(_text, (there.node, there.model, there.state.value))], there.gpus)
        yield nodes


def label_name(key: str) -> str:
    """Return the Prometheus label name of a Kubernetes label key, in the form of kube-state-metrics."""
    return f"label_{_UNNAMED.sub('_', key)}"


def _text(value: str) -> str:
    """Replace what cannot be encoded as UTF-8: labels may contain any text."""
    return value.encode("utf-8", "replace").decode("utf-8")
