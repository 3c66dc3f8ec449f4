"""``gpuctl usage idle``: jobs with idle GPUs are reported, warned about once and paused; foreign workloads are not
changed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from support.cluster_tools import Outcome, Place, inference, training
from support.idle_usage import events, worker, write_usage
from support.webhook_receiver import Receiver, receiving

POLICY = "usage: {{idle: {{after: 2h, then: {then}, except: [example.com/keep-gpus]}}}}"


def test_idle_jobs_are_warned_and_then_paused(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = training("kept", job={"labels": {"example.com/keep-gpus": "yes"}})
    place.apply(training("lazy"), training("busy"), training("dark"), kept, inference("serve"))
    place.kubectl("create", "deployment", "foreign", "--image=app:1")
    workers = [
        worker(place, "Job", "lazy", 90.0, 90.0, 90.0, 0.0),
        worker(place, "Job", "busy", 0.0, 0.0, 0.0, 0.0, 0.0, 80.0),
        worker(place, "Job", "dark", None),
        worker(place, "Job", "kept", 0.0),
        worker(place, "Deployment", "serve", 1.0),
        worker(place, "Deployment", "foreign", 2.0),
    ]
    database, audit = tmp_path / "usage.db", tmp_path / "audit"
    write_usage(database, place, workers)
    monkeypatch.setenv("GPUCTL_SERVER_AUDIT", str(audit))

    def idle(*flags: str, code: int = 0) -> Outcome:
        return place.gpuctl("usage", "idle", "--database", str(database), *flags, code=code)

    def actions(found: Outcome) -> dict[str, str]:
        return {item["name"]: item["action"] for item in found.value["items"]}

    assert "The platform has no policy for idle jobs" in idle(code=2).err
    place.platform(POLICY.format(then="warn"))
    with receiving() as webhook:
        monkeypatch.setenv("GPUCTL_SERVER_USAGE_WEBHOOK", f"{webhook.url}/secret")
        found = idle("-o", "json")
        assert actions(found) == {"lazy": "warn", "kept": "excepted", "serve": "warn", "foreign": "not gpuctl's"}
        assert found.err == "Nothing has been done: confirm with --yes.\n"
        assert (events(place, "GPUsIdle"), webhook.posts, audit.exists()) == ([], [], False)
        _check_warnings(place, idle, actions, webhook)
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [(line["caller"], line["action"], line["result"]) for line in lines] == [
            ("usage.idle", "warn", "done")
        ] * 2
        # One audit line per job, in any order.
        assert sorted(line["objects"] for line in lines) == [
            [f"Deployment/{place.namespace}/serve"],
            [f"Job/{place.namespace}/lazy"],
        ]
        place.platform(POLICY.format(then="pause"))
        _check_pauses(place, idle, actions, webhook)


def _check_warnings(place: Place, idle: Any, actions: Any, webhook: Receiver) -> None:
    """One event and one webhook message per job; the warning's annotation is no difference for apply."""
    assert actions(idle("--yes", "-o", "json"))["lazy"] == "warned"
    told = {item["involvedObject"]["name"]: item for item in events(place, "GPUsIdle")}
    assert told.keys() == {"lazy", "serve"}
    assert told["lazy"]["message"].startswith("1 GPU has been idle for ")
    assert told["lazy"]["message"].endswith(f"; `gpuctl pause lazy -n {place.namespace}` frees them")
    assert "GPUsIdle" in place.gpuctl("describe", "job", "lazy").out
    bodies = [post.body for post in webhook.at("/secret")]
    assert sorted((item["name"], item["action"], item["gpus"]) for item in bodies) == [
        ("lazy", "warn", 1.0),
        ("serve", "warn", 1.0),
    ]
    assert actions(idle("--yes", "-o", "json"))["lazy"] == "warned already"
    assert len(events(place, "GPUsIdle")) == 2
    unchanged = place.apply(training("lazy"), inference("serve")).out
    assert {line.split()[0] for line in unchanged.splitlines()} == {"unchanged"}


def _check_pauses(place: Place, idle: Any, actions: Any, webhook: Receiver) -> None:
    """A rejected webhook message is reported, and the job is paused nevertheless."""
    webhook.answers["/secret"] = [(302, "", {"Location": "http://127.0.0.1:1/elsewhere"})] * 2
    found = idle("--yes", "-o", "json", code=1)
    assert actions(found)["lazy"] == "failed"
    assert "rejected the message: status 302" in found.err
    assert "secret" not in found.err
    assert {item["involvedObject"]["name"] for item in events(place, "PausedIdle")} == {"lazy", "serve"}
    assert place.get("Job", "lazy")["spec"]["suspend"] is True
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 0
    assert not place.get("Job", "kept")["spec"].get("suspend")
    assert place.get("Deployment", "foreign")["spec"]["replicas"] == 1
    # Paused jobs are left out, because their GPUs are being freed.
    assert actions(idle("-o", "json")) == {"kept": "excepted", "foreign": "not gpuctl's"}
    assert "resumed" in place.gpuctl("resume", "lazy").out


@pytest.mark.slow
def test_jobs_without_current_measurements_are_not_paused(place: Place, tmp_path: Path) -> None:
    """The jobs were idle for hours; the last minutes of one were not measured, the other has just become busy."""
    place.platform(POLICY.format(then="pause"))
    place.apply(training("quiet"), training("woken"))
    database = tmp_path / "usage.db"
    workers = [
        worker(place, "Job", "quiet", *[0.0] * 6, None),
        worker(place, "Job", "woken", *[0.0] * 6, 90.0),
    ]
    write_usage(database, place, workers)
    found = place.gpuctl("usage", "idle", "--yes", "--database", str(database), "-o", "json")
    assert {item["name"]: item["action"] for item in found.value["items"]} == {"quiet": "unknown"}
    assert not any(place.get("Job", name)["spec"].get("suspend") for name in ("quiet", "woken"))


@pytest.mark.slow
def test_recreated_job_is_not_paused(place: Place, tmp_path: Path) -> None:
    place.platform(POLICY.format(then="pause"))
    place.apply(training("again"))
    database = tmp_path / "usage.db"
    write_usage(database, place, [worker(place, "Job", "again", 0.0)])
    place.gpuctl("delete", "job", "again", "--yes")
    place.apply(training("again"))
    found = place.gpuctl("usage", "idle", "--database", str(database), "--yes")
    assert "not gpuctl's" in found.out
    assert not place.get("Job", "again")["spec"].get("suspend")


@pytest.mark.slow
def test_checkpoint_runs_before_an_idle_job_is_paused(
    place: Place, plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rights of deploy/usage/idle. A job is not paused if its checkpoint fails or the role for checkpoints is
    missing.
    """
    plane.start_streams()
    saved = tmp_path / "saved"

    def job(then: str) -> dict[str, Any]:
        return {"checkpoint": {"command": ["sh", "-c", f"echo saved >> {saved}; {then}"]}}

    place.platform(POLICY.format(then="pause"))
    place.apply(training("good", job=job("exit 0")), training("bad", job=job("exit 3")), training("none"))
    place.running("good", "bad", "none")
    database = tmp_path / "usage.db"
    write_usage(database, place, [worker(place, "Job", name, 0.0) for name in ("good", "bad", "none")])
    deploy = Path(__file__).resolve().parents[2] / "deploy" / "usage" / "idle"

    def rules(file: str) -> list[Any]:
        roles = yaml.safe_load_all((deploy / file).read_text())
        return next(role["rules"] for role in roles if role["kind"] == "ClusterRole")

    # In production the role applies to all namespaces; here its rights are granted in this namespace.
    plane.grant("onlooker", None, [rules("rbac.yaml")[0]])
    place.grant("onlooker", rules("rbac.yaml")[1:])
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("onlooker")))

    def idle() -> Outcome:
        return place.gpuctl("usage", "idle", "--database", str(database), "--yes", "-o", "json", code=1)

    def actions(found: Outcome) -> dict[str, str]:
        return {item["name"]: item["action"] for item in found.value["items"]}

    found = idle()
    assert actions(found) == {"good": "failed", "bad": "failed", "none": "paused"}
    assert "checkpoint of training/good in" in found.err
    assert "may not get pods/exec" in found.err
    assert not saved.exists()
    place.grant("onlooker", rules("checkpoints.yaml"))
    found = idle()
    assert actions(found) == {"good": "paused", "bad": "failed"}
    assert "exit code 3" in found.err
    assert place.get("Job", "good")["spec"]["suspend"] is True
    assert not place.get("Job", "bad")["spec"].get("suspend")


@pytest.mark.slow
def test_nothing_is_paused_when_usage_is_unknown(place: Place, plane: ControlPlane, tmp_path: Path) -> None:
    """The collector is behind, the database belongs to another cluster, or it does not exist: the reason is reported."""
    place.platform(POLICY.format(then="pause"))
    place.apply(training("lazy"))
    database = tmp_path / "usage.db"
    workers = [worker(place, "Job", "lazy", 0.0)]

    def refused(*flags: str, code: int = 1) -> str:
        return place.gpuctl("usage", "idle", "--yes", *flags, code=code).err

    write_usage(database, place, workers, until=time.time() - 3600)
    behind = refused("--database", str(database))
    assert "idle jobs are unknown: the collector last wrote usage data 1h ago" in behind
    assert "check that `gpuctl usage collect` runs" in behind
    write_usage(database, place, workers, uid="another")
    assert "the database has no usage of this cluster" in refused("--database", str(database))
    assert "there is no usage database at" in refused("--database", str(tmp_path / "typo.db"), code=3)
    assert "No database is set: use --database" in refused(code=2)
    assert not place.get("Job", "lazy")["spec"].get("suspend")
