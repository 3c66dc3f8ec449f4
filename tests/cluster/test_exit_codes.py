"""Exit codes of commands by failure, as documented in the README: 1 rejected, 2 wrong usage, 3 cluster."""

from __future__ import annotations

import pytest

from support.cluster_tools import Place, image, inference, training

FILE = "jobs.yaml"
# Exit code of each command where RBAC forbids it. `diff` needs no right to write.
FORBIDDEN = {
    ("apply", "-f", FILE, "--yes"): 3,
    ("apply", "-f", FILE, "--dry-run=server"): 3,
    ("apply", "-f", FILE, "--yes", "-o", "json"): 3,
    ("create", "-f", "new.yaml"): 3,
    ("diff", "-f", FILE): 1,
    ("delete", "-f", FILE): 3,
    ("delete", "job", "train"): 3,
    ("pause", "train"): 3,
    ("get", "jobs"): 0,
    ("describe", "job", "train"): 0,
    ("why", "train"): 0,
}
UNREACHABLE = [
    *FORBIDDEN,
    ("recover",),
    ("logs", "train"),
    ("wait", "job", "train", "--for=running"),
    ("fit", "-f", FILE),
]
# Exit codes for a field of another manager. `diff` ends with 2 because 1 means that there are differences.
CONFLICT = {
    ("apply", "-f", FILE, "--yes"): 1,
    ("apply", "-f", FILE, "--dry-run=server"): 1,
    ("create", "-f", FILE): 1,
    ("diff", "-f", FILE): 2,
    ("delete", "-f", FILE): 0,
}


def names(value: object) -> str:
    """Return the id of a case."""
    return " ".join(value) if isinstance(value, tuple) else str(value)


@pytest.fixture
def applied(place: Place) -> Place:
    """Applied jobs, and documents that change them."""
    place.apply(training(), inference())
    place.file(training("new"), name="new.yaml")
    place.file(training(environment=image("v2")), inference(environment=image("v2"), service={"port": 8001}))
    return place


def test_exit_codes_without_rbac_rights(applied: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(applied.plane.kubeconfig("reader")))
    found = {arguments: applied.gpuctl(*arguments, code=None) for arguments in FORBIDDEN}
    assert {arguments: outcome.code for arguments, outcome in found.items()} == FORBIDDEN
    for arguments, code in FORBIDDEN.items():
        if code == 3:
            assert "may not" in found[arguments].err, arguments


def test_exit_code_of_an_unreachable_cluster(applied: Place) -> None:
    found = {arguments: applied.gpuctl(*arguments, "--context", "nowhere", code=None).code for arguments in UNREACHABLE}
    assert found == dict.fromkeys(UNREACHABLE, 3)


@pytest.mark.slow
def test_exit_codes_of_a_field_conflict(applied: Place) -> None:
    applied.patch("Service", "svc-serve", {"spec": {"type": "ClusterIP"}}, manager="meddler")
    found = {arguments: applied.gpuctl(*arguments, code=None).code for arguments in CONFLICT}
    assert found == CONFLICT
