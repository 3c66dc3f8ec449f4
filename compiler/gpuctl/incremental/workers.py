"""The parts of a large compile, made by several processes.

A worker is a fork: it has everything that was read, so nothing is sent to it, and what it sends back are parts, as
plain data over a pipe that nobody else can reach. It makes nothing that the process which started it would not make
alike; what a worker cannot send, because it was killed for its memory, is made here.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from gpuctl.incremental.parts import Maker, NoPart, Part, PartRow, Piece
from gpuctl.incremental.units import Unit

WORKERS = "GPUCTL_WORKERS"
"""The variable that says how many processes a compile may use; 1 is none beside this one."""
FEWEST = 200
"""Units of one process below which another is taken to cost more than it saves: estimated, not measured."""
_MOST = 4
_MISTAKE, _END = b"mistake", b"\nend\n"


def processes(units: int) -> int:
    """How many processes should share so many units, this one included."""
    if not hasattr(os, "fork") or sys.platform == "darwin" or threading.active_count() > 1:
        # System libraries of macOS do not survive a fork, and a thread of the caller's may hold a lock.
        return 1
    most = _wanted() or min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, _MOST)
    return max(1, min(most, units // FEWEST))


def _wanted() -> int | None:
    """What the variable says; None where it is not a number of processes."""
    text = os.environ.get(WORKERS, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) <= 64 else None


def make_all(maker: Maker, units: Sequence[Unit], count: int) -> list[Part]:
    """The parts of units, in their order, made by ``count`` processes.

    :raises NoPart: one of them holds a mistake.
    """
    if count <= 1:
        return maker.make(units)
    size = -(-len(units) // count)
    shares = [units[start : start + size] for start in range(0, len(units), size)]
    with contextlib.ExitStack() as stack:
        gc.freeze()
        stack.callback(gc.unfreeze)
        others = [stack.enter_context(_worker(maker, share)) for share in shares[1:]]
        parts = maker.make(shares[0])
        for share, answer in zip(shares[1:], others, strict=True):
            made = answer()
            parts += made if made is not None else maker.make(share)
    return parts


@contextlib.contextmanager
def _worker(maker: Maker, units: Sequence[Unit]) -> Iterator[Callable[[], list[Part] | None]]:
    """A process that makes parts, ended on the way out; what is yielded waits for them. None: there are none."""
    with contextlib.ExitStack() as stack:
        with _uninterrupted():
            # Until it is known how each of them ends again, a Ctrl-C would leave it behind.
            reading, writing = os.pipe()
            stream = stack.enter_context(open(reading, "rb"))
            process = _forked(maker, units, reading, writing)
            if process is not None:
                stack.callback(_end, process)
            os.close(writing)
        yield lambda: _received(stream.read())


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A Ctrl-C comes after the block, also where there are two processes at its end: it is for this one alone."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: int) -> None:
    """It has nothing to clean up, and after an error here nobody waits for the rest of its work."""
    with _uninterrupted():
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _forked(maker: Maker, units: Sequence[Unit], reading: int, writing: int) -> int | None:
    """The process; None when the system has no room for one more, and the pipe stays empty."""
    try:
        process = os.fork()
    except OSError:
        return None
    if process == 0:
        _work(maker, units, reading, writing)
    return process


def _work(maker: Maker, units: Sequence[Unit], reading: int, writing: int) -> NoReturn:
    """The life of a worker. It leaves without what Python does at an end: buffers and handlers are not its own."""
    status = 1
    try:
        # The terminal sends Ctrl-C to all processes, and it is still held back here; who started this one ends it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(reading)
        try:
            answer = _sent(maker.make(units))
        except NoPart:
            answer = [_MISTAKE]
        with open(writing, "wb") as stream:
            stream.writelines(answer)
        status = 0
    except BaseException:  # noqa: S110 - said by the process that does its work instead
        pass
    finally:
        os._exit(status)


def _sent(parts: Sequence[Part]) -> list[bytes]:
    """Parts as a line of JSON and the texts of their manifests, each once: jobs share some."""
    texts: dict[str, int] = {}
    packed = [
        [
            *part[:-1],
            [
                [*piece[:-1], [[*row[:-1], texts.setdefault(row.text, len(texts))] for row in piece.rows]]
                for piece in part.pieces
            ],
        ]
        for part in parts
    ]
    blobs = [text.encode() for text in texts]
    return [json.dumps([packed, [len(blob) for blob in blobs]]).encode(), b"\n", *blobs, _END]


def _received(data: bytes) -> list[Part] | None:
    """What a worker sent; None when it came to no end.

    :raises NoPart: its share holds a mistake.
    """
    if data == _MISTAKE:
        raise NoPart
    if not data.endswith(_END):
        return None
    line, _, blob = data.partition(b"\n")
    packed, sizes = json.loads(line)
    texts, start = [], 0
    for size in sizes:
        texts.append(blob[start : start + size].decode())
        start += size
    parts = []
    for *part, pieces in packed:
        own = [(piece, [PartRow._make([*row, texts[number]]) for *row, number in rows]) for *piece, rows in pieces]
        parts.append(Part._make([*part, [Piece._make([*piece, rows]) for piece, rows in own]]))
    return parts
