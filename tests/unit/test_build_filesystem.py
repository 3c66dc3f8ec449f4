"""``gpuctl build`` and the file system: links, read-only and full disks, mounts, file names, concurrent builds."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuctl.compilation import compile
from gpuctl.frontend.source import Source
from gpuctl.gitops import writer
from gpuctl.gitops.build_error import BuildError
from gpuctl.gitops.disk import remove_empty
from gpuctl.gitops.layout import File, files_of, illegal
from gpuctl.gitops.manifest import MANIFEST, digest, parse_manifest, render_manifest
from support.nobody import as_nobody

JOB = "team-a/job-x.yaml"
Tree = dict[str, bytes | str | None]


def files(**contents: str) -> dict[str, File]:
    paths = {name.replace("__", "/").replace("_", "-") + ".yaml": text for name, text in contents.items()}
    return {path: File(path, text.encode(), "job.yaml", {}) for path, text in paths.items()}


OLD = files(team_a__job_x="x1", team_b__job_y="y1")
NEW = files(team_a__job_x="x2", team_c__job_z="z1")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rendered(here: Path) -> Path:
    """Build into a directory and add a foreign file."""
    writer.build(here / "rendered", OLD)
    (here / "rendered/README.md").write_text("foreign")
    return here / "rendered"


def tree(directory: Path) -> Tree:
    """Return the contents of files, the targets of links, and None for directories."""
    found: Tree = {}
    for path in directory.rglob("*"):
        mode = path.lstat().st_mode
        name = path.relative_to(directory).as_posix()
        found[name] = os.readlink(path) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else None
    return found


def refused(directory: Path | str, wanted: dict[str, File], root: Path, *, force: bool = False) -> str:
    """Return the error of a build that has to fail; check that nothing below ``root`` changed."""
    before = tree(root)
    with pytest.raises(BuildError) as caught:
        writer.build(directory, wanted, force=force)
    assert tree(root) == before
    return str(caught.value)


def has_new_files(directory: Path) -> bool:
    found = tree(directory)
    folders = {name for name, content in found.items() if content is None}
    return folders == {"team-a", "team-c"} and {found[JOB], found["team-c/job-z.yaml"]} == {b"x2", b"z1"}


# Links --------------------------------------------------------------------------------------------------------


def test_output_directory_that_is_a_link_is_refused(rendered: Path, here: Path) -> None:
    (here / "link").symlink_to("rendered")
    for name in ("link", "link/"):
        assert refused(name, NEW, here) == "`link` is a symbolic link: name its target"
    (here / "dangling").symlink_to("nowhere")
    assert "`dangling` is a symbolic link" in refused("dangling", NEW, here)


def test_link_in_the_parent_path_is_followed(rendered: Path, here: Path) -> None:
    (here / "way").symlink_to(".")
    writer.build("way/rendered", NEW)
    assert has_new_files(rendered)
    assert tree(here)["way"] == "."


@pytest.mark.parametrize("force", [False, True])
def test_linked_namespace_directory_is_refused(rendered: Path, here: Path, force: bool) -> None:
    (here / "outside").mkdir()
    (rendered / "team-c").symlink_to(here / "outside")
    assert refused(rendered, NEW, here, force=force) == (
        "`rendered/team-c` is a symbolic link, and gpuctl does not write through links: remove it, or build elsewhere"
    )


def test_stale_file_is_not_removed_through_a_link(rendered: Path, here: Path) -> None:
    (here / "outside").mkdir()
    (rendered / "team-b/job-y.yaml").rename(here / "outside/job-y.yaml")
    (rendered / "team-b").rmdir()
    (rendered / "team-b").symlink_to("../outside")
    writer.build(rendered, NEW)
    assert (here / "outside/job-y.yaml").read_text() == "y1"
    assert os.readlink(rendered / "team-b") == "../outside"


def test_file_replaced_by_a_link_counts_as_edited(rendered: Path, here: Path) -> None:
    (here / "victim").write_text("x1")
    (rendered / JOB).unlink()
    (rendered / JOB).symlink_to("../../victim")
    assert f"`rendered/{JOB}` was edited by hand" in refused(rendered, NEW, here)
    writer.build(rendered, NEW, force=True)
    assert (here / "victim").read_text() == "x1"
    assert has_new_files(rendered)


def test_foreign_link_at_a_path_is_refused(here: Path) -> None:
    (here / "rendered/team-a").mkdir(parents=True)
    (here / "rendered" / JOB).symlink_to("../../victim")
    assert f"`rendered/{JOB}` was not written by gpuctl" in refused("rendered", NEW, here, force=True)


def test_linked_manifest_is_refused(rendered: Path, here: Path) -> None:
    (rendered / MANIFEST).rename(here / "elsewhere")
    (rendered / MANIFEST).symlink_to("../elsewhere")
    assert f"`rendered/{MANIFEST}` is not a plain file" in refused(rendered, NEW, here)


# Foreign files at the paths of a build --------------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("foreign"), f"`rendered/{JOB}` was not written by gpuctl, which needs the name"),
        (lambda path: path.mkdir(), f"`rendered/{JOB}` is a directory, and gpuctl needs a file there"),
        (os.mkfifo, f"`rendered/{JOB}` was not written by gpuctl, which needs the name"),
    ],
)
def test_foreign_file_at_a_path_is_refused(
    make: Callable[[Path], object], message: str, force: bool, here: Path
) -> None:
    (here / "rendered/team-a").mkdir(parents=True)
    make(here / "rendered" / JOB)
    assert refused("rendered", NEW, here, force=force).startswith(message)


def test_file_in_place_of_a_namespace_directory_is_refused(here: Path) -> None:
    (here / "rendered").mkdir()
    (here / "rendered/team-a").write_text("foreign")
    assert refused("rendered", NEW, here) == (
        "`rendered/team-a` is not a directory, and gpuctl needs one there: move it away, or build elsewhere"
    )


def test_file_in_place_of_the_output_directory_is_refused(here: Path) -> None:
    (here / "rendered").write_text("foreign")
    assert "`rendered` is not a directory" in refused("rendered", NEW, here)
    assert "cannot write `rendered/below`: not a directory" in refused("rendered/below", NEW, here)


def test_all_problems_are_reported_in_one_error(rendered: Path, here: Path) -> None:
    (rendered / JOB).write_text("by hand")
    (rendered / "team-c").write_text("foreign")
    assert len(refused(rendered, NEW, here).splitlines()) == 2


# Names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../job-x.yaml",
        "team-a/../job-x.yaml",
        "/etc/job-x.yaml",
        "team-a/job-a/b.yaml",
        "team-a\\b/job-x.yaml",
        "team-a/job-x\0.yaml",
        "team-a/role-system:x.yaml",
        "con/job-x.yaml",
        "lpt1/job-x.yaml",
        "team-a./job-x.yaml",
        "/job-x.yaml",
        "team-a/job-" + "x" * 247 + ".yaml",
        "team-a/job-x.yml",
        "README.md",
        ".git/config.yaml",
    ],
)
def test_illegal_paths_are_detected(path: str) -> None:
    assert illegal(path) is not None


@pytest.mark.parametrize("path", [JOB, "kustomization.yaml", "_cluster/node-a.b.c.yaml", "console/job-con.yaml"])
def test_legal_paths_are_accepted(path: str) -> None:
    assert illegal(path) is None


def test_illegal_file_name_error_names_the_document() -> None:
    pool = "kind: pool\nversion: v0.1\nmetadata: {name: p}\nnodes:\n  " + ".".join(["a" * 62] * 4) + ": {}\n"
    compilation = compile(Source("pool.yaml", pool), nodes=True)
    assert compilation.ok
    with pytest.raises(
        BuildError, match=r"\Apool.yaml:1:1: Node `a.*a` would be the file .* at most 255 bytes"
    ) as caught:
        files_of(compilation.lowered, str)
    assert len(caught.value.problems) == 1


def test_colliding_file_names_error_names_both_documents() -> None:
    jobs = [
        f"kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: i, command: [a]}}\nresources: {{gpu: 1}}\n"
        for name in ("one", "two")
    ]
    compilation = compile([Source(f"{index}.yaml", text) for index, text in enumerate(jobs)])
    lowered = compilation.lowered
    both = [item for item in lowered if item.object["kind"] == "Job"]
    # No two valid names collide; the names of a future kind may differ in case only.
    both[1].object["metadata"]["name"] = "ONE"
    for order in (lowered, lowered[::-1]):
        with pytest.raises(BuildError) as caught:
            files_of(order, str)
        assert str(caught.value) == (
            "1.yaml:1:1: Job `ONE` and Job `one` of 0.yaml:1:1 would both be the file `default/job-one.yaml`: "
            "rename one of the two"
        )


# The manifest -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"path": "../victim.yaml", "sha256": "HASH"}', "names `../victim.yaml`, which `gpuctl build` never writes"),
        ('{"path": "/etc/x.yaml", "sha256": "HASH"}', "names `/etc/x.yaml`"),
        ('{"path": "a/b/../../../victim.yaml", "sha256": "HASH"}', "which `gpuctl build` never writes"),
        ('{"path": "README.md", "sha256": "HASH"}', "names `README.md`"),
        ('{"path": 1}', "has no `path` and `sha256`"),
        ("[]", "has no `path` and `sha256`"),
        ("nonsense", "is not JSON"),
        ("\udcff", "is not UTF-8"),
        ("# gpuctl-manifest 2: from the future", "was written by a newer gpuctl: build with that one"),
    ],
)
def test_tampered_manifest_is_refused(line: str, message: str, rendered: Path, here: Path) -> None:
    (here / "victim.yaml").write_text("x1")
    with (rendered / MANIFEST).open("ab") as stream:
        stream.write(line.replace("HASH", digest(b"x1")).encode("utf-8", "surrogateescape") + b"\n")
    said = refused(rendered, NEW, here, force=True)
    assert message in said
    assert f"`rendered/{MANIFEST}`" in said


def test_any_source_name_is_kept_in_the_manifest() -> None:
    file = File(JOB, b"x", "日本/\udcff\n.yaml", {})
    data = render_manifest([file])
    assert "日本".encode() in data
    assert set(parse_manifest(data, "m")) == {JOB}


# Read-only, full, mounted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [".", "team-a", "team-b"])
def test_read_only_directory_is_refused(path: str, rendered: Path, here: Path) -> None:
    """For root as well, although the kernel would allow the write."""
    (rendered / path).chmod(0o555)
    shown = "rendered" if path == "." else f"rendered/{path}"
    assert refused(rendered, NEW, here) == (
        f"directory `{shown}` is read-only: make it writable, or name another directory with -o"
    )
    assert writer.build(rendered, OLD).changes == [], "an up-to-date directory needs no write"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its user, and mount")


@pytest.fixture
def public_directory(here: Path) -> Iterator[Path]:
    """A directory that all users may enter, unlike pytest's."""
    path = Path("/tmp") / f"gpuctl-test-{os.getpid()}"
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


@needs_root
def test_build_works_in_a_read_only_parent_directory(public_directory: Path) -> None:
    target = public_directory / "rendered"
    target.mkdir()
    os.chown(target, 65534, 65534)

    def work() -> None:
        writer.build(target, OLD)
        writer.build(target, NEW)

    assert as_nobody(work) == 0
    assert has_new_files(target)
    assert [path.name for path in public_directory.iterdir()] == ["rendered"]


@needs_root
def test_unreadable_foreign_file_is_kept(public_directory: Path) -> None:
    target = public_directory / "rendered"
    writer.build(target, OLD)
    (target / "secret").write_text("foreign")
    (target / "secret").chmod(0o600)
    for path in [public_directory, target, *target.rglob("*")]:
        if path.name != "secret":
            os.chown(path, 65534, 65534)
    assert as_nobody(lambda: writer.build(target, NEW) and None) == 0
    assert has_new_files(target)
    assert (target / "secret").stat().st_uid == 0
    assert [path.name for path in public_directory.iterdir()] == ["rendered"]


@pytest.fixture
def disk(here: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    path = here / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "gpuctl-test", path], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield path
    finally:
        os.chdir("/")
        subprocess.run(["umount", path], check=True)


BIG = {path: File(path, b"x" * 8000, "big.yaml", {}) for path in (f"team-a/job-{n}.yaml" for n in range(60))}


@pytest.mark.parametrize("directory", [".", "rendered"])
def test_full_disk_leaves_the_directory_unchanged(directory: str, disk: Path) -> None:
    target = disk / directory
    writer.build(target, OLD)
    (target / "README.md").write_text("foreign")
    assert "no space left on device" in refused(target, {**NEW, **BIG}, disk)
    assert list(disk.rglob(".gpuctl-build*")) == []
    writer.build(target, NEW)
    assert has_new_files(target)


def test_full_disk_leaves_no_new_directory(disk: Path) -> None:
    assert "no space left on device" in refused(disk / "not/yet/there", BIG, disk)
    assert list(disk.iterdir()) == []


def test_read_only_file_system_is_refused(disk: Path) -> None:
    target = disk / "rendered"
    writer.build(target, OLD)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert "`disk/rendered` is read-only" in refused(target, NEW, disk)
    assert "cannot write `disk/other`: read-only file system" in refused(disk / "other", NEW, disk)
    assert writer.check(target, NEW).changes


def test_output_directory_may_be_a_mount_point(disk: Path) -> None:
    """In a container the directory itself may be mounted."""
    (disk / "README.md").write_text("foreign")
    writer.build(disk, OLD)
    writer.build(disk, NEW)
    assert has_new_files(disk)
    assert (disk / "README.md").read_text() == "foreign"


def test_mount_below_the_output_directory_is_kept(disk: Path, here: Path) -> None:
    (disk / "notes").write_text("foreign")
    writer.build(here, OLD)
    writer.build(here, NEW)
    assert (here / JOB).read_text() == "x2"
    assert (disk / "notes").read_text() == "foreign"
    assert list(here.rglob(".gpuctl-build*")) == []


# Where it is called ------------------------------------------------------------------------------------------


def test_build_keeps_the_current_directory_valid(rendered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell whose working directory is the output directory, or is below it, stays usable."""
    (rendered / ".git").mkdir()
    for below in (rendered, rendered / "team-a", rendered / ".git"):
        monkeypatch.chdir(below)
        inode = os.stat(".").st_ino
        writer.build(os.path.relpath(rendered), NEW if (rendered / "team-b").exists() else {**OLD, **NEW})
        assert os.getcwd() == str(below)
        assert os.stat(below).st_ino == inode


def test_concurrent_build_is_refused(rendered: Path, here: Path) -> None:
    descriptor = os.open(rendered, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert (
        refused(rendered, NEW, here) == "another `gpuctl build` is writing `rendered`: run this one when that has ended"
    )
    os.close(descriptor)
    writer.build(rendered, NEW)
    assert has_new_files(rendered)


def test_file_changed_during_the_build_is_kept(rendered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is saved after the build has read it and before the build replaces it."""
    sync = writer.sync_folder

    def save(folder: Path) -> None:
        sync(folder)
        (rendered / JOB).write_text("saved meanwhile")

    monkeypatch.setattr(writer, "sync_folder", save)
    with pytest.raises(BuildError, match=f"`rendered/{JOB}` was changed during the build: run it again"):
        writer.build(rendered, NEW)
    assert (rendered / JOB).read_text() == "saved meanwhile"
    assert (rendered / "team-b/job-y.yaml").exists()
    assert not (rendered / ".gpuctl-build").exists()


def kill_at_replacement(number: int, directory: Path, wanted: dict[str, File]) -> None:
    """Build in a child process that is killed before its n-th replacement of a file; the manifest is the first and the
    last.
    """
    pid = os.fork()
    if pid == 0:
        replace, calls = os.replace, iter(range(1, 100))
        os.replace = lambda *paths: os.kill(os.getpid(), 9) if next(calls) == number else replace(*paths)  # type: ignore[assignment]
        writer.build(directory, wanted)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_files_of_a_killed_build_are_ignored_by_git(rendered: Path, here: Path) -> None:
    subprocess.run(["git", "init", "-q", here], check=True)
    subprocess.run(["git", "-C", here, "add", "-A"], check=True)
    kill_at_replacement(1, rendered, NEW)
    assert len(list(rendered.glob(".gpuctl-build/new-*"))) == 4
    status = subprocess.run(["git", "-C", here, "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert {line[0] for line in status.stdout.splitlines()} == {"A"}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_killed_build_can_be_completed_with_other_documents(number: int, rendered: Path) -> None:
    """The manifest has the hashes of the old and the new files, so none of them counts as edited by hand."""
    kill_at_replacement(number, rendered, NEW)
    assert writer.check(rendered, NEW).changes != []
    other = files(team_a__job_x="x3", team_b__job_y="y3")
    assert writer.check(rendered, other).edited == []
    writer.build(rendered, other)
    assert {path: data for path, data in tree(rendered).items() if data and path.endswith(".yaml")} == {
        JOB: b"x3",
        "team-b/job-y.yaml": b"y3",
    }
    assert writer.check(rendered, other).changes == []


def test_failure_between_replacements_is_reported(rendered: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(rendered / "team-b"))

    with monkeypatch.context() as patched:
        patched.setattr(writer, "remove_empty", fail)
        with pytest.raises(BuildError) as caught:
            writer.build(rendered, NEW)
    assert str(caught.value) == ("`rendered` is half built: input/output error (at `rendered/team-b`): build it again")
    assert writer.check(rendered, NEW).changes != []
    writer.build(rendered, NEW)
    assert has_new_files(rendered)


def test_failed_removal_of_an_empty_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is not empty or does not exist is not an error."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    (tmp_path / "empty").mkdir()
    remove_empty(tmp_path, ["full", "empty", "absent"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]

    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "rmdir", denied)
    with pytest.raises(PermissionError):
        remove_empty(tmp_path, ["full"])
