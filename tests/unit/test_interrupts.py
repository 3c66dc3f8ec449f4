"""Deferred signals: where they are raised, as which exception, and which signals are left alone."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl.apply.plan.plan import Action, Plan, Step
from gpuctl.apply.run.interrupts import Interrupts, SignalHandler, ending_signals
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.stage_execution import RunState, StageExecution
from gpuctl.cli.options.connection_options import Progress
from gpuctl.objects.api_resources import key_of


@pytest.fixture(autouse=True)
def unchanged_handlers() -> Iterator[None]:
    """Assert that the test leaves the signal handlers of this process unchanged."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


Record = Callable[[str], None]


def interrupted(block: Callable[[Interrupts, Record], None]) -> list[str]:
    """Run a block under ``Interrupts`` until KeyboardInterrupt, and return the texts that it recorded."""
    recorded: list[str] = []

    def whole() -> None:
        with Interrupts() as interrupts:
            block(interrupts, recorded.append)

    with pytest.raises(KeyboardInterrupt):
        whole()
    return recorded


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_interrupt_is_raised_at_the_end() -> None:
    def block(interrupts: Interrupts, record: Record) -> None:
        ctrl_c()
        record("to the end")

    assert interrupted(block) == ["to the end"]


def test_interrupt_is_raised_inside_let_through() -> None:
    def block(interrupts: Interrupts, record: Record) -> None:
        try:
            with interrupts.let_through():
                ctrl_c()
                record("inside")
        finally:
            record("given back")

    assert interrupted(block) == ["given back"]


def test_pending_interrupt_is_raised_at_the_next_let_through() -> None:
    def block(interrupts: Interrupts, record: Record) -> None:
        ctrl_c()
        record("held back")
        with interrupts.let_through():
            record("inside")

    assert interrupted(block) == ["held back"]


def test_interrupt_after_let_through_is_deferred() -> None:
    def block(interrupts: Interrupts, record: Record) -> None:
        with interrupts.let_through():
            record("inside")
        ctrl_c()
        record("after")

    assert interrupted(block) == ["inside", "after"]


def test_second_interrupt_is_raised_at_once() -> None:
    def block(interrupts: Interrupts, record: Record) -> None:
        ctrl_c()
        record("first")
        ctrl_c()
        record("second")

    assert interrupted(block) == ["first"]


def test_first_signal_stops_a_run_and_the_second_is_raised() -> None:
    unused: Any = SimpleNamespace()
    state = RunState(unused, Plan(), RunOptions(), RunCallbacks(), unused)

    def run() -> None:
        with SignalHandler(state.interrupt):
            ctrl_c()
            assert (state.is_interrupted(), state.plan.interrupted) == (True, signal.SIGINT)
            ctrl_c()
            state.plan.interrupted = 0

    with pytest.raises(KeyboardInterrupt):
        run()
    assert state.plan.interrupted == signal.SIGINT


def test_deferred_sigterm_ends_the_process_after_cleanup() -> None:
    """The cleanup runs, and the process then ends by the signal."""
    code = """
import signal
from gpuctl.apply.run.interrupts import Interrupts
with Interrupts() as interrupts:
    try:
        with interrupts.let_through():
            signal.raise_signal(signal.SIGTERM)
    finally:
        print("given back", flush=True)
print("after")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGTERM, "given back\n", "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_ignored_signals_stay_ignored(number: signal.Signals) -> None:
    """Signals are ignored under nohup, and for background processes of a script."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert number not in ending_signals()
        with Interrupts():
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_other_threads_keep_their_handlers() -> None:
    def work() -> None:
        with Interrupts() as interrupts, interrupts.let_through():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_progress_on_a_closed_terminal_does_not_stop_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hangup of a terminal lets the steps in progress finish, and nothing can be printed then."""

    class ClosedTerminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    progress = Progress()
    progress.wait("waiting")
    progress.say("interrupted")
    progress.clear()


@pytest.mark.parametrize(("action", "end"), [("replace", "leave them to `gpuctl recover`"), ("delete", "end at once")])
def test_interrupt_offers_recovery_only_for_what_a_journal_restores(action: Action, end: str) -> None:
    """No journal finishes a deletion."""
    live = {"kind": "Job", "metadata": {"name": "a", "namespace": "n", "uid": "u"}}
    plan, said = Plan([Step(action, key_of(live), live=live)]), list[str]()
    with ThreadPoolExecutor(1) as executor:
        unused: Any = SimpleNamespace(executor=executor)
        state = RunState(unused, plan, RunOptions(), RunCallbacks(on_message=said.append), unused)
        state.interrupted = True
        StageExecution(state, plan.steps).execute()
    assert said == [f"interrupted: finishing the steps in progress; interrupt again to {end}"]
    assert plan.steps[0].result == "not-run"
