"""Changes of existing jobs, and recovery of interrupted runs, through the plans of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpuctl.api.change_models import ChangedJob, JobState
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.api.recovery_answers import Recoveries
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.frontend.document_variant import Variant
from gpuctl.hints import IN_NAMESPACE
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Object, key_of
from gpuctl.reading.jobs.job_lookup import workload_of
from gpuctl.usecases.changes.applying import apply_request
from gpuctl.usecases.changes.deleting import delete_jobs
from gpuctl.usecases.changes.run_recovery import UnfinishedRecovery, read_unfinished, recover
from gpuctl.usecases.queries.read_context import context_of
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.document_access import qualified_title, require_document_access, require_namespaces
from gpuctl_server.changes.plan_responses import (
    VALIDATED,
    done_message,
    plan_answer,
    require_all_done,
    unchanged_message,
)
from gpuctl_server.changes.plan_runs import LISTED_WITHIN, PlanRun, await_seen
from gpuctl_server.changes.submissions import Submission, compile_documents
from gpuctl_server.http.http_problems import Problem, forbidden
from gpuctl_server.lookups.job_lookups import find_job, job_not_found, require_access
from gpuctl_server.mirror.job_board import ListedJob, id_of_workload
from gpuctl_server.service_context import Service

_NAME_ONE = Template("name one of your namespaces {how}")
_DONE = {"replace": "replaced", "update": "updated", "create": "created"}


class JobRef(NamedTuple):
    """A reference to a job: its id, its name, or the name of one of its pods, with a namespace if the request has
    one."""

    text: str
    namespace: str | None = None


def await_listed(service: Service, ids: Iterable[str | None]) -> None:
    """Wait until the list shows the jobs with these ids, so that the client can change them."""
    wanted = [one for one in ids if one is not None]
    service.board.wait_for(lambda board: all(map(board.shows, wanted)), LISTED_WITHIN)


def change_job(
    change: ChangeRequest, ref: JobRef, text: str, *, checkpoint: bool, queue: bool, profile: str | None = None
) -> ChangedJob:
    """Apply the changed document of an existing job.

    :raises Problem: 400, 403, 404, 409.
    """
    with open_job(change, "update", ref) as opened:
        home, planning = opened.item.row.identity.namespace, PlanOptions(queue=queue)
        submission = compile_documents(
            change.service,
            change.caller,
            opened.session,
            text,
            namespace=home,
            planning=planning,
            variant=Variant(profile),
        )
        _require_same_job(submission, opened.item)
        changed = apply_job(change, opened.session, submission, ("update",), change.run_options(checkpoint=checkpoint))
    await_listed(change.service, [changed.job_id])
    return changed


def apply_submission(
    change: ChangeRequest,
    session: Session,
    submission: Submission,
    actions: Iterable[Action],
    run: RunOptions,
    messages: Iterable[str] = (),
) -> PlanAnswer:
    """Apply documents if the caller may do all of ``actions``.

    :param messages: first messages of the answer.
    :raises Problem: 403, 409, 503.
    """
    for action in actions:
        require_document_access(change.caller, action, submission.documents)
    require_namespaces(change.caller, session, submission.documents)
    return PlanRun(change, messages).execute(
        session,
        lambda callbacks: apply_request(session, submission.wanted, run, callbacks),
        warnings=submission.warnings,
    )


def apply_job(
    change: ChangeRequest, session: Session, submission: Submission, actions: Iterable[Action], run: RunOptions
) -> ChangedJob:
    """Apply the single document of a job, as :func:`apply_submission` does."""
    plan = apply_submission(change, session, submission, actions, run)
    key = submission.main(submission.documents[0])
    assert key is not None, "it is a job's"
    live = session.get(key) if change.dry_run else await_seen(change.service, session, [key]).get(key)
    return _changed(change.service, submission, plan, live, dry_run=change.dry_run)


def delete_job(change: ChangeRequest, ref: JobRef, *, force: bool, checkpoint: bool) -> JobState:
    """Delete a job, without waiting until its pods are gone.

    :raises Problem: 403, 404, 409.
    """
    service = change.service
    run = change.run_options(force=force, until_gone=False, checkpoint=checkpoint)
    with open_job(change, "delete", ref) as opened:
        plan = delete_jobs(opened.session, *opened.name, service.platform, run, PlanRun(change).callbacks)
        if not change.dry_run:
            require_all_done(plan)
            await_seen(service, opened.session, [key_of(opened.live)])
    job, title = id_of_workload(opened.live, service.keys), job_words(opened.item)
    when = say("without their grace period") if force else say("within their grace period")
    if change.dry_run:
        said = unchanged_message(say("{job} would be deleted, and its pods ended {when}", job=title, when=when))
        return JobState(job_id=job, status=VALIDATED, message=said, plan=plan_answer(plan))
    ends = say("its pods are ended") if force else say("its pods end")
    deleted = say("{job} is being deleted; {ends} {when}", job=title, ends=ends, when=when)
    return JobState(job_id=job, status="terminating", message=deleted, notes=plan.notes or None)


def list_unfinished(service: Service, caller: Caller, namespace: str | None) -> Recoveries:
    """Return the unfinished work of interrupted runs.

    :raises Problem: 403.
    """
    namespace = _own_place(caller, namespace)
    with service.live_session(caller) as session:
        found = find_unfinished(service, caller, session, namespace)
    return found.answer


def finish_unfinished(change: ChangeRequest, namespace: str | None, run: RunOptions) -> Recoveries:
    """Finish the work of interrupted runs.

    :raises Problem: 403, 409.
    """
    service, caller = change.service, change.caller
    namespace = _own_place(caller, namespace)
    require_access(caller, AccessRequest("create", "recoveries", namespace))
    with change.session() as session:
        found = find_unfinished(service, caller, session, namespace)
        change.touched.extend(str(step.key) for step in found.outlook.steps)
        if change.dry_run:
            return found.answer
        change.touched.begin()
        return recover(session, namespace, service.platform, run, PlanRun(change).callbacks, found).answer


class OpenedJob(NamedTuple):
    """A job that a change is about: its row, its main object, and the session of the change."""

    item: ListedJob
    live: Object
    session: Session

    @property
    def name(self) -> tuple[list[str], str]:
        """Return the job's name, in a list, and its namespace."""
        identity = self.item.row.identity
        return [identity.object_name], identity.namespace


@contextmanager
def open_job(change: ChangeRequest, action: Action, ref: JobRef) -> Iterator[OpenedJob]:
    """Find the job of a path, add its title to the audit trail, and open the session of the change.

    :raises Problem: 403, 404, 409, 429, 503.
    """
    item = find_job(change.service, change.caller, action, "jobs", ref.text, ref.namespace)
    change.touched.append(title_of_job(item))
    with change.session() as session:
        yield OpenedJob(item, live_workload(session, item, ref), session)


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
    if len(documents) != 1 or qualified_title(documents[0]) != wanted:
        raise Problem(
            400,
            say("the document must describe {wanted}, not {found}", wanted=wanted, found=submission.titles),
            error="AnotherJob",
        )


def _changed(
    service: Service, submission: Submission, plan: PlanAnswer, live: Object | None, *, dry_run: bool
) -> ChangedJob:
    actions = [step.action for step in plan.steps if not step.shared]
    done = next((word for action, word in _DONE.items() if action in actions), "unchanged")
    document = submission.documents[0]
    model = document.model
    assert isinstance(model, Workload)
    title = f"{document.kind}/{model.job.name}"
    return ChangedJob(
        job_id=None if live is None else id_of_workload(live, service.keys),
        name=model.job.name,
        namespace=document.namespace,
        kind=document.kind,
        pool=model.resources.pool,
        status=VALIDATED if dry_run else done,
        created_at=None if live is None else str(live["metadata"]["creationTimestamp"]),
        message=done_message(title, done, dry_run=dry_run),
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
        raise forbidden(say(_NAME_ONE, how=IN_NAMESPACE))
    return found


def _own_place(caller: Caller, namespace: str | None) -> str | None:
    """Return the given namespace, else the caller's only one; None if the caller has no list of namespaces.

    :raises Problem: 403 if the caller has several.
    """
    if namespace is not None or caller.namespaces is None:
        return namespace
    if len(caller.namespaces) != 1:
        raise forbidden(say(_NAME_ONE, how=IN_NAMESPACE))
    return next(iter(caller.namespaces))


def job_words(item: ListedJob) -> Sentence:
    """Return the title of a job in a sentence."""
    identity = item.row.identity
    return say("{job} in {namespace}", job=identity.title, namespace=identity.namespace)


def title_of_job(item: ListedJob) -> str:
    """Return the title of a job, as in the audit and in errors."""
    identity = item.row.identity
    return f"{identity.title} in {identity.namespace}"
