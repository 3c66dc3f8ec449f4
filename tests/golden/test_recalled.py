"""Every case with a cache, made in parts: the first run and the second print what a run without it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden import cases
from gpuctl.incremental import run, store

COMPILING = [name for name in cases.case_names() if cases.arguments(name)[0] in ("render", "validate", "build")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one's own, and parts also for few documents."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(store.OFF)
    monkeypatch.setattr(run, "FEWEST", 1)
    return tmp_path / "gpuctl" / "compile"


@pytest.mark.parametrize("name", COMPILING)
def test_the_same_bytes_from_the_cache(name: str, cache: Path) -> None:
    expected = cases.expected(name)
    assert cases.run(name) == expected
    kept = {path.name: path.read_bytes() for path in cache.iterdir()} if cache.exists() else {}
    assert cases.run(name) == expected
    assert ({path.name: path.read_bytes() for path in cache.iterdir()} if cache.exists() else {}) == kept


def test_most_cases_are_kept(cache: Path) -> None:
    for name in COMPILING:
        cases.run(name)
    reads_text = [name for name in COMPILING if (cases.GOLDEN / name / "stdin").exists()]
    assert len(list(cache.iterdir())) > (len(COMPILING) - len(reads_text)) * 3 // 4
