"""What holds for all tests."""

from __future__ import annotations

import signal

# Ctrl-C is what some tests are about. A script that starts pytest in its background has it ignored, and so would
# everything that pytest starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
