"""Labels of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.label_managers import label_entries


@dataclass(frozen=True)
class LabelRow:
    """One label of one node.

    Kubernetes stores when each field manager of a label last wrote to the node. So the label existed at ``created_at``
    (earliest manager) and has not changed since ``updated_at`` (latest manager). Both are None without a manager.
    """

    node: str
    key: str
    value: str
    created_at: str | None
    updated_at: str | None


def labels_with(nodes: Iterable[Object], key: str) -> list[LabelRow]:
    """Return a label of all nodes that have it, by node."""
    found = (label for node in nodes for label in node_labels(node) if label.key == key)
    return sorted(found, key=lambda label: label.node)


def node_labels(node: Object) -> list[LabelRow]:
    """Return all labels of a node, by key."""
    name = node["metadata"]["name"]
    return [LabelRow(name, key, value, *_times(node, key)) for key, value in sorted(labels_of(node).items())]


def _times(node: Object, key: str) -> tuple[str | None, str | None]:
    """Return the earliest and the latest write to the node by a manager of the label."""
    times = [str(entry["time"]) for entry in label_entries(node, key) if entry.get("time")]
    return min(times, default=None), max(times, default=None)
