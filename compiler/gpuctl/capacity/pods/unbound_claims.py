"""Claims that get a volume only when a pod is scheduled: where their pods may run, and what they compete for.

Pods that share a claim must run where its volume is reachable after the first pod has bound it. This is modelled as a
rule of pod affinity. Claims that compete for the same node-local volumes share an invented resource of the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.scheduler_model import (
    VOLUMES_OF_CLASS,
    AffinityTerm,
    DelayedClaim,
    IncomingPod,
    NodeInfo,
)
from gpuctl.capacity.scheduler.volume_binding import NodeVolumes, VolumeBinder, is_volume_reachable
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import prefixed

Key = tuple[str, str]
_VolumesByNode = Mapping[str, NodeVolumes]


class UnboundClaimModel(NamedTuple):
    """The cluster and demands with claims modelled. ``drivers``: provisioners whose new volumes have unknown
    reachability.
    """

    cluster: ClusterModel
    demands: list[Demand]
    drivers: list[str]


def model_unbound_claims(
    cluster: ClusterModel, demands: Sequence[Demand], snapshot: Snapshot, *, node_local: bool = True
) -> UnboundClaimModel:
    """Return the demands and nodes with the effect of unbound claims added.

    :param node_local: assume that new volumes are reachable only from the first pod's node; otherwise from all nodes.
    """
    every = [(group.incoming, number) for demand in demands for group, number in demand.groups]
    every += [(pod, 1) for pod in cluster.waiting]
    if not any(incoming.delayed_claims for incoming, _ in every):
        return UnboundClaimModel(cluster, list(demands), [])
    work = _Work(cluster, snapshot, node_local)
    work.look_at(every)
    changed = [_with_groups(demand, work) for demand in demands]
    waiting = [work.placed(pod) for pod in cluster.waiting]
    reported = cluster.reported_resources | work.amounts.keys()
    node_infos = [work.node_info(node_info) for node_info in cluster.node_infos]
    cluster = cluster._replace(node_infos=node_infos, waiting=waiting, reported_resources=reported)
    return UnboundClaimModel(cluster, changed, sorted(work.drivers))


def _with_groups(demand: Demand, work: _Work) -> Demand:
    groups = [(PodGroup(group.number, work.placed(group.incoming)), number) for group, number in demand.groups]
    unknown_reasons = dict.fromkeys(text for group, _ in demand.groups for text in work.unknown_reasons(group.incoming))
    made = dict.fromkeys(text for group, _ in demand.groups for text in work.remarks(group.incoming))
    known = {text: None for text in unknown_reasons if text not in demand.unknown_reasons}
    return demand._replace(
        groups=groups, unknown_reasons=[*demand.unknown_reasons, *known], remarks=(*demand.remarks, *made)
    )


@dataclass
class _Work:
    """The analysis of all unbound claims.

    ``domains``: by shared claim and node, where its volume would be reachable. ``loose``: shared claims whose volume is
    assumed reachable from all nodes. ``amounts``: by invented resource, the volumes of each node. ``wanted``: the
    invented resource that a claim takes. ``unclear``: why the volume of a claim cannot be predicted.
    """

    cluster: ClusterModel
    snapshot: Snapshot
    node_local: bool
    domains: dict[Key, dict[str, str]] = field(default_factory=dict)
    loose: set[Key] = field(default_factory=set)
    amounts: dict[str, dict[str, int]] = field(default_factory=dict)
    wanted: dict[Key, str] = field(default_factory=dict)
    unclear: dict[Key, str] = field(default_factory=dict)
    drivers: set[str] = field(default_factory=set)
    _known_volumes: dict[str, _VolumesByNode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._binder = VolumeBinder(self.snapshot)
        self._nodes = {node_info.node.name: node_info for node_info in self.cluster.node_infos}
        self._free_of_place = _reached_everywhere(self.snapshot)

    def look_at(self, pods: Sequence[tuple[IncomingPod, int]]) -> None:
        """Find the claims that are shared and those that compete for volumes."""
        users: Counter[Key] = Counter()
        late: dict[Key, DelayedClaim] = {}
        together: dict[Key, set[frozenset[Key]]] = {}
        for incoming, number in pods:
            for item in incoming.delayed_claims:
                late[_key(item, incoming)] = item
                users[_key(item, incoming)] += number
        shared = {key for key, item in late.items() if not item.is_ephemeral and users[key] > 1}
        for incoming, _ in pods:
            own = frozenset(item.key for item in incoming.delayed_claims if not item.is_ephemeral) & shared
            for key in own:
                together.setdefault(key, set()).add(own)
                volumes_by_node = self._volumes_by_node(incoming)
                self._share(late[key], volumes_by_node, affine=bool(incoming.affinity))
        for key, sets in together.items():
            if len(sets) > 1:
                self.unclear[key] = say("some of the pods that share it also share another claim")
        self._contend(late, users, shared)

    def _share(self, late: DelayedClaim, volumes_by_node: _VolumesByNode, *, affine: bool) -> None:
        name, key = late.claim["name"], late.key
        made = [node for node, found in volumes_by_node.items() if found[name] is None]
        if made and self._binder.provisioner(late.claim) in self._free_of_place and len(made) == len(self._nodes):
            return
        if affine:
            self.unclear[key] = say("several pods with affinity rules share it")
        if len(made) < len(volumes_by_node) and any(
            self._binder.can_provision(late.claim, node_info.node) for node_info in self.cluster.node_infos
        ):
            # While one pod binds an existing volume, the scheduler may let the next pod provision another one
            # elsewhere.
            self.unclear[key] = say("several pods share it: one may find a volume while another provisions one")
        if made:
            self.drivers.add(say("{name} ({detail})", name=name, detail=self._binder.provisioner(late.claim)))
            if not self.node_local:
                self.loose.add(key)
                return
        domains = {}
        for node, found in volumes_by_node.items():
            volume = found[name]
            domains[node] = f"on {node}" if volume is None else f"volume {volume}"
        if not self._is_partition(late, volumes_by_node):
            self.unclear[key] = say("several pods share it, and its possible volumes are reachable from common nodes")
        self.domains[key] = domains

    def _is_partition(self, late: DelayedClaim, volumes_by_node: _VolumesByNode) -> bool:
        """Return True if every node that reaches a chosen volume would choose the same one."""
        chosen: dict[str, set[str]] = {}
        for node, found in volumes_by_node.items():
            volume = found[late.claim["name"]]
            if volume is not None:
                chosen.setdefault(volume, set()).add(node)
        for name, nodes in chosen.items():
            volume_there = self.snapshot.volumes_by_name[name]
            if {node for node in volumes_by_node if is_volume_reachable(volume_there, self._nodes[node].node)} != nodes:
                return False
            # Among volumes of the same size the scheduler takes any.
            others = (
                item
                for item in self._binder.open_to(late.claim).volumes
                if item.get("size") == volume_there.get("size")
                and item.get("nodeTerms") != volume_there.get("nodeTerms")
            )
            if any(is_volume_reachable(item, self._nodes[node].node) for item in others for node in nodes):
                return False
        return True

    def _contend(self, late: Mapping[Key, DelayedClaim], users: Mapping[Key, int], shared: set[Key]) -> None:
        """Find the claims that compete with other claims, or with those of identical pods, for existing volumes."""
        offers = {key: {item["name"] for item in self._offers(late[key].claim)} for key in late}
        for key, names in offers.items():
            rivals = [other for other, theirs in offers.items() if other != key and theirs & names]
            if not names or not (rivals or (late[key].is_ephemeral and users[key] > 1)):
                continue
            claim = late[key].claim
            static = not any(self._binder.can_provision(claim, node_info.node) for node_info in self.cluster.node_infos)
            alike = static and key not in shared and all(offers[other] == names for other in rivals)
            alike = alike and not any(other in shared for other in rivals)
            places = self._places(names) if alike else None
            if places is None:
                if key in shared or not self._can_provision_everywhere(claim):
                    self.unclear[key] = say("another claim may get its volume")
                continue
            resource = f"{VOLUMES_OF_CLASS}{claim['storageClass']}"
            if self.amounts.setdefault(resource, places) != places:
                self.unclear[key] = say("another claim may get its volume")
            self.wanted[key] = resource

    def _offers(self, claim: Object) -> list[Object]:
        known = self._binder.open_to(claim)
        return known.volumes if known.kept is None else []

    def _can_provision_everywhere(self, claim: Object) -> bool:
        """Return True if a volume can be provisioned on every node that has a matching volume."""
        offers = self._offers(claim)
        return all(
            self._binder.can_provision(claim, node_info.node)
            for node_info in self.cluster.node_infos
            if any(is_volume_reachable(item, node_info.node) for item in offers)
        )

    def _places(self, names: set[str]) -> dict[str, int] | None:
        """Return the number of volumes on each node, or None if one of them is reachable from several nodes."""
        result: dict[str, int] = {}
        for name in names:
            volume = self.snapshot.volumes_by_name[name]
            nodes = [
                node_info.node.name
                for node_info in self.cluster.node_infos
                if is_volume_reachable(volume, node_info.node)
            ]
            if len(nodes) > 1:
                return None
            for node in nodes:
                result[node] = result.get(node, 0) + 1
        return result

    def _volumes_by_node(self, incoming: IncomingPod) -> _VolumesByNode:
        key = str([(item.claim, item.is_ephemeral) for item in incoming.delayed_claims])
        if key not in self._known_volumes:
            found = (
                (node_info.node.name, self._binder.volumes_on(incoming.delayed_claims, node_info.node))
                for node_info in self.cluster.node_infos
            )
            self._known_volumes[key] = {name: volumes for name, volumes in found if volumes is not None}
        return self._known_volumes[key]

    def placed(self, incoming: IncomingPod) -> IncomingPod:
        """Return a pod with the rules and resources that stand for its unbound claims."""
        if not incoming.delayed_claims:
            return incoming
        keys = [_key(item, incoming) for item in incoming.delayed_claims]
        bound = [key for key in keys if key in self.domains]
        requests = Counter(self.wanted[key] for key in keys if key in self.wanted)
        labels = {**incoming.pod.labels, **{_label(key): "" for key in bound}}
        pod = replace(incoming.pod, labels=labels, requests={**incoming.pod.requests, **requests})
        terms = tuple(
            AffinityTerm(_topology(key), {"matchLabels": {_label(key): ""}}, frozenset((incoming.pod.namespace,)))
            for key in bound
        )
        nodes = None if self.loose.intersection(keys) else frozenset(self._volumes_by_node(incoming))
        return replace(incoming, pod=pod, affinity=(*incoming.affinity, *terms), volume_nodes=nodes)

    def node_info(self, node_info: NodeInfo) -> NodeInfo:
        """Return a node with the labels and resources that stand for volumes."""
        name = node_info.node.name
        labels = {_topology(key): domains[name] for key, domains in self.domains.items() if name in domains}
        amounts = {resource: places.get(name, 0) for resource, places in self.amounts.items()}
        if not (labels or amounts):
            return node_info
        node = replace(
            node_info.node,
            labels={**node_info.node.labels, **labels},
            allocatable={**node_info.node.allocatable, **amounts},
        )
        return NodeInfo(node, node_info.pods)

    def unknown_reasons(self, incoming: IncomingPod) -> Iterator[str]:
        """Yield why the volumes of a pod's claims cannot be predicted."""
        for item in incoming.delayed_claims:
            why = self.unclear.get(_key(item, incoming))
            if why is not None:
                yield say("{claim} is bound when its first pod is scheduled, and {why}", claim=_title(item), why=why)

    def remarks(self, incoming: IncomingPod) -> Iterator[str]:
        """Yield what claims mean for a job, whether or not it fits."""
        volumes_by_node = self._volumes_by_node(incoming) if incoming.delayed_claims else {}
        for item in incoming.delayed_claims:
            if _key(item, incoming) in self.domains:
                yield say("pods that share claim {claim} must run where its volume is", claim=item.claim["name"])
            if any(found[item.claim["name"]] is None for found in volumes_by_node.values()):
                driver = self._binder.provisioner(item.claim)
                yield say(
                    "the volume of {claim} is still to be provisioned by {driver}", claim=_title(item), driver=driver
                )


def _title(late: DelayedClaim) -> str:
    name = late.claim["name"]
    return say("ephemeral volume {name}", name=name) if late.is_ephemeral else say("claim {name}", name=name)


def _key(late: DelayedClaim, incoming: IncomingPod) -> Key:
    """Return the key of a claim. Ephemeral volumes are separate for each job."""
    return (late.key[0], f"{incoming.pod.owner} {late.key[1]}") if late.is_ephemeral else late.key


def _label(key: Key) -> str:
    return prefixed("(shares) ", key[1])


def _topology(key: Key) -> str:
    return f"(volume) {key[0]}/{key[1]}"


def _reached_everywhere(snapshot: Snapshot) -> set[str]:
    """Return the drivers without node topology: their volumes have no node affinity."""
    found: dict[str, bool] = {}
    for item in snapshot.csi_nodes:
        for driver in item["drivers"]:
            known = driver.get("topologyKeys") == []
            found[driver["name"]] = found.get(driver["name"], True) and known
    return {name for name, known in found.items() if known}
