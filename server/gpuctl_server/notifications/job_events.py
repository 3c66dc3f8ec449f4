"""Events of jobs that are to be reported, from the mirror alone: the same events after a restart and in each replica.

Users may write the annotation of their jobs. It selects events and channels of the platform, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from gpuctl.language.notify_block import Notify, parse_notify
from gpuctl.objects.api_resources import Object, annotations_of, controller_uid, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import outcome_of
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.objects.sweep_ends import SweepEnds
from gpuctl.objects.timestamps import seconds_of
from gpuctl.objects.workload_state import end_state
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.status import DEPENDENCY_FAILED, Status

EventKind = Literal["done", "failed", "waiting"]
SETTLING = 30.0
"""Seconds from the last end in a sweep to its report: its other jobs may not have been created yet."""
_LAST_CONDITIONS = {"Job": ("Complete", "Failed"), "JobSet": ("Completed", "Failed")}
"""Conditions that come last, when all pods have ended. Earlier ones have other times."""


class JobEvent(NamedTuple):
    """An event of a run, or of all jobs of a sweep.

    :param run: identity of the run: the uid of its object, or namespace and name of the sweep.
    :param began: time of the end, or since when the run waits; seconds since the epoch. A later one is a new event.
    :param due: time from which the event is reported.
    :param job: the run, for its cause. Of a sweep, a job with this event.
    :param jobs: of a sweep, the number of its jobs; ``bad``: those that have failed, or wait.
    """

    kind: EventKind
    run: str
    began: float
    due: float
    notify: Notify
    job: Job
    status: Status
    sweep: str | None = None
    jobs: int = 1
    bad: int = 0

    @property
    def key(self) -> str:
        """Identity of the event. A run ends once, whichever way."""
        return f"{self.run}/{'waiting' if self.kind == 'waiting' else 'end'}"


class _Run(NamedTuple):
    job: Job
    status: Status
    notify: Notify
    sweep: str | None


def job_events(jobs: Iterable[tuple[Job, Status]], keys: Records) -> Iterator[JobEvent]:
    """Yield the events of jobs, reported or not, and those that are due later."""
    sweeps: dict[tuple[str, str], list[_Run]] = {}
    ends: dict[tuple[str, str], SweepEnds] = {}
    for job, status in jobs:
        if job.workload is not None and (sweep := labels_of(job.workload).get(keys.sweep)) is not None:
            known = ends.setdefault((job.identity.namespace, sweep), SweepEnds(sweep))
            known.add(job.identity.name, outcome_of(job.workload), job.workload, keys.sweep_size)
        for run in _runs(job, status, keys):
            if run.sweep is not None:
                sweeps.setdefault((run.job.identity.namespace, run.sweep), []).append(run)
            else:
                yield from _events(run, keys)
    for place, members in sweeps.items():
        yield from _sweep_events(members, ends[place].absent(), keys)


def _runs(job: Job, status: Status, keys: Records) -> Iterator[_Run]:
    """Yield the runs of a job: those of a scheduled training, or the job itself."""
    main = job.workload
    notify = parse_notify(annotations_of(main).get(keys.notify)) if main is not None else None
    if main is None or notify is None:
        return
    if is_scheduled(main):
        for run in job.runs:
            own = [pod for pod in job.pods if controller_uid(pod) == run["metadata"]["uid"]]
            found = Job(job.identity, run, own, refusal=job.refusal)
            yield _Run(found, found.status(keys), notify, None)
    else:
        yield _Run(job, status, notify, labels_of(main).get(keys.sweep))


def _events(run: _Run, keys: Records) -> Iterator[JobEvent]:
    uid = str((run.job.workload or {})["metadata"]["uid"])
    ended = _end(run.job)
    if ended is not None:
        kind: EventKind = "failed" if end_state(run.job.workload or {}) == "failed" else "done"
        if getattr(run.notify, kind):
            yield JobEvent(kind, uid, ended, ended, run.notify, run.job, run.status)
        return
    began, limit = _waiting_since(run, keys), run.notify.seconds
    if began is not None and limit is not None:
        yield JobEvent("waiting", uid, began, began + limit, run.notify, run.job, run.status)


def _sweep_events(members: list[_Run], absent: Sequence[str], keys: Records) -> Iterator[JobEvent]:
    """Yield the event of a sweep: the end of its last job, or that none of its jobs runs.

    A sweep that lacks jobs has not ended, as for `job.after`: an apply was interrupted, or jobs were deleted. Their ttl
    may have removed jobs that have ended, and the event must not be lost.

    :param absent: its jobs that do not exist.
    """
    newest = max(members, key=lambda run: (_created(run.job.workload), run.job.identity.name))
    name, notify = newest.sweep, newest.notify
    run_id = f"{newest.job.identity.namespace}/{name}"
    ends = [_end(run.job) for run in members]
    # JobSets of users may have no spec.
    expire = any("ttlSecondsAfterFinished" in ((run.job.workload or {}).get("spec") or {}) for run in members)
    if all(end is not None for end in ends):
        if absent and not expire:
            return
        failed = [run for run in members if end_state(run.job.workload or {}) == "failed"]
        kind: EventKind = "failed" if failed else "done"
        last = max(end for end in ends if end is not None)
        due = max(last, _created(newest.job.workload)) + SETTLING
        shown = (failed or [newest])[0]
        if getattr(notify, kind):
            counts = len(members), len(failed)
            yield JobEvent(kind, run_id, last, due, notify, shown.job, shown.status, name, *counts)
        return
    waiting = [(since, run) for run in members if (since := _waiting_since(run, keys)) is not None]
    limit = notify.seconds
    if not waiting or limit is None or any(run.status.phase == "running" for run in members):
        return
    began, first = min(waiting, key=lambda item: (item[0], item[1].job.identity.name))
    counts = len(members), len(waiting)
    yield JobEvent("waiting", run_id, began, began + limit, notify, first.job, first.status, name, *counts)


def _end(job: Job) -> float | None:
    """Return when a training ended; None if it has not, or is being deleted."""
    main = job.workload or {}
    if main["metadata"].get("deletionTimestamp"):
        return None
    for item in (main.get("status") or {}).get("conditions") or []:
        if item.get("type") in _LAST_CONDITIONS.get(main["kind"], ()) and item.get("status") == "True":
            return seconds_of(item.get("lastTransitionTime"))
    return None


def _waiting_since(run: _Run, keys: Records) -> float | None:
    """Return since when no pod of a run has started; None if one has, or if the run is not supposed to start.

    Pods whose containers have run before do not wait: they crash.
    """
    job, status, main = run.job, run.status, run.job.workload or {}
    missing = any(one.state == "missing" for one in job.prerequisites)
    if status.word == "Waiting" and not missing:
        return None
    if status.phase != "pending" and status.word != DEPENDENCY_FAILED:
        return None
    pods = [pod for pod in job.pods if not pod["metadata"].get("deletionTimestamp")]
    if any(map(_has_run, pods)):
        return None
    if pods:
        return min((_created(pod) for pod in pods), default=None)
    times = [_created(main), seconds_of(annotations_of(main).get(keys.released)) or 0.0]
    for item in (main.get("status") or {}).get("conditions") or []:
        # A job that its queue has stopped waits from then on; a service that a quota refuses, since the refusal.
        if item.get("type") in ("Suspended", "ReplicaFailure"):
            times.append(seconds_of(item.get("lastTransitionTime")) or 0.0)
    return max(times)


def _has_run(pod: Object) -> bool:
    status = pod.get("status") or {}
    if status.get("phase") not in (None, "Pending", "Running"):
        return True
    states = status.get("containerStatuses") or []
    return any(
        state.get("restartCount") or (state.get("state") or {}).keys() & {"running", "terminated"} for state in states
    )


def _created(obj: Object | None) -> float:
    return seconds_of((obj or {}).get("metadata", {}).get("creationTimestamp")) or 0.0
