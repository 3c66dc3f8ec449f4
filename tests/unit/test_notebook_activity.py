"""The sidecar of a notebook, run against a server with the answers of Jupyter's API, and what the policy reads of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

import gpuctl
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.usecases.policies.idle_verdicts import IdleJob, IdleVerdict
from gpuctl.usecases.policies.notebook_policy import GpuUse, notebooks_at_limits, parse_activity
from gpuctl.usecases.queries.read_context import ReadContext
from support.device_nodes import claimed_devices

DOCUMENT = """\
kind: notebook
version: v0.1
job: {{name: lab}}
environment: {{image: "jupyter:v1", command: {command}, env: {{TOKEN: sesame}}}}
service: {{port: {port}}}
notebook: {{stop_after: 2h}}
"""
NOW = 1_800_000_000.0
TIME = "2027-01-15T08:00:00Z"


class Jupyter:
    """A server that answers as jupyter_server 2.21 does: status and kernels below a base URL, to requests with a token."""

    def __init__(self, base_url: str = "/", token: str = "sesame") -> None:
        self.kernels: list[dict[str, Any]] = []
        self.asked: list[str] = []
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.asked.append(self.path)
                body: Any = {"message": "Forbidden", "reason": None}
                status = 403
                if self.headers.get("Authorization") == f"token {token}":
                    found = {
                        f"{base_url}api/status": own.status(),
                        f"{base_url}api/kernels?no_track_activity=1": own.kernels,
                    }
                    status = 200 if self.path in found else 404
                    body = found.get(self.path, {})
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def status(self) -> dict[str, Any]:
        """Return the answer to ``api/status``."""
        last = "2026-11-28T00:48:59.608150Z"
        return {"connections": 0, "kernels": len(self.kernels), "last_activity": last, "started": last}

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def sidecar(port: int, *command: str, path: str | None = None) -> Iterator[Iterator[dict[str, Any]]]:
    """Run the sidecar of a notebook, asking ten times a second; yield its lines."""
    source = DOCUMENT.format(command=json.dumps(list(command)), port=port)
    compiled = gpuctl.compile(gpuctl.Source("job.yaml", source))
    (found,) = [obj for obj in compiled.objects if obj["kind"] == "StatefulSet"]
    (container,) = found["spec"]["template"]["spec"]["initContainers"]
    # Kubernetes expands the variables of the container.
    words = [
        word.replace("$(TOKEN)", "sesame").replace("time.sleep(60)", "time.sleep(0.1)") for word in container["command"]
    ]
    env = {item["name"]: item["value"] for item in container["env"]}
    shell = "/bin/sh" if path is not None else words[0]
    environment = {"PATH": os.environ["PATH"] if path is None else path, **env}
    process = subprocess.Popen(
        [shell, *words[1:]], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        yield map(json.loads, process.stdout)
    finally:
        process.send_signal(signal.SIGTERM)
        # The pod would wait for its grace period.
        assert process.wait(10) == 0
        process.stdout.close()
        # A pod would end what the shell left, its `sleep`.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def jupyter() -> Iterator[Jupyter]:
    server = Jupyter("/lab/")
    yield server
    server.close()


@pytest.mark.parametrize(
    "command",
    [
        ("jupyter", "lab", "--ServerApp.base_url=/lab", "--IdentityProvider.token=$(TOKEN)"),
        ("bash", "-c", "exec jupyter lab --ServerApp.base_url=/lab/ --ServerApp.token=$TOKEN"),
        (
            "env",
            "JUPYTER_TOKEN=x",
            "jupyter",
            "server",
            "--NotebookApp.base_url",
            "lab",
            "--NotebookApp.token",
            "$(TOKEN)",
        ),
    ],
)
def test_sidecar_reads_the_activity(jupyter: Jupyter, command: tuple[str, ...]) -> None:
    """The base URL and the token are those of the command. The request for kernels is not activity."""
    with sidecar(jupyter.port, *command) as lines:
        first = next(lines)
        assert (first["busy"], first["kernels"]) == (0, 0)
        assert first["last_activity"] == "2026-11-28T00:48:59.608150Z"
        busy = {"execution_state": "busy", "last_activity": "2026-11-28T00:50:00.000000Z", "connections": 0}
        jupyter.kernels = [busy]
        # Only a change is printed at once.
        second = next(lines)
        assert (second["busy"], second["kernels"]) == (1, 1)
        assert second["last_activity"] == "2026-11-28T00:50:00.000000Z"
        jupyter.kernels = [{**busy, "execution_state": "idle"}]
        assert next(lines)["busy"] == 0
    assert set(jupyter.asked) == {"/lab/api/status", "/lab/api/kernels?no_track_activity=1"}


def test_sidecar_reports_why_the_activity_is_unknown(jupyter: Jupyter, tmp_path: Path) -> None:
    with sidecar(jupyter.port, "jupyter", "lab", "--ServerApp.token=wrong") as lines:
        assert next(lines)["unknown"] == "Jupyter answered with status 403"
    with sidecar(jupyter.port, "jupyter", "lab", "--ServerApp.token=$(TOKEN)") as lines:
        assert next(lines)["unknown"] == "Jupyter answered with status 404"
    jupyter.close()
    with sidecar(jupyter.port, "jupyter", "lab", "--ServerApp.token=$(TOKEN)") as lines:
        assert next(lines)["unknown"] == "URLError"
    (tmp_path / "sleep").symlink_to("/bin/sleep")
    with sidecar(jupyter.port, "code-server", path=str(tmp_path)) as lines:
        assert next(lines) == {"unknown": "the image has no python3"}


@pytest.mark.parametrize(
    ("line", "last", "unknown"),
    [
        ({"time": TIME, "last_activity": "2027-01-15T07:00:00.25Z", "busy": 0}, None, ""),
        ({"time": TIME, "last_activity": "2027-01-15T07:00:00Z", "busy": 0}, NOW - 3600, ""),
        ({"time": TIME, "last_activity": "2027-01-15T07:00:00Z", "busy": 2}, NOW, ""),
        ({"time": TIME, "last_activity": "2028-01-15T07:00:00Z", "busy": 0}, NOW, ""),
        ({"time": "2027-01-15T07:40:00Z", "last_activity": "2027-01-15T07:00:00Z"}, 0.0, "nothing for 15 minutes"),
        ({"time": "2027-01-15T08:30:00Z", "last_activity": "2027-01-15T07:00:00Z"}, 0.0, "nothing for 15 minutes"),
        ({"time": TIME, "last_activity": ["x"]}, 0.0, "nothing for 15 minutes"),
        ({"unknown": "a\nb\x1b[31m"}, 0.0, "its activity is unknown: a b"),
        ([1], 0.0, "has reported nothing yet"),
    ],
)
def test_policy_believes_only_recent_lines(line: Any, last: float | None, unknown: str) -> None:
    found = parse_activity(f"earlier\n{json.dumps(line)}\n", NOW)
    assert unknown in found.unknown
    assert bool(found.unknown) == bool(unknown)
    if last is not None:
        assert found.last == last
    assert "\x1b" not in found.unknown


@pytest.mark.parametrize("text", ["", "\n", "{", "step 12", "[" * 100_000])
def test_policy_rejects_other_lines(text: str) -> None:
    assert parse_activity(text, NOW).unknown == "its container gpuctl-activity has reported nothing yet"


def test_limits_of_a_notebook_are_lifted() -> None:
    limits = {"stop_after": "2h", "max_lifetime": "3d"}
    document = {"kind": "notebook", "version": "v0.1", "job": {"name": "lab"}, "notebook": limits}
    document |= {"environment": {"image": "jupyter:v1"}}
    found = gpuctl.compile(gpuctl.Source("lab.yaml", json.dumps(document)))
    (lifted,) = gpuctl.lift(found.objects, found.settings)
    assert lifted["notebook"] == limits


class Notebook:
    """A session with one notebook whose pod was created from a template with device claims, and its objects by kind."""

    def __init__(self, *claims: Any, **objects: list[Any]) -> None:
        owner = {"kind": "StatefulSet", "name": "lab", "uid": "u", "controller": True}
        metadata = {"name": "lab-0", "namespace": "team", "uid": "p", "ownerReferences": [owner]}
        spec = {"containers": [{"name": "main"}], "resourceClaims": list(claims)}
        status = {"startTime": format_timestamp(NOW - 100 * 3600)}
        self.pod = {"metadata": metadata, "spec": spec, "status": status}
        self.objects = {"Pod": [self.pod], **objects}

    def list_objects(self, resource: Any, *_: Any, **__: Any) -> tuple[list[Any], str]:
        return self.objects.get(resource.kind, []), ""

    def text(self, *_: Any) -> str:
        return json.dumps({"time": TIME, "last_activity": format_timestamp(NOW - 50 * 3600), "busy": 0})

    def at_limit(self) -> list[IdleJob]:
        """Return what the policy says if the use of the notebook's GPUs is not measured."""
        settings = Settings()
        keys = records(settings)
        metadata = {"name": "lab", "namespace": "team", "uid": "u", "annotations": {keys.stop_after: "2h"}}
        workload = {"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": metadata, "spec": {"template": {}}}
        job = Job(Identity("team", "lab", "notebook"), workload)
        reader = ReadContext(Scope(cast(Session, self), "team"), settings, keys)
        return list(notebooks_at_limits(reader, [job], {"u": "lab"}, GpuUse({}, {}, "5 %"), NOW))


TEMPLATE = {"name": "cards", "resourceClaimTemplateName": "cards"}


@pytest.mark.parametrize(
    ("notebook", "gpus", "verdict"),
    [
        (Notebook(TEMPLATE, **claimed_devices("gpu.nvidia.com", 4)), 4, IdleVerdict.UNKNOWN),
        (Notebook(TEMPLATE, **claimed_devices("nic.example.com", 2)), 0, IdleVerdict.PAUSE),
        (Notebook({"name": "cards", "resourceClaimName": "shared"}), 1, IdleVerdict.UNKNOWN),
        (Notebook(TEMPLATE), 1, IdleVerdict.UNKNOWN),
        (Notebook(), 0, IdleVerdict.PAUSE),
    ],
    ids=["four GPUs", "no GPU", "of several pods", "unknown template", "no claims"],
)
def test_gpus_of_claims_are_counted(notebook: Notebook, gpus: int, verdict: IdleVerdict) -> None:
    """A notebook with GPUs is paused only if their use is known."""
    (found,) = notebook.at_limit()
    assert (found.gpus, found.verdict) == (gpus, verdict)
