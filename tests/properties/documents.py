"""Valid documents of every kind, with every block that they can have: what mutations start from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def seeds() -> list[str]:
    """The texts of all examples and golden inputs that compile, and the starters."""
    paths = sorted((ROOT / "examples").rglob("*.yaml"))
    paths += sorted(path for path in (ROOT / "golden").glob("*/input/**/*.y*ml") if "error" not in str(path))
    paths += sorted((ROOT / "compiler" / "gpuctl" / "cli" / "starters").glob("*.yaml"))
    return [path.read_text(encoding="utf-8") for path in paths]
