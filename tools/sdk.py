"""Write the generated part of the SDKs from ``schemas/rest/openapi.json``: ``make schemas``.

The generated part is models and operations; clients are written by hand. An off-the-shelf generator is not used: this
tool writes both languages from one reading of the document, adds no dependency to the SDKs, and its models accept
unknown fields of a newer service.

With ``--check`` nothing is written, and the exit code is 1 if a file is out of date.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rest_api import ROOT, read_api
from sdk_go import go_files
from sdk_python import python_files


def outputs() -> dict[Path, str]:
    """Return the content of every file that this tool writes."""
    api = read_api()
    files = {ROOT / path: _formatted(path, text) for path, text in python_files(api).items()}
    return files | {ROOT / path: text for path, text in go_files(api).items()}


def _formatted(path: Path, text: str) -> str:
    """Return Python code formatted as by ``make fmt``."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated half of the SDKs.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    check = parser.parse_args(arguments).check
    files = outputs()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what the document says: run `make schemas`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
