"""How many pods of a Job may be evicted before it fails as a whole: then no pod of it comes again, and the others end.

Source: ``pkg/controller/job/job_controller.go`` (syncJob, exceedsBackoffLimit), ``pod_failure_policy.go`` and
``indexed_job_utils.go``; JobSet 0.12, ``pkg/controllers/failure_policy.go``.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_templates import job_templates

NO_LIMIT = 2**31 - 1
"""The server's own word for a limit that there is none of (``pkg/apis/batch/v1/defaults.go``)."""
_BACKOFF_LIMIT = 6
"""The server's default (``pkg/apis/batch/v1/defaults.go``)."""
_DISRUPTED = "DisruptionTarget"
"""The condition that the scheduler gives to a pod that it evicts."""
_SELECTING = ("onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
_ACTIONS = frozenset({"Count", "FailIndex", "FailJob", "Ignore"})


class EvictionTolerance(NamedTuple):
    """What a Job endures: it goes on when ``spared`` of its pods are evicted, and fails when ``enough`` are.

    In between its rules leave it open, as exit codes do that nobody knows beforehand. ``enough`` None: nobody can tell.
    """

    spared: int
    enough: int | None

    def fails(self, evicted: int, others: int = 0) -> bool | None:
        """Whether it fails when so many are evicted; None: nobody can tell.

        :param others: so many more are deleted by others, and may or may not be counted.
        """
        if self.enough is not None and evicted >= self.enough:
            return True
        return False if evicted + others <= self.spared else None


UNKNOWN = EvictionTolerance(0, None)
"""Nothing is known."""
UNLIMITED = EvictionTolerance(NO_LIMIT, None)
"""It goes on whoever is evicted."""


def eviction_tolerance(spec: Object, status: Object | None = None, *, evicted: bool = True) -> EvictionTolerance:
    """What a Job endures by its spec, beside what it has already.

    :param evicted: its pods are evicted; without that they fail otherwise.
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
    # A pod of an index that fails does not come again, though the Job may go on.
    fails = bool(actions & {"FailJob", "FailIndex"}) or (per_index is not None and "Count" in actions)
    spared = 0 if fails else left if "Count" in actions else NO_LIMIT
    if "Ignore" in actions:
        return EvictionTolerance(spared, None)
    if actions == {"FailJob"}:
        return EvictionTolerance(0, 1)
    enough = [left + 1] if limit < NO_LIMIT else []
    most = spec.get("maxFailedIndexes")
    if most is not None and (per_index == 0 or "Count" not in actions):
        enough.append(max(most - _indexes(status.get("failedIndexes") or ""), 0) + 1)
    return EvictionTolerance(spared, min(enough, default=None))


def restarts_on_failure(job_set: Object) -> bool | None:
    """Whether a JobSet starts all of its Jobs again when one has failed, or fails; None: its rules leave it open."""
    policy = job_set["spec"].get("failurePolicy") or {}
    status = job_set.get("status") or {}
    rules = policy.get("rules") or []
    # Those before there were rules count all of them.
    count = status.get("restartsCountTowardsMax", 0 if rules else status.get("restarts"))
    is_left = (policy.get("maxRestarts") or 0) > (count or 0)
    meanings = {"FailJobSet": False, "RestartJobSet": is_left, "RestartJobSetAndIgnoreMaxRestarts": True}
    found = set()
    for rule in rules:
        found.add(meanings.get(rule["action"]))
        if not any(map(rule.get, _SELECTING)):
            # It is for every failure.
            break
    else:
        found.add(is_left)
    return found.pop() if len(found) == 1 else None


def workload_tolerance(workload: Object) -> EvictionTolerance:
    """How many pods of a workload may be evicted before it fails; a live one has endured some already."""
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
    # So many are enough wherever they are.
    most = [None if one.enough is None else (one.enough - 1) * count for one, count in found]
    known = [one for one in most if one is not None]
    enough = 1 + sum(known) if again is False and len(known) == len(most) else None
    return EvictionTolerance(min((one.spared for one, _ in found), default=NO_LIMIT), enough)


def _actions(spec: Object, *, evicted: bool) -> set[str]:
    """What a Job may do about a pod that fails: the first rule that matches decides, and which exit code a pod ends
    with that is evicted, its program decides."""
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


def _indexes(listed: str) -> int:
    """How many there are in a list such as ``1,3-5``."""
    pairs = [part.split("-") for part in listed.split(",") if part]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in pairs)
