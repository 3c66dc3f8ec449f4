"""The command line's road through a compile: in parts, by several processes, from what an earlier run left."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from gpuctl.incremental import joining, parts, run, store, workers
from gpuctl.incremental.store import Store, user_store
from support import many_documents
from support.many_documents import (
    counted,
    entries,
    for_cluster_in_one,
    for_cluster_kept,
    in_one,
    in_parts,
    job,
    mode_of,
    write_tree,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_tree(tmp_path / "jobs"))
    return tmp_path / "jobs"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(store.OFF)
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many units were compiled, by call."""
    counts: list[int] = []
    monkeypatch.setattr(parts.Maker, "make", counted(parts.Maker.make, counts))
    return counts


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no thread ran beside: one of those that bring tests to several processes does, and holds no lock of ours."""
    monkeypatch.setattr(workers.threading, "active_count", lambda: 1)


@pytest.fixture
def three_processes(alone: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were started."""
    started: list[int] = []
    fork = os.fork

    def counting() -> int:
        process = fork()
        if process:
            started.append(process)
        return process

    monkeypatch.setattr(workers, "FEWEST", 1)
    monkeypatch.setenv(workers.WORKERS, "3")
    monkeypatch.setattr(os, "fork", counting)
    return started


OPTIONS: list[dict[str, Any]] = [
    {},
    {"nodes": True, "namespaces": True, "embed": True},
    {"gitops": "argocd"},
    {"shared": False, "namespace": "other"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_parts_are_the_whole(tree: Path, made: list[int], options: dict[str, Any]) -> None:
    assert in_parts(["."], **options) == in_one(["."], **options)
    assert made == [27], "12 files, 12 documents of a stream, pool, quota and platform"


def test_a_mistake_is_told_as_by_a_compile_of_the_whole(tree: Path) -> None:
    for text in ("kind: training\nversion: v0.1\njob: {name: X}\n", "a: [", "# nothing\n", job(3)):
        (tree / "wrong.yaml").write_text(text)
        assert in_parts(["."]) == in_one(["."])
        assert in_parts(["."], strict=True) == in_one(["."], strict=True)


# Several processes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
def test_processes_share_the_work(tree: Path, three_processes: list[int], options: dict[str, Any]) -> None:
    assert in_parts(["."], **options) == in_one(["."], **options)
    assert len(three_processes) == 2


def test_a_mistake_in_another_process(tree: Path, three_processes: list[int]) -> None:
    (tree / "zzz.yaml").write_text("kind: training\nversion: v0.1\njob: {name: X}\n")
    told = in_parts(["."])
    assert told == in_one(["."])
    assert not told[3]
    assert len(three_processes) == 2


def test_a_worker_that_is_killed_costs_time_alone(
    tree: Path, three_processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_sent", lambda parts: os.kill(os.getpid(), signal.SIGKILL))
    assert in_parts(["."]) == in_one(["."])
    assert len(three_processes) == 2


def test_no_process_more_when_the_system_has_none(
    tree: Path, three_processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    assert in_parts(["."]) == in_one(["."])


@pytest.mark.parametrize(("asked", "units", "count"), [("1", 9999, 1), ("4", 9999, 4), ("4", 500, 2), ("4", 399, 1)])
def test_how_many_processes(asked: str, units: int, count: int, alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workers.WORKERS, asked)
    assert workers.processes(units) == count


@pytest.mark.parametrize("asked", ["", "0", "-1", "many", "9" * 40])
def test_what_is_no_number_of_processes_is_passed_over(
    asked: str, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(workers.WORKERS, raising=False)
    default = workers.processes(9999)
    monkeypatch.setenv(workers.WORKERS, asked)
    assert workers.processes(9999) == default


def interrupted(directory: Path, before: str = "") -> subprocess.Popen[str]:
    """A compile by two processes that each say that they are at work, and have no end."""
    code = f"""
import os, signal, sys, time
from gpuctl.incremental import parts, workers
workers.FEWEST = 1
def at_work(process):
    open(os.path.join({str(directory)!r}, "at-work-%d" % process), "w").close()
def slow(*_):
    at_work(os.getpid())
    while True:  # A signal just before a sleep is noticed only after it.
        time.sleep(0.05)
parts.check = slow
{before}
from gpuctl.__main__ import main
main()
"""
    return subprocess.Popen(
        [sys.executable, "-c", code, "render", "."],
        env={**os.environ, workers.WORKERS: "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def assert_ended(child: subprocess.Popen[str], directory: Path) -> None:
    output, errors = child.communicate(timeout=120)
    assert (child.returncode, output, errors) == (130, "", "Interrupted.\n")
    for path in directory.glob("at-work-*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name.removeprefix("at-work-")), 0)


def test_the_interrupt_ends_all_processes(tree: Path, tmp_path: Path) -> None:
    with interrupted(tmp_path) as child:
        while child.poll() is None and len(list(tmp_path.glob("at-work-*"))) < 2:
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGINT)
        assert_ended(child, tmp_path)


def test_an_interrupt_while_a_process_is_started_leaves_none_behind(tree: Path, tmp_path: Path) -> None:
    """It comes when there are two of them, and nobody knows the other one's number yet."""
    before = """
fork = os.fork
def forking():
    process = fork()
    if process:
        at_work(process)
        os.kill(os.getpid(), signal.SIGINT)
    return process
os.fork = forking
"""
    with interrupted(tmp_path, before) as child:
        assert_ended(child, tmp_path)
        assert list(tmp_path.glob("at-work-*"))


# What an earlier run left -----------------------------------------------------------------------------------------


def kept(inputs: list[str], **options: Any) -> Any:
    return in_parts(inputs, store=user_store(), **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_nothing_changed_compiles_nothing(
    tree: Path, cache: Path, made: list[int], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = in_one(["."], **options)
    assert kept(["."], **options) == expected
    monkeypatch.setattr("gpuctl.incremental.parts.bind", None)
    monkeypatch.setattr("gpuctl.frontend.load.bind", None)
    assert kept(["."], **options) == expected
    assert made == [27]


def test_one_change_compiles_one(tree: Path, cache: Path, made: list[int]) -> None:
    kept(["."])
    text = (tree / "job-3.yaml").read_text()
    (tree / "job-3.yaml").write_text(text.replace("app:v3", "app:v33"))
    assert kept(["."]) == in_one(["."])
    # In the middle of a stream, so that all that follows it moves.
    text = (tree / "stream.yaml").read_text()
    (tree / "stream.yaml").write_text(text.replace("seed, ", "seed,\n    ", 1))
    assert kept(["."]) == in_one(["."])
    (tree / "job-5.yaml").unlink()
    assert kept(["."]) == in_one(["."])
    assert made == [27, 1, 1, 0]


@pytest.fixture
def put_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts were put together, by call."""
    counts: list[int] = []
    together = joining.joined

    def counting(loaded: Any, maker: Any, units: Any, parts: Any, *, strict: bool) -> joining.Joined:
        counts.append(len(parts))
        return together(loaded, maker, units, parts, strict=strict)

    monkeypatch.setattr(joining, "joined", counting)
    return counts


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def quiet(tree: Path) -> None:
    """Nothing is told of any document: no pool and quota, and their namespaces are there."""
    for name in ("pool", "quota"):
        (tree / f"{name}.yaml").unlink()
    for path in tree.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(", pool: big, gpu-type: a100-80g", ""), encoding="utf-8")


@pytest.mark.parametrize("options", [{"namespaces": True}, {"namespaces": True, "embed": True, "namespace": "other"}])
def test_a_text_that_no_other_document_asks_for(
    tree: Path, cache: Path, made: list[int], put_together: list[int], options: dict[str, Any]
) -> None:
    quiet(tree)
    assert kept(["."], **options)[1] == []
    edit(tree / "job-3.yaml", "app:v3", "app:v33")
    assert kept(["."], **options) == in_one(["."], **options)
    # Of many bytes, in the middle of a stream, and two at once.
    edit(tree / "stream.yaml", "seed, ", "seed,\n    --more, " + 3000 * "任" + ", ")
    edit(tree / "job-5.yaml", "/data/5", "/data/five")
    assert kept(["."], **options) == in_one(["."], **options)
    edit(tree / "stream.yaml", "number 20", "number twenty")
    assert kept(["."], **options) == in_one(["."], **options)
    assert kept(["."], **options) == in_one(["."], **options)
    again = run.manifests(["."], store=user_store(), **options)
    for one, other in zip(run.manifests(["."], **options).lowered, again.lowered, strict=True):
        assert (one.document.file, one.document.span()) == (other.document.file, other.document.span())
    edit(tree / "job-3.yaml", "app:v33", "app:v3")
    assert kept(["."], **options) == in_one(["."], **options)
    assert made == [25, 1, 2, 1, 25, 1]
    # The first run, and the one without a store.
    assert put_together == [25, 25]


FOLLOWS = {
    "another name": lambda tree: edit(tree / "job-3.yaml", "name: job-3", "name: job-33"),
    "a name that another job has": lambda tree: edit(tree / "job-3.yaml", "name: job-3,", "name: job-6,"),
    "another namespace": lambda tree: edit(tree / "job-3.yaml", "namespace: team-0", "namespace: team-9"),
    "other resources": lambda tree: edit(tree / "job-4.yaml", "gpu: 1", "gpu: 2"),
    "a pool that nobody has": lambda tree: edit(tree / "job-4.yaml", "gpu: 1", "gpu: 1, pool: nobody"),
    "another kind": lambda tree: edit(tree / "job-4.yaml", "kind: training", "kind: notebook"),
    "a volume more": lambda tree: edit(tree / "job-4.yaml", "cpu: 4,", "cpu: 4, gpu-share: 0.5,"),
    "a mistake": lambda tree: edit(tree / "job-4.yaml", "cpu: 4", "cpu: four"),
    "a warning of the document itself": lambda tree: edit(tree / "job-4.yaml", "app:v4", "app"),
    "nothing left": lambda tree: (tree / "job-4.yaml").write_text("# nothing\n"),
    "one document more in the file": lambda tree: edit(tree / "job-4.yaml", "kind:", job(90) + "---\nkind:"),
    "files changed places": lambda tree: (
        (tree / "job-3.yaml").rename(tree / "x"),
        (tree / "job-4.yaml").rename(tree / "job-3.yaml"),
        (tree / "x").rename(tree / "job-4.yaml"),
    ),
    "another name of the file": lambda tree: (tree / "job-4.yaml").rename(tree / "job-4b.yaml"),
    "the platform": lambda tree: edit(tree / "platform.yaml", "gpu.example.com", "gpu.example.org"),
    "the platform, for all documents": lambda tree: [
        edit(tree / "platform.yaml", "gpu.example.com", "gpu.example.org"),
        *(edit(path, "app:v", "app:w") for path in tree.glob("job-*.yaml")),
    ],
    "a comment in the platform": lambda tree: edit(tree / "platform.yaml", "kind:", "# ours\nkind:"),
    "a file that is not read": lambda tree: (tree / ".hidden.yaml").write_text(job(70)),
    "a quota": lambda tree: (tree / "quota.yaml").write_text(many_documents.QUOTA),
    "a pool": lambda tree: (tree / "pool.yaml").write_text(many_documents.POOL),
}


@pytest.mark.parametrize("how", FOLLOWS)
@pytest.mark.parametrize("is_quiet", [True, False])
def test_what_follows_from_a_change_elsewhere(tree: Path, cache: Path, how: str, is_quiet: bool) -> None:
    if is_quiet:
        quiet(tree)
    for options in ({"namespaces": True}, {}):
        kept(["."], **options)
    FOLLOWS[how](tree)
    edit(tree / "job-7.yaml", "app:", "application:")
    for options in ({"namespaces": True}, {}):
        assert kept(["."], **options) == in_one(["."], **options)
        assert kept(["."], **options) == in_one(["."], **options)
        anew, again = run.manifests(["."], **options), run.manifests(["."], store=user_store(), **options)
        assert again.settings.domain == anew.settings.domain
        assert again.version == anew.version
        for one, other in zip(anew.lowered, again.lowered, strict=True):
            assert (one.document.file, one.document.span()) == (other.document.file, other.document.span())


@pytest.mark.parametrize("how", FOLLOWS)
@pytest.mark.parametrize("is_quiet", [True, False])
def test_objects_for_a_cluster_are_those_of_a_compile(tree: Path, cache: Path, how: str, is_quiet: bool) -> None:
    if is_quiet:
        quiet(tree)
    own = user_store()
    assert own is not None
    for _ in range(2):
        assert for_cluster_kept(["."], own) == for_cluster_in_one(["."])
    FOLLOWS[how](tree)
    edit(tree / "job-7.yaml", "app:", "application:")
    for options in ({}, {"strict": True}, {"namespace": "other"}):
        for _ in range(2):
            assert for_cluster_kept(["."], own, **options) == for_cluster_in_one(["."], **options)


def test_objects_for_a_cluster_are_compiled_once(
    tree: Path, cache: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = user_store()
    assert own is not None
    expected = for_cluster_in_one(["."])
    assert for_cluster_kept(["."], own) == expected
    monkeypatch.setattr(parts, "bind", None)
    assert for_cluster_kept(["."], own) == expected
    assert made == [27]


CLUSTERS = """kind: platform
version: v0.1
clusters: {prod: {server: "https://prod.example.com"}, lab: {server: "https://lab.example.com"}}
"""


def test_documents_of_other_clusters_stay_left_out(tree: Path, cache: Path) -> None:
    own = user_store()
    assert own is not None
    (tree / "platform.yaml").write_text(CLUSTERS)
    for number in range(12):
        edit(
            tree / f"job-{number}.yaml",
            "resources:",
            f"placement: {{clusters: [{('prod', 'lab')[number % 2]}]}}\nresources:",
        )
    for options in ({"cluster": "prod"}, {"cluster": "lab"}, {"cluster": "nowhere"}, {}):
        for _ in range(2):
            assert for_cluster_kept(["."], own, **options) == for_cluster_in_one(["."], **options)
    assert [told[1] for told in for_cluster_kept(["."], own, cluster="prod")["left out"]] == [
        f"job-{number}" for number in (1, 11, 3, 5, 7, 9)
    ]


def test_a_platform_that_changes_while_it_is_read_is_not_mixed_with_older_objects(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = user_store()
    assert own is not None
    outside = tree.parent / "platform.yaml"
    (tree / "platform.yaml").rename(outside)
    for_cluster_kept(["."], own)
    recall = run._objects

    def changed_meanwhile(wish: Any, entry: Any) -> Any:
        outside.write_text(outside.read_text().replace("gpu.example.com", "gpu.example.org"))
        return recall(wish, entry)

    monkeypatch.setattr(run, "_objects", changed_meanwhile)
    assert for_cluster_kept(["."], own) == for_cluster_in_one(["."])


def test_a_pool_reaches_the_jobs_that_did_not_change(tree: Path, cache: Path, made: list[int]) -> None:
    first = kept(["."])
    text = (tree / "pool.yaml").read_text()
    (tree / "pool.yaml").write_text(text.replace("A100-80G", "a100-80G"))
    second = kept(["."])
    assert second == in_one(["."])
    assert second[0] != first[0]
    assert made == [27, 1]
    assert kept(["."]) == second


def test_the_platform_reaches_all(tree: Path, cache: Path, made: list[int]) -> None:
    kept(["."])
    text = (tree / "platform.yaml").read_text()
    (tree / "platform.yaml").write_text(text.replace("gpu.example.com", "gpu.example.org"))
    assert kept(["."]) == in_one(["."])
    (tree / "platform.yaml").unlink()
    assert kept(["."]) == in_one(["."])
    # One that is found above the files and not among them.
    (tree.parent / "platform.yaml").write_text(text)
    assert kept(["."]) == in_one(["."])
    assert kept(["."]) == in_one(["."])
    assert made == [27, 27, 26, 26]


def test_any_changed_byte_is_noticed(tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FEWEST", 1)
    chance = random.Random(11)
    files = sorted(tree.glob("*.yaml"))
    kept(["."])
    for _ in range(60):
        path = chance.choice(files)
        before = path.read_bytes()
        at = chance.randrange(len(before))
        path.write_bytes(
            before[:at] + bytes([chance.choice(b"a0Z: -\n#'\"\xff{")]) + before[at + chance.randrange(2) :]
        )
        assert kept(["."]) == in_one(["."]), (path, at)
        path.write_bytes(before)
        assert kept(["."]) == in_one(["."])


def test_options_and_places_do_not_mix(tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        for options in (*OPTIONS, {"strict": True}, {"platform": "platform.yaml"}):
            assert kept(["."], **options) == in_one(["."], **options)
    elsewhere = tree.parent / "elsewhere"
    shutil.copytree(tree, elsewhere)
    (elsewhere / "job-1.yaml").unlink()
    monkeypatch.chdir(elsewhere)
    assert kept(["."]) == in_one(["."])


def test_positions_of_recalled_manifests(tree: Path, cache: Path) -> None:
    anew = run.manifests(["."], store=user_store())
    again = run.manifests(["."], store=user_store())
    for one, other in zip(anew.lowered, again.lowered, strict=True):
        assert (one.document.file, one.document.span()) == (other.document.file, other.document.span())
        assert (one.shared, one.text) == (other.shared, other.text)
    assert again.settings.label("pool") == "gpu.example.com/pool"
    assert again.settings.platform == anew.settings.platform
    assert again.version == anew.version
    # With the platform under both of its names: that of the input, and the one it is found by.
    assert again.sources.items() >= anew.sources.items()


def test_what_is_on_no_disk_is_not_kept(tree: Path, cache: Path) -> None:
    command = [sys.executable, "-m", "gpuctl", "render", "-f"]
    text = job(1)
    subprocess.run([*command, "-"], input=text, text=True, check=True, capture_output=True)
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    subprocess.run([*command, f"/dev/fd/{reading}"], pass_fds=[reading], check=True, capture_output=True)
    os.close(reading)
    assert entries(cache) == []
    subprocess.run([*command, "job-1.yaml"], check=True, capture_output=True)
    assert len(entries(cache)) == 1


@pytest.mark.parametrize("off", ["--no-cache", "variable"])
def test_the_switches(tree: Path, cache: Path, off: str) -> None:
    environment = {**os.environ, store.OFF: "1" if off == "variable" else ""}
    command = [sys.executable, "-m", "gpuctl", "render", "job-1.yaml", *([off] if off.startswith("-") else [])]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert entries(cache) == []


def test_modes(tree: Path, cache: Path) -> None:
    before = os.umask(0)
    try:
        kept(["."])
    finally:
        os.umask(before)
    (entry,) = entries(cache)
    assert (mode_of(entry), mode_of(entry.parent)) == (0o600, 0o700)


def _flip(entry: Path) -> None:
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)


def _as_link(entry: Path) -> None:
    aside = entry.parent.parent / "aside"
    entry.rename(aside)
    entry.symlink_to(aside)


def _as_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)


def _linked_directory(entry: Path) -> None:
    aside = entry.parent.parent / "aside"
    entry.parent.rename(aside)
    entry.parent.symlink_to(aside)


def _of_somebody_else(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, 12345, 12345)


SPOILERS = {
    "damaged": _flip,
    "cut": lambda entry: entry.write_bytes(entry.read_bytes()[:-20]),
    "empty": lambda entry: entry.write_bytes(b""),
    "of an older layout": lambda entry: entry.write_bytes(b"gpuctl-compile 0 " + entry.read_bytes()[17:]),
    "a link": _as_link,
    "a pipe": _as_pipe,
    "readable by all": lambda entry: entry.chmod(0o644),
    "writable by all": lambda entry: entry.chmod(0o666),
    "somebody else's": _of_somebody_else,
    "in a directory of somebody else's": lambda entry: _of_somebody_else(entry.parent),
    "in a directory that all can write to": lambda entry: entry.parent.chmod(0o777),
    "in a linked directory": _linked_directory,
}


@pytest.mark.parametrize("how", SPOILERS)
def test_what_is_not_to_be_trusted_is_not_used(tree: Path, cache: Path, made: list[int], how: str) -> None:
    expected = kept(["."])
    (entry,) = entries(cache)
    SPOILERS[how](entry)
    assert kept(["."]) == expected
    assert made == [27, 27]


@pytest.mark.parametrize("how", [*SPOILERS][:8])
def test_a_spoilt_entry_is_replaced(tree: Path, cache: Path, made: list[int], how: str) -> None:
    kept(["."])
    (entry,) = entries(cache)
    SPOILERS[how](entry)
    kept(["."])
    kept(["."])
    assert made == [27, 27]
    assert [path.is_symlink() for path in entries(cache)] == [False]


def test_an_entry_that_is_not_what_it_should_be_is_passed_over(tree: Path, cache: Path) -> None:
    expected = kept(["."])
    (entry,) = entries(cache)
    for text in (b"", b"\n\n\n", b"[]\n[]\n[]\n", b"{\n\n\n", b"{}\n[]\n[]\n", b'{"parts":0,"rows":0}\n'):
        Store(str(entry.parent)).write(entry.name, [text])
        assert kept(["."]) == expected


# What was changed since an entry was written ------------------------------------------------------------------------

ALL_NAMED = {"namespaces": True}


@pytest.fixture
def changed_entry(tree: Path, cache: Path, made: list[int]) -> tuple[Path, Path]:
    """The file of an entry, and the small one beside it, as two changes leave them."""
    quiet(tree)
    kept(["."], **ALL_NAMED)
    (whole,) = entries(cache)
    before = whole.read_bytes()
    for old, new in (("app:v3", "app:v33"), ("app:v33", "app:v333")):
        edit(tree / "job-3.yaml", old, new)
        assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert whole.read_bytes() == before
    assert made == [25, 1, 1]
    (_, beside) = entries(cache)
    assert (beside.name, mode_of(beside)) == (f"{whole.name}.changes", 0o600)
    assert len(beside.read_bytes()) * 8 < len(before)
    return whole, beside


def test_a_change_alone_is_written(tree: Path, changed_entry: tuple[Path, Path], made: list[int]) -> None:
    whole, beside = changed_entry
    files = whole.read_bytes(), beside.read_bytes()
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert (whole.read_bytes(), beside.read_bytes()) == files
    # What was changed before stays changed when something else is.
    edit(tree / "job-5.yaml", "app:v5", "app:v55")
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    # Parts of both are used when all is put together anew, and no small file is left to mean it.
    edit(tree / "job-6.yaml", "name: job-6,", "name: job-66,")
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert made == [25, 1, 1, 1, 1]
    assert whole.read_bytes() != files[0]


def test_many_changes_are_written_with_the_rest(
    tree: Path, cache: Path, changed_entry: tuple[Path, Path], made: list[int]
) -> None:
    whole, beside = changed_entry
    before = whole.read_bytes()
    for number in range(12):
        edit(tree / f"job-{number}.yaml", f"/data/{number}", f"/data/other-{number}")
        assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
        assert len(beside.read_bytes()) * 8 <= len(whole.read_bytes())
    assert whole.read_bytes() != before
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert made == [25, 1, 1] + [1] * 12
    assert entries(cache) == [whole, beside]


@pytest.mark.parametrize("how", [*SPOILERS][:9])
def test_changes_that_are_not_to_be_trusted_are_not_used(
    tree: Path, changed_entry: tuple[Path, Path], made: list[int], how: str
) -> None:
    _, beside = changed_entry
    SPOILERS[how](beside)
    for _ in range(2):
        assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert made == [25, 1, 1, 1]


def test_changes_of_another_entry_are_not_used(tree: Path, changed_entry: tuple[Path, Path], made: list[int]) -> None:
    """Two processes wrote at once: the one all of it, the other what was changed since another one."""
    whole, beside = changed_entry
    stale = beside.read_bytes()
    edit(tree / "job-6.yaml", "name: job-6,", "name: job-66,")
    kept(["."], **ALL_NAMED)
    beside.write_bytes(stale)
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    edit(tree / "job-6.yaml", "name: job-66,", "name: job-6,")
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    whole.unlink()
    assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert made == [25, 1, 1, 1, 1, 25]


def test_changes_that_are_not_what_they_should_be_are_passed_over(
    tree: Path, changed_entry: tuple[Path, Path], made: list[int]
) -> None:
    _, beside = changed_entry
    line, _, texts = beside.read_bytes().partition(b"\n")[2].partition(b"\n")
    facts = json.loads(line)
    number, size = facts["texts"][0]
    for other in (
        *({**facts, "texts": texts} for texts in (None, [], [[9999, size]], [["0", size]], [[number]], [[number, 1]])),
        *({**facts, "keys": keys} for keys in (None, [[9999, "key"]], [["0", "key"]], [[0]])),
        {name: fact for name, fact in facts.items() if name != "inputs"},
        [facts],
    ):
        Store(str(beside.parent)).write(beside.name, [json.dumps(other).encode(), b"\n", texts])
        assert kept(["."], **ALL_NAMED) == in_one(["."], **ALL_NAMED)
    assert made == [25, 1, 1] + [1] * 12


def test_processes_that_write_changes_at_once(tree: Path, changed_entry: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "gpuctl", "render", "--namespaces", "."]
    edit(tree / "job-5.yaml", "app:v5", "app:v55")
    expected = "---\n".join(in_one(["."], **ALL_NAMED)[0])
    with contextlib.ExitStack() as stack:
        runs = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
            for _ in range(4)
        ]
        assert [each.communicate(timeout=120)[0] for each in runs] == [expected] * 4


# Where it is kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/proc/gpuctl", "a file", "relative"])
def test_without_a_place_nothing_is_kept(tree: Path, cache: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "a file":
        (tree.parent / "file").touch()
        place = str(tree.parent / "file")
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    monkeypatch.setenv("HOME", "/proc/nobody")
    assert kept(["."]) == in_one(["."])


def test_a_full_disk_is_no_error(tree: Path, cache: Path) -> None:
    code = (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from gpuctl.__main__ import main\nmain()"
    )
    command = [sys.executable, "-c", code, "render", "."]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "---\n".join(in_one(["."])[0])
    assert entries(cache) == []


def test_the_directory_stays_small(tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_FILES", 8)
    leftover = cache / "gpuctl" / "compile" / ".tmp-1-abc"
    kept(["job-0.yaml"])
    leftover.touch()
    os.utime(leftover, (0, 0))
    for number in range(1, 12):
        kept([f"job-{number}.yaml"])
        assert len(entries(cache)) <= 8
    assert not leftover.exists()
    before = entries(cache)
    kept(["job-11.yaml"])
    assert entries(cache) == before, "the last ones are those that stay"
    monkeypatch.setattr(store, "MOST_BYTES", 1)
    kept(["job-1.yaml"])
    assert entries(cache) == []


def test_many_processes_share_a_cache(tree: Path, cache: Path) -> None:
    expected = "---\n".join(in_one(["."])[0])
    command = [sys.executable, "-m", "gpuctl", "render", "."]
    with contextlib.ExitStack() as stack:
        runs = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
            for _ in range(6)
        ]
        assert [each.communicate(timeout=120)[0] for each in runs] == [expected] * 6
    assert [path.name.startswith(".") for path in entries(cache)] == [False]


def test_another_gpuctl_does_not_use_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "compiler" / "gpuctl", tmp_path / "gpuctl", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from gpuctl.incremental.fingerprint import fingerprint\nprint(fingerprint())"

    def fingerprint() -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    seen = [fingerprint()]
    assert fingerprint() == seen[0]
    rooms = (
        "compilation.py",
        "backend/pod.py",
        "language/job.py",
        "frontend/linker.py",
        "frontend/codes/value_codes.py",
    )
    for name in (*rooms, "backend/schemas/kubernetes-1.36.json"):
        path = tmp_path / "gpuctl" / name
        path.write_bytes(path.read_bytes().replace(b" ", b"\t", 1))
        seen.append(fingerprint())
    version = tmp_path / "gpuctl" / "release.py"
    version.write_text(version.read_text().replace(gpuctl.__version__, "0.1.1"))
    seen.append(fingerprint())
    assert len(set(seen)) == len(seen)
