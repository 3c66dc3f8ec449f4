"""The kits that apply documents from CI: GitHub's action of ``deploy/github/apply``, GitLab's jobs of
``deploy/gitlab/gpuctl-apply.gitlab-ci.yml``. Their shell lines run against a real API server.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from properties.scale import part_of
from support.cluster_tools import Place, compute
from support.deployments import DEPLOY
from support.repositories import Outcome, Repository

ROOT = DEPLOY.parent
ACTION = yaml.safe_load((DEPLOY / "github" / "apply" / "action.yml").read_text())
WORKFLOW = yaml.safe_load((DEPLOY / "github" / "gpuctl-apply.yml").read_text())
CHECKS = yaml.safe_load((DEPLOY / "gitlab" / "gpuctl.gitlab-ci.yml").read_text())
GITLAB = yaml.safe_load((DEPLOY / "gitlab" / "gpuctl-apply.gitlab-ci.yml").read_text())
SET = "team"

Kit = Callable[[Place, Path, str], Outcome]


def in_shell(lines: str, directory: Path, environment: dict[str, str]) -> Outcome:
    """Run the lines as both runners do: one bash that ends at the first failure."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": str(directory.parent), **environment},
        capture_output=True,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def github(place: Place, directory: Path, mode: str) -> Outcome:
    """Run the action's steps for a mode; the output is the summary of the run, or what apply prints."""
    temporary = directory.parent / "runner"
    temporary.mkdir(exist_ok=True)
    (temporary / "summary").write_text("")
    inputs = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()}
    inputs |= {"mode": mode, "set": SET, "namespace": place.namespace}
    inputs["kubeconfig"] = Path(os.environ["KUBECONFIG"]).read_text()
    known = {**{f"inputs.{name}": value for name, value in inputs.items()}, "runner.temp": str(temporary)}
    steps = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
    outcome = Outcome(0, "", "")
    environment = {name: str(temporary / name) for name in ("GITHUB_OUTPUT", "GITHUB_ENV")}
    environment["GITHUB_STEP_SUMMARY"] = str(temporary / "summary")
    for name in ("Kubeconfig", "Plan" if mode == "plan" else "Apply"):
        stated = {
            key: re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda match: known[match[1]], value)
            for key, value in steps[name]["env"].items()
        }
        outcome = in_shell(steps[name]["run"], directory, {**environment, **stated})
        if (temporary / "GITHUB_ENV").exists():
            lines = (temporary / "GITHUB_ENV").read_text().splitlines()
            environment |= dict(line.split("=", 1) for line in lines)
    assert (temporary / "gpuctl-kubeconfig").stat().st_mode & 0o077 == 0
    in_shell(steps["Remove the kubeconfig"]["run"], directory, {"FILE": str(temporary / "gpuctl-kubeconfig")})
    assert not (temporary / "gpuctl-kubeconfig").exists()
    return outcome._replace(out=(temporary / "summary").read_text()) if mode == "plan" else outcome


def gitlab(place: Place, directory: Path, mode: str) -> Outcome:
    """Run the script of a job with the default variables."""
    job = GITLAB[f"gpuctl-{mode}"]
    variables = {**CHECKS["variables"], **GITLAB["variables"], **job["variables"]}
    variables |= {"GPUCTL_SET": SET, "GPUCTL_NAMESPACE": place.namespace, "KUBECONFIG": os.environ["KUBECONFIG"]}
    return in_shell("\n".join(job["script"]), directory, {name: str(value) for name, value in variables.items()})


@pytest.mark.parametrize("kit", part_of([github, gitlab], 2))
def test_kit_plans_then_applies_then_rolls_back_by_revert(
    place: Place, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kit: Kit
) -> None:
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    repository = Repository(tmp_path / "jobs")

    def documents(*names: str) -> str:
        for path in repository.root.glob("*.yaml"):
            path.unlink()
        for name in names:
            repository.write(f"{name}.yaml", json.dumps(compute(name)))
        return repository.commit()

    def deployed() -> set[str]:
        return {name for kind, name in (key.split("/") for key in place.names()) if kind == "Deployment"}

    documents("first")
    planned = kit(place, repository.root, "plan")
    assert planned.code == 0, planned.err
    assert "first" in planned.out
    assert deployed() == set()
    done = kit(place, repository.root, "apply")
    assert done.code == 0, done.err
    assert deployed() == {"first"}
    assert kit(place, repository.root, "plan").code == 0

    first = repository.git("rev-parse", "HEAD").strip()
    changed = documents("second")
    assert kit(place, repository.root, "apply").code == 0
    assert deployed() == {"second"}

    # A run of an older commit that is started again is rejected.
    repository.git("checkout", "--quiet", first)
    older = kit(place, repository.root, "apply")
    assert older.code != 0
    assert "--allow-older" in older.err + older.out
    assert deployed() == {"second"}

    repository.git("checkout", "--quiet", "main")
    who = ("-c", "user.name=dev", "-c", "user.email=dev@example.com")
    repository.git(*who, "revert", "--no-edit", changed)
    assert kit(place, repository.root, "apply").code == 0
    assert deployed() == {"first"}

    # A document with an error fails before anything changes.
    repository.write("first.yaml", "kind: compute\nversion: v0.1\njob: {name: First_}\n")
    repository.commit()
    assert kit(place, repository.root, "plan").code != 0
    assert kit(place, repository.root, "apply").code != 0
    assert deployed() == {"first"}


def test_workflow_of_github_has_a_lock_and_no_secrets_for_forks() -> None:
    plan, apply = (WORKFLOW["jobs"][name] for name in ("plan", "apply"))
    assert apply["concurrency"] == {"group": "gpuctl-apply", "cancel-in-progress": False}
    assert "head.repo.full_name == github.repository" in plan["if"]
    for job, mode in ((plan, "plan"), (apply, "apply")):
        checkout, used = job["steps"]
        # In a shallow clone the order of two commits is not known, which is a note in each plan.
        assert checkout["with"] == {"fetch-depth": 0}
        assert used["uses"].startswith("your-org/gpuctl/deploy/github/apply@v")
        assert used["with"]["mode"] == mode
        required = {name for name, spec in ACTION["inputs"].items() if spec.get("required")}
        assert required <= used["with"].keys() <= ACTION["inputs"].keys()


def test_jobs_of_gitlab_have_a_lock() -> None:
    assert GITLAB["gpuctl-apply"]["resource_group"] == "gpuctl-apply"
    assert {GITLAB[name]["extends"] for name in ("gpuctl-plan", "gpuctl-apply")} <= CHECKS.keys()
    checked: dict[str, Any] = GITLAB["gpuctl-plan"]["artifacts"]
    assert checked["paths"] == ["gpuctl-plan.md"]
