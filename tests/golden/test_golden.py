"""The specification by example: every case prints exactly what its files say, and Kubernetes accepts it."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest
import yaml

from golden import cases
from gpuctl.backend.schema_validation import schema_validator
from support.kubeconform import run_kubeconform

ALLOWED = {"args", "stdin", "exit", "expected.stderr", "input", "expected", "README.md"}


@pytest.mark.parametrize("name", cases.case_names())
def test_case(name: str) -> None:
    outcome, wanted = cases.run(name), cases.expected(name)
    got, want = cases.files(outcome), cases.files(wanted)
    difference = ""
    for path in sorted({*got, *want}):
        lines = difflib.unified_diff(
            want.get(path, "").splitlines(True),
            got.get(path, "").splitlines(True),
            f"golden/{name}/{path} (expected)",
            f"golden/{name}/{path} (now)",
        )
        difference += "".join(lines)
    if difference:
        pytest.fail(f"{difference}\nIf that is right: make golden CASE={name}", pytrace=False)


def test_cases_have_no_other_files() -> None:
    for case in (cases.GOLDEN / name for name in cases.case_names()):
        assert {path.name for path in case.iterdir()} <= ALLOWED, case
        assert (case / "args").exists(), case
        extra = case / "expected"
        assert not extra.exists() or {path.name for path in extra.iterdir()} == {"stdout"}, case


def rendered_cases() -> list[str]:
    """Cases that print manifests."""
    names = []
    for name in cases.case_names():
        args = cases.arguments(name)
        if args[0] == "render" and "json" not in args and not (cases.GOLDEN / name / "exit").exists():
            names.append(name)
    return names


@pytest.mark.parametrize("name", rendered_cases())
def test_output_is_valid(name: str) -> None:
    objects = list(yaml.load_all(cases.expected(name).stdout, yaml.CSafeLoader))
    validator = schema_validator("1.36")
    assert objects
    for obj in objects:
        assert validator.check(obj) == [], f"{obj['kind']} {obj['metadata']['name']}"


def test_kubeconform_accepts_every_output() -> None:
    stream = "---\n".join(cases.expected(name).stdout for name in rendered_cases())
    assert run_kubeconform(stream, "1.36") == []
    (found,) = run_kubeconform(stream.replace("\n        image: ", "\n        imagee: ", 1), "1.36")
    assert "additional properties 'imagee' not allowed" in found


@pytest.mark.parametrize(("seed", "zone"), [("1", "Asia/Shanghai"), ("4242", "America/St_Johns")])
def test_same_bytes_everywhere(seed: str, zone: str) -> None:
    """Other hash seeds, other input orders, other time zones and locales: the same bytes."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C", "PYTHONUTF8": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(cases.ROOT / "compiler"), str(cases.ROOT / "tests")])
    result = subprocess.run(
        [sys.executable, str(cases.ROOT / "tests" / "golden" / "cases.py"), "replay"],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    outcomes = json.loads(result.stdout)
    for name in cases.case_names():
        assert outcomes[name] == asdict(cases.expected(name)), name
