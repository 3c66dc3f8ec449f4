"""The audit file: the fate of its lines, and of changes, when it cannot be written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Place, inference
from support.documents_sent import sent
from support.served import Served, refused_start, serving

ADMIN = {"admin": ("admin", None, None)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The path of the audit file, in a directory that a test may rename."""
    directory = tmp_path / "audit"
    directory.mkdir()
    return directory / "audit.jsonl"


@pytest.fixture
def audited_service(plane: ControlPlane, log: Path, tmp_path: Path) -> Iterator[Served]:
    """A service that writes this audit file."""
    with serving(tmp_path, plane.kubeconfig(), ADMIN, audit=str(log)) as running:
        yield running


def audit_entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def finished_writes(log: Path) -> list[tuple[str, str]]:
    """Return action and result of each finished write."""
    return [(item["action"], item["result"]) for item in audit_entries(log) if item["result"] != "begun"]


def test_writes_are_rejected_while_the_audit_cannot_be_written(
    audited_service: Served, log: Path, place: Place
) -> None:
    """The first write after the failure is rejected too. Its lines go to the log at once, and to the file when it is
    writable.
    """
    path = {"namespace": place.namespace}
    audited_service.call("POST", "/jobs", status=201, json=sent(inference("a"), namespace=place.namespace))
    away = log.parent.with_name("away")
    log.parent.rename(away)
    first = audited_service.call("POST", "/jobs/a/pause", status=503, params=path)
    assert first["message"] == "nothing is changed: the audit cannot be written: no such file or directory"
    told = [json.loads(line) for line in audited_service.until_told("the audit cannot be written")]
    assert json.loads(told[0]["line"])["action"] == "POST /api/v1/jobs/{jobId}/pause"
    assert told[0]["problem"] == "no such file or directory"
    before = place.records()
    for method, where, body in (
        ("POST", "/jobs/a/resume", None),
        ("DELETE", "/jobs/a", None),
        ("POST", "/jobs", sent(inference("b"), namespace=place.namespace)),
        ("POST", "/nodes/drill-0/labels", {"key": "a", "value": "b"}),
    ):
        query = path if where.startswith("/jobs/") else {}
        refused = audited_service.call(method, where, status=503, json=body, params=query)
        assert refused["message"] == "nothing is changed: the audit cannot be written: no such file or directory"
    assert place.records() == before
    audited_service.until("/jobs/a", lambda value: value["status"] != "paused", **path)
    tried = sent(inference("b"), namespace=place.namespace, dryRun=True)
    assert audited_service.call("POST", "/jobs", json=tried)["status"] == "validated"
    away.rename(log.parent)
    audited_service.call("POST", "/jobs/a/resume", params=path)
    jobs = "/api/v1/jobs"
    assert finished_writes(log) == [
        (f"POST {jobs}", "201"),
        (f"POST {jobs}/{{jobId}}/pause", "503 ServiceUnavailable"),
        (f"POST {jobs}/{{jobId}}/resume", "503 ServiceUnavailable"),
        (f"DELETE {jobs}/{{jobId}}", "503 ServiceUnavailable"),
        (f"POST {jobs}", "503 ServiceUnavailable"),
        ("POST /api/v1/nodes/{nodeName}/labels", "503 ServiceUnavailable"),
        (f"POST {jobs}/{{jobId}}/resume", "200"),
    ]


def test_writes_are_rejected_when_the_disk_is_full(plane: ControlPlane, tmp_path: Path, place: Place) -> None:
    with serving(tmp_path, plane.kubeconfig(), ADMIN, audit="/dev/full") as own:
        body = sent(inference("a"), namespace=place.namespace)
        for _ in range(2):
            refused = own.call("POST", "/jobs", status=503, json=body)
            assert refused["message"].endswith("cannot be written: no space left on device")
        assert not place.exists("Deployment", "a")


def test_renamed_file_is_created_again(audited_service: Served, log: Path) -> None:
    """logrotate renames the file; the next line creates it again with mode 0600."""
    wrong = {"key": "a b", "value": "c"}
    audited_service.call("POST", "/nodes/drill-0/labels", status=400, json=wrong)
    log.rename(log.with_suffix(".1"))
    audited_service.call("POST", "/nodes/drill-1/labels", status=400, json=wrong)
    assert [len(audit_entries(path)) for path in (log.with_suffix(".1"), log)] == [1, 1]
    assert log.stat().st_mode & 0o777 == 0o600


def test_service_does_not_start_without_writable_audit(plane: ControlPlane, tmp_path: Path) -> None:
    code, said = refused_start(tmp_path, plane.kubeconfig(), audit=str(tmp_path / "absent" / "audit.jsonl"))
    assert code == 3
    assert "the audit cannot be written" in said
    assert "Traceback" not in said
    assert sorted(os.listdir(tmp_path)) == ["admin-token", "tokens.json"]
