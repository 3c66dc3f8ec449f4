"""``pause`` and ``resume`` of jobs, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuctl.acts import pausing
from gpuctl.acts.pausing import Paused
from gpuctl.apply.state.records import Records, records
from gpuctl.reading.find import find_job, workload_of
from gpuctl.reading.job_rows import Job

if TYPE_CHECKING:
    from gpuctl.apply.run.checkpointing import CheckpointManner
    from gpuctl.backend.api_resources import Object
    from gpuctl.kube.scope import Scope
    from gpuctl.kube.session import Session
    from gpuctl.language.settings import Settings


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


def resume_jobs(scope: Scope, names: Sequence[str], settings: Settings) -> Iterator[PausedJob]:
    """Let paused jobs make their pods again, as :func:`pause_jobs`.

    :raises NoSuchJob: there is none of a name, or there are several.
    :raises NotPausable: one has ended, is ending, or waits for Kueue; those before it are resumed.
    """
    return _each(pausing.resume, scope, names, records(settings))


def _each(
    act: Callable[[Session, Object, Records], Paused], scope: Scope, names: Sequence[str], keys: Records
) -> Iterator[PausedJob]:
    jobs = [find_job(scope, name, keys)[0] for name in names]
    for job in {job.identity: job for job in jobs}.values():
        yield PausedJob(job, act(scope.session, workload_of(job), keys))
