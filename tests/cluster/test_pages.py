"""The README's tour and the pages with paths and recipes: every command of them, from top to bottom, on a sandbox."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

import gpuctl
from gpuctl.cli.overview import COMMANDS
from support.page_runner import PageRunner, reader_environment
from support.pages import ROOT, blocks, rows
from support.sandboxes import running_sandbox

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("docs/gitops-health.md", "docs/recipes.md", "docs/paths/*.md", "examples/README.md")
    for path in ROOT.glob(pattern)
    if not path.name.endswith(".zh-CN.md")
)
LEFT_BY_A_PAGE = """
kubectl delete jobs,jobsets,deployments,statefulsets,services,hpa,pvc,resourcequotas,limitranges --all -n nlp
kubectl delete pv --all
kubectl get secrets -n nlp -o name | grep -v registry-login | xargs -r kubectl delete -n nlp
"""
TOUR = re.compile(r"<!-- (tour[^>]*?) -->\n```\w+\n(.*?)```", re.DOTALL)
TIMEOUT = 120


@pytest.fixture(scope="module")
def reader(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of a reader with gpuctl, kubectl and a sandbox."""
    with running_sandbox(tmp_path_factory.mktemp("reader") / "sandbox") as sandbox:
        database = {"GPUCTL_SERVER_USAGE_DATABASE": str(sandbox / "usage.db")}
        yield {**reader_environment((programs, sandbox / "bin"), sandbox / "kubeconfig"), **database}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_and_documents_of_a_page(page: str, reader: Mapping[str, str], tmp_path: Path) -> None:
    directory = tmp_path / "work"
    (directory / ".git").mkdir(parents=True)
    # A clone of the repository, in which a platform team finds deploy/.
    (directory / "gpuctl").mkdir()
    (directory / "gpuctl" / "deploy").symlink_to(ROOT / "deploy")
    (directory / "examples").symlink_to(ROOT / "examples")
    try:
        PageRunner(directory, reader).run_page(page)
        left = subprocess.run(
            ["gpuctl", "get", "jobs", "-o", "name"], env=dict(reader), check=True, capture_output=True, text=True
        )
        assert left.stdout == "", "the page leaves jobs behind"
    finally:
        subprocess.run(["bash", "-c", LEFT_BY_A_PAGE], env=dict(reader), check=True, capture_output=True)


@pytest.mark.slow
def test_readme_tour_prints_its_output(reader: Mapping[str, str], tmp_path: Path) -> None:
    """The last test on the sandbox: the quota of the tour stays, with its queue for all jobs of the namespace."""
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    shutil.copytree(ROOT / "examples", clone / "examples")

    def run(command: str) -> str:
        result = subprocess.run(command, shell=True, cwd=clone, env=dict(reader), capture_output=True, text=True)
        # `gpuctl diff` exits with 1 if there is a difference.
        expected = 1 if command.startswith("gpuctl diff") else 0
        assert result.returncode == expected, (command, result.stdout, result.stderr)
        return result.stdout

    try:
        printed: list[tuple[str, str]] = []
        for note, text in TOUR.findall((ROOT / "README.md").read_text(encoding="utf-8")):
            if note == "tour output":
                command, output = printed[-1]
                expected, deadline = text.removeprefix("# ...\n"), time.monotonic() + TIMEOUT
                # Kueue admits a job after a moment, so `gpuctl why` is repeated, as a reader would do.
                while expected not in output and command.startswith("gpuctl why") and time.monotonic() < deadline:
                    output = run(command)
                assert expected in output, (command, output)
            elif note == "tour":
                commands = [line for line in text.splitlines() if not line.startswith((". ", "export "))]
                printed += [(command, run(command)) for command in commands]
        first, second = (output for command, output in printed if command == "gpuctl apply -f my-team")
        assert "created   job.batch/qwen2-finetune -n nlp" in first
        assert {line.split()[0] for line in second.splitlines()} == {"unchanged"}
        assert run("kubectl get jobs,deployments,statefulsets,services -n nlp -o name") == ""
    finally:
        subprocess.run(["bash", "-c", LEFT_BY_A_PAGE], env=dict(reader), check=True, capture_output=True)


@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_a_page_is_run_or_says_why_not(page: str) -> None:
    for block in blocks(page):
        known = block.note in ("run", "printed") or block.note.startswith(("file: ", "run: exit code ", "not run: "))
        assert known, block
        assert not block.note.startswith("not run: ") or block.language == "sh", block
        assert block.note != "printed" or block.text.strip(), "an output that is not shown"


def test_variables_for_slurm_users_are_set_in_pods() -> None:
    page = "docs/paths/from-slurm.md"
    files = {block.note_after("file:"): block.text for block in blocks(page) if block.note.startswith("file:")}
    result = gpuctl.compile(
        gpuctl.Source("pretrain.yaml", files["pretrain.yaml"]),
        platform=gpuctl.Source("platform.yaml", files["platform.yaml"]),
    )
    (jobset,) = (obj for obj in result.objects if obj["kind"] == "JobSet")
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    variables = {variable["name"] for variable in template["spec"]["containers"][0]["env"]}
    named = set()
    for row in rows(page, "Variables"):
        # The job of the page is no array.
        if "torchrun" not in row[1] and "not set" not in row[1] and "ARRAY" not in row[1]:
            named |= set(re.findall(r"`([A-Z_]+)`", row[1]))
    text = (ROOT / page).read_text(encoding="utf-8")
    named |= set(re.findall(r"`(PET_[A-Z_]+)`", text))
    assert len(named) >= 12
    assert named <= variables
    assert "SLURM_" not in yaml.safe_dump(result.objects)


def test_commands_named_in_pages_exist() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for command in re.findall(r"`gpuctl ([a-z][a-z-]*)[^`]*`", text):
            assert command in COMMANDS, f"{page}: gpuctl {command}"
