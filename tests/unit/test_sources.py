"""Files that are read as documents, messages about those that are not, and the platform that applies."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from gpuctl.api.document_answers import DiagnosticsAnswer
from gpuctl.api.json_values import to_json
from gpuctl.frontend import platform_loading as load_module
from gpuctl.frontend.diagnostics import SourceSpan
from support.repositories import Repository
from support.repositories import gpuctl as command

JOB = "kind: training\nversion: v0.1\njob: {name: %s}\nenvironment: {image: app:1}\nresources: {cpu: 1, memory: 1Gi}\n"
BODY = "job: {name: b}\nenvironment: {image: app:1}\n"
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
GPUCTL_LABEL = {"app.kubernetes.io/managed-by": "gpuctl"}
PLATFORM = "kind: platform\nversion: v0.1\nlabels: {domain: %s.example.com}\n"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A directory with one document."""
    directory = tmp_path / "jobs"
    directory.mkdir()
    (directory / "a.yaml").write_text(JOB % "a")
    return directory


def found(path: Path | str, **options: object) -> dict[str, str]:
    """Return the code of the message about each file, without warnings."""
    result = gpuctl.compile(path, **options)  # type: ignore[arg-type]
    return {
        Path(item.span.file).name: item.code
        for item in result.diagnostics
        if item.span is not None and item.severity.value != "warning"
    }


# Which YAML files are gpuctl documents.


@pytest.mark.parametrize(
    "text",
    [
        "kind: Training\n",
        "kind: TRAINING\n",
        "kind: trainings\n",
        "kind: training-job\n",
        "kind: trainning\n",
        'kind: " training "\n',
        "kind: traіning\n",
        "kind: ｔｒａｉｎｉｎｇ\n",
        "kind: experiment\n" + BODY,
        "kind: quotas\n",
        "kind: Pool\npool: {name: p}\n",
        "apiVersion: v1\nkind: Training\n" + BODY,
    ],
)
def test_misspelled_kind_in_a_directory_is_an_error(jobs: Path, text: str) -> None:
    (jobs / "b.yaml").write_text(text)
    assert found(jobs) == {"b.yaml": "GPU102"}
    (diagnostic,) = (item for item in gpuctl.compile(jobs).diagnostics if item.code == "GPU102")
    assert diagnostic.hint is not None
    assert diagnostic.hint.startswith("the kinds are" if "experiment" in text else "did you mean")


@pytest.mark.parametrize(
    "text",
    [
        "version: v0.1\n" + BODY,
        BODY,
        "kin: training\n" + BODY,
        "knid: training\n",
        "ｋｉｎｄ: training\n",
        '"kind ": training\n',
        "kind:\n" + BODY,
        "job: {name: b}\nresources: {gpu-type: A100}\n",
        "pool: {name: p}\nnodes: {n: {gpu-type: A100}}\n",
        "metadata: {name: q}\nusers: {u: {gpu: 1}}\n",
        "quota: {name: q}\n",
    ],
)
def test_document_without_kind_in_a_directory_is_an_error(jobs: Path, text: str) -> None:
    (jobs / "b.yaml").write_text(text)
    assert found(jobs) == {"b.yaml": "GPU101"}


@pytest.mark.parametrize("text", ["kind: [training]\n", "kind: {training: x}\n", "kind:\n  - Training\n"])
def test_kind_of_the_wrong_type_is_an_error_at_its_position(jobs: Path, text: str) -> None:
    (jobs / "b.yaml").write_text(text + BODY)
    for path in (jobs, jobs / "b.yaml"):
        (error,) = gpuctl.compile(path).diagnostics
        assert (error.code, error.path) == ("GPU202", ("kind",))
        assert error.message == f"`kind` must be a single value, not {'a mapping' if '{t' in text else 'a list'}"
        assert error.span is not None
        assert error.span.column == (1 if "\n  -" in text else 7)


def test_list_of_documents_is_an_error(jobs: Path) -> None:
    (jobs / "b.yaml").write_text("- kind: training\n  job: {name: b}\n")
    assert found(jobs) == {"b.yaml": "GPU106"}


def test_batch_script_is_pointed_to_import(jobs: Path) -> None:
    script = jobs / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=2\nset -euo pipefail\nsrun python train.py\n")
    (error,) = gpuctl.compile(script).diagnostics
    assert (error.code, error.hint) == ("GPU106", f"`gpuctl import {script}` prints the document of a batch script")


@pytest.mark.parametrize(
    "text",
    [
        MANIFEST,
        "apiVersion: kubeflow.org/v1\nkind: Notebook\nmetadata: {name: x}\nspec: {}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
        "apiVersion: v1\nkind: ConfigMap\n{{- if .Values.x }}\ndata: {}\n{{- end }}\n",
    ],
)
def test_kubernetes_manifests_are_ignored(jobs: Path, text: str) -> None:
    (jobs / "b.yaml").write_text(text)
    assert found(jobs) == {"b.yaml": "GPU105"}
    assert gpuctl.compile(jobs).unread == []


def test_kustomization_is_ignored(jobs: Path) -> None:
    (jobs / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    assert found(jobs) == {"kustomization.yaml": "GPU105"}


@pytest.mark.parametrize(
    "text",
    [
        "replicas: 3\nresources: {}\n",
        "kind: Thing\n",
        "- a\n",
        "just text\n",
        "a: {{ .Values.x }}\n",
        "kind:\n",
        "kind: Thing\nspec: {{ .x }}\n",
    ],
)
def test_ambiguous_document_is_reported_as_unread(jobs: Path, text: str) -> None:
    (jobs / "b.yaml").write_text(text)
    assert found(jobs) == {"b.yaml": "GPU107"}
    assert [item.code for item in gpuctl.compile(jobs).unread] == ["GPU107"]
    assert command(jobs, "validate", ".").code == 0


# Files that are not read.


@pytest.mark.parametrize("text", ["", "# kind: training\n", "---\n", "\n\n---\n# nothing\n---\n", "\ufeff"])
def test_file_without_a_document_is_noted(jobs: Path, text: str) -> None:
    (jobs / "b.yaml").write_text(text)
    assert found(jobs) == {"b.yaml": "GPU012"}


@pytest.mark.parametrize(
    "name",
    ["b.YAML", "b.Yml", "b.yaml.bak", "b.yml~", "b.yaml.disabled", "b.json", ".b.yaml", ".#b.yaml", ".old/b.yaml"],
)
def test_document_in_a_file_with_another_extension_is_noted(jobs: Path, name: str) -> None:
    path = jobs / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{\n  "kind": "training"}' if name.endswith("json") else JOB % "b")
    assert found(jobs) == {path.name: "GPU011"}
    assert len(gpuctl.compile(jobs).documents) == 1


@pytest.mark.parametrize("name", [".gitlab-ci.yml", "notes.json", "c.yaml.j2", ".git/x.yaml", ".venv/x.yaml", "b.txt"])
def test_other_files_are_skipped(jobs: Path, name: str) -> None:
    path = jobs / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(JOB % "b" if "/" in name or name.endswith("txt") else "a: 1\n")
    assert found(jobs) == {}


def test_link_into_a_hidden_directory_is_read(jobs: Path) -> None:
    """The layout of a mounted ConfigMap: the files are links into a hidden directory."""
    data = jobs / "..2024"
    data.mkdir()
    (data / "b.yaml").write_text(JOB % "b")
    (jobs / "..data").symlink_to("..2024")
    (jobs / "b.yaml").symlink_to("..data/b.yaml")
    assert found(jobs) == {}
    assert len(gpuctl.compile(jobs).documents) == 2


def test_linked_directories_are_noted_and_not_followed(jobs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.yaml").write_text(JOB % "b")
    (jobs / "inside").mkdir()
    (jobs / "inside" / "c.yaml").write_text(JOB % "c")
    (jobs / "shared").symlink_to(other)
    (jobs / "again").symlink_to(jobs / "inside")
    (jobs / "loop").symlink_to(jobs)
    (jobs / "nowhere").symlink_to("absent")
    assert found(jobs) == {"shared": "GPU011", "nowhere": "GPU011"}
    (item,) = (item for item in gpuctl.compile(jobs).diagnostics if "not followed" in item.message)
    assert item.hint == f"name it too, if its documents belong here: `-f {jobs}/shared`"
    assert len(gpuctl.compile([jobs, jobs / "shared"]).documents) == 3


def test_dangling_link_to_a_file_is_an_error(jobs: Path) -> None:
    (jobs / "b.yaml").symlink_to("absent.yaml")
    assert found(jobs) == {"b.yaml": "GPU001"}


@pytest.mark.parametrize("in_git", [True, False])
def test_link_that_leads_outside_is_not_read(tmp_path: Path, in_git: bool) -> None:
    """Otherwise the pull request of a stranger could print lines of files of the CI machine."""
    (tmp_path / "secret.yaml").write_text("kind: nothing that anybody else should read\n")
    repository = tmp_path / "repository"
    jobs = repository / "jobs"
    jobs.mkdir(parents=True)
    if in_git:
        (repository / ".git").mkdir()
    (repository / "shared.yaml").write_text(JOB % "shared")
    (jobs / "a.yaml").write_text(JOB % "a")
    (jobs / "inside.yaml").symlink_to("../shared.yaml")
    (jobs / "outside.yaml").symlink_to(tmp_path / "secret.yaml")
    result = gpuctl.compile(jobs)
    names = {document.model.job.name for document in result.documents}
    assert names == ({"a", "shared"} if in_git else {"a"})
    assert found(jobs) == {"outside.yaml": "GPU011", **({} if in_git else {"inside.yaml": "GPU011"})}
    assert "secret.yaml" not in result.sources
    assert "nothing that anybody" not in str(result.diagnostics)
    # A file that the user names is read.
    (error,) = gpuctl.compile(jobs / "outside.yaml").diagnostics
    assert error.code == "GPU102"


def test_submodule_that_is_not_checked_out_is_noted(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    repository.write("jobs/a.yaml", JOB % "a")
    repository.write(".gitmodules", '[submodule "team"]\n\tpath = jobs/team\n\turl = ../team\n')
    for name in ("team", "empty"):
        (repository.root / "jobs" / name).mkdir()
    assert found(repository.root) == {"team": "GPU011"}
    assert found(repository.root / "jobs") == {"team": "GPU011"}


def test_special_files_in_a_directory_are_not_read(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(jobs / "pipe.yaml")
    monkeypatch.chdir(jobs)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.yml")
        (jobs / "device.yaml").symlink_to("/dev/null")
        assert found(jobs) == {"pipe.yaml": "GPU011", "device.yaml": "GPU011", "socket.yml": "GPU001"}
        assert found(jobs / "socket.yml") == {"socket.yml": "GPU001"}


def test_pipe_as_input_is_read(jobs: Path) -> None:
    os.mkfifo(jobs / "pipe")
    writer = threading.Thread(target=(jobs / "pipe").write_text, args=(JOB % "piped",))
    writer.start()
    result = gpuctl.compile(jobs / "pipe")
    writer.join()
    assert [document.model.job.name for document in result.documents] == ["piped"]


def test_process_substitution_and_stdin_use_the_local_platform(jobs: Path) -> None:
    """They belong to the current directory, whose platform applies."""
    (jobs / "platform.yaml").write_text(PLATFORM % "here")
    program = f'"{sys.executable}" -m gpuctl render'
    for script in (f"{program} -f <(cat a.yaml)", f"cat a.yaml | {program} -f /dev/stdin", f"{program} - < a.yaml"):
        done = subprocess.run(["bash", "-c", script], cwd=jobs, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "here.example.com/job-type" in done.stdout


@pytest.fixture
def open_jobs() -> Iterator[Path]:
    """A directory with a document and a subdirectory that only root may enter, accessed as another user."""
    nobody = 65534
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "a.yaml").write_text(JOB % "a")
        (directory / "closed").mkdir()
        (directory / "closed" / "x.yaml").write_text(JOB % "x")
        (directory / "closed").chmod(0)
        found(directory)  # Import modules before the change of user: root may own them.
        command(directory, "validate", "a.yaml")
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(nobody)
        try:
            yield directory
        finally:
            if is_root:
                os.seteuid(0)
            (directory / "closed").chmod(0o700)


def test_inaccessible_directory_is_an_error(open_jobs: Path) -> None:
    assert found(open_jobs) == {"closed": "GPU001"}
    assert found(open_jobs / "closed") == {"closed": "GPU001"}
    assert found(open_jobs / "closed" / "x.yaml") == {"x.yaml": "GPU001"}
    assert found(open_jobs / "closed" / "y" / "x.yaml") == {"x.yaml": "GPU001"}
    outcome = command(open_jobs, "validate", "closed/x.yaml")
    assert (outcome.code, outcome.err) == (1, "")
    assert "cannot read `closed/x.yaml`: permission denied" in outcome.out


# Unusual texts and names.


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "y/" * 2500 + "z", "\ud800", "", "."])
def test_unusual_file_names_do_not_raise(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for result in (gpuctl.compile(name), gpuctl.compile(gpuctl.Source("a", JOB % "a"), platform=name)):
        assert not result.ok
        to_json(DiagnosticsAnswer.of(result.diagnostics).as_json()).encode()
    assert gpuctl.compile(gpuctl.Source(name, JOB % "a")).ok


@pytest.mark.parametrize("text", ["\ud800", "kind: training\njob: {name: \udfff}\n", "kind: \0\n", "\0"])
def test_unusual_texts_do_not_raise(text: str) -> None:
    (error, *_) = gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics
    assert error.code == "GPU002"
    assert str(error.span) == (
        "a.yaml:2:13" if "udfff" in ascii(text) else "a.yaml:1:7" if "kind" in text else "a.yaml:1:1"
    )


def test_byte_order_marks_are_accepted() -> None:
    text = "\ufeff" + JOB % "a"
    joined = f"{text}---\n{text}".replace("name: a", "name: b", 1)
    assert gpuctl.compile(gpuctl.Source("a.yaml", text)).ok
    assert gpuctl.compile(gpuctl.Source("a.yaml", joined)).ok
    assert gpuctl.compile(gpuctl.Source("a.yaml", joined.replace("\n", "\r\n"))).ok
    assert gpuctl.compile("-", stdin=io.BytesIO(joined.encode())).ok


BYTES = {
    b"kind: \xff": (1, 7, "0xff"),
    b"\xfe": (1, 1, "0xfe"),
    b"a: 1\nb: '\xe4\xbb\xbb\xfe": (2, 6, "0xfe"),
    b"a: 1\r\n\xe4": (2, 1, "0xe4"),
}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["without a mark", "with a mark"])
@pytest.mark.parametrize("data", BYTES)
def test_position_of_a_byte_that_is_not_utf8(data: bytes, mark: bytes, tmp_path: Path) -> None:
    line, column, byte = BYTES[data]
    path = tmp_path / "a.yaml"
    path.write_bytes(mark + data)
    (error,) = gpuctl.compile(path).diagnostics
    assert error.code == "GPU002"
    assert error.message == f"the file contains byte {byte}, which is not UTF-8"
    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.end_column) == (line, column, column + 1)


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["without a mark", "with a mark"])
@pytest.mark.parametrize("character", ["\udfff", "\x07", "\0"])
def test_position_of_an_invalid_character(character: str, mark: str) -> None:
    for before, line, column in (("kind: ", 1, 7), ("kind: training\njob: {name: ", 2, 13)):
        (error, *_) = gpuctl.compile(gpuctl.Source("a.yaml", mark + before + character)).diagnostics
        assert error.code == "GPU002"
        assert error.span == SourceSpan("a.yaml", line, column, line, column + 1)


def test_file_name_that_is_not_utf8(jobs: Path) -> None:
    path = os.fsencode(jobs) + b"/caf\xe9.yaml"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write((JOB % "b").replace("cpu", "Cpu"))
    validate = ["validate", "-n", "x", ".", os.fsdecode(b"./caf\xe9.yaml"), "-o"]
    lines = [[*validate, form] for form in ("text", "json", "sarif", "github", "gitlab", "junit")]
    lines += [["fmt", "."], ["render", "."], ["build", ".", "-o", "out"], ["build", ".", "-o", "out", "--check"]]
    program = f"from gpuctl.cli.main import run\nprint([run(line) for line in {lines!r}])"
    done = subprocess.run([sys.executable, "-c", program], cwd=jobs, capture_output=True)
    assert done.stdout.decode("utf-8").splitlines()[-1] == str([0] * len(lines)), done.stderr
    assert b"Cpu" not in Path(os.fsdecode(path)).read_bytes()
    shown = command(jobs, "validate", os.fsdecode(b"caf\xe9.yaml"), "--strict", "-n", "x", "-o", "json")
    assert json.loads(shown.out)["errors"] == 0


# The platform.


def test_platform_does_not_depend_on_the_order_of_inputs(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.yaml").write_text(JOB % name)
    (tmp_path / "a" / "platform.yaml").write_text(PLATFORM % "a")
    files = [tmp_path / name / "job.yaml" for name in ("a", "b", "c")]
    for order in (files, files[::-1]):
        result = gpuctl.compile(order)
        assert result.settings.platform.labels.domain == "a.example.com"
        assert "a.example.com/pool" in json.dumps(result.objects)
    (tmp_path / "b" / "platform.yaml").write_text(PLATFORM % "b")
    said = set()
    for inputs in (files, files[::-1], [tmp_path / "b", files[0]], [files[0], tmp_path / "b"]):
        (error,) = (item for item in gpuctl.compile(inputs).diagnostics if item.severity.value == "error")
        said.add((error.code, error.message, str(error.span), str(error.related[0].span)))
    first, second = (f"{tmp_path}/{name}/platform.yaml" for name in ("a", "b"))
    message = f"a second platform, different from the first (`{first}`): a compile has one"
    assert said == {("GPU603", message, f"{second}:1:7", f"{first}:1:7")}


def test_hint_about_two_platforms_works(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "platform.yaml").write_text(PLATFORM % "above")
    (tmp_path / "own" / "settings.yaml").write_text(PLATFORM % "own")
    (tmp_path / "own" / "job.yaml").write_text(JOB % "a")
    refused = command(tmp_path, "validate", "own")
    assert refused.code == 1
    assert "--platform own/settings.yaml" in refused.out
    assert command(tmp_path, "validate", "own", "--platform", "own/settings.yaml").code == 0


def test_linked_directory_uses_the_platform_of_its_target(tmp_path: Path) -> None:
    real = tmp_path / "real" / "jobs"
    real.mkdir(parents=True)
    (real / "a.yaml").write_text(JOB % "a")
    (tmp_path / "real" / "platform.yaml").write_text(PLATFORM % "real")
    (tmp_path / "link").symlink_to(real)
    inside = command(tmp_path / "link", "render", "a.yaml")
    for name in ("link", "link/", "link/a.yaml", "real/jobs"):
        outside = command(tmp_path, "render", name)
        assert (outside.code, outside.out) == (0, inside.out)
    assert "real.example.com" in inside.out


def test_library_and_command_line_find_the_same_platform(tmp_path: Path, jobs: Path) -> None:
    (tmp_path / "platform.yaml").write_text(PLATFORM % "above")
    for inputs in ([str(jobs)], [str(jobs / "a.yaml")]):
        assert "above.example.com" in command(Path("/"), "render", *inputs).out
        assert "above.example.com" in json.dumps(gpuctl.compile(inputs).objects)
    built = command(tmp_path, "build", "jobs", "-o", "out")
    assert built.code == 0
    assert "above.example.com" in (tmp_path / "out/default/job-a.yaml").read_text()


def test_manifest_named_platform_yaml_is_not_a_platform(jobs: Path) -> None:
    (jobs / "platform.yaml").write_text(MANIFEST)
    assert gpuctl.compile(jobs).ok
    assert gpuctl.compile(jobs / "a.yaml").ok
    (jobs / "platform.yaml").write_text("labels: {domain: x.example.com}\n")
    for inputs in (jobs, jobs / "a.yaml"):
        assert found(inputs)["platform.yaml"] == "GPU604"


@pytest.mark.parametrize("written", ["platform", "&k platform", "!!str platform", '"platform"', "\n  platform"])
def test_each_source_is_parsed_once(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    real = load_module.read

    def counting(source: gpuctl.Source, *arguments: object) -> object:
        parsed.append(source.name)
        return real(source, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(load_module, "read", counting)
    sources = [
        gpuctl.Source("p", PLATFORM.replace("platform", written, 1) % "x"),
        gpuctl.Source("a", JOB % "a" + "# of the platform team\n"),
        gpuctl.Source("b", JOB % "ml-platform"),
    ]
    result = gpuctl.compile(sources, directory=tmp_path)
    assert result.ok, result.diagnostics
    assert result.settings.platform.labels.domain == "x.example.com"
    assert sorted(parsed) == ["a", "b", "p"]


def test_platform_search_in_hostile_text_is_linear() -> None:
    """A search in quadratic time would take hours."""
    for text in (
        'platform "' + "\\" * 4_000_000,
        "platform " + "k" + "-" * 4_000_000,
        "platform" + ' "\\"' * 1_000_000,
    ):
        assert not re.search(load_module._MAY_BE_PLATFORM, text)


def test_fmt_skips_files_without_documents(jobs: Path) -> None:
    for name, text in (
        ("b.yaml", "# nothing\n"),
        ("c.YAML", JOB % "c"),
        ("d.yaml", "a: 1\n"),
        ("e.yaml", "a: {{ b }}\n"),
    ):
        (jobs / name).write_text(text)
    assert command(jobs, "fmt", ".", "--check") == (0, "", "")


# Builds.


def test_build_warns_of_removals_if_files_were_not_read(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    for name in ("a", "b"):
        repository.write(f"{name}.yaml", JOB % name)
    assert repository.gpuctl("build", ".", "-o", "rendered").err == ""
    (repository.root / "b.yaml").rename(repository.root / "b.YAML")
    for check, code, words in ((["--check"], 1, "would be removed"), ([], 0, "removed")):
        outcome = repository.gpuctl("build", ".", "-o", "rendered", *check)
        assert outcome.code == code
        assert f"warning: default/job-b.yaml: {words}, and these were not read as documents: b.YAML; " in outcome.err
    assert "warning" not in repository.gpuctl("build", ".", "-o", "rendered").err


def test_misspelled_kind_stops_a_build(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    for name in ("a", "b"):
        repository.write(f"{name}.yaml", JOB % name)
    repository.gpuctl("build", ".", "-o", "rendered")
    repository.write("b.yaml", (JOB % "b").replace("training", "Training"))
    outcome = repository.gpuctl("build", ".", "-o", "rendered")
    assert outcome.code == 1
    assert "did you mean `training`?" in outcome.err
    assert (repository.root / "rendered/default/job-b.yaml").exists()


# Lifting.


@pytest.mark.parametrize(
    "objects",
    [
        [{}],
        [{"metadata": None}],
        [{"kind": "Job", "metadata": {"labels": None}}],
        [{"metadata": {"labels": GPUCTL_LABEL}}],
    ],
)
def test_lift_skips_objects_of_other_tools(objects: list[dict[str, object]]) -> None:
    assert gpuctl.lift(objects) == []


def test_lift_warns_of_a_limit_that_a_document_cannot_state() -> None:
    text = "kind: quota\nversion: v0.1\nquota: {name: q}\nusers: {ann: {cpu: 8}}\n"
    result = gpuctl.compile(gpuctl.Source("quota.yaml", text))
    (limits,) = (obj for obj in result.objects if obj["kind"] == "ResourceQuota")
    changed = {**limits, "spec": {"hard": {**limits["spec"]["hard"], "pods": "9"}}}
    with pytest.warns(UserWarning, match="^no field of a quota expresses pods of the ResourceQuota ann/q-ann$"):
        (document,) = gpuctl.lift([changed], result.settings, use_annotation=False)
    assert document["users"] == {"ann": {"cpu": "8"}}


def test_dangling_link_to_the_outside_has_no_hint_to_name_it(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "a.yaml").write_text(JOB % "a", encoding="utf-8")
    (jobs / "gone.yaml").symlink_to(tmp_path / "absent" / "gone.yaml")
    [said] = [item for item in gpuctl.compile(jobs).diagnostics if "gone.yaml" in item.message]
    assert "is a broken link" in said.message
    assert said.hint == "fix or remove it"


TRAINING_LABELS = {"app.kubernetes.io/managed-by": "gpuctl", "runwhere.ai/job-type": "training"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        [],
        {},
        {"kind": "Job", "metadata": {"labels": TRAINING_LABELS}},
        {"kind": "Job", "metadata": {"name": "a", "labels": TRAINING_LABELS}},
        {"kind": "JobSet", "metadata": {"name": "a", "labels": TRAINING_LABELS}, "spec": {"replicatedJobs": [{}]}},
        {"kind": "Job", "metadata": {"name": "a", "labels": TRAINING_LABELS}, "spec": {"template": {"spec": {}}}},
        {"kind": "ConfigMap", "metadata": {"name": "a", "labels": TRAINING_LABELS}, "data": {"pool.yaml": ""}},
        {
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": TRAINING_LABELS},
            "data": {"pool.yaml": "kind: quota"},
        },
        {"kind": "ResourceQuota", "metadata": {"name": "a", "labels": TRAINING_LABELS}},
    ],
)
def test_lift_skips_incomplete_objects(value: Any) -> None:
    assert gpuctl.lift([value]) == []


def test_unreadable_platform_is_reported_once(jobs: Path) -> None:
    """Also if it is one of the compiled files."""
    (jobs / "platform.yaml").write_text("kind: platform\nversion: v0.1\nlabels: {domain: [\n")
    for inputs in (jobs / "a.yaml", jobs):
        result = gpuctl.compile(inputs, platform=jobs / "platform.yaml")
        assert [item.code for item in result.diagnostics if item.severity.value == "error"] == ["GPU004"]
