"""The Go SDK's generated half."""

from __future__ import annotations

from pathlib import Path

from rest_api import Api


def go_files(api: Api) -> dict[Path, str]:
    """Path -> text."""
    return {}
