"""What became of jobs that were paused or resumed, as JSON."""

from __future__ import annotations

from typing import Any

from gpuctl.acts.pausing import Paused
from gpuctl.reading.job_rows import Job, job_id


def paused_value(job: Job, result: Paused) -> dict[str, Any]:
    """What became of a job that was paused or resumed."""
    return {
        "jobId": job_id(job),
        "name": job.identity.name,
        "namespace": result.key.namespace,
        "kind": job.identity.kind,
        "status": result.status,
        "changed": result.changed,
        "message": result.message,
    }
