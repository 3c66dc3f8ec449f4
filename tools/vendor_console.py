"""Write the console's libraries from the npm registry, each with its licence, version and hash.

    python tools/vendor_console.py           write files/vendor/ anew
    python tools/vendor_console.py --check   compare it with the registry's packages

Versions and hashes are in ``vendor.json``, which this program does not change: to upgrade a library, edit its version,
run the program, and copy the hash that it prints.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CONSOLE = Path(__file__).resolve().parents[1] / "server" / "gpuctl_server" / "console"
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
    return found


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


def main() -> None:
    """Write the files, or compare them."""
    with tempfile.TemporaryDirectory() as directory:
        found = contents(Path(directory))
    if "--check" in sys.argv:
        other = sorted(name for name, content in found.items() if (VENDOR / name).read_bytes() != content)
        if other:
            sys.exit(f"vendor_console: other than the registry's: {', '.join(other)}")
        return
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        (VENDOR / name).write_bytes(content)
        print(f"{name}  {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
