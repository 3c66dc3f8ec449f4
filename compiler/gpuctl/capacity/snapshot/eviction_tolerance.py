"""The number of a Job's pods that may be evicted before the Job fails; its other pods then end, and none is recreated.

Source: ``pkg/controller/job/job_controller.go`` (syncJob, exceedsBackoffLimit), ``pod_failure_policy.go`` and
``indexed_job_utils.go``; JobSet 0.12, ``pkg/controllers/failure_policy.go``.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.array_jobs import count_indexes
from gpuctl.objects.pod_templates import job_templates

NO_LIMIT = 2**31 - 1
"""The server's value for "no limit" (``pkg/apis/batch/v1/defaults.go``)."""
_BACKOFF_LIMIT = 6
"""The server's default (``pkg/apis/batch/v1/defaults.go``)."""
_DISRUPTED = "DisruptionTarget"
"""The condition that the scheduler sets on a pod that it preempts."""
_SELECTING = ("onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
_ACTIONS = frozenset({"Count", "FailIndex", "FailJob", "Ignore"})


class EvictionTolerance(NamedTuple):
    """A Job survives the eviction of ``survivable`` pods and fails after the eviction of ``fatal`` pods.

    In between it depends on unknown exit codes. ``fatal`` is None if no number is certain to make it fail.
    """

    survivable: int
    fatal: int | None

    def fails(self, evicted: int, others: int = 0) -> bool | None:
        """Return True if a Job fails after so many evictions, False if it survives, None if that is unknown.

        :param others: pods that others have deleted, which may or may not count as failed.
        """
        if self.fatal is not None and evicted >= self.fatal:
            return True
        return False if evicted + others <= self.survivable else None


UNKNOWN = EvictionTolerance(0, None)
"""The tolerance of a Job whose rules are unknown."""
UNLIMITED = EvictionTolerance(NO_LIMIT, None)
"""The tolerance of a workload that survives any eviction."""


def eviction_tolerance(spec: Object, status: Object | None = None, *, evicted: bool = True) -> EvictionTolerance:
    """Return the tolerance of a Job, given the failures it has had.

    :param evicted: False for pods that fail for another reason than eviction.
    """
    status = status or {}
    per_index = spec.get("backoffLimitPerIndex")
    limit = spec.get("backoffLimit")
    if limit is None:
        limit = _BACKOFF_LIMIT if per_index is None else NO_LIMIT
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    left = max(limit - (status.get("failed") or 0) - len(uncounted), 0)
    actions = _actions(spec, evicted=evicted)
    if not actions <= _ACTIONS:
        return UNKNOWN
    # If an index fails, its pod is not recreated, although the Job may continue.
    fails = bool(actions & {"FailJob", "FailIndex"}) or (per_index is not None and "Count" in actions)
    survivable = 0 if fails else left if "Count" in actions else NO_LIMIT
    if "Ignore" in actions:
        return EvictionTolerance(survivable, None)
    if actions == {"FailJob"}:
        return EvictionTolerance(0, 1)
    fatal = [left + 1] if limit < NO_LIMIT else []
    most = spec.get("maxFailedIndexes")
    if most is not None and (per_index == 0 or "Count" not in actions):
        fatal.append(max(most - count_indexes(status.get("failedIndexes") or ""), 0) + 1)
    return EvictionTolerance(survivable, min(fatal, default=None))


def restarts_on_failure(job_set: Object) -> bool | None:
    """Return True if a JobSet restarts all its Jobs when one fails, None if its rules leave that open."""
    policy = job_set["spec"].get("failurePolicy") or {}
    status = job_set.get("status") or {}
    rules = policy.get("rules") or []
    # JobSet versions before failure policy rules count all restarts.
    count = status.get("restartsCountTowardsMax", 0 if rules else status.get("restarts"))
    is_left = (policy.get("maxRestarts") or 0) > (count or 0)
    meanings = {"FailJobSet": False, "RestartJobSet": is_left, "RestartJobSetAndIgnoreMaxRestarts": True}
    found = set()
    for rule in rules:
        found.add(meanings.get(rule["action"]))
        if not any(map(rule.get, _SELECTING)):
            # The rule matches every failure.
            break
    else:
        found.add(is_left)
    return found.pop() if len(found) == 1 else None


def workload_tolerance(workload: Object) -> EvictionTolerance:
    """Return the tolerance of a workload. For a live one, past failures count."""
    kind: str = workload["kind"]
    if kind == "Pod":
        return EvictionTolerance(0, 1)
    if kind == "Job":
        return eviction_tolerance(workload["spec"], workload.get("status"))
    if kind != "JobSet":
        return UNLIMITED
    again = restarts_on_failure(workload)
    if again:
        return UNLIMITED
    found = [(eviction_tolerance(template.get("spec") or {}), count) for template, count in job_templates(workload)]
    # This number is fatal however the evictions are distributed.
    most = [None if one.fatal is None else (one.fatal - 1) * count for one, count in found]
    known = [one for one in most if one is not None]
    fatal = 1 + sum(known) if again is False and len(known) == len(most) else None
    return EvictionTolerance(min((one.survivable for one, _ in found), default=NO_LIMIT), fatal)


def _actions(spec: Object, *, evicted: bool) -> set[str]:
    """Return the possible actions of a Job on a failed pod.

    The first matching rule decides. An evicted pod may end with any exit code.
    """
    found: set[str] = set()
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        conditions = rule.get("onPodConditions") or ()
        if rule.get("onExitCodes") or any(pattern.get("type") != _DISRUPTED for pattern in conditions):
            found.add(rule["action"])
        if evicted and any(map(_is_eviction, conditions)):
            return found | {rule["action"]}
    return found | {"Count"}


def _is_eviction(pattern: Object) -> bool:
    return pattern.get("type") == _DISRUPTED and (pattern.get("status") or "True") == "True"
