"""The objects of the cluster that a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import WORKLOADS, Object
from gpuctl.objects.role_jobs import pools_of

_IN_A_POOL = frozenset({*WORKLOADS, "Pod", "Node", "ReplicaSet", "Workload"})
"""Kinds whose objects belong to the pool of their label, or to ``default``."""


@dataclass(frozen=True)
class Visibility:
    """The limits of a caller.

    :param sees_namespace: returns True if the caller may see objects in a namespace ("": objects without one).
    :param pools: the pools whose jobs and nodes the caller may see; None: all.
    :param pool_label: the label that names the pool of a job, pod or node.
    """

    sees_namespace: Callable[[str], bool]
    pools: Collection[str] | None
    pool_label: str

    def sees(self, obj: Object) -> bool:
        """Return True if the caller may see an object."""
        return self.sees_namespace(namespace_of(obj)) and self._in_pools(obj)

    def sees_pool(self, pool: str | None) -> bool:
        """Return True if the caller may see the jobs and nodes of a pool (None means ``default``)."""
        return self.pools is None or (pool or DEFAULT_POOL) in self.pools

    def _in_pools(self, obj: Object) -> bool:
        if self.pools is None:
            return True
        pools = self._pools(obj)
        return all(map(self.sees_pool, pools)) if pools or obj.get("kind") not in _IN_A_POOL else self.sees_pool(None)

    def _pools(self, obj: Object) -> tuple[str, ...]:
        """Return the pools of an object; for a Workload of Kueue, those of its pod sets, "" for ``default``."""
        if obj.get("kind") != "Workload":
            return pools_of(obj, self.pool_label)
        sets = (obj.get("spec") or {}).get("podSets") or []
        templates = (item.get("template") or {} for item in sets)
        labels = ((template.get("metadata") or {}).get("labels") or {} for template in templates)
        return tuple(found.get(self.pool_label) or "" for found in labels)


def namespace_of(obj: Object) -> str:
    """Return the namespace that decides who may see an object: that of the object; of a Namespace itself; else ""."""
    metadata = obj["metadata"]
    return str(metadata["name"] if obj.get("kind") == "Namespace" else metadata.get("namespace") or "")
