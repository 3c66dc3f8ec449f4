"""Finds the platform's file."""

from __future__ import annotations

import os

PLATFORM_FILE = "platform.yaml"


def find_platform(start: str) -> str | None:
    """Return the ``platform.yaml`` in a directory or above it, up to the git root, or None."""
    folder = os.path.realpath(start)
    while True:
        candidate = os.path.join(folder, PLATFORM_FILE)
        if os.path.isfile(candidate):
            return candidate
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return None
        folder = parent
