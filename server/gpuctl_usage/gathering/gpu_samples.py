"""Measurements of GPUs from Prometheus, queried for the whole cluster in ranges of limited size.

A measurement covers the time before it. The first adapter that has measurements of a GPU in the range is used for it.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

from gpuctl_usage.facts import GpuSeries, SharedGpuMetrics
from gpuctl_usage.prometheus import AnswerTooLarge, Prometheus, PrometheusProblem, RawSeries
from gpuctl_usage.rollup.shared_card_values import nodes_with_process_metrics, nodes_with_shared_cards

MIB, MB = 2**20, 10**6
_GIB = 2**30
_DCGM_BLANK = 1e15
"""Larger values are DCGM's marker for missing values."""
_MOST_PERCENT = 100.5
"""Highest accepted percentage: rounding may exceed 100; larger values are not percentages."""
_QUERY_TIMEOUT = 60.0
"""Timeout of a query, seconds."""
_ATTEMPTS = 3
_SHORTEST_RANGE = 15.0
"""Shortest range that is queried, seconds."""
_LONGEST_NAME = 253

Answer = TypeVar("Answer")


class CollectionInterrupted(PrometheusProblem):
    """The collector is stopping."""


class Adapter(NamedTuple):
    """Metric names of an exporter.

    :param utilization: utilization of a GPU; ``percent``: factor to percent.
    :param used: used memory; ``total``: total memory; ``free``: free memory, used if ``total`` is missing; ``unit``:
        factor to bytes.
    """

    utilization: str
    percent: float
    used: str
    total: str
    free: str
    unit: int


_DCGM = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_FREE", MIB)
ADAPTERS = (
    Adapter("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 100, *_DCGM),
    Adapter("DCGM_FI_DEV_GPU_UTIL", 1, *_DCGM),
    Adapter("gpu_gfx_activity", 1, "gpu_used_vram", "gpu_total_vram", "", MB),
    Adapter(
        "gpuctl_gpu_utilization_percent", 1, "gpuctl_gpu_memory_used_bytes", "gpuctl_gpu_memory_total_bytes", "", 1
    ),
)
"""In order of precedence. The last one is for custom exporters."""
_FIRST, _SECOND = ADAPTERS[:2]
"""The adapters of DCGM; both have the same labels."""

_NODES = ("Hostname", "hostname", "node", "kubernetes_node", "instance")
_GPUS = ("gpu", "gpu_id", "GPU_I_ID")
_MIG_SEPARATOR = "/"
"""Separates the GPU and the MIG instance in a device's name. MIG instances have no per-process metrics."""


class PodPlace(NamedTuple):
    """A pod on a node."""

    node: str
    namespace: str
    pod: str


class _Device(NamedTuple):
    node: str
    gpu: str


class _SeriesKey(NamedTuple):
    device: _Device
    place: PodPlace


class GpuSamples:
    """Queries measurements from Prometheus; adapts the length of a query's range to the size of responses."""

    def __init__(
        self,
        prometheus: Prometheus,
        should_continue: Callable[[], bool] = lambda: True,
        shared: SharedGpuMetrics = SharedGpuMetrics.DETECT,
    ) -> None:
        """Create the reader.

        :param should_continue: returns False when the collector is stopping.
        :param shared: kind of the metrics of pods that share a card.
        """
        self.shared = shared
        self._prometheus = prometheus
        self._should_continue = should_continue
        self._length = math.inf

    def series(
        self, start: float, end: float, nodes: Collection[str], holders: Collection[PodPlace]
    ) -> list[GpuSeries]:
        """Return the measurements in (start, end] of GPUs held by a pod. For GPUs with several pods, also return the
        series of the card.

        :param nodes: names of the cluster's nodes, to find the label that names the node.
        :param holders: pods that held GPUs, with their nodes. A pod named only by the label ``pod`` must be one of
            them, because it may be the exporter's own pod.
        :raises PrometheusProblem: a query failed; partial results are discarded.
        """
        counts = self._counts(start, end)
        taken: set[_Device] = set()
        found: dict[_SeriesKey, GpuSeries] = {}
        for adapter in ADAPTERS:
            if not counts.get(adapter.utilization):
                continue
            # For shared cards, only the second adapter may have per-process metrics.
            shared = self._shared(found) if adapter is _SECOND else frozenset()
            # Usually both DCGM metrics exist: skip the second if the first covers all GPUs.
            if adapter is _SECOND and taken and not shared and not self._is_more(start, end):
                continue
            made = _SeriesBuilder(adapter, nodes, holders, taken - shared)
            self._fill(made, start, end)
            more = made.found
            if shared:
                exact_nodes = nodes_with_process_metrics(more.values(), start, end, self.shared)
                more = {name: one for name, one in more.items() if one.node in exact_nodes or name.device not in taken}
                better = {name.device for name in more}
                found = {name: one for name, one in found.items() if name.device not in better}
            found |= more
            taken |= made.devices
        return list(found.values())

    def _shared(self, found: Mapping[_SeriesKey, GpuSeries]) -> frozenset[_Device]:
        """Return the GPUs of nodes with shared cards; none if the metrics are configured as copies."""
        nodes = frozenset() if self.shared is SharedGpuMetrics.COPIES else nodes_with_shared_cards(found.values())
        return frozenset(name.device for name, one in found.items() if one.node in nodes)

    def _counts(self, start: float, end: float) -> Mapping[str, float]:
        names = "|".join(adapter.utilization for adapter in ADAPTERS)
        length = round((end - start) * 1000)
        query = f'count by (__name__) (last_over_time({{__name__=~"{names}"}}[{length}ms]))'
        found = self._patiently(lambda: self._prometheus.query_at(query, end, _QUERY_TIMEOUT))
        return {series.labels.get("__name__", ""): series.samples[-1].value for series in found if series.samples}

    def _is_more(self, start: float, end: float) -> bool:
        """Return True if the second DCGM metric has label sets for which the first has no measurement."""
        length, most = f"[{round((end - start) * 1000)}ms]", _MOST_PERCENT / _FIRST.percent
        query = (
            f"count(last_over_time({_SECOND.utilization}{length}) "
            f"unless min_over_time({_FIRST.utilization}{length}) >= 0 <= {most})"
        )
        return bool(self._patiently(lambda: self._prometheus.query_at(query, end, _QUERY_TIMEOUT)))

    def _fill(self, made: _SeriesBuilder, start: float, end: float) -> None:
        adapter = made.adapter
        for first, last in self._pieces(start, end):
            made.add(self._stored(adapter.utilization, first, last))
            made.add_memory("used", self._stored(adapter.used, first, last))
            made.add_memory("total", self._stored(adapter.total, first, last))
            # One node's exporter may report the total memory, another node's the free memory.
            if adapter.free and made.lacks_total():
                made.add_memory("free", self._stored(adapter.free, first, last))
            made.join()

    def _pieces(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield consecutive ranges, each as long as the size of responses allows at that moment."""
        first = start
        while first < end:
            last = min(end, first + self._length)
            yield first, last
            first = last

    def _stored(self, metric: str, start: float, end: float) -> list[RawSeries]:
        try:
            return self._patiently(lambda: self._prometheus.raw_samples(metric, start, end, _QUERY_TIMEOUT))
        except AnswerTooLarge:
            half = math.floor((end - start) / 2)
            if half < _SHORTEST_RANGE:
                raise
            self._length = half
            middle = start + half
            return [*self._stored(metric, start, middle), *self._stored(metric, middle, end)]

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        attempt = 1
        while True:
            if not self._should_continue():
                raise CollectionInterrupted("the collector is stopping")
            try:
                return ask()
            except AnswerTooLarge:
                raise
            except PrometheusProblem:
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(attempt / 2)
                attempt += 1


class _SeriesBuilder:
    """Builds the series of one adapter, range by range."""

    def __init__(
        self, adapter: Adapter, nodes: Collection[str], holders: Collection[PodPlace], taken: Collection[_Device]
    ) -> None:
        self.adapter = adapter
        self.devices: set[_Device] = set()
        self.found: dict[_SeriesKey, GpuSeries] = {}
        self._nodes = nodes
        self._holders = holders
        self._homes = {(place.namespace, place.pod): place.node for place in holders}
        self._taken = taken
        self._new: list[tuple[_SeriesKey, array[float], array[float]]] = []
        self._used: dict[_Device, dict[_SeriesKey, dict[float, float]]] = {}
        self._memory: dict[str, dict[_Device, dict[float, float]]] = {"total": {}, "free": {}}

    def add(self, measured: list[RawSeries]) -> None:
        """Add utilization samples of the current range."""
        for item in measured:
            name = self._name(item.labels)
            if name is None or name.device in self._taken:
                continue
            times, values = array("d"), array("d")
            for at, raw in zip(item.times, item.values, strict=True):
                percent = raw * self.adapter.percent
                # False for NaN as well.
                if 0 <= percent <= _MOST_PERCENT:
                    times.append(at)
                    values.append(min(percent, 100.0))
            # A GPU with missing values only is not measured: another adapter may have measurements.
            if times:
                if name.place.pod:
                    self.devices.add(name.device)
                self._new.append((name, times, values))

    def add_memory(self, part: str, measured: list[RawSeries]) -> None:
        """Add memory samples of the current range; ``part`` is ``used``, ``total`` or ``free``."""
        wanted = {name.device for name, _, _ in self._new if name.place.pod}
        factor = self.adapter.unit / _GIB
        for item in measured:
            name = self._name(item.labels)
            if name is None or name.device not in wanted:
                continue
            if part == "used":
                values = self._used.setdefault(name.device, {}).setdefault(name, {})
            else:
                values = self._memory[part].setdefault(name.device, {})
            values.update(
                (at, raw * factor) for at, raw in zip(item.times, item.values, strict=True) if 0 <= raw < _DCGM_BLANK
            )

    def lacks_total(self) -> bool:
        """Return True if a GPU of the current range has used memory but no total memory."""
        return not self._used.keys() <= self._memory["total"].keys()

    def join(self) -> None:
        """Join utilization and memory samples of equal times, and clear the current range."""
        pods: dict[_Device, set[PodPlace]] = {}
        of_devices: dict[_Device, Mapping[float, float]] = {}
        for name, _, _ in self._new:
            if name.place.pod:
                pods.setdefault(name.device, set()).add(name.place)
        for name, times, values in self._new:
            device = name.device
            # The card's own series is needed only if several pods share the card.
            if not name.place.pod and len(pods.get(device, ())) < 2:
                continue
            if device not in of_devices:
                of_devices[device] = _largest(list(self._used.get(device, {}).values()))
            of_device = of_devices[device]
            used = self._used.get(device, {}).get(name, of_device)
            total, free = self._memory["total"].get(device, {}), self._memory["free"].get(device, {})
            if not total:
                total = {at: of_device[at] + left for at, left in free.items() if at in of_device}
            known = self.found.get(name)
            if known is None:
                node, namespace, pod = name.place
                metric = "" if _MIG_SEPARATOR in device.gpu else self.adapter.utilization
                empty = (array("d"), array("d"), array("d"), array("d"))
                known = self.found[name] = GpuSeries(node, device.gpu, namespace, pod, *empty, metric)
            known.times.extend(times)
            known.utilization.extend(values)
            for kept, memory in ((known.memory_used, used), (known.memory_total, total)):
                assert kept is not None
                kept.extend(memory.get(at, math.nan) for at in times)
        self._new.clear()
        self._used.clear()
        for memories in self._memory.values():
            memories.clear()

    def _device(self, labels: Mapping[str, str]) -> _Device:
        named = [labels[key] for key in _NODES if labels.get(key)]
        # `instance` is an address: remove the port.
        named = [name.rpartition(":")[0] or name if labels.get("instance") == name else name for name in named]
        node = next((name for name in named if name in self._nodes), named[0] if named else "")
        gpu = _MIG_SEPARATOR.join(labels[key] for key in _GPUS if labels.get(key)) or labels.get("UUID", "")
        return _Device(node[:_LONGEST_NAME], gpu[:_LONGEST_NAME])

    def _name(self, labels: Mapping[str, str]) -> _SeriesKey | None:
        """Return the GPU and pod of a label set; the pod is "" if unknown. Return None if no node is named."""
        device = self._device(labels)
        if not device.node:
            return None
        namespace, pod = (labels.get(key, "")[:_LONGEST_NAME] for key in ("exported_namespace", "exported_pod"))
        if namespace and pod:
            # Some exporters report the name of their own pod as the node.
            known = device.node in self._nodes
            node = device.node if known else self._homes.get((namespace, pod), device.node)
            return _SeriesKey(device, PodPlace(node, namespace, pod))
        place = PodPlace(device.node, labels.get("namespace", ""), labels.get("pod", ""))
        return _SeriesKey(device, place if place in self._holders else PodPlace(device.node, "", ""))


def _largest(said: list[dict[float, float]]) -> Mapping[float, float]:
    """Return the used memory of a card at each time: the highest value, since others are parts or copies of it."""
    if len(said) == 1:
        return said[0]
    found: dict[float, float] = {}
    for values in said:
        for at, amount in values.items():
            found[at] = max(amount, found.get(at, 0.0))
    return found
