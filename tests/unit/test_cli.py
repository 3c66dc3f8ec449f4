"""The command line: help, usage errors, exit codes, streams, output formats, files.

Most tests call ``run`` in this process. Tests of pipes, signals and imports start a process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import gpuctl as gpuctl_library
from gpuctl.cli import main as main_module
from gpuctl.cli.commands import init as init_module
from gpuctl.cli.main import run
from gpuctl.cli.overview import COMMANDS, OVERVIEW
from gpuctl.cli.unknown_commands import COMMAND_HINTS
from gpuctl.frontend.codes import CODES
from gpuctl.language.kinds import KINDS
from support.command import on_a_terminal
from support.repositories import Outcome, Repository

COMPILER = Path(__file__).resolve().parents[2] / "compiler"
GOOD = """\
kind: training
version: v0.1
job:
  name: qwen2-sft
environment:
  image: registry.example.com/train:v1.0
  command: ["torchrun", "train.py", "--lr", "2e-5"]
resources:
  gpu: 4
  cpu: 32
  memory: 128Gi
"""
BAD = GOOD.replace("gpu: 4", "gpu: four\n  gpu_typ: A100-80G")
WARNED = GOOD.replace("  cpu: 32\n", "")
UNTIDY = GOOD.replace("resources:\n", "resources:\n  gpuType: A100-80G\n")
PLATFORM = "kind: platform\nversion: v0.1\nlabels:\n  domain: {}\n"
TOKEN = "hf_" + "abcdefghijklmnopqrst"


Cli = Callable[..., Outcome]
Patch = pytest.MonkeyPatch


@pytest.fixture
def gpuctl(capsys: pytest.CaptureFixture[str], monkeypatch: Patch) -> Cli:
    """Return a function that runs a command line in this process."""

    def call(*arguments: str | Path, stdin: str | bytes = b"") -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Return a new current directory with documents; a git root, so that no platform.yaml above it is found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    files = {"good": GOOD, "bad": BAD, "warned": WARNED, "untidy": UNTIDY, "training": GOOD}
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a child process that imports gpuctl from the source tree."""
    return {**os.environ, "PYTHONPATH": str(COMPILER), "PYTHONUTF8": "1", **changes}


def process(arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``gpuctl`` as a process."""
    command = [sys.executable, "-m", "gpuctl", *arguments]
    options.setdefault("env", environment())
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, **options)


CLUSTER_COMMANDS = {"diff", "drift", "apply", "create", "delete", "recover", "fit", "snapshot"}
CLUSTER_COMMANDS |= {"history", "rollback"}
CLUSTER_COMMANDS |= {"get", "describe", "query", "label", "add", "remove", "pause", "resume", "rerun", "logs", "why"}
CLUSTER_COMMANDS |= {"exec", "port-forward", "open", "run", "scale", "serve", "usage", "wait"}


@pytest.fixture(autouse=True)
def no_cluster(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's own cluster."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path_factory.mktemp("home") / "none"))


# Help -----------------------------------------------------------------------------------------------------


def examples(text: str) -> list[str]:
    """Return the command lines that a help text shows as ``$ gpuctl ...``."""
    return [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("$ gpuctl")]


def test_help_lists_every_command(gpuctl: Cli) -> None:
    found = gpuctl("--help")
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80, "the help fits 80 columns"
    assert len(COMMANDS) == len(set(COMMANDS)), "a command is listed twice"
    modules = {path.stem for path in (COMPILER / "gpuctl" / "cli" / "commands").glob("[a-z]*")}
    assert {name.replace("-", "_") for name in COMMANDS} == modules, "the list of commands is incomplete"
    for group in OVERVIEW.values():
        for line in group:
            assert re.search(rf"^  .{{9}}{', '.join(line.commands)} +{re.escape(line.text)}$", found.out, re.MULTILINE)
    assert gpuctl("-h").out == found.out
    assert gpuctl().code == 2, "a call without a command is a usage error"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_shows_an_example(name: str, gpuctl: Cli) -> None:
    found = gpuctl(name, "--help")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(f"Usage: gpuctl {name} ")
    assert examples(found.out), "the help has no example"
    assert gpuctl(name, "-h").out == found.out


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_help_run(name: str, gpuctl: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here))
    # Another process may listen on the default port.
    monkeypatch.setenv("GPUCTL_SERVER_PORT", "0")
    if name in ("impact", "drift"):
        Repository(here).commit()
    (here / "train.sbatch").write_text("#SBATCH --mem=4G\npython train.py\n")
    for example in examples(gpuctl(name, "--help").out):
        program, *arguments = shlex.split(example.partition(" > ")[0])
        found = gpuctl(*arguments)
        if name in CLUSTER_COMMANDS:
            # The options are valid; tests/cluster runs these commands with a cluster.
            assert (program, found.code) == ("gpuctl", 3), example
            assert bool(found.out) == ("json" in arguments), example
            missing = "cluster.json cannot be read" if "--snapshot" in arguments else "there is no kubeconfig at "
            assert found.err.startswith(f"error: {missing}"), example
            continue
        if name in ("login", "logout"):
            # There is no terminal to ask for a token, and no saved login; tests/service logs in and out.
            assert (program, found.code) == ("gpuctl", 2), example
            continue
        assert (program, found.code, found.err) == ("gpuctl", 0, ""), example
        assert (found.out == "") == (name == "fmt"), example


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_one_line_summary(name: str) -> None:
    command = main_module.cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.name == name
    assert re.fullmatch(r"[A-Z].{10,70}\.", command.short_help or "")


def test_first_steps_in_help_run(gpuctl: Cli, here: Path) -> None:
    text = " ".join(gpuctl("--help").out.split())
    assert "`gpuctl init training > job.yaml`" in text
    assert "`gpuctl render -f job.yaml`" in text
    (here / "job.yaml").write_text(gpuctl("init", "training").out, encoding="utf-8")
    assert gpuctl("render", "-f", "job.yaml").code == 0


def test_version_is_printed_as_text_and_json(gpuctl: Cli) -> None:
    import gpuctl as package

    assert gpuctl("--version").out == f"{package.__version__}\n"
    assert gpuctl("version").out.startswith(f"gpuctl {package.__version__} ")
    found = json.loads(gpuctl("version", "-o", "json").out)
    assert found["gpuctl"] == package.__version__
    assert "1.36" in found["kubernetes"]


# Mistakes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("rendr", "Did you mean `gpuctl render`?"),
        ("valdate", "Did you mean `gpuctl validate`?"),
        ("frobnicate", "`gpuctl --help` lists the commands."),
        *COMMAND_HINTS.items(),
    ],
)
def test_unknown_command_gets_advice(typed: str, advice: str, gpuctl: Cli) -> None:
    found = gpuctl(typed)
    assert (found.code, found.out) == (2, "")
    assert found.err.endswith(f"\nerror: There is no command `{typed}`. {advice}\n")
    for program, named in re.findall(r"`(gpuctl) ([a-z][a-z-]*)", advice):
        assert named in COMMANDS, f"the advised command {program} {named} does not exist"


@pytest.mark.parametrize(
    ("typed", "advised"),
    [
        (("describe", "qwen"), "gpuctl describe job qwen"),
        (("get", "qwen"), "gpuctl get jobs qwen"),
        (("query", "qwen"), "gpuctl query jobs qwen"),
        (("delete", "qwen"), "gpuctl delete job qwen"),
        (("delete", "qwen", "--context=other"), "gpuctl delete job qwen --context=other"),
    ],
)
def test_job_name_in_place_of_a_kind_gets_advice(typed: tuple[str, str], advised: str, gpuctl: Cli) -> None:
    found = gpuctl(*typed)
    assert found.code == 2
    assert found.err.endswith(f" If `qwen` is a job: `{advised}`.\n")
    assert gpuctl(*advised.split()[1:]).code == 3, "the advised command is valid and fails for lack of a cluster"


def test_create_gets_no_spelling_suggestion(gpuctl: Cli) -> None:
    assert "Did you mean" not in gpuctl("create", "-f", "job.yaml").err


@pytest.mark.parametrize(
    ("command", "typed", "meant"),
    [("render", "--outpt", "--output"), ("render", "--git-ops", "--gitops"), ("fmt", "--chek", "--check")],
)
def test_unknown_option_gets_a_suggestion(command: str, typed: str, meant: str, gpuctl: Cli) -> None:
    found = gpuctl(command, typed, "x")
    assert (found.code, found.out) == (2, "")
    # With several similar options, older releases of click print "Possible options".
    assert re.search(rf"No such option:? '?{typed}'?.*(Did you mean|Possible options).*{meant}", found.err)


@pytest.mark.parametrize("command", ["render", "validate", "fmt"])
def test_missing_input_is_a_usage_error_with_an_example(command: str, gpuctl: Cli) -> None:
    found = gpuctl(command)
    assert (found.code, found.out) == (2, "")
    assert f"Name a file, a directory, or - for standard input: `gpuctl {command} " in found.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["render", "-o", "xml", "good.yaml"],
        ["render", "--gitops", "jenkins", "good.yaml"],
        ["validate", "-o", "yaml", "good.yaml"],
        ["init", "trainig"],
        ["init"],
        ["completion", "tcsh"],
        ["schema", "trainig"],
    ],
)
def test_invalid_arguments_exit_with_code_2(arguments: list[str], gpuctl: Cli, here: Path) -> None:
    found = gpuctl(*arguments)
    assert (found.code, found.out) == (2, "")
    assert "\nerror: " in found.err
    assert f"Try 'gpuctl {arguments[0]} --help' for help." in found.err


def test_option_without_a_value_is_reported(gpuctl: Cli) -> None:
    found = gpuctl("render", "-f")
    assert (found.code, found.out, found.err) == (2, "", "error: Option '-f' requires an argument.\n")


@pytest.mark.parametrize("name", ["Team_A", "a.b", "-a", "", "x" * 64])
def test_namespace_must_be_a_legal_name(name: str, gpuctl: Cli, here: Path) -> None:
    found = gpuctl("render", "-n", name, "good.yaml")
    assert (found.code, found.out) == (2, "")
    assert f"`{name}` is not a legal namespace name." in found.err
    if name == "Team_A":
        assert "Did you mean `team-a`?" in found.err


def test_namespace_option_applies_to_jobs_without_a_namespace(gpuctl: Cli, here: Path) -> None:
    (here / "own.yaml").write_text(GOOD.replace("name: qwen2-sft", "name: own\n  namespace: team-b"))
    objects = list(yaml.safe_load_all(gpuctl("render", "-n", "team-a", "good.yaml", "own.yaml").out))
    jobs = {obj["metadata"]["name"]: obj["metadata"]["namespace"] for obj in objects if obj["kind"] == "Job"}
    assert jobs == {"qwen2-sft": "team-a", "own": "team-b"}


@pytest.mark.parametrize("command", ["render", "validate", "fmt"])
def test_missing_file_is_reported_with_a_suggestion(command: str, gpuctl: Cli, here: Path) -> None:
    found = gpuctl(command, "trainng.yaml")
    assert found.code == 1
    shown = found.out if command == "validate" else found.err
    assert "error[GPU001]: cannot read `trainng.yaml`: there is no such file or directory" in shown
    assert "did you mean `training.yaml`?" in shown
    assert (found.err if command == "validate" else found.out) == ""


def test_all_missing_files_are_reported(gpuctl: Cli, here: Path) -> None:
    found = gpuctl("validate", "one.yaml", "good.yaml", "two.yaml", "-f", "three.yaml")
    assert (found.code, found.out.count("error[GPU001]")) == (1, 3)
    assert found.out.endswith("3 errors\n")


def test_internal_error_shows_no_traceback(gpuctl: Cli, here: Path, monkeypatch: Patch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the moon is\nin the wrong place")

    monkeypatch.setattr("gpuctl.compilation.load_found", broken)
    found = gpuctl("render", "good.yaml")
    assert (found.code, found.out) == (70, "")
    assert found.err.splitlines()[0] == "gpuctl: internal error: RuntimeError: the moon is"
    assert "Traceback" not in found.err
    with pytest.raises(RuntimeError):
        run(["--debug", "render", "good.yaml"])


# Exit codes and streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["render", "good.yaml"], 0),
        (["render", "warned.yaml"], 0),
        (["render", "--strict", "warned.yaml"], 1),
        (["render", "bad.yaml"], 1),
        (["validate", "good.yaml"], 0),
        (["validate", "warned.yaml"], 0),
        (["validate", "--strict", "warned.yaml"], 1),
        (["validate", "bad.yaml"], 1),
        (["validate", "good.yaml", "bad.yaml"], 1),
        (["fmt", "--check", "good.yaml"], 0),
        (["fmt", "--check", "untidy.yaml"], 1),
        (["fmt", "--diff", "untidy.yaml"], 1),
        (["fmt", "untidy.yaml"], 0),
        (["render"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, gpuctl: Cli, here: Path) -> None:
    assert gpuctl(*arguments).code == code


def test_render_writes_manifests_to_stdout_and_diagnostics_to_stderr(gpuctl: Cli, here: Path) -> None:
    good, warned, bad = (gpuctl("render", f"{name}.yaml") for name in ("good", "warned", "bad"))
    assert [obj["kind"] for obj in yaml.safe_load_all(good.out)] == ["PriorityClass", "Job"]
    assert good.err == ""
    assert [obj["kind"] for obj in yaml.safe_load_all(warned.out)] == ["PriorityClass", "Job"]
    assert warned.err.startswith("warning[GPU408]: ")
    assert warned.err.endswith("\n1 warning\n")
    assert bad.out == "", "nothing is printed if there are errors"
    assert bad.err.endswith("\n2 errors\n")


def test_validate_writes_diagnostics_to_stdout(gpuctl: Cli, here: Path) -> None:
    good, warned, bad = (gpuctl("validate", f"{name}.yaml") for name in ("good", "warned", "bad"))
    assert good.out == "1 document ok: 2 objects for Kubernetes 1.36\n"
    assert warned.out.startswith("warning[GPU408]: ")
    assert warned.out.endswith("\n1 warning\n1 document ok: 2 objects for Kubernetes 1.36\n")
    assert bad.out.endswith("\n2 errors\n")
    assert (good.err, warned.err, bad.err) == ("", "", "")


def test_diagnostics_as_text(gpuctl: Cli, here: Path) -> None:
    assert gpuctl("validate", "bad.yaml").out == (
        "error[GPU202]: `gpu` is a whole number, not `four`\n"
        " --> bad.yaml:9:8\n"
        "  |\n"
        "9 |   gpu: four\n"
        "  |        ^^^^ write a whole number such as 8\n"
        "\n"
        "error[GPU203]: unknown field `gpu_typ` in resources\n"
        "  --> bad.yaml:10:3\n"
        "   |\n"
        "10 |   gpu_typ: A100-80G\n"
        "   |   ^^^^^^^ did you mean `gpu-type`?\n"
        "\n"
        "2 errors\n"
    )


def test_inputs_are_files_directories_and_stdin_in_any_mix(gpuctl: Cli, here: Path) -> None:
    (here / "jobs" / "more").mkdir(parents=True)
    (here / "jobs" / "a.yaml").write_text(GOOD.replace("qwen2-sft", "in-dir"))
    (here / "jobs" / "more" / "b.yml").write_text(GOOD.replace("qwen2-sft", "deeper"))
    found = gpuctl("render", "-f", "jobs", "good.yaml", "-f", "-", stdin=GOOD.replace("qwen2-sft", "piped"))
    assert (found.code, found.err) == (0, "")
    jobs = {obj["metadata"]["name"] for obj in yaml.safe_load_all(found.out) if obj["kind"] == "Job"}
    assert jobs == {"in-dir", "deeper", "qwen2-sft", "piped"}
    assert "<stdin>:9:8" in gpuctl("render", "-", stdin=BAD).err


def test_render_json_is_one_list_with_the_same_objects(gpuctl: Cli, here: Path) -> None:
    found = json.loads(gpuctl("render", "-o", "json", "good.yaml").out)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert found["items"] == list(yaml.load_all(gpuctl("render", "good.yaml").out, yaml.CSafeLoader))


def test_render_options_change_the_objects(gpuctl: Cli, here: Path) -> None:
    def objects(*options: str) -> list[dict[str, Any]]:
        found = gpuctl("render", *options)
        assert found.code == 0
        return list(yaml.safe_load_all(found.out))

    assert [obj["kind"] for obj in objects("--no-shared", "good.yaml")] == ["Job"]
    options, force = "argocd.argoproj.io/sync-options", "kustomize.toolkit.fluxcd.io/force"
    priority, job = objects("--gitops", "argocd", "good.yaml")
    assert priority["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] == "-1"
    assert priority["metadata"]["annotations"][options] == "Prune=false,Delete=false"
    assert list(job["metadata"]["annotations"]) == ["runwhere.ai/lowered-from"]
    assert re.fullmatch(r"qwen2-sft-[0-9a-f]{6}", job["metadata"]["name"])
    assert job["metadata"]["labels"]["app"] == "qwen2-sft"
    job = objects("--gitops", "argocd", "--job-names", "plain", "good.yaml")[-1]
    assert (job["metadata"]["name"], job["metadata"]["annotations"][options]) == (
        "qwen2-sft",
        "Force=true,Replace=true",
    )
    job = objects("--gitops", "flux", "--job-names", "plain", "good.yaml")[-1]
    assert (job["metadata"]["name"], job["metadata"]["annotations"][force]) == ("qwen2-sft", "enabled")
    job = objects("--gitops", "flux", "good.yaml")[-1]
    assert list(job["metadata"]["annotations"]) == ["runwhere.ai/lowered-from"]
    assert gpuctl("render", "--job-names", "hashed", "good.yaml").code == 2
    assert [obj["kind"] for obj in objects("-n", "team-a", "good.yaml")] == ["PriorityClass", "Job"]
    assert objects("-n", "team-a", "--namespaces", "good.yaml")[0]["kind"] == "Namespace"
    job = objects("--embed", "good.yaml")[-1]
    assert json.loads(job["metadata"]["annotations"]["runwhere.ai/document"])["job"]["name"] == "qwen2-sft"
    (here / "pool.yaml").write_text(gpuctl("init", "pool").out)
    assert "Node" not in {obj["kind"] for obj in objects("pool.yaml")}
    assert [obj["kind"] for obj in objects("--nodes", "pool.yaml")].count("Node") == 2


# Formats of diagnostics -----------------------------------------------------------------------------------

PLACE = ["file", "line", "column", "endLine", "endColumn"]
KEYS = ["severity", "code", "message", *PLACE, "path", "hint", "related"]
RELATED = ["message", *PLACE]


def test_diagnostics_as_json(gpuctl: Cli, here: Path) -> None:
    found = gpuctl("validate", "-o", "json", "bad.yaml")
    assert (found.code, found.err) == (1, "")
    value = json.loads(found.out)
    assert list(value) == ["diagnostics", "errors", "warnings"]
    assert (value["errors"], value["warnings"]) == (2, 0)
    assert [list(diagnostic) for diagnostic in value["diagnostics"]] == [KEYS, KEYS]
    assert value["diagnostics"][1] == {
        "severity": "error",
        "code": "GPU203",
        "message": "unknown field `gpu_typ` in resources",
        "file": "bad.yaml",
        "line": 10,
        "column": 3,
        "endLine": 10,
        "endColumn": 10,
        "path": "resources.gpu_typ",
        "hint": "did you mean `gpu-type`?",
        "related": [],
    }
    good = gpuctl("validate", "-o", "json", "good.yaml")
    assert json.loads(good.out) == {"diagnostics": [], "errors": 0, "warnings": 0}
    assert good.code == 0


def test_json_has_related_places_stdin_and_code_points(gpuctl: Cli, here: Path) -> None:
    text = GOOD.replace("job:\n", 'job:\n  "name": first\n') + "# 中文\n"
    (diagnostic,) = json.loads(gpuctl("validate", "-o", "json", "-", stdin=text).out)["diagnostics"]
    assert (diagnostic["file"], diagnostic["line"], diagnostic["column"]) == ("<stdin>", 5, 3)
    assert [list(place) for place in diagnostic["related"]] == [RELATED]
    assert diagnostic["related"][0]["line"] == 4
    wide = GOOD.replace('["torchrun"', '["训练", [1], "torchrun"')
    (diagnostic,) = json.loads(gpuctl("validate", "-o", "json", "-", stdin=wide).out)["diagnostics"]
    assert (diagnostic["column"], diagnostic["path"]) == (19, "environment.command[1]")


def test_render_json_prints_diagnostics_of_invalid_documents(gpuctl: Cli, here: Path) -> None:
    found = gpuctl("render", "-o", "json", "bad.yaml")
    assert found.code == 1
    assert json.loads(found.out)["errors"] == 2
    assert found.err.endswith("\n2 errors\n")


def test_diagnostics_as_sarif(gpuctl: Cli, here: Path) -> None:
    (here / "mixed dir").mkdir()
    (here / "mixed dir" / "中文.yaml").write_text(BAD, encoding="utf-8")
    (here / "mixed dir" / "warned.yaml").write_text(WARNED.replace("qwen2-sft", "other"), encoding="utf-8")
    found = gpuctl("validate", "-o", "sarif", "mixed dir")
    assert (found.code, found.err) == (1, "")
    log = json.loads(found.out)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (log_run,) = log["runs"]
    driver = log_run["tool"]["driver"]
    assert driver["name"] == "gpuctl"
    assert log_run["columnKind"] == "unicodeCodePoints"
    rules = [rule["id"] for rule in driver["rules"]]
    assert rules == ["GPU202", "GPU203", "GPU408"]
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] == CODES[rule["id"]].severity
    uris = set()
    for result in log_run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] == CODES[result["ruleId"]].severity
        assert result["message"]["text"]
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])
        uris.add(location["physicalLocation"]["artifactLocation"]["uri"])
    assert uris == {"mixed%20dir/%E4%B8%AD%E6%96%87.yaml", "mixed%20dir/warned.yaml"}
    assert json.loads(gpuctl("validate", "-o", "sarif", "good.yaml").out)["runs"][0]["results"] == []


def test_diagnostics_as_github_annotations(gpuctl: Cli, here: Path) -> None:
    (here / "a,b.yaml").write_text(BAD, encoding="utf-8")
    found = gpuctl("validate", "-o", "github", "a,b.yaml", "warned.yaml")
    assert (found.code, found.err) == (1, "")
    assert found.out.startswith(
        "::error file=a%2Cb.yaml,line=9,endLine=9,col=8,endColumn=12,title=GPU202::"
        "`gpu` is a whole number, not `four`%0Awrite a whole number such as 8\n"
        "::error file=a%2Cb.yaml,line=10,endLine=10,col=3,endColumn=10,title=GPU203::"
        "unknown field `gpu_typ` in resources%0Adid you mean `gpu-type`?\n"
    )
    commands = [line.partition(" ")[0] for line in found.out.splitlines()]
    assert commands == ["::error", "::error", "::warning"]
    assert gpuctl("validate", "-o", "github", "good.yaml").out == ""


def test_diagnostics_as_junit(gpuctl: Cli, here: Path) -> None:
    (here / "other.yaml").write_text(WARNED.replace("qwen2-sft", "other"), encoding="utf-8")
    found = gpuctl("validate", "-o", "junit", "bad.yaml", "other.yaml")
    assert (found.code, found.err) == (1, "")
    root = ElementTree.fromstring(found.out)
    assert root.tag == "testsuites"
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }
    bad, warned = suite
    assert (bad.get("name"), warned.get("name")) == ("bad.yaml", "other.yaml: training/other")
    failure = bad.find("failure")
    assert failure is not None
    assert "bad.yaml:9:8: error[GPU202]" in (failure.get("message") or "")
    assert "bad.yaml:10:3: error[GPU203]" in (failure.text or "")
    assert warned.find("failure") is None
    assert "warning[GPU408]" in (warned.findtext("system-out") or "")
    (suite,) = ElementTree.fromstring(gpuctl("validate", "-o", "junit", "good.yaml").out)
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    several = f"{GOOD}---\n{WARNED.replace('qwen2-sft', 'other')}---\nkind: training\n---\n{GOOD.replace('qwen2-sft', 'third')}"
    (here / "several.yaml").write_text(several)
    (suite,) = ElementTree.fromstring(gpuctl("validate", "-o", "junit", "several.yaml").out)
    cases = {case.get("name"): [part.tag for part in case] for case in suite}
    assert cases == {
        "several.yaml": ["failure", "system-out"],
        "several.yaml: training/qwen2-sft": [],
        "several.yaml: training/other": ["system-out"],
        "several.yaml: training/third": [],
    }
    odd = gpuctl("validate", "-o", "junit", "-", stdin=BAD.replace("gpu_typ", '"a<&\\u0001]]>"'))
    assert ElementTree.fromstring(odd.out)[0].get("failures") == "1"


@pytest.mark.parametrize("where", ["jobs", ".", "jobs/deep"])
def test_ci_formats_use_paths_from_the_repository_root(where: str, gpuctl: Cli, here: Path, monkeypatch: Patch) -> None:
    """From every directory, for relative, parent and absolute paths; text, json and junit keep the name as given."""
    (here / "jobs" / "deep").mkdir(parents=True)
    path = here / "jobs" / "warned.yaml"
    path.write_text(WARNED, encoding="utf-8")
    monkeypatch.chdir(here / where)
    for name in (os.path.relpath(path), str(path)):
        assert "file=jobs/warned.yaml," in gpuctl("validate", "-o", "github", name).out
        (entry,) = json.loads(gpuctl("validate", "-o", "gitlab", name).out)
        assert entry["location"]["path"] == "jobs/warned.yaml"
        assert '"uri": "jobs/warned.yaml"' in gpuctl("validate", "-o", "sarif", name).out
        assert f" --> {name}:" in gpuctl("validate", name).out


def test_diagnostics_as_gitlab_code_quality(gpuctl: Cli, here: Path) -> None:
    """Each entry has GitLab's required fields; its fingerprint does not change when lines are added above."""
    found = gpuctl("validate", "-o", "gitlab", "bad.yaml")
    assert (found.code, found.err) == (1, "")
    entries = json.loads(found.out)
    assert [(entry["check_name"], entry["severity"], entry["location"]["lines"]) for entry in entries] == [
        ("GPU202", "major", {"begin": 9}),
        ("GPU203", "major", {"begin": 10}),
    ]
    assert len({entry["fingerprint"] for entry in entries}) == 2
    (here / "bad.yaml").write_text("# above\n" + (here / "bad.yaml").read_text())
    moved = json.loads(gpuctl("validate", "-o", "gitlab", "bad.yaml").out)
    assert [entry["fingerprint"] for entry in moved] == [entry["fingerprint"] for entry in entries]
    assert gpuctl("validate", "-o", "gitlab", "good.yaml").out == "[]\n"


# Colour ---------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colour_on_a_terminal_follows_term_and_no_color(
    env: dict[str, str], coloured: bool, here: Path, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run(["render", "bad.yaml"]) == 1
    text = terminal.getvalue()
    assert ("\x1b[" in text) is coloured
    assert "error[GPU203]: unknown field" in re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_no_colour_in_pipes(here: Path) -> None:
    result = process(["render", "bad.yaml"], env=environment(TERM="xterm-256color"))
    assert result.returncode == 1
    assert "error[GPU203]" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr


# Processes: pipes, signals, imports -----------------------------------------------------------------------


def start_process(*arguments: str) -> subprocess.Popen[str]:
    """Start ``gpuctl`` with pipes for its output."""
    command = [sys.executable, "-m", "gpuctl", *arguments]
    return subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def write_many_documents(directory: Path) -> None:
    """Write ``many.yaml`` and ``bad``: the output for each is larger than a pipe's buffer."""
    documents = [GOOD.replace("qwen2", f"n{number}") for number in range(200)]
    (directory / "many.yaml").write_text("---\n".join(documents))
    (directory / "bad").mkdir()
    for number in range(250):
        (directory / "bad" / f"{number}.yaml").write_text(BAD.replace("qwen2", f"n{number}"))


@pytest.mark.parametrize("line", ["render many.yaml", "validate -o json bad", "--help"])
def test_closed_pipe_prints_no_error(line: str, here: Path) -> None:
    """For example: ``gpuctl render -f many.yaml | head -1``."""
    write_many_documents(here)
    with start_process(*line.split()) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        child.stdout.close()
        stderr = child.stderr.read()
    assert first
    assert stderr == ""


def test_closed_pipe_exits_with_141(here: Path) -> None:
    write_many_documents(here)
    with start_process("render", "many.yaml") as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
    assert child.returncode == 141


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_interrupt_exits_with_130(here: Path) -> None:
    os.mkfifo("slow.yaml")
    with start_process("render", "slow.yaml") as child:
        writer = None
        while writer is None and child.poll() is None:
            # The open succeeds once gpuctl has opened the other end and waits for data.
            with contextlib.suppress(OSError):
                writer = os.open("slow.yaml", os.O_WRONLY | os.O_NONBLOCK)
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=30)
        if writer is not None:
            os.close(writer)
    assert (child.returncode, stdout, stderr.strip()) == (130, "", "Interrupted.")


def test_import_loads_no_third_party_packages() -> None:
    code = "import sys, gpuctl; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert loaded.isdisjoint({"kubernetes", "jsonschema", "deepdiff", "rich", "click", "pydantic", "yaml"})


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"LC_ALL": "zh_CN.GB18030"}])
def test_chinese_passes_through_in_any_locale(variables: dict[str, str], here: Path) -> None:
    text = GOOD.replace("name: qwen2-sft", "name: qwen2-sft\n  description: 训练任务")
    (here / "训练.yaml").write_text(text, encoding="utf-8")
    result = process(["render", "训练.yaml"], env={**environment(**variables), "PYTHONUTF8": "1"})
    assert (result.returncode, result.stderr) == (0, "")
    assert "训练任务" in result.stdout


@pytest.mark.parametrize(
    "variables",
    [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "gbk"}],
)
def test_manifests_are_utf8_in_any_locale(variables: dict[str, str], here: Path) -> None:
    text = GOOD.replace("name: qwen2-sft", "name: qwen2-sft\n  description: 训练任务 é")
    (here / "job.yaml").write_text(text, encoding="utf-8")
    env = {**environment(**variables), "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "gpuctl", "render", "job.yaml"]
    result = subprocess.run(command, env=env, capture_output=True)
    assert result.returncode == 0
    assert "训练任务 é".encode() in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_not_an_internal_error(here: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "gpuctl", "render", "good.yaml"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 1
    assert "internal error" not in result.stderr
    assert "no space left on device" in result.stderr.lower()


def test_missing_package_file_is_an_internal_error(gpuctl: Cli, here: Path, monkeypatch: Patch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "kubernetes-1.36.json")

    monkeypatch.setattr("gpuctl.compilation.load_found", broken)
    found = gpuctl("render", "good.yaml")
    assert (found.code, found.out) == (70, "")
    assert "internal error: FileNotFoundError" in found.err


@pytest.mark.parametrize("line", ["render good.yaml >&-", "render - <&-"])
def test_closed_stream_is_not_an_internal_error(line: str, here: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m gpuctl {line}"
    result = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, text=True)
    assert result.returncode == 1
    assert "internal error" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("--kubeconfig F get jobs", "gpuctl get jobs --kubeconfig F"),
        ("--context prod why sft -o json", "gpuctl why --context prod sft -o json"),
        ("-n team logs sft", "gpuctl logs -n team sft"),
        ("--as anna delete job sft", "gpuctl delete --as anna job sft"),
        ("get --context prod po", "gpuctl get po --context prod"),
        ("-n team exec sft -- nvidia-smi -L", "gpuctl exec -n team sft -- nvidia-smi -L"),
        ("--namespace 'a b' get pods", "gpuctl get pods --namespace 'a b'"),
    ],
)
def test_option_before_the_command_gets_the_right_order(line: str, meant: str, gpuctl: Cli, here: Path) -> None:
    words = shlex.split(line)
    found = gpuctl(*words)
    assert found.code == 2
    assert f"` goes after the command: `{meant}`" in found.err


@pytest.mark.parametrize(
    "line", ["--bogus get jobs", "--kubeconfig F render a.yaml", "--kubeconfig F", "get --bogus jobs"]
)
def test_option_of_no_command_is_unknown(line: str, gpuctl: Cli, here: Path) -> None:
    found = gpuctl(*line.split())
    assert found.code == 2
    assert "No such option" in found.err


# Completion -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_have_valid_syntax(shell: str, gpuctl: Cli, here: Path) -> None:
    found = gpuctl("completion", shell)
    assert (found.code, found.err) == (0, "")
    assert "_GPUCTL_COMPLETE" in found.out
    program = shutil.which(shell)
    if program is None:
        assert shell != "bash", "bash is not installed"
        return
    (here / "script").write_text(found.out, encoding="utf-8")
    check = subprocess.run([program, "-n", "script"], capture_output=True, text=True)
    assert (check.returncode, check.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "word", "wanted"),
    [
        ("gpuctl re", 1, "plain,render"),
        ("gpuctl init tr", 2, "plain,training"),
        ("gpuctl schema tr", 2, "plain,training"),
        ("gpuctl explain tr", 2, "plain,training"),
        ("gpuctl explain training.res", 2, "plain,training.resources"),
        ("gpuctl explain training.resources.gpu-t", 2, "plain,training.resources.gpu-type"),
        ("gpuctl explain gpu20", 2, "plain,GPU203"),
        ("gpuctl render --gi", 2, "--gitops"),
    ],
)
def test_completion_suggests_commands_kinds_fields_and_options(
    line: str, word: int, wanted: str, capsys: pytest.CaptureFixture[str], monkeypatch: Patch
) -> None:
    """tests/cluster completes names in a process, as shells do."""
    variables = {"_GPUCTL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(word)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    assert wanted in capsys.readouterr().out


# fmt ------------------------------------------------------------------------------------------------------


def test_fmt_rewrites_in_place_and_keeps_mode_and_links(gpuctl: Cli, here: Path) -> None:
    (here / "untidy.yaml").chmod(0o640)
    (here / "link.yaml").symlink_to("untidy.yaml")
    found = gpuctl("fmt", "link.yaml")
    assert (found.code, found.out, found.err) == (0, "", "link.yaml: rewritten\n")
    assert (here / "untidy.yaml").read_text() == UNTIDY.replace("gpuType", "gpu-type")
    assert (here / "untidy.yaml").stat().st_mode & 0o777 == 0o640
    assert (here / "link.yaml").is_symlink()
    again = gpuctl("fmt", "link.yaml")
    assert (again.code, again.out, again.err) == (0, "", "")
    assert sorted(path.name for path in here.glob(".*")) == [".git"], "no temporary file stays"


@pytest.mark.parametrize("last", ["", "\n", "\n\n"], ids=["no last break", "one", "two"])
def test_fmt_keeps_the_line_breaks_of_a_windows_checkout(last: str, gpuctl: Cli, here: Path) -> None:
    """Also in block texts, comments and foreign documents. A file with mixed line breaks gets those of its first line."""
    script = (
        GOOD
        + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n# comment\n---\nkind: compute\nversion: v0.1\njob: {name: b}\nenvironment:\n  image: a:1\n"
    )
    script += "  command:\n  - bash\n  - -c\n  - |\n    a  \n    b\nresources:\n  cpu: 1"
    path, windows = here / "windows.yaml", (script + "\n").replace("\n", "\r\n").encode()
    path.write_bytes((script + last).replace("\n", "\r\n").encode())
    gpuctl("fmt", "windows.yaml")
    assert path.read_bytes() == windows
    assert gpuctl("fmt", "--check", "windows.yaml").code == 0
    path.write_bytes(windows.replace(b"name: b}\r\n", b"name: b}\n"))
    assert gpuctl("fmt", "--check", "windows.yaml").code == 1
    gpuctl("fmt", "windows.yaml")
    assert path.read_bytes() == windows


def test_fmt_keeps_a_byte_order_mark(gpuctl: Cli, here: Path) -> None:
    path, tidy = here / "untidy.yaml", UNTIDY.replace("gpuType", "gpu-type")
    path.write_text("\ufeff" + UNTIDY, encoding="utf-8")
    assert gpuctl("fmt", "-", stdin="\ufeff" + UNTIDY).out == "\ufeff" + tidy
    gpuctl("fmt", "untidy.yaml")
    assert path.read_text(encoding="utf-8") == "\ufeff" + tidy
    assert gpuctl("fmt", "--check", "untidy.yaml").code == 0


def test_fmt_check_and_diff_change_nothing(gpuctl: Cli, here: Path) -> None:
    check = gpuctl("fmt", "--check", "good.yaml", "untidy.yaml")
    assert (check.code, check.out, check.err) == (1, "untidy.yaml: would be rewritten\n", "")
    diff = gpuctl("fmt", "--diff", "untidy.yaml")
    assert diff.code == 1
    assert diff.out.startswith("--- untidy.yaml (now)\n+++ untidy.yaml (formatted)\n@@ ")
    assert "\n-  gpuType: A100-80G\n+  gpu-type: A100-80G\n" in diff.out
    assert (here / "untidy.yaml").read_text() == UNTIDY
    good = gpuctl("fmt", "--check", "--diff", "good.yaml")
    assert (good.code, good.out, good.err) == (0, "", "")


def test_fmt_diff_can_be_applied_by_git(gpuctl: Cli, here: Path) -> None:
    """Other line separators than a line feed are characters within a line."""
    text = UNTIDY.replace("job:", 'job:\n  Description: "one\u2028two\x85three"', 1)
    (here / "untidy.yaml").write_text(text, encoding="utf-8")
    diff = gpuctl("fmt", "--diff", "untidy.yaml").out
    assert "No newline" not in diff
    (here / "the.diff").write_text(diff.replace(" (now)", "").replace(" (formatted)", ""), encoding="utf-8")
    subprocess.run(["git", "apply", "-p0", "the.diff"], cwd=here, check=True)
    assert gpuctl("fmt", "--check", "untidy.yaml").code == 0
    assert (here / "untidy.yaml").read_text(encoding="utf-8") == text.replace("gpuType", "gpu-type").replace(
        "Desc", "desc"
    )


def test_fmt_of_stdin_goes_to_stdout(gpuctl: Cli, here: Path) -> None:
    found = gpuctl("fmt", "-", stdin=UNTIDY)
    assert (found.code, found.out, found.err) == (0, UNTIDY.replace("gpuType", "gpu-type"), "")
    check = gpuctl("fmt", "--check", "-", stdin=UNTIDY)
    assert (check.code, check.out) == (1, "<stdin>: would be rewritten\n")
    assert gpuctl("fmt", "-", stdin=GOOD).out == GOOD
    broken = gpuctl("fmt", "-", stdin=GOOD + "\tx: [\n")
    assert broken.code == 1
    assert broken.out == GOOD + "\tx: [\n", "text that cannot be formatted is printed unchanged"
    assert "error[GPU" in broken.err


def test_fmt_reports_a_file_that_cannot_be_written(gpuctl: Cli, here: Path, monkeypatch: Patch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    found = gpuctl("fmt", "untidy.yaml")
    assert (found.code, found.out) == (1, "")
    assert "cannot write `untidy.yaml`: permission denied; the file is unchanged" in found.err
    assert (here / "untidy.yaml").read_text() == UNTIDY


def test_fmt_reports_a_file_that_cannot_be_replaced(gpuctl: Cli, here: Path, monkeypatch: Patch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    found = gpuctl("fmt", "untidy.yaml")
    assert (found.code, found.out) == (1, "")
    assert "cannot write `untidy.yaml`: no space left on device; the file is unchanged" in found.err
    assert (here / "untidy.yaml").read_text() == UNTIDY
    assert sorted(path.name for path in here.glob(".*")) == [".git"], "no temporary file stays"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind root")
def test_fmt_reports_a_read_only_directory(gpuctl: Cli, here: Path) -> None:
    closed = here / "closed"
    closed.mkdir()
    (closed / "job.yaml").write_text(UNTIDY)
    closed.chmod(0o555)
    try:
        found = gpuctl("fmt", "closed/job.yaml")
    finally:
        closed.chmod(0o755)
    assert (found.code, found.out) == (1, "")
    assert "cannot write `closed/job.yaml`: permission denied" in found.err


def test_fmt_leaves_foreign_documents_unchanged(gpuctl: Cli, here: Path) -> None:
    (here / "jobs").mkdir()
    foreign = "apiVersion: v1\nkind: ConfigMap   \n"
    (here / "jobs" / "map.yaml").write_text(foreign)
    assert gpuctl("fmt", "jobs").code == 0
    assert (here / "jobs" / "map.yaml").read_text() == foreign


# init -----------------------------------------------------------------------------------------------------


def test_init_advises_on_a_terminal_what_to_do_with_the_document() -> None:
    code, shown = on_a_terminal("init", "pool", "--name", "a")
    assert code == 0
    assert shown.splitlines()[-3:] == [
        "`gpuctl init pool --name a > pool.yaml` writes it to a file",
        "`gpuctl validate pool.yaml` checks it",
        "`gpuctl apply -f pool.yaml` submits it",
    ]


def test_init_lists_every_kind(gpuctl: Cli) -> None:
    assert init_module.KINDS == KINDS
    found = gpuctl("init")
    # The list goes to standard error, so that `gpuctl init > job.yaml` does not write it to the document.
    assert (found.code, found.out) == (2, "")
    assert re.findall(r"^  gpuctl init (\w+) +[A-Z][^\n]+\.$", found.err, re.M) == list(KINDS)


def test_init_takes_image_gpus_and_pool_of_a_job(gpuctl: Cli) -> None:
    options = ("--image", "a/b:1", "--gpu", "2", "--pool", "train")
    found = gpuctl("init", "training", *options)
    document = yaml.safe_load(found.out)
    assert document["environment"]["image"] == "a/b:1"
    assert (document["resources"]["gpu"], document["resources"]["pool"]) == (2, "train")
    assert found.out.count("#") == gpuctl("init", "training").out.count("#"), "the comments stay"
    # Without a terminal, `new` is the same.
    assert gpuctl("new", "training", *options).out == found.out
    assert "`A:b` has upper-case letters" in gpuctl("init", "training", "--image", "A:b").err
    assert gpuctl("init", "pool", "--gpu", "1").code == 2
    assert gpuctl("new").code == 2


def test_new_asks_on_a_terminal() -> None:
    code, shown = on_a_terminal(
        "new", "--pool", "train", answer="\n".join(["compute", "Bad Name", "web", "nginx:1", "0"])
    )
    assert code == 0
    assert "`Bad Name` is not a legal name." in shown
    document = yaml.safe_load(shown[shown.rindex("# A service") : shown.rindex("`gpuctl init")])
    assert (document["kind"], document["job"]["name"], document["environment"]["image"]) == (
        "compute",
        "web",
        "nginx:1",
    )
    assert (document["resources"]["gpu"], document["resources"]["pool"]) == (0, "train")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [False, True])
def test_init_prints_a_valid_canonical_document(kind: str, named: bool, gpuctl: Cli, here: Path) -> None:
    if named and kind == "platform":
        assert gpuctl("init", kind, "--name", "x").code == 2
        return
    found = gpuctl("init", kind, *(["--name", "my-own-7"] if named else []))
    assert (found.code, found.err) == (0, "")
    document = yaml.safe_load(found.out)
    assert (document["kind"], document["version"]) == (kind, "v0.1")
    if named:
        block = document.get("job") or document.get("pool") or document.get("quota")
        assert block["name"] == "my-own-7"
    (here / "start.yaml").write_text(found.out, encoding="utf-8")
    checked = gpuctl("validate", "--strict", "start.yaml")
    assert checked.code == 0
    assert "warning" not in checked.out
    assert gpuctl("fmt", "--check", "start.yaml").code == 0


@pytest.mark.parametrize(
    ("name", "legal"),
    [("My_Job", "my-job"), ("7b", "b"), ("-", None), ("训练", None)],
)
def test_init_refuses_a_bad_name(name: str, legal: str | None, gpuctl: Cli) -> None:
    found = gpuctl("init", "training", "--name", name)
    assert (found.code, found.out) == (2, "")
    assert f"`{name}` is not a legal name." in found.err
    assert (f"Did you mean `{legal}`?" in found.err) == (legal is not None)


@pytest.mark.parametrize(("backend", "nodes", "longest"), [("job", 2, 61), ("job", 11, 60), ("jobset", 2, 40)])
def test_length_limit_of_training_names(backend: str, nodes: int, longest: int) -> None:
    platform = gpuctl_library.Source(
        "platform.yaml", f"kind: platform\nversion: v0.1\ntraining: {{backend: {backend}}}\n"
    )
    text = (
        "kind: training\nversion: v0.1\njob: {name: %s}\nresources: {nodes: %d, cpu: 1, memory: 1Gi}\n"
        "environment: {image: 'a:1', command: [run]}\n"
    )
    for length, codes in ((longest, []), (longest + 1, ["GPU217"])):
        job = gpuctl_library.Source("job.yaml", text % ("a" * length, nodes))
        found = gpuctl_library.compile(job, platform=platform).diagnostics
        assert [item.code for item in found if item.severity.value == "error"] == codes


@pytest.mark.parametrize(("kind", "longest"), [("notebook", 52), ("inference", 59), ("compute", 59)])
def test_init_enforces_the_length_limit_of_names(kind: str, longest: int, gpuctl: Cli) -> None:
    assert gpuctl("init", kind, "--name", "a" * longest).code == 0
    assert gpuctl("init", kind, "--name", "a" * (longest + 1)).code == 2


# The platform's file --------------------------------------------------------------------------------------


def label_domain(text: str) -> str:
    """Return the label domain of the job in the manifests."""
    for obj in yaml.safe_load_all(text):
        if obj["kind"] == "Job":
            (key,) = [key for key in obj["metadata"]["labels"] if key.endswith("/pool")]
            return str(key.partition("/")[0])
    raise AssertionError("no job")


@pytest.fixture
def repository(here: Path) -> Path:
    """Write outside/platform.yaml and outside/repo/team/jobs/job.yaml; return outside/repo, a git root."""
    jobs = here / "outside" / "repo" / "team" / "jobs"
    jobs.mkdir(parents=True)
    (here / "outside" / "repo" / ".git").mkdir()
    (here / "outside" / "platform.yaml").write_text(PLATFORM.format("outside.example.com"))
    (jobs / "job.yaml").write_text(GOOD)
    return here / "outside" / "repo"


def test_platform_is_found_above_the_file_up_to_the_git_root(gpuctl: Cli, repository: Path) -> None:
    job = repository / "team" / "jobs" / "job.yaml"
    assert label_domain(gpuctl("render", job).out) == "runwhere.ai", "files above the git root are ignored"
    (repository / "platform.yaml").write_text(PLATFORM.format("root.example.com"))
    assert label_domain(gpuctl("render", job).out) == "root.example.com"
    (repository / "team" / "platform.yaml").write_text(PLATFORM.format("team.example.com"))
    assert label_domain(gpuctl("render", job).out) == "team.example.com"
    assert label_domain(gpuctl("render", repository / "team").out) == "team.example.com", "and for a directory"
    assert label_domain(gpuctl("render", os.path.relpath(job)).out) == "team.example.com", "and for a relative path"


def test_platform_option_overrides_the_found_file(gpuctl: Cli, repository: Path) -> None:
    job = repository / "team" / "jobs" / "job.yaml"
    (repository / "platform.yaml").write_text(PLATFORM.format("root.example.com"))
    (repository / "other.yaml").write_text(PLATFORM.format("other.example.com"))
    assert label_domain(gpuctl("render", "--platform", repository / "other.yaml", job).out) == "other.example.com"
    missing = gpuctl("render", "--platform", repository / "nowhere.yaml", job)
    assert (missing.code, missing.out) == (1, "")
    assert "error[GPU001]" in missing.err
    wrong = gpuctl("render", "--platform", job, job)
    assert (wrong.code, wrong.out) == (1, "")
    assert "error[GPU604]" in wrong.err


def test_platform_of_stdin_is_found_from_the_working_directory(
    gpuctl: Cli, repository: Path, monkeypatch: Patch
) -> None:
    (repository / "team" / "platform.yaml").write_text(PLATFORM.format("team.example.com"))
    monkeypatch.chdir(repository / "team" / "jobs")
    assert label_domain(gpuctl("render", "-", stdin=GOOD).out) == "team.example.com"
    monkeypatch.chdir(repository)
    assert label_domain(gpuctl("render", "-", stdin=GOOD).out) == "runwhere.ai"
    assert label_domain(gpuctl("render", "team/jobs/job.yaml").out) == "team.example.com"


def test_validate_prints_the_kubernetes_version_of_the_platform(gpuctl: Cli, here: Path) -> None:
    (here / "platform.yaml").write_text('kind: platform\nversion: v0.1\nkubernetes: {version: "1.30"}\n')
    assert gpuctl("validate", "good.yaml").out == "1 document ok: 2 objects for Kubernetes 1.30\n"


# Credentials ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["render", "validate"])
@pytest.mark.parametrize("words", [f'"--hf_token={TOKEN}"', f'"--hf_token", "{TOKEN}"', f'"{TOKEN}"'])
def test_credential_in_a_command_is_masked(command: str, words: str, gpuctl: Cli, here: Path) -> None:
    (here / "job.yaml").write_text(GOOD.replace('"--lr", "2e-5"', words))
    found = gpuctl(command, "job.yaml")
    assert found.code == 0
    shown = found.err if command == "render" else found.out
    assert "warning[GPU507]" in shown
    assert '"train.py", ' in shown, "the source line is missing"
    assert "********" in shown
    assert TOKEN not in shown


@pytest.mark.parametrize("output", ["text", "json", "github", "gitlab", "junit", "sarif"])
def test_credential_is_masked_in_every_format(output: str, gpuctl: Cli, here: Path) -> None:
    (here / "job.yaml").write_text(GOOD.replace('"--lr", "2e-5"', f'"--hf_token={TOKEN}"'))
    found = gpuctl("validate", "-o", output, "job.yaml")
    assert "GPU507" in found.out
    assert TOKEN not in found.out + found.err


@pytest.mark.parametrize(
    "words",
    [
        f'"--hf_token={TOKEN}", "--wandb_token={TOKEN[::-1]}{TOKEN}"',
        f'"--hf_token={TOKEN}", "&&"',
        f'"--hf_token={TOKEN}", "$$HOME"',
    ],
)
def test_credential_is_masked_in_every_excerpt(words: str, gpuctl: Cli, here: Path) -> None:
    (here / "job.yaml").write_text(GOOD.replace('"--lr", "2e-5"', words))
    assert TOKEN not in gpuctl("validate", "job.yaml").out


@pytest.mark.parametrize("command", [f"train --hf_token={TOKEN}", f'["train --hf_token={TOKEN}"]'])
def test_credential_is_masked_in_hints(command: str, gpuctl: Cli, here: Path) -> None:
    (here / "job.yaml").write_text(re.sub(r"command: .*", f"command: {command}", GOOD))
    assert TOKEN not in gpuctl("validate", "job.yaml").out
    assert TOKEN not in gpuctl("validate", "-o", "json", "job.yaml").out


@pytest.mark.parametrize(
    "words", ['"--password=abc,s3cr3t"', '"--password", "abc s3cr3t"', '"--password", "it\'s3cr3t"']
)
def test_credential_with_separators_is_masked_completely(words: str, gpuctl: Cli, here: Path) -> None:
    (here / "job.yaml").write_text(GOOD.replace('"--lr", "2e-5"', words))
    found = gpuctl("validate", "job.yaml")
    assert "GPU507" in found.out
    assert "s3cr3t" not in found.out


def test_number_is_not_a_credential(gpuctl: Cli, here: Path) -> None:
    (here / "job.yaml").write_text(GOOD.replace('"--lr", "2e-5"', '"--max-token", "256"'))
    assert "GPU507" not in gpuctl("validate", "job.yaml").out


# Blank values, as from an unset shell variable.


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
@pytest.mark.parametrize(
    "arguments",
    [
        "delete -f @",
        "delete @",
        "delete -f a.yaml -f @",
        "delete job @",
        "delete job a @ -n x",
        "delete quota @",
        "apply -f @ --set s --prune",
        "apply -f a.yaml --set @",
        "apply -f a.yaml --platform @",
        "apply -f a.yaml --context @",
        "apply -f a.yaml --kubeconfig @",
        "apply -f a.yaml -n @",
        "apply -f a.yaml -o @",
        "apply -f a.yaml --strategy @",
        "apply -f a.yaml --timeout @",
        "create -f @",
        "diff -f @",
        "diff -f a.yaml --against @",
        "render -f @",
        "render @",
        "render a.yaml --platform @",
        "validate @",
        "validate -o @ a.yaml",
        "fmt @",
        "build @ -o out",
        "build a.yaml -o @",
        "fit -f @",
        "fit -f a.yaml --snapshot @",
        "impact --from @ .",
        "impact --from HEAD @",
        "pause @",
        "resume @",
        "rerun @",
        "history @",
        "rollback @",
        "rollback a -n @",
        "recover -n @",
        "recover --platform @",
        "wait @",
        "why @",
        "logs @",
        "logs a --pod @",
        "exec @ -- ls",
        "port-forward @",
        "open @",
        "get jobs @",
        "get jobs -n @",
        "get nodes @",
        "get nodes --pool @",
        "get pools @",
        "query jobs @",
        "describe job @",
        "describe pool @",
        "label node @ a=b",
        "add node @ --pool p",
        "add node n --pool @",
        "remove node n --pool @",
        "init @",
        "init training --name @",
        "snapshot -o @",
        "explain @",
        "schema @",
    ],
)
def test_blank_value_is_a_usage_error(
    gpuctl: Cli, arguments: str, blank: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    Path("a.yaml").write_text(GOOD)
    outcome = gpuctl(*(blank if word == "@" else word for word in arguments.split()))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Usage: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml"]


def test_blank_selectors_patterns_and_arguments_are_allowed(gpuctl: Cli, tmp_path: Path, monkeypatch: Patch) -> None:
    """They may be blank, as in kubectl; these commands fail only because there is no cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    for words in (["get", "jobs", "-l", ""], ["logs", "a", "--grep", " "], ["exec", "a", "--", "echo", ""]):
        assert gpuctl(*words).code == 3, words
