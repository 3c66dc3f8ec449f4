"""A process that has imported gpuctl, its service or its collector already and forks once per command.

    with Zygote() as zygote:
        result = zygote.run(["apply", "-f", "job.yaml"], env={"KUBECONFIG": path})
        running = zygote.start(["apply", "-f", "job.yaml"])
        running.kill()

A cold start costs 0.3 s, of the service 1.1 s, mostly imports; a fork costs a hundredth of it, and tests that kill a command at each of its
requests need thousands. The child is as good as a fresh process: the zygote has one thread, has run nothing, and the
child ends as Python does. Kernel and processes only: Linux.

On the wire: one message per command on a socket (JSON, with stdin, stdout, stderr and the writing end of a pipe as
file descriptors); the answer is a pidfd; the pipe gets the wait status once the child is reaped, not earlier, so that
a process that has been waited for is no zombie that others take for alive.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn

from control_plane.processes import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
_MESSAGE = 200_000
_STATUS = struct.Struct("=i")
_LONGEST_OUTPUT = 64 << 20


class Timeout(Exception):
    """A command ran longer than the test lets it."""


class Result(NamedTuple):
    """The result of a command; ``code`` is negative, the signal, if it was killed."""

    code: int
    stdout: str
    stderr: str


class Forked:
    """A forked process, as ``subprocess.Popen`` has one. Safe to use from several threads."""

    def __init__(self, pid: int, pidfd: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._status = status
        self._lock = threading.RLock()

    def poll(self) -> int | None:
        """Its exit code, negative when a signal has ended it; None while it runs."""
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], 0)[0]:
                raw = os.read(self._status, _STATUS.size)
                self.returncode = os.waitstatus_to_exitcode(_STATUS.unpack(raw)[0]) if raw else -signal.SIGKILL
                os.close(self._status)
                os.close(self._pidfd)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            # A copy: another thread may find that it has ended, and close ours.
            with self._lock:
                if self.returncode is not None:
                    continue
                status = os.dup(self._status)
            try:
                select.select([status], [], [], left)
            finally:
                os.close(status)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        """End it as Kubernetes does."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.send_signal(signal.SIGKILL)


@dataclass
class Running:
    """A command under way."""

    arguments: tuple[str, ...]
    process: Forked
    _stdout: int
    _stderr: int
    _result: Result | None = None

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and return when the process runs no more."""
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)

    def stderr(self) -> str:
        """Return the text printed to stderr so far."""
        return _content(self._stderr)

    def wait(self, timeout: float = 120) -> Result:
        """Its result; when it takes longer it is killed and :class:`Timeout` raised with what it had printed."""
        if self._result is not None:
            return self._result
        late = False
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
            self.kill()
            code = self.process.wait(10)
        self._result = Result(code, _content(self._stdout), _content(self._stderr))
        for descriptor in (self._stdout, self._stderr):
            os.close(descriptor)
        if late:
            raise Timeout(f"gpuctl {' '.join(self.arguments)} took more than {timeout:.0f} s:\n{self._result.stderr}")
        return self._result


class Zygote:
    """The test's side. Safe to use from several threads.

    :param program: what its children become: ``gpuctl``, ``gpuctl_server``, or, with ``gpuctl_usage``, a Python whose
        first argument is a program as ``python -c`` has it, and which has imported the collector.
    """

    def __init__(self, program: str = "gpuctl") -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        # A session of its own: Ctrl-C in the terminal goes to pytest alone, which ends this in order.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fault_tools.zygote", str(theirs.fileno()), program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "PYTHONPATH": os.pathsep.join(
                        str(ROOT / part) for part in ("compiler", "server", "tests", "tools")
                    ),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "PYDANTIC_DISABLE_PLUGINS": "__all__",
                },
                start_new_session=True,
                preexec_fn=partial(end_with_parent, os.getpid()),
            )
        if self._control.recv(16) != b"ready":
            raise RuntimeError("the zygote did not start; its message is above")
        self.pid = self._process.pid

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.wait(10)

    def start(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
    ) -> Running:
        """Start ``gpuctl ARGUMENTS``; the environment is ``env`` with PATH and HOME, nothing of the test's."""
        streams = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        os.pwrite(streams[0], stdin.encode(), 0)
        own = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", **(env or {})}
        process = self.fork(arguments, streams, env=own, cwd=cwd or Path("/"))
        os.close(streams[0])
        return Running(tuple(arguments), process, streams[1], streams[2])

    def fork(self, arguments: Sequence[str], streams: Sequence[int], *, env: Mapping[str, str], cwd: Path) -> Forked:
        """Start the program with standard input, output and error, which stay open here."""
        reading, writing = os.pipe()
        job = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd)}
        with self._lock:
            socket.send_fds(self._control, [json.dumps(job).encode()], [*streams, writing])
            answer, descriptors, _, _ = socket.recv_fds(self._control, 64, 1)
        os.close(writing)
        if not descriptors:
            raise RuntimeError("the zygote has ended")
        return Forked(int(answer), descriptors[0], reading)

    def run(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        timeout: float = 120,
    ) -> Result:
        """Run a command to its end."""
        return self.start(arguments, env=env, cwd=cwd, stdin=stdin).wait(timeout)


@cache
def shared(program: str = "gpuctl") -> Zygote:
    """Return the zygote that all tests of this process share. It ends with the process, because no other has its
    socket.
    """
    return Zygote(program)


def _content(descriptor: int) -> str:
    return os.pread(descriptor, _LONGEST_OUTPUT, 0).decode()


class _Job(NamedTuple):
    """The settings of a child process."""

    arguments: list[str]
    env: dict[str, str]
    cwd: str
    streams: list[int]


def _prepare_service() -> None:
    """Import what the service imports when it starts, and answers."""
    names = [f"uvicorn.{name}" for name in ("loops.asyncio", "lifespan.on", "protocols.http.h11_impl")]
    source = ROOT / "server"
    for path in sorted((source / "gpuctl_server").rglob("*.py")):
        if not path.stem.startswith("__"):
            names.append(".".join(path.relative_to(source).with_suffix("").parts))
    for name in names:
        with contextlib.suppress(ImportError):
            import_module(name)


def _prepare_commands() -> None:
    """Import what commands import when they run."""
    main = import_module("gpuctl.cli.main")
    names = [f"gpuctl.cli.commands.{name}" for name in main.COMMANDS]
    names += ["kubernetes.client", "kubernetes.config", "urllib3", "jsonschema_rs", "yaml", "concurrent.futures.thread"]
    source = ROOT / "compiler"
    for room in ("kube", "capacity", "apply"):
        for path in sorted((source / "gpuctl" / room).rglob("*.py")):
            if path.stem != "__init__":
                names.append(".".join(path.relative_to(source).with_suffix("").parts))
    for name in names:
        # A module that is broken says so where a command needs it, not here for all of them.
        with contextlib.suppress(ImportError):
            import_module(name)
    # Tables and validators that are built at first use; results of a compile are kept nowhere.
    starters = ROOT / "compiler" / "gpuctl" / "cli" / "starters"
    compilation = import_module("gpuctl").compile(sorted(starters.glob("*.yaml")))
    if not compilation.ok:
        raise RuntimeError(f"the starter documents do not compile: {compilation.diagnostics}")


def _prepare_collector() -> None:
    """Import what the collector imports, and what its database needs."""
    _prepare_commands()
    names = ["sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"]
    source = ROOT / "server"
    for path in sorted((source / "gpuctl_usage").rglob("*.py")):
        if "migrations" not in path.parts and path.stem != "__init__":
            names.append(".".join(path.relative_to(source).with_suffix("").parts))
    for name in names:
        with contextlib.suppress(ImportError):
            import_module(name)


_PREPARE = {"gpuctl": _prepare_commands, "gpuctl_server": _prepare_service, "gpuctl_usage": _prepare_collector}


def _prepare(program: str) -> None:
    _PREPARE[program]()
    # Pages that the collector never touches stay shared with all children.
    gc.collect()
    gc.freeze()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads after its imports: forks of it would hang")


def _serve(control: socket.socket) -> _Job | None:
    """Fork for each message; returns in each child with its job, and in the zygote, with None, when the test ends."""
    wakeup, awake = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(awake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(awake)
    waiting: dict[int, int] = {}
    zygote = os.getpid()
    control.send(b"ready")
    while True:
        ready, _, _ = select.select([control.fileno(), wakeup], [], [])
        if wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 4096)
            _reap(waiting)
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE, 4)
        if not message:
            return None
        *streams, status = descriptors
        pid = os.fork()
        if not pid:
            end_with_parent(zygote)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (wakeup, awake, status, control.detach(), *waiting.values()):
                os.close(descriptor)
            return _Job(**json.loads(message), streams=streams)
        waiting[pid] = status
        pidfd = os.pidfd_open(pid)
        socket.send_fds(control, [str(pid).encode()], [pidfd])
        for descriptor in (pidfd, *streams):
            os.close(descriptor)


def _reap(waiting: dict[int, int]) -> None:
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        descriptor = waiting.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(descriptor, _STATUS.pack(status))
        os.close(descriptor)


def _become(program: str, job: _Job) -> NoReturn:
    """Turn a fresh child into the program, and run it."""
    for number, descriptor in enumerate(job.streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _open_streams(job.env.get("PYTHONIOENCODING"))
    os.environ.clear()
    os.environ.update(job.env)
    time.tzset()
    os.chdir(job.cwd)
    sys.argv = [program, *job.arguments]
    code = _code_of(_run_of(program), job.arguments)
    # The end of Python that one can see: threads are waited for, exit functions run, buffers written. What is left
    # out, taking 400 modules apart, costs 30 ms and would copy every page that is shared with the zygote.
    shutdown: Callable[[], None] = vars(threading)["_shutdown"]
    shutdown()
    vars(atexit)["_run_exitfuncs"]()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _open_streams(encoding: str | None) -> None:
    """Open the streams as Python does: properties of the zygote's streams, such as being seekable, do not hold in the
    child.

    :param encoding: that of the child's environment, or the zygote's.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        was = getattr(sys, name)
        by_line = name == "stderr" or os.isatty(number)
        mode = "w" if number else "r"
        stream = os.fdopen(number, mode, 1 if by_line else -1, encoding or was.encoding, was.errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run_of(program: str) -> Callable[[list[str]], int]:
    if program == "gpuctl_usage":
        return _run_code
    module, function = {"gpuctl": ("gpuctl.cli.main", "run"), "gpuctl_server": ("gpuctl_server.startup", "main")}[
        program
    ]
    run: Callable[[list[str]], int] = getattr(import_module(module), function)
    return run


def _run_code(arguments: list[str]) -> int:
    """Run code as ``python -c`` does."""
    sys.argv = ["-c", *arguments[1:]]
    exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    return 0


def _code_of(run: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        return run(arguments)
    except SystemExit as error:
        # As Python has it.
        return error.code if isinstance(error.code, int) else int(error.code is not None)


def _main() -> None:
    program = sys.argv[2]
    _prepare(program)
    job = _serve(socket.socket(fileno=int(sys.argv[1])))
    if job is not None:
        _become(program, job)


def _hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """A traceback to the descriptor: `sys.stderr` may have been replaced by the command."""
    import traceback

    os.write(2, "".join(traceback.format_exception(kind, value, trace)).encode())


if __name__ == "__main__":
    sys.excepthook = _hook
    _main()
