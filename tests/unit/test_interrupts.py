"""Signals that are held back: when they break in, as what, and which are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from gpuctl.apply.run.interrupts import Interrupts, ending_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of this process stay what they are."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


Tell = Callable[[str], None]


def interrupted(block: Callable[[Interrupts, Tell], None]) -> list[str]:
    """What a block told before an interrupt ended it, or came after it."""
    told: list[str] = []

    def whole() -> None:
        with Interrupts() as interrupts:
            block(interrupts, told.append)

    with pytest.raises(KeyboardInterrupt):
        whole()
    return told


def ctrl_c() -> None:
    """Ctrl-C, now."""
    signal.raise_signal(signal.SIGINT)


def test_held_back_until_the_end() -> None:
    def block(interrupts: Interrupts, tell: Tell) -> None:
        ctrl_c()
        tell("to the end")

    assert interrupted(block) == ["to the end"]


def test_breaks_in_where_it_is_let_through() -> None:
    def block(interrupts: Interrupts, tell: Tell) -> None:
        try:
            with interrupts.let_through():
                ctrl_c()
                tell("inside")
        finally:
            tell("given back")

    assert interrupted(block) == ["given back"]


def test_one_that_was_noted_breaks_in_at_the_next_opening() -> None:
    def block(interrupts: Interrupts, tell: Tell) -> None:
        ctrl_c()
        tell("held back")
        with interrupts.let_through():
            tell("inside")

    assert interrupted(block) == ["held back"]


def test_held_back_again_after_an_opening() -> None:
    def block(interrupts: Interrupts, tell: Tell) -> None:
        with interrupts.let_through():
            tell("inside")
        ctrl_c()
        tell("after")

    assert interrupted(block) == ["inside", "after"]


def test_a_second_one_breaks_in_anywhere() -> None:
    def block(interrupts: Interrupts, tell: Tell) -> None:
        ctrl_c()
        tell("first")
        ctrl_c()
        tell("second")

    assert interrupted(block) == ["first"]


def test_a_termination_is_one_also_when_it_was_held_back() -> None:
    """What is to be given back is, and then the process ends as the signal ends it."""
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
def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    """As under nohup, and in the background of a script."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert number not in ending_signals()
        with Interrupts():
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_nothing_is_touched_in_other_threads() -> None:
    def work() -> None:
        with Interrupts() as interrupts, interrupts.let_through():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
