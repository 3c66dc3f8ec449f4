"""The documentation is correct: its commands run, its outputs are real, its tables are complete."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.cli.overview import COMMANDS
from gpuctl.language.kinds import KINDS
from support.pages import ROOT, assert_output, blocks, prose, read, rows

README, CHINESE_README = "README.md", "README.zh-CN.md"
LIBRARY = "docs/library.md"
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for directory in (ROOT, ROOT / "docs", ROOT / "docs" / "design", ROOT / "docs" / "paths", ROOT / "examples")
    for path in directory.glob("*.md")
)

NOT_RUN = {
    "pip install .": "needs the network",
    "make test": "this test is part of it",
    "make lint": "is run by itself",
    "make golden": "changes the tree",
}
"""README commands that the test does not run, and why. Of ``... | kubectl ...`` only the first part is run."""


# Running a README ------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path, programs: Path) -> Path:
    """A copy of a clone with a ``.venv`` as ``make setup`` creates it, with this interpreter's packages."""
    if shutil.which("make") is None:
        if os.environ.get("CI"):
            pytest.fail("make is missing")
        pytest.skip("make is missing")
    directory = tmp_path / "clone"
    directory.mkdir()
    (directory / ".git").mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, directory)
    for name in ("compiler", "examples", "schemas"):
        (directory / name).symlink_to(ROOT / name)
    venv = directory / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    paths = [ROOT / "compiler", sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (packages / "gpuctl.pth").write_text("".join(f"{path}\n" for path in paths))
    shutil.copy(programs / "gpuctl", venv / "bin")
    (venv / ".ready").touch()
    return directory


def shell(command: str, directory: Path, *, activated: bool = True, may_refuse: bool = False) -> str:
    """Run commands as a reader does, and return what they print on both streams.

    Raise AssertionError if they fail. With ``may_refuse``, exit code 1 (gpuctl found errors) is not a failure.
    """
    path = os.environ["PATH"]
    if activated:
        path = f"{directory / '.venv' / 'bin'}{os.pathsep}{path}"
    # A reader's shell has no variables of `make test-lowest`.
    not_readers = {"PYTHONPATH", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "VENV", "DEPENDENCIES", "WORKERS"}
    environment = {name: value for name, value in os.environ.items() if name not in not_readers}
    environment |= {"PATH": path, "PYTHONUTF8": "1"}
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    if result.returncode != 0 and not (may_refuse and result.returncode == 1):
        raise AssertionError(f"`{command}` ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def runnable(text: str) -> Iterator[str]:
    """Yield the command lines of a block that are run."""
    for line in text.splitlines():
        if line in NOT_RUN:
            continue
        command, pipe, rest = line.partition(" | ")
        yield command if pipe and rest.startswith("kubectl ") else line


@pytest.mark.parametrize("document", [README])
def test_readme_commands_print_the_shown_output(document: str, clone: Path) -> None:
    printed = ""
    for block in blocks(document):
        if block.note.startswith("tour"):
            continue  # tests/cluster/test_pages.py
        if block.note == "install":
            continue  # needs a published release; tests/unit/test_release.py installs and runs what it consists of
        if (name := block.note_after("file:")) is not None:
            (clone / name).write_text(block.text, encoding="utf-8")
        elif (command := block.note_after("output:")) is not None:
            real = printed if command == "python" else shell(command, clone, may_refuse=True)
            assert_output(block.text, real)
        elif block.language == "sh":
            lines = "\n".join(runnable(block.text))
            # The quick start changes PATH itself: `gpuctl` must run from the environment that it activates.
            shell(lines or "true", clone, activated=". .venv/bin/activate" not in block.text)
        elif block.language == "python":
            printed = shell(f"python -c {shlex.quote(block.text)}", clone)
        else:
            assert block.language == "yaml", block
    assert (clone / "demo-out").is_dir()
    assert (clone / "job.yaml").exists()


def test_demo_prints_one_example_on_a_screen(clone: Path) -> None:
    printed = shell("make --no-print-directory demo", clone).splitlines()
    assert len(printed) <= 50
    # The document, and what becomes of its image, GPUs and pool.
    assert (printed[0], printed[15:17]) == ("# examples/tour/finetune.yaml", ["apiVersion: batch/v1", "kind: Job"])
    for line in ("image: registry.example.com/llm/train:v1.4", 'nvidia.com/gpu: "4"', "runwhere.ai/gpu-type: A100-80G"):
        assert any(shown.strip() == line for shown in printed[16:]), line
    assert "demo-out/" in printed[-1]
    assert all(
        (clone / "demo-out" / f"{path.name}.yaml").exists() for path in (ROOT / "examples").iterdir() if path.is_dir()
    )


def test_skipped_commands_are_in_the_readme() -> None:
    lines = [line for block in blocks(README) if block.language == "sh" for line in block.text.splitlines()]
    assert [command for command in NOT_RUN if command not in lines] == []
    assert "make demo" in lines


def test_readmes_state_the_number_of_output_lines() -> None:
    documents = {block.note: block.text for block in blocks(README)}
    source = documents["file: qwen2.yaml"]
    assert source.count("\n") == 10, "the README counts ten lines"
    result = gpuctl.compile(gpuctl.Source("qwen2.yaml", source), platform=NO_PLATFORM)
    from gpuctl.backend.emitter import emit_stream

    lines = str(emit_stream(result.objects).count("\n"))
    assert re.findall(r"prints (\d+) lines", prose(README)) == [lines]
    assert re.findall(r"输出 (\d+) 行", prose(CHINESE_README)) == [lines]


# Tables and links ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "kinds", "commands"),
    [(README, "Kinds", "Commands"), (CHINESE_README, "文档类型", "命令")],
)
def test_readme_tables_list_all_kinds_and_commands(document: str, kinds: str, commands: str) -> None:
    assert [row[0].strip("`") for row in rows(document, kinds)] == list(KINDS)
    assert sorted(row[0].strip("`").split()[1] for row in rows(document, commands)) == sorted(COMMANDS)


def anchors(document: str) -> set[str]:
    """Return GitHub's anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_link_targets_exist(document: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", re.sub(r"`[^`\n]*`", "", prose(document))):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        path = os.path.normpath(ROOT / document / ".." / name) if name else ROOT / document
        assert Path(path).exists(), target
        assert not heading or heading in anchors(str(Path(path).relative_to(ROOT))), target


def test_page_of_the_python_client_on_pypi_has_no_relative_links() -> None:
    assert not re.findall(r"\]\((?!https?://)", (ROOT / "sdk/python/README.md").read_text(encoding="utf-8"))


def test_documentation_lists_every_page() -> None:
    pages = {path for path in DOCUMENTS if not path.endswith(".zh-CN.md") and path != "docs/README.md"}
    targets = re.findall(r"\]\(([^)#]+)", read("docs/README.md"))
    listed = {os.path.normpath(f"docs/{target}") for target in targets}
    # Those of the design are listed by their own page.
    unlisted = {path for path in pages - listed if not path.startswith("docs/design/")}
    assert unlisted == {"SECURITY.md"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", read("Makefile"), re.MULTILINE))
    commands = re.findall(r"`make ([a-z -]+)[^`]*`", prose(document))
    for block in blocks(document):
        commands += re.findall(r"^make ([a-z -]+)$", block.text, re.MULTILINE)
    for command in commands:
        assert set(command.split()) <= targets, command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_are_plain_text(document: str) -> None:
    """Documents have no emoji, badges or trailing blanks."""
    text = read(document)
    assert not re.search("[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f]", text)
    assert "![" not in text
    assert not re.search(r"[ \t]$", prose(document), re.MULTILINE)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


# The library -----------------------------------------------------------------------------------------------

NO_PLATFORM = gpuctl.Source("platform", "kind: platform\nversion: v0.1\n")


def test_library_examples_print_the_shown_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "cluster.json").write_text(render(one_node_in_use()), encoding="utf-8")
    names: dict[str, Any] = {"__name__": "example"}
    printed = ""
    for block in blocks(LIBRARY):
        if block.note:
            assert block.note in ("cluster", "changes", "client") or block.note_after("file:"), block.note
        elif block.language == "python":
            assert printed == "", f"the output before this is not shown:\n{printed}"
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(block.text, LIBRARY, "exec"), names)
            printed = stream.getvalue()
        else:
            assert block.language == "text"
            assert block.text == printed
            printed = ""
    assert printed == ""


def one_node_in_use() -> Snapshot:
    """A node of 8 GPUs in the default pool, with a pod that uses 6 of them."""
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    node = {"name": "gpu-1", "labels": {"kubernetes.io/hostname": "gpu-1"}, "allocatable": allocatable}
    pod = {"namespace": "team", "name": "train-0", "node": "gpu-1", "priority": 10**6, "labels": {"app": "train"}}
    pod |= {"requests": {"nvidia.com/gpu": "6"}, "startTime": "2026-01-01T00:00:00Z"}
    return Snapshot("2026-01-01T00:00:00Z", [node], [pod])


def test_library_tables_are_complete() -> None:
    for function in (gpuctl.compile, gpuctl.fit, gpuctl.why, gpuctl.plan, gpuctl.apply):
        parameters = inspect.signature(function).parameters
        table = {row[0].strip("`"): row[1].strip("`") for row in rows(LIBRARY, function.__name__)}
        assert list(table) == list(parameters)
        for name, parameter in parameters.items():
            default = "" if parameter.default is parameter.empty else parameter.default
            shown = "no-op" if callable(default) else f'"{default}"' if default == "default" else str(default)
            assert table[name] == shown, name

    def listed(heading: str) -> set[str]:
        return {row[0].strip("`").removesuffix("()") for row in rows(LIBRARY, heading)}

    assert listed("Compilation") == {*gpuctl.Compilation._fields, "ok", "unread"}
    own = {name for name in vars(gpuctl.DocumentPlan) if not name.startswith("_")}
    assert listed("DocumentPlan") == {*own, *gpuctl.DocumentPlan.__dataclass_fields__}
    for row in rows(LIBRARY, "Errors"):
        assert issubclass(getattr(gpuctl, row[0].strip("`")), Exception)
    assert listed("Explanation") == {*gpuctl.Explanation.__dataclass_fields__, "is_well"}
    assert listed("FitResult") == {*gpuctl.FitResult.__dataclass_fields__, "fits", "notes"}
    assert listed("Diagnostic") == {*gpuctl.Diagnostic._fields}
    for heading, function in {"Source": gpuctl.Source, "lift": gpuctl.lift, "connect": gpuctl.connect}.items():
        section = read(LIBRARY).partition(f"\n## {heading}\n")[2]
        (shown,) = re.findall(rf"^`gpuctl\.{heading}\((.*?)\)`", section, re.MULTILINE)
        names = [part.partition("=")[0] for part in shown.split(", ") if part != "*"]
        assert names == list(inspect.signature(function).parameters)
    for name in set(gpuctl.__all__):
        assert f"`{name}`" in read(LIBRARY)


# Contributing ----------------------------------------------------------------------------------------------


def test_code_quoted_in_contributing_exists() -> None:
    shown = [block for block in blocks("CONTRIBUTING.md") if block.note]
    assert len(shown) == 3
    for block in shown:
        path = block.note_after("from:")
        assert path is not None
        assert block.text in read(path), path


def test_directories_named_in_contributing_exist() -> None:
    rooms = next(block.text for block in blocks("CONTRIBUTING.md") if "compiler/gpuctl/" in block.text)
    for line in rooms.splitlines():
        name = line.split()[0]
        assert (ROOT / "compiler" / "gpuctl" / name if line.startswith("  ") else ROOT / name).exists(), name
