"""``gpuctl build`` after an upgrade that lowers trainings differently: which files it keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuctl.backend import training_objects as lowering
from gpuctl.backend.canonical_form import _APART
from gpuctl.compilation import compile
from gpuctl.frontend.source import Source
from gpuctl.gitops.manifest import MANIFEST, digest
from gpuctl.language.platform_document import PlatformDocument
from gpuctl.objects import hashed_names
from support.repositories import Outcome, Repository, training

BUILD = ("build", "jobs", "-o", "rendered", "--gitops", "argocd")
KEPT = "kept: training a in nlp: rendered by another version of gpuctl; --relower renders it again\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with the documents of two trainings."""
    found = Repository(tmp_path / "repository")
    found.write("jobs/a.yaml", training("a"))
    found.write("jobs/b.yaml", training("b"))
    return found


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that replaces gpuctl by a version that lowers the pods of trainings differently."""

    def call() -> None:
        before = lowering._template

        def template(*arguments: Any) -> dict[str, Any]:
            result: dict[str, Any] = before(*arguments)
            result["spec"]["terminationGracePeriodSeconds"] = 31
            return result

        monkeypatch.setattr(lowering, "_template", template)

    return call


def build_and_commit(repository: Repository, *options: str) -> str:
    """Build and commit; return the commit."""
    found = repository.gpuctl(*BUILD, *options)
    assert found.code == 0, found.err
    return repository.commit()


def rendered(repository: Repository) -> dict[str, bytes]:
    root = repository.root / "rendered"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def workload_file(repository: Repository, name: str) -> Path:
    (found,) = (repository.root / "rendered/nlp").glob(f"job*-{name}-??????.yaml")
    return found


def run_check(repository: Repository, *options: str) -> Outcome:
    return repository.gpuctl(*BUILD, "--check", *options)


FORMS = {
    "one node": ("", "", ()),
    "a headless Service": (", nodes: 2", "", ()),
    "a hostfile": (", nodes: 2", "deepspeed", ()),
    "a JobSet": (", nodes: 2", "jobset", ()),
    "Flux": ("", "", ("--gitops", "flux")),
    "embedded": ("", "", ("--embed",)),
    "Kustomize": ("", "", ("--kustomization",)),
}


@pytest.mark.parametrize("form", FORMS)
def test_upgrade_keeps_trainings_rendered_at_the_base(
    repository: Repository, upgrade: Callable[[], None], form: str
) -> None:
    resources, how, options = FORMS[form]
    text = training("a", resources=resources)
    if how == "deepspeed":
        text = text.replace('"python", "train.py"', 'deepspeed, --no_ssh, "--node_rank=$(NODE_RANK)", train.py')
    if how == "jobset":
        repository.write("platform.yaml", "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n")
    repository.write("jobs/a.yaml", text)
    repository.remove("jobs/b.yaml")
    base = build_and_commit(repository, *options)
    before = rendered(repository)
    upgrade()
    found = repository.gpuctl(*BUILD, *options, "--base", base)
    assert (found.code, found.out) == (0, f"{KEPT}rendered: {len(before) - 1} unchanged\n"), found.err
    assert rendered(repository) == before
    checked = run_check(repository, *options, "--base", base)
    assert (checked.code, checked.out) == (0, f"{KEPT}rendered is up to date\n")
    anew = repository.gpuctl(*BUILD, *options, "--relower")
    assert "starts anew: training a in nlp: " in anew.out
    assert workload_file(repository, "a").name not in {Path(path).name for path in before}
    # Manifests that were rendered again pass the same check.
    assert run_check(repository, *options, "--base", base).out == "rendered is up to date\n"


def test_upgrade_that_changes_only_the_hash_is_the_reason(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("jobs/a.yaml", training("a", resources=", queue: team"))
    with monkeypatch.context() as before:
        before.setattr(hashed_names, "fixed_labels", lambda workload: {})
        build_and_commit(repository)
    anew = repository.gpuctl(*BUILD, "--relower")
    assert "starts anew: training a in nlp: rendered differently by this version of gpuctl\n" in anew.out


@pytest.mark.parametrize("number", [1, 5])
def test_build_without_a_base_refuses_to_restart_trainings(
    repository: Repository, upgrade: Callable[[], None], number: int
) -> None:
    for at in range(number - 2):
        repository.write(f"jobs/more-{at}.yaml", training(f"more-{at}"))
    build_and_commit(repository)
    before = rendered(repository)
    upgrade()
    found = repository.gpuctl(*BUILD)
    assert (found.code, found.out) == (1, "")
    assert "error: training a in nlp, training b in nlp" in found.err
    assert ("2 more: " in found.err) == (number == 5)
    assert "`--base origin/main`" in found.err
    assert rendered(repository) == before
    checked = run_check(repository)
    assert checked.code == 1
    assert "note: training a in nlp, training b in nlp" in checked.err


def test_only_the_changed_training_is_rendered_again(repository: Repository, upgrade: Callable[[], None]) -> None:
    base = build_and_commit(repository)
    upgrade()
    repository.write("jobs/b.yaml", training("b", gpu=2))
    kept, changed = workload_file(repository, "a"), workload_file(repository, "b")
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.out.startswith(KEPT)
    assert "starts anew: training b in nlp: " in found.out
    assert kept.exists()
    assert not changed.exists()
    assert run_check(repository, "--base", base).code == 0


@pytest.mark.parametrize(
    ("platform", "is_kept"),
    [
        ("prices: {a100: 2}", True),
        ("drift: {ignore: [{kind: Job, path: spec}]}", True),
        ("kubernetes: {version: '1.35'}", True),
        ("gitops: argocd", True),
        ("image: {registries: [registry.example.com]}", False),
        ("priorities: {medium: {className: other}}", False),
        ("defaults: {training: {environment: {env: {A: b}}}}", False),
    ],
)
def test_platform_fields_decide_whether_a_training_is_kept(
    repository: Repository, upgrade: Callable[[], None], platform: str, is_kept: bool
) -> None:
    base = build_and_commit(repository)
    upgrade()
    repository.write("platform.yaml", f"kind: platform\nversion: v0.1\n{platform}\n")
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.code == 0, found.err
    assert (KEPT in found.out) == is_kept


def test_platform_fields_outside_the_digest_do_not_change_trainings() -> None:
    """Each field outside the digest, with a value that is not its default."""
    values = {
        "kubernetes": "{version: '1.35'}",
        "clusters": "{prod: {server: 'https://api.example.com:6443'}}",
        "strategy": "rolling",
        "drift": "{ignore: [{kind: Job, path: spec}]}",
        "prometheus": "'http://prometheus:9090'",
        "prices": "{a100: 2}",
        "usage": "{}",
        "quota": "{}",
    }
    assert values.keys() | {"kind", "version", "gitops"} == _APART
    assert PlatformDocument.model_fields.keys() > _APART

    def lowered(platform: str) -> list[Any]:
        text = f"kind: platform\nversion: v0.1\n{platform}"
        found = compile(Source("a.yaml", training("a")), platform=Source("platform.yaml", text), job_names="hashed")
        assert found.ok, found.diagnostics
        return found.objects

    plain = lowered("")
    for name, value in values.items():
        assert lowered(f"{name}: {value}\n") == plain, name
    assert lowered("image: {pullSecret: s}\n") != plain


def tampered_files(repository: Repository, name: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield changes of rendered files that a pull request can make, by title; empty data deletes a file."""
    main = workload_file(repository, name)
    path = f"nlp/{main.name}"
    data = main.read_bytes()
    for title, changed in {
        "another image": data.replace(b"train:v1", b"evil:v1"),
        "privileged": data.replace(b"restartPolicy: Never", b"restartPolicy: Never\n      hostNetwork: true"),
        "a comment": b"# harmless\n" + data,
    }.items():
        yield title, {path: changed}
    other = path.replace(main.stem[-6:], "000000")
    yield "another hash", {path: b"", other: data.replace(main.stem[-6:].encode(), b"000000")}


@pytest.mark.parametrize("case", ["another image", "privileged", "a comment", "another hash"])
@pytest.mark.parametrize("is_upgraded", [False, True], ids=["the same version", "an upgrade"])
def test_tampered_manifest_in_a_pull_request_is_rejected(
    repository: Repository, upgrade: Callable[[], None], case: str, is_upgraded: bool
) -> None:
    """It is rejected even if the manifest lists the right hash and the digest of the input."""
    base = build_and_commit(repository)
    changed = dict(tampered_files(repository, "a"))[case]
    if is_upgraded:
        upgrade()
    manifest = repository.root / "rendered" / MANIFEST
    lines = manifest.read_text().splitlines()
    entry = next(json.loads(line) for line in lines if "nlp/job-a-" in line)
    lines = [line for line in lines if "nlp/job-a-" not in line]
    for path, data in changed.items():
        if data:
            repository.write(f"rendered/{path}", data)
            lines.append(json.dumps({**entry, "path": path, "sha256": digest(data)}))
        else:
            repository.remove(f"rendered/{path}")
    manifest.write_text("\n".join(lines) + "\n")
    repository.commit()
    for options in ((), ("--base", base), ("--base", base, "--kustomization")):
        found = run_check(repository, *options)
        assert found.code == 1, found.out
        assert "kept: training a " not in found.out
    done = repository.gpuctl(*BUILD, "--base", base)
    assert done.code == 0, done.err
    assert not any(data in rendered(repository).values() for data in changed.values() if data)
    assert run_check(repository, "--base", base).code == 0


@pytest.mark.parametrize("is_shown", [False, True])
def test_removed_service_of_a_training_is_rejected(
    repository: Repository, upgrade: Callable[[], None], is_shown: bool
) -> None:
    """The headless Service, by which the pods find each other; with its line in the manifest, and without."""
    repository.write("jobs/a.yaml", training("a", resources=", nodes: 2"))
    base = build_and_commit(repository)
    upgrade()
    (service,) = (repository.root / "rendered/nlp").glob("service-a-*.yaml")
    service.unlink()
    if not is_shown:
        manifest = repository.root / "rendered" / MANIFEST
        lines = manifest.read_text().splitlines(keepends=True)
        manifest.write_text("".join(line for line in lines if service.name not in line))
    checked = run_check(repository, "--base", base)
    assert checked.code == 1
    assert KEPT not in checked.out


def test_old_manifest_is_not_kept_for_a_changed_document(repository: Repository, upgrade: Callable[[], None]) -> None:
    """The files of the old document are out of date, even if they carry the digest of the new one."""
    base = build_and_commit(repository)
    upgrade()
    repository.write("jobs/a.yaml", training("a", gpu=2))
    now = compile([repository.root / "jobs/a.yaml"], job_names="hashed", gitops="argocd").objects
    lowered_from = next(obj for obj in now if obj["kind"] == "Job")["metadata"]["annotations"][
        "runwhere.ai/lowered-from"
    ]
    main = workload_file(repository, "a")
    lines = main.read_text().splitlines(keepends=True)
    data = "".join(
        f'    runwhere.ai/lowered-from: "{lowered_from}"\n' if "lowered-from" in line else line for line in lines
    )
    main.write_text(data)
    manifest = repository.root / "rendered" / MANIFEST
    text = [
        json.dumps({**json.loads(line), "sha256": digest(data.encode())}) if main.name in line else line
        for line in manifest.read_text().splitlines()
    ]
    manifest.write_text("\n".join(text) + "\n")
    assert run_check(repository, "--base", base).code == 1


@pytest.mark.parametrize("path", ["nlp/service-a-*.yaml", "nlp/job-a-*.yaml"])
def test_manual_edit_is_refused_after_an_upgrade(
    repository: Repository, upgrade: Callable[[], None], path: str
) -> None:
    repository.write("jobs/a.yaml", training("a", resources=", nodes: 2"))
    base = build_and_commit(repository)
    upgrade()
    (file,) = (repository.root / "rendered").glob(path)
    file.write_text(file.read_text() + "# mine\n")
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.code == 1
    assert f"{file.name}` was edited by hand" in found.err


def test_training_missing_at_the_base_is_rendered_again(repository: Repository, upgrade: Callable[[], None]) -> None:
    """No cluster runs it yet: the branch added it with a version before the upgrade."""
    repository.remove("jobs/b.yaml")
    base = build_and_commit(repository)
    repository.write("jobs/b.yaml", training("b"))
    build_and_commit(repository)
    upgrade()
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.code == 0, found.err
    assert KEPT in found.out
    assert "starts anew: training b in nlp: " in found.out


def test_directory_without_digests_is_rendered_again(
    repository: Repository, upgrade: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(lowering, "CHANGEABLE", {})
        base = build_and_commit(repository)
    assert b"lowered-from" not in workload_file(repository, "a").read_bytes()
    upgrade()
    found = repository.gpuctl(*BUILD)
    assert found.code == 0, found.err
    assert "starts anew: training a in nlp: " in found.out
    assert run_check(repository, "--base", base).code == 0


def test_invalid_base_revision_is_reported(repository: Repository) -> None:
    build_and_commit(repository)
    for base, word in (("nothing", "there is no revision `nothing` here"), ("--exec=x", "is not a revision")):
        found = repository.gpuctl(*BUILD, f"--base={base}")
        assert (found.code, found.out) == (1, "")
        assert word in found.err


def test_impact_omits_trainings_that_the_build_keeps(repository: Repository, upgrade: Callable[[], None]) -> None:
    """Before the build and after it; a training that was rendered again is listed."""
    base = build_and_commit(repository)
    upgrade()
    report = ("impact", "--from", base, "-o", "json", "jobs")
    assert json.loads(repository.gpuctl(*report).out)["restarts"] == []
    repository.write("jobs/b.yaml", training("b", gpu=2))
    assert repository.gpuctl(*BUILD, "--base", base).code == 0
    commit = repository.commit()
    for options in ((), ("--to", commit)):
        (restart,) = json.loads(repository.gpuctl(*report, *options).out)["restarts"]
        assert restart["name"] == "b"
    assert repository.gpuctl(*BUILD, "--relower").code == 0
    restarts = json.loads(repository.gpuctl(*report).out)["restarts"]
    assert {item["name"]: item["reason"] for item in restarts}["a"] == "rendered differently by this version of gpuctl"
