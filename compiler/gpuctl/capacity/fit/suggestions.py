"""Changes to a job's requests with which it might fit. ``fit`` is run on each changed document to check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from gpuctl.frontend.diagnostics import SourceSpan

Value = str | int | None
Fields = Mapping[str, Value]
GpuInventory = Mapping[str, Mapping[str, list[int]]]
"""The result of :func:`gpuctl.capacity.devices.gpu_inventory.gpu_inventory`."""

Kind = Literal[
    "less memory",
    "less cpu",
    "fewer GPUs",
    "another GPU type",
    "another pool",
    "more nodes of fewer GPUs",
    "fewer nodes",
]
JobName = tuple[str, str]
"""The namespace and name of a job."""
_TRIED = 8


class FieldChange(NamedTuple):
    """A change of one field of a document. ``old`` None: the field is absent; ``new`` None: it is removed.

    ``span``: the place of the field, or of the block around it.
    """

    path: str
    old: Value
    new: Value
    span: SourceSpan


class Suggestion(NamedTuple):
    """Changes with which a job fits now without evicting pods, and without making other jobs worse off."""

    kind: Kind
    changes: list[FieldChange]


class RequestedResources(NamedTuple):
    """The ``resources`` of a document. ``gpu``: GPUs of each node. ``nodes``: None for jobs without nodes.

    ``scarce``: the resource with the least room, ``amount``: its request, in Gi of memory or cores.
    """

    pool: str
    gpu: int
    gpu_types: tuple[str, ...]
    nodes: int | None
    is_shared: bool = False
    scarce: str = ""
    amount: int = 0


class Candidates(NamedTuple):
    """Changes of one kind, the smallest first: field of ``resources`` -> value, None to remove the field.

    ``is_graded``: each candidate requests less than the one before, so if one fits, the later ones do.
    """

    kind: Kind
    fields: Sequence[Fields]
    is_graded: bool = False


def candidates(asked: RequestedResources, machines: GpuInventory) -> Iterator[Candidates]:
    """Yield alternative requests, the kinds with the smallest changes first."""
    if asked.scarce == "memory":
        yield Candidates("less memory", [{"memory": f"{number}Gi"} for number in range(asked.amount - 1, 0, -1)], True)
    if asked.scarce == "cpu":
        yield Candidates("less cpu", [{"cpu": number} for number in range(asked.amount - 1, 0, -1)], True)
    if asked.gpu > 1 and not asked.is_shared:
        yield Candidates("fewer GPUs", [{"gpu": number} for number in range(asked.gpu - 1, 0, -1)], True)
    types = [name for name, counts in sorted(machines.get(asked.pool, {}).items()) if name and _has(counts, asked)]
    yield Candidates("another GPU type", [{"gpu-type": name} for name in types if name not in asked.gpu_types][:_TRIED])
    yield Candidates("another pool", list(_pools(asked, machines))[:_TRIED])
    if asked.nodes is None:
        return
    total = asked.gpu * asked.nodes
    more = [number for number in range(asked.nodes + 1, total + 1) if total % number == 0]
    if not asked.is_shared:
        split: list[Fields] = [{"nodes": number, "gpu": total // number} for number in more]
        yield Candidates("more nodes of fewer GPUs", split[:_TRIED])
    yield Candidates("fewer nodes", [{"nodes": number} for number in range(asked.nodes - 1, 0, -1)], True)


def _pools(asked: RequestedResources, machines: GpuInventory) -> Iterator[Fields]:
    """Yield other pools, with the same GPU type if they have it."""
    for pool, types in sorted(machines.items()):
        fitting = [name for name, counts in sorted(types.items()) if _has(counts, asked)]
        if pool == asked.pool or not fitting:
            continue
        if not asked.gpu_types or set(asked.gpu_types) & set(fitting):
            yield {"pool": pool}
        else:
            yield from ({"pool": pool, "gpu-type": name or None} for name in fitting)


def _has(counts: list[int], asked: RequestedResources) -> bool:
    """Return True if some node has enough GPUs."""
    return any(count >= asked.gpu for count in counts)
