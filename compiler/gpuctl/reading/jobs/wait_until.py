"""Wait until jobs are running, ready, done or deleted, or until that is impossible."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import Template, say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import SERVICES, WORKLOADS, Object
from gpuctl.objects.ownership_metadata import Records, is_controlled
from gpuctl.objects.pod_templates import pods_to_start
from gpuctl.objects.prerequisites import Prerequisite, is_waiting
from gpuctl.objects.scheduled_jobs import is_part_of_job
from gpuctl.objects.workload_start import has_started, is_up
from gpuctl.objects.workload_state import end_state, has_ended, other_controller
from gpuctl.reading.jobs.job_lookup import JobNotFound, find_among, jobs_with_names
from gpuctl.reading.jobs.job_objects import (
    Identity,
    Job,
    add_prerequisites,
    add_refusals,
    group_by_job,
    has_app_label,
    identity_of,
    newest_generation,
)
from gpuctl.reading.jobs.status import DEPENDENCY_FAILED, Status, is_ready, pod_status
from gpuctl.reading.why.cause_summary import MOST_ALONE, cause_of, causes_of

CONDITIONS = ("running", "ready", "done", "deleted")
STARTED = "started"
"""A condition of the REST API: all pods are ready, or the job needs none. `apply --wait` of a service uses it."""
_WORDS = {
    "running": Template("is running"),
    "ready": Template("is ready"),
    "done": Template("is done"),
    "deleted": Template("is deleted"),
    STARTED: Template("has started"),
}
_TICK = 0.3
LONGEST_WAIT = 60
"""Maximum wait of one request to the service, seconds."""
MOST_JOBS = 1000
"""Maximum number of jobs that one request to the service may wait for."""
GRACE = 3.0
"""Seconds for which a missing job may reappear: apply deletes, then creates."""
_PREREQUISITES = 2.0
"""Interval at which the prerequisites of a waiting job are read, seconds."""
Outcome = Literal["met", "late", "failed", "gone", "never"]


@dataclass(frozen=True)
class WaitResult:
    """The result of waiting for one job.

    :param identity: None if nothing has the name.
    :param message: the result as a sentence.
    :param cause: why the job has failed or is late; "" if unknown.
    """

    name: str
    identity: Identity | None
    condition: str
    outcome: Outcome
    message: str
    status: Status | None = None
    cause: str = ""

    @property
    def met(self) -> bool:
        """Return True if the job has reached the condition."""
        return self.outcome == "met"


class WaitedJob(NamedTuple):
    """A job to wait for.

    :param uid: uid of its main object when the wait began; None without a main object.
    :param has_app: see :func:`has_app_label`.
    """

    name: str
    identity: Identity
    uid: str | None
    has_app: bool = True


def waited_job(name: str, job: Job) -> WaitedJob:
    """Return a job that was found by ``name``, to be waited for."""
    uid = job.workload["metadata"]["uid"] if job.workload is not None else None
    return WaitedJob(name, job.identity, uid, has_app_label(job))


def already_deleted(name: str) -> WaitResult:
    """Return the result of waiting for the deletion of a name that does not exist."""
    return WaitResult(name, None, "deleted", "met", say("{object} is deleted", object=name))


def deletion_result(name: str, identity: Identity, condition: str) -> WaitResult:
    """Return the result for a job that was deleted with all its pods."""
    title = identity.title
    if condition == "deleted":
        return WaitResult(name, identity, condition, "met", say("{object} is deleted", object=title))
    return WaitResult(
        name,
        identity,
        condition,
        "gone",
        say("{job} was deleted: it will not be {condition}", job=title, condition=condition),
    )


@dataclass
class _Waited:
    """A job that is waited for, updated from events. ``uid`` is the uid of its main object when the wait began.

    If a controller replaces it with another generation, the newest one is used.
    """

    name: str
    job: Job
    uid: str | None
    has_app: bool
    pods: dict[str, Object] = field(default_factory=dict)
    mains: dict[str, Object] = field(default_factory=dict)
    absent: float | None = None
    prerequisites: list[Prerequisite] = field(default_factory=list)
    read_prerequisites_at: float = -_PREREQUISITES

    @property
    def title(self) -> str:
        return self.job.identity.title

    def note(self, event: Event, keys: Records) -> None:
        """Update one of its objects from an event."""
        objects = self.pods if event.kind == "Pod" else self.mains
        if event.kind != "Pod" and not is_part_of_job(event.object):
            return
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            objects.pop(uid, None)
        else:
            objects[uid] = event.object
        generations = group_by_job(self.mains.values(), self.pods.values(), keys)
        if generations:
            self.job = newest_generation(generations)
        else:
            self.job.workload, self.job.pods = None, []


def wait_for(
    scope: Scope,
    names: Sequence[str],
    condition: str,
    keys: Records,
    settings: Settings,
    timeout: float | None,
    tell: Callable[[str], None],
) -> Iterator[WaitResult]:
    """Yield the result for each job as soon as it is known.

    :param timeout: seconds; None to wait without limit.
    :param tell: called with the text of what is awaited.
    :raises NoSuchJob: a name matches nothing that can be waited for, or several jobs.
    """
    with contextlib.nullcontext() if timeout is None else scope.session.within(timeout):
        deadline = time.monotonic() + timeout if timeout is not None else None
        waited: dict[Identity, WaitedJob] = {}
        known = jobs_with_names(scope, names, keys)
        for name in dict.fromkeys(names):
            try:
                job, _ = find_among(scope, known, name, keys)
            except JobNotFound:
                if condition != "deleted":
                    raise
                yield already_deleted(name)
                continue
            waited.setdefault(job.identity, waited_job(name, job))
        yield from wait_on(scope, waited.values(), condition, keys, settings, (deadline, timeout), tell)


def wait_on(
    scope: Scope,
    waited: Iterable[WaitedJob],
    condition: str,
    keys: Records,
    settings: Settings,
    limit: tuple[float | None, float | None],
    tell: Callable[[str], None],
) -> Iterator[WaitResult]:
    """Yield the result for each of some jobs that were found before, as :func:`wait_for`.

    :param limit: deadline on the monotonic clock, and the whole timeout in seconds (for the message); both may be None.
    """
    found = [_Waited(item.name, Job(item.identity, None), item.uid, item.has_app) for item in waited]
    if found:
        yield from _Wait(scope, found, condition, keys, settings, *limit).outcomes(tell)


class _Wait:
    def __init__(
        self,
        scope: Scope,
        waited: list[_Waited],
        condition: str,
        keys: Records,
        settings: Settings,
        deadline: float | None,
        timeout: float | None,
    ) -> None:
        self._scope = scope
        self._waiting = {item.job.identity._replace(generation=""): item for item in waited}
        self._condition = condition
        self._keys = keys
        self._settings = settings
        self._deadline = deadline
        self._timeout = timeout
        self._to_explain = 0

    def outcomes(self, tell: Callable[[str], None]) -> Iterator[WaitResult]:
        reflector = Reflector(self._scope.session, self._watched())
        unread = len(self._watched())
        # The first lists contain all objects of the jobs.
        reflector.start()
        try:
            for event in reflector.events(_TICK):
                if event is not None and event.type == "LISTED":
                    unread -= 1
                elif event is not None:
                    identity = identity_of(event.object, self._keys)
                    heard = self._waiting.get(identity._replace(generation="")) if identity is not None else None
                    if heard is not None:
                        heard.note(event, self._keys)
                if not unread:
                    yield from self._decided()
                    if not self._waiting:
                        return
                    first = next(iter(self._waiting.values()))
                    status = first.job.status(self._keys)
                    tell(self._awaited(first, status))
        finally:
            reflector.stop()

    def _awaited(self, first: _Waited, status: Status) -> str:
        state, more = status.described, len(self._waiting) - 1
        if not more:
            return say(
                "waiting until {condition}: {job}: {state}", condition=self._condition, job=first.title, state=state
            )
        return say(
            "waiting until {condition}: {job}: {state} (and {number} more)",
            condition=self._condition,
            job=first.title,
            state=state,
            number=more,
        )

    def _watched(self) -> list[WatchedList]:
        """Return the watched kinds for each namespace of a job: a watch of all namespaces would need more rights."""
        result = []
        for namespace in sorted({identity.namespace for identity in self._waiting}):
            here = [item for identity, item in self._waiting.items() if identity.namespace == namespace]
            names = sorted({item.job.identity.name for item in here if item.has_app})
            selectors = [f"app in ({','.join(names)})"] if names else []
            if not all(item.has_app for item in here):
                selectors.append("!app")
            for selector in selectors:
                labels = f"{self._keys.job_type},{selector}"
                result += [WatchedList(kind, namespace, labels) for kind in (*WORKLOADS, "Pod")]
        return result

    def _decided(self) -> Iterator[WaitResult]:
        """Yield the results of jobs that need no further waiting, and remove them."""
        late = self._deadline is not None and time.monotonic() > self._deadline
        # Of the jobs that have failed by now, only the first are explained.
        self._to_explain = MOST_ALONE
        for identity, item in list(self._waiting.items()):
            outcome = self._gone(item) if item.job.workload is None else self._there(item, item.job.workload)
            if outcome is not None:
                del self._waiting[identity]
                yield outcome
        if late:
            yield from self._late(list(self._waiting.values()))
            self._waiting.clear()

    def _late(self, late: Sequence[_Waited]) -> Iterator[WaitResult]:
        """Yield the results of jobs that have not reached the condition in time."""
        jobs = [item.job for item in late]
        add_refusals(self._scope, jobs)
        causes = causes_of(self._scope, jobs, self._keys, self._settings)
        for item in late:
            status, cause = item.job.status(self._keys), causes.get(item.job.identity, "")
            text = say(
                "{job} is not {condition} after {timeout} s: {reason}",
                job=item.title,
                condition=self._condition,
                timeout=f"{self._timeout:.0f}",
                reason=cause or status.described,
            )
            yield self._outcome(item, "late", text, status, cause)

    def _gone(self, item: _Waited) -> WaitResult | None:
        """Return the result for a job whose main object does not exist; None to continue waiting."""
        if self._condition == "deleted":
            return None if item.job.pods else deletion_result(item.name, item.job.identity, "deleted")
        if item.job.pods and not any(map(is_controlled, item.job.pods)):
            return self._without_main(item)
        item.absent = item.absent or time.monotonic()
        if time.monotonic() < item.absent + GRACE:
            return None
        # A controller of another kind, such as a DaemonSet, is not watched.
        if item.uid is None and any(not pod["metadata"].get("deletionTimestamp") for pod in item.job.pods):
            return self._without_main(item)
        return deletion_result(item.name, item.job.identity, self._condition)

    def _without_main(self, item: _Waited) -> WaitResult | None:
        """Return the result for pods without a main object of a kind that gpuctl knows; None to continue waiting."""
        status = item.job.status(self._keys)
        # A controller may replace pods that have ended.
        is_lone = not any(map(is_controlled, item.job.pods))
        phases = {pod_status(pod).phase for pod in item.job.pods}
        # A pod with a failed container may restart it.
        if is_lone and any(has_ended(pod) and pod_status(pod).phase == "failed" for pod in item.job.pods):
            text = say("{job} failed: {reason}", job=item.title, reason=status.reason or status.word)
            return self._outcome(item, "failed", text, status)
        runs = phases <= {"running", "succeeded"} and self._condition != "done"
        if (phases == {"succeeded"} and is_lone) or (
            runs and (self._condition == "running" or all(map(is_ready, item.job.pods)))
        ):
            state = say(_WORDS["done" if phases == {"succeeded"} else self._condition])
            return self._outcome(item, "met", say("{job} {state}", job=item.title, state=state), status)
        return None

    def _there(self, item: _Waited, workload: Object) -> WaitResult | None:
        item.absent = None
        condition, title = self._condition, item.title
        if condition == "deleted":
            # A new job of the same name is not the one that was waited for.
            another = workload["metadata"]["uid"] != item.uid
            return (
                self._outcome(item, "met", say("{job} was deleted, and created again", job=title)) if another else None
            )
        self._read_prerequisites(item)
        status = item.job.status(self._keys)
        if status.word == DEPENDENCY_FAILED:
            return self._outcome(
                item,
                "failed",
                say("{object} cannot start: {reason}", object=title, reason=status.reason),
                status,
                status.reason,
            )
        if condition != STARTED and item.job.runs:
            # Of a scheduled training, its newest run.
            workload = item.job.runs[-1]
        ended = end_state(workload)
        if ended == "failed":
            cause = ""
            if self._to_explain:
                self._to_explain -= 1
                cause = cause_of(self._scope, item.job, self._keys, self._settings)
            text = say("{job} failed: {reason}", job=title, reason=cause or status.reason or status.word)
            return self._outcome(item, "failed", text, status, cause)
        if condition == "done" and workload["kind"] in SERVICES:
            text = say("{job} serves until it is deleted: it is never done", job=title)
            return self._outcome(item, "never", text, status)
        if ended or _has_reached(self._condition, workload, item.job.of_newest_run(), self._keys):
            text = say("{job} {state}", job=title, state=say(_WORDS["done" if ended else condition]))
            return self._outcome(item, "met", text, status)
        return None

    def _read_prerequisites(self, item: _Waited) -> None:
        """Update the prerequisites of a job that waits, at intervals: their events are not watched."""
        workload = item.job.workload
        if workload is None or not is_waiting(workload, self._keys):
            return
        if time.monotonic() > item.read_prerequisites_at + _PREREQUISITES:
            add_prerequisites(self._scope, [item.job], self._keys)
            item.prerequisites, item.read_prerequisites_at = item.job.prerequisites, time.monotonic()
        item.job.prerequisites = item.prerequisites

    def _outcome(
        self, item: _Waited, outcome: Outcome, text: str, status: Status | None = None, cause: str = ""
    ) -> WaitResult:
        return WaitResult(item.name, item.job.identity, self._condition, outcome, text, status, cause)


def _has_reached(condition: str, workload: Object, job: Job, keys: Records) -> bool:
    if condition == STARTED:
        return has_started(workload, keys)
    wanted = pods_to_start(workload)
    if condition == "done" or wanted == 0 or (workload.get("spec") or {}).get("suspend"):
        return False
    if condition == "ready" or other_controller(workload):
        return is_up(workload)
    current = [pod for pod in job.pods if not pod["metadata"].get("deletionTimestamp")]
    return sum(pod_status(pod).phase in ("running", "succeeded") for pod in current) >= wanted
