"""What differs between manifests, or between revisions, as JSON: ``diff --against`` and ``impact``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuctl.api.fit_answers import fit_job
from gpuctl.api.json_values import number
from gpuctl.apply.plan.jobs_stopped_by_change import Ended, RunAgain
from gpuctl.gitops.effects import Cost, Impact
from gpuctl.gitops.objects import ObjectChange, ObjectKey
from gpuctl.gitops.rows import Amount
from gpuctl.gitops.sides import ALL_TYPES, ANY_TYPE, JobDemand
from gpuctl.gitops.value_changes import value_changes
from gpuctl.language.masking import masked_pair
from gpuctl.reading.live_impact import CausedEviction, LiveImpact


def differences_answer(changes: Iterable[ObjectChange]) -> dict[str, Any]:
    """``diff --against -o json``, without credentials: the form of a plan that nobody carries out."""
    steps = []
    summary: dict[str, int] = {}
    for change in changes:
        before, after = masked_pair(change.before, change.after)
        compared = [] if before is None or after is None else value_changes(before, after)
        values = [{"path": item.path, "from": item.old, "to": item.new} for item in compared]
        steps.append(
            {
                "action": change.action,
                **_object(change.key),
                "reason": None,
                "changes": values,
                "result": "planned",
                "error": None,
            }
        )
        summary[change.action] = summary.get(change.action, 0) + 1
    return {"set": None, "steps": steps, "summary": summary}


def impact_answer(impact: Impact, live: LiveImpact | None = None) -> dict[str, Any]:
    """``impact -o json``; amounts of memory are bytes, of cpu cores."""
    return {
        "fits": not impact.breakages,
        "breakages": [{"message": item.message, "new": item.new} for item in impact.breakages],
        "added": [_object(key) for key in impact.added],
        "changed": [{**_object(key), "paths": paths} for key, paths in impact.changed],
        "removed": [_object(key) for key in impact.removed],
        "restarts": [{**item.job._asdict(), "reason": item.reason} for item in impact.restarts],
        "jobs": [
            {**job._asdict(), "before": _demand(before), "after": _demand(after)} for job, before, after in impact.jobs
        ],
        "pools": [
            {
                "pool": row.pool,
                "gpuType": {ALL_TYPES: None, ANY_TYPE: "any"}.get(row.gpu_type, row.gpu_type),
                "before": _amount(row.before),
                "after": _amount(row.after),
            }
            for row in impact.pools
        ],
        "quotas": [
            {
                "namespace": row.namespace,
                "resource": row.resource,
                "before": {"asked": number(row.asked_before), "hard": number(row.hard_before)},
                "after": {"asked": number(row.asked_after), "hard": number(row.hard_after)},
            }
            for row in impact.quotas
        ],
        "pricePerHour": _costs(impact),
        "cluster": None if live is None else _live(live),
    }


def _object(key: ObjectKey) -> dict[str, Any]:
    return {
        "apiVersion": key.api_version,
        "kind": key.kind,
        "namespace": key.namespace or None,
        "name": key.name,
    }


def _amount(value: Amount) -> dict[str, Any]:
    return {
        "gpus": number(value.asked),
        "gpusAtMost": number(value.most),
        "capacity": value.there,
        "gpusQueued": number(value.queued),
    }


def _demand(demand: JobDemand | None) -> dict[str, Any] | None:
    if demand is None:
        return None
    known = demand.gpus is not None
    return {
        "pool": demand.pool,
        "gpuType": demand.gpu_type or None,
        "gpus": number(demand.total) if known else None,
        "gpusAtMost": number(demand.total_most) if known else None,
        "pods": demand.pods,
        "queued": demand.apart == "queued",
        "finished": demand.apart == "finished",
    }


def _costs(impact: Impact) -> dict[str, Any] | None:
    if impact.costs is None:
        return None

    def cost(value: Cost) -> dict[str, Any]:
        return {"least": number(value.least), "most": number(value.most)}

    before, after = impact.costs
    return {"before": cost(before), "after": cost(after), "withoutPools": impact.unpriced}


def _live(live: LiveImpact) -> dict[str, Any]:
    return {
        "takenAt": live.taken_at,
        "gitops": live.gitops,
        "ended": [_ended(item) for item in live.ended],
        "runsAgain": None if live.runs_again is None else [_run_again(item) for item in live.runs_again],
        "finished": [job._asdict() for job in sorted(live.finished[1])],
        "fit": [fit_job(answer).as_json() for answer in live.fits],
        "evictions": {
            "jobs": len(live.evictions),
            "pods": live.evicted_pods,
            "items": [_eviction(item) for item in live.evictions],
        },
        "absentNodes": live.absent_nodes,
    }


def _eviction(item: CausedEviction) -> dict[str, Any]:
    job = item.job
    return {
        "namespace": job.namespace,
        "job": job.job,
        "owner": job.owner,
        "priority": job.priority,
        "pods": list(job.pods),
        "runtime": job.runtime,
        "by": [by._asdict() for by in item.by],
        "whileOldPodsRun": item.early,
    }


def _ended(item: Ended) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "namespace": item.namespace,
        "name": item.name,
        "manner": item.manner,
        "reason": item.reason,
        "runningSince": item.since or None,
        "pods": item.pods,
        "gpus": item.gpus,
    }


def _run_again(item: RunAgain) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "namespace": item.namespace,
        "name": item.name,
        "manner": item.manner,
        "reason": item.reason,
        "condition": item.condition,
        "finishedAt": item.since or None,
    }
