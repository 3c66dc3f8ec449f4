"""Mutation tests: small changes of a sample of the code, and for each the test that fails.

    python -m mutants [--count 100] [--seed 1] [--workers 3] [--only PATH[:LINE]]

First, the unit, golden and property tests run once, to record the lines that each test runs (kept until the code
changes). A change in a function is made in a fork, which runs the tests of its line, the fastest first, and then the
tests that name its module. A change outside of functions is made in a copy of the tree. A change that no test notices
is printed with its difference, unless ``equivalent.yaml`` explains it; then the exit code is 1. If a test fails without
a change, the run stops and names it.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import hashlib
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
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest
import yaml

from mutants.changes import Change, changes
from mutants.forks import CPU_SECONDS, CannotChange, Forks
from support.go_programs import cache_directory

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
    "apply/plan/object_decision.py",
    "apply/plan/decision_inputs.py",
    "apply/plan/workload_steps.py",
    "apply/plan/set_run.py",
    "apply/run/journal.py",
    "apply/run/journal_secrets.py",
)
"""The modules that are changed, below the package: the pure half, and the decisions about a cluster."""

NO_SUBJECTS = Path("frontend/codes")
"""Explanations for people."""

GOLDEN = "tests/golden/test_golden.py"
ALL = ("tests/unit", "tests/golden", "tests/properties")
SLOW = tuple(f"tests/unit/test_{name}.py" for name in ("ci_kit", "gitops_docs", "readme", "release", "reruns"))
"""They install packages, run other programs or look at files, and see nothing of these modules that others do not."""
QUIETLY = (
    *("-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *(f"--ignore={name}" for name in SLOW),
)

BAR = 85
"""Per cent of a sample that is noticed."""


class FailsUnchanged(Exception):
    """Tests that fail where nothing was changed, so that their failing says nothing; ``str()`` names them."""


class Outcome(NamedTuple):
    """A change, and the first test that failed; empty when none did."""

    change: Change
    noticed_by: str


class Copy:
    """A copy of the tree for one run at a time, a repository of its own: some tests ask git which files there are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).exists() or (ROOT / name).is_symlink():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, directory / name, follow_symlinks=False)
        for arguments in (["init", "--quiet"], ["add", "--all"]):
            subprocess.run(["git", *arguments], cwd=directory, check=True)

    def first_failure(self, change: Change, tests: Sequence[str]) -> str:
        """Make a change, run tests until one fails, and take the change back."""
        path = self.directory / change.path
        text = path.read_bytes()
        path.write_bytes(change.applied(text))
        try:
            return next(iter(self.failures("-x", *tests)), "")
        finally:
            path.write_bytes(text)

    def failures(self, *arguments: str) -> list[str]:
        """Run tests; those that fail."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
        environment |= {
            "PYTHONPATH": os.pathsep.join([str(self.directory / "compiler"), str(self.directory / "tests")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--tb=no", *QUIETLY, *arguments],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)),
        )
        if done.returncode in (0, 5):
            return []
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed or [f"pytest, which ended with {done.returncode}"]


class Copies:
    """Copies of the tree for several runs at a time. What is run there for a change has passed there without one."""

    def __init__(self, directory: Path, number: int) -> None:
        self._free: SimpleQueue[Copy] = SimpleQueue()
        for each in range(number):
            self._free.put(Copy(directory / str(each)))
        self._passed: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def first_failure(self, change: Change) -> str:
        """Make a change in a copy and run tests until one fails: those of its module, then all others."""
        first = first_tests([change])
        with self._taken() as copy:
            failed = copy.first_failure(change, first)
            if failed:
                return failed
            others = (*ALL, *(f"--ignore={name}" for name in first))
            self._must_pass(copy, ALL)
            return copy.first_failure(change, others)

    def must_pass(self, tests: Sequence[str]) -> None:
        """Run tests where nothing was changed, once.

        :raises FailsUnchanged: some fail.
        """
        with self._taken() as copy:
            self._must_pass(copy, tests)

    def _must_pass(self, copy: Copy, tests: Sequence[str]) -> None:
        with self._lock:
            if tuple(tests) not in self._passed:
                failed = copy.failures(*tests)
                if failed:
                    raise FailsUnchanged(", ".join(failed))
                self._passed.add(tuple(tests))

    @contextlib.contextmanager
    def _taken(self) -> Iterator[Copy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def subjects() -> list[Path]:
    """The files that are changed, below the root."""
    package = ROOT / SOURCE
    found = {path.relative_to(package) for pattern in SUBJECTS for path in package.glob(pattern)}
    return sorted(SOURCE / path for path in found if NO_SUBJECTS not in path.parents)


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


def first_tests(chosen: Iterable[Change]) -> list[str]:
    """The test files that are run first for changes."""
    return list(dict.fromkeys([GOLDEN, *(name for change in chosen for name in tests_of(change.path))]))


def explained(change: Change) -> str | None:
    """Return the recorded reason why a change cannot be noticed; None without one."""
    wanted = described(change)
    for entry in yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or ():
        if {key: str(value).split() for key, value in entry.items() if key != "because"} == {
            key: value.split() for key, value in wanted.items()
        }:
            return str(entry["because"])
    return None


def described(change: Change) -> dict[str, str]:
    """A change as ``equivalent.yaml`` names it: by what stands there, as lines get other numbers."""
    line = (ROOT / change.path).read_text(encoding="utf-8").splitlines()[change.line - 1].strip()
    file = str(change.path.relative_to(SOURCE))
    return {"file": file, "in": change.scope, "line": line, "was": change.was, "now": change.now}


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


def tell(change: Change, failed: str) -> Outcome:
    """Print how it went."""
    print(
        f"{change.path}:{change.line}  {change.kind}  {f'noticed by {failed}' if failed else 'NOT NOTICED'}", flush=True
    )
    return Outcome(change, failed)


class Survey:
    """The lines that each test runs."""

    def __init__(self, forks: Forks) -> None:
        digest = hashlib.sha256(b"numbers of tests with empty caches")
        for path in subjects():
            digest.update((ROOT / path).read_bytes())
        file = cache_directory() / "mutants" / f"{digest.hexdigest()[:16]}.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(forks.survey()))
        found = json.loads(file.read_text())
        self._surveyed: list[str] = found["names"]
        self._seconds: dict[str, float] = found["seconds"]
        self._lines = {
            path: {int(line): array("I", numbers) for line, numbers in lines.items()}
            for path, lines in found["lines"].items()
        }
        self._names = list(forks.items)

    def unknown(self) -> list[str]:
        """The tests that are new since, and those that failed when it was made."""
        return [name for name in self._names if name not in self._seconds]

    def tests(self, change: Change) -> list[str]:
        """The tests to run for a change: those of its lines, new ones, and those that name its module."""
        lines, seconds = self._lines.get(str(change.path), {}), self._seconds
        changed = range(change.line, change.line + change.was.count("\n") + 1)
        covering = {self._surveyed[number] for line in changed for number in lines.get(line, ())}
        files = tests_of(change.path)
        ranks = {
            name: 0 if name in covering else 1 if name not in seconds else 2
            for name in self._names
            if name in covering or name not in seconds or name.partition("::")[0] in files
        }
        return sorted(ranks, key=lambda name: (ranks[name], seconds.get(name, 0)))

    def is_run(self, change: Change) -> bool:
        """Return True if a test runs the line after all modules were imported."""
        return bool(self._lines.get(str(change.path), {}).get(change.line))


def attempt(chosen: list[Change], workers: int) -> list[Outcome]:
    """Try all changes: in forks, and where that cannot be in copies of the tree.

    :raises FailsUnchanged: a test fails without them.
    """
    forks = Forks(ROOT, workers, ROOT / SOURCE)
    outcomes: list[Outcome] = []
    left: list[Change] = []
    unfit: list[str] = []

    def one(change: Change, names: list[str]) -> str | None:
        try:
            return forks.first_failure(change, names)
        except CannotChange:
            return None

    def work() -> None:
        survey = Survey(forks)
        unfit.extend(forks.failures(survey.unknown()))
        if unfit:
            return
        jobs = [
            (change, functools.partial(one, change, survey.tests(change))) for change in chosen if change.in_function
        ]
        for (change, _), answer in zip(jobs, forks.run([job for _, job in jobs]), strict=True):
            # Nothing that is computed on import sees the fork's code.
            if answer is None or (answer == "" and not survey.is_run(change)):
                left.append(change)
            else:
                outcomes.append(tell(change, answer))
        unfit.extend(forks.failures({outcome.noticed_by for outcome in outcomes}))

    forks.work = work
    left += [change for change in chosen if not change.in_function]
    os.chdir(ROOT)
    status = pytest.main([*QUIETLY, *ALL], plugins=[forks])
    if unfit or status != pytest.ExitCode.OK:
        raise FailsUnchanged(", ".join(unfit) or f"pytest, which ended with {int(status)}")
    with tempfile.TemporaryDirectory(prefix="gpuctl-mutants-") as directory:
        # Some tests become another user to see what that one may not: he has to come this far.
        os.chmod(directory, 0o755)
        copies = Copies(Path(directory), workers)
        if left:
            copies.must_pass(first_tests(left))
        with ThreadPoolExecutor(workers) as pool:
            outcomes += pool.map(lambda change: tell(change, copies.first_failure(change)), left)
    return sorted(outcomes, key=lambda outcome: (outcome.change.path, outcome.change.start))


def main() -> int:
    """Try the sample; return 1 if an unexplained change was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--only", metavar="PATH[:LINE]")
    options = parser.parse_args()
    os.environ.setdefault("GPUCTL_PROPERTIES", "0.1")
    os.environ["GPUCTL_SAME_EXAMPLES"] = "1"
    try:
        return report(attempt(sample(options.count, options.seed, options.only), options.workers))
    except FailsUnchanged as error:
        print(f"\nfails without a change, so that nothing can be concluded: {error}", file=sys.stderr)
        return 2


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
            print(f"not explained: {json.dumps(described(change), ensure_ascii=False)}")
    noticed = len(outcomes) - len(survivors)
    open_ends = [change for change in survivors if reasons[change] is None]
    share = 100 * noticed // max(1, len(outcomes))
    print(f"\n{noticed} of {len(outcomes)} noticed ({share} %), {len(survivors) - len(open_ends)} explained, ", end="")
    print(f"{len(open_ends)} open")
    return 1 if open_ends or share < BAR else 0


if __name__ == "__main__":
    sys.exit(main())
