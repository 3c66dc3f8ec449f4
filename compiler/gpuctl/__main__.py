"""``gpuctl`` and ``python -m gpuctl``."""

from __future__ import annotations

import gc
import signal
import sys


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
    # What is left needs no collecting: the process ends, and its memory with it.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
