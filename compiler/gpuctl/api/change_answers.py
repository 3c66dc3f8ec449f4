"""What became of changes that need no plan: labels of nodes, members of pools, jobs that are paused and resumed."""

from __future__ import annotations

from typing import Any

from gpuctl.acts.node_labels import Failure, Report
from gpuctl.acts.pausing import Paused
from gpuctl.reading.job_rows import Job, job_id


def report_value(report: Report, done: str) -> dict[str, Any]:
    """What became of several nodes.

    :param done: what was done, as a participle.
    """
    total = len(report.done) + len(report.failed)
    return {
        "success": [item.name for item in report.done],
        "failed": [_failure(item) for item in report.failed],
        "message": f"{len(report.done)} of {total} nodes {done}" + ("; see `failed`" if report.failed else ""),
        "notes": report.notes,
    }


def report_code(report: Report) -> int:
    """The exit code: 0, 1 when a node could not be done, 3 when that is the cluster's fault."""
    if not report.failed:
        return 0
    return 3 if any(item.is_outage for item in report.failed) else 1


def _failure(item: Failure) -> dict[str, str]:
    return {"nodeName": item.name, "error": item.error, "message": item.text}


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
