"""The collector's section of docs/operations.md: its commands run, and its tables match the deployed files."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.cli.main import run
from support.collecting import collecting
from support.deployments import DEPLOY
from support.pages import ROOT, blocks, read, rows

PAGE = "docs/operations.md"


def test_documented_commands_run(plane: ControlPlane, api: Api, programs: Path, tmp_path: Path) -> None:
    """With the installed program, the deployed settings and a running collector."""
    texts = [block.text for block in blocks(PAGE) if block.note == "collected"]
    for file, text in yaml.safe_load((DEPLOY / "usage" / "base" / "configuration.yaml").read_text())["data"].items():
        own = text.replace("/etc/gpuctl", str(tmp_path)).replace("/var/lib/gpuctl", str(tmp_path))
        (tmp_path / file).write_text(own.replace('":9464"', '"127.0.0.1:0"'))
    config = tmp_path / "server.yaml"
    with collecting(tmp_path, plane.kubeconfig(), config=str(config)) as collector:
        [port] = [line["port"] for line in collector.log if line["message"] == "serving metrics"]
        environment = {
            **os.environ,
            "COLLECTOR": f"http://127.0.0.1:{port}",
            "KUBECONFIG": str(plane.kubeconfig()),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        collector.until(lambda: collector.database.last_seen(1), "it to have written")
        said = []
        for text in texts:
            command = ["bash", "-euo", "pipefail", "-c", text.replace("/etc/gpuctl", str(tmp_path))]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            said.append(done.stdout)
    asked, rolled = said
    assert asked.startswith('{"status": "ok"}')
    found, _ = json.JSONDecoder().raw_decode(asked.removeprefix('{"status": "ok"}'))
    assert found.keys() == {"collecting", "knownSecondsAgo", "problem"}
    assert 'gpuctl_usage_collecting{cluster="default"} 1.0' in asked
    assert rolled == "0 hours rolled up, 0 changed\n"


def test_documented_deployments_exist(plane: ControlPlane) -> None:
    lines = [line for block in blocks(PAGE) if block.note == "deployed" for line in block.text.splitlines()]
    assert len(lines) == 4
    for line in lines:
        command, path = line.rsplit(" ", 1)
        assert command in ("kubectl apply -k", "kubectl apply -f")
        if command.endswith("-k"):
            assert plane.kubectl("kustomize", str(ROOT / path))
        else:
            assert yaml.safe_load((ROOT / path).read_text())["kind"] == "ServiceMonitor"
    for directory, *_ in rows(PAGE, "Collecting usage"):
        name = directory.strip("`")
        if name.startswith("deploy/"):
            assert (ROOT / name / "kustomization.yaml").exists()


def test_tables_match_alerts_and_dashboards() -> None:
    rules = yaml.safe_load((DEPLOY / "monitoring" / "rules" / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert [row[0] for row in rows(PAGE, "Alerts on usage")] == [f"`{rule['alert']}`" for rule in rules]
    titles = {json.loads(path.read_text())["title"] for path in (DEPLOY / "monitoring" / "dashboards").glob("*.json")}
    assert titles <= {row[0] for row in rows(PAGE, "Collecting usage")}
    port = urlsplit(re.findall(r"`COLLECTOR` to `(\S+)`", read(PAGE))[0]).port
    service = yaml.safe_load((DEPLOY / "usage" / "base" / "service.yaml").read_text())
    assert [item["port"] for item in service["spec"]["ports"]] == [port]


def test_commands_in_alerts_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Text in backticks that begins with gpuctl is an existing command with existing options."""
    rules = yaml.safe_load((DEPLOY / "monitoring" / "rules" / "alerts.yaml").read_text())["groups"][0]["rules"]
    advice = {text for rule in rules for text in re.findall(r"`(gpuctl [^`]*)`", rule["annotations"]["runbook"])}
    advice |= {text for row in rows(PAGE, "Alerts on usage") for text in re.findall(r"`(gpuctl [^`]*)`", row[2])}
    commands: dict[tuple[str, ...], set[str]] = {}
    for text in advice:
        words = text.split()[1:]
        names = tuple(words[:2] if words[0] == "usage" else words[:1])
        commands.setdefault(names, set()).update(word for word in words if word.startswith("-"))
    assert set(commands) == {("why",), ("pause",), ("resume",), ("usage", "rollup")}
    for names, options in commands.items():
        assert run([*names, "--help"]) == 0
        told = capsys.readouterr().out
        assert {option for option in options if not re.search(rf"(?<!\S){option}\b", told)} == set(), names
