"""The sums of an hour, added second by second: slow, simple, and sharing nothing with the code that it checks.

All times are whole seconds. Second ``s`` is the time from ``s`` on, before ``s + 1``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gpuctl_usage.facts import Capacity, CapacityState, GpuQuota, GpuSeries, Holding

Key = tuple[str, str, str]
"""Level, key and value of a group."""
Place = tuple[str, str, str]
"""Node, namespace and name of a pod."""


class Point(NamedTuple):
    """A measurement: memory is None, or used and total. For the pod's own processes also their value and memory."""

    value: float
    memory: tuple[float, float] | None
    own: bool = False
    own_memory: bool = False


class Oracle:
    """The sums of a time of any length, from ``start`` on, and the inconsistencies in it.

    :ivar groups: the sums of every group, by field name.
    :ivar dropped: measurements without a holder; ``excess``: nodes on which more was held than they had at some second.
    """

    def __init__(
        self,
        start: int,
        seconds: int,
        holdings: Sequence[Holding],
        capacities: Sequence[Capacity],
        samples: Iterable[GpuSeries],
        interval: float,
        label_keys: Iterable[str],
        annotation_keys: Iterable[str],
        shared: str = "copies",
    ) -> None:
        self.start, self.end, self.reach = start, start + seconds, 2.5 * interval
        self.points = points([one for one in samples if one.pod])
        if shared != "copies":
            processes(self.points, list(samples), (start, start + seconds), shared)
        last = math.ceil(self.end + self.reach)
        self.held = {second: holding_at(holdings, second) for second in range(start, last)}
        here = [pod for second in range(start, self.end) for pod in self.held[second].values()]
        self.labels = sorted({*label_keys, *(key for pod in here for key in pod.labels)})
        self.annotations = sorted({*annotation_keys, *(key for pod in here for key in pod.annotations)})
        self.groups: dict[Key, dict[str, Any]] = defaultdict(_nothing)
        self.groups["cluster", "", ""]
        self.dropped = 0
        self.excess: set[str] = set()
        self._seconds(capacities)
        self._samples()
        for sums in self.groups.values():
            _finish(sums)

    def _seconds(self, capacities: Sequence[Capacity]) -> None:
        for second in range(self.start, self.end):
            pods: dict[Key, int] = defaultdict(int)
            of_nodes: dict[str, float] = defaultdict(float)
            for uid, pod in self.held[second].items():
                of_nodes[pod.node] += pod.gpus
                told = self._told(second, uid, pod)
                for key in self._keys(pod):
                    pods[key] += 1
                    _hold(self.groups[key], second - self.start, pod, second, told)
            for key, count in pods.items():
                self.groups[key]["counts"].add(count)
            there = {capacity.node: capacity for capacity in capacity_at(capacities, second)}
            for node, capacity in there.items():
                spare = max(0.0, capacity.gpus - of_nodes[node])
                states = {CapacityState.READY: "free_gpu_s", CapacityState.UNSIZED: "unsized_gpu_s"}
                name = states.get(capacity.state, "unusable_gpu_s")
                for key in (("cluster", "", ""), ("node", "", node), ("model", "", capacity.model)):
                    self.groups[key]["cap_gpu_s"] += capacity.gpus
                    self.groups[key][name] += spare
            for node, gpus in of_nodes.items():
                if gpus > (there[node].gpus if node in there else 0.0) + 1e-9:
                    self.excess.add(node)

    def _keys(self, pod: Holding) -> list[Key]:
        workload = pod.workload
        return [
            ("cluster", "", ""),
            ("namespace", "", pod.namespace),
            ("workload", f"{workload.namespace}/{workload.kind}/{workload.name}", workload.uid),
            ("node", "", pod.node),
            ("model", "", pod.model),
            *(("label", key, pod.labels.get(key, "__unset__")) for key in self.labels),
            *(("annotation", key, pod.annotations.get(key, "__unset__")) for key in self.annotations),
        ]

    def _owner(self, place: Place, time: float) -> Holding | None:
        """Return the holder of a measurement: it was made at the end of the second before."""
        pods = [pod for pod in self.held.get(int(time) - 1, {}).values() if (pod.node, pod.namespace, pod.pod) == place]
        return max(pods, key=lambda pod: (pod.start, pod.pod_uid), default=None)

    def _told(self, second: int, uid: str, pod: Holding) -> list[Point]:
        """Return, for each measured GPU, the next measurement for this second."""
        found = []
        place = pod.node, pod.namespace, pod.pod
        for of_gpu in self.points.get(place, {}).values():
            times = list(of_gpu)
            place_of_next = bisect_right(times, second)
            if place_of_next < len(times) and second >= (after := times[place_of_next]) - self.reach:
                owner = self._owner(place, after)
                if owner is not None and owner.pod_uid == uid:
                    found.append(of_gpu[after])
        return found

    def _samples(self) -> None:
        for place, gpus in self.points.items():
            for time in (time for of_gpu in gpus.values() for time in of_gpu if self.start < time <= self.end):
                owner = self._owner(place, time)
                self.dropped += owner is None
                for key in self._keys(owner) if owner is not None else ():
                    self.groups[key]["samples"] += 1


def account(sums: dict[str, Any], has_capacity: bool) -> dict[str, float | None]:
    """Return the GPU-seconds of a group by use; None for amounts that a group without GPUs of its own does not have."""
    busy = sums["util_gpu_s"] / 100
    return {
        "capacity_gpu_seconds": sums["cap_gpu_s"] if has_capacity else None,
        "allocated_gpu_seconds": sums["alloc_gpu_s"],
        "busy_gpu_seconds": busy,
        "held_idle_gpu_seconds": sums["obs_gpu_s"] - busy,
        "held_unobserved_gpu_seconds": sums["alloc_gpu_s"] - sums["obs_gpu_s"],
        "free_gpu_seconds": sums["free_gpu_s"] if has_capacity else None,
        "unusable_gpu_seconds": sums["unusable_gpu_s"] if has_capacity else None,
        "unsized_gpu_seconds": sums["unsized_gpu_s"] if has_capacity else None,
    }


def shown(sums: dict[str, Any], seconds: float) -> dict[str, float | None]:
    """Return the row of a group for a time."""
    alloc, obs = sums["alloc_gpu_s"], sums["obs_gpu_s"]
    minutes = sorted(percent for percent, count in (sums["histogram"] or {}).items() for _ in range(count))
    ranked = {rank: minutes[math.ceil(rank * len(minutes) / 100) - 1] if minutes else None for rank in (50, 95)}
    low, high = sums["util_min"], sums["util_max"]
    return {
        "allocated_gpu_count": alloc / seconds,
        "coverage": obs / alloc if alloc else None,
        "avg_utilization": sums["util_gpu_s"] / obs if obs else None,
        "min_utilization": low,
        "max_utilization": high,
        **{f"p{rank}_utilization": None if at is None else min(max(at, low), high) for rank, at in ranked.items()},
        "active_workload_count": sums["workloads"],
        "max_replica_count": sums["pods_max"],
        "min_replica_count": sums["pods_min"],
        "avg_replica_count": sums["pod_s"] / seconds,
    }


def allowed(
    quotas: Sequence[GpuQuota], capacities: Sequence[Capacity], namespaces: Iterable[str], start: int, end: int
) -> dict[str, list[float]]:
    """By namespace, and by second: the GPUs that it may hold. Without a quota those of the cluster, on the average of the
    hour."""
    there: list[float] = []
    for hour in range(start // 3600 * 3600, end, 3600):
        seconds = range(max(hour, start), min(hour + 3600, end))
        amount = sum(capacity.gpus for second in seconds for capacity in capacity_at(capacities, second))
        there += [amount / len(seconds)] * len(seconds)
    found = {}
    for namespace in namespaces:
        theirs = [quota for quota in quotas if quota.namespace == namespace]
        each = (quota_at(theirs, second) for second in range(start, end))
        found[namespace] = [of_all if quota is None else quota for quota, of_all in zip(each, there, strict=True)]
    return found


def quota_at(quotas: Iterable[GpuQuota], second: float) -> float | None:
    """Return the quota of a namespace that began last, if it has not ended."""
    begun = [quota for quota in quotas if quota.start <= second and quota.start < _end(quota)]
    latest = max(begun, key=lambda quota: quota.start, default=None)
    return None if latest is None or _end(latest) <= second else latest.gpus


def points(samples: Iterable[GpuSeries]) -> dict[Place, dict[str, dict[float, Point]]]:
    """By pod, GPU and time; of several of one time the highest."""
    found: dict[Place, dict[str, dict[float, Point]]] = defaultdict(lambda: defaultdict(dict))
    for one in samples:
        of_gpu = found[one.node, one.namespace, one.pod][one.gpu]
        for number, time in enumerate(one.times):
            memory = None
            if one.memory_used is not None and one.memory_total is not None:
                used, total = one.memory_used[number], one.memory_total[number]
                memory = None if math.isnan(used) or math.isnan(total) else (used, total)
            point = Point(one.utilization[number], memory)
            known = of_gpu.get(time)
            if known is None or (point.value, point.memory or (-1, -1)) > (known.value, known.memory or (-1, -1)):
                of_gpu[time] = point
    return {place: {gpu: dict(sorted(of_gpu.items())) for gpu, of_gpu in gpus.items()} for place, gpus in found.items()}


def processes(found: dict[Place, dict[str, dict[float, Point]]], samples: list[GpuSeries], of: tuple, how: str) -> None:
    """Say of each measurement whether it is of processes, and give those that used more than a card their parts of it."""
    for node, metric in {(one.node, one.metric) for one in samples if one.metric}:
        source = [one for one in samples if (one.node, one.metric) == (node, metric)]
        by_name: dict[tuple[str, str, str], dict[float, Point]] = defaultdict(dict)
        for (_, namespace, pod), gpus in points(source).items():
            for gpu, of_gpu in gpus.items():
                by_name[gpu, namespace, pod] = of_gpu
        use = {name: {time: point.value for time, point in of_gpu.items()} for name, of_gpu in by_name.items()}
        memory = {
            name: {time: point.memory[0] for time, point in of_gpu.items() if point.memory}
            for name, of_gpu in by_name.items()
        }
        is_use, is_memory = (judged(values, of, how) for values in (use, memory))
        for gpu, namespace, pod in by_name:
            for time, point in list(found.get((node, namespace, pod), {}).get(gpu, {}).items()):
                pods = [other for other in by_name if other[0] == gpu and other[2]]
                together = math.fsum(use[other].get(time, 0.0) for other in pods)
                own, value = is_use(time), point.value
                if own and together > 100 and len(pods) > 1:
                    value = value * (100 / together)
                found[node, namespace, pod][gpu][time] = Point(value, point.memory, own, is_memory(time))


def judged(values: dict[tuple[str, str, str], dict[float, float]], of: tuple, how: str) -> Callable[[float], bool]:
    """Return, by time, whether an exporter's metrics of a node are per process."""
    signs = []
    for time in sorted({time for of_gpu in values.values() for time in of_gpu if of[0] < time <= of[1]}):
        said = set()
        for card in {gpu for gpu, _, _ in values}:
            there = {name: of_gpu[time] for name, of_gpu in values.items() if name[0] == card and time in of_gpu}
            if sum(name[2] != "" for name in there) > 1:
                said.add("differ" if len(set(there.values())) > 1 else "same" if any(there.values()) else "")
        if said & {"differ", "same"}:
            signs.append((time, "differ" in said))
    lasting = [
        signs[place]
        for place in range(len(signs))
        if any(
            len({sign for _, sign in signs[first : first + 5]}) == 1 and first + 5 <= len(signs)
            for first in range(max(0, place - 4), place + 1)
        )
    ]

    def is_own(time: float) -> bool:
        if how == "per-process":
            return True
        before = [sign for at, sign in lasting if at <= time]
        return before[-1] if before else bool(lasting and lasting[0][1])

    return is_own


def holding_at(holdings: Iterable[Holding], second: int) -> dict[str, Holding]:
    """By the uid of the pod: what began last, if it has not ended."""
    latest: dict[str, Holding] = {}
    for holding in holdings:
        if holding.start <= second and holding.start < _end(holding) and holding.gpus > 0:
            known = latest.get(holding.pod_uid)
            if known is None or (holding.start, -_end(holding)) > (known.start, -_end(known)):
                latest[holding.pod_uid] = holding
    return {uid: holding for uid, holding in latest.items() if second < _end(holding)}


def capacity_at(capacities: Iterable[Capacity], second: int) -> list[Capacity]:
    """Return the capacity of each node that began last, if it has not ended."""
    latest: dict[str, Capacity] = {}
    for capacity in capacities:
        if capacity.start <= second and capacity.start < _end(capacity):
            known = latest.get(capacity.node)
            if known is None or (capacity.start, -_end(capacity)) > (known.start, -_end(known)):
                latest[capacity.node] = capacity
    return [capacity for capacity in latest.values() if second < _end(capacity)]


def _end(interval: Holding | Capacity | GpuQuota) -> float:
    return math.inf if interval.end is None else interval.end


def _nothing() -> dict[str, Any]:
    amounts = (
        "alloc",
        "running",
        "cap",
        "free",
        "unusable",
        "unsized",
        "obs",
        "util",
        "memory_obs",
        "memory_used",
        "memory_total",
        "by_process",
        "beyond",
    )
    return {
        **{f"{name}_gpu_s": 0.0 for name in amounts},
        "pod_s": 0.0,
        "samples": 0,
        "memory_max": None,
        "minutes": defaultdict(lambda: [0.0, 0.0]),
        "counts": set(),
        "workloads": set(),
    }


def _hold(sums: dict[str, Any], into: int, pod: Holding, second: int, told: Sequence[Point]) -> None:
    """One second of one pod."""
    sums["alloc_gpu_s"] += pod.gpus
    sums["running_gpu_s"] += pod.gpus if pod.started is not None and pod.started <= second else 0
    sums["pod_s"] += 1
    sums["workloads"].add(pod.workload)
    for value, memory, own, own_memory in told:
        weight = min(1.0, pod.gpus / len(told))
        if own and pod.gpus < len(told):
            sums["by_process_gpu_s"] += weight
            sums["beyond_gpu_s"] += max(0.0, value / 100 - weight)
            value = min(100.0, value / weight)
        sums["obs_gpu_s"] += weight
        sums["util_gpu_s"] += weight * value
        minute = sums["minutes"][into // 60]
        minute[0] += weight
        minute[1] += weight * value
        if memory is not None:
            sums["memory_obs_gpu_s"] += weight
            sums["memory_used_gpu_s"] += memory[0] * (1 if own_memory else weight)
            sums["memory_total_gpu_s"] += weight * memory[1]
            most = memory[0] / weight if own_memory else memory[0]
            sums["memory_max"] = max(most, -1 if sums["memory_max"] is None else sums["memory_max"])


def _finish(sums: dict[str, Any]) -> None:
    minutes, counts = sums.pop("minutes"), sums.pop("counts")
    means = [round(util / obs, 7) for obs, util in minutes.values()]
    sums["util_min"], sums["util_max"] = min(means, default=None), max(means, default=None)
    whole = [math.floor(mean + 0.5) for mean in means]
    sums["histogram"] = {percent: whole.count(percent) for percent in sorted(set(whole))} or None
    sums["buckets"] = len({minute // 5 for minute in minutes})
    sums["pods_min"], sums["pods_max"] = min(counts, default=0), max(counts, default=0)
    sums["workloads"] = len(sums["workloads"])
