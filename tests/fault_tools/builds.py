"""Builds that are killed, interrupted or refused at one of their changes of the disk, each in a process of its own.

    with Builder() as builder:
        code = builder.run(Job(directory, files, ending=Ending("kill", 7)))

A fork costs what its parent's memory does, and a worker of pytest has hundreds of megabytes: here a small process forks.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Literal, NamedTuple, NoReturn

from control_plane.processes import end_with_parent
from gpuctl.gitops import writer
from gpuctl.gitops.build_error import BuildError
from gpuctl.gitops.layout import File

ROOT = Path(__file__).resolve().parents[2]
CHANGING = frozenset(
    {"open", "write", "truncate", "fsync", "close", "chmod", "chown", "utime"}
    | {"rename", "replace", "link", "symlink", "mkdir", "rmdir", "unlink", "remove"}
)
INTERRUPTED, REFUSED, HALF_BUILT, CRASHED = 41, 42, 43, 44

Way = Literal["kill", "interrupt", "fill disk"]


class Ending(NamedTuple):
    """The way in which a build ends, and the file change before which it ends, counted from 1."""

    way: Way
    number: int


@dataclass(frozen=True)
class Job:
    """A build, and how it ends."""

    directory: Path
    files: dict[str, File]
    force: bool
    ending: Ending


class Builder:
    """The small process."""

    def __enter__(self) -> Builder:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fault_tools.builds"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "compiler"), str(ROOT / "tests")])},
            preexec_fn=partial(end_with_parent, os.getpid()),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, job: Job) -> int:
        """Run a build to its end; its exit code, negative (the signal) when it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(job, self._process.stdin)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def watched(action: Callable[[int], None], work: Callable[[], object]) -> None:
    """Run ``work`` and call ``action`` with 1 before its first change of the disk, and so on."""
    numbers = count(1)

    def watch(_frame: FrameType, event: str, function: object) -> None:
        changing = getattr(function, "__module__", None) == "posix" and getattr(function, "__name__", None) in CHANGING
        if event == "c_call" and changing:
            action(next(numbers))

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _fill_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_WAYS: dict[Way, Callable[[], None]] = {"kill": _kill, "interrupt": _interrupt, "fill disk": _fill_disk}


def _run(job: Job) -> NoReturn:
    code = 0
    way, last = job.ending
    try:
        watched(
            lambda number: _WAYS[way]() if number == last else None,
            lambda: writer.build(job.directory, job.files, force=job.force),
        )
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BuildError as error:
        code = HALF_BUILT if "half built" in str(error) else REFUSED
    except BaseException:
        code = CRASHED
    finally:
        os._exit(code)
    raise AssertionError("a child does not come here")


def _main() -> None:
    while True:
        try:
            job: Job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pid = os.fork()
        if not pid:
            _run(job)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    _main()
