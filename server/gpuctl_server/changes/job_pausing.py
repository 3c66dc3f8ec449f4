"""Pausing and resuming jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from gpuctl.acts.pause_writes import PauseEffect
from gpuctl.api.change_models import JobState
from gpuctl.apply.plan.checkpoint_notes import describe_checkpoint
from gpuctl.apply.plan.lost_work import running_since
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import annotations_of
from gpuctl.reading.jobs.job_lookup import workload_of
from gpuctl.reading.jobs.job_objects import Job, job_id
from gpuctl.usecases.changes.pause_and_resume import PausedJob, jobs_named, pause_jobs, resume_jobs
from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.job_changes import JobRef, job_words, open_job
from gpuctl_server.changes.plan_responses import VALIDATED, plan_answer, unchanged_message
from gpuctl_server.changes.plan_runs import PlanRun, await_seen
from gpuctl_server.http.merged_answers import visible_job_filter

SuspendFunction = Callable[[Session, Sequence[Job], Settings], Iterator[PausedJob]]
"""Pauses or resumes jobs."""


def pausing_with(change: ChangeRequest, *, checkpoint: bool) -> SuspendFunction:
    """Return ``pause_jobs`` with the limits of the service. A job whose checkpoint failed is not paused."""
    callbacks = RunCallbacks(should_stop=change.service.change_slots.is_ending, longest_checkpoint=LONGEST_BY_SERVICE)
    # A dry run must not run the checkpoint program in the job's pods.
    used = callbacks if checkpoint and not change.dry_run else None
    return lambda session, jobs, settings: pause_jobs(session, jobs, settings, used)


def resuming_with(change: ChangeRequest, plans: list[Plan]) -> SuspendFunction:
    """Return ``resume_jobs``, which does not name jobs that the caller may not see.

    :param plans: receives the plan of a dry run, which is confirmed.
    """
    callbacks = PlanRun(change).callbacks
    if change.dry_run:
        callbacks = replace(callbacks, confirm=lambda plan: True, on_start=plans.append)
    sees = visible_job_filter(change.caller)
    return lambda session, jobs, settings: resume_jobs(session, jobs, settings, callbacks, sees)


def suspend_each(
    change: ChangeRequest, session: Session, jobs: Iterable[Job], act: SuspendFunction
) -> Iterator[PausedJob]:
    """Yield the result for each job while pausing or resuming one after another. All are read again first. Then wait
    until the service's own reads have the results.
    """
    change.touched.begin()
    platform, keys, current = change.service.platform, [], list[Job]()
    for namespace, identities in groupby(dict.fromkeys(job.identity for job in jobs), attrgetter("namespace")):
        names = [f"{identity.kind}/{identity.object_name}" for identity in identities]
        current += jobs_named(Scope(session, namespace), names, platform)
    for done in act(session, current, platform):
        keys.append(done.result.key)
        yield done
    if not change.dry_run:
        await_seen(change.service, session, keys)


def dry_run_message(change: ChangeRequest, done: PausedJob, said: str, *, checkpoint: bool) -> Sentence:
    """Return the message of a dry run, with the checkpoint that would be written.

    :param said: what would be done.
    :param checkpoint: a checkpoint is wanted.
    """
    message = unchanged_message(said)
    workload = workload_of(done.job)
    saving = annotations_of(workload).get(change.service.keys.checkpoint)
    if checkpoint and done.result.changed and saving is not None and running_since(workload) is not None:
        saved = say("; its progress would be saved first: {checkpoint}", checkpoint=describe_checkpoint(saving))
        message = Sentence(message + saved)
    return message


def pause_job(change: ChangeRequest, ref: JobRef, *, checkpoint: bool) -> JobState:
    """Pause a job: end its pods and keep the job.

    :raises Problem: 403, 404, 409.
    """
    return _suspended(change, ref, pausing_with(change, checkpoint=checkpoint), checkpoint=checkpoint)


def resume_job(change: ChangeRequest, ref: JobRef) -> JobState:
    """Resume a paused job.

    :raises Problem: 403, 404, 409.
    """
    plans: list[Plan] = []
    state = _suspended(change, ref, resuming_with(change, plans))
    for plan in plans:
        state.plan = plan_answer(plan)
    return state


def _suspended(change: ChangeRequest, ref: JobRef, act: SuspendFunction, *, checkpoint: bool = False) -> JobState:
    with open_job(change, "update", ref) as opened:
        (done,) = suspend_each(change, opened.session, [opened.item.job], act)
    result = done.result
    is_planned = change.dry_run and result.changed
    message = effect_message(job_words(opened.item), result.message, "" if is_planned else result.effect)
    if change.dry_run:
        message = dry_run_message(change, done, message, checkpoint=checkpoint)
    status = VALIDATED if change.dry_run else result.status
    return JobState(job_id=job_id(done.job), status=status, message=message)


def effect_message(job: str, said: str, effect: PauseEffect) -> Sentence:
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
