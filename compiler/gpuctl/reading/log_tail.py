"""Reading the log of one container to its end: through broken streams and restarts, in a thread."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.objects.api_resources import Object
from gpuctl.reading.log_streams import (
    ContainerLog,
    LogBatch,
    LogProblem,
    container_state,
    kubelet_message,
    log_error_text,
)

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
_TRIES = 20
_STEADY = 60.0
"""Seconds: a stream that breaks later has not failed: a container may say nothing for hours, which cuts its stream."""


class TailEnded(NamedTuple):
    """All of a log has come; ``problem`` is what could not be read of it."""

    source: ContainerLog
    problem: LogProblem | None


class ContainerRun(NamedTuple):
    """A run of a container: ``number`` counts restarts; ``state`` is running, between (may start again), over,
    or gone: a request would find the log of another pod under that name, if any."""

    number: int
    state: str


TailMessage = LogBatch | LogProblem | TailEnded | ClusterError
_UNKNOWN = ContainerRun(0, "running")


@dataclass(eq=False)
class LogTail:
    """A thread that reads one source: what its pod is doing comes from outside, by :meth:`update_pod`."""

    source: ContainerLog
    into: queue.Queue[Any]
    run: ContainerRun = _UNKNOWN
    stopped: bool = False
    _read: int | None = field(default=None)
    _lines: int = 0
    _answered: bool = False
    _whole: bool = True

    def update_pod(self, pod: Object, *, over: bool, gone: bool) -> None:
        """Hear of the pod."""
        run = _run_of(pod, self.source.container, over=over)
        run = run._replace(state="gone") if gone else run
        with self.source.lock:
            if run != self.run:
                self.run = run
                self.source.lock.notify_all()

    def stop(self) -> None:
        """End soon."""
        with self.source.lock:
            self.stopped = True
            self.source.lock.notify_all()
        self.source.close()

    def start(self) -> threading.Thread:
        """Begin to read."""
        thread = threading.Thread(target=self._work, daemon=True, name="gpuctl-log")
        thread.start()
        return thread

    def _work(self) -> None:
        try:
            problem = self._follow()
        except ClusterError as error:
            self._put(error)
        else:
            self._put(TailEnded(self.source, problem))

    def _follow(self) -> LogProblem | None:
        """Until the container will not run again and all is read; what could not be read is the result."""
        failures = 0
        begun: int | None = None
        while not self.stopped:
            run, before, opened = self.run, self._lines, time.monotonic()
            if run.state == "gone":
                return self._gone()
            if run.number == self._read and run.state == "between":
                self._wait(run, 5.0)
                continue
            try:
                # A log has no uid in its address, and the news of the pod's end may come late.
                if begun is not None and not self.source.is_there():
                    return self._gone()
                if begun is not None and run.number == begun + 1 and self._read != begun:
                    # It was started again before all of the run before had come.
                    self._copy(run, previous=True)
                begun = run.number
                self._copy(run)
            except ClusterError as error:
                if isinstance(error, ApiError) and error.lacks_permission:
                    raise
                steady = self._lines > before or time.monotonic() > opened + _STEADY
                failures = 1 if steady else failures + 1
                refused = isinstance(error, ApiError) and error.status < 500 and run.state == "over"
                gone = isinstance(error, ApiError) and error.is_missing
                if refused or gone or failures > _TRIES:
                    return self._lost(error)
                self._wait(run, _PAUSES[min(failures, len(_PAUSES)) - 1])
                continue
            if run.state == "over":
                return None
            if run.state == "between":
                self._read, failures = run.number, 0
                continue
            # Ended while it was running: the news of its end is on the way, or something cut the stream in order.
            failures = 0 if self._lines > before else min(failures + 1, len(_PAUSES))
            self._wait(run, _PAUSES[max(0, failures - 1)])
        return None

    def _gone(self) -> LogProblem | None:
        """What is missing of the log of a pod that is gone; None when all of it had come."""
        if not (self._answered or self._lines):
            return LogProblem(self.source.name, "it is gone, and its log with it")
        return None if self._whole else LogProblem(self.source.name, "its last lines are lost: it is gone")

    def _lost(self, error: ClusterError) -> LogProblem | None:
        """What is missing of a log that cannot be read any more; None when all of it had come."""
        if not (self._answered or self._lines):
            return LogProblem(self.source.name, log_error_text(error, self.source.pod))
        return None if self._whole else LogProblem(self.source.name, f"its last lines are lost: {error.message}")

    def _copy(self, run: ContainerRun, *, previous: bool = False) -> None:
        """Pass on what is new of a run."""
        following = run.state == "running" and not previous
        try:
            for lines in self.source.read(follow=following, previous=True if previous else None):
                self._whole = False
                said = [line for line in lines if not line.stamp]
                for line in said:
                    self._put(LogProblem(self.source.name, kubelet_message(line)))
                self._put(LogBatch(self.source, [line for line in lines if line.stamp] if said else lines))
                self._lines += len(lines)
                if self.stopped:
                    break
            self._answered = self._whole = True
        except ApiError as error:
            if not previous or error.lacks_permission:
                raise

    def _put(self, message: TailMessage) -> None:
        put_unless_stopped(self.into, message, lambda: self.stopped)

    def _wait(self, run: ContainerRun, seconds: float) -> None:
        """Until the pod is doing something else, or for some time."""
        with self.source.lock:
            self.source.lock.wait_for(lambda: self.stopped or self.run != run, seconds)


def put_unless_stopped(into: queue.Queue[Any], item: Any, is_stopped: Callable[[], bool]) -> None:
    """Put an item into a queue that may be full, unless its reader has stopped."""
    while not is_stopped():
        with contextlib.suppress(queue.Full):
            into.put(item, timeout=0.5)
            return


def _run_of(pod: Object, container: str, *, over: bool) -> ContainerRun:
    state = container_state(pod, container)
    number = int(state.get("restartCount") or 0)
    if over:
        return ContainerRun(number, "over")
    return ContainerRun(number, "running" if "running" in (state.get("state") or {}) else "between")
