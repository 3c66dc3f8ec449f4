"""Sets and their sources: writing and reading the parent Secret, and the messages of refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuctl import __version__
from gpuctl.apply.state import applyset
from gpuctl.apply.state.applyset import ApplySet, NotOurSet
from gpuctl.apply.state.provenance import source_mismatch, sources_of
from gpuctl.objects.api_resources import RESOURCES

SOURCES = applyset.SOURCES
MY_ID = "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"


def _object(kind: str, namespace: str | None = None, name: str = "x", **metadata: Any) -> dict[str, Any]:
    where = {} if namespace is None else {"namespace": namespace}
    return {
        "apiVersion": RESOURCES[kind].api_version,
        "kind": kind,
        "metadata": {"name": name, **where, **metadata},
    }


def _secret(
    annotations: Mapping[str, str | None] | None = None, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a valid parent of an empty set with these annotations (None: absent) and labels."""
    wanted = {applyset.TOOLING: "gpuctl/v0.1.0", applyset.GROUP_KINDS: "", **(annotations or {})}
    return _object(
        "Secret",
        "test",
        "my-set",
        labels={applyset.ID: MY_ID} if labels is None else labels,
        annotations={key: value for key, value in wanted.items() if value is not None},
    )


def _parse(secret: dict[str, Any]) -> ApplySet:
    return applyset.parse_parent(secret)


def _write(written: ApplySet, existing: dict[str, Any] | None = None) -> dict[str, Any]:
    return applyset.parent_object(written, existing=existing)


FULL_SET = ApplySet(
    "my-set", "test", frozenset({"Service", "Job.batch", "ConfigMap"}), frozenset({"b", "a"}), ("git:jobs", "stdin")
)


def test_set_id_follows_the_specification() -> None:
    """Every part of the parent's identity is part of the id, and an id is a valid label value."""
    assert applyset.set_id("my-set", "test") == MY_ID
    others = [("my-set", ""), ("my-set", "test", "ConfigMap"), ("my-set", "test", "Secret", "x.io"), ("other", "test")]
    ids = {MY_ID, *(applyset.set_id(*other) for other in others)}
    assert len(ids) == 5
    assert all(re.fullmatch(r"applyset-[A-Za-z0-9_-]{43}-v1", each) and len(each) <= 63 for each in ids)


def test_parent_of_a_new_set() -> None:
    assert _write(FULL_SET) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "my-set",
            "namespace": "test",
            "labels": {"applyset.kubernetes.io/id": MY_ID},
            "annotations": {
                "applyset.kubernetes.io/tooling": f"gpuctl/v{__version__}",
                "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Job.batch,Service",
                "applyset.kubernetes.io/additional-namespaces": "a,b",
                SOURCES: '["git:jobs", "stdin"]',
            },
        },
    }


def test_parent_of_a_set_in_one_namespace_has_no_additional_namespaces() -> None:
    """The parent's own namespace is not listed, and empty annotations are not written, except that of the kinds."""
    parent = _write(ApplySet("my-set", "test", frozenset(), frozenset({"test"})))
    assert parent["metadata"]["annotations"] == {applyset.TOOLING: applyset.OUR_TOOLING, applyset.GROUP_KINDS: ""}


def test_existing_parent_keeps_foreign_metadata() -> None:
    """Foreign metadata and the resourceVersion stay, removed entries of the set are deleted, and the argument is not
    changed.
    """
    existing = _secret(
        {
            "team": "vision",
            applyset.GROUP_KINDS: None,
            applyset.NAMESPACES: "gone",
            SOURCES: '["git:gone"]',
        },
        {"owner": "ann"},
    )
    existing["metadata"] |= {"resourceVersion": "7", "uid": "u", "managedFields": [{"manager": "x"}]}
    existing |= {"type": "Opaque", "data": {"k": "dg=="}}
    before = json.dumps(existing)
    assert _write(ApplySet("my-set", "test", frozenset({"Job.batch"})), existing) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "data": {"k": "dg=="},
        "metadata": {
            "name": "my-set",
            "namespace": "test",
            "resourceVersion": "7",
            "uid": "u",
            "labels": {"owner": "ann", applyset.ID: MY_ID},
            "annotations": {
                "team": "vision",
                applyset.TOOLING: applyset.OUR_TOOLING,
                applyset.GROUP_KINDS: "Job.batch",
            },
        },
    }
    assert json.dumps(existing) == before


def test_written_parent_is_read_back() -> None:
    assert _parse(_write(FULL_SET)) == FULL_SET
    empty = ApplySet("my-set", "test")
    assert _parse(_write(empty, _write(FULL_SET))) == empty


def test_own_namespace_is_removed_from_additional_namespaces() -> None:
    read = _parse(_secret({applyset.NAMESPACES: "test,other"}))
    assert read.namespaces == {"other"}
    assert read.all_namespaces == {"test", "other"}


def test_annotation_of_sources_does_not_use_the_platform_domain() -> None:
    assert SOURCES in _write(FULL_SET)["metadata"]["annotations"]
    assert _parse(_secret({"runwhere.ai/sources": '["git:jobs"]'})).sources == ()


@pytest.mark.parametrize("tooling", ["gpuctl/v0.0.1", "gpuctl/v99.1.0-rc.1+build", "gpuctl"])
def test_set_of_another_gpuctl_version_is_accepted(tooling: str) -> None:
    assert _parse(_secret({applyset.TOOLING: tooling})).tooling == tooling


@pytest.mark.parametrize(
    ("tooling", "shown"),
    [
        ("kubectl/v1.36.3", "kubectl/v1.36.3"),
        ("acme/gpuctl/v1", "acme/gpuctl/v1"),
        ("gpuctl/fork/v1", "gpuctl/fork/v1"),
        ("kpt", "kpt"),
        ("\x1b[31mx/v1", "\\x1b[31mx/v1"),
    ],
)
def test_set_of_another_tool_is_refused(tooling: str, shown: str) -> None:
    """The tool's name is the text before the last slash, as for kubectl."""
    secret = _secret({applyset.TOOLING: tooling})
    with pytest.raises(NotOurSet) as caught:
        _parse(secret)
    assert str(caught.value) == f"the set my-set is managed by {shown}; gpuctl manages only its own sets"


@pytest.mark.parametrize(
    ("annotations", "labels", "message"),
    [
        ({applyset.TOOLING: None}, {}, "secret/my-set in test exists and is not the parent of a set"),
        (
            {applyset.TOOLING: None},
            None,
            "secret/my-set in test is damaged as the parent of a set: it lacks metadata.annotations[applyset.kubernetes.io/tooling]",
        ),
        (
            {},
            {},
            "secret/my-set in test is damaged as the parent of a set: it lacks metadata.labels[applyset.kubernetes.io/id]",
        ),
        (
            {},
            {applyset.ID: "applyset-x-v1"},
            f"secret/my-set in test has another set's id: the label applyset.kubernetes.io/id is applyset-x-v1, and for this name and namespace it is {MY_ID}",
        ),
        (
            {applyset.GROUP_KINDS: None},
            None,
            "secret/my-set in test is damaged as the parent of a set: it lacks metadata.annotations[applyset.kubernetes.io/contains-group-kinds]",
        ),
    ],
)
def test_secret_that_is_not_a_set_parent_is_refused(
    annotations: dict[str, str | None], labels: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(NotOurSet) as caught:
        _parse(_secret(annotations, labels))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "text", "shown"),
    [
        (applyset.GROUP_KINDS, "Job.batch,,Service", "an empty entry"),
        (applyset.GROUP_KINDS, "Job.batch, Service", " Service"),
        (applyset.GROUP_KINDS, "Job.", "Job."),
        (applyset.GROUP_KINDS, "Job.batch\n", "Job.batch\\n"),
        (applyset.NAMESPACES, "a,", "an empty entry"),
        (applyset.NAMESPACES, "Team_A", "Team_A"),
        (SOURCES, "git:jobs", "git:jobs"),
        (SOURCES, '{"git:jobs": 1}', '{"git:jobs": 1}'),
        (SOURCES, "[1]", "[1]"),
        (SOURCES, "[" * 200_000, "[" * 80),
    ],
)
def test_damaged_annotations_are_refused(key: str, text: str, shown: str) -> None:
    with pytest.raises(NotOurSet) as caught:
        _parse(_secret({key: text}))
    assert str(caught.value) == f"secret/my-set in test is damaged: cannot read {shown} in its annotation {key}"


def test_exact_set_has_the_kinds_and_namespaces_of_its_objects() -> None:
    """Cluster-scoped objects add their kind and no namespace; an object without a namespace is in the parent's."""
    objects = [
        _object("Job", "test"),
        _object("Service", "other"),
        _object("ConfigMap"),
        _object("PriorityClass", "never"),
        {"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x", "namespace": "third"}},
    ]
    assert applyset.exact_set("my-set", "test", objects, ("git:jobs",)) == ApplySet(
        "my-set",
        "test",
        frozenset({"Job.batch", "Service", "ConfigMap", "PriorityClass.scheduling.k8s.io", "Unknown.example.com"}),
        frozenset({"other", "third"}),
        ("git:jobs",),
        applyset.OUR_TOOLING,
    )


def test_superset_has_the_kinds_and_namespaces_of_both_sets() -> None:
    """Its tooling is this version of gpuctl."""
    before = FULL_SET._replace(tooling="gpuctl/v0.0.1")
    after = applyset.exact_set(
        "my-set", "test", [_object("Deployment", "c"), _object("Job", "a")], ("git:new", "stdin")
    )
    assert applyset.superset(before, after) == ApplySet(
        "my-set",
        "test",
        frozenset({"Service", "Job.batch", "ConfigMap", "Deployment.apps"}),
        frozenset({"a", "b", "c"}),
        ("git:jobs", "git:new", "stdin"),
        applyset.OUR_TOOLING,
    )
    assert applyset.superset(None, after) == after


def test_resources_of_a_set_follow_its_kinds() -> None:
    assert applyset.resources_of(FULL_SET) == (RESOURCES["ConfigMap"], RESOURCES["Job"], RESOURCES["Service"])


def test_unknown_kind_is_kept_and_named_in_the_error() -> None:
    """Reading and the superset keep it. Listing fails, because the exact set would lose it."""
    annotations = {applyset.GROUP_KINDS: "Job.batch,Widget.x.io,Job.x.io", applyset.TOOLING: "gpuctl/v9.0.0"}
    read = _parse(_secret(annotations))
    assert "Widget.x.io" in applyset.superset(read, FULL_SET).group_kinds
    with pytest.raises(NotOurSet) as caught:
        applyset.resources_of(read)
    message = f"the set my-set contains kinds that gpuctl {__version__} does not support: Job.x.io, Widget.x.io"
    assert (caught.value.message, caught.value.hint) == (message, "it was written by gpuctl/v9.0.0")


def test_group_kind_of_objects_and_resources_agree() -> None:
    for kind, resource in RESOURCES.items():
        assert applyset.group_kind(_object(kind)) == applyset.group_kind(resource)
    assert applyset.group_kind(_object("Service")) == "Service"
    assert applyset.group_kind(_object("Job")) == "Job.batch"


def _git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _repository(root: Path, remote: str | None = "https://git.example.com/team/jobs.git") -> Path:
    (root / "teams" / "vision").mkdir(parents=True)
    _git(root, "init", "-q")
    if remote is not None:
        _git(root, "remote", "add", "origin", remote)
    return root


def _with_commit(root: Path) -> Path:
    _git(root, "commit", "-q", "--allow-empty", "-m", root.name)
    return root


MACHINE = os.uname().nodename
REPOSITORY_ID = "git:git.example.com/team/jobs//"


def test_checkouts_of_one_repository_have_the_same_sources(tmp_path: Path) -> None:
    """Inputs may be relative to the root or to a subdirectory, absolute, or named through a link."""
    first = _repository(tmp_path / "first")
    second = _repository(tmp_path / "deep" / "second", "git@git.example.com:team/jobs.git")
    (tmp_path / "link").symlink_to(first)
    expected = (f"{REPOSITORY_ID}.", f"{REPOSITORY_ID}teams/vision/a.yaml")
    assert sources_of(["teams/vision/a.yaml", "."], first) == expected
    assert sources_of([str(second / "teams/vision/../vision/a.yaml"), f"{second}/"], tmp_path) == expected
    assert sources_of(["a.yaml", "../.."], second / "teams" / "vision") == expected
    assert sources_of(["link/teams/vision/a.yaml", "link"], tmp_path) == expected


@pytest.mark.parametrize(
    "remote",
    [
        "https://git.example.com/team/jobs.git",
        "https://git.example.com/team/jobs",
        "https://GIT.example.com:8443/team/jobs/",
        "https://oauth2:glpat-secret@git.example.com/team/jobs.git?private_token=x#y",
        "http://git.example.com//team/./jobs.git",
        "git@git.example.com:team/jobs.git",
        "git@git.example.com:/team/jobs",
        "git.example.com:team/jobs",
        "ssh://git@git.example.com/team/jobs.git",
        "ssh://alice@git.example.com:2222/team/jobs.git/",
        "git+ssh://git@git.example.com/team/jobs",
        "git://git.example.com/team/jobs.git",
        "https://git.example.com/scm/team/jobs.git",
        "https://git.example.com/te%61m/jobs",
    ],
)
def test_remote_urls_of_one_repository_give_one_source(remote: str, tmp_path: Path) -> None:
    assert sources_of(["a"], _repository(tmp_path / "r", remote)) == (f"{REPOSITORY_ID}a",)


@pytest.mark.parametrize(
    ("remotes", "name"),
    [
        (("https://github.com/org/jobs", "ssh://git@ssh.github.com:443/org/jobs.git"), "github.com/org/jobs"),
        (("https://org@dev.azure.com/org/p/_git/r", "git@ssh.dev.azure.com:v3/org/p/r"), "dev.azure.com/org/p/r"),
        (("ssh://git@[::1]:2222/org/jobs", "git@[::1]:org/jobs"), "[::1]/org/jobs"),
        (("../upstream.git", "{above}/upstream.git", "file://{above}/upstream.git"), MACHINE + ":{above}/upstream"),
    ],
)
def test_equivalent_remotes_of_hosting_services_give_one_source(
    remotes: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    above = os.path.realpath(tmp_path)
    for number, remote in enumerate(remotes):
        root = _repository(tmp_path / str(number), remote.format(above=above))
        assert sources_of(["."], root) == (f"git:{name.format(above=above)}//.",)


def test_repositories_with_the_same_paths_are_different_sources(tmp_path: Path) -> None:
    remotes = ["https://github.com/a/jobs", "https://github.com/b/jobs", "https://gitlab.com/a/jobs", "../x", None]
    roots = [_with_commit(_repository(tmp_path / f"{number}", remote)) for number, remote in enumerate(remotes)]
    roots += [_repository(tmp_path / "new", None), tmp_path / "none"]
    assert len({sources_of(["jobs"], root) for root in roots}) == len(roots)
    assert len({sources_of(["-"], root) for root in roots[:5]}) == 5


def test_repository_without_remote_is_identified_by_its_first_commit(tmp_path: Path) -> None:
    root = _repository(tmp_path / "root", None)
    real = os.path.realpath(root)
    assert sources_of(["a"], root) == (f"file://{MACHINE}{real}/a",)
    first = _git(_with_commit(root), "rev-parse", "HEAD")
    for _ in range(2):
        _with_commit(root)
        assert sources_of(["a"], root) == (f"git:{first}//a",)
    copy = tmp_path / "copy"
    _git(tmp_path, "clone", "-q", str(root), str(copy))
    _git(copy, "remote", "rename", "origin", "upstream")
    assert sources_of(["a"], copy) == (f"git:{MACHINE}:{real}//a",), "a single remote is used whatever its name"
    _git(copy, "remote", "remove", "upstream")
    assert sources_of(["a"], copy) == (f"git:{first}//a",)
    _git(tmp_path, "clone", "-q", "--depth=1", f"file://{root}", str(tmp_path / "shallow"))
    _git(tmp_path / "shallow", "remote", "remove", "origin")
    assert sources_of(["a"], tmp_path / "shallow") == (f"file://{MACHINE}{os.path.realpath(tmp_path)}/shallow/a",)


def test_remote_is_read_without_the_git_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _repository(tmp_path / "root")
    bare = _with_commit(_repository(tmp_path / "bare", None))
    monkeypatch.setenv("PATH", "")
    assert sources_of(["a"], root) == (f"{REPOSITORY_ID}a",)
    assert sources_of(["a"], bare) == (f"file://{MACHINE}{os.path.realpath(bare)}/a",)


def test_work_trees_and_submodules_have_their_own_sources(tmp_path: Path) -> None:
    """In both ``.git`` is a file; a submodule is a repository of its own."""
    root = _with_commit(_repository(tmp_path / "root"))
    _git(root, "worktree", "add", "-q", str(root / "inner"))
    assert (root / "inner" / ".git").is_file()
    assert sources_of(["inner/jobs/a.yaml"], root) == (f"{REPOSITORY_ID}jobs/a.yaml",)
    library = _with_commit(_repository(tmp_path / "library"))
    _git(root, "submodule", "add", "-q", str(library), "part")
    assert (root / "part" / ".git").is_file()
    assert sources_of(["part/a.yaml"], root) == (f"git:{MACHINE}:{os.path.realpath(library)}//a.yaml",)


@pytest.mark.parametrize("text", ["", "gitdir: /nowhere\n", "\0\xff", "[remote", "gitdir: \0"])
def test_damaged_repository_is_treated_as_plain_directory(text: str, tmp_path: Path) -> None:
    (tmp_path / ".git").write_text(text)
    assert sources_of(["a"], tmp_path) == (f"file://{MACHINE}{os.path.realpath(tmp_path)}/a",)


def test_git_configuration_is_parsed_like_git(tmp_path: Path) -> None:
    root = _repository(tmp_path / "root", None)
    (root / ".git" / "config").write_text(
        '[core]\n\turl = https://wrong.example.com/x\n[remote "other"]\n\turl = https://other.example.com/x\n'
        '# [remote "origin"]\n[Remote "origin"] URL = "https://git.example.com/team/jobs" ; comment\n'
        "\turl = https://second.example.com/x\n\tpushurl = https://wrong.example.com/x\n"
    )
    assert _git(root, "config", "--get-all", "remote.origin.url").splitlines()[0] == "https://git.example.com/team/jobs"
    assert sources_of(["a"], root) == (f"{REPOSITORY_ID}a",)


def test_sources_outside_git_are_absolute_paths_with_the_host(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real = os.path.realpath(tmp_path)
    assert sources_of(["link/b.yaml", "real/a.yaml", "./real/b.yaml"], tmp_path) == (
        f"file://{MACHINE}{real}/real/a.yaml",
        f"file://{MACHINE}{real}/real/b.yaml",
    )


def test_standard_input_is_identified_by_the_working_directory(tmp_path: Path) -> None:
    root = _repository(tmp_path / "root")
    os.mkfifo(tmp_path / "pipe")
    assert sources_of(["-", "../pipe", "/dev/null", "-"], root) == ("stdin:git:git.example.com/team/jobs",)
    assert sources_of(["-"], root / "teams") == ("stdin:git:git.example.com/team/jobs",)
    assert sources_of(["-"], tmp_path) == (f"stdin:file://{MACHINE}",)
    assert sources_of([], tmp_path) == ()


def test_set_without_recorded_sources_requires_allow_source() -> None:
    assert source_mismatch((), ("git:a",)) == (
        "the set does not record its sources: add `--allow-source` if they are the sources of this run"
    )


def test_mismatch_explains_paths_of_another_machine() -> None:
    why = source_mismatch(("file://laptop/jobs",), ("file://runner-7/jobs",))
    assert why is not None
    assert "(outside of a git repository with a remote or a commit, a path is valid on one machine only)" in why


@pytest.mark.parametrize(
    ("remembered", "given"),
    [(("git:a",), ("git:a",)), (("git:a", "git:b"), ("git:b", "git:a", "git:a"))],
)
def test_same_sources_are_allowed(remembered: tuple[str, ...], given: tuple[str, ...]) -> None:
    assert source_mismatch(remembered, given) is None


@pytest.mark.parametrize(
    ("remembered", "given", "difference"),
    [
        (("git:a",), ("git:b",), "came from git:a, and this run gives git:b instead"),
        (("git:a", "git:b"), ("git:a",), "came from git:b too, which this run leaves out"),
        (("git:a",), (), "came from git:a too, which this run leaves out"),
        (("git:a",), ("git:a", "stdin"), "did not come from stdin, which this run adds"),
        (
            ("git:a", "git:b", "git:c"),
            ("git:d", "git:e", "git:f", "git:g", "git:h"),
            "came from git:a, git:b and git:c, and this run gives git:d, git:e, git:f and 2 more instead",
        ),
        (("text:jobs/a",), ("text:jobs",), "came from text:jobs/a, and this run gives text:jobs instead"),
        (("stdin:git:x/a",), ("stdin:git:x",), "came from stdin:git:x/a, and this run gives stdin:git:x instead"),
        (("git:\x1b[2J\udc80",), (), "came from git:\\x1b[2J\\udc80 too, which this run leaves out"),
    ],
)
def test_other_sources_are_refused(remembered: tuple[str, ...], given: tuple[str, ...], difference: str) -> None:
    sentence = f"the set {difference}: give the same sources, or `--allow-source` if this is intended"
    assert source_mismatch(remembered, given) == sentence


def test_any_file_name_is_kept_in_an_ascii_annotation() -> None:
    """Chinese names and bytes that are not UTF-8."""
    odd = FULL_SET._replace(sources=("git:训练/a.yaml", "git:\udcff"))
    parent = _write(odd)
    assert parent["metadata"]["annotations"][SOURCES].isascii()
    assert _parse(parent) == odd


REPOSITORY = "git:git.example.com/team/repo//"


@pytest.mark.parametrize(
    ("remembered", "given"),
    [
        (["jobs/a.yaml", "jobs/b"], ["jobs"]),
        (["jobs/a"], ["."]),
        (["jobs/a", "pools.yaml"], ["jobs", "pools.yaml"]),
        (["jobs/a", "lib/b"], ["jobs", "lib"]),
    ],
)
def test_parent_directories_of_the_sources_are_allowed(remembered: list[str], given: list[str]) -> None:
    def full(paths: list[str]) -> list[str]:
        return [REPOSITORY + path for path in paths]

    assert source_mismatch(full(remembered), full(given)) is None
    assert source_mismatch(full(given), full(remembered)) is not None
    assert source_mismatch(full(remembered), [*full(given), REPOSITORY + "others"]) is not None
    assert source_mismatch(full(remembered), [path.replace("/team/", "/other/") for path in full(given)]) is not None
