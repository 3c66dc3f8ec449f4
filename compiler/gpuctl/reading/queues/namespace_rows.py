"""Namespaces, with their jobs, pods and quotas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.scope import Scope
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Key, Object, labels_of
from gpuctl.objects.ownership_metadata import Records, is_controlled, is_ours
from gpuctl.objects.workload_state import end_state, has_ended
from gpuctl.reading.jobs.job_rows import PlatformKeys, gpus_of_pod
from gpuctl.reading.nodes.inventory import UNFINISHED
from gpuctl.reading.nodes.node_rows import PodOnNode, pod_on_node
from gpuctl.reading.queues.quota_rows import QuotaState, read_quotas


class NamespaceLists(NamedTuple):
    """Objects of namespaces.

    :param assumed: namespaces whose contents are read although the namespaces themselves may not be.
    :param queues: ClusterQueues, among them those of quotas.
    """

    namespaces: list[Object]
    assumed: tuple[str, ...]
    quotas: list[Object]
    ranges: list[Object]
    pods: list[Object]
    workloads: list[Object]
    queues: Sequence[Object] = ()


class NamespaceRow(NamedTuple):
    """A namespace in a list.

    :param jobs: number of jobs that have not ended.
    :param pods: number of pods that hold or wait for resources.
    :param quotas: names of the quotas that gpuctl created.
    """

    name: str
    status: str | None
    created_at: str | None
    jobs: int
    pods: int
    gpu_used: int
    quotas: tuple[str, ...]


@dataclass(frozen=True)
class Namespace:
    """A namespace.

    :param labels: None if the namespace itself may not be read.
    :param jobs: number of jobs that have not ended; ``all_jobs``: number of all jobs.
    :param holders: pods that hold or wait for resources.
    """

    name: str
    status: str | None
    created_at: str | None
    labels: dict[str, str] | None
    is_ours: bool
    jobs: int
    all_jobs: int
    quotas: tuple[QuotaState, ...]
    holders: tuple[PodOnNode, ...]

    @property
    def gpu_used(self) -> int:
        """Return the GPUs that its scheduled pods request."""
        return sum(item.gpu for item in self.holders if item.node)

    @property
    def pods(self) -> int:
        """Return the number of pods that hold or wait for resources."""
        return len(self.holders)

    @property
    def running_jobs(self) -> list[PodOnNode]:
        """Return the pods on nodes."""
        return [item for item in self.holders if item.node]

    @property
    def waiting_jobs(self) -> list[PodOnNode]:
        """Return the pods that wait for a node."""
        return [item for item in self.holders if not item.node]

    @property
    def row(self) -> NamespaceRow:
        """Return the namespace as a list shows it."""
        quotas = tuple(quota.name for quota in self.quotas if quota.is_ours)
        return NamespaceRow(self.name, self.status, self.created_at, self.jobs, self.pods, self.gpu_used, quotas)

    @property
    def is_of_interest(self) -> bool:
        """Return True if gpuctl created the namespace, or a job or quota in it."""
        return self.all_jobs > 0 or any(quota.is_ours for quota in self.quotas) or self.is_ours


def read_contents(scope: Scope, keys: Records) -> NamespaceLists:
    """Read the objects of all namespaces in parallel lists; only the context's namespace if they may not be listed in
    all.
    """
    session = scope.session
    namespaces: list[Object] = []
    assumed: tuple[str, ...] = ()
    try:
        if scope.namespace is None:
            namespaces = session.list_objects(RESOURCES["Namespace"])[0]
        else:
            found = session.get(Key("Namespace", "", scope.namespace))
            namespaces = [found] if found is not None else []
    except ApiError as error:
        if not error.lacks_permission:
            raise
        assumed = (scope.fallback,)
        if scope.namespace is None:
            scope.note(
                say(
                    "{error}: shown is {namespace}, the namespace of the context",
                    error=error.message,
                    namespace=scope.fallback,
                )
            )
        scope = Scope(session, scope.fallback)

    def read(kind: str) -> list[Object]:
        labels = keys.job_type if kind in WORKLOADS else ""
        return scope.all(kind, labels=labels, fields=UNFINISHED if kind == "Pod" else "")

    kinds = ("ResourceQuota", "LimitRange", "ClusterQueue", "Pod", *WORKLOADS)
    quotas, ranges, queues, pods, *workloads = session.each(read, kinds)
    if scope.is_confined:
        # Nothing is known of the contents of the others.
        namespaces = [item for item in namespaces if item["metadata"]["name"] == scope.fallback]
    mains = [obj for items in workloads for obj in items if not is_controlled(obj)]
    return NamespaceLists(namespaces, assumed, quotas, ranges, pods, mains, queues)


def read_namespaces(found: NamespaceLists, settings: Settings, names: PlatformKeys) -> list[Namespace]:
    """Return the namespaces, by name.

    :param names: the platform's keys, with the GPUs that claims of the pods hold or request.
    """
    named = {str(item["metadata"]["name"]): item for item in found.namespaces}
    quotas = _by_namespace(read_quotas(found.quotas, found.ranges, settings, queues=found.queues, foreign=True))
    pods = [pod_on_node(pod, gpus_of_pod(pod, names), names.keys) for pod in found.pods if not has_ended(pod)]
    holders = _by_namespace(item for item in pods if item.kind or item.gpu)
    jobs: dict[str, list[Object]] = {}
    for main in found.workloads:
        jobs.setdefault(main["metadata"]["namespace"], []).append(main)
    result = []
    for name in sorted({*named, *found.assumed}):
        obj = named.get(name)
        mains = jobs.get(name, [])
        result.append(
            Namespace(
                name,
                (obj.get("status") or {}).get("phase") if obj else None,
                obj["metadata"].get("creationTimestamp") if obj else None,
                labels_of(obj) if obj else None,
                obj is not None and is_ours(obj) and name != SYSTEM_NAMESPACE,
                sum(end_state(main) is None for main in mains),
                len(mains),
                tuple(quotas.get(name, ())),
                tuple(sorted(holders.get(name, ()), key=lambda item: (item.name, item.pod))),
            )
        )
    return result


def _by_namespace(items: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(item.namespace, []).append(item)
    return found
