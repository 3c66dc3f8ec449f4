"""Entry point of ``gpuctl-server`` and ``python -m gpuctl_server``."""

from __future__ import annotations

import sys


def program() -> int:
    """Run ``gpuctl-server``. Without the packages of the service, name one and how to install them."""
    try:
        from gpuctl_server.startup import main
    except ModuleNotFoundError as error:
        print(f"gpuctl-server: {error.name} is not installed: `pip install 'gpuctl-k8s[server]'`", file=sys.stderr)
        return 3
    return main()


if __name__ == "__main__":
    sys.exit(program())
