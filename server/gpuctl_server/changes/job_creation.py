"""Creation of what documents describe. A repeated request with the same key returns what the first one has created."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gpuctl.api.change_models import Submitted, SubmittedJob
from gpuctl.apply.plan.plan import WRITING, AlreadyExists, Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_variant import Variant
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Key, Object, annotations_of
from gpuctl.objects.ownership_metadata import is_ours
from gpuctl.usecases.changes.applying import apply_request
from gpuctl_server.access.caller import Caller
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.document_access import require_document_access, require_namespaces
from gpuctl_server.changes.plan_responses import VALIDATED, done_message, plan_answer, pool_created, require_all_done
from gpuctl_server.changes.plan_runs import PlanRun
from gpuctl_server.changes.submissions import Submission, compile_documents
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import merge_hidden
from gpuctl_server.lookups.job_lookups import sees_job
from gpuctl_server.mirror.job_board import id_of_workload
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE, MaxListAge
from gpuctl_server.service_context import Service


class SubmitRequest(NamedTuple):
    """A request to create what documents describe.

    :param key: the client's Idempotency-Key; None without one.
    :param queue: create jobs even if a quota is exhausted.
    :param profile: profile to merge into the documents.
    """

    text: str
    key: str | None = None
    queue: bool = False
    profile: str | None = None


def create(change: ChangeRequest, request: SubmitRequest) -> Submitted:
    """Create what documents describe; in a dry run check them, also by a dry run at the API server. The caller must
    call :func:`await_listed` afterwards.

    :raises Problem: 400, 403, 409.
    """
    with change.session(MaxListAge(READ_ONLY_AGE) if change.dry_run else None) as session:
        submission = submission_of(change, session, request, change.touched)
        return create_submitted(change, session, submission, request)


def create_submitted(
    change: ChangeRequest, session: Session, submission: Submission, request: SubmitRequest
) -> Submitted:
    """Create what compiled documents describe, unless the same request has already created it; in a dry run check them.

    :raises Problem: 403, 409.
    """
    service, caller = change.service, change.caller
    if change.dry_run:
        return _validate_submitted(change, session, submission)
    mark = _mark(caller, request)
    submission = _marked(submission, mark)
    plan = Plan()
    if request.key is None or not _is_created(service, caller, session, submission, mark):
        require_namespaces(caller, session, submission.documents)
        plan = _apply(change, session, submission, mark)
    return _submitted(submission, _created(service, session, submission, _waits(plan)), plan)


def _validate_submitted(change: ChangeRequest, session: Session, submission: Submission) -> Submitted:
    require_namespaces(change.caller, session, submission.documents)
    plan = _tried(change, session, submission)
    waits = _waits(plan)
    jobs = [_validated(document, waits.get(submission.main(document))) for document in submission.documents]
    return _submitted(submission, jobs, plan)


def _waits(plan: Plan) -> dict[Key | None, str]:
    """Return object key -> reason for which its job waits."""
    return {step.key: merge_hidden(step.waiting) for step in plan.steps if step.waits}


def submission_of(change: ChangeRequest, session: Session, request: SubmitRequest, touched: list[str]) -> Submission:
    """Compile the documents of a request, and check that the caller may create them.

    :param touched: receives the titles of the documents.
    :raises InvalidDocuments: the documents have errors.
    :raises Problem: 400, 403.
    """
    submission = compile_documents(
        change.service,
        change.caller,
        session,
        request.text,
        planning=PlanOptions(create_only=True, queue=request.queue),
        variant=Variant(request.profile),
    )
    touched += submission.titles
    require_document_access(change.caller, "create", submission.documents)
    return submission


def _mark(caller: Caller, request: SubmitRequest) -> str:
    """Return the annotation value that identifies a request: a hash of caller and key, and a hash of the documents."""
    given = secrets.token_hex(16) if request.key is None else _digest(f"{caller.name}\0{request.key}")
    return f"{given}.{_digest(request.text + (request.profile or ''))[:16]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _marked(submission: Submission, mark: str) -> Submission:
    wanted = submission.wanted
    return replace(submission, wanted=replace(wanted, request=replace(wanted.request, mark=mark)))


def _is_created(service: Service, caller: Caller, session: Session, submission: Submission, mark: str) -> bool:
    """Return True if this request has already created all jobs.

    :raises Problem: 409 for another request with the same key.
    """
    name = service.keys.request
    given = mark.partition(".")[0]
    live = session.each(session.get, submission.mains)
    known = [annotations_of(obj).get(name, "") for obj in live if obj is not None]
    others = (
        item.job.workload
        for item in service.board.now().jobs
        if sees_job(caller, item.row.identity.namespace, item.row.pools)
    )
    known += [annotations_of(obj).get(name, "") for obj in others if obj is not None]
    if any(text.partition(".")[0] == given and text != mark for text in known):
        raise Problem(
            409,
            say("other documents were sent with this Idempotency-Key; use a new key for each request"),
            error="IdempotencyKeyReused",
        )
    return bool(live) and all(obj is not None and annotations_of(obj).get(name) == mark for obj in live)


def _tried(change: ChangeRequest, session: Session, submission: Submission) -> Plan:
    try:
        return apply_request(session, submission.wanted, change.run_options(), PlanRun(change).callbacks)
    except AlreadyExists as error:
        raise _exists(error.plan.existing if error.plan else []) from None


def _apply(change: ChangeRequest, session: Session, submission: Submission, mark: str) -> Plan:
    plan = _tried(change, session, submission)
    lost = [step.key for step in plan.steps if step.action == "create" and step.result == "failed"]
    taken = [key for key in lost if _is_others(session.get(key), change.service.keys.request, mark)]
    if taken:
        raise _exists(
            taken, is_partly_done=any(step.result == "done" and step.action in WRITING for step in plan.steps)
        )
    require_all_done(plan)
    return plan


def _is_others(obj: Object | None, name: str, mark: str) -> bool:
    """Return True if another request has created the object."""
    return obj is not None and is_ours(obj) and annotations_of(obj).get(name) != mark


def _exists(keys: list[Key], *, is_partly_done: bool = False) -> Problem:
    hint = say("PUT /jobs/{{jobId}} changes what exists; nothing was changed by this request")
    if is_partly_done:
        hint = say("PUT /jobs/{{jobId}} changes what exists; other objects of this request were created")
    details = [{"kind": key.kind, "namespace": key.namespace, "name": key.name} for key in keys]
    return Problem(
        409,
        say("{objects} {number:exists/exist} already", objects=keys, number=len(keys)),
        error="AlreadyExists",
        details=details,
        hint=hint,
    )


def _created(
    service: Service, session: Session, submission: Submission, waits: dict[Key | None, str]
) -> list[SubmittedJob]:
    """Return the answer for each document from the current objects. ``waits``: key -> reason for which the job
    waits."""
    live = dict(zip(submission.mains, session.each(session.get, submission.mains), strict=True))
    return list(_answers(service, submission, live, waits))


def _answers(
    service: Service, submission: Submission, live: dict[Key, Object | None], waits: dict[Key | None, str]
) -> Iterator[SubmittedJob]:
    for document in submission.documents:
        key = submission.main(document)
        obj = live.get(key) if key is not None else None
        if key is None:
            kind, name = document.kind, document.name
            said = pool_created(name) if kind == "pool" else done_message(f"{kind}/{name}", "created")
            yield _answer(document, None, None, "created", said)
        elif obj is None:
            # The job was deleted between its creation and this read.
            raise Problem(409, say("{object} was deleted during this request", object=key))
        else:
            said = submitted(f"{document.kind}/{document.name}", _pool(document), waits.get(key))
            created = str(obj["metadata"]["creationTimestamp"])
            yield _answer(document, id_of_workload(obj, service.keys), created, "pending", said)


def submitted(job: str, pool: str | None, waits: str | None) -> Sentence:
    """Return the message about a job that was created.

    :param waits: the clause with what it waits for; None if it does not wait.
    """
    if waits is None:
        return say("{job} is submitted to the pool {pool}", job=job, pool=pool)
    return say("{job} is submitted to the pool {pool}; it {waits}", job=job, pool=pool, waits=waits)


def _validated(document: Document, waits: str | None) -> SubmittedJob:
    where = [say("; it would be submitted to the pool {pool}", pool=_pool(document))] if _pool(document) else []
    where += [say(", and {waits}", waits=waits)] if waits else []
    return _answer(
        document,
        None,
        None,
        VALIDATED,
        say(
            "{job} is valid{where}; nothing is created",
            job=f"{document.kind}/{document.name}",
            where="".join(where),
        ),
    )


def _answer(document: Document, job: str | None, created: str | None, status: str, said: str) -> SubmittedJob:
    return SubmittedJob(
        job_id=job,
        name=document.name,
        namespace=document.namespace or None,
        kind=document.kind,
        pool=_pool(document),
        status=status,
        created_at=created,
        message=said,
    )


def _pool(document: Document) -> str | None:
    return document.model.resources.pool if isinstance(document.model, Workload) else None


def _submitted(submission: Submission, jobs: list[SubmittedJob], plan: Plan) -> Submitted:
    several = {"jobs": jobs} if len(jobs) > 1 else {}
    value = plan_answer(plan)
    questions = value.questions if jobs[0].status == VALIDATED else []
    return Submitted(
        **jobs[0].model_dump(),
        **several,
        warnings=submission.warnings,
        notes=value.notes,
        questions=questions,
    )
