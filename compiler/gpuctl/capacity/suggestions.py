"""Changes of what a job asks for with which it might fit: whether they do, ``fit`` tells of the changed document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from gpuctl.frontend.diagnostics import SourceSpan

Value = str | int | None
Fields = Mapping[str, Value]
GpuInventory = Mapping[str, Mapping[str, list[int]]]
"""As :func:`gpuctl.capacity.gpu_inventory.machines` has them."""

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
"""Namespace and name."""
_TRIED = 8


class FieldChange(NamedTuple):
    """A field of a document, and what to write: ``new`` None takes it away; ``old`` None: it is not written.

    ``span`` is where it stands, or where the block around it does.
    """

    path: str
    old: Value
    new: Value
    span: SourceSpan


class Suggestion(NamedTuple):
    """A change with which a job fits now, without evicting anybody, and the others are no worse off than before."""

    kind: Kind
    changes: list[FieldChange]


class RequestedResources(NamedTuple):
    """What a document asks for in ``resources``: ``gpu`` of each node, ``nodes`` None for what has none.

    ``scarce`` is the resource of which nodes have least room, ``amount`` what is asked of it: Gi of memory, cores.
    """

    pool: str
    gpu: int
    gpu_type: str | None
    nodes: int | None
    is_shared: bool = False
    scarce: str = ""
    amount: int = 0


class Candidates(NamedTuple):
    """Changes of one kind, fields of ``resources`` -> value (None: without the field), the smallest change first.

    ``is_graded``: each asks for less than the one before, so that with one that fits those after it do.
    """

    kind: Kind
    fields: Sequence[Fields]
    is_graded: bool = False


def candidates(asked: RequestedResources, machines: GpuInventory) -> Iterator[Candidates]:
    """What might be asked for instead, those kinds first that change least."""
    if asked.scarce == "memory":
        yield Candidates("less memory", [{"memory": f"{number}Gi"} for number in range(asked.amount - 1, 0, -1)], True)
    if asked.scarce == "cpu":
        yield Candidates("less cpu", [{"cpu": number} for number in range(asked.amount - 1, 0, -1)], True)
    if asked.gpu > 1 and not asked.is_shared:
        yield Candidates("fewer GPUs", [{"gpu": number} for number in range(asked.gpu - 1, 0, -1)], True)
    types = [name for name, counts in sorted(machines.get(asked.pool, {}).items()) if name and _has(counts, asked)]
    yield Candidates("another GPU type", [{"gpu-type": name} for name in types if name != asked.gpu_type][:_TRIED])
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
    """Other pools, with the same type where they have it."""
    for pool, types in sorted(machines.items()):
        fitting = [name for name, counts in sorted(types.items()) if _has(counts, asked)]
        if pool == asked.pool or not fitting:
            continue
        if asked.gpu_type is None or asked.gpu_type in fitting:
            yield {"pool": pool}
        else:
            yield from ({"pool": pool, "gpu-type": name or None} for name in fitting)


def _has(counts: list[int], asked: RequestedResources) -> bool:
    """Whether some node is large enough."""
    return any(count >= asked.gpu for count in counts)
