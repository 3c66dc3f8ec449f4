"""The identity of a process as the holder of a lease, and the check whether that process still runs."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
from pathlib import Path

from gpuctl.language.sentences import say
from gpuctl.objects.quantities import whole_number

_SEPARATOR = "#"


def holder_identity() -> str:
    """Return the identity of this process: user@host, pid, start time, and boot id with process namespace.

    With these a later run on the same machine detects at once that the process is dead; other machines have to wait.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return _SEPARATOR.join((f"{user}@{socket.gethostname()}", str(pid), _started(pid) or "", _machine()))


def describe_holder(holder: str) -> str:
    """Return a holder in messages: ``alice@host (process 123)``."""
    who, *rest = holder.split(_SEPARATOR)
    return say("{name} (process {process})", name=who, process=rest[0]) if rest else who


def is_dead(holder: str) -> bool:
    """Return True if the holder certainly no longer runs: it was a process of this machine, and is gone."""
    parts = holder.split(_SEPARATOR)
    if len(parts) != 4 or not parts[2] or parts[3] != _machine() or not parts[3]:
        return False
    process = whole_number(parts[1])
    return process is not None and _started(process) != parts[2]


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{os.readlink('/proc/self/ns/pid')}"
    return ""


def _started(pid: int) -> str | None:
    """Return the start time of a living process in ticks since boot (proc(5), field 22); None for no process or a
    zombie.
    """
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    return None
