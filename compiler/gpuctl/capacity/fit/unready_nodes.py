"""Nodes that do not take pods yet because of a transient taint; they are no reason for the verdict "never"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuctl.capacity.scheduler.scheduler_model import NodeInfo
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import unique_names

_PASSING = frozenset(
    {
        # Source: k8s.io/api/core/v1/well_known_taints.go; k8s.io/cloud-provider/api/well_known_taints.go.
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        # Karpenter: until the node has registered.
        "karpenter.sh/unregistered",
    }
)
# Network and driver agents (Cilium, the EBS CSI driver, others) remove this taint once they run on the node.
_AGENT = "/agent-not-ready"


def is_transient_taint(taint: Object) -> bool:
    """Return True if a taint describes a state that a node leaves by itself."""
    return taint["key"] in _PASSING or taint["key"].endswith(_AGENT)


def unready_nodes(node_infos: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return the nodes with a transient taint."""
    return [node_info for node_info in node_infos if any(map(is_transient_taint, node_info.node.taints))]


def when_ready(node_infos: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Return the nodes without their transient taints."""
    return [
        _ready(node_info) if any(map(is_transient_taint, node_info.node.taints)) else node_info
        for node_info in node_infos
    ]


def _ready(node_info: NodeInfo) -> NodeInfo:
    taints = [taint for taint in node_info.node.taints if not is_transient_taint(taint)]
    return NodeInfo(replace(node_info.node, taints=taints), node_info.pods)


def describe_unready(node_infos: Sequence[NodeInfo]) -> str:
    """Return which nodes have to become ready first, with their taints."""
    first, *more = unique_names(node_info.node.name for node_info in node_infos)
    keys = sorted({taint["key"] for taint in node_infos[0].node.taints if is_transient_taint(taint)})
    others = (
        say(", nor are {nodes} others", nodes=len(more))
        if len(more) > 1
        else say(", nor is {node}", node=more[0])
        if more
        else ""
    )
    return say("node {node} is not ready yet (taint {taints}){others}", node=first, taints=keys, others=others)
