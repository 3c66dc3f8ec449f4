"""Arrays that run again without the indexes that have finished.

The Job controller never runs an index that `status.completedIndexes` contains. A new Job gets this field before it
starts: it is created suspended, and held back from its queue. The annotation keeps the indexes until then, so that
`gpuctl resume` starts a Job whose creation was interrupted. Source: k8s.io/kubernetes
pkg/controller/job/indexed_job_utils.go, calculateSucceededIndexes.
"""

from __future__ import annotations

import copy

from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import QUEUE_LABEL, Object, annotations_of, key_of
from gpuctl.objects.array_jobs import count_indexes
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, HELD_QUEUE
from gpuctl.objects.queueing import hold, queue_of


def create_remaining(session: Session, obj: Object) -> None:
    """Create an array that runs only the indexes without an entry in its annotation."""
    held = copy.deepcopy(obj)
    held["spec"]["suspend"] = True
    hold(held)
    live = session.create(held)
    report_finished_indexes(session, live)
    queue = queue_of(live)
    patch: Object = {"metadata": {"annotations": {FINISHED_INDEXES: None, HELD_QUEUE: None}}}
    if queue:
        patch["metadata"]["labels"] = {QUEUE_LABEL: queue}
    if not queue or kueue_resources(session) is None:
        patch["spec"] = {"suspend": False}
    session.patch(key_of(live), patch)


def report_finished_indexes(session: Session, live: Object) -> None:
    """Write the finished indexes of a suspended array into its status, if its annotation has any."""
    listed = annotations_of(live).get(FINISHED_INDEXES)
    if listed and not (live.get("status") or {}).get("completedIndexes"):
        status = {"completedIndexes": listed, "succeeded": count_indexes(listed)}
        session.patch_at(f"{key_of(live).path}/status", {"status": status})
