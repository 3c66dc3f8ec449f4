"""A command in a container: bytes in, bytes out, and its exit code."""

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
from gpuctl.objects.api_resources import Key

_TICK, _SHORT_TICK = 5_000, 500
_LAST = 5.0
"""Seconds after the status: nothing follows it but the end of the connection, which may get lost on its way."""
_REPEATED = re.compile(r"^(?:Internal error occurred: )+(?:error executing command in container: )?")
# runc's words: `... exec: "nvidia-smi": executable file not found in $PATH: unknown`.
_NO_PROGRAM = re.compile(r'exec: "([^"]*)": (.*?)(?:: unknown)?$')
_NO_END = b"note: this API server (before Kubernetes 1.30) cannot tell the command that its input has ended\n"


class NotStarted(ClusterError):
    """The container's runtime could not run the command, or lost it."""


class ExecAbandoned(ClusterError):
    """Whoever waited for a command waits no longer; the command itself may go on."""


class Command(NamedTuple):
    """What to run: in which container, with a terminal, with something to read."""

    arguments: Sequence[str]
    container: str
    stdin: bool = False
    tty: bool = False


@dataclass
class ExecStreams:
    """Where the command's streams end here.

    ``stdin`` is a descriptor to read from, None for none; ``out`` and ``err`` take bytes; ``resized`` is a descriptor
    that becomes readable when the terminal has another size, which ``size`` then tells (columns, rows). ``is_over``
    tells, asked twice a second, that nobody waits for the end of the command any longer.
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
    :raises NotStarted: the container has no such program, or it ended in another way than by itself.
    :raises ExecAbandoned: ``ends.is_over`` said so before it ended.
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
    said: bytes | None = None
    last = float("inf")
    if streams.resized is not None:
        poll.register(streams.resized, select.POLLIN)
        _resize(channels, streams)
    tick = _TICK if streams.is_over is None else _SHORT_TICK
    while not channels.closed and time.monotonic() < last:
        if said is None and streams.is_over is not None and streams.is_over():
            raise ExecAbandoned("nobody waits for the command any longer")
        poll.register(channels.fileno(), select.POLLIN | (select.POLLOUT if channels.waiting else 0))
        if stdin is not None:
            # What the other side does not take is not read here either.
            poll.register(stdin, select.POLLIN if channels.can_send else 0)
        ready = dict(poll.poll(0 if channels.has_buffered else tick))
        if channels.waiting:
            channels.flush()
        if stdin in ready and stdin is not None:
            data = os.read(stdin, PORTION)
            if data:
                channels.send(STDIN, data)
            else:
                poll.unregister(stdin)
                stdin = None
                if not channels.end(STDIN):
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
                said = (said or b"") + data
                last = time.monotonic() + _LAST
        channels.keep_alive()
    if said is None:
        raise channels.failure or ConnectionFailed("the connection to the pod ended before the command did")
    return _exit_code(said)


def _resize(channels: Channels, streams: ExecStreams) -> None:
    if streams.size is not None:
        columns, rows = streams.size()
        channels.send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())


def _exit_code(said: bytes) -> int:
    """What the status says; ``k8s.io/apimachinery/pkg/util/remotecommand`` (NonZeroExitCodeReason)."""
    try:
        status = json.loads(said)
    except ValueError:
        raise NotStarted(said.decode("utf-8", "replace").strip()) from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return int(cause["message"])
    message = " ".join(str(status.get("message") or "the command failed").split())
    match = _NO_PROGRAM.search(message)
    if match:
        raise NotStarted(f"the container cannot run {match[1]}: {match[2]}")
    raise NotStarted(_REPEATED.sub("", message)[:600])
