"""`run`: start a run of a scheduled training now."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan.apply_request import CheckOptions, MaySee, may_see_all
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.scheduled_run_plan import plan_run
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import execute
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.job_lookup import find_job, workload_of


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
    keys = records(settings)
    plan = Plan()
    with session.within(run.timeout):
        jobs = [find_job(Scope(session, namespace), name, keys)[0] for name in names]
        for job in {job.identity: job for job in jobs}.values():
            plan.steps += plan_run(workload_of(job), job.runs, f"{job.identity.kind}/{job.identity.name}").steps
    checks = CheckOptions(keys, settings.gpu_resources, queue=run.queue, sees=sees)
    return execute(session, plan, keys, run, callbacks, checks=checks)
