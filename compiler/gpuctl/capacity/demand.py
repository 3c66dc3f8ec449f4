"""What workloads ask of the scheduler: their pods as it will see them, after the API server's admission."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.backend.api_resources import WORKLOADS, Object, labels_of
from gpuctl.backend.generations import CHANGEABLE, is_generation
from gpuctl.capacity.doubts import attachable, claims_of, doubts
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.pod_admission import admitted, refusals
from gpuctl.capacity.pod_requests import amounts, pod_requests, pod_templates
from gpuctl.capacity.preemption import Budget
from gpuctl.capacity.projections import anti_affinity, host_ports
from gpuctl.capacity.quota_sum import Usage, admissions
from gpuctl.capacity.scheduling import (
    HOST_NAME,
    Incoming,
    Labels,
    PlacedPod,
    Port,
    SchedulableNode,
    Seat,
    Spread,
    Term,
    Volume,
    selects,
    units,
)
from gpuctl.capacity.snapshot import Snapshot

_NAME_LABEL = "kubernetes.io/metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_STAYING = ("DaemonSet", "Node")
_MADE_LABELS = {
    "Job": ("job-name", "batch.kubernetes.io/job-name", "controller-uid", "batch.kubernetes.io/controller-uid"),
    "Deployment": ("pod-template-hash",),
    "StatefulSet": ("controller-revision-hash",),
}


class Demand(NamedTuple):
    """A workload and its pods. ``doubts`` are the reasons for which nobody can tell from a snapshot, ``refusals`` those
    for which its pods are not created, or never placed.

    ``usages`` is what quotas count; ``owned`` are the pods of it that run now, which end when it is replaced.
    """

    kind: str
    namespace: str
    name: str
    groups: list[tuple[PodGroup, int]]
    doubts: list[str]
    refusals: list[str]
    usages: list[Usage]
    owned: list[PlacedPod]

    @property
    def pods(self) -> int:
        """How many pods have to run at once."""
        return sum(number for _, number in self.groups)

    @property
    def priority(self) -> int:
        """The highest priority of its pods."""
        return max((group.incoming.pod.priority for group, _ in self.groups), default=0)


class Cluster(NamedTuple):
    """A snapshot in the scheduler's terms.

    ``nominated`` are pods that room on a node is being made for, ``waiting`` those that have no room.
    """

    seats: list[Seat]
    nominated: list[tuple[int, PlacedPod]]
    waiting: list[Incoming]
    budgets: list[Budget]
    quotas: list[Object]
    shown: frozenset[str]
    names_hosts: bool


def understand(snapshot: Snapshot, objects: Sequence[Object]) -> tuple[Cluster, list[Demand]]:
    """The cluster and the workloads among ``objects``, those with the highest priority first.

    Of the other objects count what changes the answer: PriorityClasses, quotas, autoscalers, labels of nodes and
    namespaces.
    """
    namespaces = {item["name"]: item.get("labels") or {} for item in snapshot.namespaces}
    workloads = [obj for obj in objects if obj["kind"] in (*WORKLOADS, "Pod")]
    for obj in workloads:
        namespace = obj["metadata"]["namespace"]
        namespaces.setdefault(namespace, {_NAME_LABEL: namespace})
    for obj in objects:
        if obj["kind"] == "Namespace":
            name = obj["metadata"]["name"]
            namespaces[name] = {**namespaces.get(name, {_NAME_LABEL: name}), **labels_of(obj)}
    pods = {id(item): _resident(item, namespaces, snapshot) for item in snapshot.pods}
    cluster = _cluster(snapshot, objects, pods)
    classes = _classes(snapshot, objects)
    scalers = {_scaled(obj): obj["spec"] for obj in objects if obj["kind"] == "HorizontalPodAutoscaler"}
    result: list[Demand] = []
    for obj in workloads:
        owned = [pods[id(item)] for item in snapshot.pods if owns(obj, item)]
        result.append(_demand(obj, scalers, snapshot, namespaces, classes, cluster.shown, owned, len(result)))
    # Python's sort keeps the order of what is equal.
    result.sort(key=lambda demand: -demand.priority)
    names = any(_names_hosts(group.incoming) for demand in result for group, _ in demand.groups)
    replaced = {id(pod) for demand in result for pod in demand.owned}
    waiting = [
        _waiting(item, snapshot, namespaces, classes)
        for item in snapshot.pods
        if not ({"node", "nominatedNode"} & item.keys()) and id(pods[id(item)]) not in replaced
    ]
    nominated = [(index, pod) for index, pod in cluster.nominated if id(pod) not in replaced]
    return cluster._replace(names_hosts=names, nominated=nominated, waiting=waiting), result


def _waiting(
    item: Object, snapshot: Snapshot, namespaces: Mapping[str, Labels], classes: Mapping[str, Object]
) -> Incoming:
    """A pod that waits, as the scheduler tries it."""
    wants = item.get("wants") or {}
    affinity: Object = {"podAffinity": {_REQUIRED: wants.get("affinity") or []}}
    affinity["podAntiAffinity"] = {_REQUIRED: item.get("antiAffinity") or []}
    if "nodeTerms" in wants:
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": wants["nodeTerms"]}}
    ports = [
        {"hostPort": port["port"], "protocol": port["protocol"], "hostIP": port["ip"]}
        for port in item.get("hostPorts") or ()
    ]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in item.get("claims") or ()]
    spec = {
        "volumes": volumes,
        "containers": [{"name": "main", "resources": {"requests": item["requests"]}, "ports": ports}],
        "nodeSelector": wants.get("nodeSelector") or {},
        "tolerations": wants.get("tolerations") or [],
        "topologySpreadConstraints": wants.get("spread") or [],
        "affinity": affinity,
    }
    workload = {"kind": "Pod", "metadata": {"namespace": item["namespace"], "name": item["name"]}}
    found = _incoming(spec, item.get("labels") or {}, workload, snapshot, namespaces, classes)
    return replace(found, pod=replace(found.pod, priority=item.get("priority", 0)))


def _cluster(snapshot: Snapshot, objects: Iterable[Object], pods: Mapping[int, PlacedPod]) -> Cluster:
    labels = {obj["metadata"]["name"]: labels_of(obj) for obj in objects if obj["kind"] == "Node"}
    on_node: dict[str, list[PlacedPod]] = {}
    for item in snapshot.pods:
        if "node" in item:
            on_node.setdefault(item["node"], []).append(pods[id(item)])
    limits = {item["name"]: {one["name"]: one["count"] for one in item["drivers"]} for item in snapshot.csi_nodes}
    attached = _attached(snapshot)
    seats, places = [], {}
    for index, item in enumerate(snapshot.nodes):
        name = item["name"]
        own = {**(item.get("labels") or {}), **labels.get(name, {})}
        allocatable = units(amounts(item["allocatable"]))
        taints, closed = item.get("taints") or (), item.get("unschedulable", False)
        node = SchedulableNode(
            name, allocatable, own, taints, closed, limits.get(name, {}), attached.get(name, frozenset())
        )
        seats.append(Seat(node, tuple(on_node.get(name, ()))))
        places[name] = index
    nominated = [
        (places[item["nominatedNode"]], pods[id(item)])
        for item in snapshot.pods
        if "node" not in item and item.get("nominatedNode") in places
    ]
    budgets = [
        Budget(
            item["namespace"],
            item.get("selector"),
            item["disruptionsAllowed"],
            frozenset(item.get("disruptedPods") or ()),
        )
        for item in snapshot.budgets
    ]
    shown = frozenset(name for item in snapshot.nodes for name in item["allocatable"])
    return Cluster(seats, nominated, [], budgets, _quotas(snapshot, objects), shown, False)


def _attached(snapshot: Snapshot) -> dict[str, frozenset[Volume]]:
    """The volumes that are attached to nodes. Source: ``nodevolumelimits/csi.go``, getNodeVolumeAttachmentInfo."""
    handles = {item["name"]: item["handle"] for item in snapshot.volumes if "handle" in item}
    result: dict[str, set[Volume]] = {}
    for item in snapshot.attachments:
        if item["volume"] in handles:
            result.setdefault(item["node"], set()).add((item["driver"], handles[item["volume"]]))
    return {name: frozenset(volumes) for name, volumes in result.items()}


def _quotas(snapshot: Snapshot, objects: Iterable[Object]) -> list[Object]:
    """The quotas of the cluster, as the documents change them."""
    result: dict[tuple[str, str], Object] = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item for item in snapshot.quotas
    }
    for obj in objects:
        if obj["kind"] == "ResourceQuota":
            key = obj["metadata"]["namespace"], obj["metadata"]["name"]
            used = ((result.get(key) or {}).get("status") or {}).get("used") or {}
            result[key] = {**obj, "status": {"used": used}}
    return list(result.values())


def _classes(snapshot: Snapshot, objects: Iterable[Object]) -> dict[str, Object]:
    planned = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "PriorityClass"}
    return {**planned, **{item["name"]: item for item in snapshot.priority_classes}}


class _Target(NamedTuple):
    """What tells a workload from all others."""

    group: str
    kind: str
    namespace: str
    name: str


def _scaled(scaler: Object) -> _Target:
    """What an autoscaler scales. Source: ``pkg/controller/podautoscaler/horizontal.go``: no version, but the group."""
    target = scaler["spec"]["scaleTargetRef"]
    return _Target(
        _group(target.get("apiVersion") or ""), target["kind"], scaler["metadata"]["namespace"], target["name"]
    )


def _target(workload: Object) -> _Target:
    metadata = workload["metadata"]
    return _Target(_group(workload.get("apiVersion") or ""), workload["kind"], metadata["namespace"], metadata["name"])


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _scaled_to(count: int, scaler: Object | None) -> int:
    """How many pods a workload gets. An autoscaler leaves one that has none alone.

    Source: ``pkg/controller/podautoscaler/horizontal.go``, reconcileAutoscaler.
    """
    least = 1 if scaler is None or scaler.get("minReplicas") is None else int(scaler["minReplicas"])
    if scaler is None or (count == 0 and least):
        return count
    return min(max(count, least), int(scaler["maxReplicas"]))


def owns(workload: Object, pod: Object) -> bool:
    """Whether a pod of a snapshot is a workload's. Older snapshots do not have the API group of a pod's owner."""
    if pod["namespace"] != workload["metadata"]["namespace"]:
        return False
    kind, name = workload["kind"], workload["metadata"]["name"]
    labels, owner = pod.get("labels") or {}, pod.get("owner") or {}
    found: str = owner.get("name") or ""
    if kind == "JobSet":
        found = labels.get("jobset.sigs.k8s.io/jobset-name") or ""
    else:
        group = _target(workload).group
        if (owner.get("group", group), owner.get("kind")) != (group, kind):
            return False
    # A GitOps controller has made the training under a name with a hash.
    is_training = kind in CHANGEABLE and labels.get("app") == name
    return found == name or (is_training and is_generation(found, name))


def _resident(item: Object, namespaces: Mapping[str, Labels], snapshot: Snapshot) -> PlacedPod:
    owner = item.get("owner") or {}
    return PlacedPod(
        item["namespace"],
        item["name"],
        item.get("labels") or {},
        item.get("priority", 0),
        units(amounts(item["requests"])),
        tuple(Port(port["ip"], port["protocol"], port["port"]) for port in item.get("hostPorts") or ()),
        _terms(item.get("antiAffinity") or (), item["namespace"], item.get("labels") or {}, namespaces),
        item.get("startTime", ""),
        owner.get("kind") in _STAYING,
        item.get("deleting", False),
        f"{owner['kind']}/{owner['name']}" if owner else f"Pod/{item['name']}",
        item.get("priorityClass", ""),
        item.get("hasDeadline", False),
        attachable(item.get("claims") or (), item["namespace"], snapshot),
    )


def _terms(
    terms: Iterable[Object], namespace: str, labels: Labels, namespaces: Mapping[str, Labels]
) -> tuple[Term, ...]:
    """Source: kube-scheduler ``framework/types.go``, newAffinityTerm; ``pkg/registry/core/pod/strategy.go``."""
    result = []
    for term in terms:
        reach = set(term.get("namespaces") or ())
        selector = term.get("namespaceSelector")
        if not reach and selector is None:
            reach = {namespace}
        reach |= {name for name, own in namespaces.items() if selects(selector, own)}
        merged = _narrowed(term.get("labelSelector"), term.get("matchLabelKeys"), "In", labels)
        merged = _narrowed(merged, term.get("mismatchLabelKeys"), "NotIn", labels)
        result.append(Term(term["topologyKey"], merged, frozenset(reach)))
    return tuple(result)


def _narrowed(selector: Object | None, keys: Iterable[str] | None, operator: str, labels: Labels) -> Object | None:
    """A selector with the pod's own values of some labels. Source: ``pod/strategy.go``, applyMatchLabelKeys..."""
    if selector is None:
        return None
    own = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys or () if key in labels]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *own]} if own else selector


def _demand(
    obj: Object,
    scalers: Mapping[_Target, Object],
    snapshot: Snapshot,
    namespaces: Mapping[str, Labels],
    classes: Mapping[str, Object],
    shown: frozenset[str],
    owned: list[PlacedPod],
    number: int,
) -> Demand:
    namespace, name, kind = obj["metadata"]["namespace"], obj["metadata"]["name"], obj["kind"]
    unknown: dict[str, None] = {}
    refused: dict[str, None] = {}
    groups: list[tuple[PodGroup, int]] = []
    pods: list[tuple[Object, int]] = []
    for position, (template, count) in enumerate(pod_templates(obj)):
        count = _scaled_to(count, scalers.get(_target(obj)))
        labels = {**dict.fromkeys(_MADE_LABELS.get(kind, ()), name), **labels_of({"metadata": {}, **template})}
        spec = admitted(template["spec"], namespace, snapshot, classes)
        if count:
            seen = {**template, "spec": spec}
            refused.update(dict.fromkeys(refusals(seen, namespace, namespaces[namespace], snapshot)))
        unknown.update(dict.fromkeys(doubts(spec, namespace, snapshot, classes, shown)))
        incoming = _incoming(spec, labels, obj, snapshot, namespaces, classes)
        groups.append((PodGroup((number, position), incoming), count))
        pods.append(({"metadata": {**template.get("metadata", {}), "labels": labels}, "spec": spec}, count))
    # A Pod is its own template: quotas count it as admitted, too.
    counted = admissions({**obj, "spec": pods[0][0]["spec"]} if kind == "Pod" else obj, pods)
    return Demand(kind, namespace, name, groups, list(unknown), list(refused), counted, owned)


def _incoming(
    spec: Object,
    labels: Labels,
    workload: Object,
    snapshot: Snapshot,
    namespaces: Mapping[str, Labels],
    classes: Mapping[str, Object],
) -> Incoming:
    """Source of the priority: ``plugin/pkg/admission/priority/admission.go``, admitPod."""
    kind, namespace, name = workload["kind"], workload["metadata"]["namespace"], workload["metadata"]["name"]
    ranked = classes.get(spec.get("priorityClassName") or "", {})
    affinity = spec.get("affinity") or {}
    nodes = (affinity.get("nodeAffinity") or {}).get(_REQUIRED)
    terms = [] if nodes is None else [nodes["nodeSelectorTerms"]]
    for claim in snapshot.claims:
        if claim["namespace"] == namespace and claim["name"] in claims_of(spec):
            terms += [item["nodeTerms"] for item in snapshot.volumes if _limits(item, claim)]
    ports = tuple(Port(port["ip"], port["protocol"], port["port"]) for port in host_ports(spec))
    own = PlacedPod(
        namespace,
        name,
        labels,
        ranked.get("value") or 0,
        units(pod_requests(spec)),
        ports,
        _terms(_with_label_keys(spec), namespace, labels, namespaces),
        owner=f"{kind}/{name}",
        volumes=attachable(claims_of(spec), namespace, snapshot),
    )
    return Incoming(
        own,
        spec["tolerations"],
        spec.get("nodeSelector") or {},
        terms,
        _terms((affinity.get("podAffinity") or {}).get(_REQUIRED) or (), namespace, labels, namespaces),
        tuple(_spreads(spec, labels)),
        ranked.get("preemptionPolicy") != "Never",
    )


def _limits(volume: Object, claim: Object) -> bool:
    """Whether a claim's volume is on certain nodes only. Source: ``volumebinding/binder.go``, checkBoundClaims."""
    return volume["name"] == claim.get("volume") and "nodeTerms" in volume


def _with_label_keys(spec: Object) -> list[Object]:
    rules = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    full = rules.get(_REQUIRED) or []
    return [{**term, **kept} for term, kept in zip(full, anti_affinity(spec), strict=True)]


def _spreads(spec: Object, labels: Labels) -> Iterator[Spread]:
    """Source: ``podtopologyspread/common.go``, filterTopologySpreadConstraints."""
    for item in spec.get("topologySpreadConstraints") or []:
        if item["whenUnsatisfiable"] != "DoNotSchedule":
            continue
        yield Spread(
            item["topologyKey"],
            _narrowed(item.get("labelSelector"), item.get("matchLabelKeys"), "In", labels),
            item["maxSkew"],
            item.get("minDomains") or 1,
            item.get("nodeAffinityPolicy", "Honor") == "Honor",
            item.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )


def _names_hosts(incoming: Incoming) -> bool:
    """Whether pods tell nodes apart by their names."""
    if HOST_NAME in incoming.node_selector:
        return True
    terms = [term for terms in incoming.node_terms for term in terms]
    named = any(item["key"] == HOST_NAME for term in terms for item in term.get("matchExpressions") or [])
    return named or any(term.get("matchFields") for term in terms)
