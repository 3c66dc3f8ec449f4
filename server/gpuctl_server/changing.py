"""Changing jobs that are there, through the plans of the command line; and looking at plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gpuctl.answers.plan_answers import recovery_value
from gpuctl.apply.operations import Unasked, refuse
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.checkpointing import CheckpointManner
from gpuctl.backend.api_resources import Key, Object, key_of
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.job import Workload
from gpuctl.language.masking import redact
from gpuctl.language.settings import Settings
from gpuctl.reading.find import workload_of
from gpuctl.usecases.applying import apply_request, preview_request
from gpuctl.usecases.change_options import LONGEST_BY_SERVICE, PlanOptions, RunOptions
from gpuctl.usecases.conversation import Conversation
from gpuctl.usecases.deleting import delete_jobs, rerun_jobs
from gpuctl.usecases.looking import reader_of
from gpuctl.usecases.recovering import Unfinished, look_at_unfinished, recover
from gpuctl.usecases.suspending import PausedJob, pause_jobs, resume_jobs
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Action, Wish
from gpuctl_server.change_values import (
    ChangedJob,
    JobState,
    PlanAnswer,
    Recoveries,
    RerunJob,
    full_plan,
    see_that_all_was_done,
)
from gpuctl_server.lookups import demand, find_job, no_job
from gpuctl_server.mirror.job_board import ListedJob, id_of_workload
from gpuctl_server.problems import Problem, forbidden
from gpuctl_server.service import Service
from gpuctl_server.submissions import Submission, compile_documents, demand_documents, demand_homes, title_of

_LISTED_WITHIN = 2.0
"""Seconds until what was created is in the list of jobs, at most."""
_NAME_ONE = "name one of your namespaces with ?namespace="
_DONE = {"replace": "replaced", "update": "updated", "create": "created"}


class Meant(NamedTuple):
    """The job that a path means: its id, name or a pod's name, and where it is, as far as that was said."""

    text: str
    namespace: str | None = None


class Bringing(NamedTuple):
    """How a job's document is brought about: what its plan asks is ``confirmed``, what runs saves its progress by its
    ``checkpoint``; with ``dry_run`` nothing is written."""

    confirmed: bool
    checkpoint: bool
    dry_run: bool


@contextmanager
def changing(service: Service, caller: Caller) -> Iterator[Session]:
    """A session for a change, of which there are only so many at a time.

    :raises Problem: 429, or 503 when the service is to end.
    """
    if service.writes.is_ending():
        raise Problem(503, "the service ends; nothing was changed")
    if not service.writes.begin():
        raise Problem(429, "too many changes are under way; nothing was changed, try again in a moment")
    try:
        with service.asking(caller) as session:
            yield session
    finally:
        service.writes.done()


def await_listed(service: Service, ids: Iterable[str | None]) -> None:
    """Wait until jobs are in the list, so that whoever is given their ids can use them."""
    wanted = [one for one in ids if one is not None]
    service.board.wait_for(lambda board: all(one in board.ids for one in wanted), _LISTED_WITHIN)


def await_shown(service: Service, session: Session, key: Key) -> Object | None:
    """Wait until the list of jobs shows a workload as a change has left it: whoever made the change reads it.

    :returns: the workload as it is now; None when it has gone.
    """
    now = session.get(key)
    service.wait_until_seen([] if now is None else [now], [key] if now is None else [])
    version = service.mirror.version
    service.board.wait_for(lambda board: board.version >= version, _LISTED_WITHIN)
    return now


_CONFIRM = "nothing was changed; the same request with ?confirm=true confirms it"


def talking(service: Service, *, confirmed: bool = False, by: str = _CONFIRM) -> Conversation:
    """A conversation with somebody who has said beforehand whether a plan may go on, whatever it asks.

    :param by: how it is said.
    """

    def confirm(plan: Plan) -> bool:
        if plan.questions and not confirmed:
            error = Unasked(f"this has to be confirmed: {'; '.join(plan.questions)}", plan)
            error.hint = by
            raise error
        return True

    return Conversation(confirm=confirm, stops=service.writes.is_ending, longest_checkpoint=LONGEST_BY_SERVICE)


def pausing_with(
    service: Service, *, checkpoint: bool
) -> Callable[[Scope, Sequence[str], Settings], Iterator[PausedJob]]:
    """``pause_jobs`` as the service does it: where a checkpoint failed, the job is not paused."""
    manner = CheckpointManner(stops=service.writes.is_ending, longest=LONGEST_BY_SERVICE) if checkpoint else None
    return lambda scope, names, settings: pause_jobs(scope, names, settings, manner)


def resuming_with(
    caller: Caller, conversation: Conversation
) -> Callable[[Scope, Sequence[str], Settings], Iterator[PausedJob]]:
    """``resume_jobs`` as the service does it: of those whom the caller may not see nobody is named."""
    return lambda scope, names, settings: resume_jobs(scope, names, settings, conversation, caller.sees)


def plan_documents(service: Service, caller: Caller, text: str, *, queue: bool) -> PlanAnswer:
    """What applying documents would do; nothing is written.

    :raises Problem: 400, 403.
    """
    with service.asking(caller) as session:
        submission = compile_documents(service, caller, session, text, planning=PlanOptions(queue=queue))
        demand_documents(caller, "create", submission.documents, jobs="plans")
        return PlanAnswer(**full_plan(preview_request(session, submission.wanted, talking(service))))


def change_job(
    service: Service,
    caller: Caller,
    meant: Meant,
    text: str,
    touched: list[str],
    *,
    confirmed: bool,
    checkpoint: bool,
    dry_run: bool,
    queue: bool,
) -> ChangedJob:
    """Apply the changed document of a job that is there.

    :raises Problem: 400, 403, 404, 409.
    """
    item = _meant(service, caller, "update", meant, touched)
    with changing(service, caller) as session:
        _present(session, item, meant)
        home, planning = item.row.identity.namespace, PlanOptions(queue=queue)
        submission = compile_documents(service, caller, session, text, namespace=home, planning=planning)
        _see_that_it_is_the_same(submission, item)
        manner = Bringing(confirmed, checkpoint, dry_run)
        changed = bring_about(service, caller, session, submission, ("update",), manner)
    await_listed(service, [changed.jobId])
    return changed


def bring_about(
    service: Service,
    caller: Caller,
    session: Session,
    submission: Submission,
    actions: Iterable[Action],
    manner: Bringing,
) -> ChangedJob:
    """Apply the one document of a job, where somebody may do all of ``actions``.

    :raises Problem: 403, 409, 503.
    """
    for action in actions:
        demand_documents(caller, action, submission.documents)
    demand_homes(caller, session, submission.documents)
    key = submission.main(submission.documents[0])
    assert key is not None, "it is a job's"
    if manner.dry_run:
        plan = preview_request(session, submission.wanted, talking(service), checkpoint=manner.checkpoint)
        refuse(plan)
    else:
        run = RunOptions(checkpoint=manner.checkpoint)
        plan = apply_request(session, submission.wanted, run, talking(service, confirmed=manner.confirmed))
        see_that_all_was_done(plan)
    live = session.get(key) if manner.dry_run else await_shown(service, session, key)
    return _changed(service, submission, plan, live, dry_run=manner.dry_run)


def delete_job(
    service: Service, caller: Caller, meant: Meant, touched: list[str], *, force: bool, checkpoint: bool
) -> JobState:
    """Have a job deleted; its pods are not waited for.

    :raises Problem: 403, 404, 409.
    """
    item = _meant(service, caller, "delete", meant, touched)
    identity = item.row.identity
    with changing(service, caller) as session:
        live = _present(session, item, meant)
        run = RunOptions(force=force, until_gone=False, checkpoint=checkpoint)
        plan = delete_jobs(session, [identity.object_name], identity.namespace, service.platform, run, talking(service))
        see_that_all_was_done(plan)
        await_shown(service, session, key_of(live))
    ends = "its pods are ended without their grace period" if force else "its pods end within their grace period"
    return JobState(
        jobId=id_of_workload(live, service.keys),
        status="terminating",
        message=f"{_title(item)} is being deleted; {ends}",
    )


def pause_job(service: Service, caller: Caller, meant: Meant, touched: list[str], *, checkpoint: bool) -> JobState:
    """End a job's pods and keep the job.

    :raises Problem: 403, 404, 409.
    """
    act = pausing_with(service, checkpoint=checkpoint)
    return _suspended(service, caller, meant, touched, act)


def resume_job(service: Service, caller: Caller, meant: Meant, touched: list[str], *, confirmed: bool) -> JobState:
    """Let a paused job make its pods again.

    :raises Problem: 403, 404, 409.
    """
    act = resuming_with(caller, talking(service, confirmed=confirmed))
    return _suspended(service, caller, meant, touched, act)


def rerun_job(
    service: Service, caller: Caller, meant: Meant, touched: list[str], *, confirmed: bool, queue: bool
) -> RerunJob:
    """Run a training again that has ended.

    :raises Problem: 403, 404, 409.
    """
    item = _meant(service, caller, "update", meant, touched)
    identity = item.row.identity
    with changing(service, caller) as session:
        live = _present(session, item, meant)
        conversation = talking(service, confirmed=confirmed)
        plan = rerun_jobs(
            session,
            [identity.object_name],
            identity.namespace,
            service.platform,
            RunOptions(queue=queue),
            conversation,
            caller.sees,
        )
        see_that_all_was_done(plan)
        again = await_shown(service, session, key_of(live))
    identity_now = item.id if again is None else id_of_workload(again, service.keys)
    await_listed(service, [identity_now])
    return RerunJob(
        jobId=identity_now,
        status="pending",
        message=f"{_title(item)} runs again",
        plan=PlanAnswer(**full_plan(plan)),
    )


def unfinished(service: Service, caller: Caller, namespace: str | None) -> Recoveries:
    """What killed runs left.

    :raises Problem: 403.
    """
    namespace = _own_place(caller, namespace)
    with service.asking(caller) as session:
        found = left_of(service, caller, session, namespace)
    return _recoveries(found)


def finish(
    service: Service, caller: Caller, namespace: str | None, touched: list[str], *, confirmed: bool
) -> Recoveries:
    """Finish what killed runs left.

    :raises Problem: 403, 409.
    """
    namespace = _own_place(caller, namespace)
    with changing(service, caller) as session:
        found = left_of(service, caller, session, namespace)
        touched += [str(step.key) for step in found.outlook.steps]
        conversation = talking(service, confirmed=confirmed)
        return _recoveries(recover(session, namespace, service.platform, RunOptions(), conversation, found))


def _meant(service: Service, caller: Caller, action: Action, meant: Meant, touched: list[str]) -> ListedJob:
    item = find_job(service, caller, action, "jobs", meant.text, meant.namespace)
    touched.append(_title(item))
    return item


def _present(session: Session, item: ListedJob, meant: Meant) -> Object:
    """The main object of the job that was meant, as it is now: the list may be a moment old. An id means one object,
    a name the one that has it.

    :raises Problem: 404.
    """
    workload = workload_of(item.job)
    live = session.get(key_of(workload))
    named = meant.text in (item.row.identity.name, item.row.identity.object_name)
    if live is None or (live["metadata"]["uid"] != workload["metadata"]["uid"] and not named):
        raise no_job(meant.text, meant.namespace)
    return live


def _see_that_it_is_the_same(submission: Submission, item: ListedJob) -> None:
    """See that the documents describe one job, which is the one that is changed.

    :raises Problem: 400.
    """
    documents = submission.documents
    wanted = _title(item)
    if len(documents) != 1 or title_of(documents[0]) != wanted:
        found = ", ".join(submission.titles)
        raise Problem(400, f"the document has to be that of {wanted}, and is of {found}", error="AnotherJob")


def _changed(service: Service, submission: Submission, plan: Plan, live: Object | None, *, dry_run: bool) -> ChangedJob:
    actions = [step.action for step in plan.steps if not step.shared]
    done = next((word for action, word in _DONE.items() if action in actions), "unchanged")
    document = submission.documents[0]
    model = document.model
    assert isinstance(model, Workload)
    title = f"{document.kind}/{model.job.name}"
    said = f"{title} would be {done}; nothing is changed" if dry_run else f"{title} is {done}"
    return ChangedJob(
        jobId=None if live is None else id_of_workload(live, service.keys),
        name=model.job.name,
        namespace=document.namespace,
        kind=document.kind,
        pool=model.resources.pool,
        status="validated" if dry_run else done,
        createdAt=None if live is None else str(live["metadata"]["creationTimestamp"]),
        message=said,
        plan=PlanAnswer(**full_plan(plan)),
        warnings=submission.warnings,
    )


def _suspended(
    service: Service,
    caller: Caller,
    meant: Meant,
    touched: list[str],
    act: Callable[[Scope, Sequence[str], Settings], Iterator[PausedJob]],
) -> JobState:
    item = _meant(service, caller, "update", meant, touched)
    identity = item.row.identity
    with changing(service, caller) as session:
        live = _present(session, item, meant)
        scope = Scope(session, identity.namespace)
        done = next(act(scope, [f"{identity.kind}/{identity.object_name}"], service.platform))
        await_shown(service, session, key_of(live))
    return JobState(
        jobId=id_of_workload(live, service.keys),
        status=done.result.status,
        message=f"{_title(item)} {done.result.message}",
    )


def left_of(service: Service, caller: Caller, session: Session, namespace: str | None) -> Unfinished:
    """What killed runs left where somebody may see it; who may not see all of it has to say where.

    :raises Problem: 403.
    """
    demand(caller, Wish("get", "recoveries", namespace))
    found = look_at_unfinished(
        session, reader_of(session, service.platform, namespace).scope.namespace, service.platform
    )
    places = {journal.namespace for journal in found.outlook.journals}
    places |= {problem.namespace for problem in found.outlook.problems}
    if not all(map(caller.sees, places)):
        raise forbidden(_NAME_ONE)
    return found


def _own_place(caller: Caller, namespace: str | None) -> str | None:
    """The namespace that is meant where none was said: of several that are theirs one has to be named.

    :raises Problem: 403.
    """
    if namespace is not None or caller.namespaces is None:
        return namespace
    if len(caller.namespaces) != 1:
        raise forbidden(_NAME_ONE)
    return next(iter(caller.namespaces))


def _recoveries(found: Unfinished) -> Recoveries:
    value = recovery_value(found.outlook.steps, found.outlook.fallbacks, found.result, found.keys)
    return Recoveries(**value, questions=[redact(text) for text in found.plan.questions])


def _title(item: ListedJob) -> str:
    identity = item.row.identity
    return f"{identity.kind}/{identity.name} in {identity.namespace}"
