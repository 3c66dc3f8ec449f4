"""Write ``schemas/rest/openapi.json``, the OpenAPI document of the service, from its routes: ``make schemas``.

It needs no cluster. With ``--check`` nothing is written, and the exit code is 1 if the file is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "schemas" / "rest" / "openapi.json"
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "server")]

from gpuctl_server.app import bare_app  # noqa: E402


def text() -> str:
    """Return the content of the file."""
    return json.dumps(bare_app().openapi(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the file; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the OpenAPI document of the service.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is out of date")
    check = parser.parse_args(arguments).check
    current = text()
    if DOCUMENT.exists() and DOCUMENT.read_text(encoding="utf-8") == current:
        return 0
    if check:
        print(f"{DOCUMENT.relative_to(ROOT)} is not what the routes say: run `make schemas`", file=sys.stderr)
        return 1
    DOCUMENT.parent.mkdir(parents=True, exist_ok=True)
    DOCUMENT.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
