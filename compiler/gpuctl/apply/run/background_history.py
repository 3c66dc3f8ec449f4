"""The history of an apply, written by a thread of its own while other steps are still in progress.

Replacing many objects is mostly waiting for the garbage collector. Nothing depends on the history, so no step waits for
it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.run.history_writer import ApplyOrigin, HistoryWriter
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.kube.session import Session
from gpuctl.objects.ownership_metadata import Records

_OUTAGE = 120.0
"""Seconds to wait for an unreachable server while the plan is carried out."""
_PATIENCE = 15.0
"""Maximum seconds to wait for the history after the last step."""


class BackgroundHistory:
    """Receives the steps of one apply, and writes its history.

    ``origin`` returns where the apply comes from; it is called when the first step is done.
    """

    def __init__(self, session: Session, keys: Records, origin: Callable[[], ApplyOrigin]) -> None:
        self._latest = float("inf") if session.deadline is None else session.deadline
        self._session = Session(session.connection, patience=_OUTAGE, deadline=session.deadline)
        self._applying = session
        self._origin = origin
        self._keys = keys
        self._plan: Plan | None = None
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def follow(self, callbacks: RunCallbacks) -> RunCallbacks:
        """Return callbacks that also record the finished steps."""

        def begins(plan: Plan) -> None:
            self._plan = plan
            callbacks.on_start(plan)

        def done(step: Step) -> None:
            if step.result == "done" and step.action in ("create", "replace", "update"):
                self._enqueue(step)
            callbacks.on_step_done(step)

        return replace(callbacks, on_start=begins, on_step_done=done)

    def finish(self) -> None:
        """Wait until everything is written; failures become notes of the plan."""
        if self._thread is not None:
            self._session.deadline = min(self._latest, time.monotonic() + _PATIENCE)
            self._steps.put(None)
            self._thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> BackgroundHistory:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; steps that are not written yet are dropped."""
        self._session.close()
        self._steps.put(None)

    def _enqueue(self, step: Step) -> None:
        self._session.caller = self._applying.caller
        self._steps.put(step)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="gpuctl-history", daemon=True)
            self._thread.start()

    def _write(self) -> None:
        try:
            assert self._plan is not None
            writer = HistoryWriter(self._session, self._plan, self._keys, self._origin())
            goes_on = True
            while goes_on:
                steps = self._next_steps()
                goes_on = None not in steps
                writer.add(step for step in steps if step is not None)
            writer.finish()
        except BaseException as error:
            # Raised by :meth:`finish` in the caller's thread.
            self._error = error

    def _next_steps(self) -> list[Step | None]:
        """Return all queued steps, at least one."""
        heard = [self._steps.get()]
        while not self._steps.empty():
            heard.append(self._steps.get())
        return heard
