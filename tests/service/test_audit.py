"""`GET /audit`: the log of changes and their callers, from a file or from memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from support.served import Served, serving

USERS = {
    "admin": ("admin", None, None),
    "local": ("admin", ("team-a",), None),
    "pooled": ("admin", None, ("p",)),
    "anna": ("user", ("team-a",), None),
    "vera": ("viewer", None, None),
}


@pytest.fixture
def audited_service(plane: ControlPlane, tmp_path: Path) -> Iterator[Served]:
    """A service with an audit file."""
    path = str(tmp_path / "audit.jsonl")
    with serving(tmp_path, plane.kubeconfig(), USERS, audit=path) as running:  # type: ignore[arg-type]
        yield running


def send_writes(served: Served) -> None:
    for method, path, name, status, body in (
        ("DELETE", "/jobs/nobody", "vera", 403, None),
        ("DELETE", "/jobs/nobody", "anna", 404, None),
        ("DELETE", "/quotas/team-b", "anna", 403, None),
        ("POST", "/nodes/none/labels", "admin", 404, {"key": "a", "value": "b"}),
        ("POST", "/jobs/nobody/pause", "", 401, None),
    ):
        served.call(method, path, name, status=status, json=body)
        # Times have a resolution of 1 ms; no two entries may have the same time.
        time.sleep(0.002)


def shown_entries(served: Served, **query: Any) -> list[tuple[str, str, str]]:
    """Return caller, method and result of each audit entry."""
    items = served.get("/audit", **query)["items"]
    return [(item["caller"], item["action"].partition(" ")[0], item["result"]) for item in items]


ALL = [
    ("", "POST", "401 Unauthorized"),
    ("admin", "POST", "404 NodeNotFound"),
    ("anna", "DELETE", "403 Forbidden"),
    ("anna", "DELETE", "404 NotFound"),
    ("vera", "DELETE", "403 Forbidden"),
]


def test_filters_and_pages(audited_service: Served, tmp_path: Path) -> None:
    """Newest first; several filters are combined with AND."""
    send_writes(audited_service)
    found = audited_service.get("/audit")
    assert (found["total"], found["source"], found["complete"], found["leftOut"]) == (5, "file", True, 0)
    assert shown_entries(audited_service) == ALL
    for query, wanted in (
        ({"caller": "anna"}, ALL[2:4]),
        ({"action": "POST"}, ALL[:2]),
        ({"action": "DELETE /jobs/{jobId}"}, ALL[3:]),
        ({"action": "DELETE /api/v1/jobs/{jobId}"}, ALL[3:]),
        ({"action": "DEL"}, []),
        ({"object": "node/"}, ALL[1:2]),
        ({"object": "nobody"}, [ALL[0], *ALL[3:]]),
        ({"result": "403"}, [ALL[2], ALL[4]]),
        ({"result": "Forbidden"}, [ALL[2], ALL[4]]),
        ({"result": "403 Forbidden", "caller": "vera"}, ALL[4:]),
        ({"since": "2020-01-01T00:00:00Z"}, ALL),
        ({"until": "2020-01-01T00:00:00Z"}, []),
        ({"until": found["items"][2]["time"]}, ALL[3:]),
        ({"since": found["items"][2]["time"]}, ALL[:3]),
        ({"page": 2, "pageSize": 2}, ALL[2:4]),
        ({"page": 9}, []),
    ):
        assert shown_entries(audited_service, **query) == wanted, query
    assert audited_service.get("/audit", page=2, pageSize=2)["total"] == 5
    assert audited_service.get("/audit", since="yesterday", status=400)["message"].startswith(
        "since: `yesterday` is not a time"
    )
    written = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    shown = [line for line in written if line["result"] != "begun"]
    assert found["items"] == [{key: line[key] for key in line if key != "write"} for line in shown[::-1]]


def test_namespace_filter_matches_the_namespace_of_objects(audited_service: Served, tmp_path: Path) -> None:
    lines = [
        line("training/a in team-a"),
        line("training/a in team-b", "training/b in team-c"),
        line("quota/team-b"),
        line("pool/team-b"),
    ]
    (tmp_path / "audit.jsonl").write_text("".join(lines))
    for namespace, wanted in (("team-a", 1), ("team-b", 2), ("team-c", 1), ("team", 0)):
        assert audited_service.get("/audit", namespace=namespace)["total"] == wanted


def line(*objects: str, **changes: Any) -> str:
    own = {"time": "2024-06-01T10:00:00.000Z", "caller": "x", "action": "POST /api/v1/jobs", "result": "201"}
    return json.dumps({**own, "objects": list(objects), "requestId": "1", **changes}) + "\n"


def test_only_unlimited_admins_read_the_audit(audited_service: Served) -> None:
    for name, status in (("local", 403), ("pooled", 403), ("anna", 403), ("vera", 403), ("", 401)):
        audited_service.get("/audit", name, status=status)
    question = {"resource": "audit", "action": "get"}
    assert [
        audited_service.call("POST", "/auth/check", name, json=question)["allowed"] for name in ("admin", "local")
    ] == [
        True,
        False,
    ]


def test_invalid_lines_are_counted_and_skipped(audited_service: Served, tmp_path: Path) -> None:
    """Invalid lines are counted in `leftOut`, an incomplete last line is ignored, the rest is returned."""
    path = tmp_path / "audit.jsonl"
    odd = ["{", "[]", "null", "1", '"x"', "{}", "\xff" * 10, line("a", time="now")[:-1], line(caller=1)[:-1], ""]
    odd += [json.dumps({**json.loads(line("a")), "objects": "text"}), "[" * 100_000, line("a")[:40] + line("a")[:-1]]
    path.write_bytes(b"\n".join(item.encode("latin-1") for item in [*odd, line("good")[:-1]]) + b"\n" + b'{"time": "20')
    found = audited_service.get("/audit")
    assert [item["objects"] for item in found["items"]] == [["good"]]
    assert (found["leftOut"], found["complete"]) == (len(odd), False)
    path.write_text('{"time"')
    assert audited_service.get("/audit") == {"total": 0, "items": [], "source": "file", "complete": True, "leftOut": 0}
    path.unlink()
    assert audited_service.get("/audit") == {"total": 0, "items": [], "source": "file", "complete": False, "leftOut": 0}


@pytest.mark.slow
def test_rotated_file_is_replaced_and_reported_incomplete(audited_service: Served, tmp_path: Path) -> None:
    """The service creates a new file with mode 0600, and reports that older entries exist."""
    path = tmp_path / "audit.jsonl"
    audited_service.call("DELETE", "/jobs/before", "vera", status=403)
    path.rename(tmp_path / "audit.jsonl.1")
    audited_service.call("DELETE", "/jobs/after", "vera", status=403)
    found = audited_service.get("/audit")
    assert [item["objects"] for item in found["items"]] == [["after"]]
    assert (found["source"], found["complete"]) == ("file", False)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "before" not in path.read_text()


@pytest.mark.slow
def test_only_the_end_of_a_large_file_is_read(audited_service: Served, tmp_path: Path) -> None:
    """Only the end of the file is read; a line as long as one read block is complete."""
    path = tmp_path / "audit.jsonl"
    long = line("long" + "x" * 600_000)
    with path.open("w") as file:
        file.write(line("first"))
        file.write(long)
        for number in range(140_000):
            file.write(line(f"number {number}"))
        file.write(long)
        file.write(line("last"))
    assert path.stat().st_size > 17 * 1024 * 1024
    found = audited_service.get("/audit", pageSize=3)
    assert [item["objects"][0][:13] for item in found["items"]] == ["last", "longxxxxxxxxx", "number 139999"]
    assert (found["complete"], found["leftOut"]) == (False, 0)
    assert 100_000 < found["total"] < 140_000
    assert audited_service.get("/audit", object="first")["total"] == 0
    assert audited_service.get("/audit", object="long")["total"] == 1


@pytest.mark.parametrize("given", [pytest.param({}, marks=pytest.mark.slow), {"audit": "/dev/stderr"}])
def test_without_readable_file_memory_is_returned(plane: ControlPlane, tmp_path: Path, given: dict[str, str]) -> None:
    """The entries of this replica's memory are returned; they are in the log as well."""
    with serving(tmp_path, plane.kubeconfig(), USERS, **given) as served:  # type: ignore[arg-type]
        send_writes(served)
        assert shown_entries(served) == ALL
        found = served.get("/audit", pageSize=1)
        assert (found["total"], found["source"], found["complete"], found["leftOut"]) == (5, "memory", False, 0)
        assert len(served.until_told("404 NodeNotFound")) == 1
        for number in range(0 if given else 60):
            key = f"k{number}"
            nodes = [f"{'n' * 240}-{number}-{place}" for place in range(100)]
            served.call("POST", "/nodes/labels/batch", json={"nodeNames": nodes, "key": key, "value": "x"})
        if not given:
            found = served.get("/audit", pageSize=1000)
            assert 5 < found["total"] < 60
            assert found["items"][0]["objects"][0] == "label/k59"


def test_unreadable_file_is_an_error_without_its_path(audited_service: Served, tmp_path: Path) -> None:
    """The error message does not contain the path."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "audit.jsonl").chmod(0o200)
    assert str(tmp_path) not in audited_service.get("/audit", status=503)["message"]
