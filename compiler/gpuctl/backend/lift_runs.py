"""Reads the runs of a training back: its indexes, and its schedule."""

from __future__ import annotations

from typing import Any

from gpuctl.language.schedule_block import DEFAULT_KEEP, DEFAULT_ZONE
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import format_duration

Data = dict[str, Any]


def lift_array(job: Object) -> Data:
    """Return the block ``array`` of an indexed Job."""
    spec = job["spec"]
    array: Data = {"size": spec["completions"]}
    if spec.get("parallelism") != spec["completions"]:
        array["parallelism"] = spec.get("parallelism", 1)
    if spec["backoffLimitPerIndex"]:
        array["retries"] = spec["backoffLimitPerIndex"]
    if "maxFailedIndexes" in spec:
        array["max_failed"] = spec["maxFailedIndexes"]
    return array


def lift_schedule(cron_job: Object) -> Data:
    """Return the block ``schedule`` of a CronJob."""
    spec = cron_job["spec"]
    schedule: Data = {"cron": spec["schedule"]}
    # Without a zone, the controller's counts, which is UTC in most clusters.
    if (zone := spec.get("timeZone", DEFAULT_ZONE)) != DEFAULT_ZONE:
        schedule["timezone"] = zone
    if (policy := spec.get("concurrencyPolicy", "Allow").lower()) != "forbid":
        schedule["concurrency"] = policy
    if (keep := spec.get("successfulJobsHistoryLimit", DEFAULT_KEEP)) != DEFAULT_KEEP:
        schedule["keep"] = keep
    if "startingDeadlineSeconds" in spec:
        schedule["start_deadline"] = format_duration(spec["startingDeadlineSeconds"])
    return schedule
