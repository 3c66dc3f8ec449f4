"""The work that a user loses when a workload ends or runs again, as text."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import SERVICES, Object
from gpuctl.objects.timestamps import age
from gpuctl.objects.workload_state import condition, end_condition, end_state


def running_for(time: str) -> Sentence:
    """Return how long work has run."""
    return say("running for {time}", time=time)


def finished_ago(time: str, condition: str) -> Sentence:
    """Return how long ago work has ended, and the type of its end condition."""
    return say("finished {time} ago ({condition})", time=time, condition=condition)


def end_description(obj: Object, now: float) -> Sentence | None:
    """Return ``finished 3h ago (Complete)`` for a Job or JobSet that has ended, else None.

    In brackets is the type of its end condition; it is ``Failed`` for a failed training.

    :param now: here and below the time of the API server, seconds since 1970.
    """
    found = end_condition(obj)
    if not found:
        return None
    since = found.get("lastTransitionTime") or (obj.get("status") or {}).get("completionTime")
    if not since:
        return say("finished ({condition})", condition=found["type"])
    return finished_ago(age(since, now), found["type"])


def ended_word(state: str) -> Sentence:
    """Return an end state of a workload as a word of a sentence.

    :param state: from :func:`~gpuctl.objects.workload_state.end_state`.
    """
    return say("failed") if state == "failed" else say("finished")


def running_since(obj: Object) -> str | None:
    """Return since when a workload runs, if its status shows pods, so that work may be lost; else None.

    Pods that never started are counted; :func:`lost_work` excludes them.
    """
    status = obj.get("status") or {}
    since: str | None = obj["metadata"].get("creationTimestamp")
    kind = obj["kind"]
    if end_state(obj):
        return None
    if kind == "CronJob":
        if not status.get("active"):
            return None
        since = status.get("lastScheduleTime") or since
    elif kind == "Job":
        if not status.get("active"):
            return None
        since = status.get("startTime") or since
    elif kind in SERVICES:
        if not (status.get("readyReplicas") or status.get("availableReplicas")):
            return None
        available = condition(obj, "Available")
        since = (available or {}).get("lastTransitionTime") or since
    elif kind == "JobSet":
        jobs = status.get("replicatedJobsStatus") or []
        if not any(item.get("active") or item.get("ready") for item in jobs):
            return None
    else:
        return None
    return since


def running_description(obj: Object, now: float) -> Sentence | None:
    """Return ``running for 3h`` for a workload with :func:`running_since`, else None."""
    since = running_since(obj)
    return None if since is None else running_for(age(since, now))


def lost_work(pods: Iterable[Object], now: float) -> Sentence | None:
    """Return the work that is lost with pods: ``running for 3h`` (since the first container started), or that they have
    run.

    None if no container has started: pods that wait for nodes or images lose nothing. Failed pods are ignored.
    """
    started: list[str] = []
    restarts, ran = 0, False
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") == "Failed":
            continue
        for container in status.get("containerStatuses") or []:
            state = container.get("state") or {}
            restarts += container.get("restartCount") or 0
            ran = ran or "terminated" in state or "terminated" in (container.get("lastState") or {})
            if "running" in state:
                started.append(state["running"].get("startedAt") or status.get("startTime") or "")
    if started:
        return running_for(age(min(started), now))
    if restarts:
        return say("restarted {restarts:time}", restarts=restarts)
    return say("partly finished") if ran else None
