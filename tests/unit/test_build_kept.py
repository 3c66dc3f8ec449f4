"""``gpuctl build`` after an upgrade that lowers trainings otherwise: which files it keeps, and on whose word."""

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
from support.repositories import Outcome, Repository, training

BUILD = ("build", "jobs", "-o", "rendered", "--gitops", "argocd")
KEPT = "kept: training a in nlp: rendered by another version of gpuctl; --relower renders it again\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two trainings, built and committed by the version before."""
    found = Repository(tmp_path / "repository")
    found.write("jobs/a.yaml", training("a"))
    found.write("jobs/b.yaml", training("b"))
    return found


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Replaces gpuctl by a version that lowers each pod of a training otherwise."""

    def call() -> None:
        before = lowering._template

        def template(*arguments: Any) -> dict[str, Any]:
            result: dict[str, Any] = before(*arguments)
            result["spec"]["terminationGracePeriodSeconds"] = 31
            return result

        monkeypatch.setattr(lowering, "_template", template)

    return call


def built(repository: Repository, *options: str) -> str:
    """Build and commit; the commit."""
    found = repository.gpuctl(*BUILD, *options)
    assert found.code == 0, found.err
    return repository.commit()


def rendered(repository: Repository) -> dict[str, bytes]:
    root = repository.root / "rendered"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def main_of(repository: Repository, name: str) -> Path:
    (found,) = (repository.root / "rendered/nlp").glob(f"job*-{name}-??????.yaml")
    return found


def up_to_date(repository: Repository, *options: str) -> Outcome:
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
def test_an_upgrade_keeps_what_stands_at_the_base(
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
    base = built(repository, *options)
    before = rendered(repository)
    upgrade()
    found = repository.gpuctl(*BUILD, *options, "--base", base)
    assert (found.code, found.out) == (0, f"{KEPT}rendered: {len(before) - 1} unchanged\n"), found.err
    assert rendered(repository) == before
    checked = up_to_date(repository, *options, "--base", base)
    assert (checked.code, checked.out) == (0, f"{KEPT}rendered is up to date\n")
    anew = repository.gpuctl(*BUILD, *options, "--relower")
    assert "starts anew: training a in nlp: " in anew.out
    assert main_of(repository, "a").name not in {Path(path).name for path in before}
    # Who renders anew passes the same check.
    assert up_to_date(repository, *options, "--base", base).out == "rendered is up to date\n"


@pytest.mark.parametrize("number", [1, 5])
def test_without_a_base_nothing_starts_anew_unasked(
    repository: Repository, upgrade: Callable[[], None], number: int
) -> None:
    for at in range(number - 2):
        repository.write(f"jobs/more-{at}.yaml", training(f"more-{at}"))
    built(repository)
    before = rendered(repository)
    upgrade()
    found = repository.gpuctl(*BUILD)
    assert (found.code, found.out) == (1, "")
    assert "error: training a in nlp, training b in nlp" in found.err
    assert ("2 more: " in found.err) == (number == 5)
    assert "`--base origin/main`" in found.err
    assert rendered(repository) == before
    checked = up_to_date(repository)
    assert checked.code == 1
    assert "note: training a in nlp, training b in nlp" in checked.err


def test_a_changed_document_starts_anew_and_others_stay(repository: Repository, upgrade: Callable[[], None]) -> None:
    base = built(repository)
    upgrade()
    repository.write("jobs/b.yaml", training("b", gpu=2))
    kept, changed = main_of(repository, "a"), main_of(repository, "b")
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.out.startswith(KEPT)
    assert "starts anew: training b in nlp: " in found.out
    assert kept.exists()
    assert not changed.exists()
    assert up_to_date(repository, "--base", base).code == 0


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
def test_what_trainings_are_lowered_from(
    repository: Repository, upgrade: Callable[[], None], platform: str, is_kept: bool
) -> None:
    base = built(repository)
    upgrade()
    repository.write("platform.yaml", f"kind: platform\nversion: v0.1\n{platform}\n")
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.code == 0, found.err
    assert (KEPT in found.out) == is_kept


def test_what_is_no_part_of_the_digest_lowers_no_training_otherwise() -> None:
    """Each part of a platform that does not count, with a value of its own."""
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


def tampered(repository: Repository, name: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Changes of rendered files that a pull request can make, each with the line in the manifest that fits it."""
    main = main_of(repository, name)
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
def test_a_pull_request_cannot_bring_a_manifest_of_its_own(
    repository: Repository, upgrade: Callable[[], None], case: str, is_upgraded: bool
) -> None:
    """Not even with a hash in the manifest that agrees, and the right digest of the input."""
    base = built(repository)
    changed = dict(tampered(repository, "a"))[case]
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
        found = up_to_date(repository, *options)
        assert found.code == 1, found.out
        assert "kept: training a " not in found.out
    done = repository.gpuctl(*BUILD, "--base", base)
    assert done.code == 0, done.err
    assert not any(data in rendered(repository).values() for data in changed.values() if data)
    assert up_to_date(repository, "--base", base).code == 0


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_pull_request_cannot_remove_a_part_of_a_training(
    repository: Repository, upgrade: Callable[[], None], is_shown: bool
) -> None:
    """The headless Service, by which the pods meet: with its line in the manifest, and without."""
    repository.write("jobs/a.yaml", training("a", resources=", nodes: 2"))
    base = built(repository)
    upgrade()
    (service,) = (repository.root / "rendered/nlp").glob("service-a-*.yaml")
    service.unlink()
    if not is_shown:
        manifest = repository.root / "rendered" / MANIFEST
        lines = manifest.read_text().splitlines(keepends=True)
        manifest.write_text("".join(line for line in lines if service.name not in line))
    checked = up_to_date(repository, "--base", base)
    assert checked.code == 1
    assert KEPT not in checked.out


def test_an_old_manifest_is_not_kept_for_a_changed_document(
    repository: Repository, upgrade: Callable[[], None]
) -> None:
    """A changed document with the files of the one before it is out of date, whatever these files say."""
    base = built(repository)
    upgrade()
    repository.write("jobs/a.yaml", training("a", gpu=2))
    now = compile([repository.root / "jobs/a.yaml"], job_names="hashed", gitops="argocd").objects
    lowered_from = next(obj for obj in now if obj["kind"] == "Job")["metadata"]["annotations"][
        "runwhere.ai/lowered-from"
    ]
    main = main_of(repository, "a")
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
    assert up_to_date(repository, "--base", base).code == 1


@pytest.mark.parametrize("path", ["nlp/service-a-*.yaml", "nlp/job-a-*.yaml"])
def test_an_edit_by_hand_is_refused_as_ever(repository: Repository, upgrade: Callable[[], None], path: str) -> None:
    repository.write("jobs/a.yaml", training("a", resources=", nodes: 2"))
    base = built(repository)
    upgrade()
    (file,) = (repository.root / "rendered").glob(path)
    file.write_text(file.read_text() + "# mine\n")
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.code == 1
    assert f"{file.name}` was edited by hand" in found.err


def test_what_is_not_at_the_base_is_rendered_anew(repository: Repository, upgrade: Callable[[], None]) -> None:
    """It is in no cluster yet: it came with the branch, by a version before the upgrade."""
    repository.remove("jobs/b.yaml")
    base = built(repository)
    repository.write("jobs/b.yaml", training("b"))
    built(repository)
    upgrade()
    found = repository.gpuctl(*BUILD, "--base", base)
    assert found.code == 0, found.err
    assert KEPT in found.out
    assert "starts anew: training b in nlp: " in found.out


def test_a_directory_without_digests_is_rendered_anew_once(
    repository: Repository, upgrade: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(lowering, "CHANGEABLE", {})
        base = built(repository)
    assert b"lowered-from" not in main_of(repository, "a").read_bytes()
    upgrade()
    found = repository.gpuctl(*BUILD)
    assert found.code == 0, found.err
    assert "starts anew: training a in nlp: " in found.out
    assert up_to_date(repository, "--base", base).code == 0


def test_the_base_must_be_a_revision(repository: Repository) -> None:
    built(repository)
    for base, word in (("nothing", "there is no revision `nothing` here"), ("--exec=x", "is not a revision")):
        found = repository.gpuctl(*BUILD, f"--base={base}")
        assert (found.code, found.out) == (1, "")
        assert word in found.err


def test_impact_does_not_list_what_a_build_keeps(repository: Repository, upgrade: Callable[[], None]) -> None:
    """Neither before the build nor after it; what was rendered anew is listed."""
    base = built(repository)
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
