"""Nodes that join and leave pools one by one, and the update of the pools' definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from gpuctl.acts.node_labels import (
    NodeChange,
    NodeChangeReport,
    UnexpectedNode,
    change_each,
    change_nodes,
    missing_node,
)
from gpuctl.apply.plan.plan import Refused
from gpuctl.apply.plan.pool_labels import held_labels, known_pools, labels_to_apply
from gpuctl.apply.state.managed_fields import applied_fields
from gpuctl.backend.emitter import emit_object
from gpuctl.hints import CREATE_POOL, OR_MOVE_NODE
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.not_found import no_such
from gpuctl.kube.session import MANAGER, Session
from gpuctl.kube.version_conflicts import retried_on_conflict
from gpuctl.language.names import DEFAULT_POOL, SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object, annotations_of, labels_of
from gpuctl.objects.companion_names import DATA_KEY, config_map_name, pool_definition, pool_of
from gpuctl.objects.embedded_document import document_of, document_text
from gpuctl.objects.label_managers import POOLS_MANAGER
from gpuctl.objects.ownership_metadata import PART_OF, Records, records, stamp


class PoolMove(NamedTuple):
    """A node that changed pools; None means no pool. ``gpu_type`` is its label, or ""."""

    node: str
    old: str | None
    new: str | None
    gpu_type: str


def add_to_pool(
    session: Session, names: Iterable[str], pool: str, settings: Settings, *, overwrite: bool = False
) -> NodeChangeReport:
    """Label nodes for a pool, as applying the pool would. A node of another pool stays there without ``overwrite``.

    :raises NotThere: the pool does not exist.
    """
    keys = records(settings)
    there = known_pools(session, settings, keys)
    if pool == DEFAULT_POOL:
        raise Refused(
            say(
                "{pool} has the nodes that are in no other pool: remove them from the one they are in",
                pool=DEFAULT_POOL,
            )
        )
    if pool not in there:
        raise no_such("pool", pool, there, say("{command} makes one", command=CREATE_POOL))

    report = change_each(session, names, lambda key: _join(session, key, pool, keys, overwrite=overwrite))
    update_definitions(session, report, settings)
    return report


def remove_from_pool(session: Session, names: Iterable[str], pool: str, settings: Settings) -> NodeChangeReport:
    """Remove a pool's label from nodes, whichever manager set it; the GPU type is a fact about the node and stays."""
    key = records(settings).pool

    def wanted(name: str, have: Mapping[str, str]) -> dict[str, str | None]:
        current = have.get(key)
        if current is None:
            raise UnexpectedNode("NodeNotInPool", say("node {name} is in no pool", name=name))
        if current != pool:
            raise UnexpectedNode(
                "NodeNotInPool",
                say("node {name} is not in pool {pool} but in {current}", name=name, pool=pool, current=current),
            )
        return {key: None}

    report = change_nodes(session, names, wanted, POOLS_MANAGER)
    report.done = [
        NodeChange(item.name, say("left pool {pool}", pool=pool), item.node, item.before) for item in report.done
    ]
    update_definitions(session, report, settings)
    return report


def update_definitions(session: Session, report: NodeChangeReport, settings: Settings) -> None:
    """Add the nodes that have joined to their pools' definitions, and remove those that have left.

    A failure becomes a note of the report: jobs select nodes by their labels, which are correct anyway.
    """
    keys = records(settings)
    moves = [move for move in (_move(item, keys, settings) for item in report.done) if move is not None]
    for pool in sorted({name for move in moves for name in (move.old, move.new) if name}):
        joined = {move.node: move.gpu_type for move in moves if move.new == pool}
        left = {move.node for move in moves if move.old == pool} - set(joined)
        try:
            written = retried_on_conflict(partial(_redefine, session, pool, joined, left, keys))
        except ClusterError as error:
            report.notes.append(
                say(
                    "the labels are correct, but the definition of pool {pool} (configmap/{name} in {namespace}) was "
                    "not changed: {error}",
                    pool=pool,
                    name=config_map_name(pool),
                    namespace=SYSTEM_NAMESPACE,
                    error=error.message,
                )
            )
            continue
        if written is not None:
            report.written.append(written)


def _move(done: NodeChange, keys: Records, settings: Settings) -> PoolMove | None:
    labels = labels_of(done.node)
    old, new = done.before.get(keys.pool), labels.get(keys.pool)
    return PoolMove(done.name, old if old != new else None, new, labels.get(settings.label("gpu-type"), ""))


def _join(session: Session, key: Key, pool: str, keys: Records, *, overwrite: bool) -> NodeChange:
    node = session.get(key)
    if node is None:
        raise missing_node(key.name)
    have = dict(labels_of(node))
    current = have.get(keys.pool)
    if current == pool:
        return NodeChange(key.name, say("is in pool {pool} already", pool=pool), node, have)
    if current and not overwrite:
        raise UnexpectedNode(
            "NodeInOtherPool", say("node {name} is in pool {pool}{how}", name=key.name, pool=current, how=OR_MOVE_NODE)
        )
    kept = {name: have[name] for name in held_labels(node) if name in have}
    desired = labels_to_apply(key, {**kept, keys.pool: pool}, node["metadata"]["uid"])
    # Another run of `add node` has the same field manager: without the version its pool would be overwritten.
    desired["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
    changed, _ = session.apply(desired, manager=POOLS_MANAGER, force=overwrite)
    said = (
        say("joined pool {pool}, left {other}", pool=pool, other=current)
        if current
        else say("joined pool {pool}", pool=pool)
    )
    return NodeChange(key.name, said, changed, have)


def _redefine(session: Session, pool: str, joined: Mapping[str, str], left: set[str], keys: Records) -> Object | None:
    """Write a pool's definition with other nodes, as applying the pool would. Return it; None if it needs no change.

    :raises ClusterError: the user may not write it, or another manager (such as Argo CD) holds it.
    """
    key = Key("ConfigMap", SYSTEM_NAMESPACE, config_map_name(pool))
    live = session.get(key)
    if live is None or pool_of(live, keys) != pool:
        return None
    desired = with_nodes(live, joined, left, keys)
    return None if desired is None else session.apply(desired)[0]


def with_nodes(live: Object, joined: Mapping[str, str], left: set[str], keys: Records) -> Object | None:
    """Return a pool's ConfigMap to apply; None if its nodes are correct already.

    :param joined: the nodes that have joined, and their GPU types; an entry that exists already stays.
    :raises ClusterError: the ConfigMap is damaged.
    """
    definition = pool_definition(live)
    nodes = _nodes(definition, joined, left)
    if nodes == (definition.get("nodes") or {}):
        return None
    held = applied_fields(live, MANAGER).get("f:metadata") or {}
    labels = _held(labels_of(live), held.get("f:labels"))
    annotations = _held(annotations_of(live), held.get("f:annotations"))
    part_of = labels.pop(PART_OF, None)
    for name in (keys.hash, keys.lowered_by):
        annotations.pop(name, None)
    if annotations.pop(keys.document, None) is not None:
        document = document_of(live, keys.document) or {}
        document["nodes"] = _nodes(document, joined, left)
        text = document_text(document, annotations)
        if text is not None:
            annotations[keys.document] = text
    metadata: Object = {"name": live["metadata"]["name"], "namespace": SYSTEM_NAMESPACE, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    data = {DATA_KEY: emit_object({**definition, "nodes": nodes})}
    result = stamp({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, keys, part_of)
    result["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    return result


def _nodes(document: Mapping[str, Any], joined: Mapping[str, str], left: set[str]) -> dict[str, Any]:
    nodes = document.get("nodes") or {}
    if not document or not isinstance(nodes, dict):
        raise ClusterError(say("it is damaged"), say("apply the pool's document again"))
    result = {name: entry for name, entry in nodes.items() if name not in left}
    for name, gpu_type in joined.items():
        result.setdefault(name, {"gpu-type": gpu_type})
    return result


def _held(values: Mapping[str, str], fields: Mapping[str, Any] | None) -> dict[str, str]:
    """Return those labels or annotations that gpuctl's apply holds; the others stay those of their managers."""
    return {key: value for key, value in values.items() if f"f:{key}" in (fields or {})}
