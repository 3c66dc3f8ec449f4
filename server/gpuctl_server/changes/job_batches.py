"""Batches of submissions. Each entry succeeds or fails on its own; all of them share one list of pods and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.api.change_models import Batch, BatchFailure, BatchItem, Submitted
from gpuctl.apply.plan.batch_fit import BatchFit
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.job_changes import await_listed
from gpuctl_server.changes.job_creation import SubmitRequest, create_submitted, submission_of
from gpuctl_server.changes.submissions import Submission
from gpuctl_server.http.http_problems import Problem, problem_for
from gpuctl_server.mirror.shared_lists import MaxListAge

PATH = "/jobs/batch"
MOST = 100
"""Maximum number of entries of a batch."""
_LOOKBACK = 60.0
"""Maximum age of the pod and node lists that entries share, seconds."""


class _Entry(NamedTuple):
    """An entry: its request, the titles of its documents, and the compiled documents or the problem."""

    request: SubmitRequest
    names: list[str]
    compiled: Submission | Problem


def create_each(change: ChangeRequest, texts: Sequence[str], key: str | None, *, queue: bool = False) -> Batch:
    """Create the documents of each entry; in a dry run only check them."""
    max_age = MaxListAge(_LOOKBACK)
    requests = [SubmitRequest(text, key and f"{key}\0{index}", queue) for index, text in enumerate(texts)]
    with change.service.live_session(change.caller, max_age) as session:
        entries = [_compiled(change, session, request) for request in requests]
    fits = BatchFit(dict(_objects(entries)))
    batch = Batch(success=[], failed=[])
    away: Problem | None = None
    for index, entry in enumerate(entries):
        change.touched.extend(entry.names)
        # The cluster is unreachable. Further entries would wait for it in vain.
        found = away or _made(change, entry, fits, max_age)
        if isinstance(found, Submitted):
            batch.success += _items(found)
            continue
        fits.leave_out(index)
        away = found if found.status == 503 else None
        batch.failed.append(
            BatchFailure(
                index=index,
                name=entry.names[0].partition("/")[2].partition(" in ")[0] if entry.names else None,
                error=found.error,
                message=found.message,
                details=found.details,
            )
        )
    if not change.dry_run:
        await_listed(change.service, (item.job_id for item in batch.success))
    return batch


def _compiled(change: ChangeRequest, session: Session, request: SubmitRequest) -> _Entry:
    names: list[str] = []
    try:
        return _Entry(request, names, submission_of(change, session, request, names))
    except Exception as error:
        return _Entry(request, names, problem_for(error, PATH))


def _objects(entries: Sequence[_Entry]) -> Iterator[tuple[int, list[Object]]]:
    """Yield the index and the objects of each entry that compiles."""
    for index, entry in enumerate(entries):
        if isinstance(entry.compiled, Submission):
            yield index, [item.object for item in entry.compiled.wanted.request.lowered]


def _made(change: ChangeRequest, entry: _Entry, fits: BatchFit, max_age: MaxListAge) -> Submitted | Problem:
    if isinstance(entry.compiled, Problem):
        return entry.compiled
    wanted = entry.compiled.wanted
    submission = replace(entry.compiled, wanted=replace(wanted, request=replace(wanted.request, batch=fits)))
    try:
        with change.session(max_age) as session:
            return create_submitted(change, session, submission, entry.request)
    except Exception as error:
        return problem_for(error, PATH)


def _items(made: Submitted) -> list[BatchItem]:
    shared = {"notes": made.notes, "questions": made.questions, "warnings": made.warnings}
    return [BatchItem(job_id=job.job_id, name=job.name, message=job.message, **shared) for job in made.jobs or [made]]
