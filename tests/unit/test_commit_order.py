"""The check that documents are not older than the commit that their set was last applied from."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.apply.plan.apply_request import SetOptions
from gpuctl.apply.plan.plan import Refused
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.plan.set_run import SetRun, _order_of_commits
from gpuctl.apply.state.applyset import NotOurSet, exact_set, parent_object, parse_parent, superset
from gpuctl.apply.state.git_repository import Checkout, Commit, commit_of, compare_commits
from support.repositories import Repository


def commit(repository: Repository, text: str) -> str:
    repository.write("a.yaml", text)
    return repository.commit()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with the commits one, two and three."""
    made = Repository(tmp_path / "origin")
    for text in ("one", "two", "three"):
        commit(made, text)
    return made


def checkout(repository: Repository, revision: str = "HEAD") -> Checkout:
    repository.git("checkout", "-q", revision)
    found = commit_of(repository.root, [repository.root / "a.yaml"])
    assert found is not None
    return Checkout(repository.root, found)


def options(found: Checkout | None, *, prune: bool = False) -> SetOptions:
    return SetOptions("nlp", ("git:a//b",), PlanOptions(set_name="all", prune=prune), found)


def test_ancestor_commit_is_refused(repository: Repository) -> None:
    newest = checkout(repository).commit
    for revision in ("main~1", "main~2"):
        older = checkout(repository, revision)
        assert compare_commits(older, newest.id).is_older
        with pytest.raises(Refused, match="is an ancestor of it: check out the newer commit, or add `--allow-older`"):
            _order_of_commits(options(older), newest)


def test_ancestor_commit_with_changed_files_is_refused(repository: Repository) -> None:
    newest = checkout(repository).commit
    older = checkout(repository, "main~1")
    repository.write("a.yaml", "changed")
    dirty = commit_of(repository.root, [repository.root / "a.yaml"])
    assert dirty is not None
    assert dirty.dirty
    with pytest.raises(Refused):
        _order_of_commits(options(older._replace(commit=dirty)), newest)


@pytest.mark.parametrize("what", ["the same", "newer", "reverted", "another branch", "merged"])
def test_commits_that_are_not_ancestors_are_accepted(repository: Repository, what: str) -> None:
    recorded = checkout(repository, "main~1").commit if what == "newer" else checkout(repository).commit
    repository.git("checkout", "-q", "main")
    if what == "reverted":
        repository.git("revert", "--no-edit", "HEAD")
    elif what == "another branch":
        repository.git("checkout", "-q", "-b", "other", "main~1")
        commit(repository, "other")
    elif what == "merged":
        repository.git("checkout", "-q", "-b", "side", "main~1")
        repository.write("b.yaml", "b")
        repository.commit()
        repository.git("merge", "-q", "--no-edit", "main")
    assert _order_of_commits(options(checkout(repository)), recorded) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_missing_history_of_a_shallow_clone_is_noted(repository: Repository, tmp_path: Path, depth: int) -> None:
    """If the clone has the commits between, an ancestor is refused there too."""
    newest, older = checkout(repository).commit, repository.git("rev-parse", "main~2").strip()
    repository.git("clone", "-q", f"--depth={depth}", f"file://{repository.root}", str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    here = checkout(clone)
    recorded = Commit(older, False, here.commit.repository)
    (note,) = _order_of_commits(options(here), recorded)
    assert "this clone is shallow, `git fetch --unshallow` completes it" in note
    clone.git("fetch", "-q", "--unshallow")
    assert _order_of_commits(options(here), recorded) == []
    if depth == 2:
        with pytest.raises(Refused):
            _order_of_commits(options(checkout(clone, "HEAD~1")), Commit(newest.id, False, here.commit.repository))


def test_unknown_commits_are_noted(repository: Repository) -> None:
    """A commit that was not fetched, no git, or documents without a commit. Another repository is checked with the
    sources.
    """
    here = checkout(repository)
    (note,) = _order_of_commits(options(here), Commit("0" * 40, False, here.commit.repository))
    assert "this clone does not have that commit, `git fetch` gets new ones" in note
    (note,) = _order_of_commits(options(None), here.commit)
    assert "its documents are of no single commit, or git does not read their directory" in note
    assert _order_of_commits(options(here), here.commit._replace(repository="elsewhere/repo")) == []


def test_set_records_its_commit_at_the_end_of_a_run(repository: Repository) -> None:
    """Before the end, members may still be of the old commit. A run without a commit keeps the recorded one."""
    one, two = Commit("1" * 40, False, "a"), Commit("2" * 40, True, "a")
    recorded = exact_set("all", "nlp", [], ("git:a//b",))._replace(commit=one)
    secret = parent_object(recorded, existing=None)
    assert parse_parent(secret).commit == one
    for prune in (True, False):
        run = SetRun(options(Checkout(repository.root, two), prune=prune), secret, recorded)
        run.wanted = exact_set("all", "nlp", [], ("git:a//b",))
        assert run.superset.commit == one
        assert run.final.commit == two
        run.options = options(None, prune=prune)
        assert run.final.commit == one
    assert superset(None, recorded).commit == one
    secret["metadata"]["annotations"]["gpuctl/commit"] = '{"id": "--upload-pack=x"}'
    with pytest.raises(NotOurSet, match="damaged"):
        parse_parent(secret)
