"""Setting and deleting labels of nodes, by the rules of the command line and within the caller's rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl.acts.node_labels import LabelTerms, NodeChangeFailure, NodeChangeReport, UnexpectedNode
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import Sentence, say
from gpuctl.usecases.changes.label_nodes import check_labels, label_nodes
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.http.http_problems import Problem, forbidden
from gpuctl_server.lookups.node_lookups import pool_filter

_STATUS = {"NodeNotFound": 404, "LabelNotFound": 404, "LabelConflict": 409, "Forbidden": 403}


def set_node_labels(
    change: ChangeRequest,
    action: Action,
    names: Iterable[str],
    labels: Mapping[str, str | None],
    *,
    overwrite: bool = False,
) -> NodeChangeReport:
    """Set labels of nodes, or delete them (None), and wait until the mirror has the changed nodes.

    :param overwrite: replace other values.
    :raises InvalidOptions: a key or value is invalid in Kubernetes.
    :raises Problem: 403 for a key that the service does not set, 429, 503.
    """
    service, caller = change.service, change.caller
    check_labels(labels)
    for key in labels:
        problem = service.label_keys.problem(key, is_limited=caller.is_confined)
        if problem is not None:
            raise forbidden(problem)
    visible = pool_filter(caller, "get", "nodes")

    def pool_of(have: Mapping[str, str]) -> str:
        return have.get(service.keys.pool) or DEFAULT_POOL

    def permits(name: str, after: Mapping[str, str]) -> None:
        decision = caller.may(AccessRequest(action, "labels", None, pool_of(after)))
        if not decision.allowed:
            raise UnexpectedNode("Forbidden", f"node {name}: {decision.message}")

    terms = LabelTerms(overwrite, shows=lambda have: visible(pool_of(have)), permits=permits)
    with change.session() as session:
        change.touched.begin()
        report = label_nodes(session, names, labels, service.platform, terms)
    return await_nodes(change, report)


def await_nodes(change: ChangeRequest, report: NodeChangeReport) -> NodeChangeReport:
    """Return a report after the mirror has the changed nodes."""
    if not change.dry_run:
        change.service.wait_until_seen([*(done.node for done in report.done), *report.written])
    return report


def set_node_label(
    change: ChangeRequest, action: Action, name: str, key: str, value: str | None, *, overwrite: bool = False
) -> tuple[str, list[str]]:
    """Set a label of one node, or delete it (None). Return a message, and notes.

    :raises Problem: 404 for a node or label that does not exist, 409 for another value, 403.
    :raises ClusterError: the API server rejected the change.
    """
    report = set_node_labels(change, action, [name], {key: value}, overwrite=overwrite)
    for failed in report.failed:
        raise failed.cause or _problem(failed)
    (done,) = report.done
    if not change.dry_run:
        return label_changed(name, value, done.text), report.notes
    said = say("node {name}: {text}; nothing is changed (dry run)", name=name, text=done.text)
    return said, report.notes


def label_changed(node: str, value: str | None, text: str) -> Sentence:
    """Return the message about a label that was set, or deleted (None).

    :param text: the change in English.
    """
    if value is None:
        return say("node {node}: {deleted}", node=node, deleted=text)
    return say("node {node}: {set}", node=node, set=text)


def _problem(failed: NodeChangeFailure) -> Problem:
    return Problem(_STATUS[failed.error], failed.message, error=failed.error, hint=failed.hint)
