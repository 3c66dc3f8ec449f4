"""`rerun`, `scale` and `run`: changes of trainings by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest, MaySee, may_see_all
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.plan.rerun_plan import plan_rerun
from gpuctl.apply.plan.scale_plan import plan_scale
from gpuctl.apply.plan.scheduled_run_plan import plan_run
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import execute
from gpuctl.kube.kueue import find_workload, kueue_resources
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.objects.queueing import queue_of
from gpuctl.reading.jobs.job_lookup import find_each, workload_of
from gpuctl.reading.jobs.job_objects import Job


class TrainingChange(NamedTuple):
    """A change of trainings.

    :param plan_of: returns the plan for one training.
    :param name: the end of its path in the service, ``/jobs/rerun``.
    :param query: its own parameters in the service.
    :param saves_checkpoints: running programs may save their progress before.
    """

    plan_of: Callable[[Session, Records, Job], Plan]
    name: str
    query: Mapping[str, str]
    saves_checkpoints: bool = False


def rerun(*, failed: bool) -> TrainingChange:
    """Run trainings again that have ended: :func:`plan_rerun`.

    :param failed: run only what has not succeeded: failed trainings, and indexes of arrays.
    """

    def plan_of(session: Session, keys: Records, job: Job) -> Plan:
        live = workload_of(job)
        return plan_rerun(live, job.identity.title, keys, find_workload(session, live), failed=failed)

    return TrainingChange(plan_of, "rerun", {"failed": "true" if failed else ""})


def scale(nodes: int) -> TrainingChange:
    """Change the number of nodes of elastic trainings: :func:`plan_scale`."""

    def plan_of(session: Session, keys: Records, job: Job) -> Plan:
        live = workload_of(job)
        has_kueue = bool(queue_of(live)) and kueue_resources(session) is not None
        return plan_scale(live, job.pods, job.identity.title, nodes, session.server_time(), has_kueue=has_kueue)

    return TrainingChange(plan_of, "scale", {"nodes": str(nodes)}, saves_checkpoints=True)


START_RUN = TrainingChange(
    lambda session, keys, job: plan_run(workload_of(job), job.runs, job.identity.title), "run", {}
)
"""Start a run of each scheduled training: :func:`plan_run`."""


def change_trainings(
    session: Session,
    change: TrainingChange,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    sees: MaySee = may_see_all,
) -> Plan:
    """Carry out a change of all named trainings together. A job that several names mean is changed once.

    :param sees: return True for jobs that messages may name as victims or as holders of resources.
    :raises NoSuchJob: a name has no job, or several.
    :raises NotPossible: the change is not possible for a job.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    keys, plan = records(settings), Plan()
    with session.within(run.timeout):
        jobs = find_each(Scope(session, namespace), names, keys)
        for job in {job.identity: job for job in jobs}.values():
            found = change.plan_of(session, keys, job)
            plan.steps += found.steps
            plan.confirm += found.confirm
            plan.notes += found.notes
    checks = ApplyRequest(settings=settings, planning=PlanOptions(queue=run.queue), sees=sees)
    return execute(session, plan, keys, run, callbacks, checks=checks)
