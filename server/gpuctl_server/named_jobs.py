"""Changes of several jobs given by name. All are resolved and checked before the first one is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gpuctl.api.change_answers import PausedJobs, paused_job
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.job_deletion import no_such_job
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.hints import IN_NAMESPACE
from gpuctl.kube.api_errors import ClusterError, NotPossible
from gpuctl.kube.scope import Scope
from gpuctl.reading.document_history import NoHistory
from gpuctl.reading.job_lookup import JobNotFound, find_job
from gpuctl.reading.job_rows import Job, job_row, platform_keys
from gpuctl.usecases.deleting import delete_jobs, rerun_jobs
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.audit import AuditTrail
from gpuctl_server.http_problems import problem_of
from gpuctl_server.job_changes import JobRef, change_session
from gpuctl_server.job_lookups import require_access
from gpuctl_server.job_pausing import SuspendFunction, pausing_with, resuming_with
from gpuctl_server.job_revisions import rerun_removed
from gpuctl_server.plan_responses import NOTHING, VALIDATED, dry_run_message
from gpuctl_server.plan_runs import Confirmation, PlanRun, await_seen
from gpuctl_server.redaction import visible_job_filter
from gpuctl_server.service_context import Service


def delete_named_jobs(
    service: Service,
    caller: Caller,
    names: Sequence[str],
    namespace: str | None,
    run: RunOptions,
    confirmation: Confirmation,
    touched: AuditTrail,
) -> PlanAnswer:
    """Delete jobs, and wait until they are gone.

    :raises Problem: 403, 404, 409, 503.
    """
    return _carried_out(service, caller, "delete", delete_jobs, (names, namespace), run, confirmation, touched)


def rerun_named_jobs(
    service: Service,
    caller: Caller,
    names: Sequence[str],
    namespace: str | None,
    run: RunOptions,
    confirmation: Confirmation,
    touched: AuditTrail,
    *,
    failed: bool = False,
) -> PlanAnswer:
    """Run finished trainings again. A deleted training must be the only one named.

    :param failed: run only the indexes of arrays that have not succeeded.

    :raises Problem: 403, 404, 409, 503.
    """
    rerun = partial(rerun_jobs, sees=visible_job_filter(caller), failed=failed)
    try:
        return _carried_out(service, caller, "update", rerun, (names, namespace), run, confirmation, touched)
    except JobNotFound as absent:
        if len(names) > 1 or failed:
            raise
        try:
            plan_run = PlanRun(service, touched, confirmation)
            return rerun_removed(service, caller, JobRef(names[0], namespace), run, plan_run, touched)
        except NoHistory:
            raise absent from None


def pause_named_jobs(
    service: Service,
    caller: Caller,
    names: Sequence[str],
    namespace: str | None,
    touched: AuditTrail,
    *,
    checkpoint: bool,
    dry_run: bool,
) -> PausedJobs:
    """Pause jobs one after another.

    :raises Problem: 403, 404, 409; ``items`` are the jobs that were paused before the error.
    """
    # A dry run must not run the checkpoint program in the job's pods.
    act = pausing_with(service, checkpoint=checkpoint and not dry_run)
    return _suspended(service, caller, names, namespace, act, touched, dry_run=dry_run)


def resume_named_jobs(
    service: Service,
    caller: Caller,
    names: Sequence[str],
    namespace: str | None,
    confirmation: Confirmation,
    touched: AuditTrail,
    *,
    dry_run: bool,
) -> PausedJobs:
    """Resume paused jobs one after another.

    :raises Problem: 403, 404, 409; ``items`` are the jobs that were resumed before the error.
    """
    callbacks = PlanRun(
        service, touched, confirmation._replace(everything=confirmation.everything or dry_run)
    ).callbacks
    act = resuming_with(caller, callbacks)
    return _suspended(service, caller, names, namespace, act, touched, dry_run=dry_run)


def _suspended(
    service: Service,
    caller: Caller,
    names: Sequence[str],
    namespace: str | None,
    act: SuspendFunction,
    touched: AuditTrail,
    *,
    dry_run: bool,
) -> PausedJobs:
    done = PausedJobs(items=[])
    keys = []
    with change_session(service, caller, dry_run=dry_run) as session:
        jobs = _resolve_jobs(service, caller, "update", names, namespace, touched)
        touched.begin()
        try:
            for job in jobs:
                identity = job.identity
                scope = Scope(session, identity.namespace)
                for paused in act(scope, [f"{identity.kind}/{identity.object_name}"], service.platform):
                    item = paused_job(paused.job, paused.result)
                    if dry_run:
                        item.message = dry_run_message(item.message) if item.changed else f"{item.message}; {NOTHING}"
                        item.status = VALIDATED
                    done.items.append(item)
                    keys.append(paused.result.key)
        except ClusterError as error:
            problem = problem_of(error)
            if problem is None or not done.items:
                raise
            problem.more |= done.as_json()
            raise problem from None
        if not dry_run:
            await_seen(service, session, keys)
    return done


def _carried_out(
    service: Service,
    caller: Caller,
    action: Action,
    use_case: Callable[..., Plan],
    named: tuple[Sequence[str], str | None],
    run: RunOptions,
    confirmation: Confirmation,
    touched: AuditTrail,
) -> PlanAnswer:
    """Execute a use case for jobs that must all be in one namespace."""
    names, where = named
    with change_session(service, caller, dry_run=run.dry_run) as session:
        namespaces = {job.identity.namespace for job in _resolve_jobs(service, caller, action, names, where, touched)}
        if len(namespaces) > 1:
            hint = f"name the jobs of one namespace at a time, {IN_NAMESPACE}"
            raise NotPossible("these jobs are in several namespaces", hint)
        (namespace,) = namespaces
        return PlanRun(service, touched, confirmation).execute(
            session,
            lambda callbacks: use_case(session, names, namespace, service.platform, run, callbacks),
            dry_run=run.dry_run,
        )


def _resolve_jobs(
    service: Service, caller: Caller, action: Action, names: Sequence[str], where: str | None, touched: AuditTrail
) -> list[Job]:
    """Return the named jobs, after checking that the caller may change them."""
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
            touched.append(f"{identity.kind}/{identity.name} in {identity.namespace}")
            jobs.append(job)
    return jobs
