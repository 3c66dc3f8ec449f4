"""Pending pods in groups of identical ones, compared with the nodes by the scheduler model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gpuctl.capacity.admission.quota_charges import as_pod
from gpuctl.capacity.fit.shortage import PODS, eligible_nodes
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand, model_demands
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo, format_units
from gpuctl.capacity.scheduler.scheduling import (
    ROOM,
    RULES,
    NeighbourCounts,
    SchedulingRule,
    count_neighbours,
    nodes_that_pass,
    rules_named,
)
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.capacity.snapshot.snapshot_entries import SCHEDULER, host_ports
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.pod_specs import required_node_terms
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.workload_state import find_condition
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.nodes.node_gpus import selected_gpu_type
from gpuctl.reading.why.event_proofs import condition_proof, eviction_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence, SchedulingInput, is_unscheduled
from gpuctl.reading.why.finding import Finding, Proof

# "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu. preemption: ...": framework/types.go,
# FitError.Error. The text after the reasons is a sentence of its own.
_WORDS = re.compile(r"0/(?P<nodes>\d+) nodes are available: (?P<reasons>.*?)\.(?: |\Z)")
_REASON = re.compile(r"(?:(?P<number>\d+) )?(?P<text>.+)")
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, eq=False)
class PendingPods:
    """A group of ``number`` identical pending pods; ``pod`` is the oldest. ``demand`` is None if nodes may not
    be read.
    """

    evidence: Evidence
    pod: Object
    number: int
    cluster: ClusterModel | None
    demand: Demand | None

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return str(self.pod["metadata"]["name"])

    @cached_property
    def message(self) -> str:
        """Return the scheduler's message about the pod."""
        return one_line(self._condition.get("message"))

    @property
    def reason(self) -> str:
        """Return ``Unschedulable`` or ``SchedulingGated``; "" before the scheduler has tried the pod."""
        return str(self._condition.get("reason") or "")

    @property
    def _condition(self) -> Object:
        found = find_condition(self.pod, "PodScheduled")
        return found if found.get("status") == "False" else {}

    @cached_property
    def reason_counts(self) -> dict[str, int]:
        """Return the scheduler's reasons -> number of nodes; 0 for a reason that is about no node."""
        match = _WORDS.search(self.message)
        found: dict[str, int] = {}
        for part in match["reasons"].split(", ") if match else []:
            reason = _REASON.fullmatch(part)
            if reason is not None:
                found[reason["text"]] = int(reason["number"] or 0)
        return found

    @cached_property
    def sources(self) -> tuple[Proof, ...]:
        """Return the PodScheduled condition and the last eviction of a pod of this job as proofs."""
        preemptors = self.evidence.preemptors
        evictions = self.evidence.events_with("Preempted", "TaintManagerEviction")[-1:]
        evicted = [eviction_proof(event, preemptors) for event in evictions]
        return known_proofs(condition_proof(self.pod, "PodScheduled"), *evicted)

    @property
    def incoming(self) -> IncomingPod:
        """Return the pod in the scheduler model."""
        assert self.demand is not None
        return self.demand.groups[0][0].incoming

    @property
    def node_infos(self) -> list[NodeInfo]:
        """Return all nodes of the scheduler model."""
        assert self.cluster is not None
        return self.cluster.node_infos

    @cached_property
    def neighbour_counts(self) -> NeighbourCounts:
        """Return the counts of other pods that affinity and spread rules need."""
        return count_neighbours(self.incoming, self.node_infos)

    @cached_property
    def pool(self) -> str | None:
        """Return the pool that the pod selects; None if it selects none."""
        key = self.evidence.keys.pool
        spec = self.pod["spec"]
        if key in (spec.get("nodeSelector") or {}):
            return str(spec["nodeSelector"][key])
        used = (item for term in required_node_terms(spec) for item in term.get("matchExpressions") or [])
        return DEFAULT_POOL if any(item.get("key") == key for item in used) else None

    def pool_of(self, node_info: NodeInfo) -> str:
        """Return the pool of a node."""
        return node_info.node.labels.get(self.evidence.keys.pool, DEFAULT_POOL)

    @cached_property
    def pool_nodes(self) -> list[NodeInfo]:
        """Return the nodes of the pool; all nodes if the pod selects none."""
        return [node_info for node_info in self.node_infos if self.pool in (None, self.pool_of(node_info))]

    @cached_property
    def selected_nodes(self) -> list[NodeInfo]:
        """Return the nodes that match the pod's selectors and from which its volumes can be used."""
        return self._passing(rules_named("node-selector", "node-affinity", "volumes"), self.node_infos)

    @cached_property
    def large_nodes(self) -> list[NodeInfo]:
        """Return the selected nodes that are large enough for the pod, whatever their state and load."""
        own = {**self.incoming.pod.requests, PODS: 1}
        return [
            node_info
            for node_info in self.selected_nodes
            if all(capacity_of(node_info, name) >= need for name, need in own.items())
        ]

    @cached_property
    def usable_nodes(self) -> list[NodeInfo]:
        """Return the large nodes that are ready, not cordoned and without untolerated taints."""
        return eligible_nodes(self.incoming, self.large_nodes)

    @property
    def unreported_room(self) -> str:
        """Return why nodes may have more room for the pod than they report; "" if they do not."""
        assert self.demand is not None
        return clauses(*self.demand.uncounted)

    @cached_property
    def nodes_with_room(self) -> list[NodeInfo]:
        """Return the usable nodes with enough free resources."""
        return self._passing(ROOM, self.usable_nodes)

    @cached_property
    def fitting_nodes(self) -> list[NodeInfo]:
        """Return the nodes with room that no rule of the scheduler model excludes."""
        return self._passing(RULES, self.nodes_with_room)

    def _passing(self, rules: Sequence[SchedulingRule], node_infos: Iterable[NodeInfo]) -> list[NodeInfo]:
        return nodes_that_pass(rules, self.incoming, node_infos, self.neighbour_counts)

    @property
    def gpu_type(self) -> str | None:
        """Return the GPU types that the pod selects by the platform's label, as text; None without one."""
        return selected_gpu_type(self.pod["spec"], self.evidence.settings.label("gpu-type"))

    @property
    def affinity(self) -> str:
        """Return the pod's required node affinity except for the pool: ``disk In ssd, nvme``."""
        terms = []
        for term in required_node_terms(self.pod["spec"]):
            every = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
            asked = [item for item in every if item.get("key") != self.evidence.keys.pool]
            terms.append(" and ".join(_expression(item) for item in asked))
        return " or ".join(dict.fromkeys(term for term in terms if term))

    @property
    def where(self) -> str:
        """Return ``training-pool``, ``the default pool`` or ``the cluster``."""
        if self.pool is None:
            return say("the cluster")
        return say("the default pool") if self.pool == DEFAULT_POOL else say("{pool}", pool=self.pool)

    @property
    def prefix(self) -> str:
        """Return the beginning of a message about several pods; "" for a single pod."""
        total = max(self.evidence.wanted, self.number)
        return say("{pods:pod} of {total} {pods:waits/wait}: ", pods=self.number, total=total) if total > 1 else ""

    def finding(self, cause: str, message: Sentence, numbers: Mapping[str, Any], fix: Sentence) -> Finding:
        """Return a finding about these pods."""
        counted = {"waitingPods": self.number, **numbers}
        return Finding(cause, message, counted, fix, self.sources, self.name, self.number)

    def units(self, resource: str, amount: int) -> str:
        """Return an amount in the scheduler's units, or of a card's share: ``3 nvidia.com/gpu``, ``8Gi GPU memory``."""
        share = self.evidence.settings.share_resources.get(resource)
        return format_units(resource, amount) if share is None else share.in_words(resource, amount)

    def amount(self, resource: str, amount: int) -> str:
        """Return ``8 a100``, ``1 GPU``, ``64Gi memory``, ``1500m cpu``."""
        gpus = {name: gpu.vendor for gpu in self.evidence.settings.gpus for name in gpu.card.counted}
        if resource not in gpus:
            return self.units(resource, amount)
        if self.gpu_type is not None:
            return f"{amount} {self.gpu_type}"
        if gpus[resource] != self.evidence.settings.default_vendor:
            return f"{amount} {resource}"
        return say("{amount:GPU}", amount=amount)


def _expression(item: Object) -> str:
    return " ".join(
        part for part in (item.get("key"), item.get("operator"), ", ".join(item.get("values") or [])) if part
    )


def is_not_ready(node_info: NodeInfo) -> bool:
    """Return True if a node has a not-ready or unreachable taint."""
    return any(taint.get("key") in _NOT_READY for taint in node_info.node.taints)


def other_vendor(pending: PendingPods, node_infos: Iterable[NodeInfo]) -> tuple[str, str, list[str]] | None:
    """Return another vendor, its resource and the nodes that have it; None if the pod requests no GPUs
    or no node has another vendor's.
    """
    gpus = pending.evidence.settings.gpus
    own = {gpu.vendor for gpu in gpus if any(name in pending.incoming.pod.requests for name in gpu.card.counted)}
    if not own:
        return None
    for gpu in gpus:
        names = [node_info.node.name for node_info in node_infos if capacity_of(node_info, gpu.resource)]
        if names and gpu.vendor not in own:
            return gpu.vendor, gpu.resource, names
    return None


def capacity_of(node_info: NodeInfo, resource: str) -> int:
    """Return the allocatable amount of a resource on a node."""
    return node_info.node.allocatable.get(resource, 0)


def pending_pods(evidence: Evidence) -> Iterator[PendingPods]:
    """Yield each group of identical pending pods, the largest group first."""
    for pod, number in group_identical(pod for pod in evidence.pods if is_unscheduled(pod)):
        if evidence.snapshot is None:
            yield PendingPods(evidence, pod, number, None, None)
            continue
        known, name = evidence.scheduling_inputs, _name(pod)
        if name not in known:
            # All pods of the cluster are read for it, and the causes and what they rule out need it.
            known.update(scheduling_inputs(evidence.snapshot, [pod]))
        yield _case(evidence, pod, number, known[name])


def uncreated_pods(evidence: Evidence) -> Iterator[PendingPods]:
    """Yield each group of pods that the job should have, as if they had been created; nothing if nodes may not
    be read.
    """
    workload = evidence.job.workload
    if evidence.snapshot is None or workload is None:
        return
    # A suspended workload has no pods; count them as if Kueue had admitted it.
    started = {**workload, "spec": {**workload["spec"], "suspend": False}}
    for place, (template, number) in enumerate(pod_templates(started)):
        metadata = {"namespace": evidence.job.identity.namespace, "name": f"{workload['metadata']['name']}-{place}"}
        pod = as_pod({**template, "metadata": {**(template.get("metadata") or {}), **metadata}})
        yield _case(evidence, pod, max(1, number), _inputs(evidence.snapshot, [pod])[_name(pod)])


def _case(evidence: Evidence, pod: Object, number: int, known: SchedulingInput) -> PendingPods:
    (group, _), *_ = known.demand.groups
    return PendingPods(evidence, pod, number, known.cluster, known.demand._replace(groups=[(group, number)]))


def group_identical(pods: Iterable[Object]) -> list[tuple[Object, int]]:
    """Return the first pod of each group of identical ones and the size of the group, largest first."""
    firsts: dict[str, Object] = {}
    kinds: Counter[str] = Counter()
    for pod in pods:
        kind = _kind(pod)
        firsts.setdefault(kind, pod)
        kinds[kind] += 1
    return [(firsts[kind], number) for kind, number in kinds.most_common()]


def scheduling_inputs(snapshot: Snapshot, pods: Sequence[Object]) -> dict[tuple[str, str], SchedulingInput]:
    """Return the scheduler model's input for pending pods, by namespace and name.

    The pods exist: admission has changed them when they were created, and does not change them again.
    """
    classes = [{**item, "globalDefault": False} for item in snapshot.priority_classes]
    runtimes = [{"name": item["name"]} for item in snapshot.runtime_classes]
    return _inputs(replace(snapshot, limit_ranges=[], priority_classes=classes, runtime_classes=runtimes), pods)


def _inputs(snapshot: Snapshot, pods: Sequence[Object]) -> dict[tuple[str, str], SchedulingInput]:
    cluster, demands = model_demands(snapshot, pods)
    return {(demand.namespace, demand.name): SchedulingInput(cluster, demand) for demand in demands}


def _name(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _kind(pod: Object) -> str:
    """Return a key that is equal for pods that can run on the same nodes."""
    spec = pod["spec"]
    fields = (
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "schedulerName",
        "schedulingGates",
        "priority",
        "resourceClaims",
    )
    asked = [*sorted((name, str(amount)) for name, amount in pod_requests(spec).items()), *host_ports(spec)]
    claims = [volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or []]
    revision = [labels_of(pod).get(key) for key in ("pod-template-hash", "controller-revision-hash")]
    reasons = [item.get("reason") for item in (pod.get("status") or {}).get("conditions") or []]
    return json.dumps([[spec.get(name) for name in fields], asked, claims, revision, reasons], sort_keys=True)


def scheduler_of(pod: Object) -> str:
    """Return the name of the scheduler that has to place a pod."""
    return str((pod.get("spec") or {}).get("schedulerName") or SCHEDULER)
