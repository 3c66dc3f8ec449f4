"""Records that a notebook with ``stop_after`` is used through ``gpuctl exec`` or ``gpuctl port-forward``.

Jupyter does not see either. The time is an annotation of the notebook's object, which everyone may write who may change
the notebook.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, annotations_of, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.timestamps import format_timestamp

_EVERY = 300.0
"""Seconds between two records."""
_PATIENCE = 5.0
"""Maximum seconds to wait for an unfinished record at the end."""


@contextmanager
def recorded_use(session: Session, workload: Object | None, keys: Records) -> Iterator[None]:
    """Record the use of a notebook while the block runs; other jobs are not changed."""
    if workload is None or keys.stop_after not in annotations_of(workload):
        yield
        return
    ended = threading.Event()
    record = threading.Thread(target=_record, args=(session, workload, keys, ended), daemon=True, name="gpuctl-use")
    record.start()
    try:
        yield
    finally:
        ended.set()
        # A short command may end before the request is sent.
        record.join(_PATIENCE)


def _record(session: Session, workload: Object, keys: Records, ended: threading.Event) -> None:
    # The uid makes the patch fail for a notebook that was created again.
    uid = workload["metadata"]["uid"]
    while True:
        # A user who may not change the notebook can use it all the same.
        with suppress(ClusterError):
            annotations = {keys.last_used: format_timestamp(session.server_time())}
            session.patch(key_of(workload), {"metadata": {"uid": uid, "annotations": annotations}})
        if ended.wait(_EVERY):
            return
