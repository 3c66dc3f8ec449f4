"""Changes of several jobs given by name. All are resolved and checked before the first one is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gpuctl.api.change_answers import PausedJobs, paused_job
from gpuctl.api.change_models import RerunJob
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.job_deletion import no_such_job
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.hints import IN_NAMESPACE
from gpuctl.kube.api_errors import ClusterError, NotPossible
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAINING_FORMS, Key
from gpuctl.reading.jobs.job_lookup import JobNotFound, find_job
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.job_rows import job_row, platform_keys
from gpuctl.usecases.changes.deleting import delete_jobs
from gpuctl.usecases.changes.named_trainings import TrainingChange, change_trainings, rerun
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.job_changes import JobRef, await_listed, job_words
from gpuctl_server.changes.job_pausing import (
    SuspendFunction,
    dry_run_message,
    pausing_with,
    resuming_with,
    suspend_each,
)
from gpuctl_server.changes.job_revisions import listed_job, rerun_removed
from gpuctl_server.changes.plan_responses import VALIDATED, plan_answer, unchanged_message
from gpuctl_server.changes.plan_runs import PlanRun, await_seen
from gpuctl_server.http.http_problems import problem_of
from gpuctl_server.http.merged_answers import visible_job_filter
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.mirror.job_board import id_of_workload


def delete_named_jobs(
    change: ChangeRequest, names: Sequence[str], namespace: str | None, run: RunOptions
) -> PlanAnswer:
    """Delete jobs, and wait until they are gone.

    :raises Problem: 403, 404, 409, 503.
    """
    return _carried_out(change, "delete", delete_jobs, names, namespace, run)


def rerun_named_jobs(
    change: ChangeRequest, names: Sequence[str], namespace: str | None, run: RunOptions, *, failed: bool = False
) -> PlanAnswer:
    """Run finished trainings again. A deleted training must be the only one named.

    :param failed: run only the indexes of arrays that have not succeeded.
    :raises Problem: 403, 404, 409, 503.
    """
    try:
        return change_named_jobs(change, rerun(failed=failed), names, namespace, run)
    except JobNotFound as absent:
        if len(names) > 1 or failed:
            raise
        return rerun_removed(change, JobRef(names[0], namespace), run, absent)


def rerun_job(change: ChangeRequest, ref: JobRef, *, queue: bool, failed: bool) -> RerunJob:
    """Run a finished training again, as :func:`rerun_named_jobs`.

    :raises Problem: 403, 404, 409, 503.
    """
    item = listed_job(change.service, change.caller, ref)
    namespace = ref.namespace if item is None else item.row.identity.namespace
    plan = rerun_named_jobs(change, [ref.text], namespace, change.run_options(queue=queue), failed=failed)
    title = f"training/{ref.text}" if item is None else job_words(item)
    job = ref.text if item is None else item.id
    if change.dry_run:
        said = unchanged_message(say("{job} would run again", job=title))
        return RerunJob(job_id=job, status=VALIDATED, message=said, plan=plan)
    keys = [Key(step.kind, step.namespace or "", step.name) for step in plan.steps if step.kind in TRAINING_FORMS]
    # A second session of the change could be refused with 429, although the training runs again.
    with change.service.live_session(change.caller) as session:
        for again in filter(None, await_seen(change.service, session, keys).values()):
            job = id_of_workload(again, change.service.keys)
    await_listed(change.service, [job])
    return RerunJob(job_id=job, status="pending", message=say("{job} runs again", job=title), plan=plan)


def change_named_jobs(
    change: ChangeRequest, what: TrainingChange, names: Sequence[str], namespace: str | None, run: RunOptions
) -> PlanAnswer:
    """Carry out a change of trainings, such as starting runs or scaling.

    :raises Problem: 403, 404, 409, 503.
    """
    sees = visible_job_filter(change.caller)
    return _carried_out(change, "update", partial(change_trainings, change=what, sees=sees), names, namespace, run)


def pause_named_jobs(
    change: ChangeRequest, names: Sequence[str], namespace: str | None, *, checkpoint: bool
) -> PausedJobs:
    """Pause jobs one after another.

    :raises Problem: 403, 404, 409; ``items`` are the jobs that were paused before the error.
    """
    act = pausing_with(change, checkpoint=checkpoint)
    return _suspended(change, names, namespace, act, checkpoint=checkpoint)


def resume_named_jobs(change: ChangeRequest, names: Sequence[str], namespace: str | None) -> PausedJobs:
    """Resume paused jobs one after another.

    :raises Problem: 403, 404, 409; ``items`` are the jobs that were resumed before the error.
    """
    plans: list[Plan] = []
    answer = _suspended(change, names, namespace, resuming_with(change, plans))
    for plan in plans:
        answer.plan = plan_answer(plan)
    return answer


def _suspended(
    change: ChangeRequest,
    names: Sequence[str],
    namespace: str | None,
    act: SuspendFunction,
    *,
    checkpoint: bool = False,
) -> PausedJobs:
    answer = PausedJobs(items=[])
    with change.session() as session:
        jobs = _resolve_jobs(change, "update", names, namespace)
        try:
            for done in suspend_each(change, session, jobs, act):
                item = paused_job(done.job, done.result)
                if change.dry_run:
                    item.message = dry_run_message(change, done, item.message, checkpoint=checkpoint)
                    item.status = VALIDATED
                answer.items.append(item)
        except ClusterError as error:
            problem = problem_of(error)
            if problem is None or not answer.items:
                raise
            problem.more |= answer.as_json()
            raise problem from None
    return answer


def _carried_out(
    change: ChangeRequest,
    action: Action,
    use_case: Callable[..., Plan],
    names: Sequence[str],
    where: str | None,
    run: RunOptions,
) -> PlanAnswer:
    """Execute a use case for jobs that must all be in one namespace."""
    with change.session() as session:
        namespaces = {job.identity.namespace for job in _resolve_jobs(change, action, names, where)}
        if len(namespaces) > 1:
            hint = say("name the jobs of one namespace at a time, {how}", how=IN_NAMESPACE)
            raise NotPossible(say("these jobs are in several namespaces"), hint)
        (namespace,) = namespaces
        platform = change.service.platform
        return PlanRun(change).execute(
            session,
            lambda callbacks: use_case(
                session, names=names, namespace=namespace, settings=platform, run=run, callbacks=callbacks
            ),
        )


def _resolve_jobs(change: ChangeRequest, action: Action, names: Sequence[str], where: str | None) -> list[Job]:
    """Return the named jobs, after checking that the caller may change them."""
    service, caller = change.service, change.caller
    require_access(caller, AccessRequest(action, "jobs", where))
    known = platform_keys(service.platform, service.keys)
    jobs = []
    with service.read_context(caller, where) as reader:
        for name in names:
            try:
                job, _ = find_job(reader.scope, name, reader.keys)
            except JobNotFound:
                if action != "delete" or "/" in name:
                    raise
                raise no_such_job(name, where) from None
            identity = job.identity
            require_access(caller, AccessRequest(action, "jobs", identity.namespace, job_row(job, known).pool))
            change.touched.append(f"{identity.title} in {identity.namespace}")
            jobs.append(job)
    return jobs
