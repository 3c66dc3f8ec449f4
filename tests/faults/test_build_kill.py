"""A build that is killed, interrupted or refused at any file operation is completed by the next build.

A child process counts its calls of ``os`` functions that change anything, and sends itself SIGKILL just before the
n-th. Between two such calls the disk does not change, and calls that leave it unchanged (opening for reading, syncing,
closing) are skipped. So the runs cover every state of the disk once. A build that is interrupted or refused continues
by itself, so it is ended at every call.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fault_tools.builds import HALF_BUILT, INTERRUPTED, REFUSED, Builder, Ending, Job, Way, watched
from gpuctl.gitops import writer
from gpuctl.gitops.layout import File

Tree = dict[str, tuple[int, bytes]]
Files = dict[str, File]


def files(**contents: str) -> Files:
    """Files by keyword, ``team_a__job_x="text"`` for ``team-a/job-x.yaml``."""
    paths = {name.replace("__", "/").replace("_", "-") + ".yaml": text for name, text in contents.items()}
    return {path: File(path, text.encode(), "job.yaml", {}) for path, text in paths.items()}


OLD = files(team_a__job_x="x1", team_a__job_y="y1", team_b__job_z="z1", team_c__job_same="same", kustomization="k1")
NEW = files(team_a__job_x="x2", team_c__job_same="same", team_c__job_new="n1", team_d__job_u="u1")


@dataclass(frozen=True)
class Scenario:
    """The directory in which a build starts, and the documents that it builds."""

    old: Files | None
    new: Files
    directory: str = "repository/rendered"
    force: bool = False


SCENARIOS = {
    "nothing there": Scenario(None, NEW, "not/yet/there"),
    "an empty directory": Scenario({}, NEW),
    "changes": Scenario(OLD, NEW),
    "all goes": Scenario(OLD, {}),
    "edits by hand": Scenario(OLD, NEW, force=True),
}


class Site:
    """A directory with manifests of an earlier build and with foreign files, in a directory of its own."""

    def __init__(self, scenario: Scenario, root: Path) -> None:
        self.scenario, self.root = scenario, root
        self.target = root / scenario.directory
        root.mkdir()
        if scenario.old is not None:
            self.target.mkdir(parents=True)
            if scenario.old:
                writer.build(self.target, scenario.old)
            self._add_foreign_files()
        if scenario.force:
            (self.target / "team-a/job-x.yaml").write_text("x1 by hand")
        self.inodes = {path: inode for path, inode in inodes(self.target).items() if is_foreign(path)}

    def _add_foreign_files(self) -> None:
        for path in ("README.md", ".git/HEAD", ".git/objects/ab/cd", "team-c/notes.txt", "charts/values.yaml"):
            (self.target / path).parent.mkdir(parents=True, exist_ok=True)
            (self.target / path).write_text(f"foreign {path}")
        (self.target / "charts/link").symlink_to("nowhere")
        (self.target / "charts/empty").mkdir()
        (self.target / ".git/HEAD").chmod(0o600)
        (self.target / "charts").chmod(0o2750)

    def build(self) -> writer.BuildOutcome:
        return writer.build(self.target, self.scenario.new, force=self.scenario.force)

    def job(self, way: Way, number: int) -> Job:
        """The build, ended at one of its calls."""
        return Job(self.target, self.scenario.new, self.scenario.force, Ending(way, number))

    def problems(self) -> list[str]:
        """Return the foreign files that have changed."""
        now = inodes(self.target) if self.target.exists() else {}
        return [f"{path} is not the file it was" for path, inode in self.inodes.items() if now.get(path) != inode]


def is_foreign(path: str) -> bool:
    return path not in OLD and path not in NEW and path != ".gpuctl-manifest"


def inodes(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): path.lstat().st_ino
        for path in directory.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def tree(directory: Path) -> Tree | None:
    """Return modes and contents of all that stands in a directory."""
    if not directory.exists():
        return None
    found: Tree = {}
    for path in sorted([directory, *directory.rglob("*")]):
        mode = path.lstat().st_mode
        read = os.fsencode(os.readlink(path)) if stat.S_ISLNK(mode) else path.read_bytes() if path.is_file() else b""
        found[path.relative_to(directory).as_posix()] = (mode, read)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: nearly all the time would go into fsync."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gpuctl-test-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    """A process that forks builds."""
    with Builder() as running:
        yield running


@dataclass(frozen=True)
class Undisturbed:
    """A build that nothing happens to: the tree before and after, its calls, and those before which the disk is new."""

    old: Tree | None
    new: Tree | None
    calls: range
    states: list[int]


def undisturbed(scenario: Scenario, place: Path) -> Undisturbed:
    site = Site(scenario, place / "undisturbed")
    old = tree(site.target)
    numbers: list[int] = []
    states: list[int] = []
    last: object = None

    def look(number: int) -> None:
        nonlocal last
        numbers.append(number)
        now = (tree(site.root), marks(site.root))
        if now != last:
            states.append(number)
        last = now

    watched(look, site.build)
    assert site.problems() == []
    assert list(site.root.rglob(".gpuctl-build*")) == []
    return Undisturbed(old, tree(site.target), range(1, numbers[-1] + 1), states)


def marks(directory: Path) -> dict[str, tuple[int, ...]]:
    """Return values that change if anything in a directory is touched."""
    found = {}
    for path in [directory, *directory.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_nlink, status.st_uid, status.st_gid, status.st_mtime_ns)
    return found


def sites(scenario: Scenario, place: Path, calls: Iterable[int]) -> Iterator[tuple[int, Site]]:
    """One site after the other, for each of these calls of a build."""
    for number in calls:
        yield number, Site(scenario, place / str(number))
        shutil.rmtree(place / str(number))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_build_killed_at_every_call(scenario: Scenario, place: Path, builder: Builder) -> None:
    whole = undisturbed(scenario, place)
    seen = {"old": 0, "mixed": 0, "new": 0}
    for number, site in sites(scenario, place, whole.states):
        assert builder.run(site.job("kill", number)) == -signal.SIGKILL
        seen[left(site, whole, number)] += 1
        site.build()
        finished(site, whole, number)
    assert seen["old"] > 5
    assert seen["mixed"] > 2
    assert seen["new"] > 1


@pytest.mark.parametrize("way", ["interrupt", "fill disk"])
@pytest.mark.parametrize("name", ["nothing there", "changes", "edits by hand"])
def test_build_stopped_at_every_call(name: str, way: Way, place: Path, builder: Builder) -> None:
    whole = undisturbed(SCENARIOS[name], place)
    codes = set()
    for number, site in sites(SCENARIOS[name], place, whole.calls):
        code = builder.run(site.job(way, number))
        codes.add(code)
        if left(site, whole, number) != "old":
            assert code != REFUSED, f"stopped at call {number}: the message says that nothing was changed"
        site.build()
        finished(site, whole, number)
    assert codes <= {0, INTERRUPTED} if way == "interrupt" else codes == {0, REFUSED, HALF_BUILT}


def left(site: Site, whole: Undisturbed, number: int) -> str:
    """Return what a build has left: ``old``, ``mixed`` or ``new``. ``--check`` reports all but the last."""
    now, everything = content(tree(site.target)), tree(site.root)
    old, new = content(whole.old), content(whole.new)
    for path in {*now, *old, *new} - {".gpuctl-manifest"}:
        assert now.get(path) in (old.get(path), new.get(path)), f"ended at call {number}: {path}"
    assert site.problems() == [], f"ended at call {number}"
    found = writer.check(site.target, site.scenario.new)
    assert tree(site.root) == everything, f"--check wrote something after the end at call {number}"
    assert set(found.edited) <= ({"team-a/job-x.yaml"} if site.scenario.force else set())
    assert bool(found.changes) == (now != new), f"--check after the end at call {number}"
    return "old" if now == old else "new" if now == new else "mixed"


def content(found: Tree | None) -> Tree:
    """Return the files of a tree without those that a build has prepared."""
    return {
        path: item for path, item in (found or {}).items() if ".gpuctl-build" not in path and not stat.S_ISDIR(item[0])
    }


def finished(site: Site, whole: Undisturbed, number: int) -> None:
    """Check that after the next build all is as after an undisturbed one, and nothing is left behind."""
    assert tree(site.target) == whole.new, f"the build after the one that ended at call {number}"
    assert site.problems() == [], f"the build after the one that ended at call {number}"
    assert list(site.root.rglob(".gpuctl-build*")) == [], f"left behind at call {number}"


def test_every_file_change_is_counted(place: Path) -> None:
    """Python's own audit sees nothing that the tests above do not count."""
    audited: list[str] = []
    numbers: list[int] = []
    active = False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and (event.startswith(("os.", "shutil.")) or (event == "open" and isinstance(arguments[2], int))):
            writes = event != "open" or bool(int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR))
            if writes and event not in ("os.listdir", "os.scandir"):
                audited.append(event)

    sys.addaudithook(hook)
    site = Site(SCENARIOS["changes"], place / "site")
    active = True
    watched(numbers.append, site.build)
    active = False
    assert len(audited) > 20
    assert len(audited) <= len(numbers)
