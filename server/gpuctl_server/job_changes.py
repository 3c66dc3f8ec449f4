"""Changes of existing jobs, and recovery of interrupted runs, through the plans of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpuctl.api.change_models import ChangedJob, JobState, RerunJob
from gpuctl.api.plan_answers import PlanAnswer, Recoveries, recovery_fields
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.frontend.variants import Variant
from gpuctl.kube.session import Session
from gpuctl.language.masking import redact
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Key, Object, key_of
from gpuctl.reading.job_lookup import workload_of
from gpuctl.usecases.applying import apply_request
from gpuctl.usecases.change_options import PlanOptions
from gpuctl.usecases.deleting import delete_jobs, rerun_jobs
from gpuctl.usecases.read_context import context_of
from gpuctl.usecases.run_recovery import UnfinishedRecovery, read_unfinished, recover
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.audit import AuditTrail
from gpuctl_server.fair_slots import NoFreeSlot
from gpuctl_server.http_problems import Problem, forbidden
from gpuctl_server.job_lookups import find_job, job_not_found, require_access
from gpuctl_server.mirror.job_board import ListedJob, id_of_workload
from gpuctl_server.mirror.shared_lists import MaxListAge
from gpuctl_server.plan_responses import NOTHING, VALIDATED, plan_answer, require_all_done
from gpuctl_server.plan_runs import LISTED_WITHIN, Confirmation, PlanRun
from gpuctl_server.redaction import visible_job_filter
from gpuctl_server.service_context import Service
from gpuctl_server.submissions import (
    Submission,
    compile_documents,
    require_document_access,
    require_namespaces,
    title_of,
)

_NAME_ONE = "name one of your namespaces with `?namespace=`"
_DONE = {"replace": "replaced", "update": "updated", "create": "created"}


class JobRef(NamedTuple):
    """A reference to a job: its id, its name, or the name of one of its pods, with a namespace if the request has
    one."""

    text: str
    namespace: str | None = None


@contextmanager
def change_session(
    service: Service, caller: Caller, max_age: MaxListAge | None = None, *, dry_run: bool = False
) -> Iterator[Session]:
    """Open a session for a change, within the limit of concurrent changes.

    :param max_age: maximum age of the lists of all pods and nodes.
    :param dry_run: write nothing; requests to the API server are dry runs as well.
    :raises Problem: 429 above the limit, 503 during shutdown.
    """
    if service.change_slots.is_ending():
        raise Problem(503, "the service is shutting down; nothing was changed")
    try:
        service.change_slots.begin(caller.name)
    except NoFreeSlot as full:
        text = "too many changes of this token are running" if full.is_own else "too many changes are running"
        raise Problem(429, f"{text}; nothing was changed, try again in a moment") from None
    try:
        with service.live_session(caller, max_age, dry_run=dry_run) as session:
            yield session
    finally:
        service.change_slots.done(caller.name)


def await_listed(service: Service, ids: Iterable[str | None]) -> None:
    """Wait until the list of jobs has these ids, so that the client can use them."""
    wanted = [one for one in ids if one is not None]
    service.board.wait_for(lambda board: all(one in board.ids for one in wanted), LISTED_WITHIN)


def await_shown(service: Service, session: Session, key: Key) -> Object | None:
    """Wait until the list of jobs shows the current state of a workload, so that the client reads its own change.

    :returns: the workload; None if it does not exist.
    """
    now = session.get(key)
    service.wait_until_seen([] if now is None else [now], [key] if now is None else [])
    version = service.mirror.version
    service.board.wait_for(lambda board: board.version >= version, LISTED_WITHIN)
    return now


def change_job(
    service: Service,
    caller: Caller,
    ref: JobRef,
    text: str,
    touched: AuditTrail,
    *,
    confirmed: bool,
    checkpoint: bool,
    dry_run: bool,
    queue: bool,
    profile: str | None = None,
) -> ChangedJob:
    """Apply the changed document of an existing job.

    :raises Problem: 400, 403, 404, 409.
    """
    item = resolve_job(service, caller, "update", ref, touched)
    with change_session(service, caller, dry_run=dry_run) as session:
        live_workload(session, item, ref)
        home, planning = item.row.identity.namespace, PlanOptions(queue=queue)
        submission = compile_documents(
            service, caller, session, text, namespace=home, planning=planning, variant=Variant(profile)
        )
        _require_same_job(submission, item)
        run = RunOptions(checkpoint=checkpoint, dry_run=dry_run)
        plan_run = PlanRun(service, touched, Confirmation(confirmed))
        changed = apply_job(service, caller, session, submission, ("update",), run, plan_run)
    await_listed(service, [changed.jobId])
    return changed


def apply_submission(
    service: Service,
    caller: Caller,
    session: Session,
    submission: Submission,
    actions: Iterable[Action],
    run: RunOptions,
    plan_run: PlanRun,
) -> PlanAnswer:
    """Apply documents if the caller may do all of ``actions``.

    :raises Problem: 403, 409, 503.
    """
    for action in actions:
        require_document_access(caller, action, submission.documents)
    require_namespaces(caller, session, submission.documents)
    return plan_run.execute(
        session,
        lambda callbacks: apply_request(session, submission.wanted, run, callbacks),
        dry_run=run.dry_run,
        warnings=submission.warnings,
    )


def apply_job(
    service: Service,
    caller: Caller,
    session: Session,
    submission: Submission,
    actions: Iterable[Action],
    run: RunOptions,
    plan_run: PlanRun,
) -> ChangedJob:
    """Apply the single document of a job, as :func:`apply_submission` does."""
    plan = apply_submission(service, caller, session, submission, actions, run, plan_run)
    key = submission.main(submission.documents[0])
    assert key is not None, "it is a job's"
    live = session.get(key) if run.dry_run else await_shown(service, session, key)
    return _changed(service, submission, plan, live, dry_run=run.dry_run)


def delete_job(
    service: Service, caller: Caller, ref: JobRef, touched: AuditTrail, *, force: bool, checkpoint: bool, dry_run: bool
) -> JobState:
    """Delete a job, without waiting until its pods are gone.

    :raises Problem: 403, 404, 409.
    """
    item = resolve_job(service, caller, "delete", ref, touched)
    identity = item.row.identity
    with change_session(service, caller, dry_run=dry_run) as session:
        live = live_workload(session, item, ref)
        run = RunOptions(force=force, until_gone=False, checkpoint=checkpoint, dry_run=dry_run)
        callbacks = PlanRun(service, touched).callbacks
        plan = delete_jobs(session, [identity.object_name], identity.namespace, service.platform, run, callbacks)
        if not dry_run:
            require_all_done(plan)
            await_shown(service, session, key_of(live))
    job = id_of_workload(live, service.keys)
    when = "without their grace period" if force else "within their grace period"
    if dry_run:
        said = f"{title_of_job(item)} would be deleted, and its pods ended {when}; {NOTHING}"
        return JobState(jobId=job, status=VALIDATED, message=said, plan=plan_answer(plan))
    ends = "its pods are ended" if force else "its pods end"
    return JobState(jobId=job, status="terminating", message=f"{title_of_job(item)} is being deleted; {ends} {when}")


def rerun_job(
    service: Service,
    caller: Caller,
    ref: JobRef,
    touched: AuditTrail,
    *,
    confirmed: bool,
    queue: bool,
    dry_run: bool,
    failed: bool = False,
) -> RerunJob:
    """Run a finished training again, with ``failed`` only the indexes of an array that have not succeeded.

    :raises Problem: 403, 404, 409.
    """
    item = resolve_job(service, caller, "update", ref, touched)
    identity = item.row.identity
    with change_session(service, caller, dry_run=dry_run) as session:
        live = live_workload(session, item, ref)
        callbacks = PlanRun(service, touched, Confirmation(confirmed)).callbacks
        plan = rerun_jobs(
            session,
            [identity.object_name],
            identity.namespace,
            service.platform,
            RunOptions(queue=queue, dry_run=dry_run),
            callbacks,
            visible_job_filter(caller),
            failed=failed,
        )
        if dry_run:
            return RerunJob(
                jobId=item.id,
                status=VALIDATED,
                message=f"{title_of_job(item)} would run again; {NOTHING}",
                plan=plan_answer(plan),
            )
        require_all_done(plan)
        again = await_shown(service, session, key_of(live))
    identity_now = item.id if again is None else id_of_workload(again, service.keys)
    await_listed(service, [identity_now])
    return RerunJob(
        jobId=identity_now,
        status="pending",
        message=f"{title_of_job(item)} runs again",
        plan=plan_answer(plan),
    )


def list_unfinished(service: Service, caller: Caller, namespace: str | None) -> Recoveries:
    """Return the unfinished work of interrupted runs.

    :raises Problem: 403.
    """
    namespace = _own_place(caller, namespace)
    with service.live_session(caller) as session:
        found = find_unfinished(service, caller, session, namespace)
    return _recoveries(found)


def finish_unfinished(
    service: Service,
    caller: Caller,
    namespace: str | None,
    touched: AuditTrail,
    run: RunOptions,
    confirmation: Confirmation,
) -> Recoveries:
    """Finish the work of interrupted runs.

    :raises Problem: 403, 409.
    """
    namespace = _own_place(caller, namespace)
    require_access(caller, AccessRequest("create", "recoveries", namespace))
    with change_session(service, caller, dry_run=run.dry_run) as session:
        found = find_unfinished(service, caller, session, namespace)
        touched += [str(step.key) for step in found.outlook.steps]
        if run.dry_run:
            return _recoveries(found)
        touched.begin()
        callbacks = PlanRun(service, None, confirmation).callbacks
        return _recoveries(recover(session, namespace, service.platform, run, callbacks, found))


def resolve_job(service: Service, caller: Caller, action: Action, ref: JobRef, touched: AuditTrail) -> ListedJob:
    """Find the job of a path, and add its title to ``touched``.

    :raises Problem: 403, 404, 409, 503.
    """
    item = find_job(service, caller, action, "jobs", ref.text, ref.namespace)
    touched.append(title_of_job(item))
    return item


def live_workload(session: Session, item: ListedJob, ref: JobRef) -> Object:
    """Return the current main object of a job; the list may be older. An id stands for one object, a name for the
    object that has it now.

    :raises Problem: 404.
    """
    workload = workload_of(item.job)
    live = session.get(key_of(workload))
    named = ref.text in (item.row.identity.name, item.row.identity.object_name)
    if live is None or (live["metadata"]["uid"] != workload["metadata"]["uid"] and not named):
        raise job_not_found(ref.text, ref.namespace)
    return live


def _require_same_job(submission: Submission, item: ListedJob) -> None:
    """Check that the text has one document, and that it describes the job.

    :raises Problem: 400.
    """
    documents = submission.documents
    wanted = title_of_job(item)
    if len(documents) != 1 or title_of(documents[0]) != wanted:
        found = ", ".join(submission.titles)
        raise Problem(400, f"the document must describe {wanted}, not {found}", error="AnotherJob")


def _changed(
    service: Service, submission: Submission, plan: PlanAnswer, live: Object | None, *, dry_run: bool
) -> ChangedJob:
    actions = [step.action for step in plan.steps if not step.shared]
    done = next((word for action, word in _DONE.items() if action in actions), "unchanged")
    document = submission.documents[0]
    model = document.model
    assert isinstance(model, Workload)
    title = f"{document.kind}/{model.job.name}"
    said = f"{title} would be {done}; {NOTHING}" if dry_run else f"{title} is {done}"
    return ChangedJob(
        jobId=None if live is None else id_of_workload(live, service.keys),
        name=model.job.name,
        namespace=document.namespace,
        kind=document.kind,
        pool=model.resources.pool,
        status=VALIDATED if dry_run else done,
        createdAt=None if live is None else str(live["metadata"]["creationTimestamp"]),
        message=said,
        plan=plan,
        warnings=submission.warnings,
    )


def find_unfinished(service: Service, caller: Caller, session: Session, namespace: str | None) -> UnfinishedRecovery:
    """Return the unfinished work that the caller may see. A caller who may not see all of it must name a namespace.

    :raises Problem: 403.
    """
    require_access(caller, AccessRequest("get", "recoveries", namespace))
    found = read_unfinished(session, context_of(session, service.platform, namespace).scope.namespace, service.platform)
    places = {journal.namespace for journal in found.outlook.journals}
    places |= {problem.namespace for problem in found.outlook.problems}
    if not all(map(caller.sees, places)):
        raise forbidden(_NAME_ONE)
    return found


def _own_place(caller: Caller, namespace: str | None) -> str | None:
    """Return the given namespace, else the caller's only one; None if the caller has no list of namespaces.

    :raises Problem: 403 if the caller has several.
    """
    if namespace is not None or caller.namespaces is None:
        return namespace
    if len(caller.namespaces) != 1:
        raise forbidden(_NAME_ONE)
    return next(iter(caller.namespaces))


def _recoveries(found: UnfinishedRecovery) -> Recoveries:
    outlook = found.outlook
    value = recovery_fields(outlook.steps, outlook.fallbacks, found.result, found.keys)
    questions = [redact(text) for text in found.plan.questions]
    return Recoveries(**value, questions=questions, journals=len(outlook.journals), working=outlook.working)


def title_of_job(item: ListedJob) -> str:
    """Return the title of a job, as in messages and the audit."""
    identity = item.row.identity
    return f"{identity.kind}/{identity.name} in {identity.namespace}"
