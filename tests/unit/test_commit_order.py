"""The check that documents are not older than the commit that their set was last applied from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpuctl.apply.plan.apply_request import SetOptions
from gpuctl.apply.plan.plan import Refused
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.plan.set_run import SetRun, _order_of_commits
from gpuctl.apply.state.applyset import NotOurSet, exact_set, parent_object, parse_parent, superset
from gpuctl.apply.state.git_repository import Checkout, Commit, commit_of, compare_commits


def git(root: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(root), *own, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root: Path, text: str) -> str:
    (root / "a.yaml").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", text)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with the commits one, two and three."""
    path = tmp_path / "origin"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for text in ("one", "two", "three"):
        commit(path, text)
    return path


def checkout(root: Path, revision: str = "HEAD") -> Checkout:
    git(root, "checkout", "-q", revision)
    found = commit_of(root, [root / "a.yaml"])
    assert found is not None
    return Checkout(root, found)


def options(found: Checkout | None, *, prune: bool = False) -> SetOptions:
    return SetOptions("nlp", ("git:a//b",), PlanOptions(set_name="all", prune=prune), found)


def test_ancestor_commit_is_refused(root: Path) -> None:
    newest = checkout(root).commit
    for revision in ("main~1", "main~2"):
        older = checkout(root, revision)
        assert compare_commits(older, newest.id).is_older
        with pytest.raises(Refused, match="is an ancestor of it: check out the newer commit, or add `--allow-older`"):
            _order_of_commits(options(older), newest)


def test_ancestor_commit_with_changed_files_is_refused(root: Path) -> None:
    newest = checkout(root).commit
    older = checkout(root, "main~1")
    (root / "a.yaml").write_text("changed")
    dirty = commit_of(root, [root / "a.yaml"])
    assert dirty is not None
    assert dirty.dirty
    with pytest.raises(Refused):
        _order_of_commits(options(older._replace(commit=dirty)), newest)


@pytest.mark.parametrize("what", ["the same", "newer", "reverted", "another branch", "merged"])
def test_commits_that_are_not_ancestors_are_accepted(root: Path, what: str) -> None:
    recorded = checkout(root, "main~1").commit if what == "newer" else checkout(root).commit
    git(root, "checkout", "-q", "main")
    if what == "reverted":
        git(root, "revert", "--no-edit", "HEAD")
    elif what == "another branch":
        git(root, "checkout", "-q", "-b", "other", "main~1")
        commit(root, "other")
    elif what == "merged":
        git(root, "checkout", "-q", "-b", "side", "main~1")
        (root / "b.yaml").write_text("b")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "b")
        git(root, "merge", "-q", "--no-edit", "main")
    assert _order_of_commits(options(checkout(root)), recorded) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_missing_history_of_a_shallow_clone_is_noted(root: Path, tmp_path: Path, depth: int) -> None:
    """If the clone has the commits between, an ancestor is refused there too."""
    newest, older = checkout(root).commit, git(root, "rev-parse", "main~2")
    git(tmp_path, "clone", "-q", f"--depth={depth}", f"file://{root}", "clone")
    here = checkout(tmp_path / "clone")
    recorded = Commit(older, False, here.commit.repository)
    (note,) = _order_of_commits(options(here), recorded)
    assert "this clone is shallow, `git fetch --unshallow` completes it" in note
    git(tmp_path / "clone", "fetch", "-q", "--unshallow")
    assert _order_of_commits(options(here), recorded) == []
    if depth == 2:
        with pytest.raises(Refused):
            _order_of_commits(
                options(checkout(tmp_path / "clone", "HEAD~1")), Commit(newest.id, False, here.commit.repository)
            )


def test_unknown_commits_are_noted(root: Path) -> None:
    """A commit that was not fetched, no git, or documents without a commit. Another repository is checked with the
    sources.
    """
    here = checkout(root)
    (note,) = _order_of_commits(options(here), Commit("0" * 40, False, here.commit.repository))
    assert "this clone does not have that commit, `git fetch` gets new ones" in note
    (note,) = _order_of_commits(options(None), here.commit)
    assert "its documents are of no single commit, or git does not read their directory" in note
    assert _order_of_commits(options(here), here.commit._replace(repository="elsewhere/repo")) == []


def test_set_records_its_commit_at_the_end_of_a_run(root: Path) -> None:
    """Before the end, members may still be of the old commit. A run without a commit keeps the recorded one."""
    one, two = Commit("1" * 40, False, "a"), Commit("2" * 40, True, "a")
    recorded = exact_set("all", "nlp", [], ("git:a//b",))._replace(commit=one)
    secret = parent_object(recorded, existing=None)
    assert parse_parent(secret).commit == one
    for prune in (True, False):
        run = SetRun(options(Checkout(root, two), prune=prune), secret, recorded)
        run.wanted = exact_set("all", "nlp", [], ("git:a//b",))
        assert run.superset.commit == one
        assert run.final.commit == two
        run.options = options(None, prune=prune)
        assert run.final.commit == one
    assert superset(None, recorded).commit == one
    secret["metadata"]["annotations"]["gpuctl/commit"] = '{"id": "--upload-pack=x"}'
    with pytest.raises(NotOurSet, match="damaged"):
        parse_parent(secret)
