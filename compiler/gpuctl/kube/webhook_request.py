"""A POST of JSON to a webhook, with a limit for the time of the whole request."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from urllib3.exceptions import HTTPError
from urllib3.util import Url, make_headers, parse_url

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.http_client import HttpClient, failure_text, underlying_error
from gpuctl.kube.proxies import proxy_for

WITHIN = 15.0
"""Seconds for a whole request, from the look-up of the name to the end of the answer."""
_LARGEST = 64 * 1024


def post(address: str, value: Mapping[str, Any]) -> bytes:
    """POST a value. Return the body of the answer, at most 64 KiB; less if it does not end in time.

    The address may contain user and password. Redirects are not followed.

    :raises ClusterError: the request failed; the message does not contain secret parts of the address.
    """
    try:
        url = parse_url(address)
    except HTTPError:
        raise ClusterError("the address of the webhook is not a URL") from None
    # For many webhooks the path is the secret.
    name = f"{url.scheme}://{url.netloc}"
    logging.getLogger("urllib3.connection").addFilter(_has_no_address)
    request = _Request(url, name, json.dumps(value, ensure_ascii=False).encode())
    request.start()
    request.join(WITHIN)
    request.abort()
    if request.status is None:
        error = request.error
        reason = f"within {WITHIN:g} s" if error is None else f"({_reason(error)})"
        raise ClusterError(f"the webhook at {name} does not answer {reason}") from None
    if not 200 <= request.status < 300:
        raise ClusterError(f"the webhook at {name} rejected the message: status {request.status}")
    return request.body


class _Request(threading.Thread):
    """A request in a thread of its own, which :meth:`abort` ends: a server that sends one byte at a time is never late
    for a read.

    ``status``: None before the headers of the answer have arrived. ``error``: why the request failed.
    """

    def __init__(self, url: Url, name: str, body: bytes) -> None:
        super().__init__(daemon=True, name="gpuctl-webhook")
        self.status: int | None = None
        self.body = b""
        self.error: Exception | None = None
        self._url, self._server, self._sent = url, name, body
        self._lock = threading.Lock()
        self._client: HttpClient | None = None
        self._aborted = False

    def run(self) -> None:
        try:
            self._exchange()
        except Exception as error:
            # An uncaught error would be printed with the address.
            self.error = error

    def abort(self) -> None:
        """End the request, if it has not ended."""
        with self._lock:
            self._aborted = True
        if self._client is not None:
            self._client.abort()

    def _exchange(self) -> None:
        headers = {"content-type": "application/json"}
        if self._url.auth:
            headers |= make_headers(basic_auth=self._url.auth)
        trust = ssl.create_default_context() if self._url.scheme == "https" else None
        client = self._client = HttpClient(self._server, "", trust, proxy_for(self._server, ""))
        with closing(client):
            reply = client.send("POST", self._url.request_uri, tuple(headers.items()), self._sent, WITHIN)
            with closing(reply):
                with self._lock:
                    # An abort ends the headers where they are.
                    if self._aborted:
                        return
                    self.status = reply.status
                for portion in reply.portions():
                    self.body = (self.body + portion)[:_LARGEST]
                    if len(self.body) == _LARGEST:
                        break


def _reason(error: Exception) -> str:
    """Return the reason of a failure; other errors than those of connections may quote the address."""
    return failure_text(error) if isinstance(underlying_error(error), OSError) else type(error).__name__


def _has_no_address(record: logging.LogRecord) -> bool:
    """Return False for urllib3's warning about the headers of an answer, which contains the whole address."""
    return not str(record.msg).startswith("Failed to parse headers")
