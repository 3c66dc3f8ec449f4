"""The logs of a job's containers: which exist, reading one, and merging all by time."""

from __future__ import annotations

import heapq
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed, NotThere
from gpuctl.kube.backoff import delay_after
from gpuctl.kube.response_streams import ResponseStream
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Key, Object
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.jobs.pod_selection import select_container
from gpuctl.reading.jobs.status import pod_status
from gpuctl.reading.logs.log_parsing import LogLine, Position, instant, parse

_TRIES = 6
_SILENT_NODE = re.compile(r"(?:dial|read) tcp [^ ]*: (?:connect: )?(.*?)\s*$|(context deadline exceeded|i/o timeout)")


class NoLog(NotThere):
    """No log exists yet; the message gives the reason."""


@dataclass(frozen=True)
class LogOptions:
    """Options of a log request, as PodLogOptions.

    :param tail: number of last lines; None for all.
    :param since_seconds: age of the first line, seconds; ``since_time``: its time, RFC 3339.
    :param container: name of the container; None for the default one.
    :param previous: read the run before the last restart.
    """

    tail: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    container: str | None = None
    previous: bool = False

    def query(self) -> dict[str, str]:
        """Return the query parameters of the API (PodLogOptions)."""
        query = {"previous": "true" if self.previous else ""}
        if self.tail is not None:
            query["tailLines"] = str(self.tail)
        if self.since_seconds is not None:
            query["sinceSeconds"] = str(self.since_seconds)
        if self.since_time is not None:
            query["sinceTime"] = self.since_time
        return query


class LogProblem(NamedTuple):
    """The reason why a pod's log, or a part of it, is missing. ``is_outage``: the API server could not be reached."""

    pod: str
    message: str
    is_outage: bool = False


class LogBatch(NamedTuple):
    """Lines of one source, in their order."""

    source: ContainerLog
    lines: list[LogLine]


@dataclass(eq=False)
class ContainerLog:
    """The log of one container of one pod. One thread reads it at a time; ``position`` is how far.

    :meth:`close` ends reading permanently and may be called from any thread.
    """

    session: Session
    pod: Object
    container: str
    options: LogOptions
    position: Position = field(default_factory=Position)
    lock: threading.Condition = field(default_factory=threading.Condition)
    _stream: ResponseStream | None = None
    _closed: bool = False
    _was_empty: bool = False

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    def read(self, *, follow: bool = False, previous: bool | None = None) -> Iterator[list[LogLine]]:
        """Return the lines after those already read. The request is sent before the first line is taken.

        :raises ClusterError: no response, or the stream broke.
        """
        query = self.options.query()
        since = self.position.since
        if since is not None:
            # The position replaces the original options.
            query = {"sinceTime": since, "previous": query["previous"]}
            self.position.resume()
        elif self._was_empty:
            # The log was empty before: every line is new, so none is skipped.
            query.pop("tailLines", None)
        if previous is not None:
            query["previous"] = "true" if previous else ""
        query |= {"container": self.container, "timestamps": "true", "follow": "true" if follow else ""}
        metadata = self.pod["metadata"]
        path = RESOURCES["Pod"].path(metadata["namespace"], metadata["name"]) + "/log"
        stream = self.session.stream(path, query)
        with self.lock:
            self._stream, closed = stream, self._closed
        if closed:
            stream.close()
        return self._fresh(stream)

    def is_there(self) -> bool:
        """Return False if the pod is gone: the API server may then return the log of another pod of the same name.

        Return True if the caller may not get pods.

        :raises ClusterError: no response.
        """
        metadata = self.pod["metadata"]
        try:
            found = self.session.get(Key("Pod", metadata["namespace"], metadata["name"]))
        except ApiError as error:
            if error.lacks_permission:
                return True
            raise
        return found is not None and bool(found["metadata"]["uid"] == metadata["uid"])

    def close(self) -> None:
        """Close the stream; its reader gets an error."""
        with self.lock:
            self._closed, stream = True, self._stream
        if stream is not None:
            stream.close()

    def _fresh(self, stream: ResponseStream) -> Iterator[list[LogLine]]:
        for lines in parse(stream):
            if fresh := self.position.fresh(lines):
                yield fresh
        self._was_empty = self.options.tail != 0

    def read_whole(self, first: Iterator[list[LogLine]]) -> Iterator[list[LogLine]]:
        """Yield the lines of an open stream, and reopen the stream where it breaks.

        :raises ClusterError: it broke too often.
        """
        failures = 0
        while True:
            try:
                for lines in first:
                    failures = 0
                    yield lines
                return
            except ConnectionFailed:
                failures += 1
                if failures > _TRIES:
                    raise
                time.sleep(delay_after(failures))
                first = self.read()


def has_log(pod: Object, container: str) -> bool:
    """Return True if a container has started at least once, or if its pod has ended: then the node may have a log."""
    if has_ended(pod):
        return True
    state = container_state(pod, container)
    return bool(state.get("restartCount")) or bool({"running", "terminated"} & (state.get("state") or {}).keys())


def container_state(pod: Object, container: str) -> dict[str, Any]:
    """Return the container's entry in the pod's status, or {}."""
    status = pod.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for item in status.get(part) or []:
            if item["name"] == container:
                return dict(item)
    return {}


def log_error_text(error: ClusterError, pod: Object) -> str:
    """Return why a pod's log cannot be read, from its status and the API's error."""
    status = pod_status(pod)
    if isinstance(error, ApiError):
        if error.is_missing:
            return say("it was deleted, and its log with it")
        silent = _SILENT_NODE.search(error.raw)
        if error.status >= 500 and silent:
            node = pod["spec"].get("nodeName") or say("its node")
            return say("node {node} does not answer: {reason}", node=node, reason=silent[1] or silent[2])
        if error.status == 400 and "previous terminated container" in error.raw:
            return say("it has not been restarted: there is no run before this one")
        if error.status == 400 and status.phase in ("failed", "unknown"):
            reason = f": {status.reason}" if status.reason else ""
            return say("it is {state} and has no log{reason}", state=status.word, reason=reason)
    return error.message


def waiting_text(pod: Object) -> str:
    """Return why a pod has no log yet: ``Pending: ImagePullBackOff: Back-off pulling image ...``."""
    status = pod_status(pod)
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    words = dict.fromkeys(part for part in (phase, status.word, status.reason) if part)
    return ": ".join(words)


def log_sources(
    session: Session, pods: list[Object], wanted: LogOptions
) -> tuple[list[ContainerLog], list[LogProblem]]:
    """Return the existing logs, and the pods without one.

    :raises NotThere: no pod has the container.
    """
    sources, missing = [], []
    for pod in pods:
        container = select_container(pod, wanted.container)
        if has_log(pod, container):
            sources.append(ContainerLog(session, pod, container, wanted))
        else:
            missing.append(LogProblem(pod["metadata"]["name"], waiting_text(pod)))
    return sources, missing


class MergedLogs:
    """The current logs of all sources, merged by time.

    ``pods`` are the names of their pods, ``missing`` the pods without a log. ``problems`` is complete after the last
    batch.
    """

    def __init__(self, session: Session, sources: list[ContainerLog], missing: Iterable[LogProblem] = ()) -> None:
        self._session = session
        self._sources = sources
        self.pods = {source.name for source in sources}
        self.missing = list(missing)
        self.problems: list[LogProblem] = []

    def batches(self) -> Iterator[LogBatch]:
        """Yield lines in order of time; from a single source in the order received.

        :raises ApiError: logs may not be read.
        """
        opened = self._session.each(self._open, self._sources)
        streams = [(source, first) for source, first in zip(self._sources, opened, strict=True) if first is not None]
        if len(streams) == 1:
            [(source, first)] = streams
            for lines in self._guarded(source, first):
                yield LogBatch(source, lines)
            return
        timed = [self._timed(number, *stream) for number, stream in enumerate(streams)]
        for _, number, line in heapq.merge(*timed, key=lambda entry: entry[0]):
            yield LogBatch(streams[number][0], [line])

    def _open(self, source: ContainerLog) -> Iterator[list[LogLine]] | None:
        try:
            return source.read()
        except ApiError as error:
            if error.lacks_permission:
                raise
            self.problems.append(LogProblem(source.name, log_error_text(error, source.pod)))
        except ConnectionFailed as error:
            self.problems.append(LogProblem(source.name, error.message, is_outage=True))
        return None

    def _guarded(self, source: ContainerLog, first: Iterator[list[LogLine]]) -> Iterator[list[LogLine]]:
        try:
            for lines in source.read_whole(first):
                said = [line for line in lines if not line.stamp]
                self.problems += [LogProblem(source.name, kubelet_message(line)) for line in said]
                yield [line for line in lines if line.stamp] if said else lines
        except ClusterError as error:
            self.problems.append(LogProblem(source.name, log_error_text(error, source.pod)))

    def _timed(
        self, number: int, source: ContainerLog, first: Iterator[list[LogLine]]
    ) -> Iterator[tuple[int, int, LogLine]]:
        for lines in self._guarded(source, first):
            for line in lines:
                yield instant(line.stamp), number, line


def kubelet_message(line: LogLine) -> str:
    """Return the kubelet's message that replaces a log: a line without a timestamp."""
    return say("its node reports: {message}", message=line.text.decode("utf-8", "replace").strip()[:300])
