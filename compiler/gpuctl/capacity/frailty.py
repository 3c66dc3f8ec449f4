"""Which work fails as a whole when one of its pods is evicted: no pod of it comes again, and the others end, too.

Source: ``pkg/controller/job/job_controller.go`` (syncJob, exceedsBackoffLimit) and ``pod_failure_policy.go``; JobSet
0.12, ``pkg/controllers/failure_policy.go``.
"""

from __future__ import annotations

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.pod_requests import job_templates

_BACKOFF_LIMIT = 6
"""The server's default (``pkg/apis/batch/v1/defaults.go``)."""
_DISRUPTED = "DisruptionTarget"
"""The condition that the scheduler gives to a pod that it evicts."""


def has_no_retries(spec: Object, failed: int = 0) -> bool:
    """Whether a Job of which so many pods have failed fails with the next one, whatever that ended with."""
    limit = spec.get("backoffLimit")
    retried = any(rule["action"] != "FailJob" and rule.get("onExitCodes") for rule in _rules(spec))
    exceeded = failed >= (_BACKOFF_LIMIT if limit is None else limit)
    return exceeded and not retried and spec.get("backoffLimitPerIndex") is None


def fails_evicted(spec: Object, failed: int = 0) -> bool:
    """Whether a Job of which so many pods have failed fails when one of its pods is evicted."""
    named = (rule["action"] for rule in _rules(spec) if any(map(_is_eviction, rule.get("onPodConditions") or ())))
    return {"FailJob": True, "Ignore": False}.get(next(named, "Count"), has_no_retries(spec, failed))


def is_final(job_set: Object) -> bool:
    """Whether a JobSet fails with the first of its Jobs that does."""
    policy = job_set["spec"].get("failurePolicy") or {}
    left = (policy.get("maxRestarts") or 0) - ((job_set.get("status") or {}).get("restarts") or 0)
    return left <= 0 and not policy.get("rules")


def is_frail(workload: Object) -> bool:
    """Whether a workload that is created fails when one of its pods is evicted."""
    kind: str = workload["kind"]
    if kind == "Job":
        return fails_evicted(workload["spec"])
    if kind == "JobSet":
        jobs = (template.get("spec") or {} for template, _ in job_templates(workload))
        return is_final(workload) and any(map(fails_evicted, jobs))
    return kind == "Pod"


def _rules(spec: Object) -> list[Object]:
    found: list[Object] = (spec.get("podFailurePolicy") or {}).get("rules") or []
    return found


def _is_eviction(pattern: Object) -> bool:
    return pattern.get("type") == _DISRUPTED and (pattern.get("status") or "True") == "True"
