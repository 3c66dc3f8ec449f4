"""`delete` of documents and jobs: plans based on the objects in the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from gpuctl.apply.plan.claim_steps import note_kept_claims
from gpuctl.apply.plan.job_deletion import (
    check_is_ours,
    plan_document_deletion,
    plan_job_deletion,
    plan_leftover_deletion,
)
from gpuctl.apply.plan.plan import NoSuchJob, Plan, SeveralJobs, Step
from gpuctl.apply.plan.prerequisite_checks import note_dependents
from gpuctl.apply.run import recovery
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.unfinished_runs import UnfinishedRuns
from gpuctl.apply.workflow import execute
from gpuctl.compilation import Compilation
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.reading.jobs.job_ids import name_in_id
from gpuctl.reading.jobs.job_lookup import JobNotFound, find_job, split_prefix, workload_of
from gpuctl.reading.jobs.job_objects import Identity
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.compiling import compile_and_report


def delete_documents(
    session: Session,
    documents: DocumentOptions,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    keep_labels: bool = False,
) -> Plan:
    """Delete the objects that gpuctl lowers documents to, and wait until they are gone. Each step has its result.

    :param keep_labels: leave a pool's labels on its nodes.
    :raises InvalidDocuments: the documents have errors.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    compilation = compile_and_report(session, documents, callbacks)
    return delete_compiled(session, compilation, run, callbacks, keep_labels=keep_labels)


def delete_compiled(
    session: Session,
    compilation: Compilation,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    keep_labels: bool = False,
    seen: Plan | None = None,
) -> Plan:
    """Delete the objects of compiled documents, as :func:`delete_documents`.

    :param seen: an earlier plan that was confirmed: nothing else may be deleted.
    :raises Changed: more than that would be deleted; nothing was changed.
    """
    keys = records(compilation.settings)
    with session.within(run.timeout):
        plan = plan_document_deletion(session, compilation.lowered, keys, keep_labels=keep_labels)
    return _carry_out(session, plan, keys, run, callbacks, seen)


def delete_jobs(
    session: Session,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
) -> Plan:
    """Delete jobs by name, and wait until they are gone. A pod's name or KIND/NAME means its job.

    :raises NoSuchJob: a name has no job, or several.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    keys = records(settings)
    with session.within(run.timeout):
        plan = _together(_deletion(session, name, namespace, keys) for name in dict.fromkeys(names))
    return _carry_out(session, plan, keys, run, callbacks)


def _together(plans: Iterable[Plan]) -> Plan:
    """Merge the steps of all plans. An object that several names mean is changed once."""
    steps: dict[Key, Step] = {}
    for plan in plans:
        for step in plan.steps:
            steps.setdefault(step.key, step)
    return Plan(list(steps.values()))


def _carry_out(
    session: Session,
    plan: Plan,
    keys: Records,
    run: RunOptions,
    callbacks: RunCallbacks,
    seen: Plan | None = None,
) -> Plan:
    note_kept_claims(session, plan, keys)
    if run.force and any(step.deletes for step in plan.steps):
        callbacks.on_message(say("warning: without their grace period processes may still hold their GPUs for a while"))
    with session.within(run.timeout):
        note_dependents(session, plan, keys)
    return execute(session, plan, keys, run, callbacks, seen)


def _deletion(session: Session, name: str, namespace: str | None, keys: Records) -> Plan:
    """Return the plan for a job by id or name; without such a job, for the job of a pod with this name."""
    by_id = _of_id(session, name, namespace, keys)
    if by_id is not None:
        return plan_job_deletion(session, by_id.object_name, by_id.namespace, keys)
    if "/" not in name:
        try:
            return plan_job_deletion(session, name, namespace, keys)
        except NoSuchJob as error:
            steps = _deleted_already(session, "", name, namespace, keys)
            if not steps and not isinstance(error, SeveralJobs):
                steps = plan_leftover_deletion(session, name, namespace, keys)
            if len({step.key.namespace for step in steps}) == 1:
                return Plan(steps)
            refusal = error
    try:
        job, _ = find_job(Scope(session, namespace), name, keys)
    except NoSuchJob as error:
        if "/" not in name:
            raise refusal from None
        steps = _deleted_already(session, *split_prefix(name), namespace, keys)
        if not steps or not isinstance(error, JobNotFound):
            raise
        return Plan(steps)
    check_is_ours(workload_of(job), job.identity.title)
    # Of two generations, delete the one whose pod or object was named.
    by_name = name.rpartition("/")[2] == job.identity.name
    meant = job.identity.name if by_name else job.identity.object_name
    return plan_job_deletion(session, meant, job.identity.namespace, keys)


def _of_id(session: Session, text: str, namespace: str | None, keys: Records) -> Identity | None:
    """Return the job with an id; None if the text is not an id, or is a name.

    :raises SeveralJobs: the text is also the name of another job.
    """
    if "/" in text or name_in_id(text) is None:
        return None
    try:
        job, pod = find_job(Scope(session, namespace), text, keys)
    except JobNotFound:
        return None
    identity = job.identity
    if pod is not None or text in (identity.name, identity.generation):
        return None
    check_is_ours(workload_of(job), identity.title)
    return identity


def _deleted_already(session: Session, prefix: str, name: str, namespace: str | None, keys: Records) -> list[Step]:
    """Return steps for a job that a killed apply has deleted and recovery would recreate; [] if none or several
    match.

    :param prefix: see :func:`~gpuctl.reading.jobs.job_lookup.split_prefix`.
    """
    kind = "" if prefix == "job" else prefix
    with contextlib.suppress(ClusterError):
        steps = UnfinishedRuns(recovery.find_journals(session, keys, namespace)).gone_steps(session, name, kind, keys)
        places = {step.key.namespace for step in steps}
        if len(places) == 1:
            return [*steps, *plan_leftover_deletion(session, name, places.pop(), keys)]
    return []
