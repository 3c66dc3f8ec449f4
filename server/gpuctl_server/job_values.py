"""Jobs as the REST API has them: the fields of the command line's JSON that it names, with its own id."""

from __future__ import annotations

from typing import Any

from gpuctl.api.job_answers import job_facts_value
from gpuctl.language.masking import masked
from gpuctl.reading.job_facts import JobFacts
from gpuctl_server.mirror.job_board import ListedJob

Metrics = dict[str, Any]


def job_item(item: ListedJob, progress: int | None, gpu_type: str | None) -> dict[str, Any]:
    """An item of ``GET /jobs``; ``progress`` in percent."""
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
        "gpuType": gpu_type,
        "createdAt": row.created_at,
        "startedAt": row.started_at,
        "appliedBy": row.applied_by,
        "progress": progress,
        "objectName": row.identity.object_name,
    }


def job_description(identity: str, facts: JobFacts, metrics: Metrics, gpu_type: str | None) -> dict[str, Any]:
    """``GET /jobs/{jobId}``, without credentials; ``identity`` is the jobId."""
    value = job_facts_value(facts)
    value |= {"jobId": identity, "status": value.pop("phase"), "metrics": metrics}
    value["resources"] = {key: value["resources"][key] for key in ("gpu", "gpuType", "cpu", "memory")}
    value["resources"]["gpuType"] = gpu_type
    found: dict[str, Any] = masked(value)
    return found
