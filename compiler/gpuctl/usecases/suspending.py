"""``pause`` and ``resume`` of jobs, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuctl.acts import pausing
from gpuctl.acts.pausing import Paused
from gpuctl.apply.state.records import Records, records
from gpuctl.backend.api_resources import key_of
from gpuctl.reading.find import find_job, workload_of
from gpuctl.reading.job_rows import Job

if TYPE_CHECKING:
    from gpuctl.apply.plan.plan import Plan
    from gpuctl.apply.run.checkpointing import CheckpointManner
    from gpuctl.backend.api_resources import Key, Object
    from gpuctl.kube.scope import Scope
    from gpuctl.kube.session import Session
    from gpuctl.language.settings import Settings
    from gpuctl.usecases.conversation import Conversation


class PausedJob(NamedTuple):
    """A job, and what became of it."""

    job: Job
    result: Paused


def pause_jobs(
    scope: Scope, names: Sequence[str], settings: Settings, manner: CheckpointManner | None
) -> Iterator[PausedJob]:
    """End the pods of jobs and keep the jobs, one after another as this is iterated; all are looked up before.

    :param manner: how they save their progress before; None: they do not.
    :raises NoSuchJob: there is none of a name, or there are several.
    :raises NotPausable: one has ended, or is ending; those before it are paused.
    :raises CheckpointFailed: one could not save its progress, and goes on running; those before it are paused.
    """

    def act(session: Session, workload: Object, keys: Records) -> Paused:
        if manner is None:
            return pausing.pause(session, workload, keys)
        from gpuctl.apply.run.saving_first import saved_first

        with saved_first(session, workload, keys, manner):
            return pausing.pause(session, workload, keys)

    return _each(act, scope, names, records(settings))


def resume_jobs(
    scope: Scope,
    names: Sequence[str],
    settings: Settings,
    conversation: Conversation,
    sees: Callable[[str], bool] = lambda namespace: True,
) -> Iterator[PausedJob]:
    """Let paused jobs make their pods again, as :func:`pause_jobs`; whom these evict is asked before.

    :param sees: of which namespaces the jobs may be named that they evict.
    :raises NoSuchJob: there is none of a name, or there are several.
    :raises NotPausable: one has ended, is ending, or waits for Kueue; those before it are resumed.
    :raises Refused: it was not confirmed; nothing was changed.
    """
    keys = records(settings)
    jobs = _meant(scope, names, keys)
    waiting = _waiting(_expected(scope.session, jobs, settings, conversation, sees))
    for found in _acted(pausing.resume, scope.session, jobs, keys):
        said = waiting.get(found.result.key)
        if said is None or not found.result.changed or pausing.REFUSED in found.result.message:
            yield found
        else:
            yield found._replace(result=found.result._replace(message=f"is resumed; {said}"))


def _expected(
    session: Session, jobs: Sequence[Job], settings: Settings, conversation: Conversation, sees: Callable[[str], bool]
) -> Plan:
    """What becomes of the pods of jobs once they are resumed, as far as it was confirmed."""
    from gpuctl.apply.operations import Declined
    from gpuctl.apply.plan.evictions import foresee
    from gpuctl.apply.plan.plan import Plan, Step
    from gpuctl.apply.plan.request import CheckOptions

    keys = records(settings)
    plan = Plan()
    for job in jobs:
        live = workload_of(job)
        desired = pausing.awake(live, keys)
        if desired is not None:
            title = f"{job.identity.kind}/{job.identity.name}"
            plan.steps.append(Step("update", key_of(live), "", desired, live, "put", title=title))
    foresee(session, plan, CheckOptions(keys, frozenset(gpu.resource for gpu in settings.gpus.values()), sees=sees))
    for note in plan.notes:
        conversation.say(f"note: {note}")
    if plan.questions and not conversation.confirm(plan):
        raise Declined("not confirmed", plan)
    return plan


def _waiting(plan: Plan) -> dict[Key, str]:
    return {step.key: step.waiting for step in plan.steps if step.waits}


def _each(
    act: Callable[[Session, Object, Records], Paused], scope: Scope, names: Sequence[str], keys: Records
) -> Iterator[PausedJob]:
    return _acted(act, scope.session, _meant(scope, names, keys), keys)


def _meant(scope: Scope, names: Sequence[str], keys: Records) -> list[Job]:
    jobs = [find_job(scope, name, keys)[0] for name in names]
    return list({job.identity: job for job in jobs}.values())


def _acted(
    act: Callable[[Session, Object, Records], Paused], session: Session, jobs: Sequence[Job], keys: Records
) -> Iterator[PausedJob]:
    for job in jobs:
        yield PausedJob(job, act(session, workload_of(job), keys))
