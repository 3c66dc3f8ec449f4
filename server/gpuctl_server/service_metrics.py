"""Metrics of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.mirror.mirror import Mirror

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ServiceMetrics:
    """The metrics. The label `route` has the path of the route, not that of the request, to keep its cardinality
    low."""

    def __init__(self, mirror: Mirror, tokens: ServiceTokenFile | None = None) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "gpuctl_server_requests_total",
            "Requests by method, route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "gpuctl_server_request_seconds",
            "Duration of requests, seconds.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.under_way = Gauge("gpuctl_server_requests_under_way", "Running requests.", registry=self._registry)
        self.notifications = Counter(
            "gpuctl_server_notifications_total",
            "Attempts to post an event of a job by channel and result: sent, or failed.",
            ("channel", "result"),
            registry=self._registry,
        )
        text = "1 if all lists are being watched, else 0, also while the API server is unreachable."
        self._gauge("gpuctl_server_mirror_ready", text, lambda: mirror.listed and mirror.interruption is None)
        if tokens is not None:
            text = "1 if the token file can be read, 0 if changes to it have no effect."
            self._gauge("gpuctl_server_tokens_readable", text, lambda: tokens.check() is None)
        self._registry.register(_ObjectsOf(mirror))

    def _gauge(self, name: str, text: str, is_set: Callable[[], bool]) -> None:
        """Add a gauge that is read at each scrape."""
        Gauge(name, text, registry=self._registry).set_function(is_set)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format 0.0.4."""
        return generate_latest(self._registry)


class _ObjectsOf(Collector):
    """The numbers of objects in the mirror, read at each scrape."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily("gpuctl_server_mirror_objects", "Objects in the mirror by kind.", labels=["kind"])
        for kind, number in self._mirror.kinds():
            objects.add_metric([kind], number)
        yield objects
