"""Follow the logs of a job whose pods come and go: one :class:`LogTail` for each container."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Object, controller_uid
from gpuctl.objects.ownership_metadata import Records, is_controlled
from gpuctl.objects.scheduled_jobs import is_run
from gpuctl.objects.workload_state import end_state, failure_condition, has_ended
from gpuctl.reading.jobs.job_objects import Job, group_by_job, identity_of, newest_generation, selector_of
from gpuctl.reading.jobs.pod_selection import select_container
from gpuctl.reading.jobs.status import one_line, pod_status
from gpuctl.reading.logs.log_streams import ContainerLog, LogBatch, LogOptions, LogProblem, container_state, has_log
from gpuctl.reading.logs.log_streams import waiting_text as why_waiting
from gpuctl.reading.logs.log_tail import LogTail, TailEnded, TailInterruption, TailMessage, put_unless_stopped

_GRACE = 3.0
"""Seconds for which a missing job may reappear: apply deletes, then creates."""
_LINGER = 5.0
"""Seconds for which the stream of a deleted pod stays open for its last lines."""
_TICK = 0.3
_BACKLOG = 256


class Notice(NamedTuple):
    """A message beside the log lines, as a sentence.

    :param uid: uid of the pod it is about; None if it is about the job.
    """

    text: str
    uid: str | None = None


class Interruption(NamedTuple):
    """The log of a pod that runs cannot be read at the moment.

    :param reason: why, as a sentence; "" when it can be read again. No line between is lost.
    """

    pod: str
    uid: str
    reason: str

    @property
    def text(self) -> str:
        """The message for a user, as a sentence."""
        if self.reason:
            return say("the log of {pod} is interrupted, and tried again: {reason}", pod=self.pod, reason=self.reason)
        return say("the log of {pod} continues", pod=self.pod)


class PodEnded(NamedTuple):
    """The log of a pod is complete.

    :param text: how the pod ended, as a sentence.
    :param gone: the pod was deleted, so its log can no longer be read.
    """

    uid: str
    text: str
    gone: bool


Item = LogBatch | Notice | Interruption | LogProblem | PodEnded
_Message = Event | TailMessage


@dataclass(eq=False)
class _Pod:
    """A followed pod.

    :param early: it already had a log when following began.
    :param through: its log was read to the end.
    :param gone: when its deletion was observed (monotonic clock); None while it exists.
    :param told: its end was reported.
    """

    object: Object
    early: bool = False
    source: ContainerLog | None = None
    thread: threading.Thread | None = None
    through: bool = False
    gone: float | None = None
    told: bool = False

    @property
    def is_over(self) -> bool:
        """Return True if none of its containers will run again."""
        return self.gone is not None or has_ended(self.object)

    def is_through(self, now: float) -> bool:
        """Return True if its log is complete."""
        lingers = self.gone is not None and now > self.gone + _LINGER
        return self.is_over and (self.source is None or self.through or lingers)

    @property
    def is_forgettable(self) -> bool:
        """Return True if it was deleted, its end was reported, and no more lines of it can come."""
        return self.told and self.gone is not None and (self.source is None or self.through)

    def end(self) -> str:
        """Return how the pod ended, as a sentence."""
        name, status = self.object["metadata"]["name"], pod_status(self.object)
        if status.phase == "failed":
            return say("pod {name} failed: {reason}", name=name, reason=status.reason or status.word)
        if self.gone is not None and status.phase != "succeeded":
            return say("pod {name} is gone", name=name)
        return say("pod {name} has finished", name=name)


class LogFollower:
    """Follows the log lines of a job's pods until the job has ended.

    :param pods: the pods when following began. Those that are no longer listed have been deleted.
    :param read: sources that were already shown, up to their positions.
    :param only: uid of the only pod to follow; None for all pods.
    :param cause: return why a job has failed, "" if unknown.
    """

    def __init__(
        self,
        session: Session,
        job: Job,
        wanted: LogOptions,
        keys: Records,
        *,
        pods: Iterable[Object] = (),
        read: Iterable[ContainerLog] = (),
        only: str | None = None,
        cause: Callable[[Job], str] = lambda job: "",
    ) -> None:
        self._session = session
        self._job = job
        self._options = wanted
        self._only = only
        self._keys = keys
        self._cause = cause
        self._first = {pod["metadata"]["uid"]: pod for pod in pods if self._is_of_job(pod)}
        self._known = {(source.pod["metadata"]["uid"], source.container): source for source in read}
        self._queue: queue.Queue[_Message] = queue.Queue(_BACKLOG)
        self._pods: dict[str, _Pod] = {}
        self._has_pods = False
        self._tails: dict[ContainerLog, LogTail] = {}
        self._workload: Object | None = None
        # The uid of the followed run of a scheduled training.
        self._run = job.workload["metadata"]["uid"] if job.workload is not None and is_run(job.workload) else None
        self._mains: dict[str, Object] = {}
        self._unlisted: set[str] = set()
        self._absent: float | None = None
        self._stopped = threading.Event()

    def items(self) -> Generator[Item | None, None, None]:
        """Yield lines, notices and problems, and None at intervals without any.

        :raises ClusterError: the job's objects or logs may not be read.
        """
        identity = self._job.identity
        kinds = [self._job.workload["kind"]] if self._job.workload else list(WORKLOADS)
        labels = selector_of(self._job, self._keys)
        reflector = Reflector(
            self._session, [WatchedList(kind, identity.namespace, labels) for kind in [*kinds, "Pod"]]
        )
        self._unlisted = {*kinds, "Pod"}
        reflector.start()
        threading.Thread(target=self._pump, args=(reflector,), daemon=True, name="gpuctl-follow").start()
        try:
            while True:
                try:
                    item = self._queue.get(timeout=_TICK)
                except queue.Empty:
                    yield None
                else:
                    yield from self._handle(item)
                yield from self._ended_pods()
                if not self._unlisted and self._is_over() and self._queue.empty():
                    yield from self._verdict()
                    return
        finally:
            self._stopped.set()
            reflector.stop()
            for tail in self._tails.values():
                tail.stop()

    def _pump(self, reflector: Reflector) -> None:
        try:
            for event in reflector.events():
                if event is not None:
                    self._pass_on(event)
        except ClusterError as error:
            self._pass_on(error)

    def _pass_on(self, message: _Message) -> None:
        put_unless_stopped(self._queue, message, self._stopped.is_set)

    def _handle(self, item: _Message) -> Iterator[Item]:
        if isinstance(item, ClusterError):
            raise item
        if isinstance(item, (LogBatch, LogProblem)):
            yield item
        elif isinstance(item, TailInterruption):
            yield Interruption(item.source.name, item.source.pod["metadata"]["uid"], item.message)
        elif isinstance(item, TailEnded):
            for pod in self._pods.values():
                pod.through = pod.through or pod.source is item.source
            if item.problem is not None:
                yield item.problem
        elif item.type == "LISTED":
            self._unlisted.discard(item.kind)
            if item.kind == "Pod":
                yield from self._note_deleted()
        elif item.kind == "Pod":
            if self._is_of_job(item.object):
                yield from self._pod_event(item)
        elif self._run is not None:
            if item.object["metadata"]["uid"] == self._run:
                self._workload = None if item.type == "DELETED" else item.object
        elif self._is_of_job(item.object) and not is_controlled(item.object):
            self._note(item)

    def _is_of_job(self, obj: Object) -> bool:
        identity = identity_of(obj, self._keys)
        return identity is not None and identity.name == self._job.identity.name

    def _note(self, event: Event) -> None:
        """Update the job's main object from an event. Of several generations the newest is used."""
        if event.type == "DELETED":
            self._mains.pop(event.object["metadata"]["uid"], None)
        else:
            self._mains[event.object["metadata"]["uid"]] = event.object
        generations = group_by_job(self._mains.values(), [], self._keys)
        self._workload = newest_generation(generations).workload if generations else None

    def _note_deleted(self) -> Iterator[Notice]:
        """Add the pods that were deleted before the list was read, and report those that replace them."""
        deleted = {uid: _Pod(pod, gone=time.monotonic()) for uid, pod in self._first.items() if uid not in self._pods}
        for uid, pod in self._pods.items() if deleted else ():
            if uid not in self._first:
                yield Notice(say("{pod} is new", pod=pod.object["metadata"]["name"]), uid=uid)
        self._pods |= deleted
        self._has_pods = self._has_pods or bool(deleted)
        self._first = {}

    def _pod_event(self, event: Event) -> Iterator[Notice]:
        uid, name = event.object["metadata"]["uid"], event.object["metadata"]["name"]
        if self._only not in (None, uid):
            return
        if self._run is not None and controller_uid(event.object) != self._run:
            return
        pod = self._pods.get(uid)
        container = select_container(event.object, self._options.container)
        if pod is None:
            early = "Pod" in self._unlisted and has_log(event.object, container)
            pod = self._pods[uid] = _Pod(event.object, early)
            if "Pod" not in self._unlisted and self._has_pods:
                yield Notice(say("{pod} is new", pod=name), uid=uid)
            self._has_pods = True
        before = container_state(pod.object, container).get("restartCount") or 0
        pod.object = event.object
        if event.type == "DELETED":
            pod.gone = time.monotonic()
        if pod.source is None and has_log(event.object, container):
            key = (uid, container)
            # A new log has no old lines to skip.
            wanted = self._options if pod.early else replace(self._options, tail=None)
            pod.source = self._known.get(key) or ContainerLog(self._session, event.object, container, wanted)
            tail = self._tails[pod.source] = LogTail(pod.source, self._queue)
            tail.update_pod(event.object, over=pod.is_over, gone=pod.gone is not None)
            pod.thread = tail.start()
        elif pod.source is not None:
            pod.source.pod = event.object
            self._tails[pod.source].update_pod(event.object, over=pod.is_over, gone=pod.gone is not None)
        state = container_state(event.object, container)
        if (state.get("restartCount") or 0) > before:
            yield Notice(_restarted(name, state), uid=uid)

    def _is_over(self) -> bool:
        """Return True if no more lines can come: all logs are complete and no new pods are expected."""
        now = time.monotonic()
        if not all(pod.is_through(now) for pod in self._pods.values()):
            self._absent = None
            return False
        if self._only is not None or (self._workload is not None and end_state(self._workload)):
            return True
        if self._workload is not None:
            self._absent = None
            return False
        self._absent = self._absent or now
        return now > self._absent + _GRACE

    def _ended_pods(self) -> Iterator[PodEnded]:
        for uid, pod in [*self._pods.items()]:
            if not pod.told and pod.is_through(time.monotonic()) and self._queue.empty():
                pod.told = True
                yield PodEnded(uid, pod.end(), pod.gone is not None)
            if pod.is_forgettable and uid != self._only:
                self._forget(uid, pod)

    def _forget(self, uid: str, pod: _Pod) -> None:
        """Forget a deleted pod: a job may have any number of them, one after another."""
        del self._pods[uid]
        if pod.source is not None:
            self._tails.pop(pod.source, None)
            self._known.pop((uid, pod.source.container), None)

    def _verdict(self) -> Iterator[Item]:
        """Yield how the job ended, and a problem for each pod that ended without a log."""
        for pod in self._pods.values():
            if pod.source is None and pod.gone is None:
                reason = why_waiting(pod.object)
                yield LogProblem(pod.object["metadata"]["name"], say("it has no log: {reason}", reason=reason))
        title = self._job.identity.title
        if self._only is not None and self._only in self._pods:
            yield Notice(self._pods[self._only].end())
        elif self._workload is None:
            yield Notice(say("{job} is gone", job=title))
        elif end_state(self._workload) == "failed":
            why = failure_condition(self._workload)
            pods = [pod.object for pod in self._pods.values() if pod.gone is None]
            known = self._cause(Job(self._job.identity, self._workload, pods))
            said = known or one_line(why.get("message")) or why.get("reason") or say("see its pods")
            yield Notice(say("{job} failed: {reason}", job=title, reason=said))
        else:
            yield Notice(say("{job} has finished", job=title))

    def waiting_for(self) -> str:
        """Return why no followed pod has a log yet; "" if one has."""
        if any(pod.source is not None and not pod.is_over for pod in self._pods.values()) or self._unlisted:
            return ""
        pods = [pod.object for pod in self._pods.values() if not pod.is_over]
        if not pods:
            return f"waiting for pods of {self._job.identity.title}"
        more = f" (and {len(pods) - 1} more)" if len(pods) > 1 else ""
        return f"waiting for {pods[0]['metadata']['name']}: {why_waiting(pods[0])}{more}"


def _restarted(pod: str, state: Object) -> str:
    ended = (state.get("lastState") or {}).get("terminated") or {}
    if not ended:
        return say("{pod} was restarted", pod=pod)
    reason = ended.get("reason") or "Error"
    return say("{pod} was restarted ({reason}, exit code {code})", pod=pod, reason=reason, code=ended.get("exitCode"))
