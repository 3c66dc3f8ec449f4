"""Queries about one job: its description, its history, and the cause that keeps it from running."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings
from gpuctl.reading.jobs.describe_job import JobDetail, JobHistory, read_job_detail, read_job_history
from gpuctl.reading.jobs.job_lookup import find_job
from gpuctl.reading.why.explanation import Explanation
from gpuctl.reading.why.explanation import why as cause_of_job
from gpuctl.usecases.queries.read_context import ReadContext, open_context
from gpuctl.usecases.service.service_find import job_of_service

# Models are imported only for an answer: errors before that, and the library, do not need them.
if TYPE_CHECKING:
    from gpuctl.api.job_cause_answers import WhyAnswer
    from gpuctl.api.job_detail_answers import DescribedJob


class FoundJob(NamedTuple):
    """A job as `describe job` shows it, and the uid of its main object ("" if only pods are left)."""

    job: DescribedJob
    uid: str


def describe_job(reader: ReadContext, name: str) -> JobDetail:
    """Return the description of a job by its name, its id, ``KIND/NAME``, or the name of one of its pods.

    :raises NoSuchJob: there is no such job, or there are several.
    """
    job, _ = find_job(reader.scope, name, reader.keys)
    return read_job_detail(reader.scope, job, reader.keys, reader.settings)


def look_up_job(reader: ReadContext, name: str) -> FoundJob:
    """Return the description of a job by its name, from the cluster or from the service.

    :raises NoSuchJob: there is no such job, or there are several.
    """
    from gpuctl.api.job_detail_answers import DescribedJob, described_job, uid_of

    if reader.service is None:
        detail = describe_job(reader, name)
        return FoundJob(described_job(detail), uid_of(detail) or "")
    job = job_of_service(reader.service, reader.scope, name)
    with reader.service.reading() as get:
        value = get(f"/jobs/{job.id}/details", namespace=job.identity.namespace)
        for note in value.get("notes") or ():
            reader.scope.note(str(note))
        return FoundJob(DescribedJob.model_validate(value), value.get("uid") or "")


def job_history(reader: ReadContext, name: str) -> JobHistory:
    """Return the stages, conditions and events of a job by its name.

    :raises NoSuchJob: there is no such job, or there are several.
    """
    job, _ = find_job(reader.scope, name, reader.keys)
    return read_job_history(reader.scope, job)


def why(
    name: str,
    *,
    namespace: str | None = None,
    cluster: Connection | None = None,
    platform: str | os.PathLike[str] | Settings | None = None,
) -> Explanation:
    """Return the cause of a job's state with numbers, evidence, what was ruled out, and a fix.

    :param name: name of the job, ``KIND/NAME``, or name of one of its pods.
    :param namespace: namespace of the job; None: search all.
    :param cluster: connection to read with, which may be shared and stays open; None: the kubeconfig's.
    :param platform: the platform's settings or their file; None: ``platform.yaml`` in the current directory or above,
        up to the git root.
    :raises NoSuchJob: no job has the name, or several have.
    :raises ClusterError: the cluster cannot be read. What may not be read is in ``notes`` instead, if an answer is
        possible without it.
    :raises InvalidDocuments: the platform's file has errors.
    :raises InvalidOptions: ``namespace`` is not a valid name.
    """
    with open_context(cluster, platform, namespace) as reader:
        return explain_job(reader, name)


def explain_job(reader: ReadContext, name: str) -> Explanation:
    """Return the same as :func:`why`, for a context.

    :raises NoSuchJob: no job has the name, or several have.
    """
    job, _ = find_job(reader.scope, name, reader.keys)
    return cause_of_job(reader.scope, job, reader.keys, reader.settings)


def job_cause(reader: ReadContext, name: str) -> WhyAnswer:
    """Return the cause of a job's state, from the cluster or from the service. Notes go to the context's scope.

    :raises NoSuchJob: no job has the name, or several have.
    """
    if reader.service is None:
        answer = explain_job(reader, name)
        from gpuctl.api.job_cause_answers import why_answer

        return why_answer(answer)
    job = job_of_service(reader.service, reader.scope, name)
    with reader.service.reading() as get:
        value = get(f"/jobs/{job.id}/why", namespace=job.identity.namespace)
        from gpuctl.api.job_cause_answers import WhyAnswer

        found = WhyAnswer.model_validate(value)
    for note in found.notes:
        reader.scope.note(note)
    return found.model_copy(update={"notes": reader.scope.notes})
