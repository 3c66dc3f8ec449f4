"""Credential plugins: programs that print a token or a client certificate for the API server.

Source: ``k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go``. The plugin's standard output is secret and never shown
in messages. On a terminal its standard error goes to the user, for example to show a login address.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import IO, Any

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.credentials import ClientCertificate, Credential, bearer
from gpuctl.language.display_text import visible
from gpuctl.language.masking import redact
from gpuctl.objects.timestamps import parse_timestamp

LONGEST = 300.0
"""Seconds after which a plugin is killed; the user may be logging in."""
_LARGEST = 1024 * 1024
_INSTALL = "install the plugin, or correct `exec.command` in the kubeconfig"


@dataclass(eq=False)
class ExecPlugin:
    """The credential plugin of a kubeconfig's user.

    ``version``: its apiVersion. ``cluster``: the description of the cluster that is passed to it; None: not passed.
    """

    command: str
    user: str
    version: str
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    mode: str = "IfAvailable"
    hint: str = ""
    cluster: Mapping[str, Any] | None = None
    _credential: Credential | None = None
    _expires: datetime | None = None

    def current(self) -> Credential:
        """Return the credential; the plugin runs again when the last one has expired.

        :raises ConfigurationError: the plugin failed.
        """
        if self._credential is None or (self._expires is not None and datetime.now(timezone.utc) >= self._expires):
            self._credential, self._expires = self._parsed(self._run())
        return self._credential

    def renew(self, refused: Credential) -> bool:
        """Run the plugin again, unless another thread has already. Return True if the credential has changed."""
        if self._credential == refused:
            self._credential = None
        return self.current() != refused

    def _run(self) -> bytes:
        interactive = self._interactive()
        spec: dict[str, Any] = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        told = {"kind": "ExecCredential", "apiVersion": self.version, "spec": spec}
        environment = {**os.environ, **self.variables, "KUBERNETES_EXEC_INFO": json.dumps(told)}
        try:
            with subprocess.Popen(
                [self.command, *self.arguments],
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if sys.stderr.isatty() else subprocess.PIPE,
                env=environment,
            ) as process:
                return self._read(process)
        except OSError as error:
            raise self._failure((error.strerror or str(error)).lower(), self.hint or _INSTALL) from None
        except ValueError:
            # The command line contains a NUL.
            raise self._failure("its command line cannot be passed on") from None

    def _interactive(self) -> bool:
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self.mode == "Always" and not terminal:
            raise self._failure("it needs a terminal, and standard input is not one")
        return self.mode != "Never" and terminal

    def _read(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return the plugin's output, limited in size and time; children of the plugin may keep its streams open."""
        deadline = time.monotonic() + LONGEST
        out, said = bytearray(), bytearray()
        open_streams: dict[IO[bytes], bytearray] = {process.stdout: out} if process.stdout else {}
        if process.stderr is not None:
            open_streams[process.stderr] = said
        problem = ""
        try:
            while process.stdout in open_streams and not problem:
                ready, _, _ = select.select(list(open_streams), [], [], max(0.0, deadline - time.monotonic()))
                for stream in ready:
                    data = os.read(stream.fileno(), 65536)
                    open_streams[stream] += data
                    if not data:
                        del open_streams[stream]
                if len(out) > _LARGEST:
                    problem = f"it printed more than {_LARGEST // 1024} KiB"
                elif not ready:
                    problem = f"it gave no answer within {LONGEST:.0f} s"
                del said[: -4 * _LARGEST // 1024]
            code = process.wait(max(0.1, deadline - time.monotonic())) if not problem else 0
        except subprocess.TimeoutExpired:
            problem = f"it did not end within {LONGEST:.0f} s"
        finally:
            if process.poll() is None:
                process.kill()
        if process.stderr in open_streams and process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
            said += process.stderr.read(_LARGEST) or b""
        if problem:
            raise self._failure(problem)
        if code:
            words = " ".join(_redacted(said.decode("utf-8", "replace")).split())[-300:]
            raise self._failure(f"it ended with exit code {code}" + (f": {words}" if words else ""))
        return bytes(out)

    def _parsed(self, output: bytes) -> tuple[Credential, datetime | None]:
        try:
            value = json.loads(output)
        except (ValueError, RecursionError):
            raise self._failure("its output is not JSON") from None
        status = value.get("status") if isinstance(value, dict) else None
        if not isinstance(value, dict) or value.get("kind") != "ExecCredential" or not isinstance(status, dict):
            raise self._failure("its output is not an ExecCredential with a status")
        if value.get("apiVersion") != self.version:
            given = visible(str(value.get("apiVersion")))[:60]
            raise self._failure(f"its output has apiVersion {given}, the kubeconfig asks for {self.version}")
        texts = {name: status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")}
        if not all(isinstance(text, str) for text in texts.values()):
            raise self._failure("its output is not an ExecCredential with a status")
        token, certificate, key = texts.values()
        if not (token or certificate or key):
            raise self._failure("its output has neither token nor client certificate")
        if bool(certificate) != bool(key):
            raise self._failure("its output has a client certificate without key, or a key without certificate")
        pair = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
        return Credential(bearer(token) if token else "", pair), self._moment(status.get("expirationTimestamp"))

    def _moment(self, stamp: Any) -> datetime | None:
        if stamp is None:
            return None
        try:
            return parse_timestamp(str(stamp))
        except ValueError:
            raise self._failure("the expirationTimestamp of its output is not a time") from None

    def _failure(self, why: str, hint: str = "") -> ConfigurationError:
        return ConfigurationError(
            f"the credential plugin {visible(self.command)} of the user {visible(self.user)} failed: {why}",
            visible(hint or self.hint) or "run it by hand to see more",
        )


def _redacted(text: str) -> str:
    return visible(redact(text.replace("\n", " ")))
