"""The programs of an installed gpuctl for shells, in a directory for PATH.

A ``gpuctl`` that is started there passes its arguments, environment, directory and streams to the process that has
imported gpuctl already, which forks: a start costs 20 ms of processor time instead of 300. It passes no signals on; if
it is killed, its fork is killed as well.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from fault_tools.zygote import Forked, shared

_LONGEST = 1 << 20
# Without `site` and `os`, which cost more than all of this.
_PROGRAM = """\
#!{python} -IS
import _socket, marshal, posix, sys
words = [word.encode(sys.getfilesystemencoding(), "surrogateescape") for word in sys.argv[1:]]
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
control.connect({address!r})
message = marshal.dumps((words, posix.getcwdb(), posix.environ))
control.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
code = int(control.recv(16))
if code < 0:
    posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


@contextlib.contextmanager
def forked_program(directory: Path) -> Iterator[Path]:
    """Yield the directory with ``gpuctl``, and with the ``python`` of these tests."""
    # It ends with the thread that has started it.
    shared()
    address = str(directory / "control")
    texts = {
        "gpuctl": _PROGRAM.format(python=sys.executable, address=address),
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    }
    programs = directory / "bin"
    programs.mkdir()
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        yield programs
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            control, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_run, args=(control,), daemon=True).start()


def _run(control: socket.socket) -> None:
    with control:
        message, streams, _, _ = socket.recv_fds(control, _LONGEST, 3)
        words, directory, variables = marshal.loads(message)
        try:
            environment = {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}
            place = Path(os.fsdecode(directory))
            process = shared().fork([os.fsdecode(word) for word in words], streams, env=environment, cwd=place)
        finally:
            for descriptor in streams:
                os.close(descriptor)
        threading.Thread(target=_kill_if_closed, args=(control, process), daemon=True).start()
        code = process.wait()
        with contextlib.suppress(OSError):
            control.send(str(code).encode())
            # It ends the other thread.
            control.shutdown(socket.SHUT_RDWR)


def _kill_if_closed(control: socket.socket, process: Forked) -> None:
    with contextlib.suppress(OSError):
        # The program has ended if it is closed here.
        control.recv(1)
    process.kill()
