"""``python -m gpuctl_server``."""

from __future__ import annotations

import sys

from gpuctl_server.startup import main

if __name__ == "__main__":
    sys.exit(main())
