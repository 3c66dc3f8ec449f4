"""Code that runs without the rights of root."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

_NOBODY = 65534


def as_nobody(work: Callable[[], object]) -> int:
    """Run in a child process without root's rights, also if root runs the tests; return 0 on success."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(_NOBODY)
                os.setuid(_NOBODY)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
