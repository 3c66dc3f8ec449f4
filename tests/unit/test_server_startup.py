"""Safe startup of the service (settings, TLS, tokens), as far as it needs no cluster."""

from __future__ import annotations

import json
import re
import stat
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gpuctl.kube.configuration import connect
from gpuctl_sdk import AsyncClient, Client
from gpuctl_server import startup
from gpuctl_server.__main__ import program
from gpuctl_server.access.tokens import DamagedTokens, new_token, read_tokens, write_tokens
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.startup import CannotStart, main, prepare, serve
from gpuctl_usage.layered_settings import SettingsProblem
from gpuctl_usage.usage_settings import UsageSettings
from support.certificates import self_signed

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GPUCTL_SERVER_TLS_CERTIFIKAT", "did you mean `GPUCTL_SERVER_TLS_CERTIFICATE`?"),
        ("GPUCTL_SERVER_POD_SECURTY", "did you mean `GPUCTL_SERVER_POD_SECURITY`?"),
        ("gpuctl_server_pod_securty", "did you mean `GPUCTL_SERVER_POD_SECURITY`?"),
        ("GPUCTL_SERVER_", "`GPUCTL_SERVER_`"),
        ("GPUCTL_SERVER_SERVICE_HOST", "set `enableServiceLinks: false` in the pod's spec"),
        ("GPUCTL_SERVER_USAGE_LABEL", "did you mean `GPUCTL_SERVER_USAGE_LABELS`?"),
    ],
)
def test_unknown_setting_in_the_environment_stops_the_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(SettingsProblem, match="unknown settings in the environment") as found:
        ServerSettings.made({})
    assert message in str(found.value)
    assert main([]) == 2
    assert message in capsys.readouterr().err


def test_start_without_the_packages_of_the_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "gpuctl_server.startup")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert program() == 3
    assert capsys.readouterr().err == "gpuctl-server: uvicorn is not installed: `pip install 'gpuctl-k8s[server]'`\n"


def test_collector_accepts_variables_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may run in one environment; a misspelled usage setting stops either."""
    monkeypatch.setenv("GPUCTL_SERVER_POD_SECURITY", "restricted")
    monkeypatch.setenv("GPUCTL_SERVER_CONFIG", "/dev/null")
    assert ServerSettings.made({}).pod_security == "restricted"
    UsageSettings.made({})
    monkeypatch.setenv("GPUCTL_SERVER_USAGE_LABEL", "x")
    with pytest.raises(SettingsProblem, match="GPUCTL_SERVER_USAGE_LABELS"):
        UsageSettings.made({})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_plain_http_beyond_loopback_must_be_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str) -> None:
    """Without a certificate the user must allow it explicitly."""
    begun: list[str] = []
    monkeypatch.setattr(startup, "prepare", lambda *_: begun.append("prepared"))
    monkeypatch.setattr(startup, "_serve", lambda *_: begun.append("serves"))
    with pytest.raises(CannotStart, match="--insecure-plain-http"):
        serve(ServerSettings.made({"host": host, "port": 0}), print)
    assert not begun
    serve(ServerSettings.made({"host": host, "port": 0, "insecure_plain_http": True}), print)
    certificate, key = self_signed(tmp_path)
    serve(ServerSettings.made({"host": host, "port": 0, "tls_certificate": certificate, "tls_key": key}), print)
    for loopback in ("127.0.0.1", "localhost", "::1"):
        serve(ServerSettings.made({"host": loopback, "port": 0}), print)
    assert begun.count("serves") == 5


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_clients_reject_plain_http_beyond_loopback(kind: type[Client] | type[AsyncClient]) -> None:
    for url in (
        "http://192.0.2.1",
        "http://gpuctl.example.com:8000",
        "http://127.0.0.1.example.com",
        "http://[2001:db8::1]",
    ):
        with pytest.raises(ValueError, match="insecure_plain_http"):
            kind(url, "token")
        kind(url, "token", insecure_plain_http=True)
    for url in ("https://192.0.2.1", "http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"):
        kind(url, "token")


def test_first_admin_token_is_written_to_a_private_file(tmp_path: Path) -> None:
    """The token is written to a file that only its owner may read, is not printed, and expires."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    kubeconfig.chmod(0o600)
    assert connect(kubeconfig=str(kubeconfig))
    tokens, said = tmp_path / "tokens.json", []
    prepare(ServerSettings.made({"kubeconfig": str(kubeconfig), "tokens": tokens}), said.append)
    first = tmp_path / "admin-token"
    token = first.read_text().strip()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert re.fullmatch(r"gpuctl_\S{43}", token)
    assert str(first) in said[0]
    assert "gpuctl_" not in said[0]
    (entry,) = read_tokens(tokens)
    assert entry.expires is not None
    days = (datetime.fromisoformat(entry.expires.replace("Z", "+00:00")) - datetime.now(timezone.utc)).days
    assert (entry.name, entry.role, days) == ("admin", "admin", 89)
    prepare(ServerSettings.made({"kubeconfig": str(kubeconfig), "tokens": tokens}), said.append)
    assert len(said) == 1, "a second start creates no token"


def test_token_create_requires_limits_and_a_unique_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.json"
    monkeypatch.setenv("GPUCTL_SERVER_TOKENS", str(path))

    def create(*arguments: str) -> int:
        return main(["token", "create", *arguments])

    def limits() -> list[tuple[object, object]]:
        return [(item.get("namespaces"), item.get("pools")) for item in json.loads(path.read_text())["tokens"]]

    assert create("anna") == 2
    assert "--all" in capsys.readouterr().err
    assert create("anna", "--all", "--namespace", "team-a") == 2
    assert create("anna", "--namespace", "team-a") == 0
    assert create("anna", "--all") == 2
    assert "--replace" in capsys.readouterr().err
    assert limits() == [(["team-a"], None)]
    assert create("anna", "--pool", "training-pool", "--add") == 0
    assert limits() == [(["team-a"], None), (None, ["training-pool"])]
    assert create("anna", "--all", "--replace") == 0
    assert limits() == [(None, None)]
    assert create("otto", "--all", "--add") == 0
    assert len(limits()) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": None}, "name: input should be a valid string"),
        ({"sha256": "00"}, "sha256: string should match pattern '^[0-9a-f]{64}$'"),
        ({"sha256": 64 * "0" + "\n"}, "sha256: string should match pattern '^[0-9a-f]{64}$'"),
        ({"role": "king"}, "role: input should be 'admin', 'user', 'viewer' or 'metrics'"),
        ({"namespaces": "team-a"}, "namespaces: input should be a valid array"),
        ({"pools": ["a", 1]}, "pools.1: input should be a valid string"),
        ({"expires": "tomorrow"}, "expires: input should be a time in RFC 3339"),
    ],
)
def test_invalid_entry_of_a_token_file_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = tmp_path / "tokens.json"
    _, entry = new_token("anna", "user", namespaces=["team-a"], lasts=timedelta(days=1))
    write_tokens(path, [entry])
    assert read_tokens(path) == [entry]
    value = json.loads(path.read_text())
    value["tokens"][0] |= change
    path.write_text(json.dumps(value))
    with pytest.raises(DamagedTokens) as found:
        read_tokens(path)
    assert str(found.value) == f"tokens[0] of {path} is invalid: {problem}"
