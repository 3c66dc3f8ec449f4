"""Nodes that do not take pods yet: what keeps pods away goes by itself, and is no reason for "never"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuctl.capacity.scheduler_model import Seat
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
        # Karpenter's, until a node has registered.
        "karpenter.sh/unregistered",
    }
)
# Agents of networks and of drivers take such a taint off once they run there: Cilium, the EBS CSI driver, others.
_AGENT = "/agent-not-ready"


def is_passing(taint: Object) -> bool:
    """Whether a taint tells of a state that a node leaves by itself."""
    return taint["key"] in _PASSING or taint["key"].endswith(_AGENT)


def unready(seats: Iterable[Seat]) -> list[Seat]:
    """The nodes that do not take pods yet."""
    return [seat for seat in seats if any(map(is_passing, seat.node.taints))]


def made_ready(seats: Sequence[Seat]) -> list[Seat]:
    """The nodes as they are once all of them take pods."""
    return [_ready(seat) if any(map(is_passing, seat.node.taints)) else seat for seat in seats]


def _ready(seat: Seat) -> Seat:
    taints = [taint for taint in seat.node.taints if not is_passing(taint)]
    return Seat(replace(seat.node, taints=taints), seat.pods)


def not_ready_yet(seats: Sequence[Seat]) -> str:
    """Which nodes have to be ready first, and what says that they are not."""
    first, *more = unique_names(seat.node.name for seat in seats)
    keys = sorted({taint["key"] for taint in seats[0].node.taints if is_passing(taint)})
    others = f", nor are {len(more)} others" if len(more) > 1 else f", nor is {more[0]}" if more else ""
    return f"node {first} is not ready yet (taint {', '.join(keys)}){others}"
