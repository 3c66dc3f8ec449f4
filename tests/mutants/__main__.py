"""Whether the tests notice mistakes: a sample of small changes of the code, and for each the test that fails.

    python -m mutants [--count 100] [--seed 1] [--workers 3] [--only PATH[:LINE]]

Each change is made in a copy of the tree. The tests that name the changed module, and the golden cases, are run first,
then all of unit, golden and properties. What no test notices is printed with its difference, unless ``equivalent.yaml``
says why nobody could notice it; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import yaml

from mutants.changes import Change, changes

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("compiler/gpuctl")
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")

SUBJECTS = (
    "language/**/*.py",
    "frontend/**/*.py",
    "backend/**/*.py",
    "compilation.py",
    "gitops/**/*.py",
    "capacity/**/*.py",
    "apply/state/compare.py",
    "apply/state/applyset.py",
    "apply/plan/decide.py",
    "apply/plan/sets.py",
    "apply/run/journal.py",
)
"""What is changed, below the package: the pure half, and what decides what is done to a cluster."""

NO_SUBJECTS = frozenset({"frontend/codes.py"})
"""Explanations for people."""

GOLDEN = "tests/golden/test_golden.py"
ALL = ("tests/unit", "tests/golden", "tests/properties")
SLOW = ("tests/unit/test_ci_kit.py", "tests/unit/test_reruns.py")
"""They install packages and run other programs, and see nothing of these modules that others do not."""

CPU_SECONDS = 600
"""Of one run of tests; all take less than 200. Of time that a busy machine takes nothing is concluded."""

BAR = 85
"""Per cent of a sample that is noticed."""


class Outcome(NamedTuple):
    """A change, and the first test that failed; empty when none did."""

    change: Change
    noticed_by: str


class Copy:
    """A copy of the tree for one run at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).exists() or (ROOT / name).is_symlink():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, directory / name, follow_symlinks=False)

    def run(self, change: Change) -> Outcome:
        """Make a change, run tests until one fails, and take the change back."""
        path = self.directory / change.path
        text = path.read_bytes()
        path.write_bytes(change.applied(text))
        try:
            first = [*tests_of(change.path), GOLDEN]
            rest = [f"--deselect={name}" for name in first if name != GOLDEN]
            failed = self._fails(*first) or self._fails(*ALL, *rest, f"--ignore={GOLDEN}")
        finally:
            path.write_bytes(text)
        return Outcome(change, failed)

    def _fails(self, *arguments: str) -> str:
        """The first test that fails; empty when none does."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
        environment |= {
            "PYTHONPATH": os.pathsep.join([str(self.directory / "compiler"), str(self.directory / "tests")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GPUCTL_PROPERTIES": os.environ.get("GPUCTL_PROPERTIES", "0.2"),
        }
        ignored = [f"--ignore={name}" for name in SLOW]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
        done = subprocess.run(
            [*command, *ignored, *arguments],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)),
        )
        if done.returncode in (0, 5):
            return ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed[1] if failed else f"pytest, which ended with {done.returncode}"


def subjects() -> list[Path]:
    """The files that are changed, below the root."""
    package = ROOT / SOURCE
    found = {path.relative_to(package) for pattern in SUBJECTS for path in package.glob(pattern)}
    return sorted(SOURCE / path for path in found if str(path) not in NO_SUBJECTS)


def tests_of(path: Path) -> list[str]:
    """The test files that name a module, then those that name another one of its room."""
    dotted = ".".join(path.relative_to("compiler").with_suffix("").parts).removesuffix(".__init__")
    room, _, name = dotted.rpartition(".")
    module = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(room)} import .*\b{name}\b")
    ranks: dict[str, int] = {}
    for file in sorted(file for tests in ALL for file in (ROOT / tests).glob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if module.search(text) or (room != "gpuctl" and f"{room}." in text):
            ranks[str(file.relative_to(ROOT))] = 0 if module.search(text) else 1
    return [name for name in sorted(ranks, key=ranks.__getitem__) if name not in (GOLDEN, *SLOW)]


def explained(change: Change) -> str | None:
    """Why a change cannot be noticed, if somebody has found that."""
    for entry in yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or ():
        if (entry["file"], entry["in"]) == (str(change.path.relative_to(SOURCE)), change.scope) and (
            _words(entry["was"]),
            _words(entry["now"]),
        ) == (_words(change.was), _words(change.now)):
            return str(entry["because"])
    return None


def _words(text: str) -> list[str]:
    return text.split()


def difference(change: Change) -> str:
    """The change as people read it."""
    text = (ROOT / change.path).read_bytes()
    old, new = (value.decode().splitlines(keepends=True) for value in (text, change.applied(text)))
    return "".join(difflib.unified_diff(old, new, str(change.path), str(change.path), n=1))


def sample(count: int, seed: int, only: str | None) -> list[Change]:
    """The changes to try: a number of all, or all of one file or line."""
    texts = {path: (ROOT / path).read_bytes() for path in subjects()}
    found = [change for path, text in texts.items() for change in changes(path, text)]
    if only is not None:
        path, _, line = only.partition(":")
        return [item for item in found if str(item.path).endswith(path) and line in ("", str(item.line))]
    random.Random(seed).shuffle(found)
    programs = (change for change in found if change.is_program(texts[change.path]))
    return sorted(itertools.islice(programs, count), key=lambda item: (item.path, item.start))


def main() -> int:
    """Try the sample; 1 when something that nobody has explained was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--only", metavar="PATH[:LINE]")
    options = parser.parse_args()
    chosen = sample(options.count, options.seed, options.only)
    with tempfile.TemporaryDirectory(prefix="gpuctl-mutants-") as directory:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(options.workers):
            copies.put(Copy(Path(directory) / str(number)))

        def attempt(change: Change) -> Outcome:
            copy = copies.get()
            try:
                outcome = copy.run(change)
            finally:
                copies.put(copy)
            told = f"noticed by {outcome.noticed_by}" if outcome.noticed_by else "NOT NOTICED"
            print(f"{change.path}:{change.line}  {change.kind}  {told}", flush=True)
            return outcome

        with ThreadPoolExecutor(options.workers) as pool:
            outcomes = list(pool.map(attempt, chosen))
    return report(outcomes)


def report(outcomes: list[Outcome]) -> int:
    """Print what was not noticed, and the sum."""
    survivors = [outcome.change for outcome in outcomes if not outcome.noticed_by]
    reasons = {change: explained(change) for change in survivors}
    for change in survivors:
        print(f"\n{change.path}:{change.line}  {change.kind}, in {change.scope or 'the module'}")
        print(difference(change), end="")
        if (reason := reasons[change]) is not None:
            print(f"explained: {reason}")
        else:
            entry = {
                "file": str(change.path.relative_to(SOURCE)),
                "in": change.scope,
                "was": change.was,
                "now": change.now,
            }
            print(f"not explained: {json.dumps(entry, ensure_ascii=False)}")
    noticed = len(outcomes) - len(survivors)
    open_ends = [change for change in survivors if reasons[change] is None]
    share = 100 * noticed // max(1, len(outcomes))
    print(f"\n{noticed} of {len(outcomes)} noticed ({share} %), {len(survivors) - len(open_ends)} explained, ", end="")
    print(f"{len(open_ends)} open")
    return 1 if open_ends or share < BAR else 0


if __name__ == "__main__":
    sys.exit(main())
