"""The files of the console: libraries, size, texts, and types."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from vendor_console import LIST, ROOT, VENDOR, contents, differing

from gpuctl_server.console import static_files
from support.browser import tools
from support.console_texts import FILES, chinese, texts
from support.missing_parts import missing

BUDGET = 150_000
"""Bytes of all pages together without the editor's library, as browsers receive them."""
EDITOR = "vendor/codemirror.js"
EDITOR_BUDGET = 130_000


def test_libraries_are_those_of_the_list() -> None:
    packages, bundles = json.loads(LIST.read_text()).values()
    listed = {file["name"]: file["sha256"] for item in packages + bundles for file in item["files"]}
    found = {path.name: path.read_bytes() for path in VENDOR.iterdir() if not path.name.endswith(".d.ts")}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in found.items()} == listed
    for package in packages:
        assert package.keys() == {"package", "version", "licence", "sha256", "files"}
        assert package["licence"] in ("MIT", "Apache-2.0")
        assert any(file["source"] == "LICENSE" for file in package["files"])
    for bundle in bundles:
        locked = json.loads((ROOT / bundle["source"] / "package-lock.json").read_text())["packages"]
        licences = (VENDOR / f"{bundle['name']}.LICENSE.txt").read_text()
        for package in bundle["packages"]:
            lock = locked[f"node_modules/{package['package']}"]
            assert (lock["version"], lock["license"]) == (package["version"], package["licence"])
            assert lock["integrity"].startswith("sha512-")
            assert package["licence"] == "MIT"
            assert f"{package['package']}\n\n" in licences


@pytest.mark.slow
def test_libraries_are_those_of_the_registry(tmp_path: Path) -> None:
    """The packages are downloaded and bundled again: `tools/vendor_console.py --check`."""
    tools()
    try:
        found = contents(tmp_path)
    except subprocess.CalledProcessError as error:
        missing(f"the npm registry does not answer: {error}: {error.stderr}")
    assert differing(found) == []
    name = min(found)
    assert differing({**found, name: found[name] + b" "}) == [name]


def test_pages_are_small() -> None:
    found = static_files.static_files().files
    assert sum(len(file.compressed) for name, file in found.items() if name != EDITOR) < BUDGET
    assert len(found[EDITOR].compressed) < EDITOR_BUDGET
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


def test_each_loaded_value_has_a_place_for_its_error() -> None:
    """`Data` shows an error in place of the data, `Lacking` beside the rest of the page."""
    for path in FILES.rglob("*.js"):
        if "vendor" in path.parts or path.name == "load.js":
            continue
        source = path.read_text(encoding="utf-8")
        for name in re.findall(r"\bconst (\w+) = useLoaded\(", source):
            assert re.search(rf"<\$\{{(?:Data|Lacking)\}}[^>]* loaded=\$\{{(?:\w+\.)?{name}\}}", source), (
                path.name,
                name,
            )
        assert not re.search(r"\bget\([^\n]*\.catch\(", source), path.name


def test_types_of_the_modules() -> None:
    program = tools() / ".bin" / "tsc"
    result = subprocess.run(
        [program, "-p", FILES.parent / "jsconfig.json"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "")
