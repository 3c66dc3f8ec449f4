"""The three readers that manifests must mean the same to: PyYAML, ruamel.yaml, and kubectl's (sigs.k8s.io/yaml)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

MODULE = Path(__file__).parent / "go-reader"


def read_pyyaml(text: str) -> Any:
    """YAML 1.1, as most Python programs read it."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def read_ruamel(text: str, version: str = "1.2") -> Any:
    """YAML 1.2, or 1.1."""
    reader = YAML(typ="safe", pure=True)
    reader.version = version  # type: ignore[assignment]
    return reader.load(text)


def read_go(texts: Sequence[str]) -> list[Any]:
    """What kubectl reads, for many texts in one process."""
    result = subprocess.run([_go_reader()], input=json.dumps(list(texts)), capture_output=True, text=True, check=True)
    values: list[Any] = json.loads(result.stdout)
    return values


@cache
def _go_reader() -> str:
    """The program, built once into a cache outside the tree."""
    go = shutil.which("go")
    if go is None:
        message = "kubectl's YAML reader needs Go: install Go 1.26"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    files = sorted(path for path in MODULE.iterdir() if path.is_file())
    key = hashlib.sha256(version.encode() + b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    root = os.environ.get("GPUCTL_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuctl"
    program = Path(root) / "go-reader" / key
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        temporary = program.with_suffix(f".{os.getpid()}")
        subprocess.run([go, "build", "-trimpath", "-o", str(temporary), "."], cwd=MODULE, check=True)
        temporary.replace(program)
    return str(program)
