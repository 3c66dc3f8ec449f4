"""The files of the console: libraries, size, texts, and types."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess

from vendor_console import LIST, VENDOR

from gpuctl_server.console import static_files
from support.browser import tools
from support.console_texts import FILES, chinese, texts

BUDGET = 150_000
"""Bytes of all pages together, as browsers receive them."""


def test_libraries_are_those_of_the_list() -> None:
    packages = json.loads(LIST.read_text())["packages"]
    listed = {file["name"]: file["sha256"] for package in packages for file in package["files"]}
    found = {path.name: path.read_bytes() for path in VENDOR.iterdir() if not path.name.endswith(".d.ts")}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in found.items()} == listed
    for package in packages:
        assert package.keys() == {"package", "version", "licence", "sha256", "files"}
        assert package["licence"] in ("MIT", "Apache-2.0")
        assert any(file["source"] == "LICENSE" for file in package["files"])


def test_pages_are_small() -> None:
    found = static_files.static_files().files
    assert sum(len(file.compressed) for file in found.values()) < BUDGET
    for file in found.values():
        assert gzip.decompress(file.compressed) == file.content


def test_modules_load_nothing_from_other_hosts() -> None:
    for path in FILES.rglob("*.js"):
        source = path.read_text(encoding="utf-8")
        for target in re.findall(r"\b(?:from|import)\s*\(?\s*\"([^\"]+)\"", source):
            assert target.startswith("."), (path.name, target)
            assert (path.parent / target).is_file(), (path.name, target)
        if "vendor" not in path.parts:
            assert "innerHTML" not in source
            assert not re.search(r"style=|\beval\(|new Function", source), path.name


def test_each_text_has_a_chinese_translation() -> None:
    translated = chinese()
    assert sorted(texts() - translated.keys()) == []
    assert sorted(translated.keys() - texts()) == []
    for english, said in translated.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", said)), english
        assert re.findall(r"`[^`]+`", english) == re.findall(r"`[^`]+`", said), english


def test_types_of_the_modules() -> None:
    program = tools() / ".bin" / "tsc"
    result = subprocess.run(
        [program, "-p", FILES.parent / "jsconfig.json"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "")
