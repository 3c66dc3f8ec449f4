"""The labels that documents set on nodes, and those that they remove."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.companion_names import pool_of
from gpuctl.objects.ownership_metadata import Records


def labels_by_node(objects: Iterable[Object]) -> dict[str, Mapping[str, str | None]]:
    """Return node -> labels that objects set; None for a label that they remove."""
    return {obj["metadata"]["name"]: labels_of(obj) for obj in objects if obj["kind"] == "Node"}


def labels_with(item: Object, planned: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
    """Return the labels of a snapshot's node after a plan."""
    labels = {**(item.get("labels") or {}), **planned.get(item["name"], {})}
    return {key: value for key, value in labels.items() if value is not None}


def with_removed_labels(snapshot: Snapshot, objects: Iterable[Object], keys: Records) -> list[Object]:
    """Return the objects of documents with the labels that applying them removes from nodes.

    As with ``apply``, a node leaves a pool whose document does not name it. Other labels of pools are removed if the
    document does not state them. A label that another manager has set stays.
    """
    objects = list(objects)
    stated, pools = labels_by_node(objects), {pool_of(obj, keys) for obj in objects} - {None}
    result = [obj for obj in objects if obj["kind"] != "Node"]
    for item in snapshot.nodes:
        name, held = item["name"], item.get("poolLabels") or ()
        leaves = keys.pool in held and (item.get("labels") or {}).get(keys.pool) in pools
        if name in stated or leaves:
            labels = {**dict.fromkeys(held), **stated.get(name, {})}
            result.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    return result
