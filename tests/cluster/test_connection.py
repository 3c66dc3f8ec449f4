"""The connection to the cluster: kubeconfigs, valid and damaged, credentials of all sources, proxies, certificates.

Every failure prints a message with cause and place, a hint, and never a token; the exit code is 3.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import re
import select
import socket
import socketserver
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Upstream
from fault_tools.world import Api
from gpuctl.cli.main import run
from gpuctl.kube.api_errors import ApiError, ConnectionFailed
from gpuctl.kube.api_requests import ApiRequests
from gpuctl.kube.configuration import Impersonation, open_session
from gpuctl.kube.proxies import proxy_for
from gpuctl.objects.api_resources import RESOURCES
from support.cluster_tools import Place, notebook
from support.command import on_a_terminal

Config = dict[str, Any]
HERE = "connection-here"
EXEC_VERSION = "client.authentication.k8s.io/v1"
UNREACHABLE = "check the context, the network and the proxy; `kubectl version` should work"


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int
    text: str


class Client:
    """A user with a kubeconfig that tests rewrite."""

    def __init__(self, plane: ControlPlane, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.plane = plane
        self.directory = directory
        self.file = directory / "kubeconfig"
        self.base: Config = json.loads(plane.kubeconfig().read_text())
        self._capsys = capsys

    @property
    def token(self) -> str:
        return self.plane.tokens["admin"]

    def config(self, **changes: Any) -> Config:
        """Return a valid kubeconfig; ``cluster``, ``user`` and ``context`` replace fields (None removes a field)."""
        result = copy.deepcopy(self.base)
        for part, fields in changes.items():
            body = result[f"{part}s"][0][part]
            for name, value in fields.items():
                body.pop(name, None)
                if value is not None:
                    body[name] = value
        return result

    def write(self, config: Config | bytes, name: str = "kubeconfig") -> Path:
        path = self.directory / name
        path.write_bytes(config if isinstance(config, bytes) else json.dumps(config).encode())
        return path

    def call(self, *arguments: str, file: bool = True) -> Outcome:
        """Run a command without and with ``--debug``: the outcomes are equal, and neither prints a token."""
        options = ["--kubeconfig", str(self.file)] if file else []
        outcomes = []
        for debug in ([], ["--debug"]):
            self._capsys.readouterr()
            code = run([*debug, *arguments, *options])
            captured = self._capsys.readouterr()
            outcomes.append(Outcome(code, captured.out + captured.err))
        for outcome in outcomes:
            for token in self.plane.tokens.values():
                assert token not in outcome.text, "a token was printed"
            assert "Traceback" not in outcome.text
            assert "internal error" not in outcome.text
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    def list_secrets(self, config: Config | bytes | None = None) -> Outcome:
        """Run the cheapest command that needs the cluster: one list request."""
        if config is not None:
            self.write(config)
        return self.call("recover", "-n", HERE)

    def works(self, config: Config | None = None) -> None:
        """Assert that the cluster is reached."""
        assert self.list_secrets(config) == (0, "Nothing to recover.\n")

    def fails(self, config: Config | bytes, message: str, hint: str | None = None) -> None:
        """Assert exit code 3, the message (``FILE`` stands for the kubeconfig) and a hint."""
        code, text = self.list_secrets(config)
        error, *rest = text.splitlines()
        assert code == 3, text
        assert error == f"error: {message}".replace("FILE", str(self.file))
        assert len(rest) == 1, text
        assert rest[0].startswith("  = "), text
        if hint is not None:
            assert rest[0] == f"  = {hint}"

    def away(self, host: str) -> Config:
        """Return the fields of a cluster with another host name, which is reachable only through a proxy."""
        return {"server": f"https://{host}:{self.plane.port}", "tls-server-name": "kubernetes.default.svc"}

    def plugin(self, body: str, **fields: Any) -> Config:
        """Return a kubeconfig whose user's credentials come from a shell script."""
        path = self.directory / "plugin"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        entry = {"apiVersion": EXEC_VERSION, "command": str(path), "interactiveMode": "Never", **fields}
        return self.config(user={"token": None, "exec": entry})


def credential(token: str, **status: str) -> str:
    """Return a script that prints a token as an ExecCredential."""
    value = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": {"token": token, **status}}
    return f"cat <<'END'\n{json.dumps(value)}\nEND"


@pytest.fixture
def client(
    plane: ControlPlane,
    api: Api,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Client:
    """A client without the settings of the user who runs the tests."""
    if api.request("GET", f"/api/v1/namespaces/{HERE}")[0] == 404:
        api.create_namespace(HERE)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Client(plane, tmp_path, capsys)


# Choice of file and context.


def test_valid_kubeconfig_reaches_the_cluster(client: Client) -> None:
    client.works(client.config())


def test_kubeconfig_in_the_home_directory_is_the_default(client: Client) -> None:
    (client.directory / ".kube").mkdir()
    client.write(client.config(), ".kube/config")
    assert client.call("recover", "-n", HERE, file=False).code == 0


def test_missing_kubeconfig_is_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    home = client.directory / ".kube" / "config"
    hint = "  = name one with --kubeconfig or KUBECONFIG; `make sandbox` starts a cluster to try\n"
    assert client.call("recover", file=False) == (3, f"error: there is no kubeconfig at {home}\n{hint}")
    monkeypatch.setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
    code, text = client.call("recover", file=False)
    assert (code, text) == (3, f"error: there is no kubeconfig at /nowhere/a:/nowhere/b\n{hint}")


def test_kubeconfig_files_are_merged_and_the_first_wins(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file's current context and entries win, and paths are relative to their file, as in kubectl."""
    far = client.directory / "far"
    far.mkdir()
    (far / "ca.crt").write_bytes((client.plane.directory / "certificates" / "apiserver.crt").read_bytes())
    other = client.config(cluster={"certificate-authority-data": None, "certificate-authority": "ca.crt"})
    other["current-context"] = "nonsense"
    context = {"name": "mine", "context": {"cluster": "test", "user": "admin"}}
    wrong_user = {"name": "unused", "user": {"token": "wrong"}}
    first = {"kind": "Config", "contexts": [context], "current-context": "mine", "users": [wrong_user]}
    files = [client.write(first, "first"), client.directory / "absent", client.write(b"", "empty"), far / "config"]
    client.write(other, "far/config")
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    assert client.call("recover", "-n", HERE, file=False).code == 0
    # kubectl chooses the same context.
    assert client.plane.kubectl("config", "current-context", f"--kubeconfig={files[0]}").strip() == "mine"
    first["users"] = [{"name": "admin", "user": {"token": "wrong"}}]
    client.write(first, "first")
    code, text = client.call("recover", "-n", HERE, file=False)
    assert code == 3
    assert text.startswith("error: the API server does not accept the credentials (401 Unauthorized)\n")


def test_context_option_selects_the_context(client: Client) -> None:
    config = client.config()
    config["contexts"].append({"name": "other", "context": {"cluster": "test", "user": "bob"}})
    config["users"].append({"name": "bob", "user": {"token": client.plane.tokens["bob"]}})
    client.write(config)
    assert client.call("recover", "-n", "team-b", "--context", "other").code == 0
    code, text = client.call("recover", "-n", HERE, "--context", "other")
    assert code == 3
    assert text.startswith(f"error: user bob may not list secrets in namespace {HERE}\n")
    code, text = client.call("recover", "--context", "third")
    assert (code, text) == (
        3,
        f"error: the kubeconfig {client.file} has no context third\n  = it has: test, other\n",
    )


def test_namespace_of_the_context_is_the_default(client: Client) -> None:
    """``-n`` takes precedence over the context's namespace, and the document's namespace over both."""
    client.write(client.config(context={"namespace": HERE}))
    job = {"kind": "training", "version": "v0.1", "job": {"name": "here"}, "resources": {"gpu": 0}}
    job["environment"] = {"image": "registry.example.com/a:1", "command": ["x"]}
    path = client.directory / "job.yaml"
    expected = {(): HERE, ("-n", "team-a"): "team-a"}
    for flags, namespace in expected.items():
        path.write_text(json.dumps(job))
        _, text = client.call("apply", "-f", str(path), "--dry-run=server", *flags)
        assert f"create    job.batch/here -n {namespace}\n" in text
        path.write_text(json.dumps({**job, "job": {"name": "here", "namespace": "team-b"}}))
        _, text = client.call("apply", "-f", str(path), "--dry-run=server", *flags)
        assert "create    job.batch/here -n team-b\n" in text


# Damaged files.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the kubeconfig FILE is empty"),
        (b"# nothing\n", "the kubeconfig FILE is empty"),
        (bytes(range(256)), "the kubeconfig FILE is not text in UTF-8"),
        (b"\0\0", "the kubeconfig FILE is not YAML"),
        (b"clusters: [a\nb", "the kubeconfig FILE is not YAML (line 3, column 1)"),
        (b"hello\n", "FILE is not a kubeconfig: it has no clusters, contexts and users"),
        (b"[1, 2]\n", "FILE is not a kubeconfig: it has no clusters, contexts and users"),
        (b"kind: Pod\n", "FILE is not a kubeconfig: it has no clusters, contexts and users"),
        (b"current-context: a\n", "the kubeconfig FILE has no context a"),
        (b"contexts: []\n", "the kubeconfig FILE has no current context"),
    ],
)
def test_files_that_are_not_kubeconfigs_are_rejected(client: Client, content: bytes, message: str) -> None:
    client.fails(content, message)


@pytest.mark.parametrize("depth", [101, 5000])
def test_deeply_nested_yaml_is_rejected(client: Client, depth: int) -> None:
    """Some releases of PyYAML reject deep nesting themselves, so the column depends on the release."""
    code, text = client.list_secrets(b"clusters: " + b"[" * depth + b"]" * depth)
    assert code == 3
    assert re.match(
        rf"error: the kubeconfig {re.escape(str(client.file))} is not YAML \(line 1, column \d+\)\n  = ", text
    ), text


def test_unreadable_kubeconfig_is_reported(client: Client) -> None:
    client.file.mkdir()
    code, text = client.list_secrets()
    assert code == 3
    assert text.startswith(f"error: the kubeconfig {client.file} cannot be read: is a directory\n  = ")


WRONG: tuple[Any, ...] = (None, 5, 0.5, True, "text", "", ["a"], [], {"a": 1}, {})
FIELDS: dict[str, type] = {
    "clusters": list,
    "users": list,
    "contexts": list,
    "current-context": str,
    "clusters.0": dict,
    "users.0": dict,
    "contexts.0": dict,
    "clusters.0.name": str,
    "users.0.name": str,
    "contexts.0.name": str,
    "clusters.0.cluster": dict,
    "users.0.user": dict,
    "contexts.0.context": dict,
    "clusters.0.cluster.server": str,
    "clusters.0.cluster.certificate-authority": str,
    "clusters.0.cluster.certificate-authority-data": str,
    "clusters.0.cluster.tls-server-name": str,
    "clusters.0.cluster.proxy-url": str,
    "clusters.0.cluster.insecure-skip-tls-verify": bool,
    "users.0.user.token": str,
    "users.0.user.tokenFile": str,
    "users.0.user.client-certificate": str,
    "users.0.user.client-key-data": str,
    "users.0.user.username": str,
    "users.0.user.exec": dict,
    "users.0.user.exec.command": str,
    "users.0.user.exec.apiVersion": str,
    "users.0.user.exec.args": list,
    "users.0.user.exec.args.0": str,
    "users.0.user.exec.env": list,
    "users.0.user.exec.env.0": dict,
    "users.0.user.exec.env.0.name": str,
    "contexts.0.context.cluster": str,
    "contexts.0.context.user": str,
    "contexts.0.context.namespace": str,
}
# Fields that must not be null. kubectl takes a null in a field of its types for an absent one.
REQUIRED = {"clusters.0", "users.0", "contexts.0", "clusters.0.name", "users.0.name", "contexts.0.name"}
REQUIRED |= {f"users.0.user.exec.{name}" for name in ("command", "apiVersion", "args.0", "env.0", "env.0.name")}


@pytest.mark.parametrize("path", FIELDS)
def test_fields_of_a_wrong_type_are_named(client: Client, path: str) -> None:
    """Each field gets values of every other type; the message names the field."""
    *above, last = (int(step) if step.isdigit() else step for step in path.split("."))
    kind = {str: "text", bool: "true or false", dict: "a mapping", list: "a list"}[FIELDS[path]]
    named = path.replace("clusters.0.cluster", "clusters[test].cluster").replace("users.0.user", "users[admin].user")
    named = named.replace("contexts.0.context", "contexts[test].context")
    named = re.sub(r"\.(\d+)", r"[\1]", named)
    tried = 0
    for value in WRONG:
        if isinstance(value, FIELDS[path]) or (value is None and path not in REQUIRED):
            continue
        config = client.plugin("false", args=["a"], env=[{"name": "A", "value": "b"}])
        target: Any = config
        for step in above:
            target = target[step]
        target[last] = value
        client.fails(config, f"{named} is not {kind} in the kubeconfig FILE")
        tried += 1
    assert tried >= 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"context": {"cluster": "x"}},
            "the context test of the kubeconfig FILE refers to the cluster x, which does not exist",
        ),
        (
            {"context": {"user": "x"}},
            "the context test of the kubeconfig FILE refers to the user x, which does not exist",
        ),
        ({"context": {"cluster": None}}, "the context test of the kubeconfig FILE has no cluster"),
        (
            {"context": {"namespace": "Team A"}},
            "the context test of the kubeconfig FILE has the namespace Team A, which is not a legal name",
        ),
        ({"cluster": {"server": None}}, "the server of the cluster test is not given in the kubeconfig FILE"),
        ({"cluster": {"server": "10.0.0.1"}}, "the server of the cluster test is 10.0.0.1 in the kubeconfig FILE"),
        (
            {"cluster": {"certificate-authority": "/nowhere/ca.crt", "certificate-authority-data": None}},
            "clusters[test].cluster.certificate-authority of the kubeconfig FILE names /nowhere/ca.crt, which cannot be read: no such file or directory",
        ),
        (
            {"user": {"token": None, "tokenFile": "/nowhere/token"}},
            "the token file /nowhere/token cannot be read: no such file or directory",
        ),
    ],
)
def test_dangling_references_are_reported(client: Client, changes: dict[str, Any], message: str) -> None:
    client.fails(client.config(**changes), message)


def test_damaged_certificate_authority_is_rejected(client: Client) -> None:
    for data in ("bm8gY2VydGlmaWNhdGU=", "%%%"):
        code, text = client.list_secrets(
            client.config(cluster={"certificate-authority": None, "certificate-authority-data": data})
        )
        assert code == 3
        assert text.count("\n") == 2


# Credentials.


def test_wrong_token_is_reported(client: Client) -> None:
    message = "the API server does not accept the credentials (401 Unauthorized)"
    client.fails(
        client.config(user={"token": "wrong"}), message, "log in again, or check the user of the kubeconfig's context"
    )


def test_missing_credentials_are_reported(client: Client) -> None:
    message = f"user system:anonymous may not list secrets in namespace {HERE}"
    hint = "no credentials were sent: check the user of the kubeconfig's context, and that its server is https://"
    client.fails(client.config(user={"token": None}), message, hint)


def test_token_file_may_end_with_a_line_break(client: Client) -> None:
    """Editors add the line break."""
    (client.directory / "token").write_text(f"{client.token}\n")
    client.works(client.config(user={"token": None, "tokenFile": "token"}))


def test_token_with_a_line_break_is_rejected(client: Client) -> None:
    """Such a token would be an illegal header, which http.client repeats in its error message."""
    message = "the credentials cannot be sent: they contain a line break, or another character that no token has"
    client.fails(client.config(user={"token": f"{client.token}\nX-Injected: yes"}), message)


def test_exec_plugin_supplies_the_token(client: Client) -> None:
    client.works(client.plugin(credential(client.token)))


def test_exec_plugin_gets_arguments_and_variables(client: Client) -> None:
    script = f'[ "$1 $WHO" = "login me" ] || exit 1\n{credential(client.token)}'
    client.works(client.plugin(script, args=["login"], env=[{"name": "WHO", "value": "me"}]))


def test_slow_exec_plugin_is_waited_for(client: Client) -> None:
    client.works(client.plugin(f"sleep 0.5\n{credential(client.token)}"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'log in first' >&2; exit 7", "it ended with exit code 7: log in first"),
        ("exit 1", "it ended with exit code 1"),
        ("echo token: TOKEN", "its output is not JSON"),
        ("true", "its output is not JSON"),
        ("echo '[]'", "its output is not an ExecCredential with a status"),
        ("echo 5", "its output is not an ExecCredential with a status"),
        ("echo '{}'", "its output is not an ExecCredential with a status"),
        (
            'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": null}\'',
            "its output is not an ExecCredential with a status",
        ),
        (
            'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {}}\'',
            "its output has neither token nor client certificate",
        ),
        (
            'echo \'{"apiVersion": "v9", "kind": "ExecCredential", "status": {}}\'',
            "its output has apiVersion v9, the kubeconfig asks for client.authentication.k8s.io/v1",
        ),
    ],
)
def test_exec_plugin_failure_is_reported(client: Client, script: str, said: str) -> None:
    """Requests without credentials would end in a misleading message about user system:anonymous."""
    config = client.plugin(script.replace("TOKEN", client.token), installHint="install it with `make login`")
    message = f"the credential plugin {client.directory / 'plugin'} of the user admin failed: {said}"
    client.fails(config, message, "install it with `make login`")


def test_missing_exec_plugin_is_reported(client: Client) -> None:
    config = client.plugin("true", command="gke-auth-plugin")
    client.fails(config, "the credential plugin gke-auth-plugin of the user admin failed: no such file or directory")


def test_expired_token_is_renewed_before_each_request(client: Client) -> None:
    count = client.directory / "count"
    past = credential(client.token, expirationTimestamp="2020-01-01T00:00:00Z")
    client.works(client.plugin(f"echo x >> {count}\n{past}"))
    assert len(count.read_text().split()) == 4, "two commands, of two requests each"


def test_failed_token_renewal_is_reported(client: Client) -> None:
    again = client.directory / "again"
    past = credential(client.token, expirationTimestamp="2020-01-01T00:00:00Z")
    config = client.plugin(
        f"if [ -e {again} ]; then rm {again}; echo 'session over' >&2; exit 1; fi\ntouch {again}\n{past}"
    )
    said = "it ended with exit code 1: session over"
    client.fails(config, f"the credential plugin {client.directory / 'plugin'} of the user admin failed: {said}")


# The network.


def test_refused_connection_is_reported(client: Client) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{closed.getsockname()[1]}"
    message = f"{server} (context test) cannot be reached: connection refused"
    client.fails(client.config(cluster={"server": server}), message, UNREACHABLE)


def test_unknown_host_is_reported(client: Client) -> None:
    server = "https://cluster.invalid:6443"
    code, text = client.list_secrets(client.config(cluster={"server": server}))
    assert code == 3
    assert text.startswith(f"error: {server} (context test) cannot be reached: ")
    assert "name" in text.splitlines()[0], "the message does not mention the name"
    assert text.endswith(f"  = {UNREACHABLE}\n")


def test_server_without_tls_is_reported(client: Client) -> None:
    server = f"https://127.0.0.1:{client.plane.etcd_port}"
    code, text = client.list_secrets(client.config(cluster={"server": server}))
    assert code == 3
    assert text.startswith(f"error: {server} (context test) does not speak TLS as expected: ")
    assert text.count("\n") == 2


def test_web_page_instead_of_json_is_reported(client: Client) -> None:
    with page(b"<html><h1>Welcome to nginx</h1></html>") as server:
        message = f"{server} answered GET /api/v1/namespaces/{HERE}/secrets with something that is not Kubernetes' JSON"
        client.fails(
            client.config(cluster={"server": server}), message, "check the server's address, and proxies in between"
        )


def test_untrusted_certificate_is_reported(client: Client) -> None:
    path = client.directory / "other"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-days", "1"]
    command += ["-keyout", f"{path}.key", "-out", f"{path}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    config = client.config(cluster={"certificate-authority-data": None, "certificate-authority": f"{path}.crt"})
    message = f"the certificate of https://127.0.0.1:{client.plane.port} is not trusted: self-signed certificate"
    client.fails(config, message, "check `certificate-authority` in the kubeconfig")


def test_certificate_for_another_name_is_reported(client: Client) -> None:
    server = f"https://localhost:{client.plane.port}"
    code, text = client.list_secrets(client.config(cluster={"server": server}))
    assert code == 3
    assert text.startswith(f"error: the certificate of {server} is for another name: ")
    assert text.endswith("  = check the server's name, or set `tls-server-name` in the kubeconfig\n")
    client.works(client.config(cluster={"server": server, "tls-server-name": "kubernetes.default.svc"}))


def test_skipped_tls_verification_prints_no_warning(client: Client) -> None:
    """The user has switched verification off deliberately."""
    client.write(
        client.config(
            cluster={
                "certificate-authority-data": None,
                "certificate-authority": None,
                "insecure-skip-tls-verify": True,
            }
        )
    )
    command = [sys.executable, "-m", "gpuctl", "recover", "-n", HERE, "--kubeconfig", str(client.file)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "default"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "Nothing to recover.\n")


# Proxies.


class Tunnels(socketserver.ThreadingTCPServer):
    """A proxy that supports only CONNECT. If ``answer`` is set, it is sent instead of opening a tunnel.

    With a ``context`` the proxy itself is reached by TLS.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answer: bytes | None = None, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.answer = answer
        self.targets: list[str] = []
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.server_address[1]}"
        self._context = context

    def get_request(self) -> tuple[socket.socket, Any]:
        connected, address = super().get_request()
        if self._context is not None:
            try:
                connected = self._context.wrap_socket(connected, server_side=True)
            except ssl.SSLError:
                connected.close()
                raise
        return connected, address


class _Tunnel(socketserver.StreamRequestHandler):
    server: Tunnels

    def handle(self) -> None:
        target = self.rfile.readline().decode().split()[1]
        while self.rfile.readline().strip():
            pass
        self.server.targets.append(target)
        if self.server.answer is not None:
            self.wfile.write(self.server.answer)
            return
        # All host names, also invented ones, lead to the API server on this machine.
        with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2]))) as upstream:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            sides = {self.connection: upstream, upstream: self.connection}
            while True:
                for source in select.select(list(sides), [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    sides[source].sendall(data)


@pytest.fixture
def tunnels() -> Iterator[Callable[..., Tunnels]]:
    """Start proxies that are stopped after the test."""
    with contextlib.ExitStack() as stack:

        def start(answer: bytes | None = None, context: ssl.SSLContext | None = None) -> Tunnels:
            proxy = stack.enter_context(Tunnels(answer, context))
            threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(proxy.shutdown)
            return proxy

        yield start


@contextlib.contextmanager
def page(body: bytes, head: bytes | None = None, requests: list[bytes] | None = None) -> Iterator[str]:
    """Run a web server that is not an API server and yield its URL. Its requests are appended to ``requests``."""
    told = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) if head is None else head

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines = []
            while line := self.rfile.readline().strip():
                lines.append(line)
            if requests is not None:
                requests.append(b"\n".join(lines))
            with contextlib.suppress(OSError):
                self.wfile.write(told + body)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_proxy_of_the_kubeconfig_is_used(client: Client, tunnels: Callable[..., Tunnels]) -> None:
    proxy = tunnels()
    client.works(client.config(cluster={"proxy-url": proxy.url}))
    assert set(proxy.targets) == {f"127.0.0.1:{client.plane.port}"}


def test_proxy_of_the_environment_is_used(
    client: Client, tunnels: Callable[..., Tunnels], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, other = tunnels(), tunnels()
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    away = client.away("api.example.com")
    client.works(client.config(cluster=away))
    assert set(proxy.targets) == {f"api.example.com:{client.plane.port}"}
    proxy.targets.clear()
    client.works(client.config(cluster={**away, "proxy-url": other.url}))
    assert other.targets, "the proxy of the kubeconfig was not used"
    assert not proxy.targets


@pytest.mark.parametrize(
    ("host", "exceptions"),
    [
        ("api.example.com", ""),
        ("api.example.com", "*"),
        ("api.example.com", "example.com"),
        ("api.example.com", ".example.com"),
        ("api.example.com", "*.example.com"),
        ("example.com", ".example.com"),
        ("example.com", "example.com"),
        ("notexample.com", "example.com"),
        ("api.example.com", " other.org , API.Example.com "),
        ("api.example.com", "api.example.com:PORT"),
        ("api.example.com", "api.example.com:1"),
        ("10.1.2.3", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.0/24,192.168.0.0/16"),
        ("10.1.2.3", "10.2.0.0/16"),
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3:PORT"),
        ("10.1.2.3", "10.1.2.3:1"),
        ("10.1.2.3", "2.3"),
        ("[fd00::1]", "fd00::/8"),
        ("[fd00::1]", "[fd00::1]:PORT"),
        ("127.0.0.1", ""),
        ("127.1.2.3", ""),
        ("localhost", ""),
        ("[::1]", ""),
    ],
)
def test_proxy_exceptions_match_kubectl(
    client: Client, tunnels: Callable[..., Tunnels], monkeypatch: pytest.MonkeyPatch, host: str, exceptions: str
) -> None:
    """gpuctl and kubectl use the proxy for the same servers. Some servers are unreachable without it, so only the use
    counts.
    """
    proxy = tunnels()
    client.write(client.config(cluster=client.away(host)))
    environment = {"HTTPS_PROXY": proxy.url, "NO_PROXY": exceptions.replace("PORT", str(client.plane.port))}
    command = [str(client.plane.binaries / "kubectl"), f"--kubeconfig={client.file}", "get", "--raw=/version"]
    command.append("--request-timeout=1s")
    subprocess.run(command, capture_output=True, env={**os.environ, **environment})
    kubectl_uses_proxy = bool(proxy.targets)
    server = client.config(cluster=client.away(host))["clusters"][0]["cluster"]["server"]
    chosen = proxy_for(server, "", environment)
    assert (chosen.url if chosen else None) == (proxy.url if kubectl_uses_proxy else None)


@pytest.mark.parametrize("where", ["kubeconfig", "HTTPS_PROXY"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "ftp"])
def test_unsupported_proxies_are_rejected(
    client: Client, monkeypatch: pytest.MonkeyPatch, where: str, scheme: str
) -> None:
    address = f"{scheme}://me:{client.token}@127.0.0.1:1080"
    away = client.away("api.example.com")
    if where == "kubeconfig":
        config, name = client.config(cluster={**away, "proxy-url": address}), "`proxy-url` of the kubeconfig"
    else:
        monkeypatch.setenv("HTTPS_PROXY", address)
        config, name = client.config(cluster=away), where
    kind = f"a {scheme} proxy" if scheme.startswith("socks") else "not an HTTP proxy"
    client.fails(config, f"the proxy in {name} is {kind}, which is not supported")


def test_proxy_refusal_is_reported(client: Client, tunnels: Callable[..., Tunnels]) -> None:
    proxy = tunnels(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    server = f"https://127.0.0.1:{client.plane.port}"
    said = "Tunnel connection failed: 407 Proxy Authentication Required"
    message = f"{server} (context test) cannot be reached through the proxy {proxy.url}: {said}"
    client.fails(client.config(cluster={"proxy-url": proxy.url}), message, UNREACHABLE)


def test_proxy_certificate_is_verified_by_the_system_trust_store(
    client: Client, tunnels: Callable[..., Tunnels], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system trust store verifies the proxy; the kubeconfig's authority verifies the API server inside the tunnel."""
    own = client.directory / "proxy"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=proxy", "-days", "1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{own}.key", "-out", f"{own}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{own}.crt", f"{own}.key")
    proxy = tunnels(context=context)
    config = client.config(cluster={"proxy-url": proxy.url})
    client.fails(
        config, f"the certificate of https://127.0.0.1:{client.plane.port} is not trusted: self-signed certificate"
    )
    assert proxy.targets == []
    monkeypatch.setenv("SSL_CERT_FILE", f"{own}.crt")
    client.works(config)
    assert set(proxy.targets) == {f"127.0.0.1:{client.plane.port}"}


def test_proxy_for_plain_http_gets_the_full_url(client: Client) -> None:
    """Without a tunnel the proxy gets the absolute URL and the proxy credentials in each request."""
    asked: list[bytes] = []
    with page(b'{"metadata": {}, "items": []}', requests=asked) as proxy:
        stated = proxy.replace("//", "//me:secret@")
        client.works(client.config(cluster={"server": "http://api.example.com:81/of/it", "proxy-url": stated}))
    lines = asked[0].split(b"\n")
    assert lines[0].startswith(f"GET http://api.example.com:81/of/it/api/v1/namespaces/{HERE}/secrets?".encode())
    assert b"Host: api.example.com:81" in lines
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in lines


def test_unreachable_proxy_is_reported(client: Client) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{closed.getsockname()[1]}"
    server = f"https://127.0.0.1:{client.plane.port}"
    message = f"{server} (context test) cannot be reached through the proxy http://{proxy}: connection refused"
    client.fails(client.config(cluster={"proxy-url": f"http://user:{client.token}@{proxy}"}), message, UNREACHABLE)


# In a pod.


@pytest.fixture
def pod(client: Client, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the service account files and variables of a pod; return the directory of the files."""
    from gpuctl.kube import configuration

    directory = client.directory / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text(client.plane.tokens["alice"])
    (directory / "namespace").write_text("team-a\n")
    (directory / "ca.crt").write_bytes((client.plane.directory / "certificates" / "apiserver.crt").read_bytes())
    monkeypatch.setattr(configuration, "_SERVICE_ACCOUNT", directory)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(client.plane.port))
    return directory


def test_pod_service_account_is_used(client: Client, pod: Path) -> None:
    """The pod's namespace is the default; the token file may end with a line break."""
    for token in (client.plane.tokens["alice"], client.plane.tokens["alice"] + "\n"):
        (pod / "token").write_text(token)
        assert client.call("recover", file=False) == (0, "Nothing to recover.\n")


def test_kubeconfig_takes_precedence_over_the_pod(client: Client, pod: Path) -> None:
    (pod / "token").write_text("wrong")
    assert client.call("recover", file=False).code == 3
    client.works(client.config())


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("token", "the token file {} cannot be read: no such file or directory"),
        ("ca.crt", "{}: no such file or directory"),
    ],
)
def test_pod_without_service_account_files_is_reported(client: Client, pod: Path, missing: str, said: str) -> None:
    (pod / missing).unlink()
    code, text = client.call("recover", file=False)
    assert code == 3
    assert text.startswith(f"error: the service account of this pod cannot be used: {said.format(pod / missing)}\n  = ")


# The user as the API server sees it, for gpuctl and for kubectl.


class ReviewedUser(NamedTuple):
    """User info of a SelfSubjectReview."""

    name: str
    groups: list[str]
    uid: str
    extra: dict[str, list[str]]


def reviewed_user(value: Any) -> ReviewedUser:
    """Return the user of a SelfSubjectReview, without fields that differ between connections."""
    info = value["status"]["userInfo"]
    extra = {key: values for key, values in (info.get("extra") or {}).items() if "credential-id" not in key}
    return ReviewedUser(info["username"], info.get("groups") or [], info.get("uid") or "", extra)


def gpuctl_user(client: Client, impersonated: Impersonation | None = None) -> ReviewedUser:
    """Return the user that the server sees for gpuctl."""
    session = open_session(kubeconfig=str(client.file), impersonated=impersonated)
    try:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        return reviewed_user(session.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body))
    finally:
        session.close()


def official_client_user(client: Client) -> ReviewedUser:
    """Return the user that the server sees for the official Python client."""
    from kubernetes import client as untyped
    from kubernetes import config as loading

    library: Any = untyped
    loader: Any = loading
    configuration = library.Configuration()
    loader.load_kube_config(str(client.file), client_configuration=configuration, persist_config=False)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    with library.ApiClient(configuration) as api:
        return reviewed_user(
            library.AuthenticationV1Api(api).create_self_subject_review(body, _preload_content=False).json()
        )


def kubectl_user(client: Client, *options: str) -> ReviewedUser | str:
    """Return the user that the server sees for kubectl, or kubectl's error."""
    command = [str(client.plane.binaries / "kubectl"), f"--kubeconfig={client.file}", "auth", "whoami", "-o", "json"]
    result = subprocess.run([*command, *options], capture_output=True, text=True)
    return reviewed_user(json.loads(result.stdout)) if result.returncode == 0 else result.stderr


EXTRA = {"example.com/Team%1": ["a", "b c"], "scopes": ["x"]}
SHAPES: dict[str, Config] = {
    "token": {},
    "no credentials": {"token": None},
    "as": {"as": "alice"},
    "as with groups": {"as": "alice", "as-groups": ["one", "two, three"], "as-uid": "u-1", "as-user-extra": EXTRA},
    "as a service account": {"as": "system:serviceaccount:team-a:default"},
    "as anonymous": {"as": "system:anonymous"},
    "as in another script": {"as": "\u738b\u82b3"},
    "token file before token": {"token": "wrong", "tokenFile": "alice"},
    "missing token file": {"tokenFile": "nowhere"},
    "token file alone": {"token": None, "tokenFile": "alice"},
    "basic": {"token": None, "username": "alice", "password": "secret"},
    "token before exec": {"exec": {"command": "false", "apiVersion": EXEC_VERSION, "interactiveMode": "Never"}},
    "basic before exec": {
        "token": None,
        "username": "alice",
        "exec": {"command": "false", "apiVersion": EXEC_VERSION, "interactiveMode": "Never"},
    },
    "plugin of v1beta1 without a mode": {
        "token": None,
        "exec": {"command": "./v1beta1", "apiVersion": "client.authentication.k8s.io/v1beta1"},
    },
}


# kubectl's errors where no user is reviewed: anonymous users may not create a SelfSubjectReview, and without
# credentials kubectl prompts for a name and password.
KUBECTL_ERRORS = {
    "no credentials": "error: EOF\n",
    "as anonymous": "you do not have permission to call it",
    "basic": "you do not have permission to call it",
    "basic before exec": "you do not have permission to call it",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_server_sees_the_same_user_as_for_kubectl(client: Client, shape: str) -> None:
    (client.directory / "alice").write_text(client.plane.tokens["alice"] + "\n")
    script = client.directory / "v1beta1"
    script.write_text("#!/bin/sh\n" + credential(client.plane.tokens["bob"]).replace("/v1", "/v1beta1"))
    script.chmod(0o700)
    client.write(client.config(user=SHAPES[shape]))
    expected = kubectl_user(client)
    if isinstance(expected, str):
        assert shape in KUBECTL_ERRORS
        assert KUBECTL_ERRORS[shape] in expected
        with pytest.raises(ApiError, match="user system:anonymous may not create selfsubjectreviews"):
            gpuctl_user(client)
    else:
        assert gpuctl_user(client) == expected


@pytest.mark.parametrize(
    ("options", "impersonated"),
    [
        (["--as=bob"], Impersonation("bob")),
        (["--as=bob", "--as-group=x", "--as-group=y", "--as-uid=7"], Impersonation("bob", ("x", "y"), "7")),
        (["--as-group=x"], Impersonation("", ("x",))),
    ],
)
def test_impersonation_options_match_kubectl(client: Client, options: list[str], impersonated: Impersonation) -> None:
    """Each option takes precedence over its kubeconfig field."""
    client.write(client.config(user={"as": "alice", "as-groups": ["one"], "as-user-extra": EXTRA}))
    assert gpuctl_user(client, impersonated) == kubectl_user(client, *options)


def test_every_kind_of_request_impersonates(client: Client) -> None:
    """Lists, watches, logs, exec and port-forward are rejected because the impersonated user has no rights."""
    client.write(client.config(user={"as": "nobody"}))
    pod = f"/api/v1/namespaces/{HERE}/pods/p"
    session = open_session(kubeconfig=str(client.file))
    roads: list[Callable[[], Any]] = [
        lambda: session.request("GET", "/api/v1/nodes"),
        lambda: session.request("DELETE", pod),
        lambda: list(session.watch(RESOURCES["Pod"], HERE, "0")),
        lambda: session.text(f"{pod}/log"),
        lambda: session.stream(f"{pod}/log", {"follow": "true"}),
        lambda: session.channels(f"{pod}/exec", [("command", "true"), ("stdout", "true")], ("v5.channel.k8s.io",)),
        lambda: session.channels(f"{pod}/portforward", [("ports", "80")], ("v4.channel.k8s.io",)),
    ]
    try:
        for road in roads:
            with pytest.raises(ApiError, match="user nobody may not"):
                road()
    finally:
        session.close()


def test_commands_impersonate_by_kubeconfig_and_options(client: Client) -> None:
    """An admin who impersonates a tenant has only the rights of the tenant."""
    client.write(client.config(user={"as": "bob"}))
    code, text = client.call("recover", "-n", HERE)
    assert (code, text.splitlines()[0]) == (3, f"error: user bob may not list secrets in namespace {HERE}")
    client.write(client.config())
    assert client.call("recover", "-n", "team-b", "--as", "bob").code == 0
    code, text = client.call("recover", "-n", HERE, "--as", "bob", "--as-group", "x", "--as-uid", "1")
    assert (code, text.splitlines()[0]) == (3, f"error: user bob may not list secrets in namespace {HERE}")
    code, text = client.call("recover", "-n", HERE, "--as", "bob", "--as-group", "system:masters")
    assert code == 0
    code, text = client.call("recover", "-n", HERE, "--as-group", "x")
    assert text.startswith("error: a uid or groups to impersonate are given without a user\n")


def test_commands_in_a_pod_impersonate(client: Client, pod: Path) -> None:
    (pod / "token").write_text(client.token)
    code, text = client.call("recover", "-n", HERE, "--as", "bob", file=False)
    assert (code, text.splitlines()[0]) == (3, f"error: user bob may not list secrets in namespace {HERE}")


def test_credentials_are_not_sent_without_tls(client: Client, place: Place) -> None:
    """kubectl does the same. The impersonated user's name is not a secret and is sent."""
    upstream = Upstream(client.plane.port, client.plane.directory / "certificates" / "apiserver.crt")
    with Proxy(client.plane, upstream) as proxy:
        config = client.config(cluster={"server": f"http://127.0.0.1:{proxy.port}"}, user={"as": "alice"})
        client.fails(
            config,
            f"user system:anonymous may not act as another user to list secrets in namespace {HERE}",
            "no credentials were sent: check the user of the kubeconfig's context, and that its server is https://",
        )
        kubectl_user(client)
        sent = [dict(record.request.headers) for record in proxy.records]
        assert {headers["User-Agent"].partition("/")[0] for headers in sent} == {"gpuctl", "kubectl"}
        assert all("Authorization" not in headers and headers["Impersonate-User"] == "alice" for headers in sent)
    upstream.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": {"auth-provider": {"name": "oidc"}}}, "users[admin].user.auth-provider of the kubeconfig FILE is not supported by gpuctl"),
        ({"user": {"impersonate": "bob"}}, "users[admin].user.impersonate of the kubeconfig FILE is not a field that gpuctl knows"),
        ({"cluster": {"ca-file": "x"}}, "clusters[test].cluster.ca-file of the kubeconfig FILE is not a field that gpuctl knows"),
        ({"context": {"as": "bob"}}, "contexts[test].context.as of the kubeconfig FILE is not a field that gpuctl knows"),
        ({"user": {"username": "me"}}, "users[admin].user.username of the kubeconfig FILE is set together with a token"),
        ({"user": {"as-groups": ["x"]}}, "users[admin].user.as-groups of the kubeconfig FILE is set without `as`"),
        ({"user": {"as-uid": "x"}}, "users[admin].user.as-uid of the kubeconfig FILE is set without `as`"),
        ({"user": {"as-user-extra": EXTRA}}, "users[admin].user.as-user-extra of the kubeconfig FILE is set without `as`"),
        ({"user": {"as": "a\nb"}}, "the value for Impersonate-User contains a line break or another control character"),
        ({"user": {"client-certificate-data": "x"}}, "users[admin].user.client-certificate of the kubeconfig FILE is set without client-key"),
        ({"user": {"client-certificate-data": "%", "client-key-data": "%"}}, "users[admin].user.client-certificate-data of the kubeconfig FILE is not base64"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "clusters[test].cluster.certificate-authority-data of the kubeconfig FILE is set together with insecure-skip-tls-verify"),
        ({"context": {"user": None}}, "the context test of the kubeconfig FILE has no user"),
        ({"cluster": {"server": "https://me:secret@127.0.0.1"}}, "clusters[test].cluster.server of the kubeconfig FILE has a user in its address"),
        ({"cluster": {"server": "https://127.0.0.1:x"}}, "the server of the cluster test is https://127.0.0.1:x in the kubeconfig FILE"),
    ],
)  # fmt: skip
def test_unsupported_kubeconfig_fields_are_rejected(client: Client, changes: dict[str, Any], message: str) -> None:
    client.fails(client.config(**changes), message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion of the kubeconfig FILE is not one of client.authentication.k8s.io/v1 and client.authentication.k8s.io/v1beta1"),
        ({"interactiveMode": "Sometimes"}, "exec.interactiveMode of the kubeconfig FILE is not one of Never, IfAvailable, Always"),
        ({"command": ""}, "exec.command of the kubeconfig FILE is empty"),
        ({"timeout": 5}, "exec.timeout of the kubeconfig FILE is not a field that gpuctl knows"),
    ],
)  # fmt: skip
def test_unsupported_exec_plugin_fields_are_rejected(client: Client, fields: dict[str, Any], message: str) -> None:
    client.fails(client.plugin("true", **fields), f"users[admin].user.{message}")


def test_unsupported_fields_of_other_contexts_are_ignored(client: Client) -> None:
    config = client.config()
    config["users"].append({"name": "old", "user": {"auth-provider": {"name": "gcp"}, "unknown": 1}})
    config["preferences"] = {}
    config["extensions"] = []
    client.works(config)


def test_too_large_kubeconfig_is_rejected(client: Client) -> None:
    client.fails(b"#" * (9 * 2**20), "the kubeconfig FILE is larger than 8 MiB")


def test_token_file_is_read_again_when_it_changes(client: Client) -> None:
    path = client.directory / "token"
    path.write_text(client.plane.tokens["alice"])
    client.write(client.config(user={"token": None, "tokenFile": "token"}))
    session = open_session(kubeconfig=str(client.file))
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    names = []
    for token in (client.plane.tokens["alice"], client.plane.tokens["bob"] + "\n", None):
        if token is None:
            path.unlink()
        else:
            path.write_text(token)
        review = session.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
        names.append(reviewed_user(review).name)
    session.close()
    assert names == ["alice", "bob", "bob"], "the last readable token was not kept"


def test_rejected_plugin_credentials_are_renewed_once(client: Client) -> None:
    """A plugin's token without an expiration is rejected by the server: the plugin runs again and the request is
    repeated.
    """
    count = client.directory / "count"
    script = f"echo x >> {count}\nif [ $(wc -l < {count}) = 1 ]; then\n{credential('revoked')}\nelse\n{credential(client.token)}\nfi"
    client.write(client.plugin(script))
    session = open_session(kubeconfig=str(client.file))
    session.request("GET", "/api/v1/nodes")
    session.request("GET", "/api/v1/nodes")
    session.close()
    assert count.read_text() == "x\nx\n"
    count.unlink()
    session = open_session(kubeconfig=str(client.file))
    with pytest.raises(ApiError, match="not found"):
        session.channels(f"/api/v1/namespaces/{HERE}/pods/p/exec", [("command", "true")], ("v5.channel.k8s.io",))
    session.close()
    assert count.read_text() == "x\nx\n", "the WebSocket did not renew the token once"


def test_plugin_whose_tokens_are_rejected_is_called_twice(client: Client) -> None:
    count = client.directory / "count"
    client.fails(
        client.plugin(f"echo x >> {count}\n{credential('revoked')}"),
        "the API server does not accept the credentials (401 Unauthorized)",
    )
    assert count.read_text() == "x\nx\n" * 2, "two commands"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 600", "it gave no answer within 1 s"),
        ("sleep 600 &\nexec cat /dev/zero", "it printed more than 1024 KiB"),
        ("exec >&-; sleep 600", "it did not end within 1 s"),
        ("cat /dev/zero | head -c 100000000 >&2; exit 3", "it ended with exit code 3"),
        ("printf 'TOKEN\\033[31m --token=TOKEN' >&2; exit 3", None),
    ],
)
def test_plugins_that_hang_or_flood_are_stopped(
    client: Client, monkeypatch: pytest.MonkeyPatch, script: str, said: str | None
) -> None:
    # A flood takes long on a busy machine; plugins that hang are stopped after 1 s.
    monkeypatch.setattr("gpuctl.kube.exec_plugin.LONGEST", 1.0 if "within 1 s" in (said or "") else 120.0)
    client.write(client.plugin(script.replace("TOKEN", "hf_abcdefghijklmnopqrstuvwxyz")))
    code, text = client.list_secrets()
    assert code == 3
    assert "\x1b[" not in text
    assert "hf_abc" not in text
    if said is not None:
        assert f" failed: {said}" in text.replace("\\x00", "")


def test_plugin_gets_the_same_cluster_info_as_from_kubectl(client: Client) -> None:
    seen = client.directory / "seen"
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    for version in ("v1", "v1beta1"):
        api_version = f"client.authentication.k8s.io/{version}"
        script = f'printf %s "$KUBERNETES_EXEC_INFO" > {seen}\n{credential(client.token)}'.replace(
            EXEC_VERSION, api_version
        )
        config = client.plugin(script, provideClusterInfo=True, apiVersion=api_version)
        config["clusters"][0]["cluster"] |= {"extensions": [extension], "tls-server-name": "kubernetes.default.svc"}
        client.works(config)
        told = json.loads(seen.read_text())
        assert kubectl_user(client) == gpuctl_user(client)
        kubectl_user(client)
        assert told == json.loads(seen.read_text())
        assert told["spec"]["cluster"]["config"] == {"audience": "x"}


def test_client_certificates_authenticate_as_in_kubectl(client: Client) -> None:
    """Certificates from the kubeconfig's data, from files beside it, and from a plugin."""
    certificate, key = client.plane.client_certificate("carol", "dogs")
    data = [base64.b64encode(part.encode()).decode() for part in (certificate, key)]
    (client.directory / "carol.crt").write_text(certificate)
    (client.directory / "carol.key").write_text(key)
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    value = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status}
    shapes = [
        client.config(user={"token": None, "client-certificate-data": data[0], "client-key-data": data[1]}),
        client.config(user={"token": None, "client-certificate": "carol.crt", "client-key": "carol.key"}),
        client.plugin(f"cat <<'END'\n{json.dumps(value)}\nEND"),
    ]
    for config in shapes:
        client.write(config)
        assert gpuctl_user(client) == kubectl_user(client)
        assert (gpuctl_user(client).name, gpuctl_user(client).groups) == ("carol", ["dogs", "system:authenticated"])
    client.write(shapes[0])
    assert official_client_user(client) == gpuctl_user(client)
    wrong = client.plane.client_certificate("dave", "dogs")[1]
    (client.directory / "carol.key").write_text(wrong)
    message = "the client certificate and key of the user do not belong together, or one of them is not in PEM form"
    client.fails(shapes[1], message)
    session = open_session(kubeconfig=str(client.write(shapes[0])))
    with pytest.raises(ApiError, match="user carol may not"):
        session.channels(f"/api/v1/namespaces/{HERE}/pods/p/exec", [("command", "true")], ("v5.channel.k8s.io",))
    session.close()


def test_official_client_is_not_imported(client: Client) -> None:
    """The import takes 0.3 s, several times as long as `kubectl get`."""
    client.write(client.config())
    code = (
        "import sys; from gpuctl.cli.main import run; "
        f"code = run(['get', 'jobs', '--kubeconfig', {str(client.file)!r}]); "
        "print(code, [name for name in ('kubernetes', 'websocket', 'jsonschema', 'pydantic', 'yaml') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "0 []", result.stderr


# Servers that are malicious, or not API servers.


NOT_KUBERNETES = f"answered GET /api/v1/namespaces/{HERE}/secrets with something that is not Kubernetes' JSON"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[]",
        b"null",
        b"{}",
        b'{"metadata": []}',
        b'{"metadata": {}, "items": 5}',
        b'{"metadata": {}, "items": {"a": 1}}',
        b'{"metadata": {}, "items": [5]}',
        b'{"metadata": {}, "items": [{"metadata": {"name": "x"}}]}',
        b"\xff\xfe",
    ],
)
def test_responses_that_are_not_kubernetes_json_are_reported(client: Client, body: bytes) -> None:
    with page(body) as server:
        client.fails(client.config(cluster={"server": server}), f"{server} {NOT_KUBERNETES}")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 429 Slow\r\nRetry-After: \xb2\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 429 Slow\r\nRetry-After: 999999999999\r\nContent-Length: 2\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"\0" * 100,
        b"",
    ],
)
def test_invalid_response_headers_are_reported(client: Client, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shorten the retries: their duration does not matter here.
    monkeypatch.setitem(ApiRequests.__init__.__kwdefaults__, "patience", 0.5)
    with page(b"{}", head) as server:
        code, text = client.list_secrets(client.config(cluster={"server": server}))
        assert code == 3
        assert text.startswith("error: ")
        assert len(text.splitlines()) <= 2
        assert "<" not in text


def test_too_large_response_is_rejected(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuctl.kube.transport.LARGEST", 2**20)
    with page(b"x" * 5 * 2**20) as server:
        client.fails(client.config(cluster={"server": server}), f"{server} answered with more than 1 MiB")


def test_redirects_are_not_followed(client: Client) -> None:
    """kubectl follows redirects, without credentials for another host. No cluster needs that, and a WebSocket would
    send the credentials.
    """
    asked: list[bytes] = []
    with page(b"{}", requests=asked) as other:
        answer = f"HTTP/1.1 307 Moved\r\nLocation: {other}/login?secret=x\r\nContent-Length: 0\r\n\r\n"
        with page(b"", answer.encode()) as server:
            config = client.config(cluster={"server": server}, user={"as": "alice"})
            client.fails(
                config,
                f"the API server, or a proxy before it, redirects to {other} (status 307)",
                "if that is the API server, make it the `server` of the kubeconfig's cluster",
            )
            session = open_session(kubeconfig=str(client.file))
            with pytest.raises(ConnectionFailed):
                session.channels("/api/v1/namespaces/x/pods/p/exec", [], ("v5.channel.k8s.io",))
            session.close()
    assert asked == []


CONTROL_TEXT = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover"


def test_messages_cannot_control_the_terminal(client: Client, api: Api) -> None:
    """Control characters in an event's message, a pod's status or a server's Status are escaped on a terminal."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": CONTROL_TEXT,
        "reason": "Forbidden",
        "code": 403,
    }
    body = json.dumps(status).encode()
    head = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body)
    with page(body, head) as server:
        client.write(client.config(cluster={"server": server}))
        for command in (["recover", "-n", HERE], ["get", "jobs"], ["describe", "job", "x"], ["logs", "x"]):
            assert not CONTROLS.search(on_a_terminal(*command, f"--kubeconfig={client.file}")[1])


def test_tables_cannot_control_the_terminal(client: Client, place: Place) -> None:
    place.apply(notebook())
    place.running("note")
    pod = next(iter(place.pods("note")))
    patch = {"status": {"phase": "Failed", "reason": CONTROL_TEXT, "message": CONTROL_TEXT}}
    place.plane.kubectl(
        "patch", "pod", pod, "-n", place.namespace, "--subresource=status", "--type=merge", "-p", json.dumps(patch)
    )
    options = ["-n", place.namespace, f"--kubeconfig={place.plane.kubeconfig()}"]
    for command in (["get", "jobs", "-o", "wide"], ["describe", "job", "note"], ["why", "note"]):
        shown = on_a_terminal(*command, *options)[1]
        assert "note" in shown
        assert not CONTROLS.search(shown), command


# gpuctl itself prints only colours and the rewritten progress line.
CONTROLS = re.compile(r"(?!\x1b\[[0-9;]*m|\r\x1b\[2K|\r?\n)[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
