"""Find the job that a name means, from the service's list of jobs."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from gpuctl.kube.scope import Scope
from gpuctl.reading.jobs.job_lookup import job_not_found, select_job, several_pods, split_prefix
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.usecases.service.service_client import ServiceClient, pages
from gpuctl.usecases.service.service_names import names_of_service


class ServiceJob(NamedTuple):
    """A job of a service: its id, its identity, and the name of the pod if the user named a pod."""

    id: str
    identity: Identity
    pod: str | None


def job_of_service(service: ServiceClient, scope: Scope, text: str) -> ServiceJob:
    """Return the job that a text means, by the rules of :func:`gpuctl.reading.jobs.job_lookup.find_job`.

    :raises JobNotFound: no job or pod has the name.
    :raises NoSuchJob: several jobs have the name, or the job has another kind.
    """
    prefix, name = split_prefix(text)
    with service.reading() as get:
        items = list(chain(*pages(get, "/jobs", name=name, namespace=scope.namespace or ""))) if name else []
        if prefix != "pod":
            named = [item for item in items if name in (item["name"], item["jobId"])]
            named = named or [item for item in items if name == item["objectName"]]
            jobs = [_job(item) for item in named]
            job = select_job(scope, jobs, prefix, name)
            if job is not None:
                return ServiceJob(named[jobs.index(job)]["jobId"], job.identity, None)
        if prefix in ("", "pod") and items:
            if len(items) > 1:
                raise several_pods(name, [item["namespace"] for item in items])
            return ServiceJob(items[0]["jobId"], _job(items[0]).identity, name)
    raise job_not_found(name, scope.namespace, set(names_of_service(service, "job", scope.namespace)))


def _job(item: dict[str, Any]) -> Job:
    """Return a job from a list item, with the metadata that identifies the newest of several generations."""
    name = item["objectName"]
    identity = Identity(item["namespace"], item["name"], item["kind"], name if name != item["name"] else "")
    metadata = {"creationTimestamp": item.get("createdAt")}
    if item["status"] == "terminating":
        metadata["deletionTimestamp"] = item.get("createdAt")
    return Job(identity, {"metadata": metadata})
