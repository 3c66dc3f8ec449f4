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

from support.go_programs import alone, cache_directory
from support.missing_parts import missing

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
    """Return what kubectl reads from many texts at once; one process serves all calls."""
    reader = _go_reader()
    assert reader.stdin is not None, "it is a pipe"
    assert reader.stdout is not None, "it is a pipe"
    reader.stdin.write(json.dumps(list(texts)) + "\n")
    reader.stdin.flush()
    values: list[Any] = json.loads(reader.stdout.readline())
    return values


def read_all(texts: Sequence[str], *, both: bool = True) -> list[dict[str, Any]]:
    """For each text (of one document) what each reader reads, by the reader's name.

    :param both: ruamel.yaml, which takes most of the time, reads a text as both versions; else as one of the two.
    """
    found = []
    for text, go in zip(texts, read_go(texts), strict=True):
        versions = ("1.2", "1.1") if both else (("1.2", "1.1")[len(text) % 2],)
        read = {f"ruamel {version}": read_ruamel(text, version) for version in versions}
        found.append({"pyyaml": read_pyyaml(text), "kubectl": go, **read})
    return found


def same(one: Any, two: Any) -> bool:
    """Return True if JSON values are equal, with ``True``, ``1`` and ``"1"`` distinct; numbers are equal by value.

    Kubectl's reader prints ``1.0`` as ``1``, ``1e20`` in digits, and an integer beyond 64 bits as a Go float.
    """
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(value, two[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, (int, float)) and isinstance(two, (int, float)):
        exact = isinstance(one, int) and isinstance(two, int) and -(2**63) <= one < 2**64
        return one == two if exact else float(one) == float(two)
    return bool(one == two)


@cache
def _go_reader() -> subprocess.Popen[str]:
    return subprocess.Popen([go_reader()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")


@cache
def go_reader() -> str:
    """The program, built once into a cache outside the tree."""
    go = shutil.which("go")
    if go is None:
        missing("kubectl's YAML reader needs Go: install Go 1.26")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(version.encode())
    for path in sorted(path for path in MODULE.iterdir() if path.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    program = cache_directory().absolute() / "go-reader" / digest.hexdigest()[:16]
    program.parent.mkdir(parents=True, exist_ok=True)
    with alone(program.parent):
        if not program.exists():
            temporary = program.with_suffix(f".{os.getpid()}")
            command = [go, "build", "-trimpath", "-o", str(temporary), "."]
            built = subprocess.run(command, cwd=MODULE, capture_output=True, text=True)
            if built.returncode:
                pytest.fail(f"kubectl's YAML reader does not build: {built.stderr.strip()}")
            temporary.replace(program)
    return str(program)
