"""What starting up imports: every command pays for it, and what only reads a cluster needs no model of a document."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpuctl.language.platform import Platform
from gpuctl.language.settings import Settings

DEAR = {"pydantic", "pydantic_core", "yaml", "jsonschema_rs", "kubernetes", "urllib3", "http"}


def loaded_by(code: str) -> set[str]:
    """The packages that a fresh interpreter has after some code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in result.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize(
    "module",
    [
        *("gpuctl.language.settings", "gpuctl.language.kinds", "gpuctl.language.names", "gpuctl.language.text"),
        *("gpuctl.backend.context", "gpuctl.backend.metadata", "gpuctl.cli.main", "gpuctl.cli.output.text"),
        *("gpuctl.kube.configuration", "gpuctl.kube.connection", "gpuctl.reading.find", "gpuctl.reading.job_rows"),
        *("gpuctl.reading.inventory", "gpuctl.reading.node_rows", "gpuctl.reading.pool_rows"),
    ],
)
def test_what_readers_use_needs_no_model(module: str) -> None:
    assert loaded_by(f"import {module}").isdisjoint(DEAR)


def test_the_settings_of_no_platform_need_no_model() -> None:
    code = (
        "from gpuctl.language.settings import Settings\nsettings = Settings()\n"
        "settings.label('pool'), settings.gpus, settings.default_vendor, settings.used_vendors\n"
        "settings.priorities, settings.external_pools, settings.queue_of('a')"
    )
    assert loaded_by(code).isdisjoint(DEAR)


def test_no_platform_is_a_platform_that_says_nothing() -> None:
    none, empty = Settings(), Settings(Platform())
    for name in ("domain", "gpus", "default_vendor", "used_vendors", "priorities", "external_pools"):
        assert getattr(none, name) == getattr(empty, name), name
    assert none.label("pool") == empty.label("pool")
    assert none.queue_of("a") is empty.queue_of("a") is None
    assert none.platform == empty.platform
