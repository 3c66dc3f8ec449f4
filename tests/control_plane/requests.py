"""Requests to an API server without a kubectl: that costs as much processor time as thirty of them, and reads the schema
of every kind that it creates."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Object = dict[str, Any]

_APPLY = "application/apply-patch+yaml"
_IDLE_ERRORS = (http.client.RemoteDisconnected, http.client.CannotSendRequest, ConnectionError, ssl.SSLEOFError)


class Requests:
    """Requests to the API server as one user. Safe to use from several threads."""

    def __init__(self, port: int, token: str, authority: Path) -> None:
        self._port = port
        self._token = token
        self._context = ssl.create_default_context(cafile=str(authority))
        self._local = threading.local()

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = ""
    ) -> tuple[int, Object]:
        """Status and decoded body of an answer. Patches are merge patches unless ``content_type`` says otherwise."""
        status, answer = self._answer(method, path, body, content_type)
        # What is at no path of the API is answered in plain text.
        return status, json.loads(answer) if answer.startswith(b"{") else {"message": answer.decode()}

    def is_ready(self) -> bool:
        """Return True if the server reports that it is ready."""
        try:
            return self._answer("GET", "/readyz")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = ""
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        data = None
        if body is not None:
            # What is applied is read as YAML, which has no pairs of escapes for a character.
            data = json.dumps(body, ensure_ascii=False).encode()
            patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers["Content-Type"] = content_type or patch
        for attempt in (1, 2):
            connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=self._context)
                self._local.connection = connection
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                return response.status, response.read()
            except _IDLE_ERRORS:
                # The server was restarted since the last request of this thread, or that was 90 seconds ago.
                connection.close()
                self._local.connection = None
                if attempt == 2:
                    raise
            except BaseException:
                # What it would answer next belongs to the request that was given up.
                connection.close()
                self._local.connection = None
                raise
        raise AssertionError("unreachable")

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = "") -> Object:
        """Like :meth:`request`; anything but success raises."""
        status, value = self.request(method, path, body, content_type)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {value.get('message', value)}")
        return value

    def submit(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Create an object as kubectl does: strictly, and in ``default`` where it is in no namespace and has to be."""
        options = "fieldManager=kubectl-create&fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        namespace = obj["metadata"].get("namespace")
        status, value = self.request("POST", f"{_collection(obj, namespace)}?{options}", obj)
        if status == http.client.METHOD_NOT_ALLOWED and not namespace:
            status, value = self.request("POST", f"{_collection(obj, 'default')}?{options}", obj)
        if status >= 300:
            name = f"{obj['kind']} {obj['metadata'].get('name')}"
            raise RuntimeError(f"create {name}: {status} {value.get('message', value)}")
        return value

    def try_out(self, obj: Mapping[str, Any]) -> tuple[int, Object]:
        """Return the answer of the server's strict validation to an object; nothing is stored.

        As with kubectl, a namespaced object without a namespace is in ``default``.
        """
        options = "fieldManager=kubectl&fieldValidation=Strict&dryRun=All&force=true"
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace")
        for place in (namespace,) if namespace else (None, "default"):
            status, value = self.request("PATCH", f"{_collection(obj, place)}/{name}?{options}", obj, _APPLY)
            if status not in (http.client.NOT_FOUND, http.client.METHOD_NOT_ALLOWED):
                break
        return status, value


def _collection(obj: Mapping[str, Any], namespace: str | None) -> str:
    """The path of an object's kind, whose plural is guessed as kubectl does where it knows nothing."""
    version, kind = obj["apiVersion"], obj["kind"].lower()
    if kind.endswith("s"):
        kind += "es"
    else:
        kind = kind.removesuffix("y") + "ies" if kind.endswith("y") else kind + "s"
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{prefix}/namespaces/{namespace}/{kind}" if namespace else f"{prefix}/{kind}"
