"""The service's start: with missing or late dependencies, with wrong settings, and under the conditions of its image."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import entry_points, metadata
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, cut_before, on
from support.cluster_tools import Place, inference
from support.served import refused_start, serving

ROOT = Path(__file__).resolve().parents[2]
ADMIN = {"admin": ("admin", None, None)}


def test_start_waits_for_an_unreachable_api_server(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    """/readyz reports the problem, requests get 503, and the service becomes ready once the API server answers."""
    place.apply(inference("chat"))
    proxy.reset(on(lambda request: True, cut_before))
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "kubeconfig"), ADMIN, True, False, fresh=True) as own:

        def unready() -> dict[str, object]:
            token = {"Authorization": f"Bearer {own.tokens['admin']}"}
            answer = httpx.get(f"{own.url}/readyz", headers=token, timeout=30)
            assert answer.status_code == 503
            return dict(answer.json())

        assert httpx.get(f"{own.url}/healthz", timeout=30).status_code == 200
        problem = place.until(lambda: unready()["problem"], "readyz to report a problem")
        assert problem == "the Kubernetes API server cannot be reached", "only the log has the address"
        errors = {
            path: own.call("GET", path, status=503)["error"] for path in ("/jobs", "/jobs/chat", "/nodes", "/quotas")
        }
        # The mirror's lists are not available yet; requests that bypass the mirror fail.
        assert errors == {
            "/jobs": "ServiceUnavailable",
            "/jobs/chat": "ServiceUnavailable",
            "/nodes": "Unreachable",
            "/quotas": "Unreachable",
        }
        proxy.reset(None)
        place.until(lambda: httpx.get(f"{own.url}/readyz", timeout=30).status_code == 200, "the service to be ready")
        assert [item["name"] for item in own.get("/jobs", namespace=place.namespace)["items"]] == ["chat"]
        assert not any("Traceback" in line for line in own.log)


@pytest.mark.parametrize("fresh", [True, False], ids=["a process", "a fork"])
def test_port_in_use_is_reported_and_no_token_file_created(plane: ControlPlane, tmp_path: Path, fresh: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused_start(tmp_path, plane.kubeconfig(), fresh, port=str(port))
    assert code == 3
    assert said == (
        f"gpuctl-server: cannot listen on 127.0.0.1:{port}: the port is in use; set another with --port or "
        "GPUCTL_SERVER_PORT, or 0 for a free one\n"
    )
    assert not (tmp_path / "tokens.json").exists()


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("192.0.2.1", "cannot listen on 192.0.2.1:0: this machine does not have this address"),
        ("no.such.host.invalid", "cannot listen on no.such.host.invalid: it is not an address of this machine"),
    ],
)
def test_invalid_listen_address_is_reported(plane: ControlPlane, tmp_path: Path, host: str, message: str) -> None:
    assert refused_start(tmp_path, plane.kubeconfig(), host=host) == (3, f"gpuctl-server: {message}\n")


@pytest.mark.parametrize(("host", "fresh"), [("::1", True), ("localhost", False)])
def test_service_listens_on_ipv6_and_localhost(plane: ControlPlane, tmp_path: Path, host: str, fresh: bool) -> None:
    with serving(tmp_path, plane.kubeconfig(), ADMIN, fresh=fresh, host=host) as own:
        assert own.get("/jobs")["total"] >= 0
        assert own.stop() == 0


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("{", 0o600, "is not valid JSON"),
        ("[]", 0o600, "has no list `tokens`"),
        ('{"tokens": [{"name": "a"}]}', 0o600, "tokens.json is invalid: sha256: field required"),
        ('{"tokens": []}', 0o644, "may be read by all users (mode 0644): `chmod 600"),
    ],
)
def test_start_fails_with_an_invalid_token_file(
    plane: ControlPlane, tmp_path: Path, content: str, mode: int, message: str
) -> None:
    """The service exits and leaves the file unchanged."""
    path = tmp_path / "tokens.json"
    path.write_text(content)
    path.chmod(mode)
    code, said = refused_start(tmp_path, plane.kubeconfig())
    assert code == 3
    assert said.startswith("gpuctl-server: the tokens cannot be used: ")
    assert message in said
    assert "Traceback" not in said
    assert path.read_text() == content


def dockerfile() -> list[tuple[str, str]]:
    """Return the steps of both stages of the image."""
    text = (ROOT / "deploy" / "service" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


@pytest.mark.slow
def test_dockerfile_copies_files_and_sets_a_numeric_user() -> None:
    """The copied files exist and suffice for an installation; the user is a number other than root's."""
    steps = dockerfile()
    copied = [word for step, rest in steps if step == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied), copied
    assert {"pyproject.toml", "README.md", "LICENSE", "requirements", "compiler", "server"} == set(copied)
    (install,) = [rest for step, rest in steps if step == "RUN"]
    assert "--require-hashes -r requirements/server.txt" in install
    assert [rest for step, rest in steps if step == "ENTRYPOINT"] == ['["gpuctl-server"]']
    assert entry_points(group="console_scripts", name="gpuctl-server")
    oldest = metadata("gpuctl-k8s")["Requires-Python"].removeprefix(">=")
    images = [rest.split()[0].removeprefix("python:").removesuffix("-slim") for step, rest in steps if step == "FROM"]
    assert all(tuple(map(int, item.split("."))) >= tuple(map(int, oldest.split("."))) for item in images)
    (user,) = [rest for step, rest in steps if step == "USER"]
    assert all(part.isdigit() and int(part) > 0 for part in user.split(":"))


class UserInterpreter(NamedTuple):
    """An interpreter and the user to run it as."""

    python: str
    options: dict[str, Any]


def interpreter_for_image_user() -> UserInterpreter:
    """Return an interpreter that the image's user can run; without root, the current one as the current user."""
    if os.geteuid() != 0:
        return UserInterpreter(sys.executable, {})
    user, group = next(rest for step, rest in dockerfile() if step == "USER").split(":")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}"):
        path = Path(python).resolve()
        if path.exists() and is_open_to_all(path):
            return UserInterpreter(python, {"user": int(user), "group": int(group), "extra_groups": []})
    pytest.skip("no interpreter that other users than root may run")


def is_open_to_all(path: Path) -> bool:
    """Return True if every user may enter a directory, or run a file, and enter the directories above it."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory below which every user may read. That of pytest is only its owner's, and so may be TMPDIR."""
    places = map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"))
    place = next((place for place in places if place.exists() and is_open_to_all(place)), None)
    if os.geteuid() == 0 and place is None:
        pytest.skip("no directory for temporary files that other users than root may enter")
    with tempfile.TemporaryDirectory(prefix="gpuctl-image-", dir=place) as found:
        yield Path(found)


@pytest.mark.slow
def test_service_runs_as_the_image_user_in_a_read_only_directory(plane: ControlPlane, directory: Path) -> None:
    """The user owns no file, the working directory is read-only, and only the image's environment is set."""
    (environment,) = [rest for step, rest in dockerfile() if step == "ENV"]
    values = dict(item.split("=", 1) for item in shlex.split(environment))
    assert (values["HOME"], values["GPUCTL_SERVER_HOST"]) == ("/tmp", "0.0.0.0")
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(plane.kubeconfig().read_text())
    kubeconfig.chmod(0o644)
    (directory / "server.yaml").write_text("auth: kubernetes\nport: 0\n")
    scratch = directory / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    directory.chmod(0o555)
    python, options = interpreter_for_image_user()
    if options and not is_open_to_all(ROOT):
        pytest.skip("the sources are in a directory that other users than root may not enter")
    paths = os.pathsep.join(path for path in sys.path if path and Path(path).exists())
    places = {"HOME": str(scratch), "TMPDIR": str(scratch), "KUBECONFIG": str(kubeconfig), "PYTHONPATH": paths}
    process = subprocess.Popen(
        [python, "-m", "gpuctl_server", "--config", str(directory / "server.yaml")],
        env={**values, **places, "GPUCTL_SERVER_INSECURE_PLAIN_HTTP": "true"},
        cwd=directory,
        **options,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("gpuctl serves "):
                break
        else:
            pytest.fail(f"the service has exited:\n{''.join(lines)}")
        url = lines[-1].removeprefix("gpuctl serves ").strip().replace("0.0.0.0", "127.0.0.1")
        headers = {"Authorization": f"Bearer {plane.tokens['admin']}"}
        with httpx.Client(headers=headers, timeout=60) as client:
            plane.wait_for(lambda: client.get(f"{url}/jobs").status_code == 200, "the service", 60)
            document = client.get(f"{url}/openapi.json").json()
        assert json.dumps(document)
    finally:
        process.kill()
        process.wait()
        directory.chmod(0o755)
    assert list(scratch.iterdir()) == []
