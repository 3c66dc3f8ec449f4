"""The CI kit: pre-commit, the steps of the Action, GitLab's scripts and Argo CD's plugin, run locally.

All tests use ``examples/team-repo``. A test that needs a registry or Go is skipped without one; with ``CI=true`` it
fails.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

import gpuctl as library
from gpuctl.backend.emitter import emit_stream
from gpuctl.backend.schema_validation import schema_validator
from gpuctl.gitops.object_changes import objects_in
from support.actionlint import run_actionlint
from support.go_programs import ProgramMissing
from support.kubeconform import run_kubeconform
from support.missing_parts import missing, required
from support.repositories import Outcome, Repository, gpuctl, rendered_by_another_version

ROOT = Path(__file__).resolve().parents[2]
TEAM = ROOT / "examples" / "team-repo"
PRE_COMMIT = yaml.safe_load((TEAM / ".pre-commit-config.yaml").read_text())
WORKFLOW = yaml.safe_load((TEAM / ".github" / "workflows" / "gpuctl.yml").read_text())
GITLAB = yaml.safe_load((TEAM / ".gitlab-ci.yml").read_text())
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
JOBS = yaml.safe_load((ROOT / "deploy" / "gitlab" / "gpuctl.gitlab-ci.yml").read_text())
PLUGIN = yaml.safe_load((ROOT / "deploy" / "argocd" / "plugin.yaml").read_text())


@pytest.fixture
def team(tmp_path: Path) -> Repository:
    """Return the example as a repository with one commit."""
    shutil.copytree(TEAM, tmp_path / "team", symlinks=True)
    repository = Repository(tmp_path / "team")
    repository.commit()
    return repository


def edit(repository: Repository, name: str, old: str, new: str) -> None:
    """Replace a text that occurs in a file."""
    text = (repository.root / name).read_text()
    assert old in text
    repository.write(name, text.replace(old, new))


def script(command: list[str], directory: Path, environment: Mapping[str, str]) -> Outcome:
    """Run a command with exactly this environment."""
    done = subprocess.run(
        command, cwd=directory, env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


# The example -----------------------------------------------------------------------------------------------


def test_example_passes_all_checks() -> None:
    found = gpuctl(TEAM, "validate", "--strict", ".")
    assert (found.code, found.out) == (0, "12 documents ok: 34 objects for Kubernetes 1.36\n")
    assert gpuctl(TEAM, "fmt", "--check", ".").code == 0
    checked = gpuctl(TEAM, "build", ".", "-o", "rendered", "--gitops", "argocd", "--check")
    assert (checked.code, checked.out) == (0, "rendered is up to date\n")


def test_readme_of_the_example_lists_its_files() -> None:
    documents = library.compile(TEAM).documents
    kinds = sorted(document.kind for document in documents)
    jobs = ["compute", "inference", "inference", "notebook", "training", "training"]
    assert kinds == sorted([*jobs, "platform", "pool", "pool", "pool", "quota", "quota"])
    listed = re.findall(r"^\| (`.*?) \|", (TEAM / "README.md").read_text(), re.MULTILINE)
    names = {name for cell in listed for name in re.findall(r"`([^`]+)`", cell)}
    # The README lists every entry of the directory, also `rendered`, which holds no document.
    there = {f"{path.name}/" if path.is_dir() else path.name for path in TEAM.iterdir()}
    assert names == there - {"README.md"}


def test_manifests_of_the_example_are_valid() -> None:
    objects = list(objects_in(TEAM / "rendered").values())
    assert len(objects) == len(list((TEAM / "rendered").rglob("*.yaml"))) == 26
    validator = schema_validator("1.36")
    assert [violation for obj in objects for violation in validator.check(obj)] == []
    with required(ProgramMissing):
        assert run_kubeconform(emit_stream(objects), "1.36") == []


def test_all_ci_configurations_use_the_same_build_options() -> None:
    (hooks,) = (repo["hooks"] for repo in PRE_COMMIT["repos"])
    (build,) = (hook["args"] for hook in hooks if hook["id"] == "gpuctl-build")
    (step,) = (step for step in WORKFLOW["jobs"]["check"]["steps"] if step.get("id") == "gpuctl")
    assert build == [".", "-o", step["with"]["output"], *step["with"]["build-options"].split()]
    assert GITLAB["variables"]["GPUCTL_OUTPUT"] == step["with"]["output"]
    assert GITLAB["variables"]["GPUCTL_BUILD_OPTIONS"] == step["with"]["build-options"]
    assert " ".join(["gpuctl build", *build]) in (TEAM / "README.md").read_text().splitlines()


# Installed as the Action installs it -----------------------------------------------------------------------


@pytest.fixture
def installed(programs: Path) -> Path:
    """Return a directory in which gpuctl is installed."""
    return programs


@pytest.mark.slow
def test_action_installs_gpuctl(team: Repository, tmp_path: Path) -> None:
    """Dependencies come from this interpreter, so that only the build backend is downloaded."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    lines = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (packages / "dependencies.pth").write_text("".join(f"{line}\n" for line in lines))
    step = next(step for step in ACTION["runs"]["steps"] if step.get("name") == "Install gpuctl")
    environment = {**os.environ, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}", "SOURCE": str(ROOT)}
    environment.pop("PYTHONPATH", None)
    done = script([*SHELLS[step["shell"]], step["run"]], venv, environment)
    if done.code != 0:
        missing(f"pip cannot install gpuctl here: {done.err.strip().splitlines()[-1]}")
    assert (venv / "bin" / "gpuctl").exists()
    assert {name: ran.code for name, ran in Action(team, venv / "bin", base="HEAD").run().items()} == {
        "Validate": 0,
        "Impact": 0,
    }


# The shells of a composite action's steps and of GitLab's scripts. Source: the workflow syntax's `shell`.
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]}


# The Action ------------------------------------------------------------------------------------------------


class Action:
    """The steps of ``action.yml`` in order, executed like a runner does: conditions, environment, outcomes."""

    def __init__(self, team: Repository, bin_directory: Path, **inputs: str) -> None:
        self.directory = team.root
        self.temporary = team.root.parent / "runner"
        self.temporary.mkdir(exist_ok=True)
        defaults = {name: spec["default"] for name, spec in ACTION["inputs"].items()}
        assert not set(inputs) - {name.replace("-", "_") for name in defaults}
        self.inputs = {**defaults, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        self.path = f"{bin_directory}{os.pathsep}{os.environ['PATH']}"
        self.event = "pull_request"
        self.before = ""
        self.github: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.ran: dict[str, Outcome] = {}

    def run(self, *names: str) -> dict[str, Outcome]:
        """Run the steps; return the outcome of each by its name, without the skipped ones.

        :param names: the steps to run; the others count as successful. Without any, all steps run.
        """
        failed = False
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or step["name"] == "Install gpuctl":
                continue
            if names and step["name"] not in names:
                self.outcomes[step.get("id", "")] = "success"
                continue
            condition = str(step.get("if", ""))
            wanted = self._holds(condition) and (not failed or "cancelled()" in condition)
            if wanted:
                self.ran[step["name"]] = self._step(step)
                failed = failed or self.ran[step["name"]].code != 0
            if "id" in step:
                outcome = ("failure" if self.ran[step["name"]].code else "success") if wanted else "skipped"
                self.outcomes[step["id"]] = outcome
        return self.ran

    def _value(self, expression: str) -> str:
        known = {
            "github.action_path": str(ROOT),
            "github.event.pull_request.base.sha": "",
            "github.event.before": self.before,
            "github.event_name": self.event,
            "github.token": "ghs_token",
            "runner.temp": str(self.temporary),
            **{f"inputs.{name}": value for name, value in self.inputs.items()},
            **{f"steps.{name}.outcome": value for name, value in self.outcomes.items()},
            "steps.impact.outputs.report": self.written("output").rpartition("report=")[2].strip(),
        }
        return known[expression]

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda match: self._value(match[1]), text)

    def _holds(self, condition: str) -> bool:
        terms = condition.removeprefix("${{").removesuffix("}}").split("&&")
        for term in (term.strip() for term in terms):
            if term in ("", "!cancelled()"):
                continue
            ((left, operator, right),) = re.findall(r"^([\w.-]+) (==|!=) '(\w*)'$", term)
            if (self._filled(self._value(left)) == right) != (operator == "=="):
                return False
        return True

    def _step(self, step: dict[str, Any]) -> Outcome:
        environment = {
            "PATH": self.path,
            "HOME": str(self.temporary),
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary"),
            "GITHUB_OUTPUT": str(self.temporary / "output"),
            **self.github,
            # A value may be an expression whose value is another one, as the default of `base`: expand it twice.
            **{name: self._filled(self._filled(value)) for name, value in step.get("env", {}).items()},
        }
        return script([*SHELLS[step["shell"]], step["run"]], self.directory, environment)

    def written(self, name: str) -> str:
        """Return what the steps wrote to a file of the runner."""
        path = self.temporary / name
        return path.read_text() if path.exists() else ""


def test_action_writes_report_and_summary_of_a_pull_request(team: Repository, installed: Path) -> None:
    base = team.git("rev-parse", "HEAD").strip()
    edit(team, "jobs/vision/segment.yaml", "gpu: 4,", "gpu: 6,")
    built = team.gpuctl("build", ".", "-o", "rendered", "--gitops", "argocd")
    assert built.code == 0
    team.commit()
    action = Action(team, installed, output="rendered", build_options="--gitops argocd", base=base, strict="true")
    steps = action.run()
    assert {name: ran.code for name, ran in steps.items()} == {
        "Validate": 0,
        "Impact": 0,
        "Check the rendered manifests": 0,
    }
    assert action.written("summary").startswith("## GPU impact: +2 GPUs; 1 object changed\n")
    assert action.written("output") == f"report={action.temporary}/gpuctl-impact.md\n"
    assert action.written("gpuctl-impact.md") == action.written("summary")
    assert steps["Check the rendered manifests"].out == "rendered is up to date\n"
    assert team.git("status", "--porcelain") == ""


def test_action_fails_for_invalid_documents_and_stale_manifests(team: Repository, installed: Path) -> None:
    base = team.git("rev-parse", "HEAD").strip()
    edit(team, "jobs/nlp/chat.yaml", "maxReplicas: 6", "maxReplicas: 60")
    action = Action(team, installed, output="rendered", build_options="--gitops argocd", base=base)
    steps = action.run()
    # The manifests are checked although the impact report found a problem.
    assert {name: ran.code for name, ran in steps.items()} == {
        "Validate": 0,
        "Impact": 1,
        "Check the rendered manifests": 1,
    }
    assert "- pool serving: jobs ask for 3 to 63 L40S-48G GPUs, and it has 16\n" in action.written("summary")
    assert "report=" in action.written("output")
    assert "differs nlp/horizontalpodautoscaler-chat.yaml" in steps["Check the rendered manifests"].out
    edit(team, "jobs/nlp/chat.yaml", "gpu: 1,", "gpu: one,")
    action = Action(team, installed, output="rendered", base=base)
    again = action.run()
    assert {name: ran.code for name, ran in again.items()} == {"Validate": 1, "Impact": 2}
    assert re.match(r"::error file=jobs/nlp/chat.yaml,line=11,", again["Validate"].out)
    # The report of the first run.
    assert action.written("output").count("report=") == 1


def test_action_reports_a_job_that_fits_no_node(team: Repository, installed: Path) -> None:
    base = team.git("rev-parse", "HEAD").strip()
    edit(team, "jobs/nlp/chat.yaml", "gpu: 1,", "gpu: 100,")
    action = Action(team, installed, base=base)
    assert {name: ran.code for name, ran in action.run().items()} == {"Validate": 1, "Impact": 1}
    assert "inference chat in nlp: the job needs 100 GPUs on one node" in action.written("summary")


def test_action_only_validates_outside_a_pull_request(team: Repository, installed: Path) -> None:
    assert list(Action(team, installed).run()) == ["Validate"]
    edit(team, "quotas.yaml", "gpu: 32", "gpu: 3")
    assert Action(team, installed, files="quotas.yaml jobs").run()["Validate"].code == 0
    assert Action(team, installed, files="quotas.yaml jobs", strict="true").run()["Validate"].code == 1


def commit_older_rendering(team: Repository) -> tuple[str, str, str]:
    """Return three commits: before and after another version rendered a training, and a later one without a change of
    it.
    """
    (path,) = (team.root / "rendered/vision").glob("job-segment-*.yaml")
    without = team.git("rev-parse", "HEAD").strip()
    rendered_by_another_version(team, f"rendered/vision/{path.name}")
    return without, team.commit(), team.commit()


KEPT = "kept: training segment in vision: rendered by another version of gpuctl; --relower renders it again\n"
KEPT += "rendered is up to date\n"


@pytest.mark.parametrize(
    ("event", "base", "before", "code"),
    [
        ("pull_request", 1, None, 0),
        ("pull_request", 0, None, 1),
        # The pull request's own commit before the push.
        ("pull_request", None, 1, 1),
        ("push", None, 1, 0),
        pytest.param("push", None, 0, 1, marks=pytest.mark.slow),
        pytest.param("push", None, None, 1, marks=pytest.mark.slow),
    ],
)
def test_action_keeps_older_manifests_of_the_base_only(
    team: Repository, installed: Path, event: str, base: int | None, before: int | None, code: int
) -> None:
    commits = commit_older_rendering(team)
    named = "" if base is None else commits[base]
    action = Action(team, installed, output="rendered", build_options="--gitops argocd", base=named)
    action.event, action.before = event, "0" * 40 if before is None else commits[before]
    checked = action.run("Check the rendered manifests")["Check the rendered manifests"]
    assert (checked.code, checked.out == KEPT) == (code, code == 0), checked.out + checked.err


@pytest.mark.parametrize("shell", ["bash", pytest.param("sh", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": 1}, 0),
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": 0, "CI_COMMIT_BEFORE_SHA": 1}, 1),
        ({"CI_COMMIT_BEFORE_SHA": 1}, 0),
        ({}, 1),
    ],
)
def test_gitlab_keeps_older_manifests_of_the_base_only(
    team: Repository, installed: Path, shell: str, variables: dict[str, int], code: int
) -> None:
    commits = commit_older_rendering(team)
    values = {"CI_COMMIT_BEFORE_SHA": "0" * 40, **{name: commits[at] for name, at in variables.items()}}
    checked = gitlab(team, "gpuctl-build", installed, shell, **values)
    assert (checked.code, checked.out == KEPT) == (code, code == 0), checked.out + checked.err


def test_action_fetches_the_base_commit(team: Repository, installed: Path) -> None:
    base = team.git("rev-parse", "HEAD").strip()
    edit(team, "jobs/vision/segment.yaml", "gpu: 4,", "gpu: 6,")
    team.commit()
    team.git("config", "uploadpack.allowAnySHA1InWant", "true")
    shallow = team.root.parent / "shallow"
    team.git("clone", "--quiet", "--depth=1", f"file://{team.root}", str(shallow))
    action = Action(Repository(shallow), installed, base=base)
    assert action.run("Impact")["Impact"].code == 0
    assert "+2 GPUs" in action.written("summary")


def test_scripts_contain_no_expressions() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    for job in WORKFLOW["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


def test_action_does_not_execute_hostile_inputs(team: Repository, installed: Path) -> None:
    made = team.root / "made"
    for files in (f". ; touch {made}", f"$(touch {made})", "--help", "`touch made`"):
        ran = Action(team, installed, files=files, base="HEAD").run()
        assert list(ran) == ["Validate", "Impact"], files
        assert ran["Validate"].code == 1
    assert not made.exists()


def test_files_input_may_have_several_lines(team: Repository, installed: Path) -> None:
    edit(team, "quotas.yaml", "gpu: 32", "gpu: three")
    edit(team, "jobs/nlp/chat.yaml", "gpu: 1,", "gpu: one,")
    ran = Action(team, installed, files="  quotas.yaml\n\n  jobs pools.yaml\n", base="HEAD").run()
    assert ran["Validate"].code == 1
    for name in ("quotas.yaml", "jobs/nlp/chat.yaml"):
        assert f"::error file={name},line=" in ran["Validate"].out
    assert ran["Impact"].code == 2


def test_build_options_input_may_have_several_lines(team: Repository, installed: Path) -> None:
    action = Action(team, installed, output="rendered", build_options="--gitops\nargocd\n")
    checked = action.run("Check the rendered manifests")["Check the rendered manifests"]
    assert checked.out == "rendered is up to date\n"


def test_pull_request_cannot_replace_the_tools_that_check_it(team: Repository) -> None:
    installed = Path(sys.executable).parent
    made = team.root / "made"
    for name in ("pip.py", "pip/__init__.py", "pip/__main__.py", "json.py", "urllib/__init__.py", "gpuctl/__init__.py"):
        team.write(name, f"open({str(made)!r}, 'w')\n")
    for step in ACTION["runs"]["steps"]:
        if step.get("name") == "Install gpuctl":
            version = re.sub(r"pip install .*", "pip --version", step["run"])
            assert version.count("pip --version") == 2
            assert script([*SHELLS["bash"], version], team.root, {"PATH": Action(team, installed).path}).code == 0
    Action(team, installed, base="HEAD").run()
    for line in JOBS[".gpuctl"]["before_script"]:
        assert "python -m" not in line
    assert not made.exists()


def test_action_refuses_pull_request_target(team: Repository, installed: Path) -> None:
    action = Action(team, installed)
    action.event = "pull_request_target"
    ran = action.run()
    assert list(ran) == ["Refuse pull_request_target"]
    assert "use on: pull_request" in ran["Refuse pull_request_target"].out


class GitHub:
    """GitHub's API of issue comments. Source: docs.github.com/rest/issues/comments."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.status = 200
        self.calls: list[str] = []
        github = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                size, page = int(query["per_page"][0]), int(query["page"][0])
                self.answer(github.comments[size * (page - 1) : size * page])

            def do_POST(self) -> None:
                github.add("github-actions[bot]", self.body())
                self.answer(github.comments[-1])

            def do_PATCH(self) -> None:
                number = int(self.path.rpartition("/")[2])
                comment = next(comment for comment in github.comments if comment["id"] == number)
                comment["body"] = self.body()
                self.answer(comment)

            def body(self) -> str:
                text: str = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
                return text

            def answer(self, value: Any) -> None:
                assert self.headers["Authorization"] == "Bearer ghs_token"
                github.calls.append(f"{self.command} {self.path}")
                self.send_response(github.status)
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, login: str, body: str) -> None:
        """Add a comment of a user."""
        self.comments.append({"id": 1000 + len(self.comments), "user": {"login": login}, "body": body})

    @property
    def bodies(self) -> list[str]:
        """The texts of the comments."""
        return [comment["body"] for comment in self.comments]


@pytest.fixture
def github() -> Iterator[GitHub]:
    """Run a GitHub without comments."""
    server = GitHub()
    yield server
    server.server.shutdown()
    server.server.server_close()


def run_comment_step(
    team: Repository, installed: Path, github: GitHub, *, fork: bool = False, **inputs: str
) -> Outcome:
    """Run the steps "Impact" and "Comment" of the action; return the outcome of the second."""
    action = Action(team, installed, comment="true", **inputs)
    head = {"repo": None if fork else {"full_name": "org/team"}}
    event = action.temporary / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": head}}))
    host, port = github.server.server_address[:2]
    action.github = {
        "GITHUB_API_URL": f"http://{host!s}:{port}",
        "GITHUB_REPOSITORY": "org/team",
        "GITHUB_EVENT_PATH": str(event),
        "no_proxy": "*",
    }
    return action.run("Impact", "Comment")["Comment"]


def test_action_replaces_only_its_own_comment(team: Repository, installed: Path, github: GitHub) -> None:
    base = team.git("rev-parse", "HEAD").strip()
    for number in range(120):
        github.add("alice", f"comment {number}")
    assert run_comment_step(team, installed, github, base=base).code == 0
    mark, _, first = github.bodies[120].partition("\n")
    assert first.startswith("## GPU impact: no change")
    github.add("mallory", f"{mark}\nforged")
    github.add("github-actions[bot]", "the comment of another action")
    others = [body for number, body in enumerate(github.bodies) if number != 120]
    edit(team, "jobs/vision/segment.yaml", "gpu: 4,", "gpu: 6,")
    assert run_comment_step(team, installed, github, base=base).code == 0
    assert github.bodies[120].startswith(f"{mark}\n## GPU impact: +2 GPUs")
    assert [body for number, body in enumerate(github.bodies) if number != 120] == others
    # A second use of the action in the workflow has its own comment.
    assert run_comment_step(team, installed, github, base=base, files="jobs\nquotas.yaml pools.yaml").code == 0
    assert len(github.bodies) == 124


def test_action_does_not_comment_on_a_pull_request_of_a_fork(team: Repository, installed: Path, github: GitHub) -> None:
    ran = run_comment_step(team, installed, github, fork=True, base="HEAD")
    assert (ran.code, github.calls) == (0, [])
    assert ran.out.startswith("::notice::the pull request comes from a fork")


def test_refused_comment_fails_with_advice(team: Repository, installed: Path, github: GitHub) -> None:
    github.status = 403
    ran = run_comment_step(team, installed, github, base="HEAD")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("::error::GitHub refuses the comment (403): give the job `permissions: ")


def test_long_report_is_cut_to_the_comment_limit(tmp_path: Path) -> None:
    comment = runpy.run_path(str(ROOT / "deploy" / "github" / "comment.py"))
    body = comment["body_of"]("<!-- m -->", "x" * 70_000)
    assert len(body) == 65_536
    assert body.endswith("the summary of the run has all of it.\n")


@pytest.mark.slow
def test_workflow_passes_actionlint(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    shutil.copy(ROOT / "action.yml", tmp_path)
    text = (TEAM / ".github" / "workflows" / "gpuctl.yml").read_text()
    local = re.sub(r"uses: your-org/gpuctl@\S+", "uses: ./", text)
    assert local != text
    repository.write(".github/workflows/gpuctl.yml", local)
    with required(ProgramMissing):
        assert run_actionlint(tmp_path) == []
    # actionlint reads the action's inputs and outputs: it reports names that the action does not have.
    repository.write(".github/workflows/gpuctl.yml", local.replace("output: rendered", "outptu: rendered"))
    assert any('input "outptu" is not defined' in line for line in run_actionlint(tmp_path))
    step = '      - run: cat "$REPORT"\n        env:\n          REPORT: ${{ steps.gpuctl.outputs.%s }}\n'
    repository.write(".github/workflows/gpuctl.yml", local + step % "report")
    assert run_actionlint(tmp_path) == []
    repository.write(".github/workflows/gpuctl.yml", local + step % "reprot")
    assert any('"reprot" is not defined' in line for line in run_actionlint(tmp_path))


# GitLab ----------------------------------------------------------------------------------------------------


def gitlab(team: Repository, job: str, installed: Path, shell: str = "bash", **variables: str) -> Outcome:
    """Run a job's scripts like GitLab's runner: all lines in one shell that exits at the first failure."""
    spec = {**JOBS[".gpuctl"], **JOBS[job]}
    assert JOBS[job]["extends"] == ".gpuctl"
    environment = {
        "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(team.root.parent),
        **{name: str(value) for name, value in {**JOBS["variables"], **GITLAB["variables"]}.items()},
        **{name: str(value) for name, value in spec.get("variables", {}).items()},
        **variables,
    }
    # The installation is tested with the Action.
    lines = [line for line in spec["before_script"] if "pip install" not in line] + spec["script"]
    options = ["-eo", "pipefail"] if shell == "bash" else ["-e"]
    return script([shell, *options, "-c", "\n".join(lines)], team.root, environment)


@pytest.mark.parametrize("shell", ["bash", pytest.param("sh", marks=pytest.mark.slow)])
def test_gitlab_jobs_check_a_merge_request(team: Repository, installed: Path, shell: str) -> None:
    base = team.git("rev-parse", "HEAD").strip()
    assert gitlab(team, "gpuctl-validate", installed, shell).code == 0
    assert "<testsuite" in (team.root / "gpuctl.xml").read_text()
    assert gitlab(team, "gpuctl-build", installed, shell).out == "rendered is up to date\n"
    edit(team, "jobs/nlp/chat.yaml", "maxReplicas: 6", "maxReplicas: 60")
    impact = gitlab(team, "gpuctl-impact", installed, shell, CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert impact.code == 1
    assert impact.out == (team.root / "impact.md").read_text()
    assert "jobs ask for 3 to 63 L40S-48G GPUs" in impact.out
    assert gitlab(team, "gpuctl-build", installed, shell).code == 1
    edit(team, "jobs/nlp/chat.yaml", "gpu: 1,", "gpu: one,")
    validate = gitlab(team, "gpuctl-validate", installed, shell)
    assert validate.code == 1
    assert "jobs/nlp/chat.yaml:11" in validate.out
    assert "<failure" in (team.root / "gpuctl.xml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_gitlab_installs_only_pinned_packages(team: Repository, installed: Path, shell: str) -> None:
    commit, digest = "0123456789abcdef" * 2 + "01234567", "0123456789abcdef" * 4
    ways = {
        f"git+https://git.example.com/tools/gpuctl@{commit}": 0,
        f"git+ssh://git@git.example.com/tools/gpuctl@{commit}": 0,
        f"https://git.example.com/gpuctl_k8s-0.1.0-py3-none-any.whl#sha256={digest}": 0,
        "./vendor/gpuctl": 0,
        "/opt/gpuctl": 0,
        "": 1,
        "gpuctl-k8s": 1,
        "gpuctl-k8s==0.1.0": 1,
        "git+https://git.example.com/tools/gpuctl@v0.1.0": 1,
        "git+https://git.example.com/tools/gpuctl": 1,
        f"git+http://git.example.com/tools/gpuctl@{commit}": 1,
        f"https://git.example.com/gpuctl_k8s-0.1.0-py3-none-any.whl#sha1={digest}": 1,
        f"gpuctl-k8s --index-url https://x/#sha256={digest}": 1,
    }
    for package, code in ways.items():
        ran = gitlab(team, "gpuctl-validate", installed, shell, GPUCTL_PACKAGE=package)
        assert (ran.code, "set it to git+https://" in ran.err) == (code, bool(code)), package
    assert any(
        "pip install" in line and line.endswith('"$GPUCTL_PACKAGE"') for line in JOBS[".gpuctl"]["before_script"]
    )
    assert JOBS["variables"]["GPUCTL_PACKAGE"] == ""


def test_gitlab_jobs_run_in_one_pipeline() -> None:
    """A job without rules runs in branch pipelines only; mixed with merge request rules, a push would start two
    pipelines.
    """
    names = [name for name in JOBS if name.startswith("gpuctl-")]
    assert names == ["gpuctl-validate", "gpuctl-build", "gpuctl-impact"]
    for name in names:
        rules = [rule for rule in JOBS[name]["rules"] if rule.get("when") != "never"]
        assert rules[0] == {"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}
        assert all("CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"] for rule in rules[1:])
    assert JOBS["gpuctl-impact"]["variables"]["GIT_DEPTH"] == "0"
    assert set(GITLAB["variables"]) <= set(JOBS["variables"])


# pre-commit ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return gpuctl's repository as pre-commit clones it."""
    repository = Repository(tmp_path_factory.mktemp("hooks") / "gpuctl")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, repository.root)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "compiler", repository.root / "compiler", ignore=ignored)
    repository.commit()
    return repository


@pytest.mark.slow
def test_pre_commit_runs_the_hooks(team: Repository, hooks: Repository) -> None:
    program = Path(sys.executable).with_name("pre-commit")
    if not program.exists():
        missing("pre-commit is missing: pip install pre-commit")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PRE_COMMIT_HOME": str(team.root.parent / "pre-commit"),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment.pop("PYTHONPATH", None)
    config = json.loads(json.dumps(PRE_COMMIT))
    config["repos"][0].update(repo=str(hooks.root), rev=hooks.git("rev-parse", "HEAD").strip())
    team.write(".pre-commit-config.yaml", yaml.safe_dump(config))
    team.commit()
    ready = script([str(program), "install-hooks"], team.root, environment)
    if ready.code != 0 and "No matching distribution" in ready.out + ready.err:
        missing("pip has no registry to install pre-commit's environment from")
    assert ready.code == 0, ready.out + ready.err

    def run(*arguments: str) -> tuple[int, dict[str, str], str]:
        done = script([str(program), "run", *arguments], team.root, environment)
        results = re.findall(r"^(gpuctl [\w -]+?)\.+(?:\(.*\))?(\w+)$", done.out, re.MULTILINE)
        return done.code, dict(results), done.out

    names = ["gpuctl fmt", "gpuctl validate", "gpuctl build --check"]
    code, results, out = run("--all-files")
    assert (code, results) == (0, dict.fromkeys(names, "Passed")), out

    edit(team, "jobs/vision/segment.yaml", "gpu: 4,", "GPU: 6,")
    team.git("add", "--all")
    code, results, out = run()
    assert (code, results) == (1, dict(zip(names, ["Failed", "Passed", "Failed"], strict=True))), out
    assert "gpu: 6," in (team.root / "jobs/vision/segment.yaml").read_text()
    assert re.search(r"missing vision/job-segment-[0-9a-f]{6}\.yaml", out)
    team.gpuctl("build", ".", "-o", "rendered", "--gitops", "argocd")
    team.git("add", "--all")
    assert run()[0] == 0

    # A commit that only deletes has no file to check, but makes the manifests stale.
    team.commit()
    team.remove("jobs/vision/segment.yaml")
    team.git("add", "--all")
    code, results, out = run()
    assert (code, results["gpuctl build --check"]) == (1, "Failed"), out
    assert re.search(r"stale   vision/job-segment-[0-9a-f]{6}\.yaml", out)


# Argo CD ---------------------------------------------------------------------------------------------------


def argocd(part: str, directory: Path, installed: Path, **environment: str) -> Outcome:
    """Run a command of the plugin like the CMP server, with a minimal environment."""
    spec = PLUGIN["spec"]["generate"] if part == "generate" else PLUGIN["spec"]["discover"]["find"]
    command = [*spec["command"], *spec.get("args", [])]
    return script(command, directory, {"PATH": f"{installed}:/usr/bin:/bin", **environment})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return the example as Argo CD sends it to the plugin: without ``.git``."""
    return Path(shutil.copytree(TEAM, tmp_path / "source"))


def test_plugin_discovers_documents(source: Path, installed: Path, tmp_path: Path) -> None:
    found = argocd("discover", source, installed)
    assert (found.code, found.err) == (0, "")
    assert "./jobs/nlp/chat.yaml" in found.out.splitlines()
    assert "rendered" not in found.out
    for directory in (source / "rendered", source / ".github"):
        found = argocd("discover", directory, installed)
        assert (found.code, found.out) == (1, ""), directory
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "a.yml").write_text('{"kind": "training", "version": ')
    assert argocd("discover", broken, installed).code == 0


def test_plugin_prints_only_yaml_to_stdout(source: Path, installed: Path) -> None:
    found = argocd("generate", source, installed)
    assert found.code == 0
    objects = list(yaml.load_all(found.out, Loader=yaml.CSafeLoader))
    assert objects == library.compile(TEAM, gitops="argocd").objects
    assert len(objects) == 26
    assert "note[GPU606]" in found.err, "diagnostics go to standard error"


def test_plugin_reads_its_parameters(source: Path, installed: Path) -> None:
    (source / "job.yaml").write_text(
        "kind: training\njob: {name: a}\nenvironment: {image: registry.example.com/a:v1}\n"
    )

    def namespaces(**environment: str) -> list[str]:
        found = argocd("generate", source, installed, **environment)
        assert found.code == 0, found.err
        objects = list(yaml.safe_load_all(found.out))
        return [obj["metadata"]["namespace"] for obj in objects if obj["kind"] == "Job"]

    assert namespaces(PARAM_FILES="job.yaml") == ["default"]
    assert namespaces(PARAM_FILES="job.yaml", ARGOCD_APP_NAMESPACE="apps") == ["apps"]
    assert namespaces(PARAM_FILES="job.yaml", ARGOCD_APP_NAMESPACE="apps", PARAM_NAMESPACE="mine") == ["mine"]
    assert namespaces(PARAM_FILES="jobs/nlp") == ["nlp"]
    # The environment variables of parameters. Source: Argo CD's documentation of plugins.
    names = {f"PARAM_{item['name'].upper()}" for item in PLUGIN["spec"]["parameters"]["static"]}
    script_text = " ".join(PLUGIN["spec"]["generate"]["command"])
    assert set(re.findall(r"PARAM_\w+", script_text)) == names


@pytest.mark.parametrize("files", ["../secret.yaml", "/proc/self/environ", "jobs/../../secret.yaml", "..", "jobs/.."])
def test_plugin_reads_no_file_outside_the_source(source: Path, installed: Path, files: str) -> None:
    (source.parent / "secret.yaml").write_text("kind: training\npassword: hunter2\n")
    found = argocd("generate", source, installed, PARAM_FILES=files, SECRET="hunter2")
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith("the parameter files must be below")
    assert "hunter2" not in found.err


@pytest.mark.parametrize("value", ["x; touch made", "$(touch made)", "`touch made`", "-", "--help", "'; touch made; '"])
def test_plugin_does_not_execute_parameter_values(source: Path, installed: Path, value: str) -> None:
    for variables in ({"PARAM_FILES": value}, {"PARAM_NAMESPACE": value}, {"ARGOCD_APP_NAMESPACE": value}):
        found = argocd("generate", source, installed, **variables)
        assert found.out == ""
        assert found.code != 0
    assert not (source / "made").exists()


def test_invalid_document_fails_the_sync_with_diagnostics(source: Path, installed: Path) -> None:
    (source / "jobs" / "bad.yaml").write_text("kind: training\nversion: v0.1\njob: {name: Bad_Name}\n")
    found = argocd("generate", source, installed)
    assert (found.code, found.out) == (1, "")
    assert "jobs/bad.yaml:3" in found.err


def test_plugin_configuration_has_only_documented_fields() -> None:
    """Source: argo-cd/docs/operator-manual/config-management-plugins.md."""
    assert (PLUGIN["apiVersion"], PLUGIN["kind"]) == ("argoproj.io/v1alpha1", "ConfigManagementPlugin")
    assert set(PLUGIN["spec"]) <= {"version", "init", "generate", "discover", "parameters", "preserveFileMode"}
    assert set(PLUGIN["spec"]["discover"]) == {"find"}
    assert set(PLUGIN["spec"]["discover"]["find"]) == {"command"}
    for item in PLUGIN["spec"]["parameters"]["static"]:
        assert set(item) <= {"name", "title", "tooltip", "required", "itemType", "collectionType", "string"}


def test_sidecar_is_valid_and_has_the_documented_mounts() -> None:
    """The requirements of Argo CD's documentation; and a Deployment with the sidecar is valid."""
    patch = yaml.safe_load((ROOT / "deploy" / "argocd" / "sidecar.yaml").read_text())
    pod = patch["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["/var/run/argocd/argocd-cmp-server"]
    assert container["securityContext"]["runAsUser"] == 999
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    config = mounts["/home/argocd/cmp-server/config/plugin.yaml"]
    assert config["subPath"] == "plugin.yaml"
    assert mounts["/var/run/argocd"]["name"] == "var-files"
    assert mounts["/home/argocd/cmp-server/plugins"]["name"] == "plugins"
    own = {volume["name"] for volume in pod["volumes"]}
    # Argo CD's own Deployment has these two volumes; its `tmp` must not be shared.
    assert {mount["name"] for mount in mounts.values()} == own | {"var-files", "plugins"}
    assert mounts["/tmp"]["name"] in own
    selector = {"app.kubernetes.io/name": "argocd-repo-server"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "argocd-repo-server"},
        "spec": {
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": selector}, "spec": pod},
        },
    }
    assert schema_validator("1.36").check(deployment) == []


def test_applications_reference_existing_paths_and_parameters() -> None:
    plain, rendering = (
        yaml.safe_load((ROOT / "deploy" / "argocd" / name).read_text())
        for name in ("application.yaml", "application-plugin.yaml")
    )
    assert (TEAM / plain["spec"]["source"]["path"]).is_dir()
    assert plain["spec"]["source"]["directory"] == {"recurse": True}
    # A plugin with a version is named `NAME-VERSION`. Source: Argo CD's documentation of plugins.
    assert "version" not in PLUGIN["spec"]
    used = rendering["spec"]["source"]["plugin"]
    assert used["name"] == PLUGIN["metadata"]["name"]
    announced = {item["name"] for item in PLUGIN["spec"]["parameters"]["static"]}
    assert {item["name"] for item in used["parameters"]} <= announced


def test_flux_applies_the_rendered_directory() -> None:
    repository, kustomization = yaml.safe_load_all((ROOT / "deploy" / "flux" / "gpu-jobs.yaml").read_text())
    reference = kustomization["spec"]["sourceRef"]
    assert (reference["kind"], reference["name"]) == (repository["kind"], repository["metadata"]["name"])
    assert (TEAM / kustomization["spec"]["path"]).is_dir()
    assert kustomization["spec"]["prune"] is True


@pytest.mark.parametrize(("image", "user"), [("Dockerfile", "999"), ("service/Dockerfile", "65532:65532")])
def test_images_copy_the_files_the_package_needs(image: str, user: str) -> None:
    lines = (ROOT / "deploy" / image).read_text().splitlines()
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md", "LICENSE", "requirements", "compiler", "server"} == set(copied)
    assert f"USER {user}" in lines
