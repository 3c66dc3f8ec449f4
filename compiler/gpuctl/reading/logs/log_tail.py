"""A thread that reads one container's log to its end, across broken streams and restarts.

:mod:`~gpuctl.reading.logs.log_follower` follows pods that are replaced.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.backoff import delay_after
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.reading.logs.log_streams import (
    ContainerLog,
    LogBatch,
    LogProblem,
    container_state,
    kubelet_message,
    log_error_text,
)

_EMPTY = 5
"""Number of consecutive streams without a line that count as failures: more of them do not end a log."""
_TRIES = 20
"""Number of attempts to read the log of a container that has ended. That of one that may run again is awaited."""
_REPORTED = 3
"""Number of consecutive failures after which an interruption is reported: shorter ones lose no line."""
_STEADY = 60.0
"""Seconds: a stream that breaks after this time counts as healthy. A container may be silent for hours, and idle
streams get cut.
"""


class TailEnded(NamedTuple):
    """The end of a log. ``problem`` is what could not be read of it; None if the log is complete."""

    source: ContainerLog
    problem: LogProblem | None


class TailInterruption(NamedTuple):
    """A log that cannot be read at the moment; ``message`` is the reason, "" if it can be read again."""

    source: ContainerLog
    message: str


class ContainerRun(NamedTuple):
    """A run of a container.

    :param number: number of restarts before it.
    :param state: ``running``; ``between`` (it may start again); ``over``; ``gone`` (the pod was deleted: a request
        would return the log of another pod of that name, if any).
    """

    number: int
    state: str


TailMessage = LogBatch | LogProblem | TailEnded | TailInterruption | ClusterError
_UNKNOWN = ContainerRun(0, "running")


@dataclass(eq=False)
class LogTail:
    """Reads one source in a thread. The pod's state is set by :meth:`update_pod`."""

    source: ContainerLog
    into: queue.Queue[Any]
    run: ContainerRun = _UNKNOWN
    stopped: bool = False
    _read: int | None = field(default=None)
    _lines: int = 0
    _answered: bool = False
    _whole: bool = True
    _interrupted: bool = False

    def update_pod(self, pod: Object, *, over: bool, gone: bool) -> None:
        """Update the container's run from the latest pod object, and wake the thread if it changed."""
        run = _run_of(pod, self.source.container, over=over)
        run = run._replace(state="gone") if gone else run
        with self.source.lock:
            if run != self.run:
                self.run = run
                self.source.lock.notify_all()

    def stop(self) -> None:
        """Ask the thread to end, and close the stream."""
        with self.source.lock:
            self.stopped = True
            self.source.lock.notify_all()
        self.source.close()

    def start(self) -> threading.Thread:
        """Start the thread."""
        thread = threading.Thread(target=copy_context().run, args=(self._work,), daemon=True, name="gpuctl-log")
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
        """Read until the container will not run again; return what could not be read, or None."""
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
                # The URL of a log has no uid, and the event of the pod's deletion may arrive late.
                if begun is not None and not self.source.is_there():
                    return self._gone()
                if begun is not None and run.number == begun + 1 and self._read != begun:
                    # The container restarted before its previous run was read to the end.
                    self._copy(run, previous=True)
                begun = run.number
                self._copy(run)
            except ClusterError as error:
                if isinstance(error, ApiError) and error.lacks_permission:
                    raise
                steady = self._lines > before or time.monotonic() > opened + _STEADY
                failures = 1 if steady else failures + 1
                refused = isinstance(error, ApiError) and not error.is_transient
                gone = isinstance(error, ApiError) and error.is_missing
                is_over = run.state == "over"
                if gone or (refused and is_over) or ((refused or is_over) and failures > _TRIES):
                    return self._lost(error)
                if failures >= _REPORTED:
                    self._report_interruption(log_error_text(error, self.source.pod))
                self._wait(run, delay_after(failures))
                continue
            if run.state == "over":
                return None
            if run.state == "between":
                self._read, failures = run.number, 0
                continue
            # The stream ended while the container runs: the event of its end is on the way, or a proxy closed the
            # stream.
            failures = 0 if self._lines > before else min(failures + 1, _EMPTY)
            self._wait(run, delay_after(failures))
        return None

    def _gone(self) -> LogProblem | None:
        """Return what is missing of a deleted pod's log; None if it was read completely."""
        if not (self._answered or self._lines):
            return LogProblem(self.source.name, say("it was deleted, and its log with it"))
        return None if self._whole else LogProblem(self.source.name, say("its last lines are lost: it is gone"))

    def _lost(self, error: ClusterError) -> LogProblem | None:
        """Return what is missing of a log that can no longer be read; None if it was read completely."""
        if not (self._answered or self._lines):
            return LogProblem(self.source.name, log_error_text(error, self.source.pod))
        return (
            None
            if self._whole
            else LogProblem(self.source.name, say("its last lines are lost: {reason}", reason=error.message))
        )

    def _copy(self, run: ContainerRun, *, previous: bool = False) -> None:
        """Put the new lines of a run into the queue."""
        following = run.state == "running" and not previous
        try:
            opened = self.source.read(follow=following, previous=True if previous else None)
            self._report_interruption("")
            for lines in opened:
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

    def _report_interruption(self, message: str) -> None:
        """Report the begin of an interruption with its reason, and its end with "", once each."""
        if self._interrupted != bool(message):
            self._interrupted = bool(message)
            self._put(TailInterruption(self.source, message))

    def _put(self, message: TailMessage) -> None:
        put_unless_stopped(self.into, message, lambda: self.stopped)

    def _wait(self, run: ContainerRun, seconds: float) -> None:
        """Wait until the pod's state changes, at most ``seconds``."""
        with self.source.lock:
            self.source.lock.wait_for(lambda: self.stopped or self.run != run, seconds)


def put_unless_stopped(into: queue.Queue[Any], item: Any, is_stopped: Callable[[], bool]) -> None:
    """Put an item into a bounded queue, waiting for room unless the reader has stopped."""
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
