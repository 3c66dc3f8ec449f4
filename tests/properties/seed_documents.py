"""Valid documents of every kind, with every block that they can have: what mutations start from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).parent / "data"


def own_seeds() -> list[str]:
    """The texts in ``data/``: the README's documents and some with every field. They change only with the tests."""
    return _texts(sorted(DATA.glob("*.yaml")))


@cache
def seeds() -> tuple[str, ...]:
    """``data/``, all examples, the inputs of all golden cases, and the starters."""
    # What a build has rendered is no document.
    paths = sorted(path for path in (ROOT / "examples").rglob("*.yaml") if "rendered" not in path.parts)
    paths += sorted((ROOT / "golden").glob("*/input/**/*.y*ml"))
    paths += sorted((ROOT / "compiler" / "gpuctl" / "cli" / "starters").glob("*.yaml"))
    return tuple(dict.fromkeys([*own_seeds(), *_texts(paths)]))


def _texts(paths: list[Path]) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in paths if _is_utf8(path)]


def _is_utf8(path: Path) -> bool:
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True
