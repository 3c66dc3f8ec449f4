"""Many submissions at once: each on its own, and what becomes of one changes nothing for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gpuctl_server.access.caller import Caller
from gpuctl_server.audit import AuditTrail
from gpuctl_server.change_values import Batch, BatchFailure, BatchItem, Submitted
from gpuctl_server.changing import await_listed
from gpuctl_server.creating import Ask, create, validate
from gpuctl_server.mirror.survey import Lookback
from gpuctl_server.problems import Problem, problem_for
from gpuctl_server.service import Service

PATH = "/jobs/batch"
MOST = 100
"""Entries of a batch."""
_LOOKBACK = 15.0
"""Seconds for which the entries of a batch share a list of all pods: each entry would read it anew."""


def create_each(
    service: Service,
    caller: Caller,
    texts: Sequence[str],
    key: str | None,
    touched: AuditTrail,
    *,
    confirmed: bool,
    queue: bool = False,
    dry_run: bool = False,
) -> Batch:
    """Create what each entry describes, or with ``dry_run`` only check it."""
    act = validate if dry_run else create
    batch = Batch(success=[], failed=[])
    away: Problem | None = None
    lookback = Lookback(_LOOKBACK)
    for index, text in enumerate(texts):
        before = len(touched)
        if away is None:
            ask = Ask(text, key and f"{key}\0{index}", confirmed, queue)
            problem = _created(partial(act, service, caller, ask, touched, lookback), batch)
        else:
            # Each would wait for a cluster that does not answer.
            problem = away
        names = touched[before:]
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
    if not dry_run:
        await_listed(service, (item.jobId for item in batch.success))
    return batch


def _created(act: Callable[[], Submitted], batch: Batch) -> Problem | None:
    try:
        made = act()
    except Exception as error:
        return problem_for(error, PATH)
    shared = {"notes": made.notes, "questions": made.questions, "warnings": made.warnings}
    batch.success += [
        BatchItem(jobId=job.jobId, name=job.name, message=job.message, **shared) for job in made.jobs or [made]
    ]
    return None
