"""What the service counts of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.mirror.mirror import Mirror

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ServiceMetrics:
    """Numbers of one service. Paths are those of routes, never those of requests: there are only so many of them."""

    def __init__(self, mirror: Mirror, tokens: ServiceTokenFile | None = None) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "gpuctl_server_requests_total", "Requests.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "gpuctl_server_request_seconds",
            "How long requests took.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.under_way = Gauge(
            "gpuctl_server_requests_under_way", "Requests that are worked on.", registry=self._registry
        )
        self._registry.register(_OfMirror(mirror))
        if tokens is not None:
            self._registry.register(_OfTokens(tokens))
        self._objects = CollectorRegistry()
        self._objects.register(_ObjectsOf(mirror))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self, *, with_objects: bool) -> bytes:
        """All of it, in Prometheus' text format 0.0.4.

        :param with_objects: with how much there is in the cluster, in all namespaces together.
        """
        return generate_latest(self._registry) + (generate_latest(self._objects) if with_objects else b"")


class _OfMirror(Collector):
    """Whether the mirror is of use; looked at when it is asked for."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("gpuctl_server_mirror_ready", "1 when every list was read.", float(self._mirror.ready))


class _OfTokens(Collector):
    """Whether the file of tokens can be read; looked at when it is asked for."""

    def __init__(self, tokens: ServiceTokenFile) -> None:
        self._tokens = tokens

    def collect(self) -> Iterator[Metric]:
        text = "1 when the file of tokens can be read, 0 while revocations do not count."
        yield GaugeMetricFamily("gpuctl_server_tokens_readable", text, float(self._tokens.check() is None))


class _ObjectsOf(Collector):
    """How much the mirror has; looked at when it is asked for."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily("gpuctl_server_mirror_objects", "Objects that are known.", labels=["kind"])
        for kind, number in self._mirror.kinds():
            objects.add_metric([kind], number)
        yield objects
