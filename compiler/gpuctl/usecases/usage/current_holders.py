"""The workloads that hold GPUs now, with their usage in the last hours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.display_text import visible
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, answered_number, answered_text, sum_gpu_times
from gpuctl.reading.usage.usage_records import CurrentHolder, CurrentHolders, UsageRange
from gpuctl.usecases.usage.usage_backends import UsageBackend

TOP_ORDERS = ("gpus", "use", "idle", "name")


def current_holders(backend: UsageBackend, cluster: str, namespace: str, order: str) -> CurrentHolders:
    """Return the workloads that hold GPUs, from the last snapshot.

    Their recent usage covers the current hour, which may have just begun, and the one before.

    :param order: one of :data:`TOP_ORDERS`.
    :raises ClusterError: the query failed.
    """
    found = backend.snapshot(cluster)
    try:
        time = str(found["snapshot_time"])
        moment = parse_timestamp(time).timestamp()
        held = [item for item in _held(found) if not namespace or item.holder.namespace == namespace]
        known = answered_number(found["total_gpu_capacity"]), answered_number(found["allocated_gpu_count"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ClusterError("the service returned an invalid snapshot") from None
    since = moment // HOUR * HOUR - HOUR
    asked = UsageRange(since, since + 2 * HOUR, cluster=cluster, namespace=namespace)
    recent: dict[GpuHolder, list[GpuTime]] = {}
    for row in backend.ledger("workload", asked, "total"):
        recent.setdefault(row.holder, []).append(row.use)
    rows = [
        item._replace(recent=sum_gpu_times(recent[item.holder]) if item.holder in recent else None) for item in held
    ]
    rows.sort(key=lambda item: (*_ORDER[order](item), item.holder.sort_key))
    return CurrentHolders(time, visible(str(found["cluster_name"])), *known, rows)


def _held(snapshot: Mapping[str, Any]) -> Iterator[CurrentHolder]:
    for of_namespace in snapshot["allocation_details"].get("namespaces", {}).values():
        for item in of_namespace["workloads"]:
            names = [answered_text(item[name]) for name in ("uid", "namespace", "kind", "name")]
            yield CurrentHolder(
                GpuHolder(*names), float(item["allocated_gpu"]), answered_number(item["utilization"]), None
            )


def _lately(item: CurrentHolder) -> float:
    """Sort key: utilization, percent; unknown values last."""
    use = item.recent.mean_use if item.recent is not None else None
    return 101.0 if use is None else use


_ORDER: dict[str, Callable[[CurrentHolder], tuple[float, float]]] = {
    "gpus": lambda item: (-item.gpus, _lately(item)),
    "use": lambda item: (_lately(item), -item.gpus),
    "idle": lambda item: (-item.recent.idle if item.recent is not None else 0.0, -item.gpus),
    "name": lambda item: (0.0, 0.0),
}
