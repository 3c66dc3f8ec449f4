"""Which gpuctl this is. On its own, so that every room can say it."""

from __future__ import annotations

__version__ = "0.1.0"
