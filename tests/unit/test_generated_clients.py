"""Third-party tools accept the OpenAPI document of the service, and the clients that they generate compile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import openapi
import pytest

from support.generators import generators

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "REDOCLY_TELEMETRY": "off", "GOFLAGS": "-mod=mod", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def programs() -> Path:
    return generators()


def run(directory: Path, *command: str | Path, **more: str) -> str:
    """Run a program and return its output. The program must succeed."""
    environment: Mapping[str, str] = {**ENVIRONMENT, **more}
    done = subprocess.run(
        list(map(str, command)),
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-8000:]}"
    return done.stdout


def test_redocly_reports_no_problems(programs: Path, tmp_path: Path) -> None:
    """Neither errors nor warnings, also for the examples."""
    output = run(
        tmp_path,
        programs / "node_modules/.bin/redocly",
        "lint",
        openapi.DOCUMENT,
        "--format=json",
        "--max-problems=500",
    )
    assert '"totals"' in output
    counts = {name: f'"{name}": 0' in output for name in ("errors", "warnings")}
    assert all(counts.values()), output[-8000:]


def test_generated_go_client_compiles(programs: Path, tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(programs / name, tmp_path)
    run(
        tmp_path,
        programs / "oapi-codegen",
        "-generate",
        "types,client",
        "-package",
        "api",
        "-o",
        "api.go",
        openapi.DOCUMENT,
    )
    run(tmp_path, "go", "vet", ".")


def test_generated_typescript_client_compiles(programs: Path, tmp_path: Path) -> None:
    run(tmp_path, programs / "node_modules/.bin/openapi-typescript", openapi.DOCUMENT, "-o", "api.d.ts")
    run(tmp_path, programs / "node_modules/.bin/tsc", "--noEmit", "--strict", "api.d.ts")


def test_generated_python_client_can_be_imported(programs: Path, tmp_path: Path) -> None:
    """It has every operation; only YAML bodies, which the generator does not support, are left out."""
    output = run(
        tmp_path,
        programs / "python/bin/openapi-python-client",
        *("generate", "--path", openapi.DOCUMENT, "--output-path", "client", "--meta", "none"),
        PATH=f"{programs / 'python/bin'}{os.pathsep}{os.environ['PATH']}",
    )
    warnings = re.findall(r"^(?:WARNING|ERROR)[^\n]*\n\n([^\n]*)", output, re.MULTILINE)
    assert set(warnings) <= {"Unsupported content type application/yaml"}, output[-8000:]
    modules = {path.stem for path in (tmp_path / "client" / "api").rglob("*.py")}
    names = {"list_jobs", "create_jobs", "get_quota", "plan_documents", "get_cluster_usage"}
    assert names <= modules
    imports = "; ".join(
        f"import client.api.{path.parent.name}.{path.stem}"
        for path in (tmp_path / "client" / "api").rglob("*.py")
        if path.stem != "__init__"
    )
    run(tmp_path, programs / "python/bin/python", "-c", imports)
