"""ClickHouse's engine as a library (chdb), downloaded once into the cache outside the tree: 0.5 GB are too much for
every developer. It runs in a process and a directory of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from support.go_programs import ProgramMissing, alone, cache_directory
from support.missing_parts import required

_WHEEL = "chdb-core==26.9.0"
_RUNNER = """
import json, sys
from chdb.session import Session
session = Session(sys.argv[1])
for line in sys.stdin:
    statement, parameters = json.loads(line)
    try:
        answer = session.query(statement, "JSONEachRow", params=parameters)
        rows = [json.loads(row) for row in str(answer).splitlines()]
        print(json.dumps({"rows": rows}), flush=True)
    except Exception as error:
        print(json.dumps({"error": str(error)[:2000]}), flush=True)
"""


@required(ProgramMissing)
def clickhouse_library() -> Path:
    """The directory to import chdb from; without it a test is skipped, in CI it fails."""
    directory = cache_directory() / _WHEEL.replace("==", "-")
    if directory.is_dir():
        return directory
    cache_directory().mkdir(parents=True, exist_ok=True)
    with alone(cache_directory()), tempfile.TemporaryDirectory(dir=cache_directory()) as temporary:
        if directory.is_dir():
            return directory
        wanted = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", temporary, _WHEEL]
        done = subprocess.run([sys.executable, "-m", "pip", *wanted], capture_output=True, text=True, check=False)
        wheels = list(Path(temporary).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            raise ProgramMissing(f"no ClickHouse: {_WHEEL} cannot be fetched: {done.stderr.strip()[-300:]}")
        unpacked = Path(temporary) / "unpacked"
        with ZipFile(wheels[0]) as wheel:
            wheel.extractall(unpacked)
        # Moved as a whole, so that another process never reads a part of it.
        os.replace(unpacked, directory)
    return directory


class ClickHouse:
    """A ClickHouse of one's own, whose tables are below a directory."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUNNER, str(directory)],
            env={**os.environ, "PYTHONPATH": str(clickhouse_library())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, parameters: Mapping[str, str] | None = None) -> Sequence[Mapping[str, Any]]:
        """Run the statements of a script: the rows of the last one."""
        rows: Sequence[Mapping[str, Any]] = []
        for statement in script.split(";\n"):
            if statement.strip():
                rows = self._ask(statement, parameters or {})
        return rows

    def _ask(self, statement: str, parameters: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([statement, dict(parameters)]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, f"{answer['error']}\n{statement}"
        rows: Sequence[Mapping[str, Any]] = answer["rows"]
        return rows

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
