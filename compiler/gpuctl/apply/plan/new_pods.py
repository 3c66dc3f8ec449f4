"""The objects from which a plan creates pods: quotas, admission and the scheduler decide about these pods."""

from __future__ import annotations

from gpuctl.apply.plan.plan import Step
from gpuctl.objects.api_resources import SERVICES, WORKLOADS, Object
from gpuctl.objects.pod_templates import with_replicas


def workload_of_new_pods(step: Step) -> Object | None:
    """Return the workload that a step sends; for a patch that gives a live service more replicas, the service with only
    the additional ones; None for other steps.
    """
    if step.key.kind not in WORKLOADS or step.desired is None:
        return None
    if step.method != "patch":
        return step.desired if step.method in ("post", "put", "apply") else None
    if step.key.kind not in SERVICES or step.live is None:
        return None
    added = ((step.desired.get("spec") or {}).get("replicas") or 0) - step.live["spec"].get("replicas", 1)
    return with_replicas(step.live, added) if added > 0 else None
