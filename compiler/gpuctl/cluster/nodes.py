"""Pools' labels on nodes: server-side apply by a manager of its own, so that nothing else of a node is touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from gpuctl.backend.context import Lowered
from gpuctl.backend.pool import DATA_KEY
from gpuctl.cluster.compare import Change, applied_fields
from gpuctl.cluster.connection import Connection
from gpuctl.cluster.errors import ApiError
from gpuctl.cluster.plan import Plan, Step
from gpuctl.cluster.records import Records
from gpuctl.cluster.resources import Key, Object, key_of, labels_of
from gpuctl.cluster.survey import Survey

POOLS_MANAGER = "gpuctl-pools"


def plan_nodes(
    connection: Connection, plan: Plan, lowered: Iterable[Lowered], live: Survey, keys: Records, *, adopt: bool
) -> Iterator[Step]:
    """A step for each node that a pool names, and for each that has left its pool."""
    wanted = {key_of(item.object): item for item in lowered if item.object["kind"] == "Node"}
    for key, item in wanted.items():
        title = f"pool/{item.object['metadata']['labels'][keys.pool]}"
        if key in live.unreadable:
            yield Step("skip", key, live.unreadable[key], shared=True, title=title)
        elif key not in live.objects:
            plan.notes.append(f"{title}: there is no node {key.name} in the cluster; it is labelled when it has joined")
            yield Step("skip", key, "not in the cluster", shared=True, title=title)
        else:
            yield _label(key, item.object["metadata"]["labels"], live.objects[key], title, adopt=adopt)
    leaving = [key for key in _former_nodes(lowered, live) if key not in wanted]
    for key in sorted(leaving):
        node = _read(connection, key)
        if node is None:
            continue
        title = f"pool/{labels_of(node).get(keys.pool, '')}"
        if held_labels(node):
            step = _label(key, {}, node, title, adopt=False)
            step.reason = "leaves the pool"
            yield step
        elif keys.pool in labels_of(node):
            stays = "; ".join(released(node, [keys.pool]))
            plan.notes.append(f"node {key.name} leaves the pool, but {stays}")


def labels_to_apply(key: Key, labels: dict[str, str], uid: str) -> Object:
    """What is sent for a node; with its uid, so that an absent node is a conflict and not a phantom."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name, "uid": uid, "labels": labels}}


def released(node: Object, labels: Iterable[str]) -> list[str]:
    """Which of the labels that were let go are still there, with the managers that hold them."""
    result = []
    for label in labels:
        if label in labels_of(node):
            holders = [
                str(entry.get("manager"))
                for entry in node["metadata"].get("managedFields") or []
                if f"f:{label}" in ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels", {})
            ]
            result.append(f"label {label} stays: {' and '.join(holders) or 'somebody else'} set it too")
    return result


def held_labels(node: Object) -> list[str]:
    """The labels that pools put on a node."""
    held = (applied_fields(node, POOLS_MANAGER).get("f:metadata") or {}).get("f:labels") or {}
    return [name.removeprefix("f:") for name in held if name != "."]


def _label(key: Key, labels: dict[str, str], node: Object, title: str, *, adopt: bool) -> Step:
    have = labels_of(node)
    changed = {name: value for name, value in labels.items() if have.get(name) != value}
    gone = [name for name in held_labels(node) if name not in labels]
    if not changed and not gone:
        return Step("unchanged", key, live=node, shared=True, title=title)
    changes = [Change(f"metadata.labels[{name}]", have.get(name), value) for name, value in changed.items()]
    changes += [Change(f"metadata.labels[{name}]", have.get(name), None) for name in gone]
    return Step(
        "update",
        key,
        ", ".join(
            f"{change.path[16:-1].split('/')[-1]} {change.old or '-'} -> {change.new or '-'}" for change in changes
        ),
        desired=labels_to_apply(key, labels, node["metadata"]["uid"]),
        live=node,
        method="labels",
        changes=changes,
        title=title,
        shared=True,
        adopt=adopt,
    )


def _said(change: Change) -> str:
    name = change.path.rpartition("/")[2].rstrip("]")
    return f"{name} {change.new}" if change.old is None else f"{name} {change.old} -> {change.new or 'none'}"


def _former_nodes(lowered: Iterable[Lowered], live: Survey) -> list[Key]:
    """Nodes that the live definitions of the applied pools name."""
    names: dict[str, None] = {}
    for item in lowered:
        obj = live.objects.get(key_of(item.object))
        if obj is None or obj["kind"] != "ConfigMap" or DATA_KEY not in (obj.get("data") or {}):
            continue
        try:
            definition = yaml.safe_load(obj["data"][DATA_KEY])
        except yaml.YAMLError:
            continue
        former = definition.get("nodes") if isinstance(definition, dict) else None
        names.update(dict.fromkeys(str(name) for name in former or {}))
    return [Key("Node", "", name) for name in names]


def _read(connection: Connection, key: Key) -> Object | None:
    try:
        return connection.get(key)
    except ApiError as error:
        if error.lacks_permission:
            return None
        raise
