"""The history of a job's documents, and applying an earlier one again, within the caller's rights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpuctl.api.change_models import ChangedJob
from gpuctl.api.job_history import HistoryAnswer, JobDocuments, JobRevision
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.kube.session import Session
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.reading.jobs.document_history import DocumentHistory
from gpuctl.reading.jobs.job_lookup import JobNotFound
from gpuctl.reading.jobs.job_lookup import find_job as find_by_name
from gpuctl.usecases.changes.document_rollback import (
    as_rollback,
    choose_target,
    history_of_absent,
    live_document,
    removed_training,
)
from gpuctl.usecases.queries.job_queries import document_history
from gpuctl.usecases.queries.read_context import ReadContext, context_of
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.job_changes import JobRef, apply_job, apply_submission, await_listed
from gpuctl_server.changes.submissions import Submission, compile_documents
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.lookups.job_lookups import find_job, require_access, sees_job
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service_context import Service


def visible_history(service: Service, caller: Caller, reader: ReadContext, name: str) -> DocumentHistory:
    """Return the history of a job that the caller may see.

    :param reader: a read context of the caller; receives the notes about the history.
    :raises NoSuchJob: no job, or several jobs, have the name.
    :raises Problem: 403 for a given namespace.
    """
    namespace = reader.scope.namespace
    require_access(caller, AccessRequest("get", "jobs", namespace))
    if namespace is None:
        try:
            namespace = find_by_name(reader.scope, name, reader.keys)[0].identity.namespace
        except JobNotFound:
            # A deleted job still has a history. It is searched in the default namespace of the caller.
            namespace = caller.home or service.namespace
            if not caller.sees(namespace):
                raise

    def shows(document: dict[str, Any]) -> bool:
        """Return True if the caller may see the document's pools: earlier documents may name other pools."""
        pool = (document.get("resources") or {}).get("pool") or DEFAULT_POOL
        roles = [role for role in document.get("roles") or () if isinstance(role, dict)]
        own = [(role.get("resources") or {}).get("pool") or pool for role in roles]
        return sees_job(caller, namespace, own or [pool])

    with service.live_session(caller) as session:
        live = context_of(session, service.platform, namespace)
        found = document_history(live, name, shows)
    reader.scope.take_notes(live.scope)
    return found


def earlier_document(
    service: Service,
    caller: Caller,
    session: Session,
    history: DocumentHistory,
    to: int | None,
    planning: PlanOptions,
    *,
    again: bool = False,
) -> Submission:
    """Compile an earlier document, and check that the caller may submit it: another user may have applied it.

    :param again: use the last document of a deleted training, to run it again.
    """
    if again:
        target = removed_training(history)
    else:
        live = live_document(session, history, service.keys)
        target = choose_target(history, live, to)
    submission = compile_documents(
        service,
        caller,
        session,
        "",
        namespace=history.namespace,
        planning=planning,
        sources=[target.source],
        are_here=True,
    )
    return replace(submission, wanted=as_rollback(submission.wanted, target))


def job_documents(service: Service, caller: Caller, ref: JobRef) -> JobDocuments:
    """Return the applied documents of a job, newest first.

    :raises Problem: 403, 404, 409.
    """
    history, notes = _history(service, caller, ref)
    return JobDocuments(**dict(HistoryAnswer.of(history)), notes=notes)


def job_revision(service: Service, caller: Caller, ref: JobRef, revision: int) -> JobRevision:
    """Return one revision of a job, with its document.

    :raises NotThere: the revision is not kept.
    :raises Problem: 403, 404, 409.
    """
    history, _ = _history(service, caller, ref)
    return JobRevision.of(history.row(revision))


def rerun_removed(change: ChangeRequest, ref: JobRef, run: RunOptions, absent: JobNotFound) -> PlanAnswer:
    """Create a deleted training again from its last document.

    :param absent: the error that no job has its name.
    :raises JobNotFound: it has no history that the caller may read.
    :raises Problem: 403, 409, 503.
    """
    with change.service.read_context(change.caller, ref.namespace) as reader:
        history = history_of_absent(absent, lambda: visible_history(change.service, change.caller, reader, ref.text))
    with change.session() as session:
        submission = _last_document(change, session, history, run)
        return apply_submission(change, session, submission, ("create", "update"), run)


def _last_document(change: ChangeRequest, session: Session, history: DocumentHistory, run: RunOptions) -> Submission:
    planning = PlanOptions(queue=run.queue)
    submission = earlier_document(change.service, change.caller, session, history, None, planning, again=True)
    change.touched.extend(submission.titles)
    return submission


def roll_back(change: ChangeRequest, ref: JobRef, to: int | None, planning: PlanOptions, run: RunOptions) -> ChangedJob:
    """Apply an earlier document of a job again.

    :raises NotThere: the revision is not kept.
    :raises Problem: 403, 404, 409.
    """
    history, _ = _history(change.service, change.caller, ref)
    with change.session() as session:
        submission = earlier_document(change.service, change.caller, session, history, to, planning)
        change.touched.extend(submission.titles)
        changed = apply_job(change, session, submission, ("create", "update"), run)
    await_listed(change.service, [changed.job_id])
    return changed


def _history(service: Service, caller: Caller, ref: JobRef) -> tuple[DocumentHistory, Iterable[str]]:
    """Return the history of the job that a path names, and notes for the user. A deleted job is found by its name
    only."""
    item = listed_job(service, caller, ref)
    name = ref.text if item is None else item.row.identity.title
    namespace = ref.namespace if item is None else item.row.identity.namespace
    with service.read_context(caller, namespace) as reader:
        return visible_history(service, caller, reader, name), reader.scope.notes


def listed_job(service: Service, caller: Caller, ref: JobRef) -> ListedJob | None:
    """Return the job that a path names; None if the caller sees no such job.

    :raises Problem: 403, 409, 503.
    """
    try:
        return find_job(service, caller, "get", "jobs", ref.text, ref.namespace)
    except Problem as problem:
        if problem.status != 404:
            raise
        return None
