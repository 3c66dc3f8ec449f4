"""Pods of manifests and of snapshots as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.devices.device_counts import DeviceCounts
from gpuctl.capacity.pods.pod_deadlines import latest_end
from gpuctl.capacity.scheduler.pod_claims import csi_volumes, single_pod_claims, volume_terms
from gpuctl.capacity.scheduler.scheduler_model import (
    CLUSTER_TOPOLOGY,
    AffinityTerm,
    HostPort,
    IncomingPod,
    PlacedPod,
    SpreadConstraint,
    units,
)
from gpuctl.capacity.scheduler.volume_binding import delayed_claims
from gpuctl.capacity.snapshot.pod_requests import UNSTATED, amounts, pod_requests, scored_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.capacity.snapshot.snapshot_entries import NODE_BOUND_OWNERS, PREFERRED, anti_affinity, host_ports
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import prefixed
from gpuctl.objects.pod_specs import REQUIRED, mounted_claims
from gpuctl.objects.selectors import Labels, selector_matches


class PodContext(NamedTuple):
    """A snapshot, the labels of its namespaces, its PriorityClasses by name, and the devices of drivers."""

    snapshot: Snapshot
    namespaces: Mapping[str, Labels]
    classes: Mapping[str, Object]
    devices: DeviceCounts


def incoming_pod(spec: Object, labels: Labels, workload: Object, context: PodContext) -> IncomingPod:
    """Return a workload's pod. Source of the priority: ``plugin/pkg/admission/priority/admission.go``, admitPod."""
    snapshot, namespaces, classes, devices = context
    kind, namespace, name = workload["kind"], workload["metadata"]["namespace"], workload["metadata"]["name"]
    ranked = classes.get(spec.get("priorityClassName") or "", {})
    affinity = spec.get("affinity") or {}
    nodes = (affinity.get("nodeAffinity") or {}).get(REQUIRED)
    terms = [] if nodes is None else [nodes["nodeSelectorTerms"]]
    claims = mounted_claims(spec)
    sole = single_pod_claims(claims, namespace, snapshot)
    labels = {**labels, **dict.fromkeys(sole, "")}
    ports = tuple(HostPort(port["ip"], port["protocol"], port["port"]) for port in host_ports(spec))
    own = PlacedPod(
        namespace,
        name,
        labels,
        ranked.get("value") or 0,
        {**units(pod_requests(spec)), **devices.requests_of(spec, namespace)},
        ports,
        (*_terms(_with_label_keys(spec), namespace, labels, namespaces), *_alone(sole, namespace)),
        owner=prefixed(f"{kind}/", name),
        volumes=csi_volumes(claims, namespace, snapshot),
        scored=_cpu_and_memory(scored_requests(spec)),
    )
    near = _terms((affinity.get("podAffinity") or {}).get(REQUIRED) or (), namespace, labels, namespaces)
    return IncomingPod(
        own,
        spec["tolerations"],
        spec.get("nodeSelector") or {},
        terms,
        near,
        tuple(_spreads(spec, labels)),
        ranked.get("preemptionPolicy") != "Never",
        [(item["weight"], item["preference"]) for item in (affinity.get("nodeAffinity") or {}).get(PREFERRED) or ()],
        volume_terms=volume_terms(claims, namespace, snapshot),
        delayed_claims=tuple(delayed_claims(spec, namespace, snapshot)),
    )


def waiting_pod(item: Object, context: PodContext) -> IncomingPod:
    """Return a pending pod of a snapshot, or a pod on a node as if it were pending."""
    workload = {"kind": "Pod", "metadata": {"namespace": item["namespace"], "name": item["name"]}}
    found = incoming_pod(waiting_spec(item), item.get("labels") or {}, workload, context)
    own = resident_pod(item, context)
    return replace(found, pod=replace(own, requests=found.pod.requests, anti_affinity=found.pod.anti_affinity))


def waiting_spec(item: Object) -> Object:
    """Return the spec of a pending pod of a snapshot, with the fields that the scheduler uses."""
    wants = item.get("wants") or {}
    affinity: Object = {"podAffinity": {REQUIRED: wants.get("affinity") or []}}
    affinity["podAntiAffinity"] = {REQUIRED: item.get("antiAffinity") or []}
    affinity["nodeAffinity"] = {PREFERRED: wants.get("preferredNodes") or []}
    if "nodeTerms" in wants:
        affinity["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": wants["nodeTerms"]}
    ports = [
        {"hostPort": port["port"], "protocol": port["protocol"], "hostIP": port["ip"]}
        for port in item.get("hostPorts") or ()
    ]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in item.get("claims") or ()]
    return {
        "volumes": volumes,
        "containers": [{"name": "main", "resources": {"requests": item["requests"]}, "ports": ports}],
        "nodeSelector": wants.get("nodeSelector") or {},
        "tolerations": wants.get("tolerations") or [],
        "topologySpreadConstraints": wants.get("spread") or [],
        "affinity": affinity,
        "resourceClaims": item.get("deviceClaims") or [],
    }


def resident_pod(item: Object, context: PodContext) -> PlacedPod:
    """Return a pod of a snapshot with the devices that it holds."""
    snapshot, namespaces, _, devices = context
    owner, claims = item.get("owner") or {}, item.get("claims") or ()
    sole = single_pod_claims(claims, item["namespace"], snapshot) if claims else ()
    asked = amounts(item["requests"])
    requests = devices.on_node(units(asked), (item["namespace"], item["name"]), item.get("node", ""))
    return PlacedPod(
        item["namespace"],
        item["name"],
        {**(item.get("labels") or {}), **dict.fromkeys(sole, "")},
        item.get("priority", 0),
        requests,
        tuple(HostPort(port["ip"], port["protocol"], port["port"]) for port in item.get("hostPorts") or ()),
        _terms(item.get("antiAffinity") or (), item["namespace"], item.get("labels") or {}, namespaces),
        item.get("startTime", ""),
        owner.get("kind") in NODE_BOUND_OWNERS,
        item.get("deleting", False),
        prefixed(f"{owner['kind']}/", owner["name"]) if owner else prefixed("Pod/", item["name"]),
        item.get("priorityClass", ""),
        item.get("hasDeadline", False),
        csi_volumes(claims, item["namespace"], snapshot),
        _cpu_and_memory({**UNSTATED, **asked, **amounts(item.get("scored"))}),
        latest_end(item, snapshot),
    )


def _cpu_and_memory(found: Mapping[str, Fraction]) -> tuple[int, int]:
    counted = units(dict(found))
    return counted.get("cpu", 0), counted.get("memory", 0)


def _terms(
    terms: Iterable[Object], namespace: str, labels: Labels, namespaces: Mapping[str, Labels]
) -> tuple[AffinityTerm, ...]:
    """Source: kube-scheduler ``framework/types.go``, newAffinityTerm; ``pkg/registry/core/pod/strategy.go``."""
    result = []
    for term in terms:
        reach = set(term.get("namespaces") or ())
        selector = term.get("namespaceSelector")
        if not reach and selector is None:
            reach = {namespace}
        reach |= {name for name, own in namespaces.items() if selector_matches(selector, own)}
        merged = _narrowed(term.get("labelSelector"), term.get("matchLabelKeys"), "In", labels)
        merged = _narrowed(merged, term.get("mismatchLabelKeys"), "NotIn", labels)
        result.append(AffinityTerm(term["topologyKey"], merged, frozenset(reach)))
    return tuple(result)


def _narrowed(selector: Object | None, keys: Iterable[str] | None, operator: str, labels: Labels) -> Object | None:
    """Return a selector with the pod's own values of labels. Source: ``pod/strategy.go``, applyMatchLabelKeys."""
    if selector is None:
        return None
    own = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys or () if key in labels]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *own]} if own else selector


def _alone(sole: Iterable[str], namespace: str) -> Iterator[AffinityTerm]:
    """Yield anti-affinity between the pods of a ReadWriteOncePod claim.

    Source: ``volumerestrictions/volume_restrictions.go``, satisfyReadWriteOncePod.
    """
    for label in sole:
        yield AffinityTerm(CLUSTER_TOPOLOGY, {"matchLabels": {label: ""}}, frozenset((namespace,)))


def _with_label_keys(spec: Object) -> list[Object]:
    rules = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    full = rules.get(REQUIRED) or []
    return [{**term, **kept} for term, kept in zip(full, anti_affinity(spec), strict=True)]


def _spreads(spec: Object, labels: Labels) -> Iterator[SpreadConstraint]:
    """Source: ``podtopologyspread/common.go``, filterTopologySpreadConstraints."""
    for item in spec.get("topologySpreadConstraints") or []:
        if item["whenUnsatisfiable"] != "DoNotSchedule":
            continue
        yield SpreadConstraint(
            item["topologyKey"],
            _narrowed(item.get("labelSelector"), item.get("matchLabelKeys"), "In", labels),
            item["maxSkew"],
            item.get("minDomains") or 1,
            item.get("nodeAffinityPolicy", "Honor") == "Honor",
            item.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )
