"""A build that is killed, interrupted or refused at any of its file operations: the tree is the old or the new one.

A child process counts its calls of ``os`` functions that change anything, and ends itself with SIGKILL just before the
n-th; what the disk shows between two such calls is what it shows before the second. Where it shows what it showed
before the call ahead of it (a file was opened to be read, synced or closed) the kill would leave the same, and is left
out: so the runs see every state that the disk is ever in, each once. What is interrupted or refused goes on by itself,
and ends at every call.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fault_tools.builds import INTERRUPTED, REFUSED, Builder, Ending, Job, Way, cannot_swap, watched
from gpuctl.gitops import writer
from gpuctl.gitops.build_error import BuildError
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
    """Where a build starts, and what it builds."""

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

    def build(self, *, force: bool | None = None) -> writer.Outcome:
        return writer.build(self.target, self.scenario.new, force=self.scenario.force if force is None else force)

    def job(self, way: Way, number: int) -> Job:
        """The build, ended at one of its calls."""
        scenario = self.scenario
        return Job(self.target, scenario.new, scenario.force, writer.swap is cannot_swap, Ending(way, number))

    def problems(self) -> list[str]:
        """What became of the foreign files."""
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
    """All that stands in a directory: modes and contents."""
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
    """What tells whether something in a directory was touched."""
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


@pytest.fixture
def file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot change places with another, as a mount point cannot."""
    monkeypatch.setattr(writer, "swap", cannot_swap)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_killed_at_every_call(scenario: Scenario, place: Path, builder: Builder) -> None:
    whole = undisturbed(scenario, place)
    seen = {"old": 0, "new": 0, "left aside": 0}
    for number, site in sites(scenario, place, whole.states):
        inode = site.target.stat().st_ino if site.target.exists() else None
        assert builder.run(site.job("kill", number)) == -signal.SIGKILL
        now, everything = tree(site.target), tree(site.root)
        assert now in (whole.old, whole.new), f"killed before call {number}: neither the old tree nor the new one"
        assert site.problems() == [], f"killed before call {number}"
        seen["old" if now == whole.old else "new"] += 1
        seen["left aside"] += now == whole.new and inode is not None and site.target.stat().st_ino != inode
        writer.check(site.target, scenario.new)
        assert tree(site.root) == everything, f"--check wrote something after the kill before call {number}"
        site.build()
        finished(site, whole, number)
    assert seen["old"] > 10
    assert seen["new"] > 1
    assert (seen["left aside"] > 3) == (scenario.old is not None)


def finished(site: Site, whole: Undisturbed, number: int) -> None:
    """After the next build all is as after an undisturbed one, and nothing is left beside."""
    assert tree(site.target) == whole.new, f"the build after the one that ended at call {number}"
    assert site.problems() == [], f"the build after the one that ended at call {number}"
    assert list(site.root.rglob(".gpuctl-build*")) == [], f"left behind at call {number}"


def stopped(
    scenario: Scenario, way: Way, place: Path, builder: Builder, look: Callable[[Path], Tree | None]
) -> set[int]:
    """Stop builds at each of their calls: they leave the old or the new, an error the old; their exit codes."""
    whole = undisturbed(scenario, place)
    codes = set()
    for number, site in sites(scenario, place, whole.calls):
        old = look(site.target)
        code = builder.run(site.job(way, number))
        codes.add(code)
        now = look(site.target)
        assert site.problems() == [], f"stopped at call {number}"
        site.build()
        finished(site, whole, number)
        assert now in (old, look(site.target)), f"stopped at call {number}: neither the old tree nor the new one"
        assert code != REFUSED or now == old, f"stopped at call {number}: an error, and the tree is the new one"
    return codes


@pytest.mark.parametrize("way", ["interrupt", "fill disk"])
@pytest.mark.parametrize("name", ["nothing there", "changes"])
def test_stopped_at_every_call(name: str, way: Way, place: Path, builder: Builder) -> None:
    codes = stopped(SCENARIOS[name], way, place, builder, tree)
    assert codes <= {0, INTERRUPTED if way == "interrupt" else REFUSED}
    assert len(codes) > 1 or way == "interrupt"


@pytest.mark.usefixtures("file_by_file")
@pytest.mark.parametrize("name", ["an empty directory", "changes", "all goes"])
def test_killed_at_every_call_file_by_file(name: str, place: Path, builder: Builder) -> None:
    """Each file is the old or the new one, and the next build finishes; nothing needs ``--force``."""
    scenario = SCENARIOS[name]
    whole = undisturbed(scenario, place)
    assert whole.old is not None
    assert whole.new is not None
    mixed = 0
    for number, site in sites(scenario, place, whole.states):
        edited = writer.check(site.target, scenario.new).edited
        assert builder.run(site.job("kill", number)) == -signal.SIGKILL
        now = tree(site.target)
        assert now is not None
        for path in {*whole.old, *whole.new} - {".", ".gpuctl-manifest"}:
            assert now.get(path) in (whole.old.get(path), whole.new.get(path)) or is_folder(now, path), path
        assert site.problems() == [], f"killed before call {number}"
        mixed += now not in (whole.old, whole.new)
        assert set(writer.check(site.target, scenario.new).edited) <= set(edited), "an edit that nobody has made"
        site.build()
        finished(site, whole, number)
    assert mixed > 5


def is_folder(found: Tree, path: str) -> bool:
    """Directories come a moment before their files, and go a moment after them."""
    return path in found and stat.S_ISDIR(found[path][0])


@pytest.mark.usefixtures("file_by_file")
@pytest.mark.parametrize("way", ["interrupt", "fill disk"])
@pytest.mark.parametrize("name", ["an empty directory", "edits by hand"])
def test_stopped_at_every_call_file_by_file(name: str, way: Way, place: Path, builder: Builder) -> None:
    """What was changed is put back."""
    codes = stopped(SCENARIOS[name], way, place, builder, lambda directory: content(tree(directory)))
    assert codes <= {0, INTERRUPTED if way == "interrupt" else REFUSED}


def content(found: Tree | None) -> Tree:
    """Without what a build that could not clean up has left to the next one, and without directories."""
    kept = {path: item for path, item in (found or {}).items() if ".gpuctl-build" not in path}
    return {path: item for path, item in kept.items() if not is_folder(kept, path)}


def test_a_foreign_file_written_meanwhile_is_put_in_its_place(place: Path, builder: Builder) -> None:
    """Somebody saves a file in the tree that stands aside when the build is killed."""
    scenario = SCENARIOS["changes"]
    whole = undisturbed(scenario, place)
    rescued = 0
    for number, site in sites(scenario, place, whole.states):
        inode = site.target.stat().st_ino
        builder.run(site.job("kill", number))
        if site.target.stat().st_ino == inode:
            continue
        (aside,) = site.root.rglob(".gpuctl-build-*/tree")
        if not (aside / "charts").exists():
            continue
        (aside / "charts/late.yaml").write_text("late")
        (site.target / "README.md").write_text("newer")
        site.build()
        assert (site.target / "charts/late.yaml").read_text() == "late"
        assert (site.target / "README.md").read_text() == "newer"
        assert list(site.root.rglob(".gpuctl-build*")) == []
        rescued += 1
    assert rescued > 3


def test_what_has_no_place_is_kept_and_named(place: Path, builder: Builder) -> None:
    scenario = SCENARIOS["changes"]
    whole = undisturbed(scenario, place)
    for number, site in sites(scenario, place, whole.states):
        inode = site.target.stat().st_ino
        builder.run(site.job("kill", number))
        if site.target.stat().st_ino == inode:
            continue
        (aside,) = site.root.rglob(".gpuctl-build-*/tree")
        for folder, text in ((aside, "one"), (site.target, "another")):
            (folder / "late.txt").write_text(text)
        with pytest.raises(BuildError, match=r"late\.txt` was left by a build that was killed, and its place is taken"):
            site.build()
        assert (aside / "late.txt").read_text() == "one"
        assert (site.target / "late.txt").read_text() == "another"
        (aside / "late.txt").unlink()
        site.build()
        assert list(site.root.rglob(".gpuctl-build*")) == []
        return
    pytest.fail("no kill came between the two exchanges")


def test_no_change_of_the_disk_escapes_the_count(place: Path) -> None:
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
    assert len(audited) > 50
    assert len(audited) <= len(numbers)
