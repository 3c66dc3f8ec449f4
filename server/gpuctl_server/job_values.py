"""Jobs as the REST API has them: the fields of the command line's JSON that it names, with its own id."""

from __future__ import annotations

from typing import Any

from gpuctl_server.mirror.job_board import ListedJob


def job_item(item: ListedJob) -> dict[str, Any]:
    """An item of ``GET /jobs``."""
    row = item.row
    return {
        "jobId": item.id,
        "name": row.identity.name,
        "namespace": row.identity.namespace,
        "kind": row.identity.kind,
        "pool": row.pool,
        "status": row.status.phase,
        "reason": row.status.reason or None,
        "gpu": row.gpu,
        "gpuType": row.gpu_type,
        "createdAt": row.created_at,
        "startedAt": row.started_at,
        "progress": None,
    }
