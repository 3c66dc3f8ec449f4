"""Many runs of tests from one process that has imported everything: a fork has a changed function at once.

Only functions are changed, in memory; the tree is not modified. Code outside of functions, and values computed at
import, need a process of their own, see :mod:`mutants.__main__`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeGuard

import coverage
import pytest
from _pytest.runner import runtestprotocol

from mutants.changes import Change

CPU_SECONDS = 240
"""Time limit of a run of tests, a few times the longest. A run that exceeds it on a busy machine proves nothing."""
ENDLESS = "a test that did not end"


class CannotChange(Exception):
    """The change is of no function's body, or changes what variables a function shares with others."""


class Forks:
    """A plugin of pytest that runs collected tests in forks instead of here."""

    def __init__(self, root: Path, workers: int, source: Path) -> None:
        self.root, self.workers, self.source = root, workers, source
        self.work: Callable[[], None] = lambda: None
        self.items: dict[str, pytest.Item] = {}
        self._caches: list[functools._lru_cache_wrapper[Any]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of running the tests."""
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        self.items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # conftest.py has hidden what was there before the tests.
        self._caches = [item for item in gc.get_objects() if _is_cache(item)]
        gc.freeze()
        self.work()
        return True

    def survey(self) -> dict[str, Any]:
        """Return the lines that each test runs with empty caches, and its time.

        ``{"names": [test], "lines": {file: {line: [number of a test]}}, "seconds": {test: seconds}}``: with names in
        place of numbers it would be half a gigabyte, which each fork would have.
        """
        names = list(self.items)
        parts = [names[number :: self.workers] for number in range(self.workers)]
        lines: dict[str, dict[str, list[int]]] = {}
        seconds: dict[str, float] = {}
        # All tests, and watched: no number of seconds is too many.
        for answer in self.run([functools.partial(self._surveyed, part) for part in parts], seconds=None):
            if answer in (None, ENDLESS):
                raise RuntimeError("a test ended the process that it runs in, so that nothing can be concluded")
            seconds |= answer["seconds"]
            for path, found in answer["lines"].items():
                for line, tests in found.items():
                    lines.setdefault(path, {}).setdefault(line, []).extend(tests)
        return {"names": names, "lines": lines, "seconds": seconds}

    def first_failure(self, change: Change, names: Iterable[str]) -> str:
        """Make a change here, in a fork, and run tests until one fails; empty when none does."""
        replace(self.root / change.path, change)
        return next((name for name, passed in self._each(names) if not passed), "")

    def failures(self, names: Iterable[str]) -> list[str]:
        """Run tests in a fork without any change; those that fail."""
        known = sorted(name for name in names if name in self.items)
        (failed,) = self.run([lambda: [name for name, passed in self._each(known) if not passed]], seconds=None)
        return list(known if failed in (None, ENDLESS) else failed)

    def run(self, jobs: list[Callable[[], Any]], *, seconds: int | None = CPU_SECONDS) -> list[Any]:
        """Do jobs in forks, some at a time; their answers in their order, :data:`ENDLESS` of those that did not end.

        :param seconds: of the processor, that each job has.
        """
        answers: list[Any] = [None] * len(jobs)
        with tempfile.TemporaryDirectory(prefix="gpuctl-forks-") as directory:
            running: dict[int, int] = {}
            left = list(enumerate(jobs))
            while left or running:
                while left and len(running) < self.workers:
                    number, job = left.pop(0)
                    running[_fork(job, Path(directory) / str(number), seconds)] = number
                pid, status = os.wait()
                if pid in running:
                    path = Path(directory) / str(running[pid])
                    found = json.loads(path.read_text()) if path.exists() else None
                    answers[running.pop(pid)] = ENDLESS if os.WIFSIGNALED(status) else found
        return answers

    def _surveyed(self, names: list[str]) -> dict[str, Any]:
        cov = coverage.Coverage(data_file=None, source=[str(self.source)], config_file=False)
        seconds: dict[str, float] = {}
        failed = set()

        def begin(name: str) -> None:
            # What an earlier test has computed would hide the lines that this one depends on.
            for cache in self._caches:
                cache.cache_clear()
            cov.switch_context(name)

        cov.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        for name, passed in self._each(names, begin):
            now = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            seconds[name], before = round(now - before, 3), now
            if not passed:
                failed.add(name)
        cov.stop()
        numbers = {name: number for number, name in enumerate(self.items)}
        data = cov.get_data()
        lines = {
            str(Path(path).relative_to(self.root)): {
                str(line): [numbers[test] for test in tests if test and test not in failed]
                for line, tests in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        return {"lines": lines, "seconds": {name: value for name, value in seconds.items() if name not in failed}}

    def _each(self, names: Iterable[str], begin: Callable[[str], object] = str) -> Iterator[tuple[str, bool]]:
        """Run tests; each with whether it passes."""
        chosen = [self.items[name] for name in names]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            begin(item.nodeid)
            reports = runtestprotocol(item, log=False, nextitem=following)
            yield item.nodeid, not any(report.failed for report in reports)


def _fork(job: Callable[[], Any], answer: Path, seconds: int | None) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # A loop without an end is a failure that is noticed; time on a busy machine is not.
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        text = json.dumps(job())
        answer.with_suffix(".part").write_text(text)
        answer.with_suffix(".part").rename(answer)
        code = 0
    finally:
        os._exit(code)
    raise AssertionError("a fork does not come here")


def replace(path: Path, change: Change) -> None:
    """Give the functions of a module the code that they have with a change, and forget what they remembered."""
    text = path.read_bytes()
    old = _function(compile(text, str(path), "exec"), change)
    new = _function(compile(change.applied(text), str(path), "exec"), change)
    with contextlib.suppress(ImportError):
        gc.unfreeze()
    done = 0
    for item in gc.get_objects():
        # By type(), not isinstance(): that asks a weak proxy for the class of what it stands for, which may be gone.
        kind = type(item)
        if kind is FunctionType and _same(item.__code__, old):
            try:
                item.__code__ = new
            except ValueError as error:
                raise CannotChange(str(error)) from None
            done += 1
        elif _is_cache(item):
            item.cache_clear()
    if not done:
        raise CannotChange("there is no such function now")


def _is_cache(item: object) -> TypeGuard[functools._lru_cache_wrapper[Any]]:
    """Return True for the memory of a function of gpuctl. By type(): see :func:`replace`."""
    return type(item) is functools._lru_cache_wrapper and str(item.__module__).startswith("gpuctl")


def _same(code: CodeType, other: CodeType) -> bool:
    return (code.co_filename, code.co_firstlineno, code.co_name) == (
        other.co_filename,
        other.co_firstlineno,
        other.co_name,
    )


def _function(code: CodeType, change: Change) -> CodeType:
    """The code of the outermost function around a change."""
    for name in change.scope.split("."):
        inner = [item for item in code.co_consts if isinstance(item, CodeType) and item.co_name == name]
        before = [item for item in inner if item.co_firstlineno <= change.line]
        if not before:
            raise CannotChange(f"{change.scope} is not found")
        code = max(before, key=lambda item: item.co_firstlineno)
        if code.co_flags & 0x2:  # CO_NEWLOCALS: a function, not a class
            return code
    raise CannotChange("it is in no function")
