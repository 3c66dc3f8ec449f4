"""`pause` and `resume` of jobs by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuctl.acts import pausing, resuming
from gpuctl.acts.pause_writes import NotPausable, PauseResult
from gpuctl.apply.plan.apply_request import ApplyRequest, MaySee, may_see_all
from gpuctl.apply.plan.evictions import add_fit_results
from gpuctl.apply.plan.plan import Declined, Plan, Step
from gpuctl.apply.run.checkpoint_before_stop import checkpoint_before
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, key_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.reading.jobs.job_lookup import find_each, workload_of
from gpuctl.reading.jobs.job_objects import Job


class PausedJob(NamedTuple):
    """A job and the result of pausing or resuming it."""

    job: Job
    result: PauseResult


def jobs_named(scope: Scope, names: Sequence[str], settings: Settings) -> list[Job]:
    """Return the jobs with these names, each once.

    :raises NoSuchJob: a name has no job, or several.
    """
    return list({job.identity: job for job in find_each(scope, names, records(settings))}.values())


def pause_jobs(
    session: Session, jobs: Iterable[Job], settings: Settings, callbacks: RunCallbacks | None
) -> Iterator[PausedJob]:
    """Yield the result for each job while pausing one after another: end its pods and keep the job.

    :param callbacks: for checkpoints before each pause; None: no checkpoints.
    :raises NotPausable: a job has ended, is ending, or would not stay paused; the jobs before it are paused.
    :raises CheckpointFailed: a checkpoint failed and its job keeps running; the jobs before it are paused.
    """

    keys = records(settings)
    # Report a message that applies to several jobs once.
    callbacks = callbacks.without_repeats() if callbacks is not None else None

    def pause(workload: Object) -> PauseResult:
        pausing.check_pause_lasts(workload)
        # The pods of a scheduled training's run are not ended.
        if callbacks is None or is_scheduled(workload):
            return pausing.pause(session, workload, keys)
        with checkpoint_before(session, workload, keys, callbacks):
            return pausing.pause(session, workload, keys)

    return (PausedJob(job, pause(workload_of(job))) for job in jobs)


def resume_jobs(
    session: Session,
    jobs: Sequence[Job],
    settings: Settings,
    callbacks: RunCallbacks,
    sees: MaySee = may_see_all,
) -> Iterator[PausedJob]:
    """Yield the result for each job while resuming one after another. Evictions are confirmed before.

    :param sees: return True for jobs that the question may name as victims.
    :raises NotPausable: a job has ended, is ending, or waits for Kueue; the jobs before it are resumed.
    :raises Refused: the user did not confirm; nothing was changed.
    """
    keys = records(settings)
    expected = _expected(session, jobs, settings, callbacks, sees)
    callbacks.on_start(expected)
    waiting = {step.key: step.waiting for step in expected.steps}
    for job in jobs:
        live = workload_of(job)
        yield PausedJob(job, resuming.resume(session, live, keys, waiting.get(key_of(live), "")))


def _expected(session: Session, jobs: Sequence[Job], settings: Settings, callbacks: RunCallbacks, sees: MaySee) -> Plan:
    """Return a plan with the fit of the resumed pods, after its questions are confirmed."""
    keys = records(settings)
    plan = Plan()
    for job in jobs:
        live = workload_of(job)
        try:
            desired = resuming.resumed_object(session, live, keys)
        except NotPausable:
            # `resume` raises this error after the jobs before it are resumed.
            continue
        if desired is not None:
            title = job.identity.title
            queued = bool(queue_of(desired))
            plan.steps.append(Step("update", key_of(live), "", desired, live, "put", title=title, queued=queued))
    add_fit_results(session, plan, ApplyRequest(settings=settings, sees=sees))
    for note in plan.notes:
        callbacks.on_message(f"note: {note}")
    if plan.questions and not callbacks.confirm(plan):
        raise Declined(say("not confirmed"), plan)
    return plan
