"""Write the console's libraries from the npm registry, each with its licence, version and hash.

    python tools/vendor_console.py           write files/vendor/ anew
    python tools/vendor_console.py --check   compare it with the registry's packages

Versions and hashes are in ``vendor.json``, which this program does not change: to upgrade a library, edit its version,
run the program, and copy the hash that it prints. A bundle is one module made of several packages by esbuild; their
hashes are in the package-lock.json beside its source.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ROOT / "server" / "gpuctl_server" / "console"
VENDOR = CONSOLE / "files" / "vendor"
LIST = CONSOLE / "vendor.json"


def contents(directory: Path) -> dict[str, bytes]:
    """Download the packages into a directory, and return the files by their name."""
    listed = json.loads(LIST.read_text())
    found: dict[str, bytes] = {}
    for package in listed["packages"]:
        name = f"{package['package']}@{package['version']}"
        packed = subprocess.run(
            ["npm", "pack", "--silent", name], cwd=directory, check=True, capture_output=True, text=True
        )
        archive = directory / packed.stdout.strip().splitlines()[-1]
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != package["sha256"]:
            sys.exit(f"vendor_console: {name} has the hash {digest}, not {package['sha256'] or 'a listed one'}")
        with tarfile.open(archive) as opened:
            for file in package["files"]:
                member = opened.extractfile(f"package/{file['source']}")
                assert member is not None, file
                found[file["name"]] = changed(member.read(), file.get("replace", {}), file.get("append", ""))
    for bundle in listed["bundles"]:
        found.update(bundled(directory / bundle["name"], bundle))
    return found


def bundled(directory: Path, bundle: dict[str, Any]) -> dict[str, bytes]:
    """Build a bundle in a directory; return its module, and the licences of the packages in it."""
    shutil.copytree(ROOT / bundle["source"], directory, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(install, cwd=directory, check=True)
    build = ["bundle.js", "--bundle", "--minify", "--format=esm", "--target=es2022", "--legal-comments=none"]
    results = ["--outfile=built.js", "--metafile=built.json", "--log-level=warning"]
    subprocess.run([directory / "node_modules" / ".bin" / "esbuild", *build, *results], cwd=directory, check=True)
    inputs = " ".join(json.loads((directory / "built.json").read_text())["outputs"]["built.js"]["inputs"])
    packages = sorted(set(re.findall(r"node_modules/((?:@[^/ ]+/)?[^/ ]+)/", inputs)))
    listed = [package["package"] for package in bundle["packages"]]
    if packages != listed:
        sys.exit(f"vendor_console: {bundle['name']} is made of {', '.join(packages)}, not {', '.join(listed)}")
    licences = [f"{name}\n\n{(directory / 'node_modules' / name / 'LICENSE').read_text()}" for name in packages]
    name = bundle["name"]
    return {f"{name}.js": (directory / "built.js").read_bytes(), f"{name}.LICENSE.txt": "\n\n".join(licences).encode()}


def changed(content: bytes, replaced: dict[str, str], appended: str) -> bytes:
    """Return a module that imports its neighbours by path: a page without a build step has no bare names.

    The reference to a source map is removed.
    """
    text = content.decode()
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    lines = [line for line in text.rstrip().split("\n") if not line.startswith("//# sourceMappingURL=")]
    return ("\n".join(lines) + "\n" + appended).encode()


def differing(found: dict[str, bytes]) -> list[str]:
    """Return the names of the registry's files that are missing or different in ``files/vendor/``."""
    paths = {name: VENDOR / name for name in found}
    return sorted(name for name, path in paths.items() if not path.is_file() or path.read_bytes() != found[name])


def main() -> None:
    """Write the files, or compare them."""
    with tempfile.TemporaryDirectory() as directory:
        found = contents(Path(directory))
    if "--check" in sys.argv:
        if other := differing(found):
            sys.exit(f"vendor_console: other than the registry's: {', '.join(other)}")
        return
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        (VENDOR / name).write_bytes(content)
        print(f"{name}  {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
