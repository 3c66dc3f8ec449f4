"""``gpuctl`` and ``python -m gpuctl``."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys


def program() -> None:
    """:func:`main` for a process that is nothing else: it ends without taking apart all that it has imported and built.

    That takes a twentieth of a cold start. All else that belongs to an end happens: threads are waited for, and whoever
    wants to be called then is called.
    """
    codes: list[object] = []
    # What is registered first is called last.
    atexit.register(_leave, codes)
    try:
        main()
    except SystemExit as end:
        codes.append(end.code)
        raise


def _leave(codes: list[object]) -> None:
    """End the process with the code that is known; without one Python ends it."""
    for code in codes:
        if isinstance(code, int):
            try:
                for stream in (sys.stdout, sys.stderr):
                    if stream is not None:
                        stream.flush()
            except (OSError, ValueError):
                return
            os._exit(code)


def main() -> None:
    """Run the command line. Nobody ever sees a traceback unless they ask for one with ``--debug``."""
    # Nothing that is imported becomes garbage; collecting meanwhile costs a tenth of a cold start.
    gc.disable()
    try:
        from gpuctl.cli.main import run
        from gpuctl.cli.without_plugins import without_plugins
    except KeyboardInterrupt:
        sys.exit(130)

    without_plugins()
    code = run(sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A second Ctrl-C would break into what Python does at its end, with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


if __name__ == "__main__":
    program()
