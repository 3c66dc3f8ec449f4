"""The fields of pods, nodes, namespaces and quotas that are kept in memory, a few megabytes for ten thousand pods.

Objects are not trusted: one that does not match its schema is rejected, and texts are truncated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gpuctl.capacity.snapshot.pod_requests import amounts, pod_requests
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.objects.queue_names import cluster_queue_name
from gpuctl.objects.timestamps import seconds_of
from gpuctl.objects.workload_state import condition, find_condition, has_ended
from gpuctl.reading.nodes.node_rows import status_of
from gpuctl_usage.facts import CapacityState, UsageKeys, largest
from gpuctl_usage.gathering.gpu_weights import GpuRequests, GpuWeights

LONGEST = 256
"""Maximum length of a stored text in bytes: a label value has at most 63, an annotation up to 256 KiB."""

Texts = tuple[tuple[str, str], ...]
"""Keys and values, sorted and interned: equal for all pods of a workload."""

_STATES = {"active": CapacityState.READY, "maintaining": CapacityState.CORDONED, "faulty": CapacityState.NOT_READY}


class OwnerReference(NamedTuple):
    """A controller owner reference. It is not verified: any user who may create the object may write it."""

    api_version: str
    kind: str
    name: str
    uid: str


class PodFacts(NamedTuple):
    """A pod with GPUs. Times are seconds since 1970.

    :param scheduled: when it was bound to its node; None if the condition is missing.
    :param started: earliest start of a container that its status still has.
    :param finished: when its last container ended; None while one is running or before any has run.
    :param over: True if it holds no resources anymore.
    :param written: when the API server last wrote it.
    :param claims: names of its ResourceClaims, also of the one that the scheduler creates for extended resources.
    :param by_claim: True if its GPUs come from claims, so that its node does not list them as extended resources.
    """

    uid: str
    namespace: str
    name: str
    node: str
    gpu_requests: GpuRequests
    owner: OwnerReference | None
    labels: Texts
    annotations: Texts
    created: float
    scheduled: float | None
    started: float | None
    finished: float | None
    over: bool
    written: float | None
    claims: tuple[str, ...] = ()
    by_claim: bool = False


class NodeFacts(NamedTuple):
    """A node.

    :param allocatable: GPUs that pods can use; ``capacity``: including unhealthy ones.
    :param units_per_card: units of a resource that make one card: replicas for resources shared by time, and memory.
    :param resource_turns: replicas per card of each GPU resource, 1 if it is not shared.
    :param ready_changed: last transition of its Ready condition.
    """

    uid: str
    name: str
    model: str
    allocatable: float
    capacity: float
    units_per_card: Mapping[str, float]
    resource_turns: Mapping[str, float]
    state: CapacityState
    created: float
    ready_changed: float | None
    written: float | None


class NamespaceFacts(NamedTuple):
    """A namespace; its labels and annotations apply to pods that lack them."""

    uid: str
    name: str
    labels: Texts
    annotations: Texts
    written: float | None


class QuotaFacts(NamedTuple):
    """GPU limits of a ResourceQuota, from its status, which is what the API server enforces, or of a quota's
    ClusterQueue.

    :param limits: empty if it has no GPU limits, if its status is not computed yet, or if it has scopes: then it limits
        only some pods.
    :param written: when its limits were last written. Writes of the status are ignored: it changes with every pod.
    """

    uid: str
    namespace: str
    name: str
    limits: GpuRequests
    written: float | None


Facts = PodFacts | NodeFacts | NamespaceFacts | QuotaFacts


class FactMaker:
    """Extracts facts from objects. Equal texts of different objects are interned."""

    def __init__(self, keys: UsageKeys, weights: GpuWeights) -> None:
        self._keys = keys
        self._weights = weights
        self._made: Mapping[str, Callable[[Object], Facts | None]] = {
            "Pod": self._pod,
            "Node": self._node,
            "Namespace": self._namespace,
            "ResourceQuota": self._quota,
            "ClusterQueue": self._queue,
        }

    def of(self, obj: Object) -> Facts | None:
        """Return the facts of an object; None for a pod without GPUs, and for a ClusterQueue that is not a quota's.

        :raises ValueError: the object does not match its schema.
        """
        try:
            return self._made[obj["kind"]](obj)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def labels(self, obj: Object) -> Texts:
        """Return the collected labels of an object."""
        return _kept(labels_of(obj), self._keys.labels)

    def annotations(self, obj: Object) -> Texts:
        """Return the collected annotations of an object."""
        return _kept(annotations_of(obj), self._keys.annotations)

    def _pod(self, pod: Object) -> PodFacts | None:
        spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
        asked = self._weights.gpu_requests(pod_requests(spec, status))
        claims = _claims(spec, status.get("extendedResourceClaimStatus") or {}, status)
        if not asked and not claims:
            return None
        over = has_ended(pod)
        return PodFacts(
            _text(metadata["uid"]),
            sys.intern(_text(metadata["namespace"])),
            _text(metadata["name"]),
            sys.intern(_text(spec.get("nodeName") or "")),
            asked,
            owner_reference(pod),
            self.labels(pod),
            self.annotations(pod),
            seconds_of(metadata["creationTimestamp"]) or 0.0,
            _transition_time(condition(pod, "PodScheduled")),
            _started(status),
            _finished(status, over),
            over,
            written_at(pod),
            claims,
            # True if a DRA driver provides its extended resources.
            bool(status.get("extendedResourceClaimStatus")),
        )

    def _node(self, node: Object) -> NodeFacts:
        metadata = node["metadata"]
        return NodeFacts(
            _text(metadata["uid"]),
            sys.intern(_text(metadata["name"])),
            sys.intern(_text(self._weights.model_of(node))),
            self._weights.node_gpus(node, "allocatable"),
            self._weights.node_gpus(node, "capacity"),
            self._weights.units_per_card(node),
            self._weights.resource_turns(node),
            _STATES[status_of(node)],
            seconds_of(metadata["creationTimestamp"]) or 0.0,
            _transition_time(find_condition(node, "Ready")),
            written_at(node),
        )

    def _namespace(self, namespace: Object) -> NamespaceFacts:
        metadata = namespace["metadata"]
        return NamespaceFacts(
            _text(metadata["uid"]),
            sys.intern(_text(metadata["name"])),
            self.labels(namespace),
            self.annotations(namespace),
            written_at(namespace),
        )

    def _quota(self, quota: Object) -> QuotaFacts:
        spec, status, metadata = quota.get("spec") or {}, quota.get("status") or {}, quota["metadata"]
        scoped = spec.get("scopes") or spec.get("scopeSelector")
        return QuotaFacts(
            _text(metadata["uid"]),
            sys.intern(_text(metadata["namespace"])),
            _text(metadata["name"]),
            () if scoped else self._weights.quota_limits(amounts(status.get("hard"))),
            _limits_written_at(quota),
        )

    def _queue(self, queue: Object) -> QuotaFacts | None:
        metadata = queue["metadata"]
        namespace = labels_of(queue).get(self._weights.namespace_key)
        if not namespace or metadata["name"] != cluster_queue_name(namespace):
            return None
        return QuotaFacts(
            _text(metadata["uid"]),
            sys.intern(_text(namespace)),
            _text(metadata["name"]),
            self._weights.queue_limits(queue),
            _limits_written_at(queue),
        )


def _limits_written_at(obj: Object) -> float | None:
    return largest(*_times(item for item in obj["metadata"].get("managedFields") or [] if not item.get("subresource")))


def written_at(obj: Object) -> float | None:
    """Return when the API server last wrote an object: the latest time of its managed fields."""
    return largest(*_times(obj["metadata"].get("managedFields") or []))


def _times(fields: Iterable[Object]) -> Iterator[float | None]:
    return (seconds_of(item.get("time")) for item in fields)


def owner_reference(obj: Object) -> OwnerReference | None:
    """Return the controller owner reference of an object."""
    for item in obj["metadata"].get("ownerReferences") or []:
        if item.get("controller") is True:
            fields = (item.get(field) for field in ("apiVersion", "kind", "name", "uid"))
            return OwnerReference(*(sys.intern(_text(field)) for field in fields))
    return None


def _text(value: Any) -> str:
    """Return a text that every database accepts: without NUL, and short enough for an index."""
    if not isinstance(value, str):
        return ""
    if value.isascii() and "\0" not in value:
        return value[:LONGEST]
    return value.replace("\0", "").encode(errors="replace")[:LONGEST].decode(errors="ignore")


def _kept(values: Mapping[str, str], keys: Collection[str]) -> Texts:
    # An empty value counts as missing.
    return tuple(sorted((key, sys.intern(_text(values[key]))) for key in keys if values.get(key)))


def _claims(spec: Object, extended: Object, status: Object) -> tuple[str, ...]:
    """Return the names of a pod's ResourceClaims that exist already.

    :param extended: ``extendedResourceClaimStatus``: the claim that the scheduler created for extended resources.
    """
    made = {item.get("name"): item.get("resourceClaimName") for item in status.get("resourceClaimStatuses") or []}
    named = (item.get("resourceClaimName") or made.get(item.get("name")) for item in spec.get("resourceClaims") or [])
    return tuple(sorted({_text(name) for name in (*named, extended.get("resourceClaimName")) if name}))


def _transition_time(found: Object | None) -> float | None:
    return seconds_of((found or {}).get("lastTransitionTime"))


def _started(status: Object) -> float | None:
    times = []
    for item in status.get("containerStatuses") or []:
        for state in (item.get("state") or {}, item.get("lastState") or {}):
            times += [seconds_of((state.get(name) or {}).get("startedAt")) for name in ("running", "terminated")]
    return min((time for time in times if time is not None), default=None)


def _finished(status: Object, over: bool) -> float | None:
    containers = status.get("containerStatuses") or []
    states = [item.get("state") or {} for item in (*containers, *(status.get("initContainerStatuses") or []))]
    if any(state.get("running") for state in states):
        # The node was lost: the end of the container was not observed.
        return None
    if not over and not (containers and all(state.get("terminated") for state in states)):
        return None
    return largest(*(seconds_of((state.get("terminated") or {}).get("finishedAt")) for state in states))
