"""``gpuctl.why`` and ``gpuctl.fit`` on a real control plane, and the example server in docs/library.md."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from control_plane import ControlPlane
from gpuctl.api.fit_answers import fit_jobs
from gpuctl.api.job_cause_answers import why_answer
from gpuctl.kube.api_errors import ClusterError
from support.cluster_tools import Place, training
from support.pages import blocks

LAUNCHER = """\
import sys


class NoClick:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "click":
            raise ImportError(f"{name} may not be imported here")


sys.meta_path.insert(0, NoClick())
import why_server

server = why_server.ThreadingHTTPServer(("127.0.0.1", 0), why_server.Why)
print(server.server_port, flush=True)
server.serve_forever()
"""


def example(note: str) -> str:
    """Return the code block of docs/library.md that carries this note."""
    (found,) = (block.text for block in blocks("docs/library.md") if block.note == note)
    return found


@contextmanager
def documented_server(directory: Path) -> Iterator[str]:
    """Run the documented server in a process that cannot import click; yield its address."""
    (directory / "why_server.py").write_text(example("file: why_server.py"), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def answer(url: str) -> tuple[int, Any]:
    """Return status and JSON of a GET request."""
    try:
        with urllib.request.urlopen(url) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def apply_too_large_training(place: Place) -> None:
    """Apply a training that does not fit on any node, and wait for its pod."""
    document = training("too-large", resources={"gpu": 128})
    place.apply(document)
    place.until(lambda: place.pods("too-large"), "the pod of too-large")


def test_documented_server_answers_like_the_command(place: Place) -> None:
    apply_too_large_training(place)
    program = example("file: why_server.py")
    assert len([line for line in program.splitlines() if line.strip()]) <= 30
    with documented_server(place.directory) as address:

        def answers_are_equal() -> bool:
            # The message contains the waiting time, so the two answers may differ by a second.
            return answer(f"{address}/why/{place.namespace}/too-large") == (
                200,
                place.gpuctl("why", "too-large", "-o", "json").value,
            )

        place.until(answers_are_equal, "the same answer from server and command")
        assert answer(f"{address}/why/{place.namespace}/too-large")[1]["cause"] == "gpu-shortage"
        status, value = answer(f"{address}/why/{place.namespace}/absent")
        assert (status, value["error"]) == (404, "NotFound")
        assert value["message"] == place.gpuctl("why", "absent", "-o", "json", code=1).value["error"]
        assert answer(f"{address}/why/..%2f../too-large")[0] == 400
        assert answer(f"{address}/why/../too-large")[0] == 400
        assert answer(f"{address}/why/too-large")[0] == 404


@pytest.mark.slow
def test_documented_server_reports_missing_rights(
    plane: ControlPlane, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("nobody")))
    with documented_server(place.directory) as address:
        status, value = answer(f"{address}/why/{place.namespace}/any")
    assert (status, value["error"]) == (403, "Forbidden")
    assert "may not list" in value["message"]


def test_documented_why_example_prints_the_cause(place: Place) -> None:
    apply_too_large_training(place)

    def has_cause() -> bool:
        return gpuctl.why("too-large", namespace=place.namespace).finding.cause == "gpu-shortage"

    place.until(has_cause, "the cause")
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        exec(example("cluster"), {"gpuctl": gpuctl, "NAMESPACE": place.namespace})
    assert stream.getvalue().splitlines()[0] == "gpu-shortage"


@pytest.mark.slow
def test_library_why_equals_the_command(place: Place) -> None:
    place.apply(training("well"))
    place.running("well")
    connection = gpuctl.connect()
    try:
        found = gpuctl.why("training/well", namespace=place.namespace, cluster=connection)
        assert found.is_well
        assert (found.job.identity.name, found.notes) == ("well", ())

        def answers_are_equal() -> bool:
            # The evidence contains the running time, so the two answers may differ by a second.
            answer = gpuctl.why("well", namespace=place.namespace, cluster=connection)
            return bool(why_answer(answer).as_json() == place.gpuctl("why", "well", "-o", "json").value)

        place.until(answers_are_equal, "the same answer from library and command")
        with pytest.raises(ClusterError, match="there is no job or pod nothing") as told:
            gpuctl.why("nothing", namespace=place.namespace, cluster=connection)
        assert "`gpuctl get jobs`" in str(told.value.hint)
        with pytest.raises(gpuctl.InvalidOptions, match="not a legal namespace name"):
            gpuctl.why("well", namespace="../x", cluster=connection)
    finally:
        connection.close()


@pytest.mark.slow
def test_library_fit_equals_the_command(place: Place) -> None:
    path = place.file(training("small"), training("huge", resources={"gpu": 999}))
    snapshot = place.directory / "cluster.json"
    snapshot.write_text(place.anywhere("snapshot").out, encoding="utf-8")
    told = place.gpuctl("fit", "-f", path, "--snapshot", str(snapshot), "-o", "json", code=1).value
    result = gpuctl.fit(path, snapshot=snapshot, namespace=place.namespace)
    assert fit_jobs(result.jobs).as_json() == told
    assert {job.demand.name: job.verdict for job in result.jobs} == {"small": "fits", "huge": "never"}
    assert (result.fits, result.notes) == (False, [])
    with snapshot.open("rb") as stream:
        assert fit_jobs(gpuctl.fit(path, snapshot=stream, namespace=place.namespace).jobs).as_json() == told
    alone = gpuctl.fit(place.file(training("small")), namespace=place.namespace)
    assert (alone.fits, alone.jobs[0].demand.namespace) == (True, place.namespace)
    with pytest.raises(gpuctl.InvalidOptions):
        gpuctl.fit(path, snapshot=snapshot, cluster=gpuctl.connect())
    with pytest.raises(ClusterError, match="is not a snapshot"):
        gpuctl.fit(path, snapshot=path)
