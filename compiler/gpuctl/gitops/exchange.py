"""Two directories change places in one step: the only way to replace a directory that is never seen half done."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from gpuctl.gitops.build_error import CannotSwap

_AT_FDCWD = -100
_LINUX_EXCHANGE = 2  # linux/fs.h RENAME_EXCHANGE
_DARWIN_SWAP = 2  # sys/stdio.h RENAME_SWAP
# Older musl has no renameat2(): its number, from the kernel's tables.
_LINUX_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}
CANNOT = frozenset(
    {
        errno.EPERM,
        errno.EACCES,
        errno.EXDEV,
        errno.EBUSY,
        errno.EINVAL,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EMLINK,
        errno.EROFS,
    }
)
"""Errors that say that a file system or a place has no such operation, not that something went wrong."""


def exchange(one: Path, other: Path) -> None:
    """Let two paths change places, atomically.

    :raises CannotSwap: where the system cannot do that: a mount point, a file system without it.
    :raises OSError: when it fails.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        code = library.renamex_np(first, second, ctypes.c_uint(_DARWIN_SWAP))
    elif hasattr(library, "renameat2"):
        code = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_LINUX_EXCHANGE))
    elif os.uname().machine in _LINUX_NUMBERS:
        call = ctypes.c_long(_LINUX_NUMBERS[os.uname().machine])
        code = library.syscall(call, _AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_LINUX_EXCHANGE))
    else:
        raise CannotSwap("this system cannot exchange directories")
    if code != 0:
        number = ctypes.get_errno()
        if number in CANNOT:
            raise CannotSwap(os.strerror(number))
        raise OSError(number, os.strerror(number), str(one))
