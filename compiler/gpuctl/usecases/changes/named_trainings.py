"""`rerun`, `scale` and `run`: changes of trainings by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.queueing import queue_of
from gpuctl.reading.jobs.job_lookup import find_job, workload_of
from gpuctl.reading.jobs.job_objects import Job


def rerun_jobs(
    session: Session,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    sees: MaySee = may_see_all,
    *,
    failed: bool = False,
) -> Plan:
    """Run trainings again that have ended.

    :param failed: run only what has not succeeded: failed trainings, and indexes of arrays.
    :param sees: return True for jobs that messages may name as victims or as holders of resources.
    :raises NoSuchJob: a name has no job, or several.
    :raises NotRerunnable: a job has not ended, or is not a training.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    keys = records(settings)

    def again(job: Job) -> Plan:
        live = workload_of(job)
        return plan_rerun(live, _title(job), keys, find_workload(session, live), failed=failed)

    return _change(session, names, namespace, settings, run, callbacks, sees, again)


def scale_jobs(
    session: Session,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    sees: MaySee = may_see_all,
    *,
    nodes: int,
) -> Plan:
    """Change the number of nodes of elastic trainings.

    :param sees: return True for jobs that messages may name as victims or as holders of resources.
    :raises NoSuchJob: a name has no job, or several.
    :raises NotScalable: a job cannot have this number of nodes, or not now.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """

    def scaled(job: Job) -> Plan:
        live = workload_of(job)
        has_kueue = bool(queue_of(live)) and kueue_resources(session) is not None
        return plan_scale(live, _title(job), nodes, has_kueue=has_kueue)

    return _change(session, names, namespace, settings, run, callbacks, sees, scaled)


def start_runs(
    session: Session,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    sees: MaySee = may_see_all,
) -> Plan:
    """Start a run of each of some scheduled trainings.

    :param sees: return True for jobs that messages may name as victims or as holders of resources.
    :raises NoSuchJob: a name has no job, or several.
    :raises NotSchedulable: a job has no schedule, or may not run now.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """

    def started(job: Job) -> Plan:
        return plan_run(workload_of(job), job.runs, _title(job))

    return _change(session, names, namespace, settings, run, callbacks, sees, started)


def _change(
    session: Session,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    sees: MaySee,
    plan_of: Callable[[Job], Plan],
) -> Plan:
    """Carry out the plans of all named jobs together. A job that several names mean is changed once."""
    keys, plan = records(settings), Plan()
    with session.within(run.timeout):
        jobs = [find_job(Scope(session, namespace), name, keys)[0] for name in names]
        for job in {job.identity: job for job in jobs}.values():
            found = plan_of(job)
            plan.steps += found.steps
            plan.confirm += found.confirm
            plan.notes += found.notes
    checks = ApplyRequest(settings=settings, planning=PlanOptions(queue=run.queue), sees=sees)
    return execute(session, plan, keys, run, callbacks, checks=checks)


def _title(job: Job) -> str:
    return f"{job.identity.kind}/{job.identity.name}"
