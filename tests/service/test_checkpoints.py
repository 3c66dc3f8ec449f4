"""The service runs the checkpoint command of a job before it ends its pods, as the command line does.

If the checkpoint fails, nothing is ended, unless the request disables it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Place, image, inference, training
from support.documents_sent import sent
from support.remote import Remote
from support.served import Served


@pytest.fixture
def save_file(plane: ControlPlane, tmp_path: Path) -> Path:
    """The file to which simulated pods save."""
    plane.start_streams()
    file = tmp_path / "saved"
    file.touch()
    return file


def job(save_file: Path, then: str = "exit 0") -> dict[str, Any]:
    """Return a `job` block with a checkpoint command."""
    return {"checkpoint": {"command": ["sh", "-c", f"echo saved >> {save_file}; {then}"]}}


def checkpoints_written(save_file: Path) -> int:
    """Return the number of checkpoints written."""
    return len(save_file.read_text().splitlines())


def test_pause_delete_and_update_run_the_checkpoint(served: Served, place: Place, save_file: Path) -> None:
    place.apply(
        training("a", job=job(save_file)), training("b", job=job(save_file)), inference("c", job=job(save_file))
    )
    place.running("a", "b", "c")
    query = {"namespace": place.namespace}
    served.until("/jobs", lambda value: value["total"] == 3, **query)
    one: dict[str, Any] = {"url": "/jobs/a/pause"}
    for request in (one, {"url": "/jobs/pause", "json": {"names": ["a"]}}):
        tried = served.client().post(**request, params={**query, "dryRun": "true"})
        assert "its progress would be saved first" in tried.text
    assert checkpoints_written(save_file) == 0
    served.call("POST", "/jobs/a/pause", params=query)
    assert checkpoints_written(save_file) == 1
    served.call("DELETE", "/jobs/b", params=query)
    assert checkpoints_written(save_file) == 2
    changed = sent(inference("c", environment=image("v2")), namespace=place.namespace)
    (step,) = [item for item in served.call("POST", "/plan", json=changed)["steps"] if item["kind"] == "Deployment"]
    assert step["checkpoint"].endswith("(at most 2m)")
    served.call("PUT", "/jobs/c", json=changed, params={**query, "confirm": "true"})
    assert checkpoints_written(save_file) == 3


def test_failed_checkpoint_is_a_conflict(served: Served, place: Place, save_file: Path) -> None:
    """409, and nothing has changed; the same request with `checkpoint=false` ends the job without saving."""
    place.apply(
        training("a", job=job(save_file, "echo disk full >&2; exit 3")), inference("c", job=job(save_file, "exit 4"))
    )
    (pod,) = place.running("a")
    place.running("c")
    query = {"namespace": place.namespace}
    served.until("/jobs", lambda value: value["total"] == 2, **query)
    before = {name: item for name, item in place.records().items() if "Lease" not in name}
    changed = sent(inference("c", environment=image("v2")), namespace=place.namespace)
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/jobs/a/pause", {}),
        ("DELETE", "/jobs/a", {}),
        ("PUT", "/jobs/c", {"json": changed, "params": {"confirm": "true"}}),
    ]
    for method, path, more in requests:
        params = {**query, **more.pop("params", {})}
        refused = served.call(method, path, status=409, params=params, **more)
        assert refused["error"] == "CheckpointFailed"
        assert refused["message"].startswith(f"checkpoint of {'inference/c' if more else 'training/a'} in ")
        assert "nothing was ended; with `checkpoint=false` it is ended anyway" in str(refused)
        if not more:
            assert f"failed in pod {pod}: exit code 3: disk full" in refused["message"]
    chinese = served.call("POST", "/jobs/a/pause", status=409, params=query, headers={"Accept-Language": "zh-CN"})
    assert f"的检查点在 Pod {pod} 中失败：退出码 3：disk full" in chinese["message"]
    assert {name: item for name, item in place.records().items() if "Lease" not in name} == before
    assert checkpoints_written(save_file) == 4
    for method, path, more in requests:
        params = {**query, "confirm": "true"} if more else query
        served.call(method, path, params={**params, "checkpoint": "false"}, **more)
    assert checkpoints_written(save_file) == 4


@pytest.mark.slow
def test_remote_command_line_reports_failed_saving(remote: Remote, save_file: Path) -> None:
    """The messages and the option are the same as with a kubeconfig."""
    remote.login()
    place = remote.place
    failing = job(save_file, "exit 3")
    place.apply(training("a", job=failing), training("b", job=failing), training("c", job=failing))
    (pod,) = place.running("a")
    place.running("b", "c")
    remote.served.until("/jobs", lambda value: value["total"] == 3, namespace=place.namespace)
    changed = place.file(training("c", environment=image("v2")))
    named = ("-n", place.namespace)
    told = f"error: checkpoint of training/a in {place.namespace} failed in pod {pod}: exit code 3\n  = nothing was ended; with"
    for arguments in (("pause", "a"), ("delete", "job", "a", "--yes"), ("apply", "-f", changed, "--yes")):
        far = remote.typed(*arguments, *named, code=1)
        near = place.gpuctl(*arguments, code=1)
        assert far.err == near.err
        assert far.err.startswith(told) or arguments[0] == "apply"
    assert checkpoints_written(save_file) == 6
    plan = remote.typed("apply", "-f", changed, "--dry-run=server", *named)
    assert "checkpoint runs before: sh -c 'echo saved" in plan.out
    without = remote.typed("apply", "-f", changed, "--dry-run=server", "--without-checkpoint", *named)
    assert "its progress is lost\n" in without.err
    assert "checkpoint runs" not in without.out
    remote.typed("pause", "a", "--without-checkpoint", *named)
    remote.typed("delete", "job", "b", "--yes", "--without-checkpoint", *named)
    remote.typed("apply", "-f", changed, "--yes", "--without-checkpoint", *named)
    assert checkpoints_written(save_file) == 6
    assert place.get("Job", "c")["spec"]["template"]["spec"]["containers"][0]["image"] == image("v2")["image"]
