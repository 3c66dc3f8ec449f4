"""Labels of nodes, and nodes of pools, as the command line sets them as a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpuctl.acts.membership import add_to_pool, remove_from_pool
from gpuctl.acts.node_labels import Done, LabelTerms, Report
from gpuctl.kube.absent import no_such
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import labels_of
from gpuctl_server.access.rights import Action, Wish
from gpuctl_server.changing import changing
from gpuctl_server.command_line import Asked
from gpuctl_server.labelling import label
from gpuctl_server.lookups import demand
from gpuctl_server.node_lookups import pool_filter


def label_nodes(asked: Asked, nodes: list[str], labels: dict[str, str | None], overwrite: bool) -> Report:
    """Set labels of nodes, or delete them (None)."""
    actions: list[Action] = ["delete"] if None in labels.values() else []
    actions += ["create"] if any(value is not None for value in labels.values()) else []
    for action in actions:
        demand(asked.caller, Wish(action, "labels"))
    asked.touched.extend([*(f"node/{name}" for name in nodes), *(f"label/{key}" for key in labels)])
    terms = LabelTerms(overwrite)
    return _told(label(asked.service, asked.caller, actions[-1], nodes, labels, terms, asked.touched))


def add_nodes(asked: Asked, nodes: list[str], pool: str, overwrite: bool) -> Report:
    """Add nodes to a pool."""
    _demand_nodes(asked, pool, nodes)
    with changing(asked.service, asked.caller) as session:
        asked.touched.begin()
        report = add_to_pool(session, nodes, pool, asked.service.platform, overwrite=overwrite)
    return _seen(asked, report)


def remove_nodes(asked: Asked, nodes: list[str], pool: str) -> Report:
    """Remove nodes from a pool."""
    _demand_nodes(asked, pool, nodes)
    with changing(asked.service, asked.caller) as session:
        asked.touched.begin()
        report = remove_from_pool(session, nodes, pool, asked.service.platform)
    return _seen(asked, report)


def _demand_nodes(asked: Asked, pool: str, names: Sequence[str]) -> None:
    """See that somebody may change a pool, and the nodes: those of pools that are not theirs are not there.

    :raises Problem: 403.
    :raises NotThere: there is no such node.
    """
    demand(asked.caller, Wish("update", "pools", pool=pool))
    asked.touched.extend([f"pool/{pool}", *(f"node/{name}" for name in names)])
    takes, key = pool_filter(asked.caller, "update", "pools"), asked.service.keys.pool
    with asked.service.looking(None) as everything:
        nodes = everything.scope.all("Node")
    visible = {node["metadata"]["name"] for node in nodes if takes(labels_of(node).get(key) or DEFAULT_POOL)}
    # For whom there are all, what is not there is told of each node by itself.
    for name in names if len(visible) < len(nodes) else ():
        if name not in visible:
            raise no_such("node", name, visible)


def _seen(asked: Asked, report: Report) -> Report:
    asked.service.wait_until_seen([*(done.node for done in report.done), *report.written])
    return _told(report)


def _told(report: Report) -> Report:
    """A report without what is not printed of it."""
    done = [Done(item.name, item.text, {}, {}) for item in report.done]
    return Report(done, [replace(item, cause=None) for item in report.failed], report.notes)


NODE_CHANGES: dict[str, Callable[..., Any]] = {
    "label-nodes": label_nodes,
    "add-nodes": add_nodes,
    "remove-nodes": remove_nodes,
}
"""Name of a change of nodes -> what carries it out."""
