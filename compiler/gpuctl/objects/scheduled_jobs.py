"""Scheduled trainings: CronJobs, and the Jobs that they create, one per run."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from gpuctl.objects.api_resources import Object, controller_of, controller_uid
from gpuctl.objects.workload_state import end_state

KIND = "CronJob"
MANUAL = "cronjob.kubernetes.io/instantiate"
"""Annotation of a run that a user has started. Source: kubectl, ``create job --from``."""


def is_scheduled(workload: Object) -> bool:
    """Return True for the main object of a scheduled training."""
    return bool(workload["kind"] == KIND)


def is_run(obj: Object) -> bool:
    """Return True for a Job that a CronJob controls."""
    owner = controller_of(obj)
    return obj["kind"] == "Job" and owner is not None and owner["kind"] == KIND


def run_of(cron_job: Object, name: str | None = None) -> Object:
    """Return the Job that a CronJob creates, by default under the CronJob's own name.

    Source: ``pkg/controller/cronjob/utils.go``, getJobFromTemplate2; kubectl's ``create job --from`` does not set
    ``blockOwnerDeletion``, which needs more rights.
    """
    template = copy.deepcopy(cron_job["spec"]["jobTemplate"])
    own = cron_job["metadata"]
    metadata = {
        **(template.get("metadata") or {}),
        "name": name or own["name"],
        **({"namespace": own["namespace"]} if "namespace" in own else {}),
    }
    if name is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": KIND, "name": own["name"], "uid": own["uid"], "controller": True}
        ]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.get("spec") or {}}


def with_runs(objects: Iterable[Object]) -> list[Object]:
    """Return objects with each CronJob replaced by one of its runs."""
    return [run_of(obj) if is_scheduled(obj) else obj for obj in objects]


def is_part_of_job(obj: Object) -> bool:
    """Return True for a job's main object, or a run of a scheduled job. Other controlled objects are neither."""
    return controller_of(obj) is None or is_run(obj)


def current_runs(runs: list[Object]) -> list[Object]:
    """Return the unfinished runs, or the last one if all have finished.

    :param runs: the runs of one CronJob, oldest first.
    """
    return [run for run in runs if end_state(run) is None] or runs[-1:]


def runs_of(cron_job: Object, jobs: Iterable[Object]) -> list[Object]:
    """Return the runs of a CronJob among Jobs, oldest first."""
    uid = cron_job["metadata"]["uid"]
    mine = [job for job in jobs if is_run(job) and controller_uid(job) == uid]
    return sorted(mine, key=lambda job: (job["metadata"].get("creationTimestamp") or "", job["metadata"]["name"]))
