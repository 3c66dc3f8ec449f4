"""Running a command in a container, with its streams and its exit code."""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.kube.channels import PORTION, RESIZE, STATUS, STDERR, STDIN, STDOUT, V4, V5, Channels
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key
from gpuctl.objects.quantities import whole_number

_TICK, _SHORT_TICK = 5_000, 500
_LAST = 5.0
"""Seconds to wait for the end of the connection after the status: nothing else follows, and the end may be lost."""
_REPEATED = re.compile(r"^(?:Internal error occurred: )+(?:error executing command in container: )?")
# Message of runc: `... exec: "nvidia-smi": executable file not found in $PATH: unknown`.
_NO_PROGRAM = re.compile(r'exec: "([^"]*)": (.*?)(?:: unknown)?$')
_NO_END = b"note: this API server (before Kubernetes 1.30) cannot signal the end of input to the command\n"


class NotStarted(ClusterError):
    """The container runtime could not start the command, or lost it."""


class ExecAbandoned(ClusterError):
    """The caller stopped waiting for a command, which may continue to run."""


class Command(NamedTuple):
    """A command to run: its arguments, the container, and whether it gets standard input and a terminal."""

    arguments: Sequence[str]
    container: str
    stdin: bool = False
    tty: bool = False


@dataclass
class ExecStreams:
    """The local ends of a command's streams.

    ``stdin``: descriptor to read from, None for none. ``out``, ``err``: callables that take bytes. ``resized``:
    descriptor that becomes readable when the size of the terminal changes; ``size`` returns that size (columns, rows).
    ``is_over``: polled twice a second; True if the caller no longer waits for the command.
    """

    stdin: int | None
    out: Callable[[bytes], None]
    err: Callable[[bytes], None]
    resized: int | None = None
    size: Callable[[], tuple[int, int]] | None = None
    is_over: Callable[[], bool] | None = None


def execute(session: Session, pod: Key, command: Command, streams: ExecStreams) -> int:
    """Run a command in a container and return its exit code.

    :raises ApiError: the user may not, or the pod does not run.
    :raises NotStarted: the container has no such program, or the command ended without an exit code.
    :raises ExecAbandoned: ``streams.is_over`` returned True before the command ended.
    :raises ConnectionFailed: the connection ended before the command did.
    """
    query = [("container", command.container), ("stdout", "true"), ("stderr", "false" if command.tty else "true")]
    query += [("stdin", str(command.stdin).lower()), ("tty", str(command.tty).lower())]
    query += [("command", argument) for argument in command.arguments]
    channels = session.channels(f"{pod.path}/exec", query, (V5, V4))
    try:
        return _run(channels, streams if command.stdin else replace(streams, stdin=None))
    finally:
        channels.close()


def _run(channels: Channels, streams: ExecStreams) -> int:
    poll = select.poll()
    stdin = streams.stdin
    status_message: bytes | None = None
    last = float("inf")
    if streams.resized is not None:
        poll.register(streams.resized, select.POLLIN)
        _resize(channels, streams)
    tick = _TICK if streams.is_over is None else _SHORT_TICK
    while not channels.closed and time.monotonic() < last:
        if status_message is None and streams.is_over is not None and streams.is_over():
            raise ExecAbandoned(say("the caller no longer waits for the command"))
        poll.register(channels.fileno(), select.POLLIN | (select.POLLOUT if channels.unsent_bytes else 0))
        if stdin is not None:
            # Backpressure: standard input is not read while the send buffer is full.
            poll.register(stdin, select.POLLIN if channels.can_send else 0)
        ready = dict(poll.poll(0 if channels.has_buffered else tick))
        if channels.unsent_bytes:
            channels.flush()
        if stdin in ready and stdin is not None:
            data = os.read(stdin, PORTION)
            if data:
                channels.send(STDIN, data)
            else:
                poll.unregister(stdin)
                stdin = None
                if not channels.close_channel(STDIN):
                    streams.err(_NO_END)
        if streams.resized in ready and streams.resized is not None:
            os.read(streams.resized, 1024)
            _resize(channels, streams)
        for channel, data in channels.receive():
            if channel == STDOUT and data:
                streams.out(data)
            elif channel == STDERR and data:
                streams.err(data)
            elif channel == STATUS and data:
                status_message = (status_message or b"") + data
                last = time.monotonic() + _LAST
        channels.keep_alive()
    if status_message is None:
        raise channels.failure or ConnectionFailed(say("the connection to the pod ended before the command did"))
    return _exit_code(status_message)


def _resize(channels: Channels, streams: ExecStreams) -> None:
    if streams.size is not None:
        columns, rows = streams.size()
        channels.send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())


def _exit_code(status_message: bytes) -> int:
    """Return the exit code in a status; ``k8s.io/apimachinery/pkg/util/remotecommand`` (NonZeroExitCodeReason)."""
    try:
        status = json.loads(status_message)
    except ValueError:
        raise NotStarted(status_message.decode("utf-8", "replace").strip()) from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or []:
        code = whole_number(str(cause.get("message", "")))
        if cause.get("reason") == "ExitCode" and code is not None:
            return code
    message = " ".join(str(status.get("message") or say("the command failed")).split())
    match = _NO_PROGRAM.search(message)
    if match:
        raise NotStarted(say("the container cannot run {program}: {reason}", program=match[1], reason=match[2]))
    raise NotStarted(_REPEATED.sub("", message)[:600])
