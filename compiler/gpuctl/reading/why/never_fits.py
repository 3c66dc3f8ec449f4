"""Rules for jobs that wait for a quota or in a queue although no node could ever take them."""

from __future__ import annotations

from dataclasses import replace

from gpuctl.capacity.snapshot.snapshot_entries import SCHEDULER
from gpuctl.language.sentences import say
from gpuctl.reading.why import node_selection, node_shortage, pod_refusals, queue_causes
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.pending_pods import PendingPods, scheduler_of, uncreated_pods


def refused(evidence: Evidence) -> Finding | None:
    """Pods are rejected (:func:`pod_refusals.refused`). That they never fit is reported before a full quota."""
    return _instead(evidence, pod_refusals.refused(evidence), "quota-exceeded")


def queued(evidence: Evidence) -> Finding | None:
    """Kueue holds the job back (:func:`queue_causes.queued`). That it never fits is reported before its place in the
    queue.
    """
    return _instead(evidence, queue_causes.queued(evidence), "queued")


def _instead(evidence: Evidence, held: Finding | None, cause: str) -> Finding | None:
    if held is None or held.cause != cause or (cause == "queued" and queue_causes.may_add_nodes(evidence)):
        return held
    for pending in uncreated_pods(evidence):
        if not _is_judged(pending):
            continue
        found = node_selection.pool(pending) or node_selection.selector(pending) or node_shortage.too_large(pending)
        if found is not None:
            message = say("{found}; besides, {held}", found=found.message, held=held.message)
            return replace(found, message=message, sources=(*found.sources, *held.sources), pod=None)
    return held


def _is_judged(pending: PendingPods) -> bool:
    """Return True if nodes report all that matters: a node has what the pod requests, and the default scheduler places
    it.
    """
    assert pending.cluster is not None
    is_shown = pending.incoming.pod.requests.keys() <= pending.cluster.reported_resources
    return (
        bool(pending.node_infos) and is_shown and not pending.unreported_room and scheduler_of(pending.pod) == SCHEDULER
    )
