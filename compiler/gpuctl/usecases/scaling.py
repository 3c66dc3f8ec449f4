"""`scale`: change the number of nodes of elastic trainings."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan.apply_request import CheckOptions, MaySee, may_see_all
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.scale_plan import plan_scale
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import execute
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.queueing import queue_of
from gpuctl.reading.job_lookup import find_job, workload_of


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
    keys = records(settings)
    plan = Plan()
    with session.within(run.timeout):
        jobs = [find_job(Scope(session, namespace), name, keys)[0] for name in names]
        for job in {job.identity: job for job in jobs}.values():
            live = workload_of(job)
            has_kueue = bool(queue_of(live)) and kueue_resources(session) is not None
            title = f"{job.identity.kind}/{job.identity.name}"
            found = plan_scale(live, title, nodes, has_kueue=has_kueue)
            plan.steps += found.steps
            plan.confirm += found.confirm
            plan.notes += found.notes
    checks = CheckOptions(keys, settings.gpu_resources, queue=run.queue, sees=sees)
    return execute(session, plan, keys, run, callbacks, checks=checks)
