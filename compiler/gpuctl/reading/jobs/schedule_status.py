"""The status of a scheduled training, and the times of its runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuctl.hints import JobHint
from gpuctl.language.cron import CronProblem, NeverMatches
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.objects.api_resources import Object, annotations_of, controller_uid
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.scheduled_jobs import current_runs
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.objects.workload_state import condition, end_state, find_condition
from gpuctl.reading.jobs.cron_times import next_time
from gpuctl.reading.jobs.status import SCHEDULED, Status, job_status


class RunTimes(NamedTuple):
    """The times of the last and the next run, RFC 3339 in UTC. None: it does not exist, or is unknown.

    :param problem: why the next run never comes, or is unknown; "" if a time is known, or the schedule is suspended.
    :param fix: how to remove the problem; None if that is unclear.
    """

    last: str | None
    next: str | None
    problem: str = ""
    fix: Sentence | None = None


def run_times(cron_job: Object, now: float) -> RunTimes:
    """Return when a CronJob ran last, and when it runs next; a suspended one does not run.

    :param now: the time of the API server, seconds since 1970.
    """
    spec, last = cron_job["spec"], (cron_job.get("status") or {}).get("lastScheduleTime")
    if spec.get("suspend"):
        return RunTimes(last, None)
    zone, schedule = spec.get("timeZone") or "UTC", spec["schedule"]
    try:
        coming = next_time(schedule, ZoneInfo(zone), datetime.fromtimestamp(now, timezone.utc))
    except NeverMatches as error:
        problem = say("it never runs: no day matches the schedule `{schedule}`", schedule=visible(schedule))
        return RunTimes(last, None, problem, error.hint)
    except CronProblem as error:
        reason = say("gpuctl does not read the schedule `{schedule}`: {error}", schedule=visible(schedule), error=error)
        return RunTimes(last, None, say("when it runs next is unknown: {reason}", reason=reason), error.hint)
    except (KeyError, ValueError, OSError):
        reason = say("this machine does not know the time zone {zone}", zone=visible(zone))
        return RunTimes(last, None, say("when it runs next is unknown: {reason}", reason=reason))
    return RunTimes(last, format_timestamp(coming) if coming is not None else None)


def schedule_status(
    cron_job: Object, runs: list[Object], pods: Iterable[Object], keys: Records, refusal: str = "", ahead: float = 0.0
) -> Status:
    """Return the status of a scheduled training: that of its newest unfinished run, if there is one.

    :param runs: its runs, oldest first.
    :param refusal: why the pods of the run cannot be created; "" if they can.
    :param ahead: seconds by which the API server's clock is ahead of this machine's.
    """
    if cron_job["metadata"].get("deletionTimestamp"):
        return job_status(cron_job, (), keys)
    run, held = next(iter(current_runs(runs)[-1:]), None), _suspension(cron_job, keys)
    if run is not None and end_state(run) is None:
        mine = [pod for pod in pods if controller_uid(pod) == run["metadata"]["uid"]]
        status = job_status(run, mine, keys, refusal)
        name = say("run {name}", name=run["metadata"]["name"])
        reason = ": ".join(filter(None, (name, status.reason)))
        return status._replace(reason=reason if held is None else clauses(reason, held.reason))
    if held is not None:
        return held
    times = run_times(cron_job, time.time() + ahead)
    said = [say("next run at {time}", time=times.next) if times.next is not None else times.problem]
    if run is not None:
        said.append(say("run {name} {outcome}", name=run["metadata"]["name"], outcome=run_outcome(run)))
    return Status("Scheduled", SCHEDULED, clauses(*said))


def _suspension(cron_job: Object, keys: Records) -> Status | None:
    """Return the status of a suspended schedule without an unfinished run; None if it is not suspended."""
    if not cron_job["spec"].get("suspend"):
        return None
    if keys.paused in annotations_of(cron_job):
        return Status("Paused", "paused", say("{command} continues its schedule", command=JobHint("resume")))
    return Status("Suspended", "paused", say("spec.suspend is set, not by `gpuctl pause`"))


def run_outcome(run: Object) -> str:
    """Return how a finished run ended: ``succeeded``, or ``failed: BackoffLimitExceeded``; "" for an unfinished one."""
    state = end_state(run)
    if state != "failed":
        return "succeeded" if state else ""
    reason = find_condition(run, "Failed").get("reason")
    return f"failed: {reason}" if reason else "failed"


def run_phase(run: Object) -> str:
    """Return ``succeeded``, ``failed``, ``running``, or ``pending`` if no pod of the run is active."""
    ended = end_state(run)
    if ended is not None:
        return "succeeded" if ended == "finished" else ended
    active = (run.get("status") or {}).get("ready") and not run["spec"].get("suspend")
    return "running" if active else "pending"


def end_time(run: Object) -> str | None:
    """Return the time at which a run ended; None for an unfinished one."""
    found = condition(run, "Complete") or condition(run, "Failed")
    ended: str | None = (found or {}).get("lastTransitionTime")
    return ended
