"""Golden cases: golden/CASE with ``input/``, ``args``, and what is expected of them.

``args`` is a command line without the program's name; it runs in the case's directory, so that paths in messages are
``input/...``. ``expected/stdout`` and ``expected.stderr`` hold the whole output, ``exit`` the exit code unless it is 0.

    python tests/golden/cases.py accept [CASE ...]     write what comes out now as what is expected
    python tests/golden/cases.py replay                print every case's outcome as JSON
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "golden"


@dataclass(frozen=True)
class Outcome:
    """The output and exit code of a command."""

    stdout: str
    stderr: str
    exit: int


def case_names() -> list[str]:
    """The names of all cases, sorted."""
    return sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def arguments(name: str) -> list[str]:
    """The case's command line."""
    return shlex.split((GOLDEN / name / "args").read_text(encoding="utf-8"), comments=True)


def shuffled(args: list[str], seed: int) -> list[str]:
    """The same command line with its ``-f`` inputs in another order."""
    inputs = [args[index + 1] for index, arg in enumerate(args) if arg == "-f"]
    random.Random(seed).shuffle(inputs)
    order = iter(inputs)
    return [next(order) if index and args[index - 1] == "-f" else arg for index, arg in enumerate(args)]


def run(name: str, args: list[str] | None = None) -> Outcome:
    """Run a case in this process."""
    from gpuctl.cli.main import run as run_cli

    stdout, stderr = io.StringIO(), io.StringIO()
    stdin = GOLDEN / name / "stdin"
    before = Path.cwd()
    os.chdir(GOLDEN / name)
    old_stdin = sys.stdin
    try:
        data = stdin.read_bytes() if stdin.exists() else b""
        sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = run_cli(arguments(name) if args is None else args)
    finally:
        sys.stdin = old_stdin
        os.chdir(before)
    return Outcome(stdout.getvalue(), stderr.getvalue(), code)


def expected(name: str) -> Outcome:
    """Return the expected outcome from the case's files."""
    case = GOLDEN / name
    return Outcome(_read(case / "expected" / "stdout"), _read(case / "expected.stderr"), int(_read(case / "exit") or 0))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def files(outcome: Outcome) -> dict[str, str]:
    """The files that hold an outcome, relative to the case; empty parts have no file."""
    parts = {
        "expected/stdout": outcome.stdout,
        "expected.stderr": outcome.stderr,
        "exit": f"{outcome.exit}\n" if outcome.exit else "",
    }
    return {path: text for path, text in parts.items() if text}


def accept(names: list[str]) -> None:
    """Write what comes out now. Reviewers read what is accepted: look at the difference before you commit it."""
    if os.environ.get("CI"):
        sys.exit("golden files are not accepted in CI: run `make golden` on your machine and review the difference")
    for name in names or case_names():
        wanted = files(run(name))
        case = GOLDEN / name
        for path in ("expected/stdout", "expected.stderr", "exit"):
            file = case / path
            if path not in wanted:
                file.unlink(missing_ok=True)
            elif _read(file) != wanted[path]:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(wanted[path], encoding="utf-8")
                print(f"accepted {file.relative_to(ROOT)}")


def replay(seed: int) -> None:
    """Print every case's outcome, inputs shuffled, as JSON: for comparing processes with other hash seeds."""
    outcomes = {name: asdict(run(name, shuffled(arguments(name), seed))) for name in case_names()}
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:2] == ["accept"]:
        accept(sys.argv[2:])
    elif sys.argv[1:2] == ["replay"]:
        replay(int(os.environ.get("PYTHONHASHSEED", "0")))
    else:
        sys.exit(__doc__)
