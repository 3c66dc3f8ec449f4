"""The roles of a training: the replicated Jobs of its JobSet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.pod_templates import pod_templates

ROLE_VARIABLE = "GPUCTL_ROLE"
"""Variable with the name of a pod's role; only pods of a training with roles have it."""
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
"""Labels that JobSet gives its Jobs and pods."""


def has_role(spec: Object) -> bool:
    """Return True for the spec of a pod of a training with roles."""
    containers = spec.get("containers") or []
    return any(item.get("name") == ROLE_VARIABLE for container in containers for item in container.get("env") or [])


def role_of(pod: Object) -> str | None:
    """Return the role of a live pod; None if its job has no roles."""
    return labels_of(pod).get(REPLICATED_JOB_LABEL) if has_role(pod.get("spec") or {}) else None


def has_several_roles(workload: Object) -> bool:
    """Return True for a JobSet with several replicated Jobs, whose pods may request different amounts."""
    return workload["kind"] == "JobSet" and len(workload["spec"]["replicatedJobs"]) > 1


def pools_of(workload: Object, pool_label: str) -> tuple[str, ...]:
    """Return the pools of a workload's pods: its own, by its label, or those of its roles, its own first."""
    own = labels_of(workload).get(pool_label, "")
    if workload.get("kind") != "JobSet":
        return (own,) if own else ()
    replicated = (workload.get("spec") or {}).get("replicatedJobs") or []
    # Any user may create a JobSet, and one that lacks a part must not end a list of all.
    jobs = ((item.get("template") or {}).get("spec") or {} for item in replicated)
    heads = ((job.get("template") or {}).get("metadata") or {} for job in jobs)
    found = [(head.get("labels") or {}).get(pool_label, own) for head in heads] or [own]
    return tuple(dict.fromkeys(sorted(filter(None, found), key=lambda pool: pool != own)))


def missing_of_roles(jobset: Object, pods: Iterable[Object]) -> list[tuple[Object, int]]:
    """Return the pod templates of a JobSet and how many pods of each are missing among the existing ones."""
    made = Counter(labels_of(pod).get(REPLICATED_JOB_LABEL) for pod in pods)
    roles = [item["name"] for item in jobset["spec"]["replicatedJobs"]]
    return [
        (template, max(0, number - made[role]))
        for role, (template, number) in zip(roles, pod_templates(jobset), strict=True)
    ]
