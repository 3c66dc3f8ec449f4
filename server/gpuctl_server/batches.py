"""Many submissions at once: each on its own, and what becomes of one changes nothing for the others."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl_server.access.caller import Caller
from gpuctl_server.change_values import Batch, BatchFailure, BatchItem
from gpuctl_server.changing import await_listed
from gpuctl_server.creating import Ask, create
from gpuctl_server.problems import Problem, problem_for
from gpuctl_server.service import Service

PATH = "/jobs/batch"
MOST = 100
"""Entries of a batch."""


def create_each(
    service: Service,
    caller: Caller,
    texts: Sequence[str],
    key: str | None,
    touched: list[str],
    *,
    confirmed: bool,
    queue: bool = False,
) -> Batch:
    """Create what each entry describes."""
    batch = Batch(success=[], failed=[])
    away: Problem | None = None
    for index, text in enumerate(texts):
        names: list[str] = []
        if away is None:
            problem = _created(service, caller, Ask(text, key and f"{key}\0{index}", confirmed, queue), names, batch)
        else:
            # Each would wait for a cluster that does not answer.
            problem = away
        touched += names
        if problem is not None:
            away = problem if problem.status == 503 else None
            batch.failed.append(
                BatchFailure(
                    index=index,
                    name=names[0].partition("/")[2].partition(" in ")[0] if names else None,
                    error=problem.error,
                    message=problem.message,
                    details=problem.details,
                )
            )
    await_listed(service, (item.jobId for item in batch.success))
    return batch


def _created(service: Service, caller: Caller, ask: Ask, names: list[str], batch: Batch) -> Problem | None:
    try:
        made = create(service, caller, ask, names)
    except Exception as error:
        return problem_for(error, PATH)
    batch.success += [BatchItem(jobId=job.jobId, name=job.name) for job in made.jobs or [made]]
    return None
