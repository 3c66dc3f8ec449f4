"""Pausing and resuming jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.api.change_models import JobState
from gpuctl.apply.plan.checkpoint_notes import describe_checkpoint
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import annotations_of, key_of
from gpuctl.objects.workload_state import running_description
from gpuctl.reading.job_lookup import workload_of
from gpuctl.usecases.change_options import LONGEST_BY_SERVICE
from gpuctl.usecases.pause_and_resume import PausedJob, pause_jobs, resume_jobs
from gpuctl_server.access.caller import Caller
from gpuctl_server.audit import AuditTrail
from gpuctl_server.job_changes import JobRef, await_shown, change_session, live_workload, resolve_job, title_of_job
from gpuctl_server.mirror.job_board import ListedJob, id_of_workload
from gpuctl_server.plan_responses import NOTHING, VALIDATED, dry_run_message, plan_answer
from gpuctl_server.plan_runs import Confirmation, PlanRun
from gpuctl_server.redaction import visible_job_filter
from gpuctl_server.service_context import Service

SuspendFunction = Callable[[Scope, Sequence[str], Settings], Iterator[PausedJob]]
"""Pauses or resumes jobs by name."""


def pausing_with(service: Service, *, checkpoint: bool) -> SuspendFunction:
    """Return ``pause_jobs`` with the limits of the service. A job whose checkpoint failed is not paused."""
    callbacks = RunCallbacks(should_stop=service.change_slots.is_ending, longest_checkpoint=LONGEST_BY_SERVICE)
    return lambda scope, names, settings: pause_jobs(scope, names, settings, callbacks if checkpoint else None)


def resuming_with(caller: Caller, callbacks: RunCallbacks) -> SuspendFunction:
    """Return ``resume_jobs``, which does not name jobs that the caller may not see."""
    return lambda scope, names, settings: resume_jobs(scope, names, settings, callbacks, visible_job_filter(caller))


def pause_job(
    service: Service, caller: Caller, ref: JobRef, touched: AuditTrail, *, checkpoint: bool, dry_run: bool
) -> JobState:
    """Pause a job: end its pods and keep the job.

    :raises Problem: 403, 404, 409.
    """
    item = resolve_job(service, caller, "update", ref, touched)
    # A dry run must not run the checkpoint program in the job's pods.
    act = pausing_with(service, checkpoint=checkpoint and not dry_run)
    done = _suspended(service, caller, item, ref, act, touched, dry_run)
    saving = annotations_of(workload_of(item.job)).get(service.keys.checkpoint)
    if (
        dry_run
        and done.changed
        and checkpoint
        and saving is not None
        and running_description(workload_of(item.job)) is not None
    ):
        done.state.message += f"; its progress would be saved first: {describe_checkpoint(saving)}"
    return done.state


def resume_job(
    service: Service, caller: Caller, ref: JobRef, touched: AuditTrail, *, confirmed: bool, dry_run: bool
) -> JobState:
    """Resume a paused job.

    :raises Problem: 403, 404, 409.
    """
    item = resolve_job(service, caller, "update", ref, touched)
    plans: list[Plan] = []

    def agree(plan: Plan) -> bool:
        plans.append(plan)
        return True

    callbacks = PlanRun(service, touched, Confirmation(confirmed)).callbacks
    if dry_run:
        callbacks = replace(callbacks, confirm=agree)
    state = _suspended(service, caller, item, ref, resuming_with(caller, callbacks), touched, dry_run).state
    for plan in plans:
        state.plan = plan_answer(plan)
    return state


class _Suspended(NamedTuple):
    """The answer for a paused or resumed job; ``changed`` is True if the request changes the job, or would change
    it."""

    state: JobState
    changed: bool


def _suspended(
    service: Service,
    caller: Caller,
    item: ListedJob,
    ref: JobRef,
    act: SuspendFunction,
    touched: AuditTrail,
    dry_run: bool,
) -> _Suspended:
    identity = item.row.identity
    with change_session(service, caller, dry_run=dry_run) as session:
        live = live_workload(session, item, ref)
        scope = Scope(session, identity.namespace)
        touched.begin()
        done = next(act(scope, [f"{identity.kind}/{identity.object_name}"], service.platform)).result
        if not dry_run:
            await_shown(service, session, key_of(live))
    status, said = done.status, done.message
    if dry_run:
        status = VALIDATED
        said = dry_run_message(said) if done.changed else f"{said}; {NOTHING}"
    state = JobState(jobId=id_of_workload(live, service.keys), status=status, message=f"{title_of_job(item)} {said}")
    return _Suspended(state, done.changed)
