"""Entry point of ``gpuctl`` and ``python -m gpuctl``."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys


def program() -> None:
    """Run :func:`main`, and end the process without destroying all objects, which takes a twentieth of a cold start.

    Threads are joined and :mod:`atexit` functions are called as usual.
    """
    codes: list[object] = []
    # The function registered first is called last.
    atexit.register(_exit_without_teardown, codes)
    try:
        main()
    except SystemExit as end:
        codes.append(end.code)
        raise


def _exit_without_teardown(codes: list[object]) -> None:
    """Flush the output and exit with the known exit code; without one Python ends the process."""
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
    """Run the command line. Tracebacks are printed only with ``--debug``."""
    # Imported objects never become garbage; collecting during imports costs a tenth of a cold start.
    gc.disable()
    # Pydantic reads the metadata of every installed distribution for plugins: a tenth of a cold start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from gpuctl.cli.main import run
    except KeyboardInterrupt:
        sys.exit(130)

    code = run(sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A second Ctrl-C would interrupt Python's shutdown with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


if __name__ == "__main__":
    program()
