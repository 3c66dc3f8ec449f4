"""What is kept of pods, nodes, namespaces and quotas: what intervals are made of. Ten thousand pods are a few
megabytes.

Everything here was written by somebody: what is not as the API has it makes no facts, and texts have a limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from gpuctl.capacity.pod_requests import amounts, pod_requests
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.reading.node_rows import is_finished, status_of
from gpuctl_usage.facts import CapacityState
from gpuctl_usage.gathering.gpu_weights import GpuRequests, GpuWeights

LONGEST = 256
"""Bytes that are kept of a text: labels have at most 63, annotations may have a quarter of a million."""

Texts = tuple[tuple[str, str], ...]
"""Keys and values, sorted: small, and alike for all pods of a workload."""

_STATES = {"active": CapacityState.READY, "maintaining": CapacityState.CORDONED, "faulty": CapacityState.NOT_READY}


class OwnerReference(NamedTuple):
    """What an object says of whom it belongs to. Anybody who may create the object may have written it."""

    api_version: str
    kind: str
    name: str
    uid: str


class PodFacts(NamedTuple):
    """What a pod holds, since when, and for whom. Times are seconds since 1970.

    :param scheduled: when it was given its node, None where nothing says so.
    :param started: when the first of its containers began to run, as far as it is known still.
    :param finished: when the last of its containers ended; None as long as one of them runs, or none has run.
    :param over: whether it holds nothing any more.
    :param claims: the ResourceClaims that it names itself; ``by_claim``: its GPUs are those of claims, so that its node
        does not list them as extended resources.
    :param written: when the API server last wrote it.
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
    """What a node has.

    :param allocatable: GPUs that pods can have; ``there``: with those that are out of order.
    :param units: how many of a resource make a card: of those that are shared by time, and of memory.
    :param offered: how many share a card, by resource, of all that it has, of those that nobody shares as well.
    :param turned: when it last became ready, or ceased to be.
    """

    uid: str
    name: str
    model: str
    allocatable: float
    capacity: float
    units_per_card: Mapping[str, float]
    resource_turns: Mapping[str, int]
    state: CapacityState
    created: float
    ready_changed: float | None
    written: float | None


class NamespaceFacts(NamedTuple):
    """The labels and annotations that the pods of a namespace have when they have none of their own."""

    uid: str
    name: str
    labels: Texts
    annotations: Texts
    written: float | None


class QuotaFacts(NamedTuple):
    """What a ResourceQuota limits of GPUs, as it is enforced.

    :param limits: empty where it limits none, where it is not counted yet, and where it has scopes: then it limits some
        pods, and others hold GPUs besides.
    :param written: when its limits were last written; the status, which follows within a moment, is written with every
        pod.
    """

    uid: str
    namespace: str
    name: str
    limits: GpuRequests
    written: float | None


Facts = PodFacts | NodeFacts | NamespaceFacts | QuotaFacts


class CollectedKeys(NamedTuple):
    """Which labels and annotations are kept."""

    labels: Collection[str]
    annotations: Collection[str]


class FactMaker:
    """Makes facts of objects. Equal parts of different objects are one object afterwards."""

    def __init__(self, keys: CollectedKeys, weights: GpuWeights) -> None:
        self._keys = keys
        self._weights = weights
        self._made: Mapping[str, Callable[[Object], Facts | None]] = {
            "Pod": self._pod,
            "Node": self._node,
            "Namespace": self._namespace,
            "ResourceQuota": self._quota,
        }

    def of(self, obj: Object) -> Facts | None:
        """The facts; None of what is of no interest, a pod without GPUs.

        :raises ValueError: it is not as the API has it.
        """
        try:
            return self._made[obj["kind"]](obj)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def labels(self, obj: Object) -> Texts:
        """The labels that are kept."""
        return _kept(labels_of(obj), self._keys.labels)

    def annotations(self, obj: Object) -> Texts:
        """The annotations that are kept."""
        return _kept(annotations_of(obj), self._keys.annotations)

    def _pod(self, pod: Object) -> PodFacts | None:
        spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
        asked = self._weights.gpu_requests(pod_requests(spec, status))
        claims = _claims(spec, {} if asked else status.get("extendedResourceClaimStatus") or {}, status)
        if not asked and not claims:
            return None
        over = is_finished(pod)
        return PodFacts(
            _text(metadata["uid"]),
            sys.intern(_text(metadata["namespace"])),
            _text(metadata["name"]),
            sys.intern(_text(spec.get("nodeName") or "")),
            asked,
            owner_of(pod),
            self.labels(pod),
            self.annotations(pod),
            seconds(metadata["creationTimestamp"]) or 0.0,
            _transition_time(status, "PodScheduled", "True"),
            _started(status),
            _finished(status, over),
            over,
            written_at(pod),
            claims,
            # Extended resources that a DRA driver offers.
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
            seconds(metadata["creationTimestamp"]) or 0.0,
            _transition_time(node.get("status") or {}, "Ready"),
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
            _latest(_times(item for item in metadata.get("managedFields") or [] if not item.get("subresource"))),
        )


def seconds(text: Any) -> float | None:
    """A time of the API as seconds since 1970; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def written_at(obj: Object) -> float | None:
    """When the API server last wrote an object, by its own clock: the latest of the times of its managed fields."""
    return _latest(_times(obj["metadata"].get("managedFields") or []))


def _times(fields: Iterable[Object]) -> Iterator[float | None]:
    return (seconds(item.get("time")) for item in fields)


def owner_of(obj: Object) -> OwnerReference | None:
    """The owner that controls an object, as the object says."""
    for item in obj["metadata"].get("ownerReferences") or []:
        if item.get("controller") is True:
            fields = (item.get(field) for field in ("apiVersion", "kind", "name", "uid"))
            return OwnerReference(*(sys.intern(_text(field)) for field in fields))
    return None


def _text(value: Any) -> str:
    """A text that every database takes: without NUL, and not too long for an index, in bytes."""
    if not isinstance(value, str):
        return ""
    if value.isascii() and "\0" not in value:
        return value[:LONGEST]
    return value.replace("\0", "").encode(errors="replace")[:LONGEST].decode(errors="ignore")


def _kept(values: Mapping[str, str], keys: Collection[str]) -> Texts:
    # An empty value says no more than none.
    return tuple(sorted((key, sys.intern(_text(values[key]))) for key in keys if values.get(key)))


def _claims(spec: Object, extended: Object, status: Object) -> tuple[str, ...]:
    """Return the names of the ResourceClaims of a pod, as far as they exist.

    :param extended: the claim that the scheduler made for resources which are not counted as GPUs themselves.
    """
    made = {item.get("name"): item.get("resourceClaimName") for item in status.get("resourceClaimStatuses") or []}
    named = (item.get("resourceClaimName") or made.get(item.get("name")) for item in spec.get("resourceClaims") or [])
    return tuple(sorted({_text(name) for name in (*named, extended.get("resourceClaimName")) if name}))


def _transition_time(status: Object, kind: str, wanted: str | None = None) -> float | None:
    for item in status.get("conditions") or []:
        if item.get("type") == kind and wanted in (None, item.get("status")):
            return seconds(item.get("lastTransitionTime"))
    return None


def _started(status: Object) -> float | None:
    times = []
    for item in status.get("containerStatuses") or []:
        for state in (item.get("state") or {}, item.get("lastState") or {}):
            times += [seconds((state.get(name) or {}).get("startedAt")) for name in ("running", "terminated")]
    return min((time for time in times if time is not None), default=None)


def _finished(status: Object, over: bool) -> float | None:
    containers = status.get("containerStatuses") or []
    states = [item.get("state") or {} for item in (*containers, *(status.get("initContainerStatuses") or []))]
    if any(state.get("running") for state in states):
        # Its node was lost: nobody has seen the end.
        return None
    if not over and not (containers and all(state.get("terminated") for state in states)):
        return None
    return _latest(seconds((state.get("terminated") or {}).get("finishedAt")) for state in states)


def _latest(times: Iterable[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)
