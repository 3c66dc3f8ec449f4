"""The pods that workloads ask the scheduler for, after API server admission."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuctl.capacity.admission.pod_admission import admitted, refusals
from gpuctl.capacity.admission.quota_charges import DEVICES, ChargedObjects, charged_objects
from gpuctl.capacity.devices.device_counts import DeviceCounts, count_devices
from gpuctl.capacity.devices.device_requests import charges_of_claims, charges_of_devices, with_planned_templates
from gpuctl.capacity.pods.cluster_model import ClusterModel, build_cluster_model
from gpuctl.capacity.pods.incoming_pods import PodContext, incoming_pod, resident_pod, waiting_pod, waiting_spec
from gpuctl.capacity.pods.recreated_pods import RecreatedPods
from gpuctl.capacity.pods.unknown_reasons import unknown_reasons
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.pod_claims import with_planned_claims
from gpuctl.capacity.scheduler.scheduler_model import HOST_NAME, IncomingPod, PlacedPod
from gpuctl.capacity.snapshot.eviction_tolerance import UNLIMITED, EvictionTolerance, workload_tolerance
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import WORKLOADS, Key, Object, key_of, labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.autoscalers import AUTOSCALERS, replica_range
from gpuctl.objects.hashed_names import CHANGEABLE, is_hashed_name
from gpuctl.objects.label_names import LEADER_WORKER_SET_NAME
from gpuctl.objects.pod_templates import pod_templates, with_replicas
from gpuctl.objects.role_jobs import JOBSET_LABEL
from gpuctl.objects.workload_state import without_generated_suffix

_NAME_LABEL = "kubernetes.io/metadata.name"
_MADE_LABELS = {
    "Job": ("job-name", "batch.kubernetes.io/job-name", "controller-uid", "batch.kubernetes.io/controller-uid"),
    "Deployment": ("pod-template-hash",),
    "StatefulSet": ("controller-revision-hash",),
    "LeaderWorkerSet": (LEADER_WORKER_SET_NAME,),
}


class Demand(NamedTuple):
    """A workload and its pods.

    - ``unknown_reasons``: why a snapshot does not determine whether the pods fit.
    - ``refusals``: why the pods are not created, or never placed.
    - ``usages``: the objects that quotas charge.
    - ``owned``: its running pods, which end when it is replaced.
    - ``creation_order``: its position among the jobs, as :func:`model_demands` sorts them.
    - ``in_turn``: its pods are created before the next job.
    - ``tolerance``: the number of its pods that may be evicted before it fails.
    - ``remarks``: further notes for the answer.
    - ``uncounted``: why nodes may have more devices for it than they report.
    - ``unknown_devices``: why the devices that it requests are unknown; ``unknown_reasons`` has them, too.
    - ``unmatched``: the nodes (all if "") that may keep the scheduler from placing its pods anywhere, with the reason.
    - ``independent``: the pods do not wait for each other: it runs as soon as one of them has room.
    - ``freed_devices``: what the claims of each of its running pods charge to quotas, by key.
    """

    kind: str
    namespace: str
    name: str
    groups: list[tuple[PodGroup, int]]
    unknown_reasons: list[str]
    refusals: list[str]
    usages: list[ChargedObjects]
    owned: list[PlacedPod]
    creation_order: int
    in_turn: bool = False
    tolerance: EvictionTolerance = UNLIMITED
    remarks: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    unknown_devices: tuple[str, ...] = ()
    unmatched: Mapping[str, str] = {}
    independent: bool = False
    freed_devices: tuple[Mapping[str, int], ...] = ()

    @property
    def key(self) -> Key:
        """The key of the workload."""
        return Key(self.kind, self.namespace, self.name)

    @property
    def pods(self) -> int:
        """The number of pods that must run at once."""
        return sum(number for _, number in self.groups)

    @property
    def may_fail(self) -> bool:
        """True if the workload may fail when its pods are evicted. A workload that is recreated queues behind the
        others.
        """
        return self.tolerance.fails(self.pods) is not False

    @property
    def device_doubts(self) -> tuple[str, ...]:
        """The reasons for which the devices that it may get are not all known."""
        return tuple(dict.fromkeys((*self.unknown_devices, *self.uncounted)))

    @property
    def priority(self) -> int:
        """The highest priority of its pods."""
        return max((group.incoming.pod.priority for group, _ in self.groups), default=0)


def model_demands(
    snapshot: Snapshot, objects: Sequence[Object], in_turn: Container[Key] = (), with_running_pods: Container[Key] = ()
) -> tuple[ClusterModel, list[Demand]]:
    """Return the cluster and the demands of the workloads among ``objects``, sorted by descending priority.

    Of equal priority, those that run now with all their pods come first: an apply of an unchanged document keeps them.

    Other objects matter as far as they affect scheduling: PriorityClasses, quotas, autoscalers, labels of nodes and
    namespaces.

    :param with_running_pods: workloads that keep their running pods; the pods of the others are removed first.
    """
    snapshot = with_planned_templates(with_planned_claims(snapshot, objects), objects)
    workloads = [obj for obj in objects if obj["kind"] in (*WORKLOADS, "Pod")]
    devices = _count_devices(snapshot, workloads)
    context = PodContext(snapshot, _namespaces(snapshot, objects, workloads), _classes(snapshot, objects), devices)
    pods = {id(item): resident_pod(item, context) for item in snapshot.pods}
    cluster = build_cluster_model(snapshot, objects, pods, devices)
    scalers = {_scaled(obj): replica_range(obj) for obj in objects if obj["kind"] in AUTOSCALERS}
    named = _by_name(snapshot.pods)
    demands: list[Demand] = []
    running: set[Key] = set()
    for obj in workloads:
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        mine = () if key_of(obj) in with_running_pods else named.get(key, ())
        own = [item for item in mine if owns(obj, item)]
        owned = [pods[id(item)] for item in own]
        scaled = _scaled_as(obj, scalers.get(_target(obj)))
        demand = _demand(obj, scaled, context, cluster.reported_resources, owned, len(demands))
        demands.append(demand)
        if 0 < demand.pods <= sum("node" in item for item in own) and demand.key not in in_turn:
            running.add(demand.key)
    # Python's sort is stable.
    demands.sort(key=lambda demand: (-demand.priority, demand.key not in running))
    demands = [
        demand._replace(creation_order=place, in_turn=demand.key in in_turn) for place, demand in enumerate(demands)
    ]
    return _with_other_pods(cluster, pods, demands, context), demands


def _count_devices(snapshot: Snapshot, workloads: Iterable[Object]) -> DeviceCounts:
    unplaced = [
        (template["spec"], obj["metadata"]["namespace"]) for obj in workloads for template, _ in pod_templates(obj)
    ]
    unplaced += [(waiting_spec(item), item["namespace"]) for item in snapshot.pods if "node" not in item]
    placed = [(waiting_spec(item), item["namespace"]) for item in snapshot.pods if "node" in item]
    return count_devices(snapshot, unplaced, placed)


def _namespaces(
    snapshot: Snapshot, objects: Iterable[Object], workloads: Iterable[Object]
) -> dict[str, Mapping[str, str]]:
    """Return the labels of all namespaces, also of those that do not exist yet."""
    found = {item["name"]: item.get("labels") or {} for item in snapshot.namespaces}
    for name in (obj["metadata"]["namespace"] for obj in workloads):
        found.setdefault(name, {_NAME_LABEL: name})
    for obj in objects:
        if obj["kind"] == "Namespace":
            name = obj["metadata"]["name"]
            found[name] = {**found.get(name, {_NAME_LABEL: name}), **labels_of(obj)}
    return found


def _with_other_pods(
    cluster: ClusterModel, pods: Mapping[int, PlacedPod], demands: Sequence[Demand], context: PodContext
) -> ClusterModel:
    """Return the cluster with the pods that the demands do not replace: those that wait or would be recreated."""
    snapshot = context.snapshot
    replaced = {id(pod) for demand in demands for pod in demand.owned}
    rest = [(pods[id(item)], item) for item in snapshot.pods if id(pods[id(item)]) not in replaced]
    without_node = [item for _, item in rest if not ({"node", "nominatedNode"} & item.keys())]
    waiting = [waiting_pod(item, context) for item in without_node]
    # A pod may outlive its node for a while.
    nodes = {item["name"] for item in snapshot.nodes}
    there = [(pod, item) for pod, item in rest if item.get("node") in nodes]
    expected = [(pod, item) for pod, item in rest if "node" not in item and "nominatedNode" in item]
    expected += [(incoming.pod, item) for incoming, item in zip(waiting, without_node, strict=True)]
    return cluster._replace(
        names_hosts=any(_names_hosts(group.incoming) for demand in demands for group, _ in demand.groups),
        nominated=[(index, pod) for index, pod in cluster.nominated if id(pod) not in replaced],
        waiting=waiting,
        recreated=RecreatedPods(there, expected, context),
    )


def _classes(snapshot: Snapshot, objects: Iterable[Object]) -> dict[str, Object]:
    planned = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "PriorityClass"}
    return {**planned, **{item["name"]: item for item in snapshot.priority_classes}}


class _Target(NamedTuple):
    """The identity of a workload."""

    group: str
    kind: str
    namespace: str
    name: str


def _scaled(scaler: Object) -> _Target:
    """Return the target of an autoscaler. The version does not matter, the group does.

    Source: ``pkg/controller/podautoscaler/horizontal.go``.
    """
    target = scaler["spec"]["scaleTargetRef"]
    return _Target(
        _group(target.get("apiVersion") or ""), target["kind"], scaler["metadata"]["namespace"], target["name"]
    )


def _target(workload: Object) -> _Target:
    metadata = workload["metadata"]
    return _Target(_group(workload.get("apiVersion") or ""), workload["kind"], metadata["namespace"], metadata["name"])


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _scaled_as(workload: Object, bounds: tuple[int, int] | None) -> Object:
    """Return a workload with replicas within the bounds of its autoscaler, which starts none with 0.

    Source: ``pkg/controller/podautoscaler/horizontal.go``, reconcileAutoscaler.
    """
    if bounds is None:
        return workload
    count = 1 if workload["spec"].get("replicas") is None else int(workload["spec"]["replicas"])
    if count or not bounds[0]:
        count = min(max(count, bounds[0]), bounds[1])
    return with_replicas(workload, count)


def _by_name(pods: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    """Return pods by namespace and the possible names of the workload that :func:`owns` them."""
    result: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        labels = pod.get("labels") or {}
        names = (labels.get(key) for key in (JOBSET_LABEL, LEADER_WORKER_SET_NAME, "app"))
        for name in {(pod.get("owner") or {}).get("name"), *names}:
            if name:
                result.setdefault((pod["namespace"], name), []).append(pod)
    return result


def owns(workload: Object, pod: Object) -> bool:
    """Return True if a pod of a snapshot belongs to a workload. Older snapshots lack the API group of a pod's owner."""
    if pod["namespace"] != workload["metadata"]["namespace"]:
        return False
    kind, name = workload["kind"], workload["metadata"]["name"]
    labels, owner = pod.get("labels") or {}, pod.get("owner") or {}
    found: str = owner.get("name") or ""
    if kind == "CronJob":
        is_run = (owner.get("group", "batch"), owner.get("kind")) == ("batch", "Job")
        return is_run and without_generated_suffix(found) == name and labels.get("app") == name
    if kind == "JobSet":
        found = labels.get(JOBSET_LABEL) or ""
    elif kind == "LeaderWorkerSet":
        found = labels.get(LEADER_WORKER_SET_NAME) or ""
    else:
        group = _target(workload).group
        if (owner.get("group", group), owner.get("kind")) != (group, kind):
            return False
    # A training applied by a GitOps controller has a hash in its name.
    is_training = kind in CHANGEABLE and labels.get("app") == name
    return found == name or (is_training and is_hashed_name(found, name))


def is_object_of(workload: Object, entry: Object) -> bool:
    """Return True if an entry of a snapshot's ``finished`` is a workload, also if its name has a hash."""
    kind, namespace, name = workload["kind"], workload["metadata"]["namespace"], workload["metadata"]["name"]
    if (entry["kind"], entry["namespace"]) != (kind, namespace):
        return False
    return entry["name"] == name or (entry.get("app") == name and is_hashed_name(entry["name"], name))


def _demand(
    obj: Object,
    scaled: Object,
    context: PodContext,
    reported: frozenset[str],
    owned: list[PlacedPod],
    number: int,
) -> Demand:
    """Return the demand of a workload.

    :param scaled: the workload with the replicas that its autoscaler sets.
    :param reported: the resources that nodes report.
    """
    snapshot, namespaces, classes, devices = context
    namespace, name, kind = obj["metadata"]["namespace"], obj["metadata"]["name"], obj["kind"]
    unknown: dict[str, None] = {}
    refused: dict[str, None] = {}
    uncounted: dict[str, None] = {}
    unknown_devices: dict[str, None] = {}
    unmatched: dict[str, str] = {}
    groups: list[tuple[PodGroup, int]] = []
    pods: list[tuple[Object, int]] = []
    for position, (template, count) in enumerate(pod_templates(scaled)):
        labels = {**dict.fromkeys(_MADE_LABELS.get(kind, ()), name), **labels_of({"metadata": {}, **template})}
        spec = admitted(template["spec"], namespace, snapshot, classes)
        if count:
            seen = {**template, "spec": spec}
            refused.update(dict.fromkeys(refusals(seen, namespace, namespaces[namespace], snapshot)))
            unknown.update(dict.fromkeys(unknown_reasons(spec, namespace, snapshot, classes, reported)))
            unknown_devices.update(dict.fromkeys(devices.unknown_reasons(spec, namespace)))
            unknown.update(unknown_devices)
            uncounted.update(dict.fromkeys(devices.uncounted(spec, namespace)))
            unmatched.update(devices.unmatched_on(spec, namespace))
        incoming = incoming_pod(spec, labels, obj, context)
        groups.append((PodGroup((number, position), incoming), count))
        charged = charges_of_claims(spec, namespace, snapshot)
        metadata = {**template.get("metadata", {}), "labels": labels}
        pods.append(({"metadata": metadata, "spec": spec, DEVICES: charged}, count))
    # A Pod is its own template; quotas charge it after admission.
    counted = charged_objects({**obj, **pods[0][0]} if kind == "Pod" else obj, pods)
    own = workload_tolerance(obj)
    return Demand(
        kind,
        namespace,
        name,
        groups,
        list(unknown),
        list(refused),
        counted,
        owned,
        number,
        tolerance=own,
        uncounted=tuple(uncounted),
        unknown_devices=tuple(unknown_devices),
        unmatched=unmatched,
        independent=is_array(obj),
        freed_devices=tuple(charges_of_devices(pod.requests, snapshot) for pod in owned),
    )


def _names_hosts(incoming: IncomingPod) -> bool:
    """Return True if a pod selects nodes by name."""
    if HOST_NAME in incoming.node_selector:
        return True
    terms = [term for terms in incoming.node_terms for term in terms]
    named = any(item["key"] == HOST_NAME for term in terms for item in term.get("matchExpressions") or [])
    return named or any(term.get("matchFields") for term in terms)
