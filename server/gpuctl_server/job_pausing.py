"""Pausing and resuming jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.acts.pause_writes import PauseEffect
from gpuctl.api.change_models import JobState
from gpuctl.apply.plan.checkpoint_notes import describe_checkpoint
from gpuctl.apply.plan.lost_work import running_description
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, annotations_of, key_of
from gpuctl.reading.jobs.job_lookup import workload_of
from gpuctl.usecases.changes.pause_and_resume import PausedJob, pause_jobs, resume_jobs
from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from gpuctl_server.access.caller import Caller
from gpuctl_server.change_request import ChangeRequest
from gpuctl_server.job_changes import JobRef, job_words, open_job
from gpuctl_server.merged_answers import visible_job_filter
from gpuctl_server.mirror.job_board import id_of_workload
from gpuctl_server.plan_responses import VALIDATED, plan_answer, unchanged_message
from gpuctl_server.plan_runs import PlanRun, await_seen
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


def pause_job(change: ChangeRequest, ref: JobRef, *, checkpoint: bool) -> JobState:
    """Pause a job: end its pods and keep the job.

    :raises Problem: 403, 404, 409.
    """
    # A dry run must not run the checkpoint program in the job's pods.
    act = pausing_with(change.service, checkpoint=checkpoint and not change.dry_run)
    done = _suspended(change, ref, act)
    saving = annotations_of(done.workload).get(change.service.keys.checkpoint)
    if (
        change.dry_run
        and done.changed
        and checkpoint
        and saving is not None
        and running_description(done.workload) is not None
    ):
        done.state.message += say(
            "; its progress would be saved first: {checkpoint}", checkpoint=describe_checkpoint(saving)
        )
    return done.state


def resume_job(change: ChangeRequest, ref: JobRef) -> JobState:
    """Resume a paused job.

    :raises Problem: 403, 404, 409.
    """
    plans: list[Plan] = []

    def agree(plan: Plan) -> bool:
        plans.append(plan)
        return True

    callbacks = PlanRun(change).callbacks
    if change.dry_run:
        callbacks = replace(callbacks, confirm=agree)
    state = _suspended(change, ref, resuming_with(change.caller, callbacks)).state
    for plan in plans:
        state.plan = plan_answer(plan)
    return state


class _Suspended(NamedTuple):
    """The answer for a paused or resumed job, and its object before.

    ``changed`` is True if the request changes the job, or would change it.
    """

    state: JobState
    workload: Object
    changed: bool


def _suspended(change: ChangeRequest, ref: JobRef, act: SuspendFunction) -> _Suspended:
    service = change.service
    with open_job(change, "update", ref) as opened:
        item, live = opened.item, opened.live
        identity = item.row.identity
        scope = Scope(opened.session, identity.namespace)
        change.touched.begin()
        done = next(act(scope, [f"{identity.kind}/{identity.object_name}"], service.platform)).result
        if not change.dry_run:
            await_seen(service, opened.session, [key_of(live)])
    status = VALIDATED if change.dry_run else done.status
    is_planned = change.dry_run and done.changed
    sentence = effect_message(job_words(item), done.message, "" if is_planned else done.effect)
    if change.dry_run:
        sentence = unchanged_message(sentence)
    state = JobState(job_id=id_of_workload(live, service.keys), status=status, message=sentence)
    return _Suspended(state, workload_of(item.job), done.changed)


def effect_message(job: str, said: str, effect: PauseEffect) -> str:
    """Return the message about a job that was paused or resumed.

    :param job: the title of the job.
    :param said: the rest of the sentence.
    """
    if effect == "paused":
        return say("{job} {paused}", job=job, paused=said)
    if effect == "gpus-freed":
        return say("{job} {freed}", job=job, freed=said)
    if effect == "resumed":
        return say("{job} {resumed}", job=job, resumed=said)
    return say("{job} {said}", job=job, said=said)
